package lint

import (
	"path"
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
