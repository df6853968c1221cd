package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// drivers returns a finding for each process that loads a stub or a compatibility library of
// the image in place of the driver, and for each such file that only a program loads which was
// followed through its source.
func drivers(pass *Pass) []Finding {
	var list []Finding
	seen := map[string]bool{}
	for _, r := range pass.Evidence.Processes {
		for _, m := range r.Loaded {
			if clause := standIn(pass, m.Real()); clause != "" {
				f := standInFinding(pass, r, m, clause)
				f.Library, f.Present, f.Affected = m.Object.Soname, []replay.File{pass.Image.File(m.Real())}, []string{m.Real()}
				list = append(list, f)
				seen[m.Real()] = true
			}
		}
	}
	for _, s := range pass.Evidence.Starts {
		for _, file := range s.Mapped {
			o := pass.Files.ByPath[file]
			if clause := standIn(pass, file); clause != "" && !seen[file] && o != nil {
				seen[file] = true
				m := replay.Loaded{Module: &elfdeps.Module{Path: file, Object: o.ELF}, How: pass.Packs.Phrase("by-import", nil)}
				f := standInFinding(pass, &replay.Process{Title: strings.Join(s.Chain, " → ")}, m, clause)
				f.Library, f.Present, f.Affected = o.ELF.Soname, []replay.File{pass.Image.File(file)}, []string{file}
				list = append(list, f)
			}
		}
	}
	return list
}

// standIn returns the clause of the rule stub-driver for a file that a process loads: "stub"
// or "compat", or "" if the file is no stand-in for the driver, or stubs-on-path or
// compat-on-path reports its directory.
func standIn(pass *Pass, file string) string {
	if file == "" || !pass.Packs.FromDriver(file) {
		return ""
	}
	if _, _, ok := pass.Image.FS.Lookup(file); !ok {
		return "" // the driver's own, which the container runtime mounts
	}
	stub := replay.IsStub(file) || pass.Files.CopiedStub(file)
	switch {
	case pass.Loaders.OnPath(path.Dir(file)) && (replay.IsStub(file) || !stub):
		return ""
	case stub:
		return "stub"
	case strings.Contains(file, "/compat/"):
		return "compat"
	}
	return ""
}

// standInLoaded reports whether a process loads one of the files in place of the driver. The
// rule stub-driver reports those.
func standInLoaded(pass *Pass, files []string) bool {
	return slices.ContainsFunc(pass.Evidence.Processes, func(r *replay.Process) bool {
		return slices.ContainsFunc(r.Loaded, func(m replay.Loaded) bool {
			return slices.Contains(files, m.Real()) && standIn(pass, m.Real()) != ""
		})
	})
}

// standInFinding returns the finding about a process that loads m in place of the driver.
func standInFinding(pass *Pass, r *replay.Process, m replay.Loaded, clause string) Finding {
	v := packs.Values{"process": r.Title, "file": m.Real(), "how": how(pass, m), "mounted": replay.MountedDriver}
	if clause == "stub" && !pass.Files.IsDriver(m.Real()) {
		clause = "part"
	}
	f := pass.say("stub-driver", clause, v)
	if clause == "compat" {
		return f
	}
	if m.How != packs.LdLibraryPath && mountedOnPath(pass) {
		pass.lower(&f, "mounted-first", v)
	}
	pass.also(&f, stubFix(m), v)
	return f
}

// mountedOnPath reports whether LD_LIBRARY_PATH has the directory to which clusters mount
// the driver.
func mountedOnPath(pass *Pass) bool {
	return slices.ContainsFunc(pass.Loaders.PathEntries(), func(e string) bool { return path.Clean(e) == replay.MountedDriver })
}

// stubFix returns the clause with the fix for a stub.
func stubFix(m replay.Loaded) string {
	switch {
	case !replay.IsStub(m.Real()):
		return "copied"
	case strings.HasPrefix(m.How, "RPATH of "), strings.HasPrefix(m.How, "RUNPATH of "):
		return "by-runpath"
	case m.How == "":
		return "opened-by-path"
	}
	return "searched"
}

// driverInImage returns a finding for the files of the driver that layers have: the container
// runtime mounts those of the host.
func driverInImage(pass *Pass) []Finding {
	paths, whole := driverFiles(pass)
	if !slices.ContainsFunc(paths, pass.Packs.OfEveryDriver) {
		return nil
	}
	f := pass.say("driver-in-image", "files", packs.Values{"file": path.Base(paths[0])})
	f.Subject, f.Library, f.Present = paths[0], path.Base(paths[0]), pass.Image.FilesOf(paths)
	switch {
	case pass.Image.Config == nil || pass.Image.Config.OS == "": // a directory, not an image
		pass.lower(&f, "directory", nil)
	case !whole:
		pass.lower(&f, "links", nil)
	case pass.Files.OnJetson():
		pass.lower(&f, "jetson", nil)
	}
	return []Finding{f}
}

// driverFiles returns the paths of the driver's libraries in the image, and whether one of
// them is a file. The others are dangling links, or links within a directory.
func driverFiles(pass *Pass) (paths []string, whole bool) {
	for e := range pass.Image.FS.All() {
		base := e.Path[strings.LastIndexByte(e.Path, '/')+1:]
		if !strings.HasPrefix(base, "lib") || !strings.Contains(base, ".so.") || !pass.Packs.FromDriver(base) {
			continue
		}
		p := "/" + e.Path
		if driverExempt(pass, p) {
			continue
		}
		switch target, _, ok := pass.Image.FS.Lookup(p); {
		case e.Type == layers.Regular && (e.Object != nil || e.Size == 0 || e.Fault != ""):
			whole = true
			paths = append(paths, p)
		case e.Type == layers.Symlink && !ok, e.Type == layers.Symlink && replay.IsIn("/"+target.Path, path.Dir(p)):
			paths = append(paths, p)
		}
	}
	return paths, whole
}

// driverExempt reports whether an image may have a file with the name of a driver's library:
// a stub, a compatibility library, a file of a mount, or one that the packs exempt.
func driverExempt(pass *Pass, p string) bool {
	return replay.HasElement(p, "stubs") || replay.HasElement(p, "compat") || pass.Config.IsMount(p) ||
		pass.Packs.DriverExempt.Has(path.Base(p)) || pass.Packs.DriverExempt.Has(p)
}
