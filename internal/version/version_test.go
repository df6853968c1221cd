package version

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/tooltest"
)

func sign(n int) int { return max(-1, min(1, n)) }

// checkOrder fails if compare is not a total order of list: antisymmetric and
// transitive, and equal to itself. It is quadratic.
func checkOrder[T any](t *testing.T, list []T, compare func(a, b T) int) {
	t.Helper()
	sorted := slices.SortedFunc(slices.Values(list), compare)
	for i, a := range sorted {
		for k, b := range sorted {
			ab, ba := sign(compare(a, b)), sign(compare(b, a))
			if ab != -ba || i == k && ab != 0 {
				t.Fatalf("%v against %v is %d, and the other way round %d", a, b, ab, ba)
			}
			if i < k && ab > 0 { // also for versions that are not neighbours
				t.Fatalf("%v is sorted before %v, and is newer", a, b)
			}
		}
	}
}

// random makes texts that look like versions, or nearly.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 440))} }

func (r random) of(list ...string) string { return list[r.IntN(len(list))] }
func (r random) number() string           { return r.of("0", "1", "2", "10", "01", "70") }

func (r random) numbers() string {
	s := r.number()
	for range r.IntN(4) {
		s += "." + r.number()
	}
	return s
}

func (r random) maybe(s string) string { return r.of("", "", s) }

// public makes a version without a local part.
func (r random) public() string {
	return r.maybe(r.of("1!", "0!")) + r.numbers() +
		r.maybe(r.of("", ".", "-", "_")+r.of("a", "b", "rc", "c", "alpha", "beta", "pre", "preview", "RC")+r.of("", r.number(), "."+r.number())) +
		r.maybe(r.of(".post", "-r", "_rev", ".r")+r.of("", r.number())) + r.maybe(r.of("-1", "-07")) +
		r.maybe(r.of(".dev", "dev", "_DEV")+r.of("", r.number()))
}

func (r random) local() string {
	s := "+" + r.of("cu124", "cpu", "1", "02", "ABC", "abc", "1a")
	for range r.IntN(3) {
		s += r.of(".", "-", "_") + r.of("cu124", "1", "02", "2", "10", "ABC", "abc")
	}
	return s
}

func (r random) version() string {
	return r.of("", "", "", "v", " ") + r.public() + r.maybe(r.local()) + r.of("", "", "", "", "x", " ")
}

// near changes what follows a version.
func (r random) near(s string) string {
	return strings.TrimSpace(s) + r.of("", ".0", "+1", "rc1", ".dev0", ".post0", "-1")
}

func (r random) pairs(n int) [][]string {
	list := make([][]string, n)
	for i := range list {
		a, b := r.version(), r.version()
		if r.IntN(3) == 0 {
			b = r.near(a)
		}
		list[i] = []string{a, b}
	}
	return list
}

// python runs a script over lines of words with Python's packaging, which pip uses, and
// returns a line for each.
func python(t *testing.T, script string, lines [][]string) []string {
	t.Helper()
	const program = "/usr/bin/python3"
	tooltest.Need(t, program, "python3-packaging")
	if out, err := exec.Command(program, "-c", "import packaging").CombinedOutput(); err != nil {
		t.Fatalf("this test needs Debian's package python3-packaging: %s", out)
	}
	var input strings.Builder
	for _, words := range lines {
		fmt.Fprintln(&input, strings.Join(words, "\t"))
	}
	cmd := exec.Command(program, "-c", script)
	cmd.Stdin = strings.NewReader(input.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		list = append(list, s.Text())
	}
	if len(list) != len(lines) {
		t.Fatalf("packaging answers %d of %d lines", len(list), len(lines))
	}
	return list
}

// TestCompareAgrees with Python's packaging.
func TestCompareAgrees(t *testing.T) {
	pairs := newRandom(1).pairs(20_000)
	pairs = append(pairs,
		[]string{"1.0+a-10", "1.0+a.9"}, []string{"1.0+a_b", "1.0+A.B"}, // the separators of local parts
		[]string{"1.2.post1", "1.2-1"}, []string{"v1", "1.0.0"}, []string{"1..2", "1"}, []string{"", "1"}, []string{"1.2+", "1"},
	)
	answers := python(t, `
import sys
from packaging.version import Version
for line in sys.stdin:
    try:
        a, b = map(Version, line.rstrip("\n").split("\t"))
        print((a > b) - (a < b))
    except ValueError:
        print("none")
`, pairs)
	equal := 0
	for i, want := range answers {
		a, errA := Parse(pairs[i][0])
		b, errB := Parse(pairs[i][1])
		got := "none"
		if errA == nil && errB == nil {
			got = fmt.Sprint(sign(a.Compare(b)))
		}
		if got != want {
			t.Errorf("%q against %q is %s, and packaging's %s", pairs[i][0], pairs[i][1], got, want)
		}
		if got == "0" {
			equal++
		}
	}
	if equal < 500 {
		t.Errorf("only %d of the pairs are equal: they show too little", equal)
	}
}

