package lint

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// run is one process as its plan makes it: a framework that is imported, or a
// program that needs GPU libraries, and then all that they and their libraries
// open by name.
type run struct {
	title   string
	in      *install         // nil for a program
	program string           // its path, empty when there is none
	proc    *elfdeps.Process // until all has been opened
	loaded  []loaded         // what it holds then
	opened  int              // opens that succeeded
	missed  []missedOpen
	done    map[openKey]bool
}

// openKey is one who opens and what.
type openKey struct {
	by   *elfdeps.Module
	open *Open
}

// missedOpen is an open that failed, and what that means.
type missedOpen struct {
	by      string // path of the one who opens
	name    string // of the names, the one to tell
	err     *elfdeps.Error
	verdict verdict
	effect  Effect
	also    []Effect // what else fails
	front   string   // the library whose part it is, as SONAME; empty for a framework's own
	part    string
	cuda    string // its major version in the process
}

// follow makes the processes of the plans and lets them open what they would. A
// framework that cannot be imported, and a program that does not start, have been
// told of: their processes end there.
func (w *world) follow() {
	if w.primary == nil {
		return
	}
	files := map[mappedAs]*elfdeps.Module{}
	for _, in := range w.installs {
		if len(in.Steps) == 0 {
			continue
		}
		if r := w.runInstall(in); r != nil {
			r.end(files)
			w.runs = append(w.runs, r)
		}
	}
	for _, p := range w.programs() {
		if r := w.runProgram(p); r != nil {
			r.end(files)
			w.runs = append(w.runs, r)
		}
	}
}

// loaded is what is asked of a module when its process is no more. Thousands of
// programs load the same hundred libraries: one file's module is shared.
type loaded struct {
	*elfdeps.Module        // its file and name
	how             string // the step of the search that found it; empty where it was opened by its path
	by              string // who asked for it; empty for the program
}

// mappedAs is a file under the name that a loader has for it.
type mappedAs struct{ real, path string }

// end lets go of the process, and notes what it holds.
func (r *run) end(files map[mappedAs]*elfdeps.Module) {
	r.loaded = make([]loaded, 0, len(r.proc.Objects))
	for _, m := range r.proc.Objects {
		l := loaded{how: howOf(m)}
		if m.By != nil && !m.By.Main {
			l.by = m.By.Real()
		}
		f := mappedAs{m.Real(), m.Path}
		if files[f] == nil {
			files[f] = &elfdeps.Module{Path: m.Path, Object: m.Object, File: m.File}
		}
		l.Module = files[f]
		r.loaded = append(r.loaded, l)
	}
	for i := range r.missed {
		if e := r.missed[i].err; e.Kind != elfdeps.SymbolError { // whose cause is looked for among what is loaded
			r.missed[i].err = e.Alone()
		}
	}
	r.proc.Rest() // of the others
	r.proc, r.done = nil, nil
}

// host is a loader of the image on a machine with a GPU.
func (w *world) host(l *elfdeps.Loader) *elfdeps.Loader {
	if h, ok := w.hosts[l]; ok {
		return h
	}
	h, err := elfdeps.NewLoader(w.gpuHost(l), l.Path, w.env())
	if err != nil {
		h = nil
	}
	w.hosts[l] = h
	return h
}

// programs are the programs that load GPU libraries when they start and have all
// that they need.
func (w *world) programs() []*object {
	var list []*object
	for _, o := range w.objects {
		if _, ok := w.loadsGPU.Load(o.path); ok && len(w.real(o.misses)) == 0 {
			list = append(list, o)
		}
	}
	return list
}

// runProgram starts a program. Its symbols are not bound here: symbols.go asks for
// them, of each library once.
func (w *world) runProgram(o *object) *run {
	host := w.host(o.loader)
	if host == nil {
		return nil
	}
	p, err := host.Trace(o.path)
	if err != nil {
		return nil
	}
	p.Settle()
	r := &run{title: o.path, program: o.path, proc: p, done: map[openKey]bool{}}
	w.openAll(r)
	return r
}

