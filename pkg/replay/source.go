package replay

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// source is the import of a framework as its own Python source in the image does it. It
// takes the place of the framework's preloads and of its steps with Import in the packs.
// Where the source is not in the image, or cannot be followed with certainty up to the
// last of these steps' files, the framework has none, and the packs' plan is used.
type source struct {
	// opens are the files that the import opens, in order: those that can be opened, and
	// then the one that ends it.
	opens []sourceOpen
	// ends reports that the last of opens ends the import.
	ends bool
	// refused is the failure of a step whose exception the source answers with one of its
	// own, which ends the import; nil if there is none.
	refused *sourceOpen
	// caught are the files of steps that cannot be opened, and whose exception the source
	// catches.
	caught []sourceOpen
}

// sourceOpen is a file that the import opens.
type sourceOpen struct {
	opened
	step   packs.Step
	other  bool           // no step of the packs opens it
	caught string         // the exceptions that are caught
	err    *elfdeps.Error // nil if it can be opened
}

// paths returns the libraries that a source opens by their full path.
func (s *source) paths() []string {
	var list []string
	for _, o := range s.opens {
		if o.ctypes && strings.HasPrefix(o.name, "/") {
			list = append(list, o.name)
		}
	}
	return list
}

// reader finds the source of one framework in the tree of its import.
type reader struct {
	re    *replayer
	in    *Install
	steps map[string]packs.Step // by the real path of a file
	after map[string]attempt    // the last open of each of these files
	doubt bool                  // a library before the last of them may be opened
}

// attempt is an open of a step's file in a tree.
type attempt struct {
	node   *pyimport.Node
	caught string
}

// sourceOf returns the source of a framework by its import, or nil.
func (re *replayer) sourceOf(in *Install, f *followed) *source {
	rd := &reader{re: re, in: in, steps: re.importSteps(in), after: map[string]attempt{}}
	if f == nil || f.killed || len(rd.steps) == 0 || !rd.isImported(f.tree) || rd.helps(f.tree) {
		return nil
	}
	if !rd.walk([]*pyimport.Node{f.tree}, "") {
		return nil
	}
	return rd.source(f)
}

// importSteps returns the steps whose failure ends the import, by the files that they open.
func (re *replayer) importSteps(in *Install) map[string]packs.Step {
	list := map[string]packs.Step{}
	for _, s := range in.steps() {
		if !s.Import || s.Feature {
			continue
		}
		for _, file := range re.files.Glob(in.Home, s.Open) {
			if re.loadable(in, file) {
				list[RealPath(re.img.FS, file)] = s
			}
		}
	}
	return list
}

// isImported reports whether the tree is the import of the framework's own package.
func (rd *reader) isImported(tree *pyimport.Node) bool {
	return slices.ContainsFunc(tree.Nodes, func(n *pyimport.Node) bool {
		return n.Name == rd.in.Package && RealPath(rd.re.img.FS, n.File) == RealPath(rd.re.img.FS, path.Join(rd.in.Home, "__init__.py"))
	})
}

// helps reports whether the tree imports a framework that helps this one by the packs: they
// judge this one alone, and then with the other.
func (rd *reader) helps(n *pyimport.Node) bool {
	return slices.ContainsFunc(n.Nodes, rd.helps) || slices.ContainsFunc(rd.in.Helped, func(h packs.Help) bool {
		return slices.ContainsFunc(rd.re.packs.Frameworks, func(f *packs.Framework) bool { return f.ID == h.Framework && f.Package == n.Name })
	})
}

// walk finds the opens of the steps' files below the last node of a path. It reports false
// if one of them, or of the libraries before the last of them, is not certain.
func (rd *reader) walk(way []*pyimport.Node, caught string) bool {
	n := way[len(way)-1]
	caught = cmp.Or(n.Caught, caught)
	file := rd.fileOf(n)
	if _, ok := rd.steps[file]; ok && file != "" {
		if rd.doubt || !isCertain(way) {
			return false
		}
		rd.after[file] = attempt{n, caught}
	}
	if n.Maybe != "" && n.Kind == pyimport.Library {
		rd.doubt = true
	}
	for _, c := range n.Nodes {
		if !rd.walk(append(way[:len(way):len(way)], c), caught) {
			return false
		}
	}
	return true
}

