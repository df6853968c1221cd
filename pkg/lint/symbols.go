package lint

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// unbound is a symbol that nothing defines where a process needs it.
type unbound struct {
	path    string // what was started or opened
	effects []Effect
	message string          // in the loader's words
	subject string          // the file that the message begins with; empty for musl's
	by      *elfdeps.Module // whose reference it is; nil for musl's
	symbol  string
	version string // that is asked for, empty without one
	file    string // of which the version is asked
	lazy    bool   // missed only when it is called
	more    int    // as many others are missed likewise by the same file
	aside   bool   // it is often there and never loaded: no error without the GPU
	verdict verdict
	// here, where what the process is of is not known, are the files and SONAMEs of
	// what it has: what others define may be asked for.
	here map[string]bool
}

// unboundOf returns an error of the loader about a symbol as one.
func unboundOf(p string, e *elfdeps.Error, effects ...Effect) unbound {
	u := unbound{path: p, effects: effects, message: e.Error(), by: e.By, symbol: e.Name, version: e.Version, file: e.File, verdict: grave}
	if !e.Musl {
		u.subject = e.Subject
	}
	return u
}

// symbols are the findings about symbols that are missing. Only processes are
// asked that are known: the image's program and others that load GPU libraries, what a
// framework opens, what relies on the framework, and extension modules of Python that
// ask for GPU libraries; what these then open is seen to by the plans. Everywhere
// else an undefined symbol may come from the application that loads a plug-in.
func (w *world) symbols() []Finding {
	var list []unbound
	list = append(list, w.startSymbols()...)
	for _, in := range w.installs {
		if in.goesOn() {
			list = append(list, w.frameworkSymbols(in)...)
		}
	}
	list = append(list, w.moduleSymbols()...)
	list = w.nowhere(list)
	list = append(list, w.programSymbols()...)
	var found []Finding
	at := map[string]int{} // in found, by message
	for _, u := range list {
		i, ok := at[u.message]
		if !ok {
			at[u.message] = len(found)
			found = append(found, w.symbolFinding(u))
			continue
		}
		found[i].Affected = append(found[i].Affected, u.path)
		for _, e := range u.effects {
			if !slices.Contains(found[i].Effects, e) {
				found[i].Effects = append(found[i].Effects, e)
			}
		}
	}
	for i := range found {
		slices.Sort(found[i].Affected)
		found[i].Affected = slices.Compact(found[i].Affected)
	}
	return found
}

// symbolFinding returns the finding of a symbol that is missing, and why it is.
func (w *world) symbolFinding(u unbound) Finding {
	fact := w.packs.symbol(u.symbol)
	rule, asked := w.ruleOfSymbol(u, fact)
	f := w.say(rule, "loader-says", values{"error": u.message})
	f.Symbol, f.Affected, f.Effects = u.symbol, []string{u.path}, u.effects
	if name := demangle.Filter(u.symbol); name != u.symbol {
		f.Demangled = name
	}
	if path.IsAbs(u.subject) {
		f.Subject = u.subject
	}
	if u.by != nil && u.by.Real() != "" {
		f.NeededBy = []File{w.file(u.by.Real())}
	} else if f.Subject != "" {
		f.NeededBy = []File{w.file(realPath(w.img.FS, f.Subject))}
	}
	if asked != nil {
		f.BoundTo, f.Library, f.Family, f.Present = &asked.file, asked.library, asked.family, asked.copies
	}
	v := u.verdict
	if u.aside && f.Family == "" {
		v = v.atMost(w.unproved("step-aside"))
	}
	w.lowerTo(&f, v)
	if u.lazy {
		w.whenCalled(&f, u, fact)
	}
	f.advise(w.symbolFixes(&f, u, fact)...)
	return f
}