// clause makes a clause, mostly one that PEP 440 allows. With ~= the version is spelled as
// PEP 440 normalizes it: packaging splits other spellings (1.2a.1) at the wrong places.
func (r random) clause(near string) string {
	want := r.of(r.numbers(), r.public(), near)
	switch operator := r.of("==", "!=", "~=", ">=", "<=", ">", "<"); operator {
	case "==", "!=":
		return operator + want + r.of("", "", "", ".*", r.local())
	case "~=":
		if v, err := Parse(want); err == nil {
			want = v.String()
		}
		return operator + want + r.of("", "", "", ".*")
	default:
		return operator + r.of("", " ") + want + r.of("", "", "", "", ".*", r.local())
	}
}

// clauses makes a version and one or two clauses that may be near it. None has an epoch
// beside ~= or ".*", where packaging before 24.0 is wrong.
func (r random) clauses() []string {
	for {
		v := r.public()
		spec := r.clause(v)
		if r.IntN(3) == 0 {
			spec += "," + r.clause(v)
		}
		if strings.Contains(strings.ReplaceAll(v+spec, "!=", ""), "!") && (strings.Contains(spec, "*") || strings.Contains(spec, "~")) {
			continue
		}
		return []string{v + r.maybe(r.local()), spec}
	}
}

// TestAllowAgrees with Python's packaging.
func TestAllowAgrees(t *testing.T) {
	r := newRandom(2)
	var lines [][]string
	for range 20_000 {
		lines = append(lines, r.clauses())
	}
	answers := python(t, `
import sys
from packaging.specifiers import SpecifierSet
from packaging.version import Version
for line in sys.stdin:
    try:
        v, s = line.rstrip("\n").split("\t")
        print(SpecifierSet(s).contains(Version(v), prereleases=True))
    except ValueError:
        print("none")
`, lines)
	count := map[string]int{}
	for i, want := range answers {
		v, s := lines[i][0], lines[i][1]
		got := "none"
		if ok, err := Satisfies(v, s); err == nil {
			got = map[bool]string{true: "True", false: "False"}[ok]
		}
		count[got]++
		if got != want {
			t.Errorf("%q meets %q: %s, and packaging's answer is %s", v, s, got, want)
		}
	}
	for _, answer := range []string{"True", "False", "none"} {
		if count[answer] < 1000 {
			t.Errorf("only %d of the answers are %s", count[answer], answer)
		}
	}
}

func TestSatisfies(t *testing.T) {
	for _, c := range []struct {
		version, specifiers string
		want                bool
	}{
		{"2.6.0", "==2.6.0", true},
		{"2.6.0+cu124", "==2.6.0", true},
		{"2.6", "==2.6.0", true},
		{"2.6.0", "==2.6.0+cu124", false},
		{"2.6.0+cu124", "==2.6.0+cu124", true},
		{"2.6.1", "==2.6.*", true},
		{"2.60", "==2.6.*", false},
		{"2", "==2.0.*", true},
		{"2.7", "!=2.6.*", true},
		{"3.0", ">=2,<3", false},
		{"3.0rc1", "<3", false},
		{"2.9.1", ">=2,<3", true},
		{"9.1.0.70", "==9.1.0.70", true},
		{"9.10.2.21", ">=9.8", true},
		{"9.8", ">9.8", false},
		{"9.8.post1", ">9.8", false},
		{"9.8.1", ">9.8", true},
		{"2.4.5", "~=2.4.1", true},
		{"2.5", "~=2.4.1", false},
		{"2.5", "~=2.4", true},
		{"3", "~=2.4", false},
		{"1.0", "===1.0", true},
		{"1.0+a-b", "===1.0+A-B", true},
		{"1!2.0", "==2.0", false},
		{"1!2.0", "==1!2.*", true},
		{"1!2.0", "==2.*", false},
		{"1!2.5", "~=2.4", false},
		{"2.0.0a1", "==2.0.*", true},
		{"1.0", "", true},
		{"0.21.0", "==0.21.0,!=0.21.1", true},
	} {
		got, err := Satisfies(c.version, c.specifiers)
		if err != nil || got != c.want {
			t.Errorf("Satisfies(%q, %q) = %v, %v", c.version, c.specifiers, got, err)
		}
	}
	for _, bad := range [][2]string{{"x", "==1"}, {"1", "1"}, {"1", "=>1"}, {"1", "~=1"}, {"1", ">=1.*"}, {"1", "==" + strings.Repeat("9", 30)}} {
		if ok, err := Satisfies(bad[0], bad[1]); err == nil || ok {
			t.Errorf("Satisfies(%q, %q) = %v, no error", bad[0], bad[1], ok)
		}
	}
}

