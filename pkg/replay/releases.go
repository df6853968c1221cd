package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// ReleaseOf returns the release of a library, or nil: from its file name, else from its
// distribution. If the file is not the one that its wheel installed, the name of its twin
// counts instead (see [Files.Twin]). The one number of a SONAME is no release.
func (pa *Packages) ReleaseOf(real string) version.Release {
	if r := nameRelease(path.Base(real)); len(r) > 1 {
		return r
	}
	if pa.changed(real) {
		return nameRelease(path.Base(pa.files.Twin(real)))
	}
	return packs.ParseRelease(pa.DistOf(real).Version)
}

// ReleaseOfModule returns the release of a loaded library, or nil. m may be nil.
func (pa *Packages) ReleaseOfModule(m *elfdeps.Module) version.Release {
	if m == nil || m.File == nil {
		return nil
	}
	return pa.ReleaseOf(m.Real())
}

// nameRelease returns the release in a file's name, or nil. libnvrtc.so.11.2 and
// libcudart.so.11.0 are SONAMEs of many releases.
func nameRelease(name string) version.Release {
	r := version.OfFile(name)
	if len(r) == 2 && r[0] == 11 && !strings.Contains(name, "builtins") {
		return nil
	}
	return r
}

// changed reports whether the size of a file differs from the RECORD of its wheel.
func (pa *Packages) changed(real string) bool { return pa.changedFiles()[real] }

// findChanged returns the files whose size differs from the RECORD of their wheel.
func (pa *Packages) findChanged() map[string]bool {
	set := map[string]bool{}
	for _, pkg := range pa.EachWheel() {
		for file, listed := range pkg.Files {
			if _, changed := pa.files.ChangedSize(file, listed); changed {
				set[file] = true
			}
		}
	}
	return set
}

// ChangedSize returns the size of a GPU library, and whether it differs from the size in
// its wheel's RECORD.
func (fi *Files) ChangedSize(file string, listed inventory.Listed) (size int64, changed bool) {
	if listed.Size < 0 || !strings.Contains(path.Base(file), ".so") || fi.packs.Family(file) == nil {
		return 0, false
	}
	e, _, ok := fi.img.FS.Lookup(file)
	if !ok || e.Object == nil || e.Size == listed.Size { // an empty file, or no ELF file, is a miss of the replay
		return 0, false
	}
	return e.Size, true
}

// Twin returns another file of the image with the SONAME and the size of a library, and a
// release in its name, or "".
func (fi *Files) Twin(real string) string {
	e, _, ok := fi.img.FS.Lookup(real)
	if !ok || e.Object == nil || e.Object.Soname == "" {
		return ""
	}
	for _, other := range slices.Sorted(slices.Values(fi.Sonames[e.Object.Soname])) {
		o, _, ok := fi.img.FS.Lookup(other)
		if ok && "/"+o.Path != real && o.Size == e.Size && len(nameRelease(path.Base(o.Path))) > 1 {
			return "/" + o.Path
		}
	}
	return ""
}
