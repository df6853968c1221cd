package version

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/tooltest"
)

func compareNames(a, b string) int { return ParseSymbol(a).Compare(ParseSymbol(b)) }

// TestSymbols has pairs of an older and a newer name. TrimLeft(name, "GLIBCX_") is no
// way to a number, and 2.2.5 is longer than 2.34 and older.
func TestSymbols(t *testing.T) {
	for _, pair := range [][2]string{
		{"GLIBC_2.2.5", "GLIBC_2.34"},
		{"GLIBC_2.4", "GLIBC_2.34"},
		{"GLIBC_2.9", "GLIBC_2.10"},
		{"GLIBC_PRIVATE", "GLIBC_2.2.5"},
		{"GLIBC_ABI_DT_RELR", "GLIBC_2.2.5"}, // without a number of its own
		{"GLIBCXX_3.4", "GLIBCXX_3.4.9"},
		{"GLIBCXX_3.4.9", "GLIBCXX_3.4.30"},
		{"GLIBCXX_LDBL_3.4", "GLIBCXX_LDBL_3.4.31"},
		{"CXXABI_1.3.15", "CXXABI_1.4"},
		{"CXXABI_FLOAT128", "CXXABI_1.3"},
		{"GCC_4.2.0", "GCC_12.0.0"},
		{"GOMP_4.5", "GOMP_5.0.1"},
		{"LIBJPEG_6.2", "LIBJPEG_8.0"},
		{"OPENSSL_1_1_1", "OPENSSL_1_1_1d"},
		{"OPENSSL_1_1_1d", "OPENSSL_3.0.0"},
		{"CURL_OPENSSL_3", "CURL_OPENSSL_4"},
		{"NCURSES6_TINFO_5.0.19991023", "NCURSES6_TINFO_6.1.20190803"},
		{"X_1.99999999999999999999998", "X_1.99999999999999999999999"},
	} {
		if compareNames(pair[0], pair[1]) >= 0 || compareNames(pair[1], pair[0]) <= 0 {
			t.Errorf("%s is not newer than %s", pair[1], pair[0])
		}
	}
	for name, want := range map[string]string{
		"GLIBC_2.34": "2.34", "GLIBCXX_3.4.30": "3.4.30", "CXXABI_LDBL_1.3": "1.3", "OPENSSL_1_1_1d": "1_1_1d", "CXXABI_TM_1": "1",
		"GLIBC_ABI_DT_RELR": "", "GLIBC_ABI_DT_X86_64_PLT": "", "GLIBC_PRIVATE": "", "": "", "_": "", "3.4": "3.4",
	} {
		if got := ParseSymbol(name).Number; got != want {
			t.Errorf("the number of %q is %q, want %q", name, got, want)
		}
	}
}

// TestSymbolsOfLibraries: a version of a real library is newer than the versions that it
// inherits from (Verdaux).
func TestSymbolsOfLibraries(t *testing.T) {
	gcc := tooltest.Need(t, "gcc", "gcc")
	for library, least := range map[string]int{"libc.so.6": 20, "libm.so.6": 10, "libstdc++.so.6": 30, "libgcc_s.so.1": 8, "libgomp.so.1": 15} {
		file := strings.TrimSpace(tooltest.Output(t, gcc, "-print-file-name="+library))
		f, err := elf.Open(file)
		if err != nil {
			t.Fatalf("%v: install Debian's package gcc", err)
		}
		versions, err := f.DynamicVersions()
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		compared := 0
		for _, v := range versions {
			for _, parent := range v.Deps {
				if ParseSymbol(v.Name).Number == "" {
					continue // GLIBC_ABI_DT_RELR inherits from the release that brought it
				}
				compared++
				if compareNames(v.Name, parent) <= 0 {
					t.Errorf("%s: %s is not newer than %s, from which it inherits", library, v.Name, parent)
				}
			}
		}
		if compared < least {
			t.Errorf("%s has only %d versions that inherit from others", file, compared)
		}
	}
}

// TestSymbolsAgree with the numbers that the names are made of.
func TestSymbolsAgree(t *testing.T) {
	r := newRandom(6)
	name := func() (string, []int) {
		var numbers []int
		var text []string
		for range 1 + r.IntN(4) {
			n := r.IntN([]int{3, 12, 4000}[r.IntN(3)])
			numbers, text = append(numbers, n), append(text, fmt.Sprint(n))
		}
		return "GLIBCXX_" + strings.Join(text, "."), numbers
	}
	for range 20_000 {
		a, x := name()
		b, y := name()
		if got, want := sign(compareNames(a, b)), slices.Compare(x, y); got != want {
			t.Fatalf("%s against %s is %d", a, b, got)
		}
	}
}

// TestSymbolsAreOrdered: the order is total for any names and numbers, so that the same
// symbols are always sorted to the same list.
func TestSymbolsAreOrdered(t *testing.T) {
	r := newRandom(7)
	parts := []string{"GLIBC", "_", "2", "10", "02", ".", "PRIVATE", "ABI_DT_RELR", "x", "9", "_", ".", "1d"}
	var list []Symbol
	for range 300 {
		var b strings.Builder
		for range 1 + r.IntN(7) {
			b.WriteString(r.of(parts...))
		}
		s := ParseSymbol(b.String())
		if r.IntN(4) == 0 {
			s.Number = r.numbers()
		}
		list = append(list, s)
	}
	checkOrder(t, list, Symbol.Compare)
	sorted := slices.SortedFunc(slices.Values(list), Symbol.Compare)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if again := slices.SortedFunc(slices.Values(list), Symbol.Compare); !slices.Equal(again, sorted) {
		t.Error("the sorted list depends on the order before")
	}
}

// TestBuildsAgree with Python's packaging, which reads a build tag from a wheel's name.
func TestBuildsAgree(t *testing.T) {
	list := []string{"", "0", "1", "01", "1a", "2", "10", "10b", "9z", "1abc", "99999999999999999999", "100000000000000000000"}
	var pairs [][]string
	for _, a := range list {
		for _, b := range list {
			pairs = append(pairs, []string{a, b})
		}
	}
	answers := python(t, `
import sys
from packaging.utils import parse_wheel_filename
def build(tag):
    return parse_wheel_filename("a-1-" + (tag + "-" if tag else "") + "py3-none-any.whl")[2]
for line in sys.stdin:
    a, b = map(build, line.rstrip("\n").split("\t"))
    print((a > b) - (a < b))
`, pairs)
	for i, want := range answers {
		if got := fmt.Sprint(sign(CompareBuilds(pairs[i][0], pairs[i][1]))); got != want {
			t.Errorf("%q against %q is %s, and packaging's %s", pairs[i][0], pairs[i][1], got, want)
		}
	}
}

// FuzzSymbol states that of two different names one is newer, and that a number is the
// end of its name.
func FuzzSymbol(f *testing.F) {
	f.Add("GLIBC_2.34", "GLIBC_ABI_DT_RELR")
	f.Add("OPENSSL_1_1_1d", "OPENSSL_1_1_1")
	f.Add("_1.", "_01.")
	f.Fuzz(func(t *testing.T, a, b string) {
		if c := compareNames(a, b); sign(c) != -sign(compareNames(b, a)) || (c == 0) != (a == b) {
			t.Errorf("%q against %q is %d, the other way round %d", a, b, c, compareNames(b, a))
		}
		if s := ParseSymbol(a); !strings.HasSuffix(a, s.Number) || s.Name != a {
			t.Errorf("%q is %+v", a, s)
		}
	})
}
