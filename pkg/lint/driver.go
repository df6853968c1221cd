package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// drivers returns the findings about libraries of the driver in the image.
func drivers(pass *Pass) []Finding {
	var list []Finding
	for _, r := range pass.Evidence.Processes {
		for _, m := range r.Loaded {
			real := m.Real()
			if real == "" || !pass.Packs.FromDriver(real) {
				continue
			}
			if _, _, ok := pass.Image.FS.Lookup(real); !ok {
				continue // the injected one
			}
			if f, ok := driver(pass, r, m); ok {
				f.Library, f.Present, f.Affected = m.Object.Soname, []replay.File{pass.Image.File(real)}, []string{real}
				list = append(list, f)
			}
		}
	}
	return list
}

// driver returns the finding about a stub or a compatibility library that a process gets
// instead of the driver.
func driver(pass *Pass, r *replay.Process, m replay.Loaded) (_ Finding, ok bool) {
	real := m.Real()
	stub := replay.IsStub(real) || pass.Files.CopiedStub(real)
	v := packs.Values{"process": r.Title, "file": real, "how": how(pass, m), "mounted": replay.MountedDriver}
	switch {
	case pass.Loaders.OnPath(path.Dir(real)) && (replay.IsStub(real) || !stub):
		return Finding{}, false // stubs-on-path and compat-on-path say so
	case !stub && strings.Contains(real, "/compat/"):
		return pass.say("stub-driver", "compat", v), true
	case !stub:
		return Finding{}, false
	}
	f := pass.say("stub-driver", "stub", v)
	if m.How != "LD_LIBRARY_PATH" && slices.ContainsFunc(pass.Loaders.PathEntries(), func(e string) bool { return path.Clean(e) == replay.MountedDriver }) {
		pass.lower(&f, "mounted-first", v)
	}
	pass.also(&f, stubFix(m), v)
	return f, true
}

// stubFix returns the clause that has the fix of a stub.
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

// driverInImage finds files of the driver that a layer brought; the container runtime
// mounts the host's own.
func driverInImage(pass *Pass) []Finding {
	var paths []string
	whole := false
	for e := range pass.Image.FS.All() {
		base := path.Base(e.Path)
		if !strings.HasPrefix(base, "lib") || !pass.Packs.FromDriver(base) || !strings.Contains(base, ".so.") {
			continue
		}
		p := "/" + e.Path
		if replay.HasElement(p, "stubs") || replay.HasElement(p, "compat") || pass.Config.IsMount(p) || slices.ContainsFunc(pass.Packs.DriverExempt, func(m *packs.Known) bool { return packs.Match(m.Match, base) || packs.Match(m.Match, p) }) {
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
	if len(paths) == 0 || !slices.ContainsFunc(paths, func(p string) bool {
		base := path.Base(p)
		return strings.HasPrefix(base, "libcuda.so.") || strings.HasPrefix(base, "libnvidia-ml.so.") || strings.HasPrefix(base, "libnvidia-ptxjitcompiler.so.")
	}) {
		return nil
	}
	f := pass.say("driver-in-image", "files", packs.Values{"file": path.Base(paths[0])})
	f.Subject, f.Library, f.Present = paths[0], path.Base(paths[0]), pass.Image.FilesOf(paths)
	switch {
	case pass.Image.Config == nil || pass.Image.Config.OS == "": // an image's config names its system
		pass.lower(&f, "directory", nil)
	case !whole:
		pass.lower(&f, "links", nil)
	case pass.Files.OnJetson():
		pass.lower(&f, "jetson", nil)
	}
	return []Finding{f}
}
