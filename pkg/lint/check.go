package lint

import (
	"fmt"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// check is a rule that needs no replay: it looks at what is installed, at the
// image's config, and at names of files.
type check struct {
	rule string // the ID that its findings get
	find func(*world) []Finding
}

// checks are tried in order.
var checks = []check{}

// check runs the checks. A finding that names no severity gets its rule's.
func (w *world) check() []Finding {
	var list []Finding
	for _, c := range checks {
		for _, f := range c.find(w) {
			f.Rule = c.rule
			if r := w.packs.Rule(c.rule); r != nil && f.Severity == "" {
				f.Severity = r.Severity
			}
			list = append(list, f)
		}
	}
	return list
}

// takeStock reads what is installed.
func (w *world) takeStock() error {
	var err error
	if w.inv, err = inventory.Read(w.img.FS); err != nil {
		return fmt.Errorf("looking for what is installed: %w", err)
	}
	w.inv.Components = append(inventory.FromEnv(w.env().Vars), w.inv.Components...)
	return nil
}
