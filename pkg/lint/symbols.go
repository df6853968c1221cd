package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ianlancetaylor/demangle"
	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// unboundSymbols returns a finding for each undefined symbol of a known process: the image's
// program and others that load GPU libraries, the files that a framework opens or that rely on
// it, and Python's extension modules that need GPU libraries. The function mixtures covers the
// libraries that these open later. Any other undefined symbol may come from the application
// that loads a plug-in.
func unboundSymbols(pass *Pass) []Finding {
	var found []Finding
	at := map[string]int{} // in found, by message
	for _, u := range pass.Evidence.Unbound {
		i, ok := at[u.Message]
		if !ok {
			at[u.Message] = len(found)
			found = append(found, symbolFinding(pass, u))
			continue
		}
		found[i].Affected = append(found[i].Affected, u.Path)
		found[i].addEffects(u.Effects...)
	}
	for i := range found {
		slices.Sort(found[i].Affected)
		found[i].Affected = slices.Compact(found[i].Affected)
	}
	return found
}

// symbolFinding returns the finding for an undefined symbol, of the rule that explains it.
func symbolFinding(pass *Pass, u replay.Unbound) Finding {
	fact := pass.Packs.Symbol(u.Symbol)
	rule, asked := ruleOfSymbol(pass, u, fact)
	f := pass.say(rule, "loader-says", packs.Values{"error": u.Message})
	f.Symbol, f.Affected, f.Effects = u.Symbol, []string{u.Path}, u.Effects
	if name := demangle.Filter(u.Symbol); name != u.Symbol {
		f.Demangled = name
	}
	if path.IsAbs(u.Subject) {
		f.Subject = u.Subject
	}
	if u.By != nil && u.By.Real() != "" {
		f.NeededBy = []replay.File{pass.Image.File(u.By.Real())}
	} else if f.Subject != "" {
		f.NeededBy = []replay.File{pass.Image.File(replay.RealPath(pass.Image.FS, f.Subject))}
	}
	if asked != nil {
		f.BoundTo, f.Library, f.Family, f.Present = &asked.file, asked.library, asked.family, asked.copies
	}
	v := u.Verdict
	if u.Aside && f.Family == "" {
		aside := pass.Packs.Unproved("step-aside")
		if in := pass.Evidence.InstallOf(u.Path); in != nil {
			aside = judgeAside(pass, in)
		}
		v = v.AtMost(aside)
	}
	pass.lowerTo(&f, v)
	if u.Lazy {
		whenCalled(pass, &f, u, fact)
	}
	f.advise(symbolFixes(pass, &f, u, fact)...)
	return f
}

// ruleOfSymbol returns the rule for an undefined symbol, and the library that should define it,
// or nil if that is unknown.
func ruleOfSymbol(pass *Pass, u replay.Unbound, fact *packs.SymbolFact) (string, *asked) {
	if a := askedOfFramework(pass, u); a != nil {
		return "torch-extension-mismatch", a
	}
	if a := askedOfOtherRelease(pass, u, fact); a != nil {
		return "mixed-releases", a
	}
	if u.Lazy {
		return "undefined-function", nil
	}
	return "undefined-symbol", nil
}

// whenCalled adds to a finding that the symbol is a function that the loader binds at its first
// call.
func whenCalled(pass *Pass, f *Finding, u replay.Unbound, fact *packs.SymbolFact) {
	v := packs.Values{"program": pass.Config.Entry().Name, "error": u.Message, "more": strconv.Itoa(u.More)}
	if fact != nil && fact.Feature != "" {
		v["feature"] = fact.Feature
		pass.also(f, "feature-ends-program", v)
	} else {
		pass.also(f, "call-ends-program", v)
	}
	if u.More > 0 {
		pass.lower(f, "bound-when-called-with-others", v)
	} else {
		pass.lower(f, "bound-when-called", v)
	}
}

// onSearchPath reports whether the image's LD_LIBRARY_PATH has a directory.
func onSearchPath(pass *Pass, dir string) bool {
	value, _ := pass.Config.Getenv("LD_LIBRARY_PATH")
	return slices.ContainsFunc(strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ';' }), func(p string) bool {
		return path.Clean(p) == dir
	})
}

