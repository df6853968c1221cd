package githook

import (
	"bufio"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	one  = "1111111111111111111111111111111111111111"
	none = "0000000000000000000000000000000000000000"
)

func TestReadUpdates(t *testing.T) {
	long := strings.Repeat("a", 64)
	got, err := ReadUpdates(strings.NewReader("refs/heads/a " + one + " refs/heads/b " + none + "\n\n(delete) " + none + " refs/heads/c " + one + "\nx " + long + " y " + strings.Repeat("0", 64)))
	want := []Update{{"refs/heads/a", one, "refs/heads/b", none}, {"(delete)", none, "refs/heads/c", one}, {"x", long, "y", strings.Repeat("0", 64)}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %s", err, cmp.Diff(want, got))
	}
	if got[0].Deletes() || !got[1].Deletes() {
		t.Error("the second deletes")
	}
	for _, bad := range []string{"a", "a b c d", "a " + one + " b", "a " + one + " b " + one + " c", "a " + strings.ToUpper("abcd"+one[4:]) + " b " + none, "a --output=x b " + none} {
		if _, err := ReadUpdates(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// FuzzReadUpdates: an ID is never an option of git's.
func FuzzReadUpdates(f *testing.F) {
	f.Add("a " + one + " b " + none + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ReadUpdates(strings.NewReader(text))
		for _, u := range list {
			if !objectID(u.Local) || !objectID(u.Remote) {
				t.Errorf("%+v", u)
			}
		}
		if err != nil && list != nil {
			t.Errorf("updates beside %v", err)
		}
	})
}

func TestReadBlob(t *testing.T) {
	left := maxAll
	r := bufio.NewReader(strings.NewReader(one + " blob 3\na\nb\n" + "HEAD:x missing\n" + one + " tree 2\nxx\n" + one + " blob 0\n\n" + one + " blob -1\n"))
	for i, want := range []struct {
		text string
		ok   bool
	}{{"a\nb", true}, {"", false}, {"", false}, {"", true}} {
		b, ok, err := readBlob(r, &left)
		if err != nil || ok != want.ok || string(b.text) != want.text {
			t.Errorf("%d: %q, %v, %v", i, b.text, ok, err)
		}
	}
	if _, _, err := readBlob(r, &left); err == nil {
		t.Error("a negative size is taken")
	}
	if _, _, err := readBlob(r, &left); err == nil {
		t.Error("the end is taken")
	}
	big := bufio.NewReader(strings.NewReader(one + " blob 1048577\n" + strings.Repeat("x", 1048577) + "\n"))
	if b, ok, err := readBlob(big, &left); err != nil || !ok || b.why == "" || b.text != nil {
		t.Errorf("%v %v %v", b, ok, err)
	}
	if left != maxAll-3 {
		t.Errorf("%d bytes are counted", maxAll-left)
	}
	// Two thousand files of a megabyte are not held at a time.
	left = 5
	several := bufio.NewReader(strings.NewReader(strings.Repeat(one+" blob 3\nabc\n", 2) + one + " blob 2\nab\n"))
	for i, want := range []string{"", "the files of the push have more than 65536 KiB", ""} {
		if b, ok, err := readBlob(several, &left); err != nil || !ok || b.why != want {
			t.Errorf("%d: %v %v %v", i, b, ok, err)
		}
	}
}

func TestWanted(t *testing.T) {
	for path, want := range map[string]bool{
		"Dockerfile": true, "a/b/Dockerfile.gpu": true, "a/gpu.Dockerfile": true, "Containerfile": true, "requirements-gpu.txt": true, "a/pyproject.toml": true,
		"uv.lock": true, "k8s/x.yml": true, ".imgcheck.yaml": true, "sub/.imgcheck.yaml": true, "environment.yml": true,
		"README.md": false, "main.go": false, "Dockerfiles/x": false, "yaml": false, "requirements": false,
	} {
		if got := Wanted(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestImages(t *testing.T) {
	own := []Image{{Ref: "own", From: "policy", Own: true}}
	docker := Change{Path: "Dockerfile", New: []byte("FROM a\n")}
	for name, x := range map[string]struct {
		changes []Change
		images  string
		notices string
	}{
		"nothing":                      {nil, "", ""},
		"a Dockerfile":                 {[]Change{docker}, "a own", ""},
		"twice":                        {[]Change{docker, docker}, "a own", ""},
		"an input":                     {[]Change{{Path: "requirements.txt"}}, "own", ""},
		"a manifest":                   {[]Change{{Path: "values.yaml", New: []byte("image: b")}}, "b", ""},
		"named before":                 {[]Change{{Path: "values.yaml", New: []byte("image: b\nx: {image: c}"), Old: []byte("image: b")}}, "c", ""},
		"not understood before":        {[]Change{{Path: "values.yaml", New: []byte("image: b"), Old: []byte("a: b: c")}}, "b", ""},
		"not understood":               {[]Change{{Path: "values.yaml", New: []byte("a: b: c")}, {Path: "Dockerfile"}}, "own", "values.yaml was not understood: yaml: mapping values are not allowed in this context|Dockerfile was not understood: file with no instructions"},
		"not read":                     {[]Change{{Path: "Dockerfile", Why: "large"}}, "", "Dockerfile was not looked at: large"},
		"a platform":                   {[]Change{{Path: "Dockerfile", New: []byte("FROM --platform=linux/arm64 a\n")}}, "a@linux/arm64 own", ""},
		"our schemes":                  {[]Change{{Path: "Dockerfile", New: []byte("FROM dir:/etc AS a\nFROM docker:27-cli\n")}}, "docker:27-cli own", `FROM in Dockerfile:1 is not scanned: "dir:/etc" is no reference`},
		"another file":                 {[]Change{{Path: "mkdocs.yml", New: []byte("image: b")}}, "", ""},
		"a variable, as it was":        {[]Change{{Path: "compose.yml", New: []byte("services: {a: {image: $X}}\n"), Old: []byte("services: {a: {image: $X}}")}}, "", ""},
		"a variable without a default": {[]Change{{Path: "compose.yml", New: []byte("services: {a: {image: $X}}")}}, "", "compose.yml:1 is not scanned: $X: the variable X has no default"},
	} {
		images, notices := Images(x.changes, own)
		var list []string
		for _, im := range images {
			s := im.Ref
			if im.Platform != "" {
				s += "@" + im.Platform
			}
			list = append(list, s)
		}
		if got := strings.Join(list, " "); got != x.images {
			t.Errorf("%s: images %q, want %q", name, got, x.images)
		}
		if got := strings.Join(notices, "|"); got != x.notices {
			t.Errorf("%s: notices %q, want %q", name, got, x.notices)
		}
	}
}
