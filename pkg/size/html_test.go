package size

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// FuzzSquarify: the rectangles have areas in proportion to their bytes, fill the picture, and
// lie in it, none over another.
func FuzzSquarify(f *testing.F) {
	f.Add([]byte{200, 100, 50, 25, 12, 6, 3, 1})
	f.Add([]byte{7, 7, 7, 7, 7, 7, 7})
	f.Add([]byte{255, 1})
	f.Fuzz(func(t *testing.T, sizes []byte) {
		var list []Area
		total := 0.0
		for _, n := range sizes {
			if n > 0 && len(list) < 60 {
				list = append(list, Area{bytes: float64(n)})
				total += float64(n)
			}
		}
		squarify(list, 0, 0, width, height)
		for i, a := range list {
			if want := a.bytes / total * width * height; math.Abs(a.W*a.H-want) > 1 {
				t.Fatalf("area %d of %v has %f, not %f", i, sizes, a.W*a.H, want)
			}
			if a.X < -0.01 || a.Y < -0.01 || a.X+a.W > width+0.01 || a.Y+a.H > height+0.01 {
				t.Fatalf("area %d of %v is outside: %+v", i, sizes, a)
			}
			for j, b := range list[:i] {
				if a.X+0.01 < b.X+b.W && b.X+0.01 < a.X+a.W && a.Y+0.01 < b.Y+b.H && b.Y+0.01 < a.Y+a.H {
					t.Fatalf("areas %d and %d of %v overlap: %+v, %+v", i, j, sizes, a, b)
				}
			}
		}
	})
}

// TestHTML writes texts of an image as text, and nothing that a browser would load or run.
func TestHTML(t *testing.T) {
	const attack = `</title></svg><script>x</script><img src="//x" onerror="x">`
	r := &Result{
		Bytes: 300, Layers: []Layer{{CreatedBy: attack, Bytes: 300}},
		Stays:  []Family{{Title: attack, Files: 1, Bytes: 100}, {Title: "/usr/lib", Files: 1, Bytes: 50}},
		Groups: []Group{{Class: &Class{ID: "x", Title: "a class", Why: "why", Fix: "fix", Assumes: "that"}, Bytes: 150, Files: []File{{Path: "/" + attack, Bytes: 150, Of: attack}}}},
		Kept:   []Kept{{Title: "headers", For: attack}}, Unread: []string{attack},
	}
	var b bytes.Buffer
	if err := r.HTML(&b, attack); err != nil {
		t.Fatal(err)
	}
	s := b.String()
	for _, bad := range []string{"<script", "<img", "onerror=\""} {
		if strings.Contains(s, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, want := range []string{"300 B (unpacked)", `<rect class="assumes"`, "a class", "/usr/lib"} {
		if !strings.Contains(s, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
