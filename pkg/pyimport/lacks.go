package pyimport

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// makesNames matches what the source of a package does to have names that it does not write
// down. Unlike [dynamic] it leaves out what only reads names.
var makesNames = regexp.MustCompile(`\b(?:locals|vars|exec|eval|setattr|_getframe|__dict__|__class__|__path__|meta_path|path_hooks|currentframe|getmodule)\b|` +
	`\bglobals\(\)(?:\[|\.update|\.setdefault|[,)]|$)|\bsys\.modules\[`)

// namesItself matches a module's own name. compared matches uses of it that hand it to nothing that
// sets names: a comparison, the name of a logger or of a distribution, that of the tests of a package (NumPy, SciPy).
var (
	namesItself = regexp.MustCompile(`\b__name__\b`)
	compared    = regexp.MustCompile(`\b__name__\s*[=!]=|\b(?:getLogger|version|get_distribution|PytestTester)\(__name__\)`)
)

// callsImport matches a call of __import__, which only reads the namespaces that it gets.
var callsImport = regexp.MustCompile(`\b__import__\((?:[^()]|\(\))*\)`)

// ofAnother matches the use of an object's attributes, with the last part of its name. ofDefined
// matches the setting of an attribute of a name, defines a function or class of the module.
var (
	ofAnother = regexp.MustCompile(`\b(?:\w+\.)+?(\w+)\.__dict__\b|\b(self|cls)\.__dict__\b`)
	ofDefined = regexp.MustCompile(`\bsetattr\((\w+),`)
	defines   = regexp.MustCompile(`(?m)^(?:def|class) (\w+)`)
)

// withoutOthers returns the source of a module without what sets names of others: of the objects
// of methods, of attributes of modules with another name, and of functions and classes that
// the module defines.
func withoutOthers(text []byte, module string) []byte {
	_, own, _ := cutLast("." + module)
	text = callsImport.ReplaceAll(text, nil)
	text = ofAnother.ReplaceAllFunc(text, func(use []byte) []byte {
		if m := ofAnother.FindSubmatch(use); string(m[1]) == own {
			return use
		}
		return nil
	})
	others := map[string]bool{"self": true, "cls": true}
	for _, m := range defines.FindAllSubmatch(text, -1) {
		others[string(m[1])] = true
	}
	return ofDefined.ReplaceAllFunc(text, func(use []byte) []byte {
		if others[string(ofDefined.FindSubmatch(use)[1])] {
			return nil
		}
		return use
	})
}

// lacksSubmodule reports whether a package probably lacks a name that is taken from it because
// a submodule of that name is not there: the package makes no names that it does not write down,
// it writes this one nowhere but in imports of the package's own, and it has handed itself to
// nothing that is not known. Unlike [Run.surelyLacks] it does not ask whether an
// extension module may set the name.
func (r *Run) lacksSubmodule(m *module, name string) bool {
	if !r.certain() || r.trial != nil || m.extension || m.maybe != "" || m.handed >= unread || r.mayBring(m, name) || r.in.Partial() || r.searchPath(m) == nil {
		return false
	}
	if _, lazy := m.names.get("__getattr__"); lazy && !outside(m, name) || r.mayFind(m, name) {
		return false
	}
	spec := r.specOf(m)
	if spec == nil || spec.Uncertain != "" || spec.Member != "" || spec.Kind != pyenv.Source || spec.File != m.file {
		return false
	}
	text, does := r.makesNames(m)
	if does.makes || m.handed == perhaps && does.namesItself {
		return false
	}
	return onlyImported(text, m.name, name)
}

// mayBring reports whether a module may have a name that is not known of it, because of another
// reason than the star imports which do not bring it.
func (r *Run) mayBring(m *module, name string) bool {
	if m.names.open == "" || m.names.stars == nil {
		return m.names.open != ""
	}
	seen := map[*module]bool{m: true}
	for list := slices.Clone(m.names.stars); len(list) > 0; {
		s := list[0]
		list = list[1:]
		if seen[s] {
			continue
		}
		seen[s] = true
		r.spend(1)
		if !s.extension && s.names.open != "" && s.names.stars == nil || r.starBrings(s, name) {
			return true
		}
		list = append(list, s.names.stars...)
	}
	return false
}