// TestVersions orders versions that are not random, among them NVIDIA's.
func TestVersions(t *testing.T) {
	order := []string{"8.9.2.26", "9.dev1", "9a1", "9rc1", "9", "9+local", "9.post1", "9.0.1", "9.1", "9.1.0.70", "9.10.2.21", "1!1"}
	for i, a := range order {
		for k, b := range order {
			v, errA := Parse(a)
			w, errB := Parse(b)
			if errA != nil || errB != nil || sign(v.Compare(w)) != sign(i-k) || sign(Compare(a, b)) != sign(i-k) {
				t.Errorf("%s against %s: %d, %v, %v", a, b, v.Compare(w), errA, errB)
			}
		}
	}
	for _, bad := range []string{"", "x", "1.2.", "1.poſt1", strings.Repeat("9", 16), strings.Repeat("1.", 200) + "1"} {
		if v, err := Parse(bad); err == nil {
			t.Errorf("%q is the version %s", bad, v)
		}
	}
}

// TestCompareIsAnOrder of all texts.
func TestCompareIsAnOrder(t *testing.T) {
	r := newRandom(3)
	list := []string{"", "x", "1..2", "\xff"}
	for range 60 {
		v := r.version()
		list = append(list, v, r.near(v))
	}
	slices.Sort(list)
	list = slices.Compact(list)
	checkOrder(t, list, Compare)
	checkOrder(t, list, func(a, b string) int { return compareParts(a, b) })
	for i, a := range list {
		if i > 0 && Compare(list[i-1], a) == 0 {
			t.Errorf("%q and %q are the same", list[i-1], a)
		}
	}
}

// FuzzVersion states that comparing the other way round gives the opposite, that ==, !=,
// >= and <= agree with the order, and that a version reads back from its own text.
func FuzzVersion(f *testing.F) {
	for _, v := range [][2]string{{"1", "1.0"}, {"9.1.0.70", "9.10.2.21"}, {"2.6.0+cu124", "2.6.0"}, {"1!2.0.post1", "2.0.dev3"}, {"1a1", "1rc2"}, {"x", "1.*"}, {"1+a-1", "1+a.1"}} {
		f.Add(v[0], v[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if sign(Compare(a, b)) != -sign(Compare(b, a)) || (Compare(a, b) == 0) != (a == b) {
			t.Errorf("Compare(%q, %q) = %d, the other way round %d", a, b, Compare(a, b), Compare(b, a))
		}
		v, errA := Parse(a)
		w, errB := Parse(b)
		if errA != nil || errB != nil {
			return
		}
		if v.Compare(w) != -w.Compare(v) {
			t.Errorf("%q against %q is %d, the other way round %d", a, b, v.Compare(w), w.Compare(v))
		}
		if again, err := Parse(v.String()); err != nil || again.Compare(v) != 0 {
			t.Errorf("%q is %q, which reads as %v, %v", a, v, again, err)
		}
		if w.full.Local() != "" {
			return
		}
		order := v.public.Compare(w.full)
		for operator, want := range map[string]bool{"==": order == 0, "!=": order != 0, ">=": order >= 0, "<=": order <= 0} {
			s, err := ParseSpecifiers(operator + strings.TrimSpace(b))
			if err != nil || s.Allow(v) != want {
				t.Errorf("%q %s %q: not %t, %v", a, operator, b, want, err)
			}
		}
	})
}

// FuzzSpecifiers states that specifiers that allow a version may allow its first numbers.
func FuzzSpecifiers(f *testing.F) {
	for _, s := range [][2]string{{"9.1.0.70", ">=9.1,<10"}, {"9.1.0.70", "==9.1.0.*"}, {"9.1.0.70", "~=9.1.0.60,!=9.1.0.65"}, {"9.1.0", "===9.1.0"}, {"1!2.3", ">1!2.2.9"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, text, specifiers string) {
		v, err := Parse(text)
		s, err2 := ParseSpecifiers(specifiers)
		if err != nil || err2 != nil || !s.Allow(v) || v.String() != v.full.BaseVersion() {
			return
		}
		for _, c := range s {
			if n := len(c.want.Release()); n > 1 && n == len(v.Release()) {
				first, err := Parse(v.begin(n - 1))
				if err != nil || !(Specifiers{c}).MayAllow(first) {
					t.Errorf("%s allows %s, and may not allow %s (%v)", specifiers, v, first, err)
				}
			}
		}
	})
}
