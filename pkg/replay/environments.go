package replay

import (
	"iter"
	"maps"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// WheelSet are the wheels that a Python environment sees, by their names.
type WheelSet map[string]*inventory.Package

// Sorted are the wheels in the order of their names.
func (ws WheelSet) Sorted() iter.Seq2[string, *inventory.Package] {
	return func(yield func(string, *inventory.Package) bool) {
		for _, name := range slices.Sorted(maps.Keys(ws)) {
			if !yield(name, ws[name]) {
				return
			}
		}
	}
}

// Environments are the image's Pythons, each with the wheels that it sees.
func (pa *Packages) Environments() iter.Seq2[*inventory.Python, WheelSet] {
	return func(yield func(*inventory.Python, WheelSet) bool) {
		for _, p := range pa.inv.Pythons {
			if !yield(p, pa.inv.Wheels(p)) {
				return
			}
		}
	}
}

// EachWheel are the wheels of every environment, in their order.
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

// maxSeen bounds the packages of all environments, of which each is looked at with
// all that it sees: thousands may see the packages of one. A variable, so that tests
// can reach it.
var maxSeen = 1 << 20

// seesMore reports whether the environments see more packages than are looked at.
func (pa *Packages) seesMore() bool {
	n := 0
	for _, wheels := range pa.Environments() {
		if n += len(wheels); n > maxSeen {
			return true
		}
	}
	return false
}
