package lint

import (
	"debug/elf"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Checks of files that are for another libc or another machine.

// glibcOnMusl finds Python extensions and GPU libraries that are linked with
// glibc in an image whose programs are linked with musl.
func (w *world) glibcOnMusl() []Finding {
	if w.primary == nil || !w.primary.Libc.Musl {
		return nil
	}
	// musl answers for libc.so.6 itself, and not for glibc's loader.
	loaders := []string{"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
	asks := func(names []string, o *object) bool {
		return slices.ContainsFunc(o.elf.Needed, func(n string) bool { return slices.Contains(names, n) })
	}
	var paths, sure []string
	for _, o := range w.objects {
		if o.elf.Interp != "" || !strings.Contains(o.path, "-packages/") && w.packs.family(o.path) == nil {
			continue
		}
		switch {
		case asks(loaders, o):
			sure = append(sure, o.path)
			paths = append(paths, o.path)
		case asks([]string{"libc.so.6"}, o):
			paths = append(paths, o.path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	first := append(sure, paths...)[0]
	f := w.say("glibc-on-musl", "linked", values{"file": path.Base(first)})
	f.Subject, f.NeededBy, f.Affected = first, []File{w.file(first)}, paths
	if len(sure) > 0 {
		w.also(&f, "asks-loader", nil)
	} else {
		w.lower(&f, "simple", nil)
	}
	w.also(&f, "lacks-functions", nil)
	for _, gcompat := range []string{"/lib/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"} {
		if e, _, ok := w.img.FS.Lookup(gcompat); ok && e.Object != nil {
			w.lower(&f, "gcompat", nil)
		}
	}
	return []Finding{f}
}

// otherMachine returns the machine that an ELF file is for, or "" if it is the image's or
// there is no such file.
func (w *world) otherMachine(file string) string {
	e, _, ok := w.img.FS.Lookup(file)
	if !path.IsAbs(file) || !ok || e.Object == nil || e.Object.Machine == w.machine {
		return ""
	}
	return nameOf(e.Object.Machine)
}

// nameOf returns the name that image configs have for a machine (GOARCH).
func nameOf(m elf.Machine) string {
	for name, known := range machines {
		if known.m == m {
			return name
		}
	}
	return m.String()
}

// isCPU reports whether a machine is a processor: ELF files also hold GPU code, BPF
// programs and firmware.
func isCPU(m elf.Machine) bool {
	for _, known := range machines {
		if known.m == m {
			return true
		}
	}
	return false
}

// wrongArchitecture finds images that are for another machine than their config
// says, and libraries of another machine where a framework's process would look
// for them.
func (w *world) wrongArchitecture() []Finding {
	own, other := w.byMachine()
	var list []Finding
	for m, paths := range other {
		if own == 0 && w.img.Config != nil && w.img.Config.Architecture != "" {
			list = append(list, w.otherPlatform(m, paths))
			continue
		}
		wrong := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !w.wouldLoad(p) })
		if len(wrong) == 0 {
			continue
		}
		f := w.say("wrong-architecture", "library", values{"file": path.Base(wrong[0]), "is": nameOf(m), "says": nameOf(w.machine)})
		f.Subject, f.Present, f.Affected = wrong[0], w.filesOf(wrong[:1]), wrong
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return list
}

// byMachine returns the number of ELF files for the image's machine, and the paths of
// those for other processors.
func (w *world) byMachine() (own int, other map[elf.Machine][]string) {
	other = map[elf.Machine][]string{}
	for e := range w.img.FS.All() {
		switch {
		case e.Object == nil || !isCPU(e.Object.Machine):
		case e.Object.Machine == w.machine && e.Object.Class() == w.class:
			own++
		default:
			other[e.Object.Machine] = append(other[e.Object.Machine], "/"+e.Path)
		}
	}
	return own, other
}

// otherPlatform returns the finding about an image whose ELF files are all for another machine than its
// config says.
func (w *world) otherPlatform(m elf.Machine, paths []string) Finding {
	clause := "all-files"
	if len(paths) == 1 {
		clause = "one-file"
	}
	f := w.say("wrong-architecture", clause, values{"says": w.img.Config.Architecture, "is": nameOf(m), "n": strconv.Itoa(len(paths))})
	f.Subject, f.Present, f.Affected = paths[0], w.filesOf(paths[:1]), paths
	if w.entry().name == "" {
		w.lower(&f, "no-program", nil)
	}
	return f
}

// wouldLoad reports whether a library of another machine lies where one of the
// image's own is meant to be: a GPU library on no cross-compiler's path, or a
// framework's own file.
func (w *world) wouldLoad(p string) bool {
	if !strings.Contains(p, "-packages/") {
		return false // an application may carry its libraries for every platform, and choose
	}
	if slices.ContainsFunc(w.installs, func(in *install) bool { return isIn(p, in.home) }) {
		return true
	}
	if w.packs.family(p) == nil || hasElement(p, "stubs") || strings.Contains(p, "/targets/") {
		return false
	}
	_, rel, _ := strings.Cut(p, "-packages/")
	return w.inWheelDir(rel)
}
