package dockerlint

import (
	"fmt"
	"maps"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Wheel describes a release as a package index does.
type Wheel struct {
	Version  string
	Requires []string // Requires-Dist
	// Small is set if its wheels are too small for a library of CUDA's.
	Small bool
}

// maxAsked limits the packages that the index is asked about for one package.
const maxAsked = 60

// bringers are patterns of packages that bring libraries of CUDA's or require some that do.
var bringers = []string{"nvidia-*", "torch", "tensorflow", "jax", "jaxlib", "jax-cuda*", "vllm", "paddlepaddle-gpu", "cupy*", "tensorrt*", "cuda-toolkit"}

// Requested is a package that is to be asked for.
type Requested struct {
	Name   string // normalised
	Spec   string // specifiers, "" for any
	Extras string // "cuda12,x"
}

// brings names what may bring libraries of CUDA's with a package of an install: it, or a package that
// it requires there. It is empty if none does.
func (w *walk) brings(in *install, x *wheel, from Indexes) string {
	if w.wheelOf == nil {
		return x.name
	}
	todo := []Requested{{x.name, x.spec, x.extras}}
	seen := map[Requested]bool{}
	for len(todo) > 0 {
		r := todo[0]
		todo = todo[1:]
		switch {
		case seen[r]:
			continue
		case packs.MatchAny(bringers, r.Name) || w.Packs.GPUWheels.Has(r.Name) && r.Name != x.name:
			return r.Name
		case r.Extras == "" && listed(w.Plain, r.Name):
			continue
		case len(seen) >= maxAsked:
			return r.Name
		}
		seen[r] = true
		got, why := w.wheelOf(r.Name, r.Spec, from)
		if why != "" || got == nil {
			if why != "" {
				w.unknown = append(w.unknown, Unknown{x.line, "what " + r.Name + " requires: " + why})
			}
			return r.Name
		}
		if !got.Small {
			return r.Name
		}
		if in.noDeps {
			return ""
		}
		todo = append(todo, RequiredBy(got.Requires, r.Extras, in.markers)...)
	}
	return ""
}

// RequiredBy returns the requirements of Requires-Dist lines, with some extras, whose conditions
// may hold where env has the values that are known.
func RequiredBy(requires []string, extras string, env inventory.MarkerEnv) (list []Requested) {
	for _, line := range requires {
		bare, of := extrasOf(line)
		q, err := inventory.ParseRequirement(bare)
		if err != nil {
			list = append(list, Requested{Name: line}) // no index has it: it may bring anything
			continue
		}
		holds := false
		for _, extra := range append([]string{""}, strings.Split(extras, ",")...) {
			with := maps.Clone(env)
			with["extra"] = strings.TrimSpace(extra)
			h, known := q.Applies(with)
			holds = holds || h || !known
		}
		if holds {
			list = append(list, Requested{q.Name, strings.ReplaceAll(q.Specifiers, " ", ""), of})
		}
	}
	return list
}

// extrasOf returns a requirement without its extras, and these.
func extrasOf(line string) (bare, extras string) {
	end := strings.IndexByte(line, ';')
	if end < 0 {
		end = len(line)
	}
	if a, b := strings.Index(line[:end], "["), strings.Index(line[:end], "]"); a > 0 && b > a {
		return line[:a] + line[b+1:], line[a+1 : b]
	}
	return line, ""
}

// mayBring says which package of an install, other than lacking, may bring libraries of CUDA's,
// or is empty.
func (w *walk) mayBring(o *install, lacking *wheel) string {
	for i := range o.wheels {
		x := &o.wheels[i]
		if x == lacking || x.plain || listed(w.Plain, x.name) || w.isTool(x.name) || w.hasNeeds(x.name) {
			continue
		}
		from, known := o.asks(x)
		if o.locked || !known && o.others() {
			return fmt.Sprintf("%s (line %d) may bring it", x.name, x.line)
		}
		switch by := w.brings(o, x, from); by {
		case "":
		case x.name:
			return fmt.Sprintf("%s (line %d) may bring it", x.name, x.line)
		default:
			return fmt.Sprintf("%s, which %s (line %d) requires, may bring it", by, x.name, x.line)
		}
	}
	return ""
}
