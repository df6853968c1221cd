package size

import (
	"slices"
	"strings"
	"testing"
)

// TestNamer finds the names of libraries as texts have them and as compilers put them into programs, and no others. The code is that of
// g++ 12 with -O3.
func TestNamer(t *testing.T) {
	d := &debs{byFile: map[string][]int{"libcublas.so.11": {0}, "libcublas.so.11.11.3.6": {0}, "libnppig.so.11": {1}, "libnccl.so.2": {2}, "libnvrtc-builtins.so.11.8": {3}}}
	const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00"
	for name, tt := range map[string]struct {
		text string
		want []int
	}{
		"a name":             {"x = libcublas.so.11", []int{0}},
		"its whole release":  {"libcublas.so.11.11.3.6", []int{0}},
		"another release":    {"libcublas.so.12", nil},
		"any release":        {"libcublas.so", []int{0}},
		"without lib":        {`find_library("cublas")`, []int{0}},
		"a linker's":         {"-lnppig", []int{1}},
		"in capitals":        {"NCCL", []int{2}},
		"a part of a word":   {"mycublas cublas2 subnccl", nil},
		"with a dash":        {"libnvrtc-builtins.so.11.8", []int{3}},
		"a beginning":        {"libnpp%s.so", []int{1}},
		"a shell's pattern":  {"/lib/libcu*.so", []int{0}},
		"a format":           {"libnvrtc-{}.so", []int{3}},
		"in a program":       {zeros + "libcublas.so.11" + zeros, []int{0}},
		"a symbol":           {zeros + "_nccl" + zeros, nil},
		"between texts":      {zeros + "startncclnextcublasend" + zeros, []int{0, 2}},
		"UTF-16":             {zeros + "n\x00c\x00c\x00l\x00" + zeros, []int{2}},
		"eight bytes":        {zeros + "\x48\xb8libcubla\x48\x89\x44\x24\x10s.so.11", []int{0}},
		"four bytes":         {zeros + "\xc7\x44\x24\x50cubl\x48\xc7\x44\x24\x48\x06", []int{0}},
		"four, far":          {zeros + "\xc7\x84\x24\x90\x00\x00\x00nccl\x48\xc7\x84\x24", []int{2}},
		"four of one":        {zeros + "\xc7\x44\x24\x10nppi\x48\x89\xdf", []int{1}},
		"four by a register": {zeros + "\xb8nppi\x89\x45\x10", []int{1}},
		"four of data":       {zeros + "\x11\x22\x33\x44\x55\x66\x77cubl\x88\x99", nil},
	} {
		exact, folded := d.bothNamers()
		n := exact
		if strings.IndexByte(tt.text, 0) < 0 {
			n = folded
		}
		for _, before := range []int{0, nameBuffer + nameAhead - 5, nameBuffer - 5} { // also at the end of a buffer
			pad := strings.Repeat(" ", before)
			if strings.IndexByte(tt.text, 0) >= 0 {
				pad = strings.Repeat("\x00", before)
			}
			var got []int
			if err := n.read(strings.NewReader(pad+tt.text), false, func(i int) { got = append(got, i) }); err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, tt.want) {
				t.Errorf("%s, behind %d bytes: %v, not %v", name, before, got, tt.want)
			}
		}
	}
}
