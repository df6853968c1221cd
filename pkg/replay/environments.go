package replay

import (
	"iter"
	"maps"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// WheelSet maps the names of the wheels that a Python environment sees to the wheels.
type WheelSet map[string]*inventory.Package

// Sorted returns the wheels in the order of their names.
func (ws WheelSet) Sorted() iter.Seq2[string, *inventory.Package] {
	return func(yield func(string, *inventory.Package) bool) {
		for _, name := range slices.Sorted(maps.Keys(ws)) {
			if !yield(name, ws[name]) {
				return
			}
		}
	}
}

// Environments returns the Pythons of the image, each with the wheels that it sees.
func (pa *Packages) Environments() iter.Seq2[*inventory.Python, WheelSet] {
	return func(yield func(*inventory.Python, WheelSet) bool) {
		for _, p := range pa.inv.Pythons {
			if !yield(p, pa.inv.Wheels(p)) {
				return
			}
		}
	}
}

// EachWheel returns the wheels of every environment, by environment and name. A wheel
// comes once for each environment that sees it.
func (pa *Packages) EachWheel() iter.Seq2[*inventory.Python, *inventory.Package] {
	return func(yield func(*inventory.Python, *inventory.Package) bool) {
		for p, wheels := range pa.Environments() {
			for _, pkg := range wheels.Sorted() {
				if !yield(p, pkg) {
					return
				}
			}
		}
	}
}

// maxSeen limits the packages of all environments. Rules go through all that an
// environment sees, and thousands of environments may see the packages of one. It is a
// variable for tests.
var maxSeen = 1 << 20

// seesMore reports whether the environments see more packages than maxSeen.
func (pa *Packages) seesMore() bool {
	n := 0
	for _, wheels := range pa.Environments() {
		if n += len(wheels); n > maxSeen {
			return true
		}
	}
	return false
}
