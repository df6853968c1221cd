package pylock

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

type uvLock struct {
	Version  int          `toml:"version"`
	Packages []*uvPackage `toml:"package"`
}

type uvPackage struct {
	Name         string                    `toml:"name"`
	Version      string                    `toml:"version"`
	Source       map[string]string         `toml:"source"`
	Dependencies []uvDependency            `toml:"dependencies"`
	Optional     map[string][]uvDependency `toml:"optional-dependencies"`
	Dev          map[string][]uvDependency `toml:"dev-dependencies"`
	Wheels       []struct {
		URL      string `toml:"url"`
		Filename string `toml:"filename"`
		Size     int64  `toml:"size"`
	} `toml:"wheels"`
	line int
}

type uvDependency struct {
	Name    string   `toml:"name"`
	Version string   `toml:"version"`
	Extra   []string `toml:"extra"`
	Marker  string   `toml:"marker"`
}

// UV returns what `uv sync` installs from a uv.lock: the project's requirements, its extras and
// groups that the options name and the group dev, with all that these require.
func UV(text []byte, o Options) (*List, error) {
	var lock uvLock
	if err := decodeTOML(text, &lock); err != nil {
		return nil, err
	}
	if lock.Version != 1 || len(lock.Packages) > maxPackages {
		return nil, fmt.Errorf("its version %d of %d packages is not known", lock.Version, len(lock.Packages))
	}
	lines := linesOf(text, "[[package]]")
	u := &uvWalk{o: &o, by: map[string][]*uvPackage{}, seen: map[uvVisit]bool{}, list: &List{Exact: true}}
	var root *uvPackage
	for i, p := range lock.Packages {
		if p.Name == "" {
			return nil, errUnnamed
		}
		if i < len(lines) {
			p.line = lines[i]
		}
		u.by[p.Name] = append(u.by[p.Name], p)
		if p.Source["editable"] == "." || p.Source["virtual"] == "." || p.Source["directory"] == "." {
			root = p
		}
	}
	if root == nil {
		return nil, errors.New("no package of it is the project")
	}
	u.project(root)
	if u.steps > maxSteps {
		return nil, errSteps
	}
	u.finish()
	return u.list, nil
}

// uvWalk follows the requirements of a lock.
type uvWalk struct {
	o    *Options
	by   map[string][]*uvPackage
	seen map[uvVisit]bool
	list *List
	todo []uvVisit
	// steps counts the packages that were looked at.
	steps int
}

type uvVisit struct {
	p     *uvPackage
	extra string // whose requirements are followed; "" for the package's own
	maybe bool
}

func (u *uvWalk) project(root *uvPackage) {
	if len(u.o.Only) == 0 {
		u.visit(root, "", false)
		for _, extra := range slices.Sorted(maps.Keys(root.Optional)) {
			if u.o.AllExtras || has(u.o.Extras, extra) {
				u.visit(root, extra, false)
			}
		}
	}
	for _, group := range slices.Sorted(maps.Keys(root.Dev)) {
		switch {
		case len(u.o.Only) > 0 && !has(u.o.Only, group), slices.Contains(u.o.Without, group):
		case len(u.o.Only) > 0, u.o.AllGroups, has(u.o.Groups, group), group == "dev" && !u.o.NoDev:
			u.follow(root.Dev[group], false)
		}
	}
	for len(u.todo) > 0 && u.steps <= maxSteps {
		v := u.todo[0]
		u.todo = u.todo[1:]
		if v.extra == "" {
			u.follow(v.p.Dependencies, v.maybe)
		} else {
			u.follow(v.p.Optional[v.extra], v.maybe)
		}
	}
}

func (u *uvWalk) visit(p *uvPackage, extra string, maybe bool) {
	v := uvVisit{p, extra, maybe}
	if u.seen[v] || maybe && u.seen[uvVisit{p, extra, false}] {
		return
	}
	u.seen[v] = true
	u.todo = append(u.todo, v)
}

func (u *uvWalk) follow(list []uvDependency, maybe bool) {
	for _, d := range list {
		holds, known := u.o.applies(d.Marker)
		if known && !holds {
			continue
		}
		versions := u.by[d.Name]
		if u.steps += 1 + len(versions)*(1+len(d.Extra)); u.steps > maxSteps {
			return
		}
		if d.Version != "" {
			versions = slices.DeleteFunc(slices.Clone(versions), func(p *uvPackage) bool { return p.Version != d.Version })
		}
		for _, p := range versions {
			unsure := maybe || !known || len(versions) > 1
			u.visit(p, "", unsure)
			for _, extra := range d.Extra {
				u.visit(p, extra, unsure)
			}
		}
	}
}

// finish lists the packages that were visited, by their places in the file.
func (u *uvWalk) finish() {
	sure := map[*uvPackage]bool{}
	for v := range u.seen {
		sure[v.p] = sure[v.p] || !v.maybe
	}
	for p, is := range sure {
		if p.Source["editable"] != "" || p.Source["virtual"] != "" || p.Source["directory"] != "" {
			continue // projects of the repository
		}
		x := Package{Name: inventory.Normalize(p.Name), Version: p.Version, Index: p.Source["registry"], Maybe: !is, Line: p.line}
		var names []string
		var sizes []int64
		for _, w := range p.Wheels {
			names, sizes = append(names, cmp.Or(w.URL, w.Filename)), append(sizes, w.Size)
		}
		u.list.add(x, names, sizes, nil, 0)
	}
	u.list.sorted()
}
