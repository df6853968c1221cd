package lint

import (
	"path"
	"strconv"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// shortLibraries finds GPU libraries that end within the last page of what their
// segments map: the process lives, and reads zeros in the place of data. Without the
// last 4096 bytes of their files, libcublas.so.13 works on a machine with a GPU, and
// libcusparse.so.12 and libcurand.so.10 do not.
func (w *world) shortLibraries() []Finding {
	var list []Finding
	for _, o := range w.objects {
		family := w.packs.family(o.path)
		file, err := w.img.FS.Find(o.path)
		if family == nil || err != nil || file.Object == nil {
			continue
		}
		lacks := file.Object.LoadEnd - file.Size
		if m := (&elfdeps.Module{Object: file.Object, File: file}); lacks <= 0 || m.Truncated() {
			continue // it is whole, or its processes are killed
		}
		name := path.Base(o.path)
		f := w.say("unusable-library", "short", values{"library": name, "lacks": strconv.FormatInt(lacks, 10)})
		f.Subject, f.Library, f.Family, f.Affected, f.Present = o.path, name, family.ID, []string{o.path}, []File{w.file(o.path)}
		f.advise(w.wholeFix(o.path)...)
		list = append(list, f)
	}
	return list
}
