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

// shortLibraries returns a finding for each GPU library whose file ends before its segments do,
// and that can be loaded all the same. Within the last page that they map the process reads
// zeros in place of data: without the last 4096 bytes of their files, libcublas.so.13 works on
// a machine with a GPU, and libcusparse.so.12 and libcurand.so.10 do not. Behind it lies what no
// loader touches, GPU code: PyTorch can be imported with half of CUDA 13's libcufft.so.12.
func shortLibraries(pass *Pass) []Finding {
	var list []Finding
	for _, o := range pass.Files.Objects {
		family := pass.Packs.Family(o.Path)
		file, err := pass.Image.FS.Find(o.Path)
		if family == nil || err != nil || file.Object == nil {
			continue
		}
		lacks := file.Object.LoadEnd - file.Size
		m := &elfdeps.Module{Object: file.Object, File: file}
		if lacks <= 0 || m.Truncated() {
			continue // the file is whole, or the process is killed, which missed reports
		}
		clause := "short"
		if m.Short() {
			clause = "cut"
		}
		name := path.Base(o.Path)
		f := pass.say("unusable-library", clause, packs.Values{"library": name, "lacks": strconv.FormatInt(lacks, 10)})
		f.Subject, f.Library, f.Family, f.Affected, f.Present = o.Path, name, family.ID, []string{o.Path}, []replay.File{pass.Image.File(o.Path)}
		f.advise(wholeFix(pass, o.Path)...)
		list = append(list, f)
	}
	return list
}

// stubCopies returns a finding for each CUDA library outside the directories of stubs that has
// the size of the stub with its SONAME: a copy of the stub, whose functions only fail.
func stubCopies(pass *Pass) []Finding {
	stubs := stubsOf(pass)
	var list []Finding
	for _, o := range pass.Files.Objects {
		e, _, ok := pass.Image.FS.Lookup(o.Path)
		if !ok || replay.IsStub(o.Path) || e.Size >= replay.MaxStub || stubs[stubKey{o.ELF.Soname, e.Size}] == "" {
			continue
		}
		stub := stubs[stubKey{o.ELF.Soname, e.Size}]
		f := pass.say("stub-library", "copied", packs.Values{"path": o.Path, "soname": o.ELF.Soname, "name": path.Base(o.Path), "stub": stub})
		f.Subject, f.Library, f.Family = o.Path, o.ELF.Soname, pass.Packs.Family(o.ELF.Soname).ID
		f.Affected, f.Present = []string{o.Path}, []replay.File{pass.Image.File(o.Path), pass.Image.File(stub)}
		list = append(list, f)
	}
	return list
}

// stubKey is the SONAME and the size of a stub, in bytes.
type stubKey struct {
	soname string
	size   int64
}

// stubsOf returns the paths of the stubs of GPU libraries.
func stubsOf(pass *Pass) map[stubKey]string {
	stubs := map[stubKey]string{}
	for _, o := range pass.Files.Objects {
		if e, _, ok := pass.Image.FS.Lookup(o.Path); ok && replay.IsStub(o.Path) && o.ELF.Soname != "" && pass.Packs.Family(o.ELF.Soname) != nil {
			stubs[stubKey{o.ELF.Soname, e.Size}] = o.Path
		}
	}
	return stubs
}

// wheelFilesChanged returns a finding for each GPU library of a wheel with another size than
// in the wheel's RECORD: a build step replaced, stripped or patched it.
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
