package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// reaches are the objects that m needs, breadth first, itself first.
func reaches(m *elfdeps.Module) []*elfdeps.Module {
	if m == nil {
		return nil
	}
	list := []*elfdeps.Module{m}
	seen := map[*elfdeps.Module]bool{m: true}
	for i := 0; i < len(list); i++ {
		for _, d := range list[i].Deps {
			if d != nil && !seen[d] {
				seen[d] = true
				list = append(list, d)
			}
		}
	}
	return list
}

// asked is a library that should have a symbol and does not.
type asked struct {
	file    File
	library string // its name
	family  string // its GPU family, or empty
	copies  []File // that have the symbol
}

// askedOfOtherRelease returns the library that was asked for a symbol and is of another
// release than the one that was linked with: it has the version and not the symbol, or
// is known for symbols of this name, or another copy of it in the image has the symbol.
// It is nil where there is none.
func (w *world) askedOfOtherRelease(u unbound, fact *SymbolFact) *asked {
	for _, m := range reaches(u.by) {
		name := path.Base(m.Object.Soname)
		if m == u.by || m.Real() == "" || m.Object.Symbols == nil || name == "." {
			continue
		}
		copies := w.definers(name, m.Real(), u.symbol)
		versioned := u.file != "" && (m.Object.Soname == u.file || slices.Contains(m.Names, u.file)) && slices.Contains(m.Object.VersionDefs, u.version)
		known := u.file == "" && fact != nil && fact.Library != "" && match(fact.Library, name)
		if !versioned && !known && (len(copies) == 0 || u.file != "") {
			continue
		}
		a := &asked{file: w.file(m.Real()), library: name, copies: copies}
		if fam := w.packs.family(name); fam != nil {
			a.family = fam.ID
		}
		return a
	}
	return nil
}

// definers are the other files of the image that bear a library's name and define
// a symbol.
func (w *world) definers(name, not, symbol string) []File {
	var list []File
	for _, p := range w.filesNamed(name) {
		if e, _, ok := w.img.FS.Lookup(p); ok && p != not && defines(e.Object, symbol) {
			list = append(list, w.file(p))
		}
	}
	return list
}

