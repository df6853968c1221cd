package replay

import (
	"context"
	"fmt"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// Ways are the programs that the image's start reaches, with what they load.
type Ways struct {
	// Starts are the Python programs that could be followed.
	Starts []*Start
	// Programs are all programs with what they map when they start.
	Programs []Loads
	// Unknown lists the parts of the start that could not be followed.
	Unknown []string

	st *starter
}

// Loads is a program and the files that it maps when it starts.
type Loads struct {
	*startup.Program
	Steps []string // of the chain
	Files []string // real paths, its own first; nil if it cannot be started
}

// FindWays follows the programs of an image's start.
func FindWays(ctx context.Context, img *Image, set *packs.Packs) (*Ways, error) {
	re, err := newReplayer(img, set)
	if err != nil {
		return nil, err
	}
	w := &Ways{st: newStarter(re)}
	if w.Starts, err = w.st.all(ctx, w.st.programs()); err != nil {
		return nil, err
	}
	for i := range re.ev.Started.Programs {
		w.Programs = append(w.Programs, w.st.loads(&re.ev.Started.Programs[i]))
	}
	for _, u := range re.ev.Started.Unknown {
		at := u.File
		if u.Line > 0 {
			at = fmt.Sprintf("%s:%d", u.File, u.Line)
		}
		w.Unknown = append(w.Unknown, at+": "+u.Why)
	}
	return w, re.config.Spent()
}

// loads returns a program with what it maps when it starts.
func (st *starter) loads(p *startup.Program) Loads {
	l := Loads{Program: p}
	for _, link := range p.Chain {
		l.Steps = append(l.Steps, link.String())
	}
	o := st.re.files.ByPath[RealPath(st.re.img.FS, p.Path)]
	if p.Path == "" || o == nil || !IsProgram(o.ELF) {
		return l
	}
	proc := st.startIn(o, p)
	if proc == nil {
		return l
	}
	l.Files = realsOf(proc.Objects)
	proc.Rest()
	return l
}

// Imports follows the import of the first modules of each installed package, those that
// the image's author asked for first. more is the number of those that are too many.
func (w *Ways) Imports(ctx context.Context) (starts []*Start, more int, err error) {
	var asked, others []job
	for p, pkg := range w.st.re.packages.EachWheel() {
		if p.Interpreter == "" {
			continue
		}
		for _, module := range w.st.publicModules(pkg) {
			j := w.st.importOf(&Start{Python: p.Interpreter, Package: pkg.Name, Asked: pkg.Asked, Certain: true}, module)
			if pkg.Asked == inventory.Yes {
				asked = append(asked, j)
			} else {
				others = append(others, j)
			}
		}
	}
	jobs := w.st.first(append(asked, others...), maxStarts)
	if starts, err = w.st.all(ctx, jobs); err != nil {
		return nil, 0, err
	}
	return starts, len(w.st.left), w.st.re.config.Spent()
}
