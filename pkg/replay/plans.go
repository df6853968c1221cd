package replay

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Process is one process as its plan makes it: a framework that is imported, or a
// program that needs GPU libraries, and then all that they and their libraries
// open by name.
type Process struct {
	Title   string
	In      *Install         // nil for a program
	Program string           // its path, empty when there is none
	proc    *elfdeps.Process // until all has been opened
	Loaded  []Loaded         // what it holds then
	opened  int              // opens that succeeded
	Missed  []MissedOpen
	done    map[openKey]bool
}

// openKey is one who opens and what.
type openKey struct {
	by   *elfdeps.Module
	open *packs.Open
}

// MissedOpen is an open that failed, and what that means.
type MissedOpen struct {
	By      string // path of the one who opens
	Name    string // of the names, the one to tell
	Err     *elfdeps.Error
	Verdict packs.Verdict
	Effect  packs.Effect
	Also    []packs.Effect // what else fails
	Front   string         // the library whose part it is, as SONAME; empty for a framework's own
	part    string
	Cuda    string // its major version in the process
}

// follow makes the processes of the plans and lets them open what they would. A
// framework that cannot be imported, and a program that does not start, have been
// told of: their processes end there.
func (pl *plans) follow() {
	if pl.re.loaders.Primary == nil {
		return
	}
	files := map[mappedAs]*elfdeps.Module{}
	for _, in := range pl.re.ev.Installs {
		if len(in.Steps) == 0 {
			continue
		}
		if r := pl.runInstall(in); r != nil {
			r.end(files)
			pl.re.ev.Processes = append(pl.re.ev.Processes, r)
		}
	}
	for _, p := range pl.re.programs() {
		if r := pl.runProgram(p); r != nil {
			r.end(files)
			pl.re.ev.Processes = append(pl.re.ev.Processes, r)
		}
	}
}

// Loaded is what is asked of a module when its process is no more. Thousands of
// programs load the same hundred libraries: one file's module is shared.
type Loaded struct {
	*elfdeps.Module        // its file and name
	How             string // the step of the search that found it; empty where it was opened by its path
	By              string // who asked for it; empty for the program
}

// mappedAs is a file under the name that a loader has for it.
type mappedAs struct{ real, path string }

// end lets go of the process, and notes what it holds.
func (r *Process) end(files map[mappedAs]*elfdeps.Module) {
	r.Loaded = make([]Loaded, 0, len(r.proc.Objects))
	for _, m := range r.proc.Objects {
		l := Loaded{How: howOf(m)}
		if m.By != nil && !m.By.Main {
			l.By = m.By.Real()
		}
		f := mappedAs{m.Real(), m.Path}
		if files[f] == nil {
			files[f] = &elfdeps.Module{Path: m.Path, Object: m.Object, File: m.File}
		}
		l.Module = files[f]
		r.Loaded = append(r.Loaded, l)
	}
	for i := range r.Missed {
		if e := r.Missed[i].Err; e.Kind != elfdeps.SymbolError { // whose cause is looked for among what is loaded
			r.Missed[i].Err = e.Alone()
		}
	}
	r.proc.Rest() // of the others
	r.proc, r.done = nil, nil
}

// host is a loader of the image on a machine with a GPU.
func (lo *Loaders) host(l *elfdeps.Loader) *elfdeps.Loader {
	if h, ok := lo.hosts[l]; ok {
		return h
	}
	h, err := elfdeps.NewLoader(lo.gpuHost(l), l.Path, lo.config.Env())
	if err != nil {
		h = nil
	}
	lo.hosts[l] = h
	return h
}

// programs are the programs that load GPU libraries when they start and have all
// that they need.
func (re *replayer) programs() []*Object {
	var list []*Object
	for _, o := range re.files.Objects {
		if _, ok := re.loadsGPU.Load(o.Path); ok && len(re.files.Real(o.Misses)) == 0 {
			list = append(list, o)
		}
	}
	return list
}

// runProgram starts a program. Its symbols are not bound here: symbols.go asks for
// them, of each library once.
func (pl *plans) runProgram(o *Object) *Process {
	host := pl.re.loaders.host(o.Loader)
	if host == nil {
		return nil
	}
	p, err := host.Trace(o.Path)
	if err != nil {
		return nil
	}
	p.Settle()
	r := &Process{Title: o.Path, Program: o.Path, proc: p, done: map[openKey]bool{}}
	pl.openAll(r)
	return r
}

