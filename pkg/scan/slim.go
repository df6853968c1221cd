package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/slim"
	"github.com/imgcheck/imgcheck/pkg/targets"
	"github.com/imgcheck/imgcheck/rules"
)

// SafeClasses are the classes of package size whose files go if none is named: no container has
// the first, no program that could be followed uses the second, and nothing of the image leads to
// the third.
var SafeClasses = []string{size.Replaced, packageCache, size.AbandonedCopies}

// packageCache is the class of caches, which no installer lists.
const packageCache = "package-cache"

// Slimmed is an image and the files that it can do without, proven by a replay of the image
// without them.
type Slimmed struct {
	Base *patch.Image
	Plan *slim.Plan
	// Size is what the image has, with the classes to drop and GPU code.
	Size *size.Result
	// Kept are files of the classes to drop that stay, because the image needs them.
	Kept []size.Kept
}

// SlimOptions say which bytes of an image go.
type SlimOptions struct {
	// Classes are those of package size whose files go; none means [SafeClasses].
	Classes []string
	// GPUs are those that the image is for: GPU code that none of them needs goes. Without any,
	// all stays.
	GPUs []targets.Machine
	// Modify are the IDs of clauses ([slim.Terms]) that the user may act against.
	Modify []string
}

// Slim reads and judges base, one of the images that [patch.OpenBase] has found behind ref, and
// plans to drop files and GPU code. A file that a replayed process maps stays. It returns a
// [*WorseError] if the image would be worse without the bytes of the plan: if there were a finding
// more, or one that weighs more, a process mapped other files, or the verdict on one of the GPUs was
// another one.
func Slim(ctx context.Context, ref string, base *patch.Image, so SlimOptions, o Options) (*Slimmed, error) {
	known, err := size.LoadClasses(rules.FS)
	if err != nil {
		return nil, err
	}
	terms, err := slim.LoadTerms(rules.FS)
	if err != nil {
		return nil, err
	}
	if err := so.check(known, terms); err != nil {
		return nil, err
	}
	img, err := base.Open(ctx, o.reading())
	if err != nil {
		return nil, err
	}
	defer img.Close()
	o.Machines = so.GPUs
	j, read, err := judgeLayers(ctx, ref, img, o)
	if err != nil {
		return nil, err
	}
	evidence := j.evidence
	j.evidence = nil // or two of them are kept while the new image is judged
	s := &Slimmed{Base: base}
	if s.Size, err = size.Find(ctx, size.Image{Layers: read, FS: j.Image.FS, Evidence: evidence, Packs: j.Packs, GPUs: so.architectures(), Read: img.ReadFiles}, known); err != nil {
		return nil, err
	}
	s.Size.Groups = slices.DeleteFunc(s.Size.Groups, func(g size.Group) bool { return !slices.Contains(so.Classes, g.ID) && g.ID != size.GPUCode })
	chosen := slices.DeleteFunc(slices.Clone(s.Size.Groups), func(g size.Group) bool { return g.ID == size.GPUCode })
	s.Kept = slices.DeleteFunc(slices.Clone(s.Size.Kept), func(k size.Kept) bool { return !slices.Contains(so.Classes, k.ID) })
	leave := leaving(chosen, evidence)
	if s.Plan, err = slim.New(read, j.Image.FS, chosen, j.stays(leave)); err != nil {
		return nil, err
	}
	var verdicts []*targets.Row
	if len(so.GPUs) > 0 {
		if verdicts, err = j.verdictsWithout(s.Plan, chosen, leave, evidence); err != nil {
			return nil, err
		}
	}
	o.begin(Rewriting)
	if len(so.GPUs) > 0 {
		if forced(j.Image.Config) {
			return nil, &WorseError{j.about.Ref, errors.New("CUDA_FORCE_PTX_JIT=1 in its environment lets the driver use PTX alone")}
		}
		if err := s.Plan.Strip(ctx, img, so.needs(), slim.Leave(terms, so.Modify)); err != nil {
			return nil, err
		}
	}
	if err := s.Plan.Correct(ctx, img); err != nil {
		return nil, err
	}
	if s.Plan.Empty() {
		return s, nil
	}
	o.begin(Judging)
	if err := j.proveSlim(ctx, s.Plan, leave, so.GPUs, verdicts); err != nil {
		return nil, err
	}
	s.Plan.Settle()
	return s, nil
}

