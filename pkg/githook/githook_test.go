package githook

import (
	"bufio"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
)

const (
	one  = "1111111111111111111111111111111111111111"
	none = "0000000000000000000000000000000000000000"
)

func TestReadUpdates(t *testing.T) {
	long := strings.Repeat("a", 64)
	got, _, err := ReadUpdates(strings.NewReader("refs/heads/a " + one + " refs/heads/b " + none + "\n\n(delete) " + none + " refs/heads/c " + one + "\nx " + long + " y " + strings.Repeat("0", 64)))
	want := []Update{{"refs/heads/a", one, "refs/heads/b", none}, {"(delete)", none, "refs/heads/c", one}, {"x", long, "y", strings.Repeat("0", 64)}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %s", err, cmp.Diff(want, got))
	}
	if got[0].Deletes() || !got[1].Deletes() {
		t.Error("the second deletes")
	}
	for _, bad := range []string{"a", "a b c d", "a " + one + " b", "a " + one + " b " + one + " c", "a " + strings.ToUpper("abcd"+one[4:]) + " b " + none, "a --output=x b " + none} {
		if _, _, err := ReadUpdates(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Files beyond a limit are counted, and do not stop the push.
func TestLimits(t *testing.T) {
	line := "a " + one + " b " + none + "\n"
	list, left, err := ReadUpdates(strings.NewReader(strings.Repeat(line, maxRefs+2)))
	if len(list) != maxRefs || left != 2 || err != nil {
		t.Errorf("%d refs, %d left, %v", len(list), left, err)
	}
	paths := []string{"a.yaml", "b.txt", "c.yml", "d/Dockerfile", "requirements.txt"}
	for most, want := range map[int]string{0: "", 1: "d/Dockerfile", 3: "d/Dockerfile requirements.txt a.yaml", 4: "d/Dockerfile requirements.txt a.yaml c.yml"} {
		if got, beyond := choose(paths, most); strings.Join(got, " ") != want || beyond != 4-most {
			t.Errorf("%d: %v, %d beyond", most, got, beyond)
		}
	}
}

// FuzzReadUpdates: an ID is never an option of git.
func FuzzReadUpdates(f *testing.F) {
	f.Add("a " + one + " b " + none + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, _, err := ReadUpdates(strings.NewReader(text))
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
	for i, want := range []blob{{text: []byte("a\nb")}, {why: "git does not have it"}, {why: "it is no file"}, {text: []byte{}}} {
		b, err := readBlob(r, &left)
		if err != nil || string(b.text) != string(want.text) || b.why != want.why {
			t.Errorf("%d: %q, %q, %v", i, b.text, b.why, err)
		}
	}
	if _, err := readBlob(r, &left); err == nil {
		t.Error("a negative size is taken")
	}
	if _, err := readBlob(r, &left); err == nil {
		t.Error("the end is taken")
	}
	big := bufio.NewReader(strings.NewReader(one + " blob 1048577\n" + strings.Repeat("x", 1048577) + "\n"))
	if b, err := readBlob(big, &left); err != nil || b.why == "" || b.text != nil {
		t.Errorf("%v %v", b, err)
	}
	if left != maxAll-3 {
		t.Errorf("%d bytes are counted", maxAll-left)
	}
	// Two thousand files of a megabyte are not held in memory together.
	left = 5
	several := bufio.NewReader(strings.NewReader(strings.Repeat(one+" blob 3\nabc\n", 2) + one + " blob 2\nab\n"))
	for i, want := range []string{"", "the files of the push have more than 65536 KiB", ""} {
		if b, err := readBlob(several, &left); err != nil || b.why != want {
			t.Errorf("%d: %v %v", i, b, err)
		}
	}
}

func TestWanted(t *testing.T) {
	for path, want := range map[string]bool{
		"Dockerfile": true, "a/b/Dockerfile.gpu": true, "a/gpu.Dockerfile": true, "Containerfile": true, "requirements-gpu.txt": true, "a/pyproject.toml": true,
		"uv.lock": true, "k8s/x.yml": true, ".imgcheck.yaml": true, "sub/.imgcheck.yaml": true, "environment.yml": true,
		"dockerfile": true, "Dockerfile-gpu": true, "Dockerfile_cuda": true, "Dockerfile.dockerignore": false, "Dockerfile.md": false, "README.md": false, "main.go": false, "Dockerfiles/x": false, "yaml": false, "requirements": false,
	} {
		if got := Wanted(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestImages(t *testing.T) {
	own := []Image{{Ref: "own", Uses: []Use{{Where: "policy"}}}}
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
		"not read":                     {[]Change{{Path: "Dockerfile", Why: "large"}}, "", "Dockerfile was not read: large"},
		"a platform":                   {[]Change{{Path: "Dockerfile", New: []byte("FROM --platform=linux/arm64 a\n")}}, "a@linux/arm64 own", ""},
		"our schemes":                  {[]Change{{Path: "Dockerfile", New: []byte("FROM dir:/etc AS a\nFROM docker:27-cli\n")}}, "docker:27-cli own", `FROM in Dockerfile:1 is not scanned: "dir:/etc" is not a reference`},
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

func TestUses(t *testing.T) {
	own := []Image{{Ref: "own", Uses: []Use{{Where: "policy"}}}}
	images, notices := Images([]Change{
		{Path: ".imgcheck.yaml"},
		{Path: "Dockerfile", New: []byte("FROM a AS b\nRUN x\nFROM b AS c\nENV A=1\nFROM b\n")},
		{Path: "pod.yaml", New: []byte("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}")},
		{Path: "requirements.txt"},
	}, own)
	run, env := dockerfile.Instruction{Name: "RUN", Line: 2}, dockerfile.Instruction{Name: "ENV", Line: 4, Variables: []string{"A"}}
	want := []Image{
		{Ref: "a", Uses: []Use{
			{Where: "FROM in Dockerfile:1", File: "Dockerfile", Does: []dockerfile.Instruction{run, env}},
			{Where: "FROM in Dockerfile:1", File: "Dockerfile", Does: []dockerfile.Instruction{run}},
			{Where: "pod.yaml:3", File: "pod.yaml"},
		}},
		{Ref: "own", Own: true, Uses: []Use{{Where: "policy", Input: "Dockerfile"}}},
	}
	if diff := cmp.Diff(want, images); diff != "" || notices != nil {
		t.Errorf("notices %v, images (-want +got):\n%s", notices, diff)
	}
	// A change of the policy does not change what is installed in its images.
	images, _ = Images([]Change{{Path: "x/.imgcheck.yaml"}}, own)
	if want := []Image{{Ref: "own", Own: true, Uses: []Use{{Where: "policy"}}}}; !cmp.Equal(images, want) {
		t.Errorf("%+v", images)
	}
}

// TestWithoutVariables: values that would double each other are not read.
func TestWithoutVariables(t *testing.T) {
	if got := string(withoutVariables([]byte("A=1\nB=$A$A\nC='x'"))); got != "A=1\nC='x'" {
		t.Errorf("got %q", got)
	}
}

// TestLongUpdate checks that a line that is too long for git's has an error that says what git writes.
func TestLongUpdate(t *testing.T) {
	_, _, err := ReadUpdates(strings.NewReader(strings.Repeat("a", 1<<17)))
	if err == nil || err.Error() != "a line of more than 64 KiB is not one for a pre-push hook: git writes LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID" {
		t.Error(err)
	}
}