// runInstall is the process of a framework, nil when there is no loader for it.
// Where all of the import was found, it is not bound again: symbols.go does that,
// and it takes most of the time.
func (pl *plans) runInstall(in *Install) *Process {
	host := pl.re.loaders.host(pl.re.loaders.Primary)
	if host == nil {
		return nil
	}
	program := pl.re.loaders.hostOfInstall(in, host)
	r := &Process{Title: in.Title + " at " + in.Home, In: in, Program: program, proc: trace(host, program), done: map[openKey]bool{}}
	if len(in.Failures) > 0 && in.goesOn() {
		r.proc.Settle() // what fails is unloaded
	}
	pl.re.runSteps(r.proc, in)
	if !in.goesOn() {
		return r
	}
	r.proc.Settle()
	pl.openAll(r)
	pl.helpRun(r, host)
	pl.withoutGPU(r)
	return r
}

// trace is a process of a program, or one that brings nothing, that goes past what
// it misses.
func trace(host *elfdeps.Loader, program string) *elfdeps.Process {
	if program != "" {
		if p, err := host.Trace(program); err == nil {
			return p
		}
	}
	return host.Bare()
}

// goesOn reports whether a framework can be imported: what fails, if anything, is a
// feature.
func (in *Install) goesOn() bool {
	return !slices.ContainsFunc(in.Failures, func(f Failure) bool { return !f.Step.Feature })
}

// withoutGPU makes less of what a framework misses that opens none of its GPU
// libraries and is often used so.
func (pl *plans) withoutGPU(r *Process) {
	if !r.In.CPUToo || r.opened > 0 {
		return
	}
	for i := range r.Missed {
		m := &r.Missed[i]
		if pl.re.config.wantsGPU() || pl.broughtFor(r.In, m.Err.Name) {
			m.Verdict = m.Verdict.AtMost(pl.re.packs.Verdict("without-gpu", nil))
			continue
		}
		m.Verdict = pl.re.packs.Verdict("meant-without-gpu", nil)
	}
}

// broughtFor reports whether a library is there as a wheel beside a framework, and
// no other framework that it could be for: somebody has installed it.
func (pl *plans) broughtFor(in *Install, name string) bool {
	alone := !slices.ContainsFunc(pl.re.ev.Installs, func(o *Install) bool { return o.Site == in.Site && !o.CPUToo && len(o.Preload)+len(o.Later) > 0 })
	return alone && slices.ContainsFunc(pl.re.files.Present(name), func(p string) bool { return pl.re.files.InWheelDir(strings.TrimPrefix(p, in.Site+"/")) })
}

// InWheelDir reports whether a path below a directory of Python packages is below one that
// holds the libraries of wheels.
func (fi *Files) InWheelDir(rel string) bool {
	top, _, below := strings.Cut(rel, "/")
	return below && packs.IsKnown(fi.packs.WheelDirs, top)
}

// wantsGPU reports whether an image is made for a GPU, by its environment.
func (co *Config) wantsGPU() bool {
	return slices.ContainsFunc(co.Env().Vars, func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return value != "" && value != "void" && value != "none" && (name == "NVIDIA_VISIBLE_DEVICES" || name == "NVIDIA_REQUIRE_CUDA" || name == "CUDA_VERSION")
	})
}

// pythonOf is the interpreter that loads what lies at a path, and starts; empty
// when there is none.
func (lo *Loaders) pythonOf(p string, host *elfdeps.Loader) string {
	for _, python := range lo.Pythons(p) {
		e, _, ok := lo.img.FS.Lookup(python)
		if !ok || e.Object == nil || e.Object.Interp != host.Path {
			continue
		}
		if _, err := host.Trace(python); err == nil {
			return python
		}
	}
	return ""
}

