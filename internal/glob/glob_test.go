package glob

import (
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

func TestCheck(t *testing.T) {
	for pattern, want := range map[string]error{
		"**/site-packages/onnxruntime/**": nil,
		"libcudart{,-*,.*}.so*":           nil,
		"{a,b}{c,d}[{,]\\{{e,{f,g}}":      nil,
		"[":                               errPattern,
		"{a":                              errPattern,
		strings.Repeat("a", 2000):         errPattern,
		strings.Repeat("{a,a}", 30):       errWays,
		strings.Repeat("{a,", 40) + "a" + strings.Repeat("}", 40): nil,
		strings.Repeat("{{a,b},{c,d}}", 5):                        errWays,
		strings.Repeat("{a}", 100):                                nil,
	} {
		if got := Check(pattern); got != want {
			t.Errorf("%q: %v, want %v", pattern, got, want)
		}
	}
}

// FuzzCheck states that an accepted pattern is valid for doublestar and has no more
// combinations than ways counts, so that matching it ends.
func FuzzCheck(f *testing.F) {
	f.Add("**/{a,b}*/[a,b]{c,{d,e}}", "x/ac")
	f.Add("{a,a}{a,a}{a,a}{a,a}b", "aaaac")
	f.Add("\\{a,b}[{,}]*", "a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if Check(pattern) != nil {
			return
		}
		if !doublestar.ValidatePattern(pattern) {
			t.Fatalf("%q is taken", pattern)
		}
		if n := expansions(pattern, 2*maxWays); n > maxWays {
			t.Fatalf("%q has %d ways", pattern, n)
		}
		doublestar.MatchUnvalidated(pattern, name[:min(len(name), 1000)])
	})
}

// expansions counts the combinations of alternatives one by one, up to a number, of a
// pattern without brackets and backslashes.
func expansions(pattern string, most int) int {
	if strings.ContainsAny(pattern, "[]\\") {
		return 0
	}
	queue, n := []string{pattern}, 0
	for len(queue) > 0 && n <= most {
		p := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		end := strings.IndexByte(p, '}') // the first group that closes contains no other
		if end < 0 {
			n++
			continue
		}
		begin := strings.LastIndexByte(p[:end], '{')
		if begin < 0 {
			return n
		}
		for alt := range strings.SplitSeq(p[begin+1:end], ",") {
			queue = append(queue, p[:begin]+strings.ReplaceAll(alt, ",", "")+p[end+1:])
		}
	}
	return n
}
