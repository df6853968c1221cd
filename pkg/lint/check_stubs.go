package lint

import "path"

// stubCopies finds CUDA libraries outside the directories of stubs that are as long as
// the stub of their SONAME: copies of it, whose functions do nothing but fail.
func (w *world) stubCopies() []Finding {
	stubs := map[string]map[int64]string{} // SONAME → size → path
	for _, o := range w.objects {
		if e, _, ok := w.img.FS.Lookup(o.path); ok && isStub(o.path) && o.elf.Soname != "" && w.packs.family(o.elf.Soname) != nil {
			if stubs[o.elf.Soname] == nil {
				stubs[o.elf.Soname] = map[int64]string{}
			}
			stubs[o.elf.Soname][e.Size] = o.path
		}
	}
	var list []Finding
	for _, o := range w.objects {
		e, _, ok := w.img.FS.Lookup(o.path)
		if !ok || isStub(o.path) || e.Size >= maxStub || stubs[o.elf.Soname][e.Size] == "" {
			continue
		}
		stub := stubs[o.elf.Soname][e.Size]
		f := w.say("stub-library", "copied", values{"path": o.path, "soname": o.elf.Soname, "name": path.Base(o.path), "stub": stub})
		f.Subject, f.Library, f.Family = o.path, o.elf.Soname, w.packs.family(o.elf.Soname).ID
		f.Affected, f.Present = []string{o.path}, []File{w.file(o.path), w.file(stub)}
		list = append(list, f)
	}
	return list
}
