package lint

import (
	"cmp"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Copies are the files of an image that are one GPU library.
type Copies struct {
	Family  string `json:"family"`  // "cudnn"
	Library string `json:"library"` // its SONAME
	Files   []Copy `json:"files"`   // by path
}

// Copy is one file of a library.
type Copy struct {
	replay.File
	// Version is empty when neither the file's name nor the distribution that
	// brings it tells.
	Version string `json:"version,omitempty"`
	Size    int64  `json:"size"` // in bytes
	// UsedBy are the processes that get this file.
	UsedBy []User `json:"used_by,omitempty"`
}

// User is a process that gets a copy.
type User struct {
	Process string `json:"process"` // "PyTorch at /…/torch", or a program's path
	How     string `json:"how"`     // the step of the search that found it
	By      string `json:"by,omitempty"`
}

// Process is what one process is foretold to load.
type Process struct {
	Title   string `json:"title"`             // "PyTorch at /…/torch", or a program's path
	Program string `json:"program,omitempty"` // absent where none of the image's would load it
	// Mapped are the files, by path; the driver's that are injected are not in the
	// image and not among them.
	Mapped []string `json:"mapped"`
}

// copies lists every GPU library of the image; stubs, which are there for linking,
// are none.
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

// users are the processes that get a file, by the paths of GPU libraries.
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

// how returns how a module was found, in words.
func how(pass *Pass, m replay.Loaded) string { return cmp.Or(m.How, pass.Packs.Phrase("by-path", nil)) }

// processes are what the plans' processes load.
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
