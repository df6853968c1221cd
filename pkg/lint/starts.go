package lint

import (
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// startMisses adds the libraries that the Python programs of the image do not find or cannot
// use.
func startMisses(pass *Pass, by *causes) {
	ends := map[string]bool{} // causes that end a program of the image's start
	for _, s := range pass.Evidence.Starts {
		for i := range s.Failures {
			f := &s.Failures[i]
			e := f.Loader()
			if e == nil || e.Kind == elfdeps.SymbolError || e.Kind == elfdeps.RelocationError || e.Missing() && pass.Packs.FromDriver(e.Name) {
				continue
			}
			c := by.of(e)
			c.loading = true
			c.meet(e, replay.RealPath(pass.Image.FS, f.File()), f.Verdict)
			if s.Package != "" && ends[c.id] {
				continue // the program's own way to it says more
			}
			c.effect(f.Effects...)
			ends[c.id] = ends[c.id] || s.Package == "" && f.Ends
		}
	}
}

// importsFail returns a finding for each import that ends a Python program of the image
// without an error of the loader.
func importsFail(pass *Pass) []Finding {
	var messages []string
	by := map[string][]*replay.StartFailure{}
	for _, s := range pass.Evidence.Starts {
		for i := range s.Failures {
			f := &s.Failures[i]
			if !f.Ends || f.Loader() != nil || f.Doubt != "" {
				continue
			}
			message := f.Type + ": " + f.Failure.Text
			if by[message] == nil {
				messages = append(messages, message)
			}
			by[message] = append(by[message], f)
		}
	}
	var list []Finding
	for _, m := range messages {
		list = append(list, importFinding(pass, m, by[m]))
	}
	return list
}

// importFinding returns the finding for failures with one message.
func importFinding(pass *Pass, message string, failures []*replay.StartFailure) Finding {
	x := pass.say("import-fails", "raises", packs.Values{"error": message})
	v := failures[0].Verdict
	for _, f := range failures {
		x.addEffects(f.Effects...)
		if f.Verdict.Severity.AtLeast(v.Severity) && f.Verdict.Severity != v.Severity {
			v = f.Verdict
		}
	}
	pass.lowerTo(&x, v)
	x.Subject = failures[0].File()
	for _, n := range failures[0].Path {
		if n.File != "" {
			x.NeededBy = []replay.File{pass.Image.File(replay.RealPath(pass.Image.FS, n.File))}
			x.Affected = []string{n.File}
		}
	}
	return x
}
