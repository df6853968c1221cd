package lint

import (
	"path"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

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
