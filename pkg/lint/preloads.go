package lint

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// What LD_PRELOAD and /etc/ld.so.preload bring into every process.

// preloading returns the start of a program of the image that misses nothing itself, or
// nil if nothing is preloaded.
func (w *world) preloading() *elfdeps.Process {
	value, _ := w.getenv("LD_PRELOAD")
	if _, _, file := w.img.FS.Lookup("/etc/ld.so.preload"); value == "" && !file || w.primary == nil {
		return nil
	}
	for _, o := range w.objects {
		if !isProgram(o.elf) || o.loader != w.primary || len(o.misses) > 0 {
			continue
		}
		if p, _ := w.primary.Trace(o.path); p.Program() != nil {
			return p
		}
	}
	return nil
}

// preloadedBy returns the variable or file that preloads a module of a process; of a module
// that a preloaded one needs, words for it.
func (w *world) preloadedBy(p *elfdeps.Process, m *elfdeps.Module) string {
	for _, o := range p.Objects {
		if o == m && (o.How == "LD_PRELOAD" || o.How == "/etc/ld.so.preload") {
			return o.How
		}
	}
	return w.phrase("what-is-preloaded", nil)
}

// preloadsIgnored finds preloaded libraries that cannot be loaded: the loader says so at
// the start of every program, and goes on.
func (w *world) preloadsIgnored() []Finding {
	p := w.preloading()
	if p == nil {
		return nil
	}
	var list []Finding
	for _, line := range p.Warnings {
		rest, ok := strings.CutPrefix(line, "ERROR: ld.so: object '")
		name, rest, cut := strings.Cut(rest, "' from ")
		if !ok || !cut || w.packs.fromDriver(name) || w.isMount(path.Dir(name)) {
			continue
		}
		from, why, _ := strings.Cut(rest, " ")
		f := w.say("preload-ignored", "ignored", values{"warning": line, "by": from})
		f.Subject, f.Library, f.Kind = name, name, Unusable
		if why == "cannot be preloaded (cannot open shared object file): ignored." {
			f.Kind, f.Cause = Missing, "missing "+name
		}
		list = append(list, f)
	}
	return list
}