// check checks the names of classes and clauses, and sets the classes if none is named.
func (so *SlimOptions) check(known []*size.Class, terms []*slim.Terms) error {
	for _, c := range so.Classes {
		if c == size.GPUCode {
			return errors.New("GPU code goes with --gpu, which names the GPUs whose code stays")
		}
		if c == size.BuilderResources && len(so.GPUs) == 0 {
			return errors.New("the kernels of TensorRT's builder go with --gpu, which names the GPUs whose kernels stay")
		}
		if !slices.ContainsFunc(known, func(k *size.Class) bool { return k.ID == c }) {
			return fmt.Errorf("there is no class %q: say %s", c, classNames(known))
		}
	}
	for _, m := range so.Modify {
		if ids := slim.Clauses(terms); !slices.Contains(ids, m) {
			return fmt.Errorf("there is no clause %q: say %s", m, strings.Join(ids, " or "))
		}
	}
	if len(so.Classes) == 0 {
		so.Classes = SafeClasses
	}
	return nil
}

// architectures returns those of the GPUs.
func (so *SlimOptions) architectures() []uint32 {
	var list []uint32
	for _, m := range so.GPUs {
		list = append(list, m.Arch)
	}
	return list
}

// needs returns which entries of a container the GPUs need.
func (so *SlimOptions) needs() slim.Needs {
	archs := so.architectures()
	return func(entries []gpucode.Entry) []bool { return targets.Known().Needed(entries, archs) }
}

// forced reports whether a config's environment lets the driver use PTX alone.
func forced(c *v1.ConfigFile) bool {
	return c != nil && slices.ContainsFunc(c.Config.Env, func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return name == "CUDA_FORCE_PTX_JIT" && value != "0" && value != ""
	})
}

func classNames(list []*size.Class) string {
	var names []string
	for _, c := range list {
		names = append(names, c.ID)
	}
	return strings.Join(names, ", ")
}

// leaving returns the titles of the processes that there are not any more without the packages of groups.
func leaving(groups []size.Group, evidence *replay.Evidence) map[string]bool {
	titles := map[string]bool{}
	for _, g := range groups {
		for _, p := range evidence.Processes {
			if g.Runs(p) {
				titles[p.Title] = true
			}
		}
	}
	return titles
}

// verdictsWithout returns the table of GPUs of an image that has lost the files which go, and still has all GPU code in the files that
// stay. Processes that leave do not count.
func (j *Judged) verdictsWithout(plan *slim.Plan, groups []size.Group, leave map[string]bool, evidence *replay.Evidence) ([]*targets.Row, error) {
	fsys, err := plan.After()
	if err != nil {
		return nil, fmt.Errorf("without the files that can go, the image would have others: %w", err)
	}
	processes, starts := evidence.Processes, evidence.Starts
	defer func() { evidence.Processes, evidence.Starts = processes, starts }()
	evidence.Processes = slices.DeleteFunc(slices.Clone(processes), func(p *replay.Process) bool { return leave[p.Title] })
	evidence.Starts = slices.DeleteFunc(slices.Clone(starts), func(s *replay.Start) bool {
		return s.Package != "" && slices.ContainsFunc(groups, func(g size.Group) bool {
			return slices.ContainsFunc(g.Packages, func(p size.Package) bool { return p.Kind == "" && p.Name == s.Package })
		})
	})
	return lint.GPURows(evidence, &replay.Image{FS: fsys, Config: j.Image.Config, Machines: j.Image.Machines}, j.Packs), nil
}

// stays returns a function that says why a file of a class must stay: a process maps it that does not leave, or a
// record of an installer that slim does not change may name it.
func (j *Judged) stays(leave map[string]bool) func(class, path string) string {
	by := map[string]string{}
	for _, p := range j.Result.Processes {
		if leave[p.Title] {
			continue
		}
		for _, f := range p.Mapped {
			if by[f] == "" {
				by[f] = p.Title + " loads it"
			}
		}
	}
	system, conda := false, map[string]bool{}
	for _, p := range j.Result.Inventory.Packages {
		switch p.Kind {
		case inventory.Conda:
			conda[p.Dir] = true
		case inventory.RPM, inventory.APK:
			system = true
		}
	}
	return func(class, file string) string {
		if by[file] != "" || class == size.Replaced || class == packageCache {
			return by[file]
		}
		wheel := false
		for dir := path.Dir(file); dir != "/"; dir = path.Dir(dir) {
			if conda[dir] {
				return "conda's records of " + dir + " may name it, and slim does not take it out of them"
			}
			wheel = wheel || path.Base(dir) == "site-packages" || path.Base(dir) == "dist-packages"
		}
		if system && !wheel {
			return "the database of rpm or apk may name it, and slim does not change that"
		}
		return ""
	}
}

