package dockerlint

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Limits of the files of the build context that a Dockerfile's instructions read together, in
// bytes: a file counts each time that it is read, and as at least minContext.
const (
	maxContext = 64 << 20
	minContext = 4 << 10
)

// contextFile returns a file of the build context by its path in the image, and its name
// in the context. why begins with ": ".
func (w *walk) contextFile(name string) (text []byte, from, why string) {
	at := w.at(name, true)
	for i := len(w.copies) - 1; i >= 0 && at != ""; i-- {
		c := w.copies[i]
		for _, src := range c.from {
			if from = c.source(src, at); from == "" || w.context == nil {
				continue
			}
			if *w.room <= 0 {
				return nil, "", fmt.Sprintf(": the file's instructions read more than %d MiB of the context", maxContext>>20)
			}
			text, ok := w.context(from)
			*w.room -= max(len(text), minContext)
			if ok {
				return text, from, ""
			}
		}
	}
	if w.context == nil {
		return nil, "", ": the build context is not read"
	}
	return nil, "", ": no COPY of the context has it"
}

// source returns the file of the context that a COPY of src puts at a path, or "".
func (c *copied) source(src, at string) string {
	src = path.Clean(strings.TrimPrefix(src, "/"))
	to := strings.TrimSuffix(c.to, "/")
	switch {
	case c.to == "":
		return ""
	case at == to && !strings.HasSuffix(c.to, "/"), at == to+"/"+path.Base(src):
		return src
	}
	if ok, _ := path.Match(path.Base(src), path.Base(at)); ok && path.Dir(at) == to {
		return path.Join(path.Dir(src), path.Base(at))
	}
	if rest, ok := strings.CutPrefix(at, to+"/"); ok {
		return path.Join(src, rest)
	}
	return ""
}

// pinned returns the distributions of one environment that are pinned, as they are after
// all installs. A later install that may change one takes it out.
func (w *walk) pinned(python string) map[string]*wheel {
	list := map[string]*wheel{}
	for order, in := range w.installs {
		if in.python != python || in.elsewhere {
			continue
		}
		if len(in.unknown) > 0 || in.maybe {
			clear(list)
		}
		for i := range in.wheels {
			x := &in.wheels[i]
			delete(list, x.name)
			if x.version != "" && !in.maybe && !x.maybe {
				x.order = order
				list[x.name] = x
			}
		}
	}
	return list
}

// environments returns the Pythons that packages are installed for, each once, in the order of the file.
func (w *walk) environments() []string {
	var list []string
	for _, in := range w.installs {
		if !slices.Contains(list, in.python) {
			list = append(list, in.python)
		}
	}
	return list
}

// fits judges pinned releases against one another, by the packs' tables.
func (w *walk) fits() {
	for _, python := range w.environments() {
		list := w.pinned(python)
		for _, p := range w.Packs.Pairs {
			w.pair(p, list[p.Package], list[p.For])
		}
		for _, row := range w.Packs.MadeFor {
			w.madeFor(row, list)
		}
		w.builtFor(list)
	}
}

// torchTag matches the release of torch in the local version of an extension's wheel:
// flash-attn's 2.5.8+cu122torch2.3cxx11abiFALSE, pyg's 2.1.2+pt24cu121.
var torchTag = regexp.MustCompile(`\+(?:[a-z0-9.]*?torch(\d+\.\d+)|pt(\d)(\d+)cu)`)

// maxRequires limits the packages that the index is asked about in [walk.builtFor].
const maxRequires = 20

// builtFor judges wheels that are built for one release of torch, as their names say, or, if they
// are installed without what they require, their metadata.
func (w *walk) builtFor(list map[string]*wheel) {
	torch := list["torch"]
	if torch == nil {
		return
	}
	asked := 0
	for _, name := range sortedNames(list) {
		x := list[name]
		wants := ""
		if m := torchTag.FindStringSubmatch(x.version); m != nil {
			wants = cmp.Or(m[1], m[2]+"."+m[3])
			if version.ParseRelease(torch.version).First(2).String() == wants {
				continue
			}
		} else if w.wheelOf != nil && x != torch && w.installs[x.order].noDeps && asked < maxRequires {
			asked++
			wants = w.torchOf(x, torch)
		}
		if wants == "" {
			continue
		}
		f := w.finding("wheels-do-not-fit", "built-for", x.line, values{"package": x.name, "version": x.version, "wants": wants, "installed": torch.version, "where": torch.place(x)})
		f.Column = x.column
		if by := w.changedBy(max(x.order, torch.order)); by != "" {
			f.Severity, f.Because = packs.Note, by
		}
		w.add(f)
	}
}

