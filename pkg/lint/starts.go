package lint

import (
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// startMisses adds the libraries that the Python programs of the image do not find or cannot
// use.
func startMisses(pass *Pass, by *causes) {
	for _, s := range pass.Evidence.Starts {
		for i := range s.Failures {
			f := &s.Failures[i]
			e := f.Loader()
			if e == nil || e.Kind == elfdeps.SymbolError || e.Kind == elfdeps.RelocationError {
				continue
			}
			c := by.of(e)
			c.loading = true
			c.meet(e, replay.RealPath(pass.Image.FS, f.File()), f.Verdict)
			c.effect(f.Effects...)
		}
	}
}

// importsFail returns a finding for each import that ends a Python program of the image
// without an error of the loader.
func importsFail(pass *Pass) []Finding {
	var list []Finding
	at := map[string]int{} // in list, by message
	for _, s := range pass.Evidence.Starts {
		for i := range s.Failures {
			f := &s.Failures[i]
			if !f.Ends || f.Loader() != nil || f.Doubt != "" {
				continue
			}
			message := f.Type + ": " + f.Failure.Text
			k, ok := at[message]
			if !ok {
				k = len(list)
				at[message] = k
				list = append(list, importFinding(pass, f, message))
			}
			list[k].addEffects(f.Effects...)
			if !list[k].Severity.AtLeast(f.Verdict.Severity) {
				list[k].Severity, list[k].Because = packs.Error, ""
				pass.lowerTo(&list[k], f.Verdict)
			}
		}
	}
	return list
}

// importFinding returns the finding for an import that ends a program.
func importFinding(pass *Pass, f *replay.StartFailure, message string) Finding {
	x := pass.say("import-fails", "raises", packs.Values{"error": message})
	pass.lowerTo(&x, f.Verdict)
	for _, n := range f.Path {
		if n.File != "" {
			x.NeededBy = []replay.File{pass.Image.File(replay.RealPath(pass.Image.FS, n.File))}
			x.Affected = []string{n.File}
		}
	}
	if f.File() != "" {
		x.Subject = f.File()
	}
	return x
}
