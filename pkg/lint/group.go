package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// group returns the findings of all rules, less those that others cover:
//
//   - A finding about packages that explains why a library is missing becomes an effect of
//     the finding about that library.
//   - Findings of one cause in several processes become one, with the effects of all.
//   - A finding about a mixture of releases, or about a name in read-only data, is left out
//     if another finding says more about the library.
func group(list []Finding, perProcess map[string]bool) []Finding {
	return withoutWeaker(merge(explained(list), perProcess))
}

// explained returns the findings less those that explain others, whose messages it adds to
// the others' effects.
func explained(list []Finding) []Finding {
	var out []Finding
	explains := make([]bool, len(list))
	missing := map[string][]int{} // the findings of a family that may be explained
	for i := range list {
		if list[i].Kind == packs.Missing && list[i].Family != "" {
			missing[list[i].Family] = append(missing[list[i].Family], i)
		}
	}
	for i := range list {
		of := missing[list[i].Family]
		at := slices.IndexFunc(of, func(k int) bool { return list[i].explains(&list[k]) })
		if explains[i] = at >= 0; explains[i] {
			k := of[at]
			list[k].Effects = append(list[k].Effects, packs.Effect{Text: list[i].Message})
		}
	}
	for i, f := range list {
		if !explains[i] {
			out = append(out, f)
		}
	}
	return out
}

// merge returns the findings with those of one perProcess rule and one cause merged.
func merge(list []Finding, perProcess map[string]bool) []Finding {
	type key struct{ rule, cause string }
	var out []Finding
	first := map[key]int{} // index in out
	for _, f := range list {
		i, ok := first[key{f.Rule, f.Cause}]
		if !ok || !perProcess[f.Rule] {
			first[key{f.Rule, f.Cause}] = len(out)
			out = append(out, f)
			continue
		}
		out[i].addEffects(f.Effects...)
		if !out[i].Severity.AtLeast(f.Severity) {
			out[i].Severity, out[i].Because = f.Severity, f.Because
		}
	}
	return out
}

// withoutWeaker returns the findings less the weaker ones about a library: about a mixture
// if another finding is about a symbol that the library lacks, and about its name in
// read-only data if any other finding is about it.
func withoutWeaker(list []Finding) []Finding {
	lacksSymbol, reported := map[string]bool{}, map[string]bool{}
	for _, f := range list {
		if f.Symbol != "" {
			lacksSymbol[f.Library] = true
		}
		if f.Rule != namedLibrary && f.Library != "" {
			reported[path.Base(f.Library)] = true
		}
	}
	return slices.DeleteFunc(list, func(f Finding) bool {
		if f.Rule == namedLibrary {
			return slices.ContainsFunc(strings.Fields(f.Values["names"]), func(n string) bool { return reported[n] })
		}
		return f.Kind == packs.Mixture && f.Symbol == "" && lacksSymbol[f.Library]
	})
}

// explains reports whether a finding about packages explains why a library of its family is
// missing in the same environment.
func (f *Finding) explains(missing *Finding) bool {
	return f.Kind == packs.Package && f.Family != "" && missing.Family == f.Family && missing.Kind == packs.Missing &&
		missing.Severity != packs.Note && sameSite(missing.NeededBy, f.NeededBy)
}

// sameSite reports whether one of the files lies in a directory of Python packages that has
// one of the metadata files, PACKAGES/NAME.dist-info/METADATA.
func sameSite(files, metadata []replay.File) bool {
	return slices.ContainsFunc(files, func(f replay.File) bool {
		return slices.ContainsFunc(metadata, func(m replay.File) bool { return replay.IsIn(f.Path, path.Dir(path.Dir(m.Path))) })
	})
}