// filesNamed are the real files of the image's machine that bear a library's name or
// have it as their SONAME, sorted.
func (w *world) filesNamed(name string) []string {
	seen := map[string]bool{}
	for _, p := range slices.Concat(w.named[name], w.sonames[name]) {
		if e, _, ok := w.img.FS.Lookup(p); ok && e.Object != nil && e.Object.Machine == w.machine {
			seen["/"+e.Path] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func defines(o *elfdeps.Object, symbol string) bool { return o != nil && o.Symbols.Defines(symbol) }

// CXXNamespaces are C++ namespaces whose symbols extensions take from the libraries of a
// framework.
type CXXNamespaces struct {
	Names     []string `yaml:"names"`
	Libraries []string `yaml:"libraries"` // patterns of SONAMEs
	Home      string   `yaml:"home"`      // the pattern of the library that defines most of them
	Sources   []string `yaml:"sources"`
}

func (n *CXXNamespaces) validate() error {
	if len(n.Names) == 0 || len(n.Libraries) == 0 || len(n.Sources) == 0 {
		return fmt.Errorf("cxx_namespaces %q: needs names, libraries and sources", n.Names)
	}
	return patterns("cxx_namespaces", append([]string{n.Home}, n.Libraries...))
}

// named reports whether one of the namespaces stands at the beginning of a mangled nested
// name, behind its N and qualifiers.
func (n *CXXNamespaces) named(nested string) bool {
	return slices.ContainsFunc(n.Names, func(name string) bool {
		after, ok := strings.CutPrefix(nested, strconv.Itoa(len(name))+name)
		return ok && after != "" && (after[0] < 'a' || after[0] > 'z')
	})
}

// in reports whether a mangled name has a part in one of the namespaces.
func (n *CXXNamespaces) in(symbol string) bool {
	return slices.ContainsFunc(n.Names, func(name string) bool {
		mangled := strconv.Itoa(len(name)) + name
		return strings.Contains(symbol, "N"+mangled) || strings.Contains(symbol, "NK"+mangled)
	})
}

// namespaces returns the namespaces of a mangled name, or nil: of a nested name (_ZN…,
// _ZNK…) or the table of a type (_ZTIN…, _ZTVN…). Where parts of the name are in several,
// they are the first in the packs.
func (t *Tables) namespaces(symbol string) *CXXNamespaces {
	rest, ok := strings.CutPrefix(symbol, "_Z")
	if !ok {
		return nil
	}
	if len(rest) > 2 && rest[0] == 'T' {
		rest = rest[2:]
	}
	if rest, ok = strings.CutPrefix(rest, "N"); !ok {
		return nil
	}
	rest = strings.TrimLeft(rest, "KV")
	i := slices.IndexFunc(t.CXXNamespaces, func(n *CXXNamespaces) bool { return n.named(rest) })
	if i < 0 {
		return nil
	}
	if first := slices.IndexFunc(t.CXXNamespaces, func(n *CXXNamespaces) bool { return n.in(symbol) }); first >= 0 {
		i = first
	}
	return t.CXXNamespaces[i]
}

// askedOfFramework returns the library of a framework that should define a symbol which a
// file misses, or nil. The file is none of the framework's own: it was built against
// another release of the framework.
func (w *world) askedOfFramework(u unbound) *asked {
	lib, _ := w.frameworkLibrary(u)
	if lib == nil || path.Dir(lib.Real()) == path.Dir(u.by.Real()) {
		return nil
	}
	return &asked{file: w.file(lib.Real()), library: path.Base(lib.Object.Soname)}
}

// frameworkLibrary returns the library of a framework that should define a missing symbol,
// by the symbol's namespace, and the symbol with the other C++ ABI that it defines instead.
func (w *world) frameworkLibrary(u unbound) (lib *elfdeps.Module, other string) {
	namespaces := w.packs.namespaces(u.symbol)
	if namespaces == nil || u.by == nil {
		return nil, ""
	}
	for _, m := range reaches(u.by)[1:] {
		name := path.Base(m.Object.Soname)
		if m.Real() == "" || !matchAny(namespaces.Libraries, name) {
			continue
		}
		if other := otherABI(m, u.symbol); other != "" {
			return m, other
		}
		if lib == nil || match(namespaces.Home, name) {
			lib = m
		}
	}
	return lib, ""
}

// extensionFixes returns the fixes of an extension that was built for another release of
// its framework.
func (w *world) extensionFixes(u unbound) []Advice {
	lib, other := w.frameworkLibrary(u)
	if other == "" {
		return w.advice("torch-of-other-release", nil)
	}
	v := values{"wants": "0", "has": "1", "build": "TRUE", "library": path.Base(lib.Real()), "symbol": other}
	if strings.Contains(u.symbol, "cxx11") {
		v["wants"], v["has"], v["build"] = "1", "0", "FALSE"
	}
	return w.advice("torch-of-other-abi", v)
}

// cxx11Tokens are where the two C++ ABIs of libstdc++ write a name differently:
// std::string and lists, and the tag of functions that return them
// (https://gcc.gnu.org/onlinedocs/libstdc++/manual/using_dual_abi.html).
var cxx11Tokens = []string{"NSt7__cxx11", "B5cxx11", "Ss", "Sb"}

// maxABICandidates bounds how many names of one library are compared.
const maxABICandidates = 4096

// otherABI is the symbol of a library that differs from one that is missing by
// the C++ ABI alone; empty when there is none.
func otherABI(m *elfdeps.Module, symbol string) string {
	// The names are the same up to the first place where the ABIs part.
	cut := len(symbol)
	for _, t := range cxx11Tokens {
		if i := strings.Index(symbol, t); i >= 0 {
			cut = min(cut, i)
		}
	}
	want, ok := withoutABI(symbol)
	if !ok {
		return ""
	}
	found, n := "", 0
	m.Object.Symbols.Exported(symbol[:cut], func(name string) bool {
		if n++; n > maxABICandidates {
			return false
		}
		if name == symbol || strings.Contains(name, "cxx11") == strings.Contains(symbol, "cxx11") {
			return true
		}
		if got, ok := withoutABI(name); ok && got == want && (found == "" || name < found) {
			found = name
		}
		return true
	})
	return found
}

// withoutABI is what a mangled name means, less the marks of the C++ ABI.
func withoutABI(symbol string) (string, bool) {
	s, err := demangle.ToString(symbol, demangle.Verbose)
	if err != nil {
		return "", false
	}
	return abiMarks.Replace(s), true
}

var abiMarks = strings.NewReplacer("std::__cxx11::", "std::", "[abi:cxx11]", "")

// isStack reports whether a loader refuses a library for its executable stack.
func isStack(e *elfdeps.Error) bool {
	return strings.HasPrefix(e.Message, "cannot enable executable stack")
}

// isPythonExtension reports whether a path is an extension module, which nothing
// but a Python's import opens.
func isPythonExtension(p string) bool {
	name := path.Base(p)
	return strings.HasSuffix(name, ".abi3.so") || strings.HasSuffix(name, ".so") && strings.Contains(name, ".cpython-")
}

// judgeStack returns the verdict on a library that cannot be opened for its stack.
// What is linked with a program is mapped at its start, where any stack is allowed.
func (w *world) judgeStack(o *object) verdict {
	if x := w.leftOut(o.path); x != nil {
		return w.excepted(x)
	}
	switch {
	case isPythonExtension(o.path) && slices.ContainsFunc(w.pythons(o.path), w.isFile):
		return grave
	case w.isRoot(o), w.packs.family(o.path) != nil:
		return w.verdict("stack-if-opened", nil)
	}
	return w.unproved("not-root")
}

// newerCopies are the copies of a library elsewhere in the image that define a
// version which the one that is found lacks. Of glibc there are none: its parts
// and the loader must be of one release.
func (w *world) newerCopies(found, version string) []File {
	e, _, ok := w.img.FS.Lookup(found)
	if !ok || e.Object == nil || strings.HasPrefix(version, "GLIBC_") {
		return nil
	}
	var list []File
	for _, p := range w.filesNamed(path.Base(e.Object.Soname)) {
		c, _, ok := w.img.FS.Lookup(p)
		if ok && c.Object != nil && p != "/"+e.Path && slices.Contains(c.Object.VersionDefs, version) {
			list = append(list, w.file(p))
		}
	}
	return list
}

// olderCopyFix returns the fix that has the newer of two copies found first.
func (w *world) olderCopyFix(older, newer string) []Advice {
	v := values{"older": older, "older-dir": path.Dir(older), "newer": newer, "newer-dir": path.Dir(newer)}
	if by := w.searchDirs()[path.Dir(older)]; strings.HasPrefix(by, "/") {
		v["conf"] = by
		return w.advice("older-copy-out", v)
	}
	return w.advice("newer-copy-first", v)
}

// stackLibrary is the file that a loader refuses for its stack, by its path where
// the image has it once.
func (w *world) stackLibrary(e *elfdeps.Error) string {
	if copies := w.filesNamed(path.Base(e.Subject)); len(copies) == 1 {
		return copies[0]
	}
	return e.Subject
}