// ruleOfSymbol returns the rule of a symbol that is missing, and the library that should
// have it; nil where that is not known.
func (w *world) ruleOfSymbol(u unbound, fact *SymbolFact) (string, *asked) {
	if a := w.askedOfFramework(u); a != nil {
		return "torch-extension-mismatch", a
	}
	if a := w.askedOfOtherRelease(u, fact); a != nil {
		return "mixed-releases", a
	}
	if u.lazy {
		return "undefined-function", nil
	}
	return "undefined-symbol", nil
}

// whenCalled says of a finding that the symbol is a function that is bound when it is
// called first.
func (w *world) whenCalled(f *Finding, u unbound, fact *SymbolFact) {
	v := values{"program": w.entry().name, "error": u.message, "more": strconv.Itoa(u.more)}
	if fact != nil && fact.Feature != "" {
		v["feature"] = fact.Feature
		w.also(f, "feature-ends-program", v)
	} else {
		w.also(f, "call-ends-program", v)
	}
	if u.more > 0 {
		w.lower(f, "bound-when-called-with-others", v)
	} else {
		w.lower(f, "bound-when-called", v)
	}
}

// symbolFixes returns the fixes of a symbol that is missing.
func (w *world) symbolFixes(f *Finding, u unbound, fact *SymbolFact) []Advice {
	var list []Advice
	known := fact != nil && fact.Fix != ""
	switch {
	case f.Rule == "torch-extension-mismatch":
		list = w.extensionFixes(u)
	case f.Rule != "mixed-releases":
	case len(f.Present) > 0:
		list = w.advice("symbol-in-other-copy", values{"copy": f.Present[0].Path, "dir": path.Dir(f.BoundTo.Path)})
	case !known:
		list = w.advice("symbol-in-other-release", values{"library": f.Library, "file": f.BoundTo.Path})
	}
	if known {
		list = append(list, w.packs.rows([]string{fact.Fix}, values{"cuda": w.wantedCUDA(f, ""), "number": lastNumbers(u.symbol)})...)
	}
	if len(list) == 0 {
		return w.advice("made-for-one-another", nil)
	}
	return list
}

