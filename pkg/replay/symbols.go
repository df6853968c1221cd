package replay

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Unbound is a symbol that nothing defines where a process needs it.
type Unbound struct {
	Path    string // what was started or opened
	Effects []packs.Effect
	Message string          // in the loader's words
	Subject string          // the file that the message begins with; empty for musl's
	By      *elfdeps.Module // whose reference it is; nil for musl's
	Symbol  string
	Version string // that is asked for, empty without one
	File    string // of which the version is asked
	Lazy    bool   // missed only when it is called
	More    int    // as many others are missed likewise by the same file
	Aside   bool   // it is often there and never loaded: no error without the GPU
	Verdict packs.Verdict
	// here, where what the process is of is not known, are the files and SONAMEs of
	// what it has: what others define may be asked for.
	here map[string]bool
}

// UnboundOf returns an error of the loader about a symbol as one.
func UnboundOf(p string, e *elfdeps.Error, effects ...packs.Effect) Unbound {
	u := Unbound{Path: p, Effects: effects, Message: e.Error(), By: e.By, Symbol: e.Name, Version: e.Version, File: e.File, Verdict: packs.Grave}
	if !e.Musl {
		u.Subject = e.Subject
	}
	return u
}

// startSymbols starts the image's program.
func (bi *binder) startSymbols() []Unbound {
	e := bi.re.config.Entry()
	o := bi.re.files.ByPath[e.Path]
	if o == nil || o.Loader == nil || len(bi.re.files.Real(o.Misses)) > 0 {
		return nil
	}
	host := bi.re.loaders.host(o.Loader)
	if host == nil {
		return nil
	}
	p, err := host.Start(e.Path)
	if s := symbolError(err); s != nil {
		text := s.Error()
		if lines := p.Stderr(); len(lines) > 0 {
			text = lines[len(lines)-1]
		}
		return []Unbound{UnboundOf(e.Path, s, bi.re.packs.Effects("start-line", packs.Values{"error": text})...)}
	}
	if err != nil {
		return nil
	}
	return lazySymbols(p)
}

// lazySymbols are the functions that the objects of a started program miss when
// they call them, one for each object.
func lazySymbols(p *elfdeps.Process) []Unbound {
	var list []Unbound
	for _, m := range p.Objects {
		if m.Real() == "" {
			continue
		}
		var first *Unbound
		for _, u := range p.Unresolved(m) {
			switch {
			case !u.Lazy:
			case first == nil:
				list = append(list, Unbound{Path: m.Real(), Message: m.Real() + ": " + u.Error(), Subject: m.Real(), By: m, Symbol: u.Symbol, Version: u.Version, File: u.File, Lazy: true, Verdict: packs.Grave})
				first = &list[len(list)-1]
			default:
				first.More++
			}
		}
	}
	return list
}

// frameworkSymbols opens what a framework opens, as it opens it, and then what relies
// on it, in one process; what fails is unloaded and the others are opened after it.
func (bi *binder) frameworkSymbols(in *Install) []Unbound {
	p, known := bi.re.loaders.hostProcess(in)
	if p == nil {
		return nil
	}
	defer p.Rest()
	var list []Unbound
	told := func(s packs.Step, file string, err error) {
		e := symbolError(err)
		if e == nil {
			return
		}
		u := UnboundOf(file, e, bi.re.packs.Effects("import-fails", packs.Values{"error": e.Error()})...)
		if s.Effect != "" {
			u.Effects[0].Text = s.Effect
		}
		if strings.Contains(s.Error, "{error}") { // else it is for a library that is missing
			u.Effects[0].Error = packs.Expand(s.Error, "{error}", e.Error())
		}
		u.Aside = in.Aside
		if !known {
			u.here = hereOf(p)
		}
		list = append(list, u)
	}
	bi.re.runStepsTelling(p, in, told)
	if len(list) > 0 || len(in.Failures) > 0 {
		return list
	}
	for _, o := range bi.re.files.Objects {
		served := slices.ContainsFunc(o.ELF.Needed, func(n string) bool { return packs.MatchAny(in.Serves, n) })
		if served && !IsProgram(o.ELF) && len(bi.re.files.Real(o.Misses)) == 0 && in.follows(o.Path) && bi.re.hostOf(o) == in {
			told(packs.Step{}, o.Path, bi.openFollower(p, in, o))
		}
	}
	bi.excuse(in, list)
	return list
}

