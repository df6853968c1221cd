package lint

import (
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// shortLibraries finds GPU libraries that end within the last page of what their
// segments map: the process lives, and reads zeros in the place of data. Without the
// last 4096 bytes of their files, libcublas.so.13 works on a machine with a GPU, and
// libcusparse.so.12 and libcurand.so.10 do not.
func shortLibraries(pass *Pass) []Finding {
	var list []Finding
	for _, o := range pass.Files.Objects {
		family := pass.Packs.Family(o.Path)
		file, err := pass.Image.FS.Find(o.Path)
		if family == nil || err != nil || file.Object == nil {
			continue
		}
		lacks := file.Object.LoadEnd - file.Size
		if m := (&elfdeps.Module{Object: file.Object, File: file}); lacks <= 0 || m.Truncated() {
			continue // it is whole, or its processes are killed
		}
		name := path.Base(o.Path)
		f := pass.say("unusable-library", "short", packs.Values{"library": name, "lacks": strconv.FormatInt(lacks, 10)})
		f.Subject, f.Library, f.Family, f.Affected, f.Present = o.Path, name, family.ID, []string{o.Path}, []replay.File{pass.Image.File(o.Path)}
		f.advise(wholeFix(pass, o.Path)...)
		list = append(list, f)
	}
	return list
}

// stubCopies finds CUDA libraries outside the directories of stubs that are as long as
// the stub of their SONAME: copies of it, whose functions do nothing but fail.
func stubCopies(pass *Pass) []Finding {
	stubs := map[string]map[int64]string{} // SONAME → size → path
	for _, o := range pass.Files.Objects {
		if e, _, ok := pass.Image.FS.Lookup(o.Path); ok && replay.IsStub(o.Path) && o.ELF.Soname != "" && pass.Packs.Family(o.ELF.Soname) != nil {
			if stubs[o.ELF.Soname] == nil {
				stubs[o.ELF.Soname] = map[int64]string{}
			}
			stubs[o.ELF.Soname][e.Size] = o.Path
		}
	}
	var list []Finding
	for _, o := range pass.Files.Objects {
		e, _, ok := pass.Image.FS.Lookup(o.Path)
		if !ok || replay.IsStub(o.Path) || e.Size >= replay.MaxStub || stubs[o.ELF.Soname][e.Size] == "" {
			continue
		}
		stub := stubs[o.ELF.Soname][e.Size]
		f := pass.say("stub-library", "copied", packs.Values{"path": o.Path, "soname": o.ELF.Soname, "name": path.Base(o.Path), "stub": stub})
		f.Subject, f.Library, f.Family = o.Path, o.ELF.Soname, pass.Packs.Family(o.ELF.Soname).ID
		f.Affected, f.Present = []string{o.Path}, []replay.File{pass.Image.File(o.Path), pass.Image.File(stub)}
		list = append(list, f)
	}
	return list
}

// wheelFilesChanged finds GPU libraries of wheels that have another size than the
// wheel's RECORD says: something has put another file in their place, or has
// stripped or patched them.
func wheelFilesChanged(pass *Pass) []Finding {
	var list []Finding
	for p, pkg := range pass.Packages.EachWheel() {
		for _, file := range slices.Sorted(maps.Keys(pkg.Files)) {
			size, changed := pass.Files.ChangedSize(file, pkg.Files[file])
			if !changed {
				continue
			}
			f := pass.say("wheel-file-changed", "size", packs.Values{"file": path.Base(file), "size": strconv.FormatInt(size, 10), "wheel": pkg.Name, "version": pass.Packages.Version(p, pkg), "listed": strconv.FormatInt(pkg.Files[file].Size, 10)})
			f.Subject, f.Library, f.Affected, f.Present = file, path.Base(file), []string{file}, []replay.File{pass.Image.File(file)}
			f.advise(reinstall(pass, pkg.Name, pkg.Version)...)
			if twin := pass.Files.Twin(file); twin != "" {
				pass.also(&f, "twin", packs.Values{"twin": twin})
				f.Present = append(f.Present, pass.Image.File(twin))
			}
			list = append(list, f)
		}
	}
	return list
}