// runInstall is the process of a framework, nil when there is no loader for it.
// Where all of the import was found, it is not bound again: symbols.go does that,
// and it takes most of the time.
func (w *world) runInstall(in *install) *run {
	host := w.host(w.primary)
	if host == nil {
		return nil
	}
	program := w.hostOfInstall(in, host)
	r := &run{title: in.Title + " at " + in.home, in: in, program: program, proc: trace(host, program), done: map[openKey]bool{}}
	if len(in.failures) > 0 && in.goesOn() {
		r.proc.Settle() // what fails is unloaded
	}
	w.runSteps(r.proc, in)
	if !in.goesOn() {
		return r
	}
	r.proc.Settle()
	w.openAll(r)
	w.helpRun(r, host)
	w.withoutGPU(r)
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
func (in *install) goesOn() bool {
	return !slices.ContainsFunc(in.failures, func(f failure) bool { return !f.step.Feature })
}

// withoutGPU makes less of what a framework misses that opens none of its GPU
// libraries and is often used so.
func (w *world) withoutGPU(r *run) {
	if !r.in.CPUToo || r.opened > 0 {
		return
	}
	for i := range r.missed {
		m := &r.missed[i]
		if w.wantsGPU() || w.broughtFor(r.in, m.err.Name) {
			m.verdict = m.verdict.atMost(w.verdict("without-gpu", nil))
			continue
		}
		m.verdict = w.verdict("meant-without-gpu", nil)
	}
}

// broughtFor reports whether a library is there as a wheel beside a framework, and
// no other framework that it could be for: somebody has installed it.
func (w *world) broughtFor(in *install, name string) bool {
	alone := !slices.ContainsFunc(w.installs, func(o *install) bool { return o.site == in.site && !o.CPUToo && len(o.Preload)+len(o.Later) > 0 })
	return alone && slices.ContainsFunc(w.present(name), func(p string) bool { return w.inWheelDir(strings.TrimPrefix(p, in.site+"/")) })
}

// inWheelDir reports whether a path below a directory of Python packages is below one that
// holds the libraries of wheels.
func (w *world) inWheelDir(rel string) bool {
	top, _, below := strings.Cut(rel, "/")
	return below && known(w.packs.WheelDirs, top)
}

// wantsGPU reports whether an image is made for a GPU, by its environment.
func (w *world) wantsGPU() bool {
	return slices.ContainsFunc(w.env().Vars, func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return value != "" && value != "void" && value != "none" && (name == "NVIDIA_VISIBLE_DEVICES" || name == "NVIDIA_REQUIRE_CUDA" || name == "CUDA_VERSION")
	})
}

