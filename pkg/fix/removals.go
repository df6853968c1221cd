package fix

import (
	"fmt"
	"path"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// removals offers to hide files that the loader finds before good ones; they stay in their
// layer. It hides the copy that was bound and lacks the symbol or version; without such a
// copy, the file that is wrong, the files present in one directory, or all that are present.
func (m *maker) removals(f *lint.Finding) []candidate {
	if f.BoundTo != nil {
		if c := m.removal([]string{f.BoundTo.Path}); len(c.steps) > 0 {
			return []candidate{c}
		}
		return nil
	}
	var list []candidate
	for _, files := range m.removable(f) {
		c := m.removal(files)
		if len(c.steps) > 0 && !slices.ContainsFunc(list, func(o candidate) bool { return o.text == c.text }) {
			list = append(list, c)
		}
	}
	return list
}

// removable returns the groups of files that may be hidden for a finding.
func (m *maker) removable(f *lint.Finding) [][]string {
	var groups [][]string
	if file := wrong(f); file != "" {
		groups = append(groups, []string{m.real(file)})
	}
	var all, dirs []string
	byDir := map[string][]string{}
	for _, file := range f.Present {
		all = append(all, file.Path)
		dir := path.Dir(file.Path)
		if byDir[dir] == nil {
			dirs = append(dirs, dir)
		}
		byDir[dir] = append(byDir[dir], file.Path)
	}
	for _, dir := range dirs {
		groups = append(groups, byDir[dir])
	}
	return append(groups, all)
}

// removal returns the candidate that hides files. It has no steps if one of them is not
// there or is a directory, or if there are too many.
func (m *maker) removal(files []string) candidate {
	var c candidate
	if len(files) > maxRemoved {
		return c
	}
	for _, name := range files {
		if e, _, ok := m.now.img.FS.Lstat(name); !ok || e.IsDir() || e.Type == layers.Other {
			return candidate{}
		}
		c.steps = append(c.steps, Step{Kind: "remove", Text: "remove " + name, Path: name, files: []file{removedFile(name)}})
	}
	switch len(files) {
	case 0:
	case 1:
		c.text = "without " + files[0]
	default:
		c.text = fmt.Sprintf("without %s and %s", files[0], plural(len(files)-1, "other"))
	}
	return c
}