// excuse lowers the verdict on what followers of a framework miss where the file is
// optional, or another one serves in its place. One whose name has the framework's
// release is the one that is taken.
func (bi *binder) excuse(in *Install, list []Unbound) {
	failed := map[string]bool{}
	for _, u := range list {
		failed[u.Path] = true
	}
	for i := range list {
		file := list[i].Path
		if x := packs.ExceptionFor(bi.re.packs.Optional, file); x != nil {
			list[i].Verdict = bi.re.packs.Excepted(x)
		} else if x := packs.ExceptionFor(bi.re.packs.AnyOf, file); x != nil && !in.namedIn(file) && slices.ContainsFunc(bi.re.files.Objects, func(o *Object) bool {
			return !failed[o.Path] && x.Beside(o.Path) == x.Beside(file) && packs.Match(x.Match, o.Path) && len(bi.re.files.Real(o.Misses)) == 0
		}) {
			list[i].Verdict = bi.re.packs.Excepted(x)
		}
	}
}

// namedIn reports whether a file's name has the framework's release in it.
func (in *Install) namedIn(file string) bool {
	return len(in.release) > 2 && strings.Contains(path.Base(file), in.release.First(3).String()+".")
}

// maxSiblings bounds the libraries of its own package that a module is opened after.
const maxSiblings = 8

// openFollower opens a module of a package that relies on a framework. What it misses
// of a library that its own package brings, the package has opened before, for all to
// see: Transformer Engine's extension does not link libtransformer_engine.so
// (https://github.com/NVIDIA/TransformerEngine/blob/v1.4/transformer_engine/common/__init__.py).
func (bi *binder) openFollower(p *elfdeps.Process, in *Install, o *Object) error {
	_, err := p.Dlopen(nil, o.Path)
	tried := map[string]bool{}
	for range maxSiblings {
		e := symbolError(err)
		if e == nil || e.By == nil || e.By.Real() != o.Path {
			return err
		}
		sibling := bi.siblingWith(o, in, e.Name)
		if sibling == "" || tried[sibling] {
			return err
		}
		tried[sibling] = true
		if _, failed := p.DlopenFlags(nil, sibling, elfdeps.Now|elfdeps.Global); failed != nil {
			return err
		}
		_, err = p.Dlopen(nil, o.Path)
	}
	return err
}

// siblingWith returns the library that defines a symbol and that a module's package
// brings, or one that it requires; empty where there is none. The framework's own
// files are none: it opens them itself.
func (bi *binder) siblingWith(o *Object, in *Install, symbol string) string {
	_, pkg, wheels := bi.re.packages.OwnerOf(o.Path)
	if pkg == nil {
		return ""
	}
	brought := []*inventory.Package{pkg}
	for _, line := range pkg.Requires {
		if r, err := inventory.ParseRequirement(line); err == nil && wheels[r.Name] != nil {
			brought = append(brought, wheels[r.Name])
		}
	}
	for _, other := range bi.re.files.Objects {
		owned := slices.ContainsFunc(brought, func(b *inventory.Package) bool { _, ok := b.Files[other.Path]; return ok })
		if owned && other != o && !IsIn(other.Path, in.Home) && Defines(other.ELF, symbol) {
			return other.Path
		}
	}
	return ""
}

// hostProcess is the process that opens a framework's files, on a machine with a GPU:
// that of its interpreter, or of the program that it is for. Where it is for any
// program, the process brings nothing and is not known: what the program defines
// may be asked for. It is nil where the image does not have it, or it does not start.
func (lo *Loaders) hostProcess(in *Install) (p *elfdeps.Process, known bool) {
	if lo.Primary == nil {
		return nil, false
	}
	host := lo.host(lo.Primary)
	if host == nil {
		return nil, false
	}
	if in.Host == "" && len(lo.Pythons(in.Home)) == 0 {
		p = host.Bare()
		p.Settle()
		return p, false
	}
	return lo.started(lo.hostOfInstall(in, host), host), true
}

