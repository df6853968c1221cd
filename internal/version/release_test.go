package version

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/tooltest"
)

func TestRelease(t *testing.T) {
	for text, want := range map[string]string{
		"9.1.0.70": "9.1.0.70", "2.6.0+cu124": "2.6.0", "2.3.0a0": "2.3.0", "0.4.35.dev1": "0.4.35",
		"": "", "x": "", "9": "9", "9.": "9", ".9": "", "99999999999999999999": "",
	} {
		if got := ParseRelease(text).String(); got != want {
			t.Errorf("ParseRelease(%q) = %q, want %q", text, got, want)
		}
	}
	for name, want := range map[string]string{
		"libcudnn.so.9.14.0": "9.14.0", "libcudnn-74a4c495.so.9.1.0": "9.1.0", "libcudnn.so.9": "9",
		"libcudnn.so": "", "libcudnn.so.": "", "libcudnn.so.9.": "", "libcudnn.so.9.1a2": "", "libcudnn.so.9..1": "",
		"libcudnn.so.9.1.0.bak": "", "cudnn.9.1": "", "libcudnn.so.9.99999999999999999999": "",
	} {
		if got := OfFile(name).String(); got != want {
			t.Errorf("OfFile(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		release, versions string
		fits, known       bool
	}{
		{"2.6.0", "", true, true},
		{"", "", true, true},
		{"", ">=2", false, false},
		{"2.6.0", ">=2.7", false, true},
		{"2.7.1", ">=2.7", true, true},
		{"2.7", ">=2.7.1", true, true},
		{"2.6.9", "<2.7", true, true},
		{"2.7.0", "<2.7", false, true},
		{"2.10.0", ">=2.9,<2.11", true, true},
		{"1.12.1", "==1.12", true, true},
		{"2.6.0", "=2.6", false, false},
	} {
		if fits, known := ParseRelease(c.release).Within(c.versions); fits != c.fits || known != c.known {
			t.Errorf("%q within %q: %v, %v, want %v, %v", c.release, c.versions, fits, known, c.fits, c.known)
		}
	}
	for _, bad := range []string{"2.0", ">2.0", ">=x", "~=2"} {
		if CheckRange(bad) == nil {
			t.Errorf("%q is taken for a range", bad)
		}
	}
}

// TestReleaseLaws: Compare is a total order and agrees with Python's versions. Before is
// a strict order, which Compare extends. Of two releases either one is before the other
// or they agree.
func TestReleaseLaws(t *testing.T) {
	r := newRandom(4)
	list := []Release{nil}
	for range 60 {
		list = append(list, ParseRelease(r.numbers()))
	}
	checkOrder(t, list, Release.Compare)
	for _, a := range list {
		for _, b := range list {
			if count(a.Before(b), b.Before(a), a.Agrees(b)) != 1 || a.Agrees(b) != b.Agrees(a) {
				t.Fatalf("%s and %s: before %t, after %t, agree %t", a, b, a.Before(b), b.Before(a), a.Agrees(b))
			}
			if a.Before(b) && a.Compare(b) >= 0 {
				t.Fatalf("%s is before %s, and not older", a, b)
			}
			if a != nil && b != nil {
				v, _ := Parse(a.String())
				w, _ := Parse(b.String())
				if sign(a.Compare(b)) != sign(v.Compare(w)) {
					t.Fatalf("%s against %s is %d, and by PEP 440 %d", a, b, a.Compare(b), v.Compare(w))
				}
			}
			for _, c := range list {
				if a.Before(b) && b.Before(c) && !a.Before(c) {
					t.Fatalf("%s is before %s, that before %s, and the first not before the last", a, b, c)
				}
			}
		}
	}
}

func count(list ...bool) (n int) {
	for _, b := range list {
		if b {
			n++
		}
	}
	return n
}

// TestPackagersAgree: rpm and dpkg order plain numbers as Compare does, but for zeros at
// the end, which they do not ignore.
func TestPackagersAgree(t *testing.T) {
	dpkg, rpm := tooltest.Need(t, "dpkg", "dpkg"), tooltest.Need(t, "rpm", "rpm")
	r := newRandom(5)
	var pairs [][2]Release
	var script strings.Builder
	for len(pairs) < 200 {
		if a, b := ParseRelease(r.numbers()), ParseRelease(r.numbers()); a.Compare(b) != 0 {
			pairs = append(pairs, [2]Release{a, b})
			fmt.Fprintf(&script, "print(rpm.vercmp(%q, %q) .. ' ') ", a, b)
		}
	}
	answers := strings.Fields(tooltest.Output(t, rpm, "--eval", "%{lua: "+script.String()+"}"))
	if len(answers) != len(pairs) {
		t.Fatalf("rpm answers %d of %d pairs", len(answers), len(pairs))
	}
	for i, p := range pairs {
		c := p[0].Compare(p[1])
		if answers[i] != fmt.Sprint(c) {
			t.Errorf("%s against %s is %d, and rpm's %s", p[0], p[1], c, answers[i])
		}
		relation := map[int]string{-1: "lt", 1: "gt"}[c]
		if err := exec.Command(dpkg, "--compare-versions", p[0].String(), relation, p[1].String()).Run(); err != nil {
			t.Errorf("%s %s %s: dpkg says %v", p[0], relation, p[1], err)
		}
	}
}

// TestUpstreamAgrees with dpkg, about the packages of the machine that tests run on.
func TestUpstreamAgrees(t *testing.T) {
	for version, want := range map[string]string{"9.1.0.70-1": "9.1.0.70", "1:9.1-2-3": "9.1-2", "8.9.7.29-1+cuda12.2": "8.9.7.29", "9": "9", "a:9-1": "a:9", "": ""} {
		if got := Upstream(version); got != want {
			t.Errorf("Upstream(%q) = %q, want %q", version, got, want)
		}
	}
	dpkg := tooltest.Need(t, "dpkg-query", "dpkg")
	epochs, revisions := 0, 0
	for line := range strings.Lines(tooltest.Output(t, dpkg, "-W", "-f", `${Version} ${source:Version} ${source:Upstream-Version}\n`)) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != words[1] {
			continue // built again from one source
		}
		if got := Upstream(words[0]); got != words[2] {
			t.Errorf("Upstream(%q) = %q, and dpkg has %q", words[0], got, words[2])
		}
		epochs += strings.Count(words[0], ":")
		revisions += strings.Count(words[0], "-")
	}
	if epochs == 0 || revisions == 0 {
		t.Errorf("%d packages have an epoch, and %d a revision: they show too little", epochs, revisions)
	}
}

// FuzzRelease states that a release reads as the same from its own text.
func FuzzRelease(f *testing.F) {
	for _, s := range []string{"9.1.0.70", "2.6.0+cu124", "..", "00.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := ParseRelease(s)
		if again := ParseRelease(r.String()); !slices.Equal(r, again) {
			t.Errorf("%q is %v, and %q is %v", s, r, r.String(), again)
		}
		if of := OfFile("libx.so." + s); of != nil && (!slices.Equal(of, r) || fmt.Sprint(len(of)) != fmt.Sprint(1+strings.Count(s, "."))) {
			t.Errorf("%q is %v, and at the end of a file's name %v", s, r, of)
		}
	})
}
