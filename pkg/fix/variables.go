package fix

import (
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

const libraryPath = "LD_LIBRARY_PATH"

// elements returns the directories of the search path with the steps taken so far.
func (m *maker) elements() []string { return elementsOf(m.now.img) }

// elementsOf returns the directories of the LD_LIBRARY_PATH that an image sets.
func elementsOf(img *replay.Image) []string {
	var list []string
	for _, e := range (packs.Edit{}).Elements(getVar(environment(img), libraryPath)) {
		if e != "" && len(list) < maxElements {
			list = append(list, e)
		}
	}
	return list
}

// paths offers to put a directory that has the library into LD_LIBRARY_PATH: at its end,
// so that other libraries are still found where they are found now; at its head if the
// loader finds a wrong copy of the library.
func (m *maker) paths(f *lint.Finding) []candidate {
	var list []candidate
	for _, dir := range directories(f) {
		if f.Kind == packs.Missing {
			list = append(list, candidate{text: "LD_LIBRARY_PATH with " + dir, steps: []Step{appendPath(dir)}})
		} else {
			list = append(list, candidate{text: fmt.Sprintf("LD_LIBRARY_PATH with %s first", dir), steps: []Step{prependPath(dir)}})
		}
	}
	return list
}

// variables offers the edits of variables that the finding's rule names, if they change
// anything.
func (m *maker) variables(f *lint.Finding) []candidate {
	var list []candidate
	for _, e := range m.packs.Edits(f.Rule, f.Values) {
		old := getVar(environment(m.now.img), e.Variable)
		if value := e.Apply(old); value != old {
			list = append(list, candidate{text: e.Variable + "=" + value, steps: []Step{editStep("variable", e)}})
		}
	}
	return list
}

// editStep returns the step that edits a variable.
func editStep(kind string, e packs.Edit) Step {
	s := Step{Kind: kind, Variable: e.Variable, edit: e}
	switch e.Op {
	case "append":
		s.Text = fmt.Sprintf("append %s to %s", e.Value, e.Variable)
	case "prepend":
		s.Text = fmt.Sprintf("put %s first in %s", e.Value, e.Variable)
	case "last":
		s.Text = fmt.Sprintf("move %s to the end of %s", e.Value, e.Variable)
	case "drop":
		s.Text = fmt.Sprintf("take %s out of %s", e.Value, e.Variable)
	case "tidy":
		s.Text = fmt.Sprintf("take the empty elements out of %s", e.Variable)
	case "set":
		s.Text = fmt.Sprintf("set %s to %s", e.Variable, e.Value)
	}
	if kind != "variable" {
		s.Path = e.Value
	}
	return s
}

// unpreloads offers to take each element out of LD_PRELOAD.
func (m *maker) unpreloads(*lint.Finding) []candidate {
	var list []candidate
	const separators = ": " // ld.so(8), LD_PRELOAD
	for _, e := range (packs.Edit{Separator: separators}).Elements(getVar(environment(m.now.img), "LD_PRELOAD")) {
		if e != "" {
			edit := packs.Edit{Variable: "LD_PRELOAD", Op: "drop", Separator: separators, Value: e}
			list = append(list, candidate{text: "LD_PRELOAD without " + e, steps: []Step{editStep("unpreload", edit)}})
		}
	}
	return list
}

// searchPath returns the step that edits LD_LIBRARY_PATH by one directory.
func searchPath(kind, op, dir string) Step {
	return editStep(kind, packs.Edit{Variable: libraryPath, Op: op, Value: dir})
}

func appendPath(dir string) Step  { return searchPath("path", "append", dir) }
func prependPath(dir string) Step { return searchPath("path", "prepend", dir) }

// drops offers to move an element of LD_LIBRARY_PATH behind the others, or to take it out,
// so that the loader finds another copy.
func (m *maker) drops(f *lint.Finding) []candidate {
	elements := slices.DeleteFunc(elementsOf(m.base), func(e string) bool { return !slices.Contains(m.elements(), e) })
	last := elementsOf(m.now.img)
	guilty := m.guilty(f)
	if about := slices.DeleteFunc(slices.Clone(elements), func(e string) bool { return !guilty[m.real(e)] }); len(about) > 0 {
		elements = about
	}
	slices.SortStableFunc(elements, func(a, b string) int { return order(guilty[m.real(b)], guilty[m.real(a)]) })
	var list []candidate
	for _, e := range elements {
		if !packs.SameElement(e, last[len(last)-1]) {
			list = append(list, candidate{text: fmt.Sprintf("LD_LIBRARY_PATH with %s last", e), steps: []Step{searchPath("drop", "last", e)}})
		}
		list = append(list, candidate{text: fmt.Sprintf("LD_LIBRARY_PATH without %s", e), steps: []Step{searchPath("drop", "drop", e)}})
	}
	return list
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
