package fix

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// candidate is a change that may make a finding go away.
type candidate struct {
	text  string // the change in short, without its result
	steps []Step
	// grow is the candidate with what its trial has shown to be missing with it,
	// nil when that is nothing.
	grow func(*lint.Result) *candidate
}

// kinds are the changes that a rule may name, and what each comes to for a
// finding, the best first.
var kinds = map[string]func(*planner, context.Context, *lint.Finding) ([]candidate, error){
	"link":      local((*planner).links),
	"path":      local((*planner).paths),
	"drop":      local((*planner).drops),
	"remove":    local((*planner).removals),
	"ldconf":    local((*planner).caches),
	"execstack": (*planner).stacks,
	"unpreload": local((*planner).unpreloads),
	"variable":  local((*planner).variables),
	"add":       (*planner).adds,
	"newer":     (*planner).newer,
	"replace":   (*planner).replacements,
}

// local is a kind that asks nobody.
func local(of func(*planner, *lint.Finding) []candidate) func(*planner, context.Context, *lint.Finding) ([]candidate, error) {
	return func(p *planner, _ context.Context, f *lint.Finding) ([]candidate, error) { return of(p, f), nil }
}

// maxOfKind bounds what one kind offers for one finding.
const maxOfKind = 6

const libraryPath = "LD_LIBRARY_PATH"

// elements are those of the search path as it is planned.
func (p *planner) elements() []string { return elementsOf(p.now.img) }

// elementsOf are the directories of the search path that an image sets.
func elementsOf(img *replay.Image) []string {
	var list []string
	for _, e := range (packs.Edit{}).Elements(getVar(environment(img), libraryPath)) {
		if e != "" && len(list) < maxElements {
			list = append(list, e)
		}
	}
	return list
}

// paths append the directories that have the library to LD_LIBRARY_PATH: behind
// what is there, so that as little as can be is found elsewhere than now. Where it
// is found, and is the wrong one, the directory of another comes first.
func (p *planner) paths(f *lint.Finding) []candidate {
	var list []candidate
	for _, dir := range p.directories(f) {
		if f.Kind == packs.Missing {
			list = append(list, candidate{text: "LD_LIBRARY_PATH with " + dir, steps: []Step{appendPath(dir)}})
		} else {
			list = append(list, candidate{text: fmt.Sprintf("LD_LIBRARY_PATH with %s first", dir), steps: []Step{prependPath(dir)}})
		}
	}
	return list
}

// variables do what the finding's rule says of variables, where that changes
// them.
func (p *planner) variables(f *lint.Finding) []candidate {
	var list []candidate
	for _, e := range p.packs.Edits(f.Rule, f.Values) {
		old := getVar(environment(p.now.img), e.Variable)
		if value := e.Apply(old); value != old {
			list = append(list, candidate{text: e.Variable + "=" + value, steps: []Step{editStep("variable", e)}})
		}
	}
	return list
}

// editStep is the change of a variable, in words.
func editStep(kind string, e packs.Edit) Step {
	s := Step{Kind: kind, Variable: e.Variable, edit: e}
	switch e.Op {
	case "append":
		s.Text = fmt.Sprintf("append %s to %s", e.Value, e.Variable)
	case "prepend":
		s.Text = fmt.Sprintf("put %s first in %s", e.Value, e.Variable)
	case "last":
		s.Text = fmt.Sprintf("move %s to the end of %s", e.Value, e.Variable)
	case "drop":
		s.Text = fmt.Sprintf("take %s out of %s", e.Value, e.Variable)
	case "tidy":
		s.Text = fmt.Sprintf("take the empty elements out of %s", e.Variable)
	case "set":
		s.Text = fmt.Sprintf("set %s to %s", e.Variable, e.Value)
	}
	if kind != "variable" {
		s.Path = e.Value
	}
	return s
}

// unpreloads take an element out of LD_PRELOAD.
func (p *planner) unpreloads(*lint.Finding) []candidate {
	var list []candidate
	const separators = ": " // ld.so(8), LD_PRELOAD
	for _, e := range (packs.Edit{Separator: separators}).Elements(getVar(environment(p.now.img), "LD_PRELOAD")) {
		if e != "" {
			edit := packs.Edit{Variable: "LD_PRELOAD", Op: "drop", Separator: separators, Value: e}
			list = append(list, candidate{text: "LD_PRELOAD without " + e, steps: []Step{editStep("unpreload", edit)}})
		}
	}
	return list
}

