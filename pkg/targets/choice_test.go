package targets

import (
	"slices"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

func sass(arch uint32, flags gpucode.Flags) gpucode.Entry {
	return gpucode.Entry{Kind: gpucode.SASS, Arch: arch, Flags: flags, Count: 1}
}

func ptx(arch uint32, flags gpucode.Flags) gpucode.Entry {
	return gpucode.Entry{Kind: gpucode.PTX, Arch: arch, Flags: flags, Count: 1}
}

// TestChoose compares the choices with those of a driver for a GPU of architecture 90 (the
// first cases), and with NVIDIA's guides.
func TestChoose(t *testing.T) {
	const a, f = gpucode.Specific, gpucode.Family
	for _, tt := range []struct {
		arch    uint32
		entries []gpucode.Entry
		use     Use
		taken   string
	}{
		{90, []gpucode.Entry{sass(75, 0)}, None, ""},
		{90, []gpucode.Entry{sass(80, 0), sass(100, 0), sass(100, a), sass(100, f), sass(103, 0), sass(110, f), sass(120, 0), sass(121, 0)}, None, ""},
		{90, []gpucode.Entry{sass(90, 0)}, Runs, "90"},
		{90, []gpucode.Entry{sass(90, a)}, Runs, "90a"},
		{90, []gpucode.Entry{ptx(75, 0)}, Compiles, "75"},
		{90, []gpucode.Entry{ptx(90, a)}, Compiles, "90a"},
		{90, []gpucode.Entry{sass(80, 0), ptx(75, 0)}, Compiles, "75"},
		{90, []gpucode.Entry{ptx(100, 0), ptx(100, f), ptx(120, 0)}, None, ""},
		{89, []gpucode.Entry{sass(80, 0), sass(86, 0), sass(90, 0)}, Runs, "86"},
		{80, []gpucode.Entry{sass(86, 0), ptx(80, 0)}, Compiles, "80"},
		{103, []gpucode.Entry{sass(100, f)}, Runs, "100f"},
		{103, []gpucode.Entry{sass(100, a)}, None, ""},
		{120, []gpucode.Entry{sass(100, f), ptx(100, f)}, None, ""},
		{121, []gpucode.Entry{sass(120, 0)}, Runs, "120"},
		{121, []gpucode.Entry{sass(120, gpucode.Unsure)}, Doubtful, "120"},
		{87, []gpucode.Entry{sass(80, 0), ptx(80, 0)}, Doubtful, "80"},
		{89, []gpucode.Entry{sass(87, 0), ptx(70, 0)}, Compiles, "70"},
		{89, []gpucode.Entry{sass(87, 0)}, Doubtful, "87"},
		{89, []gpucode.Entry{sass(86, 0), sass(87, 0)}, Runs, "86"},
		{87, []gpucode.Entry{sass(80, 0), sass(87, 0)}, Runs, "87"},
		{90, []gpucode.Entry{{Kind: gpucode.IR, Arch: 90, Count: 1}}, None, ""},
		{90, nil, None, ""},
	} {
		got := Known().Choose(tt.entries, tt.arch)
		name := ""
		if got.Use != None {
			name = got.Entry.Name()
		}
		if got.Use != tt.use || name != tt.taken {
			t.Errorf("%v on %d: got %v of %q, want %v of %q", tt.entries, tt.arch, got.Use, name, tt.use, tt.taken)
		}
	}
}

func TestPTXDriver(t *testing.T) {
	for _, tt := range []struct {
		isa    gpucode.ISA
		driver int
		ok     bool
	}{{6<<8 | 3, 450, true}, {7<<8 | 8, 520, true}, {8<<8 | 4, 550, true}, {8<<8 | 6, 565, true}, {9 << 8, 580, true}, {9<<8 | 9, 0, false}} {
		if driver, ok := Known().PTXDriver(tt.isa); driver != tt.driver || ok != tt.ok {
			t.Errorf("PTX %s: got %d, %v", tt.isa, driver, ok)
		}
	}
}

// TestNeeded keeps for each GPU the entries that a driver takes, and all that are no code of a
// known kind.
func TestNeeded(t *testing.T) {
	all := []gpucode.Entry{
		sass(80, 0), sass(86, 0), sass(90, 0), sass(90, gpucode.Specific), sass(120, 0),
		ptx(75, 0), ptx(90, gpucode.Specific), ptx(120, 0),
		{Kind: gpucode.IR, Arch: 75, Count: 1},
		{Kind: 0x40, Arch: 75, Count: 1},
		sass(87, 0),
	}
	for _, tt := range []struct {
		archs []uint32
		want  string // 1 for an entry that stays
	}{
		{nil, "00000000110"},
		{[]uint32{80}, "10000000110"},
		{[]uint32{89}, "01000000111"}, // code for a Jetson perhaps runs there
		{[]uint32{90}, "00110000110"},
		{[]uint32{75}, "00000100110"},
		{[]uint32{100}, "00000100110"}, // PTX for 75; that for 90a is not for it
		{[]uint32{121}, "00001000110"},
		{[]uint32{80, 120}, "10001000110"},
	} {
		got := ""
		for _, kept := range Known().Needed(all, tt.archs) {
			if kept {
				got += "1"
			} else {
				got += "0"
			}
		}
		if got != tt.want {
			t.Errorf("%v keeps %s, want %s", tt.archs, got, tt.want)
		}
		marked := slices.Clone(all)
		for i := range marked {
			if got[i] == '0' {
				marked[i].Arch += gpucode.Stripped
			}
		}
		for _, arch := range tt.archs {
			if a, b := Known().Choose(all, arch), Known().Choose(marked, arch); a != b {
				t.Errorf("sm_%d gets %+v, and %+v after the others are stripped", arch, a, b)
			}
		}
	}
}