// torchOf returns the releases of torch that a package requires, if torch's is none of them.
func (w *walk) torchOf(x, torch *wheel) string {
	from, known := w.installs[x.order].asks(x)
	if !known {
		return ""
	}
	got, why := w.wheelOf(x.name, x.spec, from)
	if why != "" || got == nil {
		return ""
	}
	public, _, _ := strings.Cut(torch.version, "+")
	for _, r := range RequiredBy(got.Requires, "", w.installs[x.order].markers) {
		if ok, err := version.Satisfies(public, r.Spec); r.Name == "torch" && strings.HasPrefix(r.Spec, "==") && err == nil && !ok {
			return strings.TrimPrefix(r.Spec, "==")
		}
	}
	return ""
}

func (w *walk) pair(p *packs.Pair, x, of *wheel) {
	if x == nil || of == nil {
		return
	}
	has, release := packs.Numbers(x.version, 2), packs.Numbers(of.version, 2)
	fits := p.Versions[release]
	if fits == "" || fits == has {
		return
	}
	if x.order > of.order && !w.installs[x.order].noDeps {
		return // its release of the other one replaces that
	}
	wants := "another " + p.For
	for r, v := range p.Versions {
		if v == has {
			wants = r
		}
	}
	f := w.finding("wheels-do-not-fit", "pair", x.line, values{"package": x.name, "version": x.version, "for": of.name, "wants": wants, "installed": of.version, "fits": fits, "where": of.place(x)})
	f.Column = x.column
	if by := w.changedBy(max(x.order, of.order)); by != "" && f.Severity != packs.Note {
		f.Severity, f.Because = packs.Note, by
	}
	w.add(f)
}

// changedBy names a package that a later install brings and that may replace what is installed
// before, or is empty.
func (w *walk) changedBy(order int) string {
	for _, in := range w.installs[order+1:] {
		if in.python != w.installs[order].python || in.elsewhere || in.noDeps {
			continue
		}
		for i := range in.wheels {
			if x := &in.wheels[i]; !x.plain && !listed(w.Plain, x.name) && !slices.Contains(w.Tools, x.name) {
				return fmt.Sprintf("line %d installs %s, which may replace one of them", x.line, x.name)
			}
		}
	}
	return ""
}

// place says where a wheel is named, for a finding about another one.
func (x *wheel) place(of *wheel) string {
	switch {
	case x.where != "":
		return x.where
	case x.line == of.line:
		return "the same line"
	}
	return "line " + strconv.Itoa(x.line)
}

func (w *walk) madeFor(row *packs.MadeFor, list map[string]*wheel) {
	for _, name := range sortedNames(list) {
		x := list[name]
		if !packs.Match(row.Package, name) {
			continue
		}
		if ok, err := version.Satisfies(x.version, row.Versions); err != nil || !ok {
			continue
		}
		r, err := inventory.ParseRequirement(row.Of(x.version))
		if err != nil || list[r.Name] == nil {
			continue
		}
		of := list[r.Name]
		if ok, err := version.Satisfies(of.version, r.Specifiers); err != nil || ok {
			continue
		}
		f := w.finding("wheels-do-not-fit", "made-for", of.line, values{"package": x.name, "version": x.version, "needs": r.Name + r.Specifiers, "for": of.name, "installed": of.version, "effect": row.Effect, "where": x.place(of)})
		f.Severity, f.Column = row.Severity, of.column
		if by := w.changedBy(max(x.order, of.order)); by != "" {
			f.Severity, f.Because = packs.Note, by
		}
		w.add(f)
	}
}

