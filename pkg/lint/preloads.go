package lint

import (
	"path"
	"strings"

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
// prints a warning at the start of every program, which these lines of glibc's ld.so are.
func preloadsIgnored(pass *Pass) []Finding {
	p := pass.Loaders.Preloading()
	if p == nil {
		return nil
	}
	var list []Finding
	for _, line := range p.Warnings {
		rest, ok := strings.CutPrefix(line, "ERROR: ld.so: object '")
		name, rest, cut := strings.Cut(rest, "' from ")
		if !ok || !cut || pass.Packs.FromDriver(name) || pass.Config.IsMount(path.Dir(name)) {
			continue
		}
		from, why, _ := strings.Cut(rest, " ")
		f := pass.say("preload-ignored", "ignored", packs.Values{"warning": line, "by": from})
		f.Subject, f.Library, f.Kind = name, name, packs.Unusable
		if why == "cannot be preloaded (cannot open shared object file): ignored." {
			f.Kind, f.Cause = packs.Missing, "missing "+name
		}
		list = append(list, f)
	}
	return list
}
