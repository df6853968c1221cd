package lint

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// reinstall advises the command that puts a wheel's own files back.
func (w *world) reinstall(name, version string) []Advice {
	return w.advice("reinstall", values{"wheel": strings.ReplaceAll(name, "_", "-"), "version": version})
}

// wheelFilesChanged finds GPU libraries of wheels that have another size than the
// wheel's RECORD says: something has put another file in their place, or has
// stripped or patched them.
func (w *world) wheelFilesChanged() []Finding {
	var list []Finding
	for p, pkg := range w.eachWheel() {
		for _, file := range slices.Sorted(maps.Keys(pkg.Files)) {
			size, changed := w.changedSize(file, pkg.Files[file])
			if !changed {
				continue
			}
			f := w.say("wheel-file-changed", "size", values{"file": path.Base(file), "size": strconv.FormatInt(size, 10), "wheel": pkg.Name, "version": w.version(p, pkg), "listed": strconv.FormatInt(pkg.Files[file].Size, 10)})
			f.Subject, f.Library, f.Affected, f.Present = file, path.Base(file), []string{file}, []File{w.file(file)}
			f.advise(w.reinstall(pkg.Name, pkg.Version)...)
			if twin := w.twin(file); twin != "" {
				w.also(&f, "twin", values{"twin": twin})
				f.Present = append(f.Present, w.file(twin))
			}
			list = append(list, f)
		}
	}
	return list
}

// changedSize returns the size of a GPU library, and whether it is another than a RECORD
// says.
func (w *world) changedSize(file string, listed inventory.Listed) (size int64, changed bool) {
	if listed.Size < 0 || !strings.Contains(path.Base(file), ".so") || w.packs.family(file) == nil {
		return 0, false
	}
	e, _, ok := w.img.FS.Lookup(file)
	if !ok || e.Object == nil || e.Size == listed.Size { // of no bytes, or no ELF file: the replay tells
		return 0, false
	}
	return e.Size, true
}

// twin returns another file of the image with the SONAME and the size of a library, and
// a release in its name, or "".
func (w *world) twin(real string) string {
	e, _, ok := w.img.FS.Lookup(real)
	if !ok || e.Object == nil || e.Object.Soname == "" {
		return ""
	}
	for _, other := range slices.Sorted(slices.Values(w.sonames[e.Object.Soname])) {
		o, _, ok := w.img.FS.Lookup(other)
		if ok && "/"+o.Path != real && o.Size == e.Size && len(nameRelease(path.Base(o.Path))) > 1 {
			return "/" + o.Path
		}
	}
	return ""
}

// changed reports whether a file is not the one that its wheel has installed, by
// its size.
func (w *world) changed(real string) bool {
	if w.inv == nil {
		return false
	}
	if w.changedFiles == nil {
		w.changedFiles = map[string]bool{}
		for _, pkg := range w.eachWheel() {
			for file, listed := range pkg.Files {
				if _, changed := w.changedSize(file, listed); changed {
					w.changedFiles[file] = true
				}
			}
		}
	}
	return w.changedFiles[real]
}