func sortedNames(list map[string]*wheel) (names []string) {
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// needs judges what pinned packages need of the system against the base and what the
// instructions add.
func (w *walk) needs() {
	if w.libraries() == nil || len(w.installs) == 0 {
		return
	}
	said := map[string]bool{}
	for _, in := range w.installs {
		for i := range in.wheels {
			x := &in.wheels[i]
			if said[x.name+x.version] || w.judged[x] { // a second `uv sync` of the same lock
				continue
			}
			said[x.name+x.version] = true
			n := w.need(x, in.python)
			if n == nil || x.maybe || in.elsewhere || in.maybe || w.otherIndex(in, x) || x.extras != n.Extra || w.broughtBy(x) {
				continue
			}
			if w.base == nil {
				w.unknown = append(w.unknown, Unknown{w.from.Line, "whether the base image has the CUDA and cuDNN of its tag, which is assumed"})
			}
			cuda, cudnn := w.majors()
			if n.CUDA != "" && !slices.Contains(cuda, n.CUDA) {
				w.lacks(x, "CUDA", n.CUDA, cuda, n)
			} else if n.CUDNN != "" && !slices.Contains(cudnn, n.CUDNN) {
				w.lacks(x, "cuDNN", n.CUDNN, cudnn, n)
			} else {
				w.lacksParts(x, n)
			}
		}
	}
}

// need returns the libraries that a package needs, or nil if they are not known: a row of
// the tables, or a stack of the packs.
func (w *walk) need(x *wheel, python string) *Need {
	known := false
	for _, n := range w.askedOf() {
		if n.Package != x.name || n.Extra != "" && n.Extra != x.extras {
			continue
		}
		known = true
		if ok, err := version.Satisfies(x.version, n.Versions); x.version != "" && err == nil && ok {
			return n
		}
	}
	if n := w.newest(x, python); n != nil {
		x.why = ""
		return n
	}
	for _, n := range w.askedOf() {
		if ok, err := version.Satisfies(x.taken, n.Versions); n.Package == x.name && (n.Extra == "" || n.Extra == x.extras) && x.version == "" && x.taken != "" && err == nil && ok {
			return n
		}
	}
	if known {
		why := ""
		if x.why != "" {
			why, x.why = ": "+x.why, ""
		}
		w.unknown = append(w.unknown, Unknown{x.line, fmt.Sprintf("which libraries %s%s needs", x.name, cmp.Or(x.spec, spaced(x.taken), ", without a release,")) + why})
	}
	return nil
}

// spaced returns a release behind a space, or "".
func spaced(release string) string {
	if release == "" {
		return ""
	}
	return " " + release
}

// newest returns what a package that is installed without a release needs, if the image will have
// the libraries of none of the releases that pip may take; else nil.
func (w *walk) newest(x *wheel, python string) *Need {
	i := slices.IndexFunc(w.Newest, func(n *Newest) bool { return n.Package == x.name })
	if i < 0 || x.spec != "" || w.constrainedIn(x) || x.version != "" || w.libraries().Wheels[x.name] != "" || packs.MatchAny(w.Newest[i].NotOn, path.Base(w.from.Ref)) || strings.HasPrefix(python, "conda:") || oldPython.MatchString(minorOf.FindString(python)) {
		return nil
	}
	row := w.Newest[i]
	cuda, cudnn := w.majors()
	out := &Need{Package: x.name, From: row.From}
	for _, n := range row.Needs {
		switch {
		case !slices.Contains(cuda, n.CUDA):
			if out.CUDNN == "" {
				out.CUDA = strings.TrimPrefix(out.CUDA+" or "+n.CUDA, " or ")
			}
		case !slices.Contains(cudnn, n.CUDNN):
			out.CUDA, out.CUDNN = n.CUDA, n.CUDNN
		default:
			return nil
		}
	}
	if out.CUDNN == "" {
		out.CUDNN = row.Needs[0].CUDNN
	}
	return out
}

// constrainedIn reports whether constraints that are not known may choose a package's release.
func (w *walk) constrainedIn(x *wheel) bool {
	return slices.ContainsFunc(w.installs, func(in *install) bool {
		return in.constrained && slices.ContainsFunc(in.wheels, func(o wheel) bool { return o.name == x.name && o.line == x.line })
	})
}

// oldPython matches the releases for which packages have no new wheels.
var oldPython = regexp.MustCompile(`^3\.[0-7]$`)

// askedOf returns the rows of packages whose libraries are asked of the base: of those that run on a
// CPU as well, only if it has CUDA.
func (w *walk) askedOf() []*Need {
	cuda := len(w.libraries().CUDA) > 0
	return slices.DeleteFunc(w.allNeeds(cuda), func(n *Need) bool { return !cuda && listed(w.OnCPU, n.Package) })
}

// allNeeds returns the rows of the tables and of the packs. Those of a framework that is often
// installed for its CPU side, TensorFlow, hold if incidental is set.
func (w *walk) allNeeds(incidental bool) []*Need {
	rows := slices.Clone(w.Needs)
	for _, s := range w.Packs.Stacks {
		if s.Build == "" && (incidental || !s.Incidental) {
			rows = append(rows, &Need{Package: s.Package, Versions: s.Versions, CUDA: s.CUDA, CUDNN: packs.Numbers(s.CUDNN, 1)})
		}
	}
	return rows
}

// hasNeeds reports whether a package is known to need libraries, so that it brings none.
func (w *walk) hasNeeds(name string) bool {
	return slices.ContainsFunc(w.allNeeds(false), func(n *Need) bool { return n.Package == name && n.Extra == "" })
}

// otherIndex reports whether an index that is not PyPI may have another build of a package
// that the tables know: its needs are then not known.
func (w *walk) otherIndex(in *install, x *wheel) bool {
	other := in.others() || x.index != "" && !in.isPyPI(x.index)
	if in.locked {
		return other
	}
	if other {
		w.unknown = append(w.unknown, Unknown{x.line, "which build of " + x.name + " another index has"})
	}
	return other
}

// broughtBy reports whether another package of the file or the base brings CUDA libraries of
// its own, which may serve this one.
func (w *walk) broughtBy(x *wheel) bool {
	others := func(name string) bool {
		return name != x.name && (packs.MatchAny([]string{"torch", "tensorflow", "jax", "vllm", "paddlepaddle-gpu", "faster-whisper", "nvidia-*"}, name) || w.Packs.GPUWheels.Has(name))
	}
	for _, in := range w.installs {
		if slices.ContainsFunc(in.wheels, func(o wheel) bool { return others(o.name) }) {
			return true
		}
	}
	for name := range w.libraries().Wheels {
		if others(name) {
			return true
		}
	}
	return false
}

var (
	aptCUDNN = regexp.MustCompile(`^(?:lib)?cudnn([0-9]+)`)
	aptCUDA  = regexp.MustCompile(`^(?:cuda|libcublas)(?:-[a-z]+)*-([0-9]+)-[0-9]+$`)
)

// libraries returns the base, else what its tag says of its libraries, else nil.
func (w *walk) libraries() *Base {
	if w.base != nil {
		return w.base
	}
	return w.assumed
}

// majors returns the major versions of CUDA and cuDNN that the image will have, as far as
// they are known.
func (w *walk) majors() (cuda, cudnn []string) {
	base := w.libraries()
	cuda, cudnn = slices.Clone(base.CUDA), slices.Clone(base.CUDNN)
	cuda, cudnn = append(cuda, w.condaCUDA...), append(cudnn, w.condaCUDNN...)
	for _, p := range w.adds {
		if m := aptCUDNN.FindStringSubmatch(p.name); m != nil {
			cudnn = append(cudnn, m[1])
		}
		if m := aptCUDA.FindStringSubmatch(p.name); m != nil {
			cuda = append(cuda, m[1])
		}
	}
	return cuda, cudnn
}

// lacks reports a library that a package needs and the image will not have.
func (w *walk) lacks(x *wheel, library, needs string, has []string, n *Need) {
	v := values{"package": x.name, "version": x.release(), "library": library, "needs": needs, "base": w.from.Ref, "from": w.fromLine(), "has": strings.Join(has, ", "), "advice": w.advice(library, n)}
	if n.From != "" {
		v["version"] = "without a release, " + n.From + " or later,"
	}
	if x.where != "" {
		v["version"] += " (" + x.where + ")"
	}
	clause := "absent"
	if len(has) > 0 {
		clause = "other"
		if library == "cuDNN" {
			for _, p := range w.adds {
				if m := aptCUDNN.FindStringSubmatch(p.name); m != nil && m[1] == has[len(has)-1] && len(w.libraries().CUDNN) == 0 {
					v["has"] += ", with " + p.name + " of line " + strconv.Itoa(p.line)
				}
			}
		}
	}
	u := w.mayAdd(x, library)
	if u != "" || w.base == nil {
		if len(has) == 0 {
			v["has"] = "none"
		} else {
			v["has"] = library + " " + v["has"]
		}
	}
	if w.base == nil {
		clause, v["why"] = "assumed", w.why
	}
	if u != "" {
		clause, v["unknown"] = "perhaps", u
	}
	f := w.finding("wheel-needs-library", clause, x.line, v)
	f.Column = x.column
	if n.From == "" {
		f.assume(x)
	}
	w.add(f)
}

// fromLine returns the line of FROM, for a finding about what the base image has.
func (w *walk) fromLine() string {
	line := strconv.Itoa(w.from.Line)
	if w.base == nil {
		line += ", assumed from its tag"
	}
	return line
}

// toolkitPackage matches packages of NVIDIA's repositories that have libraries of the CUDA toolkit, and no cuDNN.
var toolkitPackage = regexp.MustCompile(`^(?:cuda-[a-z-]+-[0-9]|lib(?:cublas|cufft|curand|cusolver|cusparse|npp|nvjpeg|nccl)[a-z-]*[0-9])`)

// mayAdd names what may add a library that a package lacks and is not known, or is empty. library
// is CUDA or cuDNN.
func (w *walk) mayAdd(x *wheel, library string) string {
	for _, o := range w.installs {
		if by := w.mayBring(o, x); by != "" {
			return by
		}
	}
	for _, p := range w.condas {
		if cudaPackage.MatchString(p.name) || packs.MatchAny([]string{"pytorch*", "tensorflow*", "jax*", "cupy*"}, p.name) {
			return fmt.Sprintf("conda's %s (line %d) may bring it", p.name, p.line)
		}
	}
	for _, p := range w.adds {
		if library == "cuDNN" && (toolkitPackage.MatchString(p.name) || aptCUDNN.MatchString(p.name)) {
			continue // majors has it, or it has none
		}
		if cudaPackage.MatchString(p.name) {
			return "the package " + p.name + " may bring it"
		}
	}
	for _, u := range w.unknown {
		if u.Line != w.from.Line {
			return fmt.Sprintf("line %d may add it, which is not known: %s", u.Line, u.Why)
		}
	}
	if len(w.copies) > 0 {
		for _, c := range w.copies {
			if !c.bringsLibrary() {
				continue
			}
			if c.to == "" || strings.HasPrefix(c.to, "/usr") || strings.HasPrefix(c.to, "/lib") || c.to == "/" {
				return "a COPY below /usr may add it"
			}
		}
	}
	return ""
}

// bringsLibrary reports whether a library may be among the files of a COPY.
func (c *copied) bringsLibrary() bool {
	return slices.ContainsFunc(c.from, func(from string) bool { return !noLibrary(from, "") })
}

var cudaTag = regexp.MustCompile(`^((?:docker\.io/)?nvidia/cuda:)((\d+)\.(\d+)\.(\d+))-(base|runtime|devel)-(.*)$`)

// advice returns what to base the image on.
func (w *walk) advice(library string, n *Need) string {
	m := cudaTag.FindStringSubmatch(w.from.Ref)
	if library == "cuDNN" && n.CUDNN == "9" && m != nil && (n.CUDA == "" || n.CUDA == m[3]) {
		if r := version.ParseRelease(m[2]); !r.Before(version.ParseRelease("12.4.1")) {
			flavor := m[6]
			if flavor == "base" {
				flavor = "runtime"
			}
			return fmt.Sprintf("base the image on %s%s-cudnn-%s-%s", m[1], m[2], flavor, m[7])
		}
	}
	text := "base the image on an nvidia/cuda image"
	if n.CUDA != "" {
		text += " of CUDA " + n.CUDA
	}
	if n.CUDNN != "" {
		text += " with cuDNN " + n.CUDNN + " (-cudnn- in its tag)"
	}
	return text
}