// starBrings reports whether the names of a module that are not known, without those of its
// own star imports, may have one of a name. A call of it whose arguments are not read hardly
// makes the name of a submodule of another package.
func (r *Run) starBrings(m *module, name string) bool {
	_, has := m.names.get(name)
	_, lazy := m.names.get("__getattr__")
	if has || lazy || m.loading || m.maybe != "" || m.handed == byValue {
		return true
	}
	if m.extension {
		return !r.extensionLacks(m, name)
	}
	_, does := r.makesNames(m)
	return does.makes || m.handed >= perhaps && does.namesItself || r.mayFind(m, name)
}

// maker says what the source of a module may do to have names.
type maker struct {
	makes       bool // makes names that it does not write down
	namesItself bool // hands its own name to something that may set names
}

// makesNames returns the source of a module, and what it may do to have names. Without a source it may do everything.
func (r *Run) makesNames(m *module) (text []byte, does maker) {
	text, ok := r.src.read(m.file)
	if !ok {
		return nil, maker{true, true}
	}
	does, known := r.makers[m.name]
	if !known {
		does = maker{makesNames.Match(withoutOthers(text, m.name)), namesItself.Match(compared.ReplaceAll(text, nil))}
		r.makers[m.name] = does
	}
	return text, does
}

// extensionLacks reports whether the data of an extension module does not have a name: one by
// Cython has all its names there (before 3.2, which keeps them as one text), and of
// another one those are kept that begin with one underscore.
func (r *Run) extensionLacks(m *module, name string) bool {
	o := r.objectOf(m.file)
	if o == nil || o.Modules == nil || o.Modules.Partial || len(name) > maxIdent || slices.Contains(o.Modules.Idents, name) || slices.Contains(o.Modules.Strings, name) {
		return false
	}
	if r.isCython(o.Modules) {
		return slices.Contains(o.Modules.Idents, "__test__")
	}
	return strings.HasPrefix(name, "_") && !strings.HasPrefix(name, "__")
}

// maxIdent is the length in bytes up to which names of extension modules are kept (package elfdeps).
const maxIdent = 64

// isNamespace reports whether a module is a package without __init__, which has no names but
// those of its submodules.
func (r *Run) isNamespace(m *module) bool {
	if m.file != "" || r.searchPath(m) == nil {
		return false
	}
	spec := r.specOf(m)
	return spec != nil && spec.Kind == pyenv.Namespace
}

// onlyImported reports whether the lines of a package's source that have a word are imports
// from the package, or take an attribute of what such an import has bound.
func onlyImported(text []byte, pkg, word string) bool {
	attributes := regexp.MustCompile(`(^|[^.\w])` + regexp.QuoteMeta(word) + `\.`)
	own := regexp.MustCompile(`^\s*(?:from\s*\.|(?:from|import)\s+` + regexp.QuoteMeta(pkg) + `\b)`)
	lines := bytes.Split(text, []byte("\n"))
	return !slices.ContainsFunc(lines, func(line []byte) bool {
		if !hasWord(line, word) || own.Match(line) {
			return false
		}
		return isImport.Match(line) || hasWord(attributes.ReplaceAll(line, []byte("$1")), word)
	})
}

// isImport matches a line that imports something.
var isImport = regexp.MustCompile(`^\s*(?:from|import)\b`)

// hand notes that a call at the top level of a module, of something that is not followed, may have
// got the module: as itself, its names or its name, or among arguments that are not known.
func (r *Run) hand(fn value, a *args) {
	m := r.frame.module
	if r.frame.vars != m.names || !a.open && !isUnknown(fn) {
		return
	}
	if _, ok := fn.(*builtin); a.open && ok {
		m.handed = max(m.handed, perhaps)
	} else if a.open {
		m.handed = max(m.handed, unread)
	}
	for _, v := range a.pos {
		if isOf(v, m) {
			m.handed = byValue
		}
	}
	for _, v := range a.kw {
		if isOf(v, m) {
			m.handed = byValue
		}
	}
}

// handing says whether a module was an argument of a call that is not followed.
type handing int

const (
	notHanded handing = iota
	perhaps           // a function whose work is known got arguments that are not
	unread            // another function got such arguments
	byValue
)

// isOf reports whether a value is a module, its names or its name.
func isOf(v value, m *module) bool {
	switch v := v.(type) {
	case *module:
		return v == m
	case *moduleDict:
		return v.of == m
	case string:
		return v == m.name
	}
	return false
}
