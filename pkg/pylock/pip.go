package pylock

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/depth"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

type pylockFile struct {
	Version  string `toml:"lock-version"`
	Packages []struct {
		Name    string `toml:"name"`
		Version string `toml:"version"`
		Marker  string `toml:"marker"`
		Index   string `toml:"index"`
		Wheels  []struct {
			Name string `toml:"name"`
			URL  string `toml:"url"`
			Path string `toml:"path"`
			Size int64  `toml:"size"`
		} `toml:"wheels"`
		VCS       map[string]any `toml:"vcs"`
		Directory map[string]any `toml:"directory"`
		Archive   map[string]any `toml:"archive"`
	} `toml:"packages"`
}

// Pylock returns what `pip install -r pylock.toml` and `uv pip sync pylock.toml` install:
// https://packaging.python.org/en/latest/specifications/pylock-toml/
func Pylock(text []byte, o Options) (*List, error) {
	var lock pylockFile
	if err := decodeTOML(text, &lock); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(lock.Version, "1.") || len(lock.Packages) > maxPackages {
		return nil, fmt.Errorf("its version %q of %d packages is not known", lock.Version, len(lock.Packages))
	}
	lines := linesOf(text, "[[packages]]")
	list := &List{Exact: true}
	for i, p := range lock.Packages {
		if p.Name == "" {
			return nil, errUnnamed
		}
		holds, known := o.applies(p.Marker)
		if known && !holds {
			continue
		}
		x := Package{Name: inventory.Normalize(p.Name), Version: p.Version, Maybe: !known, Index: p.Index}
		if p.VCS != nil || p.Directory != nil || p.Archive != nil {
			list.elsewhere(p.Name)
		}
		var names []string
		var sizes []int64
		for _, w := range p.Wheels {
			names, sizes = append(names, cmp.Or(w.Name, w.URL, w.Path)), append(sizes, w.Size)
		}
		list.add(x, names, sizes, lines, i)
	}
	return list.sorted(), nil
}

type pdmLock struct {
	Metadata struct {
		Version string `toml:"lock_version"`
	} `toml:"metadata"`
	Packages []struct {
		Name    string   `toml:"name"`
		Version string   `toml:"version"`
		Groups  []string `toml:"groups"`
		Marker  string   `toml:"marker"`
		Git     string   `toml:"git"`
		Path    string   `toml:"path"`
		URL     string   `toml:"url"`
		Files   []struct {
			File string `toml:"file"`
			URL  string `toml:"url"`
		} `toml:"files"`
	} `toml:"package"`
}

// PDM returns what `pdm sync` and `pdm install` install from a pdm.lock. The lock does not say
// which groups are for development, and installed too: their packages may be.
func PDM(text []byte, o Options) (*List, error) {
	var lock pdmLock
	if err := decodeTOML(text, &lock); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(lock.Metadata.Version, "4.") || len(lock.Packages) > maxPackages {
		return nil, fmt.Errorf("its version %q of %d packages is not known", lock.Metadata.Version, len(lock.Packages))
	}
	lines := linesOf(text, "[[package]]")
	list := &List{Exact: true}
	for i, p := range lock.Packages {
		if p.Name == "" {
			return nil, errUnnamed
		}
		in, sure := pdmGroups(p.Groups, &o)
		holds, known := o.applies(p.Marker)
		if !in || known && !holds {
			continue
		}
		x := Package{Name: inventory.Normalize(p.Name), Version: p.Version, Maybe: !known || !sure}
		if p.Git+p.Path+p.URL != "" {
			list.elsewhere(p.Name)
		}
		var names []string
		for _, f := range p.Files {
			names = append(names, cmp.Or(f.File, f.URL))
		}
		list.add(x, names, nil, lines, i)
	}
	return list.sorted(), nil
}

// pdmGroups returns whether a package of some groups may be installed, and whether it is.
func pdmGroups(groups []string, o *Options) (in, sure bool) {
	wanted := func(g string) bool { return o.AllGroups || has(o.Groups, g) }
	switch {
	case len(o.Only) > 0:
		in = slices.ContainsFunc(groups, func(g string) bool { return has(o.Only, g) })
		return in, in
	case len(groups) == 0 || slices.Contains(groups, "default") || slices.ContainsFunc(groups, wanted):
		return true, true
	}
	return !o.NoDev, false
}

type pipfileLock struct {
	Meta struct {
		Spec    int `json:"pipfile-spec"`
		Sources []struct {
			Name string `json:"name"`
			URL  string `json:"url"`
		} `json:"sources"`
	} `json:"_meta"`
	Default map[string]pipfilePackage `json:"default"`
	Develop map[string]pipfilePackage `json:"develop"`
}

type pipfilePackage struct {
	Version string `json:"version"`
	Index   string `json:"index"`
	Markers string `json:"markers"`
	Git     string `json:"git"`
	File    string `json:"file"`
	Path    string `json:"path"`
}

// Pipfile returns what `pipenv sync` and `pipenv install` install from a Pipfile.lock; the group
// dev, or all groups, stands for --dev.
func Pipfile(text []byte, o Options) (*List, error) {
	switch {
	case len(text) > MaxSize:
		return nil, fmt.Errorf("it is larger than %d MiB", MaxSize>>20)
	case depth.Exceeds(text, maxNested):
		return nil, errDeep
	case depth.ValuesExceed(text, maxValues):
		return nil, errMany
	}
	var lock pipfileLock
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, errors.New("it is no JSON of this form")
	}
	if lock.Meta.Spec != 6 || len(lock.Default)+len(lock.Develop) > maxPackages {
		return nil, fmt.Errorf("its version %d of %d packages is not known", lock.Meta.Spec, len(lock.Default)+len(lock.Develop))
	}
	all := maps.Clone(lock.Default)
	if all == nil {
		all = map[string]pipfilePackage{}
	}
	if o.AllGroups || has(o.Groups, "dev") {
		for name, p := range lock.Develop {
			if _, ok := all[name]; !ok {
				all[name] = p
			}
		}
	}
	list := &List{Exact: true}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		if name == "" {
			return nil, errUnnamed
		}
		holds, known := o.applies(p.Markers)
		if known && !holds {
			continue
		}
		x := Package{Name: inventory.Normalize(name), Version: strings.TrimPrefix(p.Version, "=="), Maybe: !known}
		for _, s := range lock.Meta.Sources {
			if s.Name == p.Index {
				x.Index = s.URL
			}
		}
		if p.Git+p.File+p.Path != "" {
			list.elsewhere(name)
		}
		list.add(x, nil, nil, nil, 0)
	}
	return list.sorted(), nil
}