// hostOfInstall is the path of the program that opens a framework's files: an
// interpreter that starts, or the program that it is for; empty where it is for any, and
// where the image has none.
func (lo *Loaders) hostOfInstall(in *Install, host *elfdeps.Loader) string {
	if in.Host == "" {
		return lo.pythonOf(in.Home, host)
	}
	var paths []string
	if p, ok := lo.config.Executable(in.Host); ok {
		paths = append(paths, RealPath(lo.img.FS, p))
	}
	for _, p := range append(paths, lo.files.filesNamed(in.Host)...) {
		if o := lo.files.ByPath[p]; o != nil && IsProgram(o.ELF) && o.ELF.Interp == host.Path {
			return p
		}
	}
	return ""
}

// started is the process of a program, nil when it does not start.
func (lo *Loaders) started(program string, host *elfdeps.Loader) *elfdeps.Process {
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
func isHere(here map[string]bool, o *Object) bool {
	return here[o.Path] || here[o.ELF.Soname] || here[path.Base(o.Path)]
}

// maxElsewhere bounds what is looked for in all files of the image; of the rest nothing
// is said.
const maxElsewhere = 64

// nowhere leaves out what another file of the image defines, or may, where the process
// is not known: its program may be that file, or have opened it.
func (re *replayer) nowhere(list []Unbound) []Unbound {
	names := map[string]bool{}
	drop := map[int]bool{}
	for i, u := range list {
		if u.here == nil || names[u.Symbol] {
			continue
		}
		if len(names) == maxElsewhere {
			drop[i] = true
			continue
		}
		names[u.Symbol] = true
	}
	if len(names) == 0 {
		return list
	}
	wanted := slices.Sorted(maps.Keys(names))
	for _, o := range re.files.Objects {
		defined := wanted // by what is not known
		if o.ELF.Symbols != nil {
			defined = o.ELF.Symbols.Defined(wanted)
		}
		for i, u := range list {
			if u.here != nil && slices.Contains(defined, u.Symbol) && !isHere(u.here, o) {
				drop[i] = true
			}
		}
	}
	var kept []Unbound
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
func (bi *binder) moduleSymbols() []Unbound {
	var list []Unbound
	for _, o := range bi.re.files.Objects {
		if !IsPythonExtension(o.Path) || !bi.re.files.IsRoot(o) || o.Loader != bi.re.loaders.Primary || len(bi.re.files.Real(o.Misses)) > 0 || bi.re.hostOf(o) != nil {
			continue
		}
		if packs.ExceptionFor(bi.re.packs.Optional, o.Path) != nil || packs.ExceptionFor(bi.re.packs.AnyOf, o.Path) != nil {
			continue
		}
		host := bi.re.loaders.host(bi.re.loaders.Primary)
		if host == nil {
			return nil
		}
		p := bi.re.loaders.started(bi.re.loaders.pythonOf(o.Path, host), host)
		if p == nil {
			continue
		}
		_, err := p.Dlopen(nil, o.Path)
		if e := symbolError(err); e != nil {
			u := UnboundOf(o.Path, e, bi.re.packs.Effects("import-fails", packs.Values{"error": e.Error()})...)
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
func (bi *binder) programSymbols() []Unbound {
	var list []Unbound
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
	for _, o := range bi.re.programs() {
		if o.Path == bi.re.config.Entry().Path {
			continue
		}
		host := bi.re.loaders.host(o.Loader)
		if host == nil {
			continue
		}
		p, err := host.Trace(o.Path)
		if err != nil {
			continue
		}
		if held = append(held, p); len(held) == maxTogether {
			rest()
		}
		if u := bi.firstUnbound(p, bound); u != nil {
			if told[u.Message] {
				u.By = nil // its process is not held for it
			}
			told[u.Message] = true
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
func (bi *binder) firstUnbound(p *elfdeps.Process, bound map[string][]*together) *Unbound {
	this := &together{map[string]bool{}}
	for _, m := range p.Objects {
		this.files[m.Real()] = !m.Main
	}
	has := map[*together]bool{} // what was bound together and is all here
	now, _ := bi.re.config.Getenv("LD_BIND_NOW")
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
			return &Unbound{
				Path: program, Effects: bi.re.packs.Effects("program-does-not-start", packs.Values{"name": path.Base(program), "program": program, "error": message}),
				Message: message, Subject: m.String(), By: m, Symbol: u.Symbol, Version: u.Version, File: u.File, Verdict: bi.re.packs.Verdict("other-program", nil),
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
