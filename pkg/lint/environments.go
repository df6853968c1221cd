package lint

import (
	"iter"
	"maps"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// wheelSet are the wheels that a Python environment sees, by their names.
type wheelSet map[string]*inventory.Package

// sorted are the wheels in the order of their names.
func (ws wheelSet) sorted() iter.Seq2[string, *inventory.Package] {
	return func(yield func(string, *inventory.Package) bool) {
		for _, name := range slices.Sorted(maps.Keys(ws)) {
			if !yield(name, ws[name]) {
				return
			}
		}
	}
}

// environments are the image's Pythons, each with the wheels that it sees.
func (w *world) environments() iter.Seq2[*inventory.Python, wheelSet] {
	return func(yield func(*inventory.Python, wheelSet) bool) {
		for _, p := range w.inv.Pythons {
			if !yield(p, w.inv.Wheels(p)) {
				return
			}
		}
	}
}

// eachWheel are the wheels of every environment, in their order.
func (w *world) eachWheel() iter.Seq2[*inventory.Python, *inventory.Package] {
	return func(yield func(*inventory.Python, *inventory.Package) bool) {
		for p, wheels := range w.environments() {
			for _, pkg := range wheels.sorted() {
				if !yield(p, pkg) {
					return
				}
			}
		}
	}
}