// searchPath is a change of LD_LIBRARY_PATH by one directory.
func searchPath(kind, op, dir string) Step {
	return editStep(kind, packs.Edit{Variable: libraryPath, Op: op, Value: dir})
}

func appendPath(dir string) Step  { return searchPath("path", "append", dir) }
func prependPath(dir string) Step { return searchPath("path", "prepend", dir) }

// directories are those where a library is present, those of the one who asks
// first: its site-packages, its prefix.
func (p *planner) directories(f *lint.Finding) []string {
	var list []string
	for _, file := range offers(f) {
		if dir := path.Dir(file.Path); !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	near := ""
	if len(f.NeededBy) > 0 {
		near = f.NeededBy[0].Path
	}
	slices.SortStableFunc(list, func(a, b string) int { return common(b, near) - common(a, near) })
	return list
}

// common is how many directories two paths share from the root.
func common(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < len(as) && n < len(bs) && as[n] == bs[n] {
		n++
	}
	return n
}

// hashed is a library that auditwheel has given a name of its own.
var hashed = regexp.MustCompile(`-[0-9a-f]{8}\.so`)

// offered reports whether a file may be made use of by others. A stub is there
// to link with and fails when it is called; what a wheel has vendored belongs to
// it alone; what the driver's mounts will cover is gone when the image runs.
func offered(file string) bool {
	return !hashed.MatchString(path.Base(file)) && !covered(path.Dir(file)) && !strings.Contains(path.Dir(file)+"/", ".libs/")
}

// covered reports whether what lies in a directory is not what runs: stubs, and
// what the driver's mounts and the container runtime bring.
func covered(dir string) bool {
	parts := strings.Split(dir, "/")
	return slices.Contains(parts, "stubs") || slices.Contains(parts, "compat") || strings.HasPrefix(dir+"/", "/usr/local/nvidia/")
}

// plainName is the name that a library had before auditwheel gave it one of its
// own: libcudnn.so.9.1.0 of libcudnn-74a4c495.so.9.1.0.
func plainName(name string) string { return hashed.ReplaceAllString(path.Base(name), ".so") }

// Bounds on what is looked at of an image that has thousands of anything.
const (
	maxOffers   = 32
	maxSiblings = 64
	maxElements = 256
	maxRemoved  = 256
)

// offers are the files that a finding has present and that may be made use of.
func offers(f *lint.Finding) []replay.File {
	var list []replay.File
	for _, file := range f.Present {
		if offered(file.Path) && len(list) < maxOffers {
			list = append(list, file)
		}
	}
	return list
}

// links make the name that is asked for beside the file that is the library
// under another name, and those of its sub-libraries. Where the loader does not
// come by, the link is put where the asking file looks, or the path leads there.
func (p *planner) links(f *lint.Finding) []candidate {
	var list []candidate
	if f.Library == "" || path.Base(f.Library) != f.Library {
		return nil
	}
	for _, file := range offers(f) {
		dir, base := path.Dir(file.Path), path.Base(file.Path)
		if p.ofOtherCUDA(f, file.Path) {
			continue
		}
		steps := append([]Step{link(dir, f.Library, base)}, p.siblings(dir, f.Library)...)
		beside := candidate{text: fmt.Sprintf("the link %s/%s", dir, f.Library), steps: steps}
		if base != f.Library {
			list = append(list, beside)
		}
		for _, own := range p.ownDirs(f) {
			if own != dir {
				steps := append([]Step{link(own, f.Library, file.Path)}, p.siblingsIn(own, dir, f.Library)...)
				list = append(list, candidate{text: fmt.Sprintf("links in %s to %s", own, dir), steps: steps})
			}
		}
		if base != f.Library && !isSystem(dir) && !slices.ContainsFunc(p.elements(), func(e string) bool { return packs.SameElement(e, dir) }) {
			list = append(list, beside.and(" and LD_LIBRARY_PATH with "+dir, appendPath(dir)))
		}
	}
	return list
}

// ofOtherCUDA reports whether a file is a library of another major version of CUDA
// than those who ask are built for: under a name without a version they would take
// it, and get what does not fit.
func (p *planner) ofOtherCUDA(f *lint.Finding, file string) bool {
	is, want := provide.CUDAOf([]string{path.Base(p.real(file))}), p.cudaMajor(f)
	return is != "" && want != "" && is != want
}

func link(dir, name, target string) Step {
	p := path.Join(dir, name)
	return Step{
		Kind: "link", Text: fmt.Sprintf("link %s -> %s", p, target), Path: p, Link: target,
		files: []file{linkFile(p, target)},
	}
}

// siblings are links for the sub-libraries beside a library that have no file of
// their SONAME either.
func (p *planner) siblings(dir, name string) []Step {
	var list []Step
	for e := range p.now.img.FS.Below(dir) {
		if len(list) == maxSiblings {
			break
		}
		if e.Object == nil || e.Object.Soname == "" || path.Dir("/"+e.Path) != dir || !together(name, e.Object.Soname) {
			continue
		}
		if _, err := p.now.img.FS.Find(dir + "/" + e.Object.Soname); err != nil && goodName(e.Object.Soname) && e.Object.Soname != name {
			list = append(list, link(dir, e.Object.Soname, path.Base(e.Path)))
		}
	}
	return slices.CompactFunc(list, func(a, b Step) bool { return a.Path == b.Path })
}

// siblingsIn are links in one directory to the sub-libraries in another: a
// library that is found by a link looks for them where the link is.
func (p *planner) siblingsIn(own, dir, name string) []Step {
	var list []Step
	seen := map[string]bool{name: true}
	for e := range p.now.img.FS.Below(dir) {
		if len(list) == maxSiblings {
			break
		}
		if path.Dir("/"+e.Path) != dir {
			continue
		}
		file, err := p.now.img.FS.Find("/" + e.Path)
		if err != nil || file.Object == nil || !together(name, file.Object.Soname) || seen[file.Object.Soname] || !goodName(file.Object.Soname) || stem(file.Object.Soname) == stem(name) {
			continue
		}
		seen[file.Object.Soname] = true
		list = append(list, link(own, file.Object.Soname, "/"+e.Path))
	}
	return list
}

// together reports whether two SONAMEs are of libraries that come together:
// libcudnn.so.9 and libcudnn_ops.so.9, of the same major version.
func together(a, b string) bool {
	stem := func(s string) (string, string) {
		name, version, _ := strings.Cut(s, ".so")
		name, _, _ = strings.Cut(name, "_")
		return name, version
	}
	an, av := stem(a)
	bn, bv := stem(b)
	return an == bn && (av == bv || av == "" || bv == "")
}

func goodName(n string) bool {
	return n != "" && n != "." && n != ".." && len(n) <= 255 && n == path.Base(n) && !strings.ContainsRune(n, 0)
}

// ownDirs are the directories that the RPATH or RUNPATH of the asking file names
// and that are its own: its directory, or one of its wheel's for the library.
func (p *planner) ownDirs(f *lint.Finding) []string {
	var wheel, own []string
	for _, s := range f.Searched {
		if !strings.Contains(s.Source, "RPATH") && !strings.Contains(s.Source, "RUNPATH") {
			continue
		}
		for _, place := range s.Places {
			dir := path.Clean(place.Dir)
			switch {
			case !strings.HasPrefix(dir, "/") || covered(dir) || isSystem(dir) || slices.Contains(slices.Concat(wheel, own), dir):
			case provide.LibraryOf(f.Library).InWheel(dir):
				wheel = append(wheel, dir)
			case slices.ContainsFunc(f.NeededBy, func(n replay.File) bool { return path.Dir(n.Path) == p.real(dir) }):
				own = append(own, dir)
			}
		}
	}
	return append(wheel, own...)
}

// isSystem reports whether a directory is one that the distribution's packages
// own.
func isSystem(dir string) bool {
	rest, ok := strings.CutPrefix(dir, "/usr")
	if !ok {
		rest = dir
	}
	return rest == "" || dir == "/" || strings.HasPrefix(rest+"/", "/lib/") || strings.HasPrefix(rest+"/", "/lib64/") || strings.HasPrefix(rest+"/", "/bin/") || strings.HasPrefix(rest+"/", "/sbin/") || dir == "/usr/local/lib" || dir == "/usr/local/bin"
}

// drops let another copy be found: an element of LD_LIBRARY_PATH is moved behind
// the others, or taken out.
func (p *planner) drops(f *lint.Finding) []candidate {
	elements := slices.DeleteFunc(elementsOf(p.base), func(e string) bool { return !slices.Contains(p.elements(), e) })
	last := elementsOf(p.now.img)
	guilty := p.guilty(f)
	if about := slices.DeleteFunc(slices.Clone(elements), func(e string) bool { return !guilty[p.real(e)] }); len(about) > 0 {
		elements = about
	}
	slices.SortStableFunc(elements, func(a, b string) int { return order(guilty[p.real(b)], guilty[p.real(a)]) })
	var list []candidate
	for _, e := range elements {
		if !packs.SameElement(e, last[len(last)-1]) {
			list = append(list, candidate{text: fmt.Sprintf("LD_LIBRARY_PATH with %s last", e), steps: []Step{searchPath("drop", "last", e)}})
		}
		list = append(list, candidate{text: fmt.Sprintf("LD_LIBRARY_PATH without %s", e), steps: []Step{searchPath("drop", "drop", e)}})
	}
	return list
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// guilty are the real directories of the files that a finding is about.
func (p *planner) guilty(f *lint.Finding) map[string]bool {
	dirs := map[string]bool{}
	for _, s := range p.subjects(f) {
		dirs[p.real(path.Dir(s))] = true
		dirs[path.Dir(p.real(s))] = true
	}
	return dirs
}

// real is where a path leads, or would when it were there.
func (p *planner) real(s string) string {
	if e, _, ok := p.now.img.FS.Lookup(s); ok {
		return "/" + e.Path
	}
	return realPath(p.now.img.FS, s)
}

// wrong returns the file that the loader finds and cannot use, or that lacks what is
// asked of it, by the path in the finding; empty for another kind of finding.
func wrong(f *lint.Finding) string {
	if slices.Contains([]packs.Kind{packs.Missing, packs.Unusable, packs.Version, packs.Symbol}, f.Kind) && strings.HasPrefix(f.Subject, "/") {
		return f.Subject
	}
	return ""
}

// subjects returns the files that a finding is about: the copy that is asked and does
// not have what is wanted; where there is none, the one that is wrong, and those that
// are present.
func (p *planner) subjects(f *lint.Finding) []string {
	if f.BoundTo != nil {
		return []string{f.BoundTo.Path}
	}
	var list []string
	if file := wrong(f); file != "" {
		list = append(list, file)
	}
	for _, file := range f.Present {
		if !slices.Contains(list, file.Path) {
			list = append(list, file.Path)
		}
	}
	return list
}

// removals hide files that stand before good ones, which stay in their layer: the copy
// that is asked and does not have what is wanted; else the file that is wrong, what is
// present in one directory, all that is present.
func (p *planner) removals(f *lint.Finding) []candidate {
	if f.BoundTo != nil {
		if c := p.removal([]string{f.BoundTo.Path}); len(c.steps) > 0 {
			return []candidate{c}
		}
		return nil
	}
	var list []candidate
	for _, files := range p.removable(f) {
		c := p.removal(files)
		if len(c.steps) > 0 && !slices.ContainsFunc(list, func(o candidate) bool { return o.text == c.text }) {
			list = append(list, c)
		}
	}
	return list
}

// removable returns the groups of files that may be removed for a finding.
func (p *planner) removable(f *lint.Finding) [][]string {
	var groups [][]string
	if file := wrong(f); file != "" {
		groups = append(groups, []string{p.real(file)})
	}
	var all, dirs []string
	byDir := map[string][]string{}
	for _, file := range f.Present {
		all = append(all, file.Path)
		dir := path.Dir(file.Path)
		if byDir[dir] == nil {
			dirs = append(dirs, dir)
		}
		byDir[dir] = append(byDir[dir], file.Path)
	}
	for _, dir := range dirs {
		groups = append(groups, byDir[dir])
	}
	return append(groups, all)
}

func (p *planner) removal(files []string) candidate {
	var c candidate
	if len(files) > maxRemoved {
		return c
	}
	for _, name := range files {
		if e, _, ok := p.now.img.FS.Lstat(name); !ok || e.IsDir() || e.Type == layers.Other {
			return candidate{}
		}
		c.steps = append(c.steps, Step{Kind: "remove", Text: "remove " + name, Path: name, files: []file{removedFile(name)}})
	}
	switch len(files) {
	case 0:
	case 1:
		c.text = "without " + files[0]
	default:
		c.text = fmt.Sprintf("without %s and %s", files[0], plural(len(files)-1, "other"))
	}
	return c
}
