package targets

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Process is a process of an image, and the files with GPU code that it loads.
type Process struct {
	Title string // as people read it
	// Framework is the ID of the framework that runs in it, or "".
	Framework string
	CUDA      string   // the major release of the CUDA runtime that it loads, or ""
	Files     []string // absolute paths, in the order of loading
	// Perhaps reports that it is not certain that the image runs it.
	Perhaps bool
}

// Judged is a file that processes load, and the use that a machine has for its code.
type Judged struct {
	Path string
	Fit
	Effects []Said
	// Weight is how much fails in the processes if all code of the file fails.
	Weight Weight
}

// Weight says how much of a process fails without a file's code.
type Weight int

// The weights, from the heaviest.
const (
	Certain  Weight = iota // a part that programs of this kind use
	Some                   // a part that only some programs use
	Harmless               // nothing that is known
)

// weights are the severities of effects by their weight.
var weights = []string{Certain: "", Some: "warning", Harmless: "note"}

// Said is an effect that a process meets, with the text that a user reads there.
type Said struct{ Effect, Error string }

// Judge returns the fit of every file that processes load and that has code which is
// launched, in the order of loading.
func (t *Tables) Judge(fsys *layers.FS, processes []Process, m Machine, s Settings) []*Judged {
	var list []*Judged
	seen := map[string]*Judged{}
	for _, p := range processes {
		var failing []*Judged
		for _, name := range p.Files {
			j := seen[name]
			if j == nil {
				fit, ok := t.Fit(path.Base(name), CodeOf(fsys, name), m, s)
				if !ok {
					continue
				}
				j = &Judged{Path: name, Fit: fit}
				if fit.Outcome.Fails() {
					j.Weight = Harmless // until a process meets it
				}
				seen[name] = j
				list = append(list, j)
			}
			switch {
			case j.Outcome.Fails():
				failing = append(failing, j)
			case j.Outcome == FitsPartly && len(j.Effects) == 0:
				j.Effects = []Said{t.Partly.say("{name}", ShortName(name), "{text}", t.Text(j.Reason))}
			}
		}
		for _, j := range failing {
			t.meet(j, p, failing)
		}
	}
	return list
}

// CodeOf returns the GPU code of a file, or nil.
func CodeOf(fsys *layers.FS, name string) *gpucode.Code {
	e, _, ok := fsys.Lookup(name)
	if !ok {
		return nil
	}
	return e.GPU()
}

// meet adds the effects that a process meets because a file fails, one of those that fail in it.
func (t *Tables) meet(j *Judged, p Process, failing []*Judged) {
	for _, e := range t.effectsOf(path.Base(j.Path), p.Framework, failing) {
		j.Weight = min(j.Weight, Weight(slices.Index(weights, e.Severity)))
		text := e.say("{name}", ShortName(j.Path), "{text}", t.Text(j.Outcome))
		if e.Effect != "" && !slices.Contains(j.Effects, text) {
			j.Effects = append(j.Effects, text)
		}
	}
}

// effectsOf returns the rows for a library in a process with a framework: those that name the
// library before those for any, of these those of the framework before the others, and of
// these those whose other library fails as well before those without.
func (t *Tables) effectsOf(name, framework string, failing []*Judged) []*Effect {
	for _, anyLibrary := range []bool{false, true} {
		for _, of := range []string{framework, ""} {
			var alone, together []*Effect
			for _, e := range t.Effects {
				switch {
				case e.Framework != of || slices.Contains(e.Libraries, "*") != anyLibrary || !matches(e.Libraries, name):
				case len(e.With) == 0:
					alone = append(alone, e)
				case slices.ContainsFunc(failing, func(j *Judged) bool { return matches(e.With, path.Base(j.Path)) }):
					together = append(together, e)
				}
			}
			switch {
			case len(together) > 0:
				return together
			case len(alone) > 0:
				return alone
			}
		}
	}
	return nil
}

// say fills the templates of a row: pairs of a placeholder and its value.
func (e *Effect) say(values ...string) Said {
	fill := strings.NewReplacer(values...)
	return Said{fill.Replace(e.Effect), fill.Replace(e.Error)}
}

// TooOldFor returns the effect that a process meets with a driver that is older than its CUDA
// runtime needs.
func (t *Tables) TooOldFor(framework string, m Machine) Said {
	found := ""
	var major, minor int
	if n, _ := fmt.Sscanf(t.CUDA(m), "%d.%d", &major, &minor); n == 2 {
		found = fmt.Sprint(1000*major + 10*minor)
	}
	for _, e := range t.TooOld {
		if e.Framework == framework || e.Framework == "" {
			return e.say("{found}", found)
		}
	}
	return Said{}
}

// ShortName returns the name of a file as messages have it: its base name, and for an
// extension module like _C.so with its directory.
func ShortName(file string) string {
	if base := path.Base(file); !strings.HasPrefix(base, "_") {
		return base
	}
	return path.Join(path.Base(path.Dir(file)), path.Base(file))
}