// pythonOf is the interpreter that loads what lies at a path, and starts; empty
// when there is none.
func (w *world) pythonOf(p string, host *elfdeps.Loader) string {
	for _, python := range w.pythons(p) {
		e, _, ok := w.img.FS.Lookup(python)
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
func (w *world) helpRun(r *run, host *elfdeps.Loader) {
	if len(r.missed) == 0 {
		return
	}
	for i := range r.in.Helped {
		h := &r.in.Helped[i]
		again := &run{title: r.title, in: r.in, program: r.program, proc: trace(host, r.program), done: map[openKey]bool{}}
		begun := w.begins(r.in, h)
		if len(r.in.failures) > 0 && r.in.help != h && !begun || !w.helpIn(again.proc, r.in, h) {
			continue
		}
		w.runSteps(again.proc, r.in)
		again.proc.Settle()
		w.openAll(again)
		for i := range r.missed {
			m := &r.missed[i]
			still := slices.ContainsFunc(again.missed, func(o missedOpen) bool { return o.part == m.part && o.name == m.name })
			if !still && (begun || m.verdict.severity == Error) {
				m.verdict = w.helped(h, begun)
			}
		}
	}
}

// openAll lets everybody in the process open what they open by name: first what
// they cannot do without, then the framework's later opens, then what is
// optional.
func (w *world) openAll(r *run) {
	w.openLibraries(r, false)
	if r.in != nil {
		for i := range r.in.Later {
			o := &r.in.Later[i]
			w.openOne(r, r.openers(r.in.home, o.By), o, nil)
			w.openLibraries(r, false)
		}
	}
	w.openLibraries(r, true)
}

// openers are the modules of the files that a pattern names, from a directory on:
// the program, as nil, for none.
func (r *run) openers(home, pattern string) []*elfdeps.Module {
	if pattern == "" {
		return []*elfdeps.Module{nil}
	}
	var list []*elfdeps.Module
	full := strings.TrimPrefix(path.Join(home, pattern), "/")
	for _, m := range r.proc.Objects {
		if match(full, m.Real()) {
			list = append(list, m)
		}
	}
	return list
}

// openLibraries goes through what is loaded, and through what comes.
func (w *world) openLibraries(r *run, optional bool) {
	for again := true; again; {
		again = false
		for _, m := range slices.Clone(r.proc.Objects) {
			for _, d := range w.opening(m) {
				for i := range d.Opens {
					o := &d.Opens[i]
					if r.done[openKey{m, o}] || o.Optional != optional {
						continue
					}
					r.done[openKey{m, o}] = true
					again = true
					w.openOne(r, []*elfdeps.Module{m}, o, d)
				}
			}
		}
	}
}

// opening are those of the packs whose opens are a module's.
func (w *world) opening(m *elfdeps.Module) []*Dlopens {
	key := [2]string{m.Object.Soname, path.Base(m.Path)}
	list, ok := w.openers[key]
	if !ok {
		for _, d := range w.packs.Dlopens {
			if d.opens(m) {
				list = append(list, d)
			}
		}
		w.openers[key] = list
	}
	return list
}

// opens reports whether a module is one of those that open.
func (d *Dlopens) opens(m *elfdeps.Module) bool {
	for _, name := range []string{m.Object.Soname, path.Base(m.Path)} {
		if name != "" && matchAny(d.By, name) {
			return true
		}
	}
	return false
}

// openOne tries the names of one open, and keeps what its failing means. Of several
// who may open it, the last that cannot is told.
func (w *world) openOne(r *run, openers []*elfdeps.Module, o *Open, d *Dlopens) {
	for i, by := range openers {
		had := len(r.missed)
		w.openBy(r, by, o, d)
		if len(r.missed) == had {
			return
		}
		if i < len(openers)-1 {
			r.missed = r.missed[:had]
		}
	}
}

// meaning is what it means in a process that an open fails.
type meaning struct {
	verdict  verdict
	effect   string
	text     string // how it reads
	also     []Also
	optional bool
}

// meaningOf returns what a miss of an open means: what its row says, and for what a
// library opens, what the framework says of it. It is not ok where the framework never
// comes to it.
func (w *world) meaningOf(r *run, by *elfdeps.Module, o *Open, d *Dlopens) (_ meaning, ok bool) {
	m := meaning{effect: o.Effect, text: o.Error, optional: o.Optional, verdict: verdict{severity: cmp.Or(o.Severity, Error)}}
	if d == nil || r.in == nil {
		return m, true
	}
	u := r.in.use(d.ID + "/" + o.Part)
	switch {
	case u == nil:
		return m, true
	case u.Never:
		return m, false
	case u.Own != "" && slices.Contains(w.own(r.in, by.Object.Soname), by.Real()):
		m.verdict = w.verdict("own-copy", values{"why": u.Own})
	default:
		m.verdict.severity = cmp.Or(u.Severity, m.verdict.severity)
	}
	m.effect, m.text, m.also = cmp.Or(u.Effect, m.effect), cmp.Or(u.Error, m.text), u.Also
	m.optional = m.optional && u.Effect == "" || u.Optional
	return m, true
}

// cut changes what a miss means to what a file that is cut off does: it is opened all
// the same, and the process is killed.
func (w *world) cut(m *meaning, e *elfdeps.Error) {
	if m.optional || m.verdict.severity == Note {
		m.optional = false
		if m.verdict.clause == "" {
			m.verdict = w.verdict("cut-and-optional", nil)
		}
	}
	if m.effect == "" {
		m.effect = w.phrase("killed-when-opened", values{"library": path.Base(e.Subject)})
	} else {
		m.effect = w.phrase("killed", values{"effect": m.effect})
	}
}

// openBy lets one module try the names of an open.
func (w *world) openBy(r *run, by *elfdeps.Module, o *Open, d *Dlopens) {
	names := w.namesOf(r, by, o)
	if !w.isOpened(r, by, o, d, names) {
		return
	}
	means, ok := w.meaningOf(r, by, o, d)
	if !ok || len(names) == 0 {
		return
	}
	names = append(names, w.beside(by, o, names)...)
	failed, told := w.tryNames(r, by, o, names)
	if failed == nil {
		if !o.Optional {
			r.opened++
		}
		return
	}
	if failed.Kind == elfdeps.CutError {
		w.cut(&means, failed)
	}
	if means.optional || failed.Unknown || w.packs.fromDriver(failed.Name) {
		return
	}
	if e := symbolError(failed); e != nil && r.program == "" && !w.lacks(r, e.Name) {
		return // the program that is not known may define it
	}
	m := missedOpen{by: r.program, name: told, part: o.Part, err: failed, verdict: means.verdict, cuda: w.processCUDA(r)}
	if by != nil {
		m.by = by.Real()
	}
	if d != nil {
		m.front = by.Object.Soname
	}
	values := append(w.toolkit(w.processCUDA(r)), "{name}", told, "{names}", strings.Join(names, ", "))
	m.effect = Effect{Text: means.effect, Error: w.reads(means.text, failed, values...)}
	for _, a := range means.also {
		m.also = append(m.also, Effect{Text: a.Effect, Error: w.reads(a.Error, failed, values...)})
	}
	r.missed = append(r.missed, m)
}

// isOpened reports whether the release of the one who opens tries these names. One that
// is not known does where the image has one of them, or had it.
func (w *world) isOpened(r *run, by *elfdeps.Module, o *Open, d *Dlopens, names []string) bool {
	var rel release
	if d != nil {
		rel = w.releaseOfModule(by)
	} else {
		rel = r.in.release
	}
	fits, known := rel.Within(o.Versions)
	return known && fits || !known && w.hasAny(names)
}

// beside returns the files of some names in the directory of the one who opens, where
// they serve as well.
func (w *world) beside(by *elfdeps.Module, o *Open, names []string) []string {
	if !o.Beside || by == nil {
		return nil
	}
	var list []string
	for _, n := range names {
		if p := path.Join(path.Dir(by.Real()), n); w.isFile(p) {
			list = append(list, p)
		}
	}
	return list
}

// lacks reports whether nothing of the image defines a symbol that a process whose
// program is not known asks for. What it is asked more often is not looked for.
func (w *world) lacks(r *run, symbol string) bool {
	if w.asked++; w.asked > maxElsewhere/8 || r.in.Host != "" {
		return false
	}
	return len(w.nowhere([]unbound{{symbol: symbol, here: hereOf(r.proc)}})) > 0
}

// hasAny reports whether the image has a file of one of the names, or had one that
// a layer has deleted.
func (w *world) hasAny(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(w.named[n]) > 0 || len(w.removed(n)) > 0 })
}

