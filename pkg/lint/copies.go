package lint

import (
	"cmp"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Copies lists the files of an image that are one GPU library.
type Copies struct {
	Family  string `json:"family"`  // "cudnn"
	Library string `json:"library"` // its SONAME
	Files   []Copy `json:"files"`   // by path
}

// Copy is one file of a library.
type Copy struct {
	replay.File
	// Version is empty if neither the file's name nor its distribution has it.
	Version string `json:"version,omitempty"`
	Size    int64  `json:"size"` // in bytes
	// UsedBy are the processes that load the file.
	UsedBy []User `json:"used_by,omitempty"`
}

// User is a process that loads a copy.
type User struct {
	Process string `json:"process"`      // "PyTorch at /…/torch", or a program's path
	How     string `json:"how"`          // the step of the search that found it
	By      string `json:"by,omitempty"` // the file that needs it, if one does
}

// Process lists the files that a process loads in the replay.
type Process struct {
	Title   string `json:"title"`             // "PyTorch at /…/torch", or a program's path
	Program string `json:"program,omitempty"` // empty if no program of the image loads them
	// Mapped are the paths of the image's files, sorted. The driver's files, which the
	// container runtime mounts, are not among them.
	Mapped []string `json:"mapped"`
}

// copies returns every GPU library of the image, less stubs, which are only for linking.
func copies(pass *Pass) []Copies {
	type key struct{ family, soname string }
	all, users := map[key][]Copy{}, users(pass)
	for _, o := range pass.Files.Objects {
		fam := pass.Packs.Family(o.ELF.Soname)
		if fam == nil || replay.IsStub(o.Path) {
			continue
		}
		e, _, ok := pass.Image.FS.Lookup(o.Path)
		if !ok || e.Type != layers.Regular {
			continue
		}
		k := key{fam.ID, o.ELF.Soname}
		all[k] = append(all[k], Copy{File: pass.Image.File(o.Path), Version: pass.Packages.ReleaseOf(o.Path).String(), Size: e.Size, UsedBy: users[o.Path]})
	}
	var list []Copies
	for k, files := range all {
		list = append(list, Copies{k.family, k.soname, files})
	}
	slices.SortFunc(list, func(a, b Copies) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Library, b.Library))
	})
	return list
}

// users returns the processes that load GPU libraries, by the path of the library.
func users(pass *Pass) map[string][]User {
	all := map[string][]User{}
	for _, r := range pass.Evidence.Processes {
		for _, m := range r.Loaded {
			if m.File != nil && pass.Packs.Family(m.Object.Soname) != nil {
				all[m.Real()] = append(all[m.Real()], User{Process: r.Title, How: how(pass, m), By: m.By})
			}
		}
	}
	return all
}

// how returns the words for the way in which the loader found a module.
func how(pass *Pass, m replay.Loaded) string { return cmp.Or(m.How, pass.Packs.Phrase("by-path", nil)) }

// processes returns the files that the replayed processes load.
func processes(pass *Pass) []Process {
	var list []Process
	for _, r := range pass.Evidence.Processes {
		p := Process{Title: r.Title, Program: r.Program}
		for _, m := range r.Loaded {
			if real := m.Real(); real != "" {
				if _, _, ok := pass.Image.FS.Lookup(real); ok {
					p.Mapped = append(p.Mapped, real)
				}
			}
		}
		slices.Sort(p.Mapped)
		p.Mapped = slices.Compact(p.Mapped)
		list = append(list, p)
	}
	return list
}
