package dockerlint

import (
	"slices"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// exclusives judges packages for GPUs whose files another package of the same environment
// overwrites, by the packs' table.
func (w *walk) exclusives() {
	for _, g := range w.Packs.Exclusive {
		if !isFramework(w, g.Keep) {
			continue
		}
		for _, python := range w.environments() {
			w.exclusive(g, python)
		}
	}
}

func (w *walk) exclusive(g *packs.Exclusive, python string) {
	var kept, other *wheel
	for order, in := range w.installs {
		if in.python != python || in.elsewhere || in.maybe {
			continue
		}
		for i := range in.wheels {
			x := &in.wheels[i]
			switch {
			case x.maybe || !slices.Contains(g.Members, x.name):
				continue
			case x.name == g.Keep:
				kept = x
			default:
				other = x
			}
			x.order = order
		}
	}
	if kept == nil || other == nil || w.uninstalled(other, kept) {
		return
	}
	v := values{"package": other.name, "keep": kept.name, "where": kept.place(other), "effect": g.Effect}
	clause := "either" // the order of one command, or the package that is to be kept is the last
	if other.order > kept.order {
		clause = "overwrites"
	}
	f := w.finding("packages-overwrite", clause, other.line, v)
	f.Column = other.column
	w.add(f)
}

// uninstalled reports whether a command uninstalls one of two packages.
func (w *walk) uninstalled(a, b *wheel) bool {
	return slices.ContainsFunc(w.uninstalls, func(r removed) bool { return r.path == a.name || r.path == b.name })
}

func isFramework(w *walk, name string) bool {
	return packs.MatchAny([]string{"torch", "onnxruntime-gpu", "tensorflow", "tensorflow-gpu", "ctranslate2", "paddlepaddle-gpu", "vllm", "faster-whisper"}, name) || w.Packs.GPUWheels.Has(name)
}
