package lint

import (
	"path"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// preloadedBy returns the variable or file that preloads a module of a process, or words for
// that if a preloaded library needs the module.
func preloadedBy(pass *Pass, p *elfdeps.Process, m *elfdeps.Module) string {
	for _, o := range p.Objects {
		if o == m && (o.How == "LD_PRELOAD" || o.How == "/etc/ld.so.preload") {
			return o.How
		}
	}
	return pass.Packs.Phrase("what-is-preloaded", nil)
}

// preloadsIgnored returns a finding for each preloaded library that cannot be loaded. The loader
// prints a warning at the start of every program, and goes on.
func preloadsIgnored(pass *Pass) []Finding {
	p := pass.Loaders.Preloading()
	if p == nil {
		return nil
	}
	var list []Finding
	for _, i := range p.Ignored {
		if pass.Packs.FromDriver(i.Name) || pass.Config.IsMount(path.Dir(i.Name)) {
			continue
		}
		f := pass.say("preload-ignored", "ignored", packs.Values{"warning": i.String(), "by": i.From})
		f.Subject, f.Library, f.Kind = i.Name, i.Name, packs.Unusable
		if notOpened(i.Err) {
			f.Kind, f.Cause = packs.Missing, "missing "+i.Name
		}
		list = append(list, f)
	}
	return list
}
