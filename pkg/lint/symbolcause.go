package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// asked is a library that should have a symbol and does not.
type asked struct {
	file    replay.File
	library string        // its name
	family  string        // its GPU family, or empty
	copies  []replay.File // that have the symbol
}

// askedOfOtherRelease returns the library that was asked for a symbol and is of another
// release than the one that was linked with: it has the version and not the symbol, or
// is known for symbols of this name, or another copy of it in the image has the symbol.
// It is nil where there is none.
func askedOfOtherRelease(pass *Pass, u replay.Unbound, fact *packs.SymbolFact) *asked {
	for _, m := range replay.Reaches(u.By) {
		name := path.Base(m.Object.Soname)
		if m == u.By || m.Real() == "" || m.Object.Symbols == nil || name == "." {
			continue
		}
		copies := pass.Files.Definers(name, m.Real(), u.Symbol)
		versioned := u.File != "" && (m.Object.Soname == u.File || slices.Contains(m.Names, u.File)) && slices.Contains(m.Object.VersionDefs, u.Version)
		known := u.File == "" && fact != nil && fact.Library != "" && packs.Match(fact.Library, name)
		if !versioned && !known && (len(copies) == 0 || u.File != "") {
			continue
		}
		a := &asked{file: pass.Image.File(m.Real()), library: name, copies: copies}
		if fam := pass.Packs.Family(name); fam != nil {
			a.family = fam.ID
		}
		return a
	}
	return nil
}

// askedOfFramework returns the library of a framework that should define a symbol which a
// file misses, or nil. The file is none of the framework's own: it was built against
// another release of the framework.
func askedOfFramework(pass *Pass, u replay.Unbound) *asked {
	lib, _ := frameworkLibrary(pass, u)
	if lib == nil || path.Dir(lib.Real()) == path.Dir(u.By.Real()) {
		return nil
	}
	return &asked{file: pass.Image.File(lib.Real()), library: path.Base(lib.Object.Soname)}
}

// frameworkLibrary returns the library of a framework that should define a missing symbol,
// by the symbol's namespace, and the symbol with the other C++ ABI that it defines instead.
func frameworkLibrary(pass *Pass, u replay.Unbound) (lib *elfdeps.Module, other string) {
	namespaces := pass.Packs.Namespaces(u.Symbol)
	if namespaces == nil || u.By == nil {
		return nil, ""
	}
	for _, m := range replay.Reaches(u.By)[1:] {
		name := path.Base(m.Object.Soname)
		if m.Real() == "" || !packs.MatchAny(namespaces.Libraries, name) {
			continue
		}
		if other := otherABI(m, u.Symbol); other != "" {
			return m, other
		}
		if lib == nil || packs.Match(namespaces.Home, name) {
			lib = m
		}
	}
	return lib, ""
}

// extensionFixes returns the fixes of an extension that was built for another release of
// its framework.
func extensionFixes(pass *Pass, u replay.Unbound) []packs.Advice {
	lib, other := frameworkLibrary(pass, u)
	if other == "" {
		return pass.advice("torch-of-other-release", nil)
	}
	v := packs.Values{"wants": "0", "has": "1", "build": "TRUE", "library": path.Base(lib.Real()), "symbol": other}
	if strings.Contains(u.Symbol, "cxx11") {
		v["wants"], v["has"], v["build"] = "1", "0", "FALSE"
	}
	return pass.advice("torch-of-other-abi", v)
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

// judgeStack returns the verdict on a library that cannot be opened for its stack.
// What is linked with a program is mapped at its start, where any stack is allowed.
func judgeStack(pass *Pass, o *replay.Object) packs.Verdict {
	if x := leftOut(pass, o.Path); x != nil {
		return pass.Packs.Excepted(x)
	}
	switch {
	case replay.IsPythonExtension(o.Path) && slices.ContainsFunc(pass.Loaders.Pythons(o.Path), pass.Image.IsFile):
		return packs.Grave
	case pass.Files.IsRoot(o), pass.Packs.Family(o.Path) != nil:
		return pass.Packs.Verdict("stack-if-opened", nil)
	}
	return pass.Packs.Unproved("not-root")
}

// olderCopyFix returns the fix that has the newer of two copies found first.
func olderCopyFix(pass *Pass, older, newer string) []packs.Advice {
	v := packs.Values{"older": older, "older-dir": path.Dir(older), "newer": newer, "newer-dir": path.Dir(newer)}
	if by := pass.Loaders.SearchDirs()[path.Dir(older)]; strings.HasPrefix(by, "/") {
		v["conf"] = by
		return pass.advice("older-copy-out", v)
	}
	return pass.advice("newer-copy-first", v)
}
