package pylock

import (
	"errors"
	"maps"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// Project returns the requirements of a pyproject.toml (PEP 621, PEP 735): those of the project,
// and of the extras and groups that the options name. It returns an error if the file leaves
// them to a program.
func Project(text []byte, o Options) (*List, error) {
	var file struct {
		Project *struct {
			Dependencies []string            `toml:"dependencies"`
			Optional     map[string][]string `toml:"optional-dependencies"`
			Dynamic      []string            `toml:"dynamic"`
		} `toml:"project"`
		Groups map[string][]any `toml:"dependency-groups"`
	}
	if err := decodeTOML(text, &file); err != nil {
		return nil, err
	}
	p := file.Project
	if p == nil || slices.Contains(p.Dynamic, "dependencies") {
		return nil, errors.New("it does not list the project's requirements")
	}
	list := &List{}
	if len(o.Only) == 0 {
		list.Requirements = slices.Clone(p.Dependencies)
		for _, extra := range slices.Sorted(maps.Keys(p.Optional)) {
			if o.AllExtras || has(o.Extras, extra) {
				list.Requirements = append(list.Requirements, p.Optional[extra]...)
			}
		}
	}
	for _, extra := range o.Extras {
		if !has(slices.Collect(maps.Keys(p.Optional)), extra) {
			list.Unknown = append(list.Unknown, "the extra "+extra)
		}
	}
	g := &groups{entries: file.Groups}
	for _, group := range slices.Sorted(maps.Keys(file.Groups)) {
		if o.AllGroups || has(o.Groups, group) || has(o.Only, group) {
			g.add(group, 0)
		}
	}
	list.Requirements = append(list.Requirements, g.list...)
	if len(list.Requirements) > maxPackages || g.steps > maxPackages {
		return nil, errors.New("it has too many requirements")
	}
	return list, nil
}

// groups collects the requirements of groups.
type groups struct {
	entries map[string][]any
	list    []string
	steps   int
}

// add adds the requirements of a group and of those that it includes.
func (g *groups) add(name string, depth int) {
	for _, e := range g.entries[name] {
		if g.steps++; g.steps > maxPackages {
			return
		}
		switch e := e.(type) {
		case string:
			g.list = append(g.list, e)
		case map[string]any:
			of, _ := e["include-group"].(string)
			for _, key := range slices.Sorted(maps.Keys(g.entries)) {
				if depth < maxIncluded && inventory.Normalize(key) == inventory.Normalize(of) {
					g.add(key, depth+1)
					break
				}
			}
		}
	}
}

const maxIncluded = 5 // groups that include one another
