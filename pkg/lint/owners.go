package lint

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// doubleOwners returns a finding for distributions that install the same files. The image has
// the files of the one that was unpacked last.
func doubleOwners(pass *Pass) []Finding {
	var list []Finding
	for p, wheels := range pass.Packages.Environments() {
		grouped := map[string]bool{}
		for _, e := range pass.Packs.Exclusive {
			var members []*inventory.Package
			for _, name := range e.Members {
				if pkg := wheels[name]; pkg != nil {
					members = append(members, pkg)
					grouped[name] = true
				}
			}
			if len(members) > 1 {
				list = append(list, exclusive(pass, p, e, members))
			}
		}
		list = append(list, sharedFiles(pass, wheels, grouped, p.Markers(""))...)
	}
	return list
}

// exclusive returns the finding for two or more members of a group.
func exclusive(pass *Pass, p *inventory.Python, e *packs.Exclusive, members []*inventory.Package) Finding {
	const rule = "double-owner"
	var packages, names []string
	var present []replay.File
	sameVersion := true
	for _, m := range members {
		packages, names = append(packages, m.Name+" "+m.Version), append(names, m.Name)
		present = append(present, pass.Image.File(m.Path))
		sameVersion = sameVersion && m.Version == members[0].Version
	}
	keep := e.Keep
	if !slices.Contains(names, keep) {
		keep = names[0]
	}
	f := pass.say(rule, "members", packs.Values{"packages": strings.Join(packages, " and "), "names": strings.Join(names, " "), "keep": keep})
	pass.also(&f, "effect", packs.Values{"effect": e.Effect, "error": ""})
	f.Present = present
	var whole *inventory.Package
	if e.Alike {
		whole = lastWhole(pass, members)
	}
	switch b := pass.Packages.BuildOf(p, e.ID); {
	case b != nil && b.Package != "" && b.Package != e.Keep && keep == e.Keep:
		pass.also(&f, "overwritten", packs.Values{"last": b.Package})
	case b != nil && b.Package == e.Keep:
		pass.lower(&f, "kept", packs.Values{"keep": e.Keep})
	case b == nil && sameVersion:
		pass.lower(&f, "same-version", nil)
	case whole != nil:
		pass.lower(&f, "kept", packs.Values{"keep": whole.Name})
	default:
		pass.lower(&f, "order-unknown", nil)
		adviseAsked(pass, &f, members)
	}
	return f
}

// lastWhole returns the member whose files the image has, as RECORD lists them, or nil if
// they are those of two members, or that is not known. A file of another member alone, in
// the same package, makes a mixture: cv2 imports each package that it finds there.
func lastWhole(pass *Pass, members []*inventory.Package) *inventory.Package {
	for _, m := range members {
		var tops []string // directories of its modules, with a slash at the end
		whole := len(m.Files) > 0
		for file, listed := range m.Files {
			if strings.HasSuffix(file, "/__init__.py") {
				tops = append(tops, strings.TrimSuffix(file, "__init__.py"))
			}
			if listed.Size < 0 && path.Base(file) == "RECORD" {
				continue
			}
			size, ok := pass.sizeOf(file)
			whole = whole && ok && size == listed.Size
		}
		differs := false // in a file that another member has with another size
		for _, o := range members {
			if o == m {
				continue
			}
			for file, listed := range o.Files {
				mine, both := m.Files[file]
				differs = differs || both && listed.Size >= 0 && listed.Size != mine.Size
				if _, ok := pass.sizeOf(file); ok && !both && slices.ContainsFunc(tops, func(top string) bool { return strings.HasPrefix(file, top) }) {
					whole = false
				}
			}
		}
		if whole && differs {
			return m
		}
	}
	return nil
}

// sizeOf returns the size in bytes of a regular file of the image.
func (pass *Pass) sizeOf(file string) (int64, bool) {
	e, _, ok := pass.Image.FS.Lookup(file)
	if !ok || e.Type != layers.Regular {
		return 0, false
	}
	return e.Size, true
}

// adviseAsked leaves the choice to the image's author, who asked for two or more of the members in
// different releases: the one that the pack keeps may lack what another has.
func adviseAsked(pass *Pass, f *Finding, members []*inventory.Package) {
	var asked []*inventory.Package
	for _, m := range members {
		if m.Asked == inventory.Yes {
			asked = append(asked, m)
		}
	}
	if len(asked) < 2 {
		return
	}
	f.Advice = nil
	pass.also(f, "either", packs.Values{"package": asked[0].Name, "other": asked[1].Name})
	for _, keep := range asked {
		var others []string
		for _, m := range members {
			if m != keep {
				others = append(others, m.Name)
			}
		}
		pass.also(f, "keep", packs.Values{"package": keep.Name, "version": keep.Version, "other": strings.Join(others, " ")})
	}
}

// sharedFiles returns a finding for each two distributions that list one library with
// different hashes, unless a group has both.
func sharedFiles(pass *Pass, wheels replay.WheelSet, grouped map[string]bool, env inventory.MarkerEnv) []Finding {
	shared := filesOfTwo(pass, wheels, grouped)
	byNames := func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }
	var list []Finding
	for _, pair := range slices.SortedFunc(maps.Keys(shared), byNames) {
		a, b := wheels[pair[0]], wheels[pair[1]]
		files := slices.Sorted(slices.Values(shared[pair]))
		f := pass.say("double-owner", "shared", packs.Values{
			"package": a.Name, "version": a.Version, "other": b.Name, "other-version": b.Version, "file": path.Base(files[0]),
		})
		needA, needB := required(wheels, a.Name, env), required(wheels, b.Name, env)
		if needA == needB {
			pass.also(&f, "either", packs.Values{"package": a.Name, "other": b.Name})
		}
		if needA || !needB {
			pass.also(&f, "keep", packs.Values{"package": a.Name, "version": a.Version, "other": b.Name})
		}
		if needB || !needA {
			pass.also(&f, "keep", packs.Values{"package": b.Name, "version": b.Version, "other": a.Name})
		}
		f.Subject, f.Present, f.Affected = files[0], []replay.File{pass.Image.File(a.Path), pass.Image.File(b.Path)}, files
		list = append(list, f)
	}
	return list
}

// required reports whether an installed distribution requires another one, without its extras,
// or may: env has the values for conditions that are known.
func required(wheels replay.WheelSet, name string, env inventory.MarkerEnv) bool {
	for _, pkg := range wheels.Sorted() {
		for _, line := range pkg.Requires {
			r, err := inventory.ParseRequirement(line)
			if err != nil || r.Name != name || strings.Contains(r.Marker, "extra") {
				continue
			}
			if holds, known := r.Applies(env); holds || !known {
				return true
			}
		}
	}
	return false
}

// filesOfTwo returns the libraries that two distributions list with different hashes, by the
// names of the distributions.
func filesOfTwo(pass *Pass, wheels replay.WheelSet, grouped map[string]bool) map[[2]string][]string {
	type owner struct{ name, hash string }
	first, shared := map[string]owner{}, map[[2]string][]string{}
	for name, pkg := range wheels.Sorted() {
		for file, listed := range pkg.Files {
			if listed.Hash == "" || !strings.Contains(path.Base(file), ".so") || !pass.Image.IsFile(file) {
				continue
			}
			had, twice := first[file]
			switch {
			case !twice:
				first[file] = owner{name, listed.Hash}
			case had.hash != listed.Hash && !(grouped[had.name] && grouped[name]):
				pair := [2]string{had.name, name}
				shared[pair] = append(shared[pair], file)
			}
		}
	}
	return shared
}