// lastNumbers is the release that the end of a name tells: 12.1 of
// __nvJitLinkAddData_12_1.
func lastNumbers(symbol string) string {
	parts := strings.Split(symbol, "_")
	if n := len(parts); n > 2 && isNumber(parts[n-1]) && isNumber(parts[n-2]) {
		return parts[n-2] + "." + parts[n-1]
	}
	return ""
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// startSymbols starts the image's program.
func (w *world) startSymbols() []unbound {
	e := w.entry()
	o := w.byPath[e.path]
	if o == nil || o.loader == nil || len(w.real(o.misses)) > 0 {
		return nil
	}
	host := w.host(o.loader)
	if host == nil {
		return nil
	}
	p, err := host.Start(e.path)
	if s := symbolError(err); s != nil {
		text := s.Error()
		if lines := p.Stderr(); len(lines) > 0 {
			text = lines[len(lines)-1]
		}
		return []unbound{unboundOf(e.path, s, w.effects("start-line", values{"error": text})...)}
	}
	if err != nil {
		return nil
	}
	return lazySymbols(p)
}

// lazySymbols are the functions that the objects of a started program miss when
// they call them, one for each object.
func lazySymbols(p *elfdeps.Process) []unbound {
	var list []unbound
	for _, m := range p.Objects {
		if m.Real() == "" {
			continue
		}
		var first *unbound
		for _, u := range p.Unresolved(m) {
			switch {
			case !u.Lazy:
			case first == nil:
				list = append(list, unbound{path: m.Real(), message: m.Real() + ": " + u.Error(), subject: m.Real(), by: m, symbol: u.Symbol, version: u.Version, file: u.File, lazy: true, verdict: grave})
				first = &list[len(list)-1]
			default:
				first.more++
			}
		}
	}
	return list
}

// frameworkSymbols opens what a framework opens, as it opens it, and then what relies
// on it, in one process; what fails is unloaded and the others are opened after it.
func (w *world) frameworkSymbols(in *install) []unbound {
	p, known := w.hostProcess(in)
	if p == nil {
		return nil
	}
	defer p.Rest()
	var list []unbound
	told := func(s Step, file string, err error) {
		e := symbolError(err)
		if e == nil {
			return
		}
		u := unboundOf(file, e, w.effects("import-fails", values{"error": e.Error()})...)
		if s.Effect != "" {
			u.effects[0].Text = s.Effect
		}
		if strings.Contains(s.Error, "{error}") { // else it is for a library that is missing
			u.effects[0].Error = expand(s.Error, "{error}", e.Error())
		}
		u.aside = in.Aside
		if !known {
			u.here = hereOf(p)
		}
		list = append(list, u)
	}
	w.runStepsTelling(p, in, told)
	if len(list) > 0 || len(in.failures) > 0 {
		return list
	}
	for _, o := range w.objects {
		served := slices.ContainsFunc(o.elf.Needed, func(n string) bool { return matchAny(in.Serves, n) })
		if served && !isProgram(o.elf) && len(w.real(o.misses)) == 0 && in.follows(o.path) && w.hostOf(o) == in {
			told(Step{}, o.path, w.openFollower(p, in, o))
		}
	}
	w.excuse(in, list)
	return list
}

// excuse lowers the verdict on what followers of a framework miss where the file is
// optional, or another one serves in its place. One whose name has the framework's
// release is the one that is taken.
func (w *world) excuse(in *install, list []unbound) {
	failed := map[string]bool{}
	for _, u := range list {
		failed[u.path] = true
	}
	for i := range list {
		file := list[i].path
		if x := exception(w.packs.Optional, file); x != nil {
			list[i].verdict = w.excepted(x)
		} else if x := exception(w.packs.AnyOf, file); x != nil && !in.namedIn(file) && slices.ContainsFunc(w.objects, func(o *object) bool {
			return !failed[o.path] && x.beside(o.path) == x.beside(file) && match(x.Match, o.path) && len(w.real(o.misses)) == 0
		}) {
			list[i].verdict = w.excepted(x)
		}
	}
}

// namedIn reports whether a file's name has the framework's release in it.
func (in *install) namedIn(file string) bool {
	return len(in.release) > 2 && strings.Contains(path.Base(file), in.release.First(3).String()+".")
}

// maxSiblings bounds the libraries of its own package that a module is opened after.
const maxSiblings = 8

// openFollower opens a module of a package that relies on a framework. What it misses
// of a library that its own package brings, the package has opened before, for all to
// see: Transformer Engine's extension does not link libtransformer_engine.so
// (https://github.com/NVIDIA/TransformerEngine/blob/v1.4/transformer_engine/common/__init__.py).
func (w *world) openFollower(p *elfdeps.Process, in *install, o *object) error {
	_, err := p.Dlopen(nil, o.path)
	tried := map[string]bool{}
	for range maxSiblings {
		e := symbolError(err)
		if e == nil || e.By == nil || e.By.Real() != o.path {
			return err
		}
		sibling := w.siblingWith(o, in, e.Name)
		if sibling == "" || tried[sibling] {
			return err
		}
		tried[sibling] = true
		if _, failed := p.DlopenFlags(nil, sibling, elfdeps.Now|elfdeps.Global); failed != nil {
			return err
		}
		_, err = p.Dlopen(nil, o.path)
	}
	return err
}

// siblingWith returns the library that defines a symbol and that a module's package
// brings, or one that it requires; empty where there is none. The framework's own
// files are none: it opens them itself.
func (w *world) siblingWith(o *object, in *install, symbol string) string {
	_, pkg, wheels := w.ownerOf(o.path)
	if pkg == nil {
		return ""
	}
	brought := []*inventory.Package{pkg}
	for _, line := range pkg.Requires {
		if r, err := inventory.ParseRequirement(line); err == nil && wheels[r.Name] != nil {
			brought = append(brought, wheels[r.Name])
		}
	}
	for _, other := range w.objects {
		owned := slices.ContainsFunc(brought, func(b *inventory.Package) bool { _, ok := b.Files[other.path]; return ok })
		if owned && other != o && !isIn(other.path, in.home) && defines(other.elf, symbol) {
			return other.path
		}
	}
	return ""
}

// hostProcess is the process that opens a framework's files, on a machine with a GPU:
// that of its interpreter, or of the program that it is for. Where it is for any
// program, the process brings nothing and is not known: what the program defines
// may be asked for. It is nil where the image does not have it, or it does not start.
func (w *world) hostProcess(in *install) (p *elfdeps.Process, known bool) {
	if w.primary == nil {
		return nil, false
	}
	host := w.host(w.primary)
	if host == nil {
		return nil, false
	}
	if in.Host == "" && len(w.pythons(in.home)) == 0 {
		p = host.Bare()
		p.Settle()
		return p, false
	}
	return w.started(w.hostOfInstall(in, host), host), true
}

// hostOfInstall is the path of the program that opens a framework's files: an
// interpreter that starts, or the program that it is for; empty where it is for any, and
// where the image has none.
func (w *world) hostOfInstall(in *install, host *elfdeps.Loader) string {
	if in.Host == "" {
		return w.pythonOf(in.home, host)
	}
	var paths []string
	if p, ok := w.executable(in.Host); ok {
		paths = append(paths, realPath(w.img.FS, p))
	}
	for _, p := range append(paths, w.filesNamed(in.Host)...) {
		if o := w.byPath[p]; o != nil && isProgram(o.elf) && o.elf.Interp == host.Path {
			return p
		}
	}
	return ""
}

// started is the process of a program, nil when it does not start.
func (w *world) started(program string, host *elfdeps.Loader) *elfdeps.Process {
	if program == "" {
		return nil
	}
	if p, err := host.Start(program); err == nil {
		return p
	}
	return nil
}

// hereOf are the files of a process and the names that they bear.
func hereOf(p *elfdeps.Process) map[string]bool {
	here := map[string]bool{}
	for _, m := range p.Objects {
		for _, name := range []string{m.Real(), m.Object.Soname, path.Base(m.Real())} {
			if name != "" && name != "." {
				here[name] = true
			}
		}
	}
	return here
}

// isHere reports whether an object is in a process, or another copy of what is.
func isHere(here map[string]bool, o *object) bool {
	return here[o.path] || here[o.elf.Soname] || here[path.Base(o.path)]
}

// maxElsewhere bounds what is looked for in all files of the image; of the rest nothing
// is said.
const maxElsewhere = 64

// nowhere leaves out what another file of the image defines, or may, where the process
// is not known: its program may be that file, or have opened it.
func (w *world) nowhere(list []unbound) []unbound {
	names := map[string]bool{}
	drop := map[int]bool{}
	for i, u := range list {
		if u.here == nil || names[u.symbol] {
			continue
		}
		if len(names) == maxElsewhere {
			drop[i] = true
			continue
		}
		names[u.symbol] = true
	}
	if len(names) == 0 {
		return list
	}
	wanted := slices.Sorted(maps.Keys(names))
	for _, o := range w.objects {
		defined := wanted // by what is not known
		if o.elf.Symbols != nil {
			defined = o.elf.Symbols.Defined(wanted)
		}
		for i, u := range list {
			if u.here != nil && slices.Contains(defined, u.symbol) && !isHere(u.here, o) {
				drop[i] = true
			}
		}
	}
	var kept []unbound
	for i, u := range list {
		if !drop[i] {
			kept = append(kept, u)
		}
	}
	return kept
}

// moduleSymbols imports the extension modules of Python that ask for GPU libraries
// themselves and are no framework's, each in a process of its own. What a program has
// imported before may define what is asked for.
func (w *world) moduleSymbols() []unbound {
	var list []unbound
	for _, o := range w.objects {
		if !isPythonExtension(o.path) || !w.isRoot(o) || o.loader != w.primary || len(w.real(o.misses)) > 0 || w.hostOf(o) != nil {
			continue
		}
		if exception(w.packs.Optional, o.path) != nil || exception(w.packs.AnyOf, o.path) != nil {
			continue
		}
		host := w.host(w.primary)
		if host == nil {
			return nil
		}
		p := w.started(w.pythonOf(o.path, host), host)
		if p == nil {
			continue
		}
		_, err := p.Dlopen(nil, o.path)
		if e := symbolError(err); e != nil {
			u := unboundOf(o.path, e, w.effects("import-fails", values{"error": e.Error()})...)
			u.here = hereOf(p)
			if list = append(list, u); len(list) == maxElsewhere {
				return list
			}
		}
		p.Rest()
	}
	return list
}

// programSymbols are those that the programs miss when they start that load GPU
// libraries, less the image's own.
func (w *world) programSymbols() []unbound {
	var list []unbound
	bound := map[string][]*together{}
	told := map[string]bool{}
	var held []*elfdeps.Process // together they hold what each would read anew
	rest := func() {
		for _, p := range held {
			p.Rest()
		}
		held = nil
	}
	defer rest()
	for _, o := range w.programs() {
		if o.path == w.entry().path {
			continue
		}
		host := w.host(o.loader)
		if host == nil {
			continue
		}
		p, err := host.Trace(o.path)
		if err != nil {
			continue
		}
		if held = append(held, p); len(held) == maxTogether {
			rest()
		}
		if u := w.firstUnbound(p, bound); u != nil {
			if told[u.message] {
				u.by = nil // its process is not held for it
			}
			told[u.message] = true
			list = append(list, *u)
		}
	}
	return list
}

// together are files that were bound with one another.
type together struct{ files map[string]bool }

// maxTogether bounds the sets of files that are remembered of each library, and the
// processes that are held at a time.
const maxTogether = 16

// firstUnbound is the first symbol that a traced program misses when it starts, nil
// when there is none. What a library asks for is looked for once: where all was found
// among files that are in this process as well, nothing is missing here. Debian's torch
// has forty programs that differ by themselves alone.
func (w *world) firstUnbound(p *elfdeps.Process, bound map[string][]*together) *unbound {
	this := &together{map[string]bool{}}
	for _, m := range p.Objects {
		this.files[m.Real()] = !m.Main
	}
	has := map[*together]bool{} // what was bound together and is all here
	now, _ := w.getenv("LD_BIND_NOW")
	for _, m := range slices.Backward(p.Objects) { // what is needed is bound before who needs it
		if slices.ContainsFunc(bound[m.Real()], func(had *together) bool {
			is, known := has[had]
			if !known {
				is = within(had.files, this.files)
				has[had] = is
			}
			return is
		}) {
			continue
		}
		var missing []elfdeps.Unresolved
		if !p.Complete(m) {
			missing = p.Unresolved(m)
		}
		for _, u := range missing {
			if u.Lazy && now == "" {
				continue
			}
			program := p.Program().Real()
			message := m.String() + ": " + u.Error()
			return &unbound{
				path: program, effects: w.effects("program-does-not-start", values{"name": path.Base(program), "program": program, "error": message}),
				message: message, subject: m.String(), by: m, symbol: u.Symbol, version: u.Version, file: u.File, verdict: w.verdict("other-program", nil),
			}
		}
		if had := bound[m.Real()]; !m.Main && len(had) < maxTogether {
			bound[m.Real()] = append(had, this)
		}
	}
	return nil
}

// within reports whether all that a has is in b.
func within(a, b map[string]bool) bool {
	for f, has := range a {
		if has && !b[f] {
			return false
		}
	}
	return true
}

// symbolError is the error of a symbol that is missing, nil for any other, such as
// one about thread-local storage, which hangs on what else is loaded.
func symbolError(err error) *elfdeps.Error {
	var e *elfdeps.Error
	if errors.As(err, &e) && (e.Kind == elfdeps.SymbolError || e.Kind == elfdeps.RelocationError) && strings.Contains(e.Message, "symbol") {
		return e
	}
	return nil
}
