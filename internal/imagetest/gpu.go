package imagetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Fatbin is a number of equal containers of GPU code. Their payloads are zeros.
type Fatbin struct {
	Section string // of an ELF file
	Count   int
	Entries []GPUEntry
	Cut     bool // the container says that it is longer than it is
	Empty   bool // its entries have no kernel
}

// GPUEntry is one entry of a container.
type GPUEntry struct {
	Kind         uint16 // 1 PTX, 2 SASS, 8 LTO IR
	Arch         uint32 // 90 for sm_90
	Flags        uint64
	Major, Minor uint16 // of the PTX ISA
}

const (
	maxFatbins = 1 << 16 // containers of one line
	gpuPayload = 2560    // bytes of an entry's payload: a cubin without a kernel has fewer
	gpuEmpty   = 872     // those of a cubin without a kernel
	gpuPacked  = 256     // those of an entry that is compressed
)

// gpuKinds are the kinds of entries by what their names begin with.
var gpuKinds = map[string]uint16{"sm": 2, "compute": 1, "lto": 8}

// ParseFatbin reads [section=NAME] [count=N] [cut] [empty] ENTRY ..., where an entry is sm_75, sm_90a,
// sm_100f, compute_90@8.4 with its PTX ISA (8.0 if it is left out) or lto_75; with /zstd
// or /lz4 it is compressed.
func ParseFatbin(arg string) (Fatbin, error) {
	f := Fatbin{Section: ".nv_fatbin", Count: 1}
	for _, word := range strings.Fields(arg) {
		key, value, ok := strings.Cut(word, "=")
		var err error
		switch {
		case key == "section" && ok:
			f.Section = value
		case word == "cut":
			f.Cut = true
		case word == "empty":
			f.Empty = true
		case key == "count" && ok:
			if f.Count, err = strconv.Atoi(value); err == nil && (f.Count < 1 || f.Count > maxFatbins) {
				err = fmt.Errorf("want a number from 1 to %d", maxFatbins)
			}
		default:
			var e GPUEntry
			e, err = parseGPUEntry(word)
			f.Entries = append(f.Entries, e)
		}
		if err != nil {
			return f, fmt.Errorf("%q: %w", word, err)
		}
	}
	if len(f.Entries) == 0 {
		return f, fmt.Errorf("want entries like sm_75")
	}
	switch f.Section {
	case ".nv_fatbin", "__nv_relfatbin", ".rodata", ".ldata", ".cask_resource":
		return f, nil
	}
	return f, fmt.Errorf("want the section .nv_fatbin, __nv_relfatbin, .rodata, .ldata or .cask_resource")
}

func parseGPUEntry(word string) (GPUEntry, error) {
	e := GPUEntry{Flags: 0x11, Major: 1, Minor: 7}
	name, compression, _ := strings.Cut(word, "/")
	name, isa, _ := strings.Cut(name, "@")
	prefix, arch, _ := strings.Cut(name, "_")
	kind, ok := gpuKinds[prefix]
	if !ok {
		return e, fmt.Errorf("an entry begins with sm_, compute_ or lto_")
	}
	e.Kind = kind
	if kind == 1 {
		e.Major, e.Minor = 8, 0
	}
	if isa != "" {
		if n, err := fmt.Sscanf(isa, "%d.%d", &e.Major, &e.Minor); n != 2 || err != nil {
			return e, fmt.Errorf("want a PTX ISA like 8.4")
		}
	}
	switch compression {
	case "":
	case "zstd":
		e.Flags |= 0x8000
	case "lz4":
		e.Flags |= 0x2000
	default:
		return e, fmt.Errorf("want /zstd or /lz4")
	}
	digits := strings.TrimRight(arch, "af")
	switch arch[len(digits):] {
	case "":
	case "a":
		e.Flags |= 0x100000
	case "f":
		e.Flags |= 0x200000
	default:
		return e, fmt.Errorf("want an architecture like 90, 90a or 100f")
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return e, err
	}
	e.Arch = uint32(n)
	if kind == 2 && n >= 100 {
		e.Flags |= 0x1000000
		e.Minor = 8
	}
	return e, nil
}

// Bytes returns the containers.
func (f Fatbin) Bytes() []byte {
	le := binary.LittleEndian
	var entries []byte
	for i, e := range f.Entries {
		payload := gpuPayload
		switch {
		case e.Flags&0xa000 != 0:
			payload = gpuPacked
		case f.Empty:
			payload = gpuEmpty
		}
		b := make([]byte, 64+8*(i%3)+payload) // headers have several lengths
		le.PutUint16(b, e.Kind)
		le.PutUint16(b[2:], 0x0101)
		le.PutUint32(b[4:], uint32(len(b)-payload))
		le.PutUint32(b[8:], uint32(payload))
		le.PutUint16(b[24:], e.Minor)
		le.PutUint16(b[26:], e.Major)
		le.PutUint32(b[28:], e.Arch)
		le.PutUint64(b[40:], e.Flags)
		if e.Flags&0xa000 != 0 {
			le.PutUint32(b[16:], uint32(payload-3))
			le.PutUint64(b[56:], uint64(4*payload))
		}
		entries = append(entries, b...)
	}
	one := le.AppendUint32(nil, 0xba55ed50)
	one = le.AppendUint16(one, 1)
	one = le.AppendUint16(one, 16)
	size := uint64(len(entries))
	if f.Cut {
		size += 8 * gpuPayload
	}
	one = le.AppendUint64(one, size)
	one = append(one, entries...)
	return bytes.Repeat(one, f.Count)
}

func (e *ELF) parseGPU(arg string) error {
	f, err := ParseFatbin(arg)
	e.GPU = append(e.GPU, f)
	return err
}

// addGPU adds the containers that lie in a read-only segment, or those in the writable
// one.
func (o *object) addGPU(segment *[]*section, writable bool) {
	parts := map[string][]Fatbin{} // by section
	for _, f := range o.e.GPU {
		if (f.Section == ".ldata") != writable {
			continue
		}
		if o.byName[f.Section] == nil {
			s := section{name: f.Section, align: 8}
			if writable {
				s.flags = 1 // SHF_WRITE
			}
			o.add(segment, s)
		}
		parts[f.Section] = append(parts[f.Section], f)
	}
	for name, list := range parts {
		s := o.byName[name]
		s.data, s.align = joined(s.data, list), max(s.align, 8)
	}
}

// joined returns data with containers behind it, each at a multiple of 8.
func joined(data []byte, list []Fatbin) []byte {
	all, size := [][]byte{data}, len(data)
	for _, f := range list {
		b := f.Bytes()
		all, size = append(all, b), size+8+len(b)
	}
	out := make([]byte, 0, size)
	for _, b := range all {
		out = append(pad(out, 8), b...)
	}
	return out
}

// fatbin makes a file of containers, one line each.
func (f *File) fatbin(rest, body string) error {
	var all []byte
	for _, line := range append([]string{rest}, strings.Split(body, "\n")...) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		c, err := ParseFatbin(line)
		if err != nil {
			return err
		}
		all = append(all, c.Bytes()...)
	}
	f.setData(string(all[:max(0, len(all)-f.short)]))
	return nil
}
