package lint

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// TestNewer: versions are compared number by number; each pair is older and newer.
func TestNewer(t *testing.T) {
	p := packs(t)
	for _, pair := range [][2]string{
		{"GLIBC_2.2.5", "GLIBC_2.34"},
		{"GLIBC_2.4", "GLIBC_2.34"},
		{"GLIBC_2.9", "GLIBC_2.10"},
		{"GLIBC_2.34", "GLIBC_ABI_DT_RELR"}, // 2.36
		{"GLIBC_ABI_DT_RELR", "GLIBC_2.38"},
		{"GLIBC_2.41", "GLIBC_ABI_GNU2_TLS"}, // 2.42
		{"GLIBC_PRIVATE", "GLIBC_2.2.5"},
		{"GLIBCXX_3.4", "GLIBCXX_3.4.9"},
		{"GLIBCXX_3.4.9", "GLIBCXX_3.4.30"},
		{"CXXABI_1.3.15", "CXXABI_1.4"},
		{"CXXABI_FLOAT128", "CXXABI_1.3"},
		{"GCC_4.2.0", "GCC_12.0.0"},
		{"GOMP_4.5", "GOMP_5.0.1"},
		{"OMP_4.5", "OMP_5.0"},
		{"LIBJPEG_6.2", "LIBJPEG_8.0"},
		{"OPENSSL_1_1_1", "OPENSSL_1_1_1d"},
		{"OPENSSL_1_1_1d", "OPENSSL_3.0.0"},
		{"CURL_OPENSSL_3", "CURL_OPENSSL_4"},
		{"NCURSES6_TINFO_5.0.19991023", "NCURSES6_TINFO_6.1.20190803"},
		{"X_1.99999999999999999999998", "X_1.99999999999999999999999"},
	} {
		if !p.newer(pair[1], pair[0]) || p.newer(pair[0], pair[1]) {
			t.Errorf("%s is not newer than %s", pair[1], pair[0])
		}
	}
}

// TestNewerAgrees with the numbers that the names were made of.
func TestNewerAgrees(t *testing.T) {
	p := packs(t)
	random := rand.New(rand.NewPCG(1, 2))
	name := func() (string, []int) {
		var numbers []int
		var text []string
		for range 1 + random.IntN(4) {
			n := random.IntN([]int{3, 12, 4000}[random.IntN(3)])
			numbers, text = append(numbers, n), append(text, fmt.Sprint(n))
		}
		return "GLIBCXX_" + strings.Join(text, "."), numbers
	}
	for range 20_000 {
		a, x := name()
		b, y := name()
		if got, want := p.newer(a, b), slices.Compare(x, y) > 0; got != want {
			t.Fatalf("newer(%s, %s) is %v", a, b, got)
		}
	}
}

// TestNewerIsAnOrder of any names: of two different ones one is newer, and sorting
// gives one result whatever came first.
func TestNewerIsAnOrder(t *testing.T) {
	p := packs(t)
	random := rand.New(rand.NewPCG(3, 4))
	parts := []string{"GLIBC", "_", "2", "10", "02", ".", "PRIVATE", "ABI_DT_RELR", "x", "9", "_", ".", "1d"}
	var names []string
	for range 300 {
		var b strings.Builder
		for range 1 + random.IntN(7) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		names = append(names, b.String())
	}
	slices.Sort(names)
	names = slices.Compact(names)
	order := func(a, b string) int {
		switch {
		case p.newer(a, b):
			return 1
		case p.newer(b, a):
			return -1
		}
		return 0
	}
	for _, a := range names {
		for _, b := range names {
			if order(a, b) != -order(b, a) || (order(a, b) == 0) != (a == b) {
				t.Fatalf("%q and %q: %d, %d", a, b, order(a, b), order(b, a))
			}
		}
	}
	sorted := slices.SortedFunc(slices.Values(names), order)
	for i, a := range sorted { // transitive: the order holds for those that are no neighbours
		for _, b := range sorted[i+1:] {
			if order(a, b) >= 0 {
				t.Fatalf("%q comes before %q, and is not older", a, b)
			}
		}
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if again := slices.SortedFunc(slices.Values(names), order); slices.CompareFunc(again, sorted, cmp.Compare[string]) != 0 {
		t.Error("the result hangs on what came first")
	}
}

// TestVersionAdvice is what is said where a version is missing.
func TestVersionAdvice(t *testing.T) {
	p := packs(t)
	for name, want := range map[string]string{
		"GLIBC_2.38":              "glibc 2.38 or later",
		"GLIBC_ABI_DT_RELR":       "glibc 2.36 or later",
		"GLIBC_ABI_DT_X86_64_PLT": "glibc 2.42 or later (Debian 13's 2.41 has GLIBC_ABI_DT_X86_64_PLT as well",
		"GLIBC_PRIVATE":           "the image's own build of glibc",
		"GLIBCXX_3.4.32":          "newer libstdc++.so.6",
		"LIBJPEG_8.0":             "a release of libx.so.1 that has the version LIBJPEG_8.0",
	} {
		f := (&world{packs: p, img: textImage(t, "-- 0/a --\n", false)}).versionFinding(&cause{first: versionError(name), severity: Error})
		if len(f.Fixes) != 1 || !strings.Contains(f.Fixes[0], want) || strings.Contains(f.Fixes[0], "{") {
			t.Errorf("%s: %q, want %q", name, f.Fixes, want)
		}
	}
}

func versionError(version string) *elfdeps.Error {
	return &elfdeps.Error{Kind: elfdeps.VersionError, Name: version, Subject: "/lib/libx.so.1"}
}