// helpRun looks for what makes the opens of a process succeed that fail by
// themselves.
func (pl *plans) helpRun(r *Process, host *elfdeps.Loader) {
	if len(r.Missed) == 0 {
		return
	}
	for i := range r.In.Helped {
		h := &r.In.Helped[i]
		again := &Process{Title: r.Title, In: r.In, Program: r.Program, proc: trace(host, r.Program), done: map[openKey]bool{}}
		begun := pl.re.begins(r.In, h)
		if len(r.In.Failures) > 0 && r.In.Help != h && !begun || !pl.re.helpIn(again.proc, r.In, h) {
			continue
		}
		pl.re.runSteps(again.proc, r.In)
		again.proc.Settle()
		pl.openAll(again)
		for i := range r.Missed {
			m := &r.Missed[i]
			still := slices.ContainsFunc(again.Missed, func(o MissedOpen) bool { return o.part == m.part && o.Name == m.Name })
			if !still && (begun || m.Verdict.Severity == packs.Error) {
				m.Verdict = pl.re.packs.Helped(h, begun)
			}
		}
	}
}

// openAll lets everybody in the process open what they open by name: first what
// they cannot do without, then the framework's later opens, then what is
// optional.
func (pl *plans) openAll(r *Process) {
	pl.openLibraries(r, false)
	if r.In != nil {
		for i := range r.In.Later {
			o := &r.In.Later[i]
			pl.openOne(r, r.openers(r.In.Home, o.By), o, nil)
			pl.openLibraries(r, false)
		}
	}
	pl.openLibraries(r, true)
}

// openers are the modules of the files that a pattern names, from a directory on:
// the program, as nil, for none.
func (r *Process) openers(home, pattern string) []*elfdeps.Module {
	if pattern == "" {
		return []*elfdeps.Module{nil}
	}
	var list []*elfdeps.Module
	full := strings.TrimPrefix(path.Join(home, pattern), "/")
	for _, m := range r.proc.Objects {
		if packs.Match(full, m.Real()) {
			list = append(list, m)
		}
	}
	return list
}

// openLibraries goes through what is loaded, and through what comes.
func (pl *plans) openLibraries(r *Process, optional bool) {
	for again := true; again; {
		again = false
		for _, m := range slices.Clone(r.proc.Objects) {
			for _, d := range pl.opening(m) {
				for i := range d.Opens {
					o := &d.Opens[i]
					if r.done[openKey{m, o}] || o.Optional != optional {
						continue
					}
					r.done[openKey{m, o}] = true
					again = true
					pl.openOne(r, []*elfdeps.Module{m}, o, d)
				}
			}
		}
	}
}

// opening are those of the packs whose opens are a module's.
func (pl *plans) opening(m *elfdeps.Module) []*packs.Dlopens {
	key := [2]string{m.Object.Soname, path.Base(m.Path)}
	list, ok := pl.openers[key]
	if !ok {
		for _, d := range pl.re.packs.Dlopens {
			if d.IsOpener(m) {
				list = append(list, d)
			}
		}
		pl.openers[key] = list
	}
	return list
}

// openOne tries the names of one open, and keeps what its failing means. Of several
// who may open it, the last that cannot is told.
func (pl *plans) openOne(r *Process, openers []*elfdeps.Module, o *packs.Open, d *packs.Dlopens) {
	for i, by := range openers {
		had := len(r.Missed)
		pl.openBy(r, by, o, d)
		if len(r.Missed) == had {
			return
		}
		if i < len(openers)-1 {
			r.Missed = r.Missed[:had]
		}
	}
}

// meaning is what it means in a process that an open fails.
type meaning struct {
	verdict  packs.Verdict
	effect   string
	text     string // how it reads
	also     []packs.Also
	optional bool
}

// meaningOf returns what a miss of an open means: what its row says, and for what a
// library opens, what the framework says of it. It is not ok where the framework never
// comes to it.
func (pl *plans) meaningOf(r *Process, by *elfdeps.Module, o *packs.Open, d *packs.Dlopens) (_ meaning, ok bool) {
	m := meaning{effect: o.Effect, text: o.Error, optional: o.Optional, verdict: packs.Verdict{Severity: cmp.Or(o.Severity, packs.Error)}}
	if d == nil || r.In == nil {
		return m, true
	}
	u := r.In.UseOf(d.ID + "/" + o.Part)
	switch {
	case u == nil:
		return m, true
	case u.Never:
		return m, false
	case u.Own != "" && slices.Contains(pl.re.files.Own(r.In, by.Object.Soname), by.Real()):
		m.verdict = pl.re.packs.Verdict("own-copy", packs.Values{"why": u.Own})
	default:
		m.verdict.Severity = cmp.Or(u.Severity, m.verdict.Severity)
	}
	m.effect, m.text, m.also = cmp.Or(u.Effect, m.effect), cmp.Or(u.Error, m.text), u.Also
	m.optional = m.optional && u.Effect == "" || u.Optional
	return m, true
}

