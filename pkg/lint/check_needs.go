package lint

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// unmetNeeds returns a finding for each need of the packs, such as a compiler, a header or
// a tool, that installed distributions have and the image does not meet.
func (w *world) unmetNeeds() []Finding {
	var list []Finding
	for _, n := range w.packs.Needs {
		var asks []string
		site, cuda := "", ""
		for _, p := range w.inv.Packages {
			if p.Kind == inventory.Wheel && n.asks(p) && (len(n.Present) == 0 || w.serves(n.Present, p)) && !w.serves(n.Any, p) {
				asks, site = append(asks, p.Path), cmp.Or(site, p.Dir)
				cuda = cmp.Or(cuda, dist{name: normal(p.Name)}.cuda())
			}
		}
		if len(asks) == 0 {
			continue
		}
		f := w.say("feature-needs", "need", values{"message": n.Message, "effect": n.Effect, "error": fill(n.Error, values{"site": site})})
		f.Severity = f.Severity.atMost(n.Severity)
		f.NeededBy, f.Affected = w.filesOf(asks), asks
		f.advise(w.adviceOf(n.Fix, values{"cuda": cmp.Or(cuda, w.wantedCUDA(&f, ""))})...)
		list = append(list, f)
	}
	return list
}

// asks reports whether a distribution has the need.
func (n *Need) asks(p *inventory.Package) bool {
	fits, known := parseRelease(p.Version).Within(n.Versions)
	return fits && known && matchAny(n.Dist, normal(p.Name))
}

// serves reports whether the image has one of the things that [Need.Any] or [Need.Present]
// names, as a distribution looks for them.
func (w *world) serves(names []string, p *inventory.Package) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		kind, rest, _ := strings.Cut(name, ":")
		switch kind {
		case "command":
			return w.onPATH(rest)
		case "name":
			return len(w.namesLike(rest)) > 0
		case "gone":
			return w.leadsNowhere(strings.Split(rest, ","))
		case "loader":
			_, found := w.namedFor(p, rest)
			return found
		case "toolkit":
			lib, below, _ := strings.Cut(rest, "/")
			at, found := w.namedFor(p, lib)
			root := toolkitOf(at)
			return found && root != "" && len(w.glob(root, below)) > 0
		case "dist":
			return slices.ContainsFunc(w.searchPath(p.Dir), func(dir string) bool {
				return slices.ContainsFunc(w.distsAt(dir), func(d dist) bool { return match(rest, d.name) })
			})
		}
		if variable, below, ok := strings.Cut(name, "/"); strings.HasPrefix(variable, "$") {
			value, _ := w.getenv(variable[1:])
			return value != "" && (!ok || len(w.glob(value, below)) > 0)
		}
		if path.IsAbs(name) {
			return len(w.glob("/", name)) > 0
		}
		return slices.ContainsFunc(w.searchPath(p.Dir), func(dir string) bool { return len(w.glob(dir, name)) > 0 })
	})
}

// leadsNowhere reports whether the first of the variables that is set is empty or names a
// missing directory.
func (w *world) leadsNowhere(variables []string) bool {
	for _, name := range variables {
		if value, set := w.getenv(name); set {
			e, _, ok := w.img.FS.Lookup(value)
			return value == "" || path.IsAbs(value) && (!ok || !e.IsDir())
		}
	}
	return false
}

// namedFor returns the path of the library that the loader finds when the Python of a
// distribution opens it by its name alone.
func (w *world) namedFor(p *inventory.Package, name string) (string, bool) {
	if w.primary == nil {
		return "", false
	}
	m, err := w.programFor(p.Dir+"/"+name, w.primary).Dlopen(nil, name)
	if err != nil {
		return "", false
	}
	return m.Path, true
}

// toolkitOf returns the directory ROOT of the CUDA toolkit that has a library at
// ROOT/lib64/…, ROOT/lib/… or ROOT/targets/MACHINE/lib/…, or "" (derive_ctk_root of
// cuda-pathfinder).
func toolkitOf(library string) string {
	dir := path.Dir(library)
	if base := path.Base(dir); base != "lib" && base != "lib64" {
		return ""
	}
	root := path.Dir(dir)
	if path.Base(path.Dir(root)) == "targets" {
		return path.Dir(path.Dir(root))
	}
	return root
}

// onPATH reports whether a program is in a directory of PATH or of its default.
func (w *world) onPATH(name string) bool {
	value, _ := w.getenv("PATH")
	return slices.ContainsFunc(strings.Split(value+":/usr/local/bin:/usr/bin:/bin", ":"), func(dir string) bool {
		return strings.HasPrefix(dir, "/") && w.isFile(path.Join(dir, name))
	})
}

func (n *Need) validate() error {
	if n.ID == "" || len(n.Dist) == 0 || len(n.Any) == 0 || n.Message == "" || n.Effect == "" || len(n.Sources) == 0 {
		return errors.New("needs an id, dist, any, a message, an effect and sources")
	}
	if n.Severity != "" && !slices.Contains(Severities, n.Severity) {
		return fmt.Errorf("severity is %q, not error, warning or note", n.Severity)
	}
	if err := version.CheckRange(n.Versions); err != nil {
		return err
	}
	return patterns("", slices.Concat(n.Dist, n.Present, n.Any))
}
