package lint

import (
	"debug/elf"
	"fmt"
	"path"
	"slices"
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
	f := Finding{
		Message: fmt.Sprintf("%s is linked with glibc, and the image's programs with musl", path.Base(first)),
		Effects: []Effect{
			{"Python cannot import it", "Error loading shared library ld-linux-x86-64.so.2: No such file or directory"},
			{"what loads nevertheless lacks functions that only glibc has", "Error relocating: __vsnprintf_chk: symbol not found"},
		},
		NeededBy: []File{w.file(first)}, Affected: paths,
		Fixes: []string{"base the image on a distribution with glibc (python:3.x-slim, debian, ubuntu): NVIDIA's driver and libraries are made for glibc alone"},
	}
	if len(sure) == 0 {
		f.Severity, f.Because, f.Effects = Warning, "musl answers for libc.so.6 itself: simple libraries work", f.Effects[1:]
	}
	for _, gcompat := range []string{"/lib/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"} {
		if e, _, ok := w.img.FS.Lookup(gcompat); ok && e.Object != nil {
			f.Severity, f.Because = Warning, "gcompat stands in for glibc, as far as it goes"
		}
	}
	return []Finding{f}
}

// otherMachine is the machine that a file is for, where it is not the image's; empty
// for what is no such file.
func (w *world) otherMachine(file string) string {
	e, _, ok := w.img.FS.Lookup(file)
	if !path.IsAbs(file) || !ok || e.Object == nil || e.Object.Machine == w.machine {
		return ""
	}
	return nameOf(e.Object.Machine)
}

// nameOf is a machine as image configs name it (GOARCH).
func nameOf(m elf.Machine) string {
	for name, known := range machines {
		if known.m == m {
			return name
		}
	}
	return m.String()
}

// allFor says that all ELF files of the image are for a machine.
func allFor(n int, m elf.Machine) string {
	if n == 1 {
		return "its one ELF file is for " + nameOf(m)
	}
	return fmt.Sprintf("its %d ELF files are for %s", n, nameOf(m))
}

// isCPU tells the machines of processors from those of other code that ELF
// files hold: GPU code, BPF programs, firmware.
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
	own, other := 0, map[elf.Machine][]string{}
	for e := range w.img.FS.All() {
		switch {
		case e.Object == nil || !isCPU(e.Object.Machine):
		case e.Object.Machine == w.machine && e.Object.Class() == w.class:
			own++
		default:
			other[e.Object.Machine] = append(other[e.Object.Machine], "/"+e.Path)
		}
	}
	var list []Finding
	for m, paths := range other {
		if own == 0 && w.img.Config != nil && w.img.Config.Architecture != "" {
			severity := Warning
			if w.entry().name != "" {
				severity = Error
			}
			list = append(list, Finding{
				Severity: severity,
				Message:  fmt.Sprintf("the image says that it is for %s, and %s", w.img.Config.Architecture, allFor(len(paths), m)),
				Effects:  []Effect{{"no program of it starts", "exec format error"}},
				Present:  w.filesOf(paths[:1]), Affected: paths,
				Fixes: []string{fmt.Sprintf("build it for the platform that it is used on: docker buildx build --platform linux/%s", w.img.Config.Architecture)},
			})
			continue
		}
		var wrong []string
		for _, p := range paths {
			if w.wouldLoad(p) {
				wrong = append(wrong, p)
			}
		}
		if len(wrong) == 0 {
			continue
		}
		list = append(list, Finding{
			Message: fmt.Sprintf("%s is for %s, and the image for %s", path.Base(wrong[0]), nameOf(m), nameOf(w.machine)),
			Effects: []Effect{{Text: "the loader passes over it as if it were not there, and Python does not find the module"}},
			Present: w.filesOf(wrong[:1]), Affected: wrong,
			Fixes: []string{"install the packages in an image of the same platform, not by copying them from another one"},
		})
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return list
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
	return strings.Contains(p, "-packages/nvidia/")
}