// cut changes what a miss means to what a file that is cut off does: it is opened all
// the same, and the process is killed.
func (pl *plans) cut(m *meaning, e *elfdeps.Error) {
	if m.optional || m.verdict.Severity == packs.Note {
		m.optional = false
		if m.verdict.Clause == "" {
			m.verdict = pl.re.packs.Verdict("cut-and-optional", nil)
		}
	}
	if m.effect == "" {
		m.effect = pl.re.packs.Phrase("killed-when-opened", packs.Values{"library": path.Base(e.Subject)})
	} else {
		m.effect = pl.re.packs.Phrase("killed", packs.Values{"effect": m.effect})
	}
}

// openBy lets one module try the names of an open.
func (pl *plans) openBy(r *Process, by *elfdeps.Module, o *packs.Open, d *packs.Dlopens) {
	names := pl.namesOf(r, by, o)
	if !pl.isOpened(r, by, o, d, names) {
		return
	}
	means, ok := pl.meaningOf(r, by, o, d)
	if !ok || len(names) == 0 {
		return
	}
	names = append(names, pl.beside(by, o, names)...)
	failed, told := pl.tryNames(r, by, o, names)
	if failed == nil {
		if !o.Optional {
			r.opened++
		}
		return
	}
	if failed.Kind == elfdeps.CutError {
		pl.cut(&means, failed)
	}
	if means.optional || failed.Unknown || pl.re.packs.FromDriver(failed.Name) {
		return
	}
	if e := symbolError(failed); e != nil && r.Program == "" && !pl.lacks(r, e.Name) {
		return // the program that is not known may define it
	}
	m := MissedOpen{By: r.Program, Name: told, part: o.Part, Err: failed, Verdict: means.verdict, Cuda: pl.re.files.ProcessCUDA(r)}
	if by != nil {
		m.By = by.Real()
	}
	if d != nil {
		m.Front = by.Object.Soname
	}
	values := append(pl.toolkit(pl.re.files.ProcessCUDA(r)), "{name}", told, "{names}", strings.Join(names, ", "))
	m.Effect = packs.Effect{Text: means.effect, Error: pl.re.packs.Reads(means.text, failed, values...)}
	for _, a := range means.also {
		m.Also = append(m.Also, packs.Effect{Text: a.Effect, Error: pl.re.packs.Reads(a.Error, failed, values...)})
	}
	r.Missed = append(r.Missed, m)
}

// isOpened reports whether the release of the one who opens tries these names. One that
// is not known does where the image has one of them, or had it.
func (pl *plans) isOpened(r *Process, by *elfdeps.Module, o *packs.Open, d *packs.Dlopens, names []string) bool {
	var rel packs.ReleaseNumbers
	if d != nil {
		rel = pl.re.packages.ReleaseOfModule(by)
	} else {
		rel = r.In.release
	}
	fits, known := rel.Within(o.Versions)
	return known && fits || !known && pl.re.files.hasAny(names)
}

// beside returns the files of some names in the directory of the one who opens, where
// they serve as well.
func (pl *plans) beside(by *elfdeps.Module, o *packs.Open, names []string) []string {
	if !o.Beside || by == nil {
		return nil
	}
	var list []string
	for _, n := range names {
		if p := path.Join(path.Dir(by.Real()), n); pl.re.img.IsFile(p) {
			list = append(list, p)
		}
	}
	return list
}

// lacks reports whether nothing of the image defines a symbol that a process whose
// program is not known asks for. What it is asked more often is not looked for.
func (pl *plans) lacks(r *Process, symbol string) bool {
	if pl.asked++; pl.asked > maxElsewhere/8 || r.In.Host != "" {
		return false
	}
	return len(pl.re.nowhere([]Unbound{{Symbol: symbol, here: hereOf(r.proc)}})) > 0
}

// hasAny reports whether the image has a file of one of the names, or had one that
// a layer has deleted.
func (fi *Files) hasAny(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(fi.Named[n]) > 0 || len(fi.img.Removed(n)) > 0 })
}

