package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// group makes one finding of those that have one cause:
//
//   - A rule about packages that says why a library is missing becomes an effect of the
//     finding about the missing library.
//   - Findings of a rule about several processes with the same cause are merged.
//   - A library with a missing symbol is not reported as a mixture as well, and a
//     library that any other finding is about is not reported as named only.
func group(list []Finding, perProcess map[string]bool) []Finding {
	return withoutWeaker(merge(explained(list), perProcess))
}

// explained makes effects of the findings that explain others.
func explained(list []Finding) []Finding {
	var out []Finding
	explains := map[int]int{} // index of a finding → of the one that it explains
	for i := range list {
		k := slices.IndexFunc(list, func(f Finding) bool { return list[i].explains(&f) })
		if k >= 0 {
			explains[i] = k
			list[k].Effects = append(list[k].Effects, packs.Effect{Text: list[i].Message})
		}
	}
	for i, f := range list {
		if _, ok := explains[i]; !ok {
			out = append(out, f)
		}
	}
	return out
}

// merge puts findings about several processes together that have one cause.
func merge(list []Finding, perProcess map[string]bool) []Finding {
	var out []Finding
	at := map[[2]string]int{} // the first of a rule and a cause
	for _, f := range list {
		key := [2]string{f.Rule, f.Cause}
		i, ok := at[key]
		if !ok || !perProcess[f.Rule] {
			if !ok {
				at[key] = len(out)
			}
			out = append(out, f)
			continue
		}
		for _, e := range f.Effects {
			if !slices.Contains(out[i].Effects, e) {
				out[i].Effects = append(out[i].Effects, e)
			}
		}
		if !out[i].Severity.AtLeast(f.Severity) {
			out[i].Severity, out[i].Because = f.Severity, f.Because
		}
	}
	return out
}

// withoutWeaker leaves out findings about libraries that others say more of.
func withoutWeaker(list []Finding) []Finding {
	lacking, reported := map[string]bool{}, map[string]bool{}
	for _, f := range list {
		if f.Symbol != "" {
			lacking[f.Library] = true
		}
		if f.Rule != namedLibrary && f.Library != "" {
			reported[path.Base(f.Library)] = true
		}
	}
	return slices.DeleteFunc(list, func(f Finding) bool {
		if f.Rule == namedLibrary {
			return slices.ContainsFunc(strings.Fields(f.Values["names"]), func(n string) bool { return reported[n] })
		}
		return f.Kind == packs.Mixture && f.Symbol == "" && lacking[f.Library]
	})
}

// explains reports whether a finding about packages says why a library of its family is
// missing in the same installation.
func (f *Finding) explains(missing *Finding) bool {
	return f.Kind == packs.Package && f.Family != "" && missing.Family == f.Family && missing.Kind == packs.Missing &&
		missing.Severity != packs.Note && sameSite(missing.NeededBy, f.NeededBy)
}

// sameSite reports whether files are in the directory of Python packages that has the
// metadata of others: PACKAGES/NAME.dist-info/METADATA.
func sameSite(files, metadata []replay.File) bool {
	return slices.ContainsFunc(files, func(f replay.File) bool {
		return slices.ContainsFunc(metadata, func(m replay.File) bool { return replay.IsIn(f.Path, path.Dir(path.Dir(m.Path))) })
	})
}
