package replay

import (
	"debug/elf"
	"path"
)

// Arch is the architecture of an ELF file.
type Arch struct {
	Machine elf.Machine
	Class   elf.Class
}

// Machines maps the architectures of image configs (GOARCH) to those of ELF files.
var Machines = map[string]Arch{
	"amd64": {elf.EM_X86_64, elf.ELFCLASS64}, "arm64": {elf.EM_AARCH64, elf.ELFCLASS64}, "386": {elf.EM_386, elf.ELFCLASS32},
	"arm": {elf.EM_ARM, elf.ELFCLASS32}, "ppc64le": {elf.EM_PPC64, elf.ELFCLASS64}, "s390x": {elf.EM_S390, elf.ELFCLASS64},
	"riscv64": {elf.EM_RISCV, elf.ELFCLASS64},
}

// NameOf returns the architecture of image configs (GOARCH) for a machine, or the name
// that package elf has for it.
func NameOf(m elf.Machine) string {
	for name, known := range Machines {
		if known.Machine == m {
			return name
		}
	}
	return m.String()
}

// architecture returns the architecture of the config, or without one that of most ELF
// files of the image.
func (fi *Files) architecture() Arch {
	if c := fi.img.Config; c != nil {
		if a, ok := Machines[c.Architecture]; ok {
			return a
		}
	}
	count := map[Arch]int{}
	best := Arch{elf.EM_X86_64, elf.ELFCLASS64}
	for e := range fi.img.FS.All() {
		if e.Object == nil {
			continue
		}
		a := Arch{e.Object.Machine, e.Object.Class()}
		count[a]++
		if count[a] > count[best] || count[a] == count[best] && a.Machine < best.Machine {
			best = a
		}
	}
	return best
}

// OtherMachine returns the architecture of an ELF file, or "" if it is the image's or
// there is no such file.
func (fi *Files) OtherMachine(file string) string {
	e, _, ok := fi.img.FS.Lookup(file)
	if !path.IsAbs(file) || !ok || e.Object == nil || e.Object.Machine == fi.Machine {
		return ""
	}
	return NameOf(e.Object.Machine)
}

// OnJetson reports whether an image is for JetPack 4, whose container runtime mounts CUDA
// over empty files (https://github.com/dusty-nv/jetson-inference/issues/1733).
func (fi *Files) OnJetson() bool {
	if fi.Machine != elf.EM_AARCH64 {
		return false
	}
	e, _, ok := fi.img.FS.Lookup("/usr/lib/aarch64-linux-gnu/tegra")
	return ok && e.IsDir()
}
