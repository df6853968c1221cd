package lint

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// doubleOwners returns a finding for each group of distributions that install the same
// files: the image has those of the distribution that was unpacked last.
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
		list = append(list, sharedFiles(pass, wheels, grouped)...)
	}
	return list
}

// exclusive returns the finding for members of a group that are installed together.
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
	switch b := pass.Packages.BuildOf(p, e.ID); {
	case b != nil && b.Package != "" && b.Package != e.Keep && keep == e.Keep:
		pass.also(&f, "overwritten", packs.Values{"last": b.Package})
	case b != nil && b.Package == e.Keep:
		pass.lower(&f, "kept", packs.Values{"keep": e.Keep})
	case b == nil && sameVersion:
		pass.lower(&f, "same-version", nil)
	default:
		pass.lower(&f, "order-unknown", nil)
	}
	return f
}

// sharedFiles returns a finding for each two distributions that list an ELF file with
// different hashes, unless a group has both.
func sharedFiles(pass *Pass, wheels replay.WheelSet, grouped map[string]bool) []Finding {
	type owner struct {
		name, hash string
	}
	first := map[string]owner{}
	shared := map[[2]string][]string{}
	for name, pkg := range wheels.Sorted() {
		for file, listed := range pkg.Files {
			hash := listed.Hash
			if hash == "" || !strings.Contains(path.Base(file), ".so") || !pass.Image.IsFile(file) {
				continue
			}
			had, twice := first[file]
			switch {
			case !twice:
				first[file] = owner{name, hash}
			case had.hash != hash && !(grouped[had.name] && grouped[name]):
				shared[[2]string{had.name, name}] = append(shared[[2]string{had.name, name}], file)
			}
		}
	}
	var list []Finding
	pairs := slices.SortedFunc(maps.Keys(shared), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for _, pair := range pairs {
		a, b := wheels[pair[0]], wheels[pair[1]]
		files := slices.Sorted(slices.Values(shared[pair]))
		f := pass.say("double-owner", "shared", packs.Values{
			"package": a.Name, "version": a.Version, "other": b.Name, "other-version": b.Version, "file": path.Base(files[0]),
		})
		f.Subject, f.Present, f.Affected = files[0], []replay.File{pass.Image.File(a.Path), pass.Image.File(b.Path)}, files
		list = append(list, f)
	}
	return list
}
