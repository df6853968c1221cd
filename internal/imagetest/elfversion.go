package imagetest

// versions numbers the symbol versions of an object: 1 is the base, followed by the other definitions and the needs.
type versions struct{ e *ELF }

func newVersions(e *ELF) versions { return versions{e} }

func (v versions) any() bool { return len(v.e.VerDefs) > 0 || len(v.e.VerNeeds) > 0 }

func (v versions) firstNeed() uint16 { return uint16(max(1, len(v.e.VerDefs))) + 1 }

// index returns the DT_VERSYM value of s. It reports false if neither VerDefs nor VerNeeds list its version.
func (v versions) index(s Symbol) (uint16, bool) {
	switch {
	case s.Version == "":
		return 1, true
	case s.Defined:
		return v.definition(s)
	}
	n := v.firstNeed()
	for _, need := range v.e.VerNeeds {
		for _, version := range need.Versions {
			if version.Name == s.Version && (s.From == "" || s.From == need.File) {
				return n, true
			}
			n++
		}
	}
	return 1, false
}

func (v versions) definition(s Symbol) (uint16, bool) {
	for i, name := range v.e.VerDefs {
		if i == 0 || name != s.Version {
			continue
		}
		if s.Hidden {
			return uint16(i+1) | 0x8000, true
		}
		return uint16(i + 1), true
	}
	return 1, false
}

// versym returns the content of .gnu.version.
func (v versions) versym() []byte {
	var w encoder
	w.u16(0)
	for _, s := range v.e.Symbols {
		n, _ := v.index(s)
		w.u16(n)
	}
	return w.b
}

// verdef returns the content of .gnu.version_d: alternating Elf_Verdef and Elf_Verdaux.
func (v versions) verdef(str *strtab) []byte {
	var w encoder
	for i, name := range v.e.VerDefs {
		flags, next := uint16(0), uint32(28)
		if i == 0 {
			flags = 1 // VER_FLG_BASE
		}
		if i == len(v.e.VerDefs)-1 {
			next = 0
		}
		w.u16(1, flags, uint16(i+1), 1)
		w.u32(sysvHash(name), 20, next)
		w.u32(str.add(name), 0)
	}
	return w.b
}

// verneed returns the content of .gnu.version_r: for each library an Elf_Verneed and its Elf_Vernauxes.
func (v versions) verneed(str *strtab) []byte {
	var w encoder
	n := v.firstNeed()
	for i, need := range v.e.VerNeeds {
		next := uint32(16 + 16*len(need.Versions))
		if i == len(v.e.VerNeeds)-1 {
			next = 0
		}
		w.u16(1, uint16(len(need.Versions)))
		w.u32(str.add(need.File), 16, next)
		for j, version := range need.Versions {
			w.vernaux(version, n, j == len(need.Versions)-1, str)
			n++
		}
	}
	return w.b
}

func (w *encoder) vernaux(version Version, index uint16, last bool, str *strtab) {
	flags, next := uint16(0), uint32(16)
	if version.Weak {
		flags = 2 // VER_FLG_WEAK
	}
	if last {
		next = 0
	}
	w.u32(sysvHash(version.Name))
	w.u16(flags, index)
	w.u32(str.add(version.Name), next)
}

// sysvHash returns the System V hash of a symbol or version name.
func sysvHash(name string) uint32 {
	var h uint32
	for _, c := range []byte(name) {
		h = h<<4 + uint32(c)
		g := h & 0xf0000000
		h ^= g >> 24
		h &^= g
	}
	return h
}