// proveSlim judges the image as a plan changes it, without the processes that leave. verdicts are those on GPUs
// of the image without the files that go.
func (j *Judged) proveSlim(ctx context.Context, plan *slim.Plan, leave map[string]bool, gpus []targets.Machine, verdicts []*targets.Row) error {
	fsys, err := plan.After()
	if err != nil {
		return fmt.Errorf("without the files that can go, the image would have others: %w", err)
	}
	now := &replay.Image{FS: fsys, Config: j.Image.Config, Machines: j.Image.Machines}
	res, evidence, err := lint.RunWithEvidence(ctx, now, j.Packs)
	if err != nil {
		return err
	}
	if err := fix.NotWorse(j.Result, res, j.Image.FS, j.counts); err != nil {
		return &WorseError{j.about.Ref, err}
	}
	stay := slices.DeleteFunc(slices.Clone(j.Result.Processes), func(p lint.Process) bool { return leave[p.Title] })
	if err := sameMaps(stay, res.Processes); err != nil {
		return &WorseError{j.about.Ref, err}
	}
	if len(gpus) == 0 {
		return nil
	}
	after := lint.GPURows(evidence, now, j.Packs)
	for _, m := range gpus {
		if a, b := rowOf(verdicts, m), rowOf(after, m); !reflect.DeepEqual(a, b) {
			return &WorseError{j.about.Ref, fmt.Errorf("the verdict on %s would be another one", m.Name())}
		}
	}
	return nil
}

// rowOf returns the verdict on a GPU, or nil.
func rowOf(rows []*targets.Row, m targets.Machine) *targets.Row {
	i := slices.IndexFunc(rows, func(r *targets.Row) bool { return r.Arch == fmt.Sprintf("%d.%d", m.Arch/10, m.Arch%10) })
	if i < 0 {
		return nil
	}
	return rows[i]
}

// sameMaps returns an error unless the processes are the same and map the same files.
func sameMaps(before, after []lint.Process) error {
	for i, p := range before {
		if i >= len(after) || after[i].Title != p.Title {
			return fmt.Errorf("%s would not run as before", p.Title)
		}
		for _, f := range p.Mapped {
			if !slices.Contains(after[i].Mapped, f) {
				return fmt.Errorf("%s would not load %s", p.Title, f)
			}
		}
		if len(after[i].Mapped) > len(p.Mapped) {
			return fmt.Errorf("%s would load other files", p.Title)
		}
	}
	if len(after) > len(before) {
		return fmt.Errorf("%s would run, which does not now", after[len(before)].Title)
	}
	return nil
}

// WorseError says why an image would be worse with a change.
type WorseError struct {
	Ref    string // of the image
	Reason error
}

func (e *WorseError) Error() string {
	return fmt.Sprintf("%s: without these bytes the image would not be as it is: %v", e.Ref, e.Reason)
}

func (e *WorseError) Unwrap() error { return e.Reason }

// Rewrite returns the image with its new layers, for [patch.PublishRewritten].
func (s *Slimmed) Rewrite() *patch.Rewrite {
	r := &patch.Rewrite{Base: s.Base, Layers: map[int]func(context.Context, io.Writer) error{}}
	for _, i := range s.Plan.Layers() {
		r.Layers[i] = func(ctx context.Context, w io.Writer) error { return s.Plan.Write(ctx, s.Base.Image, i, w) }
	}
	return r
}

// judgeLayers does as judge, and also returns the indexes of the layers.
func judgeLayers(ctx context.Context, ref string, img *layers.Image, o Options) (*Judged, []*layers.Layer, error) {
	o.begin(Reading)
	set, read, fsys, err := readBoth(ctx, img, o.rules())
	if err != nil {
		return nil, nil, err
	}
	j, err := judged(ctx, ref, img, o, set, fsys)
	return j, read, err
}