// isCertain reports whether nothing on the way to a node is in doubt.
func isCertain(way []*pyimport.Node) bool {
	for i, n := range way {
		if n.Maybe != "" || n.Failed != nil && n.Failed.Doubt != "" {
			return false
		}
		for _, u := range n.Unknown {
			if i == len(way)-1 || lineOf(u) <= lineOf(way[i+1].At) {
				return false
			}
		}
	}
	return true
}

// lineOf returns the line of a statement ("FILE:12"), or of a note ("line 12: TEXT"); 0 if it
// has none.
func lineOf(at string) int {
	if rest, ok := strings.CutPrefix(at, "line "); ok {
		at, _, _ = strings.Cut(":"+rest, ": ")
	}
	n, _ := strconv.Atoi(at[strings.LastIndexByte(at, ':')+1:])
	return n
}

// fileOf returns the real path of the file that a node opens by its path, or "".
func (rd *reader) fileOf(n *pyimport.Node) string {
	switch {
	case n.Kind == pyimport.Extension:
		return RealPath(rd.re.img.FS, n.File)
	case n.Kind == pyimport.Library && strings.HasPrefix(n.Name, "/"):
		return RealPath(rd.re.img.FS, n.Name)
	}
	return ""
}

// source returns the source of a framework whose tree was walked, or nil if the import does
// not come to the files of all steps, for a reason that is not certain.
func (rd *reader) source(f *followed) *source {
	s := &source{}
	for _, o := range f.opened {
		s.opens = append(s.opens, rd.open(o))
	}
	failed := f.tree.Failed
	if failed != nil && failed.Doubt != "" {
		failed = nil
	}
	var refused []sourceOpen
	for _, file := range slices.Sorted(maps.Keys(rd.after)) {
		if a := rd.after[file]; a.node.Failed != nil && a.node.Failed != failed {
			refused = append(refused, rd.failure(a))
		}
	}
	switch e := causeOf(failed); {
	case e != nil:
		last := rd.last(f.tree, failed)
		if last == nil {
			return nil
		}
		s.opens, s.ends = append(s.opens, *last), true
	case len(rd.after) < len(rd.steps) && (failed == nil || len(refused) == 0):
		return nil
	case failed != nil && len(refused) > 0:
		s.refused = &refused[0]
		s.refused.step.Error = rd.re.packs.Phrase("exception", packs.Values{"type": failed.Type, "text": failed.Text})
	default:
		s.caught = refused
	}
	return s
}

// last returns the open of a tree that ends the import with a failure, or nil.
func (rd *reader) last(n *pyimport.Node, failed *pyimport.Failure) *sourceOpen {
	for _, c := range n.Nodes {
		if c.Failed == failed {
			return rd.last(c, failed)
		}
	}
	if n.Maybe != "" || rd.fileOf(n) == "" {
		return nil
	}
	o := rd.failure(attempt{node: n})
	if o.other {
		for _, x := range rd.re.packs.Effects("import-of", packs.Values{"module": rd.in.Package, "type": failed.Type, "error": "{error}"}) {
			o.step.Effect, o.step.Error = x.Text, x.Error
		}
	}
	return &o
}

// failure returns the open of a node that fails.
func (rd *reader) failure(a attempt) sourceOpen {
	o := rd.open(opened{name: cmp.Or(a.node.File, a.node.Name), flags: elfdeps.Now, ctypes: a.node.Kind == pyimport.Library})
	o.caught, o.err = a.caught, causeOf(a.node.Failed)
	return o
}

