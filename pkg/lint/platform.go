package lint

import (
	"debug/elf"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// glibcOnMusl returns a finding for the Python extensions and GPU libraries that are linked
// with glibc in an image whose programs are linked with musl.
func glibcOnMusl(pass *Pass) []Finding {
	if pass.Loaders.Primary == nil || !pass.Loaders.Primary.Libc.Musl {
		return nil
	}
	paths, sure := linkedWithGlibc(pass)
	if len(paths) == 0 {
		return nil
	}
	first := append(sure, paths...)[0]
	f := pass.say("glibc-on-musl", "linked", packs.Values{"file": path.Base(first)})
	f.Subject, f.NeededBy, f.Affected = first, []replay.File{pass.Image.File(first)}, paths
	if len(sure) > 0 {
		pass.also(&f, "asks-loader", nil)
	} else {
		pass.lower(&f, "simple", nil)
	}
	pass.also(&f, "lacks-functions", nil)
	if hasGcompat(pass) {
		pass.lower(&f, "gcompat", nil)
	}
	return []Finding{f}
}

// linkedWithGlibc returns the Python extensions and GPU libraries that are linked with glibc,
// and those of them that musl cannot load: it stands in for libc.so.6, but not for glibc's
// loader.
func linkedWithGlibc(pass *Pass) (paths, sure []string) {
	needs := func(o *replay.Object, names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(o.ELF.Needed, n) })
	}
	for _, o := range pass.Files.Objects {
		if o.ELF.Interp != "" || !strings.Contains(o.Path, "-packages/") && pass.Packs.Family(o.Path) == nil {
			continue
		}
		switch {
		case needs(o, "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"):
			sure = append(sure, o.Path)
			paths = append(paths, o.Path)
		case needs(o, "libc.so.6"):
			paths = append(paths, o.Path)
		}
	}
	return paths, sure
}

// hasGcompat reports whether an image has a loader under the path of glibc's, as Alpine's
// package gcompat installs it.
func hasGcompat(pass *Pass) bool {
	loaders := []string{"/lib/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}
	return slices.ContainsFunc(loaders, func(p string) bool {
		e, _, ok := pass.Image.FS.Lookup(p)
		return ok && e.Object != nil
	})
}

// isCPU reports whether a machine is a known processor. Other ELF files are GPU code, BPF
// programs and firmware.
func isCPU(m elf.Machine) bool {
	for _, known := range replay.Machines {
		if known.Machine == m {
			return true
		}
	}
	return false
}

// wrongArchitecture returns a finding for an image that is for another machine than its config
// says, or for the libraries of another machine that a framework's process would load.
func wrongArchitecture(pass *Pass) []Finding {
	own, other := byMachine(pass)
	var list []Finding
	for m, paths := range other {
		if own == 0 && pass.Image.Config != nil && pass.Image.Config.Architecture != "" {
			list = append(list, otherPlatform(pass, m, paths))
			continue
		}
		wrong := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !wouldLoad(pass, p) })
		if len(wrong) == 0 {
			continue
		}
		f := pass.say("wrong-architecture", "library", packs.Values{"file": path.Base(wrong[0]), "is": replay.NameOf(m), "says": replay.NameOf(pass.Files.Machine)})
		f.Subject, f.Present, f.Affected = wrong[0], pass.Image.FilesOf(wrong[:1]), wrong
		if in := importedFrom(pass, wrong); in != nil {
			pass.also(&f, "import", packs.Values{"package": path.Base(in.Home), "says": replay.NameOf(pass.Files.Machine)})
		} else {
			pass.lower(&f, "some-files", nil)
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return list
}

// importedFrom returns the Python framework that somebody asked for and of which all ELF files
// are among those for another machine, or nil.
func importedFrom(pass *Pass, wrong []string) *replay.Install {
	for _, in := range pass.Evidence.Installs {
		within := func(p string) bool { return replay.IsIn(p, in.Home) }
		own := slices.ContainsFunc(pass.Files.Objects, func(o *replay.Object) bool { return within(o.Path) })
		if in.Package != "" && !own && slices.ContainsFunc(wrong, within) && pass.Loaders.StartsPython(in.Home) && pass.Evidence.Unseen.Wanted(in) {
			return in
		}
	}
	return nil
}

// byMachine returns the number of ELF files for the image's machine, and the paths of
// those for other processors.
func byMachine(pass *Pass) (own int, other map[elf.Machine][]string) {
	other = map[elf.Machine][]string{}
	for e := range pass.Image.FS.All() {
		switch {
		case e.Object == nil || !isCPU(e.Object.Machine):
		case e.Object.Machine == pass.Files.Machine && e.Object.Class() == pass.Files.Class:
			own++
		default:
			other[e.Object.Machine] = append(other[e.Object.Machine], "/"+e.Path)
		}
	}
	return own, other
}

// otherPlatform returns the finding for an image whose ELF files are all for another machine
// than its config says.
func otherPlatform(pass *Pass, m elf.Machine, paths []string) Finding {
	clause := "all-files"
	if len(paths) == 1 {
		clause = "one-file"
	}
	f := pass.say("wrong-architecture", clause, packs.Values{"says": pass.Image.Config.Architecture, "is": replay.NameOf(m), "n": strconv.Itoa(len(paths))})
	f.Subject, f.Present, f.Affected = paths[0], pass.Image.FilesOf(paths[:1]), paths
	if pass.Config.Entry().Name == "" {
		pass.lower(&f, "no-program", nil)
	}
	return f
}

// wouldLoad reports whether a process would load a library if it were for the image's
// machine: a framework's own file, or a GPU library of a wheel.
func wouldLoad(pass *Pass, p string) bool {
	if !strings.Contains(p, "-packages/") {
		return false // an application may have its libraries for every platform, and choose
	}
	if slices.ContainsFunc(pass.Evidence.Installs, func(in *replay.Install) bool { return replay.IsIn(p, in.Home) }) {
		return true
	}
	if pass.Packs.Family(p) == nil || replay.HasElement(p, "stubs") || strings.Contains(p, "/targets/") {
		return false
	}
	_, rel, _ := strings.Cut(p, "-packages/")
	return pass.Files.InWheelDir(rel)
}
