package lint

import (
	"path"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// asked is a loaded library that should define a symbol and does not.
type asked struct {
	file    replay.File
	library string        // its name
	family  string        // its GPU family, or empty
	copies  []replay.File // other copies of it, which define the symbol
}

// askedOfOtherRelease returns the loaded library that should define a symbol, or nil. It is of
// another release than the one that the file was linked with: it defines the symbol's version
// but not the symbol, or the packs have it for such symbols, or another copy of it in the
// image defines the symbol.
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

// askedOfFramework returns the library of a framework that should define a symbol, or nil. The
// file that needs the symbol is not the framework's own, so it is built for another release
// of the framework.
func askedOfFramework(pass *Pass, u replay.Unbound) *asked {
	lib, _ := frameworkLibrary(pass, u)
	if lib == nil || path.Dir(lib.Real()) == path.Dir(u.By.Real()) {
		return nil
	}
	return &asked{file: pass.Image.File(lib.Real()), library: path.Base(lib.Object.Soname)}
}

// frameworkLibrary returns the library of a framework that should define an undefined symbol,
// by the symbol's C++ scope, and the symbol of the other C++ ABI that the library defines
// instead. It returns nil and "" if there is none.
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