// symbolFixes returns the fixes for an undefined symbol.
func symbolFixes(pass *Pass, f *Finding, u replay.Unbound, fact *packs.SymbolFact) []packs.Advice {
	var list []packs.Advice
	known := fact != nil && fact.Fix != ""
	if l := pass.Loaders.Primary; l != nil && l.Libc.Musl && len(f.NeededBy) > 0 && needsGlibc(pass, f.NeededBy[0].Path) {
		return pass.advice("glibc-base", packs.Values{"file": f.NeededBy[0].Path})
	}
	switch {
	case f.Rule == "torch-extension-mismatch":
		list = extensionFixes(pass, u)
	case f.Rule != "mixed-releases":
	case len(f.Present) > 0:
		clause, dir := "symbol-in-other-copy", path.Dir(f.BoundTo.Path)
		if onSearchPath(pass, dir) {
			clause = "symbol-in-copy-on-path"
		}
		list = pass.advice(clause, packs.Values{"copy": f.Present[0].Path, "dir": dir})
	case !known:
		list = pass.advice("symbol-in-other-release", packs.Values{"library": f.Library, "file": f.BoundTo.Path})
	}
	if known {
		list = append(list, pass.Packs.Rows([]string{fact.Fix}, packs.Values{"cuda": wantedCUDA(pass, f, ""), "number": lastNumbers(u.Symbol)})...)
	}
	if len(list) == 0 {
		list = unmetFixes(pass, u.Path)
	}
	if len(list) == 0 {
		return pass.advice("made-for-one-another", nil)
	}
	return list
}

// needsGlibc reports whether a file needs versions of glibc, which musl ignores.
func needsGlibc(pass *Pass, file string) bool {
	e, _, ok := pass.Image.FS.Lookup(file)
	return ok && e.Object != nil && slices.ContainsFunc(e.Object.VersionNeeds, func(n elfdeps.VersionNeed) bool {
		return slices.ContainsFunc(n.Versions, func(v elfdeps.Version) bool { return strings.HasPrefix(v.Name, "GLIBC_") })
	})
}

// unmetFixes returns the fixes for a file whose wheel requires other releases of packages than
// the installed ones.
func unmetFixes(pass *Pass, file string) []packs.Advice {
	p, pkg, wheels := pass.Packages.OwnerOf(file)
	if pkg == nil {
		return nil
	}
	var list []packs.Advice
	for _, u := range pass.Packages.UnmetOf(p, pkg, wheels) {
		list = append(list, pass.advice("fitting", packs.Values{
			"package": pkg.Name, "version": pkg.Version, "of": u.Of.Name, "of-version": u.Of.Version, "wants": u.Wants,
		})...)
	}
	return list
}

// extensionFixes returns the fixes for an extension that is built for another release of its
// framework.
func extensionFixes(pass *Pass, u replay.Unbound) []packs.Advice {
	lib, other := frameworkLibrary(pass, u)
	build := buildFixes(pass, u.Path)
	if other == "" {
		if len(build) > 0 {
			return build
		}
		if fitting := unmetFixes(pass, u.Path); len(fitting) > 0 {
			return fitting
		}
		return pass.advice("torch-of-other-release", nil)
	}
	v := packs.Values{"wants": "0", "has": "1", "build": "TRUE", "library": path.Base(lib.Real()), "symbol": other}
	if strings.Contains(u.Symbol, "cxx11") {
		v["wants"], v["has"], v["build"] = "1", "0", "FALSE"
	}
	return append(build, pass.advice("torch-of-other-abi", v)...)
}

// buildFixes returns the fix that installs the build of an extension's package for the installed
// release of its framework, or none if the packs know no such build.
func buildFixes(pass *Pass, file string) []packs.Advice {
	p, pkg, wheels := pass.Packages.OwnerOf(file)
	if pkg == nil || !packs.IsPEP440(pkg.Version) {
		return nil
	}
	for _, row := range pass.Packs.ExtensionBuilds {
		of := wheels[row.For]
		if of == nil || !slices.Contains(row.Packages, inventory.Normalize(pkg.Name)) {
			continue
		}
		installed := pass.Packages.Version(p, of)
		release, build, _ := strings.Cut(installed, "+")
		if cuda := pass.Packages.CudaBuild(p, of); build == "" && cuda != "" {
			build = "cu" + strings.ReplaceAll(packs.Numbers(cuda, 2), ".", "")
		}
		if fits, err := version.Satisfies(release, row.Versions); err != nil || !fits || strings.Trim(release, "0123456789.") != "" || build == "" {
			return nil // of no release of the framework, or of a build of another maker
		}
		v := packs.Values{"package": inventory.Normalize(pkg.Name), "version": pkg.Version, "framework": of.Name, "installed": installed}
		if row.Page == "" {
			return pass.advice("extension-from-setup", v)
		}
		v["page"] = packs.Fill(row.Page, packs.Values{"release": packs.Numbers(release, 2) + ".0", "build": build})
		return pass.advice("extension-on-page", v)
	}
	return nil
}

// lastNumbers returns the release at the end of a symbol's name, such as 12.1 for
// __nvJitLinkAddData_12_1, or "".
func lastNumbers(symbol string) string {
	parts := strings.Split(symbol, "_")
	if n := len(parts); n > 2 && isNumber(parts[n-1]) && isNumber(parts[n-2]) {
		return parts[n-2] + "." + parts[n-1]
	}
	return ""
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
