package pylock

import (
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

type poetryLock struct {
	Packages []*poetryPackage    `toml:"package"`
	Extras   map[string][]string `toml:"extras"`
	Metadata struct {
		Version string `toml:"lock-version"`
	} `toml:"metadata"`
}

type poetryPackage struct {
	Name         string         `toml:"name"`
	Version      string         `toml:"version"`
	Optional     bool           `toml:"optional"`
	Category     string         `toml:"category"` // up to Poetry 1.4
	Groups       []string       `toml:"groups"`   // from Poetry 2.0 on
	Markers      any            `toml:"markers"`  // a condition, or one for each group
	Dependencies map[string]any `toml:"dependencies"`
	Files        []struct {
		File string `toml:"file"`
	} `toml:"files"`
	Source struct {
		URL  string `toml:"url"`
		Type string `toml:"type"`
	} `toml:"source"`
}

// Poetry returns what `poetry install` installs from a poetry.lock: the group main and all
// others that the options do not leave out. Poetry 1.5 to 1.8 do not write the groups of the
// packages: with such a lock and options about groups, or with extras that need others, each
// package may be installed.
func Poetry(text []byte, o Options) (*List, error) {
	var lock poetryLock
	if err := decodeTOML(text, &lock); err != nil {
		return nil, err
	}
	if lock.Metadata.Version == "" || len(lock.Packages) > maxPackages {
		return nil, fmt.Errorf("its version %q of %d packages is not known", lock.Metadata.Version, len(lock.Packages))
	}
	lines := linesOf(text, "[[package]]")
	list := &List{Exact: true}
	extras := lock.wanted(&o)
	for i, p := range lock.Packages {
		if p.Name == "" {
			return nil, errUnnamed
		}
		holds, known := p.installed(&o, extras)
		if known && !holds {
			continue
		}
		x := Package{Name: inventory.Normalize(p.Name), Version: p.Version, Maybe: !known}
		if p.Source.Type == "legacy" {
			x.Index = p.Source.URL
		} else if p.Source.Type != "" {
			list.elsewhere(p.Name)
		}
		var names []string
		for _, f := range p.Files {
			names = append(names, f.File)
		}
		list.add(x, names, nil, lines, i)
	}
	return list.sorted(), nil
}

// wanted returns the names of the packages that extras of the options require.
func (l *poetryLock) wanted(o *Options) map[string]bool {
	list := map[string]bool{}
	for extra, lines := range l.Extras {
		if !has(o.Extras, extra) {
			continue
		}
		for _, line := range lines {
			if r, err := inventory.ParseRequirement(line); err == nil {
				list[r.Name] = true
			}
		}
	}
	return list
}

// installed returns whether a package is installed, and whether that is known. extras are the
// packages of the extras that the options name.
func (p *poetryPackage) installed(o *Options, extras map[string]bool) (holds, known bool) {
	known = true
	if p.Optional {
		switch {
		case o.AllExtras:
		case len(o.Extras) == 0:
			return false, true
		default:
			known = extras[inventory.Normalize(p.Name)]
		}
	}
	groups := p.Groups
	if len(groups) == 0 && p.Category != "" {
		groups = []string{p.Category}
	}
	if len(groups) == 0 {
		return true, known && len(o.Only)+len(o.Without) == 0 && !o.NoDev
	}
	wanted := slices.DeleteFunc(slices.Clone(groups), func(g string) bool {
		return len(o.Only) > 0 && !slices.Contains(o.Only, g) || slices.Contains(o.Without, g) || o.NoDev && g == "dev"
	})
	if len(wanted) == 0 {
		return false, true
	}
	if !slices.Contains(wanted, "main") && !slices.Contains(wanted, "dev") && len(o.Only) == 0 {
		known = known && has(o.Groups, wanted[0]) // the group may be optional
	}
	ok, sure := p.applies(o, wanted)
	return ok, known && sure || sure && !ok
}

// applies returns whether the condition of a package holds for one of the groups.
func (p *poetryPackage) applies(o *Options, groups []string) (holds, known bool) {
	switch m := p.Markers.(type) {
	case nil:
		return true, true
	case string:
		return o.applies(m)
	case map[string]any:
		known = true
		for _, g := range groups {
			text, ok := m[g].(string)
			if !ok {
				return true, true
			}
			h, k := o.applies(text)
			if h && k {
				return true, true
			}
			known = known && k
		}
		return !known, known
	}
	return true, false
}
