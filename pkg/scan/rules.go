package scan

import (
	"io/fs"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
)

// Rules are rule packs: imgcheck's own, and others beside them. They are parsed once,
// when the first scan needs them; any number of scans may share them.
type Rules struct {
	files []fs.FS
	packs func() (*packs.Packs, error)
}

var own = newRules(rules.FS)

// NewRules returns imgcheck's own rule packs and those at the root of each of more, its
// files *.yaml. They must not change while they are in use. Without more it returns the
// same Rules each time.
func NewRules(more ...fs.FS) *Rules {
	if len(more) == 0 {
		return own
	}
	return newRules(append([]fs.FS{rules.FS}, more...)...)
}

func newRules(files ...fs.FS) *Rules {
	return &Rules{files, sync.OnceValues(func() (*packs.Packs, error) { return packs.LoadPacks(files...) })}
}

// Packs returns the parsed packs. An error names the file and the line.
func (r *Rules) Packs() (*packs.Packs, error) { return r.packs() }

// id returns the ID of the packs without parsing them, which would be most of what a
// rescan costs.
func (r *Rules) id() (string, error) { return packs.PacksID(r.files...) }
