package elfdeps

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

func sassOf(arch uint32, count uint32) gpucode.Entry {
	return gpucode.Entry{Kind: gpucode.SASS, Arch: arch, Count: count}
}

// TestGPU reads code in each section, also far behind the start of the file, with and
// without a reader that can skip.
func TestGPU(t *testing.T) {
	for _, place := range []string{"", "pad 30MiB\n", "pad 17MiB\ngap 2MiB\n"} {
		file := parseELF(t, "elf x86_64 soname=a tables=end\nneeded b\nundef dlopen\nrodata \"\\x00libx.so.1\\x00\"\n"+place+`
gpu count=3 sm_75 sm_90a/zstd compute_90@8.4/zstd
gpu count=2 sm_75
gpu section=__nv_relfatbin sm_100f lto_80
gpu section=.rodata sm_52
gpu section=.ldata count=100 sm_80 sm_80
`).Bytes()
		for name, r := range map[string]io.Reader{"skipping": bufio.NewReader(bytes.NewReader(file)), "reading": readOnly{bytes.NewReader(file)}} {
			o, err := ReadSymbols(r, int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			want := &gpucode.Code{Groups: []gpucode.Group{
				{Section: ".ldata", Containers: 100, Bytes: 100 * 5272, Entries: []gpucode.Entry{sassOf(80, 2)}, Payloads: []int64{100 * 2 * 2560}},
				{Section: ".nv_fatbin", Containers: 3, Bytes: 3 * 3304, Entries: []gpucode.Entry{
					{Kind: gpucode.PTX, Arch: 90, Flags: gpucode.Zstd, ISA: 8<<8 | 4, Count: 1},
					sassOf(75, 1),
					{Kind: gpucode.SASS, Arch: 90, Flags: gpucode.Zstd | gpucode.Specific, Count: 1},
				}, Payloads: []int64{3 * 256, 3 * 2560, 3 * 256}},
				{Section: ".nv_fatbin", Containers: 2, Bytes: 2 * 2640, Entries: []gpucode.Entry{sassOf(75, 1)}, Payloads: []int64{2 * 2560}},
				{Section: ".rodata", Containers: 1, Bytes: 2640, Entries: []gpucode.Entry{sassOf(52, 1)}, Payloads: []int64{2560}},
				{Section: "__nv_relfatbin", Containers: 1, Bytes: 5272, Entries: []gpucode.Entry{
					{Kind: gpucode.SASS, Arch: 100, Flags: gpucode.Family | gpucode.Mercury, Count: 1},
					{Kind: gpucode.IR, Arch: 80, Count: 1},
				}, Payloads: []int64{2560, 2560}},
			}}
			if diff := cmp.Diff(want, o.GPU); diff != "" {
				t.Errorf("%q, %s: -want +got:\n%s", place, name, diff)
			}
			if o.Soname != "a" || o.Needed[0] != "b" || len(o.Named.Names) != 1 || len(o.Unread) > 0 {
				t.Errorf("%q, %s: the rest is now %+v", place, name, o)
			}
		}
	}
}

type readOnly struct{ io.Reader }

// TestGPUNames reads the names of sections that lie megabytes before the section headers, as
// lld writes a file that has its symbols.
func TestGPUNames(t *testing.T) {
	file := parseELF(t, "elf x86_64 soname=a tables=end\npad 30MiB\ngpu sm_75\ngpu section=__nv_relfatbin sm_80\n").Bytes()
	le := binary.LittleEndian
	headers := file[le.Uint64(file[40:]):]
	n, index := int(le.Uint16(file[60:])), int(le.Uint16(file[62:]))
	headers = slices.Clone(headers[:64*n])
	names := headers[64*index:]
	text := file[le.Uint64(names[24:]):][:le.Uint64(names[32:])]
	le.PutUint64(names[24:], uint64(len(file)))
	moved := slices.Concat(file, text, bytes.Repeat([]byte("symbol\x00"), 1<<20))
	clear(moved[le.Uint64(file[40:]):len(file)])
	le.PutUint64(moved[40:], uint64(len(moved)))
	moved = append(moved, headers...)
	for name, r := range map[string]io.Reader{"skipping": bufio.NewReader(bytes.NewReader(moved)), "reading": readOnly{bytes.NewReader(moved)}} {
		o, err := ReadSymbols(r, int64(len(moved)))
		if err != nil || o.GPU == nil {
			t.Fatal(o, err)
		}
		var got []string
		for _, g := range o.GPU.Groups {
			got = append(got, g.Section)
		}
		if want := []string{".nv_fatbin", "__nv_relfatbin"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestGPUWithoutSections: without section headers the code is there, and its place is not
// known.
func TestGPUWithoutSections(t *testing.T) {
	file := parseELF(t, "elf x86_64 soname=a nosections\ngpu sm_75\n").Bytes()
	o, err := ReadSymbols(bytes.NewReader(file), int64(len(file)))
	if err != nil || o.GPU == nil || len(o.GPU.Groups) != 1 || o.GPU.Groups[0].Section != "" {
		t.Errorf("got %+v, %v", o.GPU, err)
	}
}

// TestCubin reads the architecture of the headers of two ABIs.
func TestCubin(t *testing.T) {
	for _, tt := range []struct {
		abi   byte
		flags uint32
		name  string
	}{{7, 0x460546, "70"}, {7, 0x5a0d5a, "90a"}, {8, 0x6004b04, "75"}, {8, 0x6006402, "100"}} {
		file := make([]byte, 64)
		copy(file, "\x7fELF\x02\x01\x01\x33")
		file[8], file[16], file[18] = tt.abi, 1, 190
		file[48], file[49], file[50], file[51] = byte(tt.flags), byte(tt.flags>>8), byte(tt.flags>>16), byte(tt.flags>>24)
		o, err := ReadSymbols(bytes.NewReader(file), int64(len(file)))
		if err != nil || o.GPU == nil || o.GPU.Form != gpucode.Cubin || o.GPU.Groups[0].Entries[0].Name() != tt.name {
			t.Errorf("ABI %d, flags %#x: got %+v, %v", tt.abi, tt.flags, o.GPU, err)
		}
	}
}