// open returns an open with the step that opens the same file, or one of its own.
func (rd *reader) open(o opened) sourceOpen {
	if s, ok := rd.steps[RealPath(rd.re.img.FS, o.name)]; ok {
		return sourceOpen{opened: o, step: s}
	}
	return sourceOpen{opened: o, step: packs.Step{Open: o.name, Import: true}, other: true}
}

// causeOf returns the loader's error behind an exception, or nil.
func causeOf(f *pyimport.Failure) *elfdeps.Error {
	if f == nil {
		return nil
	}
	e, _ := f.Cause.(*elfdeps.Error)
	return e
}

// openSource opens the files of a framework's source, and then those of its other steps. It
// returns the steps that fail. If the import ends with one of them, those that it has not
// come to are opened too, so that all that is missing is found at once.
func (re *replayer) openSource(p *elfdeps.Process, in *Install, onOpen openFunc) []Failure {
	var misses []*elfdeps.Error
	for _, o := range in.source.opens {
		misses = re.openBy(p, &o, onOpen)
	}
	var failures []Failure
	if in.source.ends {
		last := in.source.opens[len(in.source.opens)-1]
		if failures = failureOf(last, misses); last.other {
			return failures
		}
	}
	if r := in.source.refused; r != nil {
		return failureOf(*r, named(re.openBy(p, r, nil), r.step.Error))
	}
	for _, c := range in.source.caught {
		if symbolError(c.err) == nil {
			c.step.Feature = true
			failures = append(failures, failureOf(c, []*elfdeps.Error{c.err})...)
		}
	}
	for _, s := range in.steps() {
		if !s.Import || s.Feature || in.source.ends {
			failed, _ := re.openStep(p, in, s, onOpen)
			failures = append(failures, failed...)
		}
	}
	return failures
}

// failureOf returns the failure of an open, or none if nothing but symbols is missing.
func failureOf(o sourceOpen, misses []*elfdeps.Error) []Failure {
	if len(misses) == 0 {
		return nil
	}
	return []Failure{{Step: o.step, Path: o.name, Misses: misses, Caught: o.caught}}
}

// named returns the misses that an error is about: the one whose library it names, else the
// first.
func named(misses []*elfdeps.Error, text string) []*elfdeps.Error {
	for i, e := range misses {
		if strings.Contains(text, packs.Stem(e.Name)) {
			return misses[i : i+1]
		}
	}
	return misses[:min(len(misses), 1)]
}

// openBy opens one file as the source does, and returns what the process misses since.
func (re *replayer) openBy(p *elfdeps.Process, o *sourceOpen, onOpen openFunc) []*elfdeps.Error {
	var by *elfdeps.Module
	if o.ctypes {
		by = ctypesOf(p)
	}
	had, checked, loaded := len(p.Misses), len(VersionsOf(p)), len(p.Objects)
	_, err := p.DlopenFlags(by, o.name, o.flags)
	if onOpen != nil {
		onOpen(o.step, o.name, err)
	}
	versions := VersionsOf(p)
	return re.files.Real(slices.Concat(p.Misses[had:], versions[min(checked, len(versions)):], re.files.cutOf(p.Objects, loaded)))
}

// findSources follows the imports of the frameworks whose own source is in the image.
func (re *replayer) findSources(ctx context.Context) error {
	jobs := make([]job, len(re.ev.Installs))
	for i, in := range re.ev.Installs {
		if len(re.importSteps(in)) > 0 && re.hasSource(in) {
			jobs[i] = re.starter.importOf(&Start{Python: re.hosts.pythonOf(in.Home, re.hosts.primary())}, in.Package)
		}
	}
	done, err := re.starter.imports(ctx, jobs)
	for i, in := range re.ev.Installs {
		in.source = re.sourceOf(in, done[i])
	}
	return err
}

// hasSource reports whether the image has the source of a framework's package, and a
// loader.
func (re *replayer) hasSource(in *Install) bool {
	e, _, ok := re.img.FS.Lookup(path.Join(in.Home, "__init__.py"))
	return ok && len(e.Content) > 0 && in.Package != "" && re.hosts.primary() != nil
}