// tryNames opens the first name that can be opened. When none can, it gives the
// error that tells most: a file that is there and cannot be used, or misses
// something; else that of the name with the major version alone, else the last.
func (pl *plans) tryNames(r *Process, by *elfdeps.Module, o *packs.Open, names []string) (failed *elfdeps.Error, told string) {
	rank := -2
	for i, name := range names {
		had, loaded := len(r.proc.Misses), len(r.proc.Objects)
		_, err := r.proc.DlopenFlags(by, name, packs.FlagsOf(o.Flags))
		misses := slices.Concat(pl.re.files.Real(r.proc.Misses[had:]), pl.re.files.cutOf(r.proc.Objects, loaded))
		r.proc.Misses = r.proc.Misses[:had]
		if err == nil && len(misses) == 0 {
			return nil, ""
		}
		var e *elfdeps.Error
		if !errors.As(err, &e) {
			if len(misses) == 0 {
				continue
			}
			e = misses[0]
		}
		if e.Kind == elfdeps.CutError {
			return e, name // nothing comes after it
		}
		this := i
		switch {
		case !e.Missing() || e.Name != name:
			this = 2 * len(names)
		case strings.Contains(name, "/"):
			this = -1
		case packs.MajorOf(name) != "" && strings.HasSuffix(name, ".so."+packs.MajorOf(name)):
			this = len(names)
		}
		if this > rank {
			failed, told, rank = e, name, this
		}
	}
	return failed, told
}

// namesOf are the names that an open tries. A version that is not known leaves its
// names out; a pattern stands for the names in the image.
func (pl *plans) namesOf(r *Process, by *elfdeps.Module, o *packs.Open) []string {
	var list []string
	values := pl.toolkit(pl.re.files.ProcessCUDA(r))
	if by != nil {
		rel := pl.re.packages.ReleaseOfModule(by)
		values = append(values, "{release}", packs.Exactly(rel, 3), "{minor}", packs.Exactly(rel, 2), "{major}", packs.MajorOf(by.Object.Soname))
	}
	for _, n := range o.Names {
		unknown := false
		for i := 0; i < len(values); i += 2 {
			unknown = unknown || values[i+1] == "" && strings.Contains(n, values[i])
		}
		if unknown {
			continue
		}
		n = packs.Expand(n, values...)
		if !strings.ContainsAny(n, "*?[{") {
			list = append(list, n)
			continue
		}
		list = append(list, pl.re.files.NamesLike(n)...)
	}
	return list
}

// NamesLike are the file names of the image that fit a pattern, sorted.
func (fi *Files) NamesLike(pattern string) []string {
	var list []string
	for name := range fi.Named {
		if packs.Match(pattern, name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// ProcessCUDA returns the major version of CUDA in a process, or "": by the libraries that
// show it, the first in the packs first, else by the name of the distribution
// (cupy_cuda12x).
func (fi *Files) ProcessCUDA(r *Process) string {
	sonames := func(yield func(string) bool) {
		for _, m := range r.Loaded {
			if !yield(m.Object.Soname) {
				return
			}
		}
		if r.proc == nil {
			return
		}
		for _, m := range r.proc.Objects {
			if !yield(m.Object.Soname) {
				return
			}
		}
	}
	for _, pattern := range fi.packs.Carrier("cuda").Files {
		for soname := range sonames {
			if packs.Match(pattern, soname) {
				return packs.MajorOf(soname)
			}
		}
	}
	if r.In != nil {
		return r.In.Installed.Cuda()
	}
	return ""
}

// toolkit are the values that a major version of CUDA gives to names.
func (pl *plans) toolkit(cuda string) []string {
	t := &packs.Toolkit{CUDA: cuda}
	for _, known := range pl.re.packs.Toolkits {
		if known.CUDA == cuda {
			t = known
		}
	}
	return []string{"{cuda}", cuda, "{cudart}", t.Cudart, "{cublas}", t.Cublas, "{nvrtc}", t.Nvrtc, "{cufft}", t.Cufft, "{cusolver}", t.Cusolver, "{cusparse}", t.Cusparse}
}

func (pa *Packages) ReleaseOfModule(m *elfdeps.Module) packs.ReleaseNumbers {
	if m == nil || m.File == nil {
		return nil
	}
	return pa.ReleaseOf(m.Real())
}