// tryNames opens the first name that can be opened. When none can, it gives the
// error that tells most: a file that is there and cannot be used, or misses
// something; else that of the name with the major version alone, else the last.
func (w *world) tryNames(r *run, by *elfdeps.Module, o *Open, names []string) (failed *elfdeps.Error, told string) {
	rank := -2
	for i, name := range names {
		had, loaded := len(r.proc.Misses), len(r.proc.Objects)
		_, err := r.proc.DlopenFlags(by, name, flagsOf(o.Flags))
		misses := slices.Concat(w.real(r.proc.Misses[had:]), w.cutOf(r.proc.Objects, loaded))
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
		case majorOf(name) != "" && strings.HasSuffix(name, ".so."+majorOf(name)):
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
func (w *world) namesOf(r *run, by *elfdeps.Module, o *Open) []string {
	var list []string
	values := w.toolkit(w.processCUDA(r))
	if by != nil {
		rel := w.releaseOfModule(by)
		values = append(values, "{release}", exactly(rel, 3), "{minor}", exactly(rel, 2), "{major}", majorOf(by.Object.Soname))
	}
	for _, n := range o.Names {
		unknown := false
		for i := 0; i < len(values); i += 2 {
			unknown = unknown || values[i+1] == "" && strings.Contains(n, values[i])
		}
		if unknown {
			continue
		}
		n = expand(n, values...)
		if !strings.ContainsAny(n, "*?[{") {
			list = append(list, n)
			continue
		}
		list = append(list, w.namesLike(n)...)
	}
	return list
}

// namesLike are the file names of the image that fit a pattern, sorted.
func (w *world) namesLike(pattern string) []string {
	var list []string
	for name := range w.named {
		if match(pattern, name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// processCUDA returns the major version of CUDA in a process, or "": by the libraries that
// show it, the first in the packs first, else by the name of the distribution
// (cupy_cuda12x).
func (w *world) processCUDA(r *run) string {
	sonames := func(yield func(string) bool) {
		for _, m := range r.loaded {
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
	for _, pattern := range w.packs.carrier("cuda").Files {
		for soname := range sonames {
			if match(pattern, soname) {
				return majorOf(soname)
			}
		}
	}
	if r.in != nil {
		return r.in.dist.cuda()
	}
	return ""
}

// toolkit are the values that a major version of CUDA gives to names.
func (w *world) toolkit(cuda string) []string {
	t := &Toolkit{CUDA: cuda}
	for _, known := range w.packs.Toolkits {
		if known.CUDA == cuda {
			t = known
		}
	}
	return []string{"{cuda}", cuda, "{cudart}", t.Cudart, "{cublas}", t.Cublas, "{nvrtc}", t.Nvrtc, "{cufft}", t.Cufft, "{cusolver}", t.Cusolver, "{cusparse}", t.Cusparse}
}

func (w *world) releaseOfModule(m *elfdeps.Module) release {
	if m == nil || m.File == nil {
		return nil
	}
	return w.releaseOf(m.Real())
}
