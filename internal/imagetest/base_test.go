package imagetest_test

import (
	"bytes"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

const baseText = `# Two layers.
env A=1
env B=2
entrypoint ["/a"]
layer 0 base
-- 0/a --
elf x86_64
-- 0/lib/b --
b
-- 0/lib/c --
c
-- 1/twice --
first
-- 1/twice --
second
-- want --
note of the base
`

func files(texts ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(texts); i += 2 {
		fsys[texts[i]] = &fstest.MapFile{Data: []byte(texts[i+1])}
	}
	return fsys
}

func TestFlatten(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no base", "# prose\nenv A=1\n-- 0/a --\na\n", "# prose\nenv A=1\n-- 0/a --\na\n"},
		{
			"files are added behind, and replaced in place", "# prose\nbase b\nenv C=3\nentrypoint [\"/c\"]\n-- 0/lib/b --\nother\n-- 0/d --\nd\n-- want --\n",
			"env A=1\nenv B=2\nentrypoint [\"/a\"]\nlayer 0 base\n# prose\nenv C=3\nentrypoint [\"/c\"]\n" +
				"-- 0/a --\nelf x86_64\n-- 0/lib/b --\nother\n-- 0/lib/c --\nc\n-- 1/twice --\nfirst\n-- 1/twice --\nsecond\n-- 0/d --\nd\n-- want --\n",
		},
		{
			"lines, files and directories are removed", "base b\n- env A=1\n- 1/twice\n- 0/lib/\n-- 0/lib/c --\nc\n",
			"env B=2\nentrypoint [\"/a\"]\nlayer 0 base\n-- 0/a --\nelf x86_64\n-- 0/lib/c --\nc\n",
		},
		{
			"the second file of a name replaces the second", "base b\n- 0/lib/\n- 0/a\n-- 1/twice --\nthird\n-- 1/twice --\nfourth\n-- 1/twice --\nfifth\n",
			"env A=1\nenv B=2\nentrypoint [\"/a\"]\nlayer 0 base\n-- 1/twice --\nthird\n-- 1/twice --\nfourth\n-- 1/twice --\nfifth\n",
		},
	} {
		got, err := imagetest.Flatten(files("a.txtar", tt.text, "base/b.txtar", baseText), "a.txtar")
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: error %v, got\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
}

func TestFlattenChain(t *testing.T) {
	fsys := files(
		"fresh/x.fixed.txtar", "base x\n-- 2/x --\n", "fresh/x.txtar", "base y\n-- 1/x --\n",
		"base/y.txtar", "base z\n", "base/z.txtar", "user 7\n-- 0/x --\n",
	)
	got, err := imagetest.Flatten(fsys, "fresh/x.fixed.txtar")
	if want := "user 7\n-- 0/x --\n-- 1/x --\n-- 2/x --\n"; err != nil || string(got) != want {
		t.Errorf("error %v, got\n%s", err, got)
	}
}

func TestFlattenErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"env C=3\nbase b\n", "line 2: base must be the first line after the prose"},
		{"base b\nbase b\n", "line 2: base must be the first line after the prose"},
		{"base\n", "base: nothing follows"},
		{"- env A=1\n", "only a text with a base can remove"},
		{"base gone\n", "base gone: 0 texts have this name"},
		{"base c\n", "base c: 2 texts have this name"},
		{"base a\n", "a.txtar on a.txtar is built on itself"},
		{"base loop\n", "a.txtar on base/loop.txtar on base/loop2.txtar on base/loop.txtar is built on itself"},
		{"base ../x\n", "0 texts have this name"},
		{"base b\n- 0/gone\n", "does not have 0/gone"},
		{"base b\n- 0/li/\n", "does not have 0/li/"},
		{"base b\n- env A\n", "does not have env A"},
		{"base b\n- want\n", "does not have want"},
		{"base b\n-- 0/lib/c --\nc\n", "0/lib/c: base b has the same file"},
	} {
		fsys := files("a.txtar", tt.text, "base/b.txtar", baseText, "c.txtar", "", "base/c.txtar", "", "base/loop.txtar", "base loop2\n", "base/loop2.txtar", "base loop\n")
		got, err := imagetest.Flatten(fsys, "a.txtar")
		if err == nil || got != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.want)
		}
	}
	long := files("a.txtar", strings.Repeat("#", 5<<20))
	if _, err := imagetest.Flatten(long, "a.txtar"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("5 MiB: error %v", err)
	}
	if _, err := imagetest.Parse([]byte("base b\n")); err == nil || !strings.Contains(err.Error(), "Flatten") {
		t.Errorf("Parse of a text that is not flat: error %v", err)
	}
}

// TestTexts parses every text of testdata/images and checks that each base serves at least two of them.
func TestTexts(t *testing.T) {
	used := map[string]int{}
	baseLine := regexp.MustCompile(`(?m)^base (\S+)$`)
	err := fs.WalkDir(images.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		written, err := images.FS.ReadFile(name)
		if err != nil {
			return err
		}
		if m := baseLine.FindSubmatch(txtar.Parse(written).Comment); m != nil {
			used[string(m[1])]++
		}
		text, err := images.Text(name)
		if err != nil {
			return err
		}
		im, err := imagetest.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if strings.HasPrefix(name, "base/") && len(im.Sections) > 0 {
			t.Errorf("%s: a text in base/ must not have sections such as want: put an image to be judged beside the others, it can still be a base", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	bases, err := fs.Glob(images.FS, "base/*.txtar")
	if err != nil || len(bases) == 0 {
		t.Fatalf("no bases: %v", err)
	}
	for _, name := range bases {
		if n := used[strings.TrimSuffix(strings.TrimPrefix(name, "base/"), ".txtar")]; n < 2 {
			t.Errorf("%s: %d texts are built on it, want at least 2", name, n)
		}
	}
}

// FuzzFlatten checks that Flatten never panics, returns no text beside an error, does not change its own result, and keeps
// every file of the upper text.
func FuzzFlatten(f *testing.F) {
	f.Add("base b\n- env A=1\n- 0/lib/\n-- 0/lib/c --\nc\n-- want --\n", baseText)
	f.Add("base a\n", "base b\n")
	f.Add("# prose\nbase b\n\n -\tuser 1\n-- 1/twice --\n-- 1/twice --\nx", "user 1\nbase\n-- 1/twice --\n1\n-- 1/twice --\n2")
	f.Fuzz(func(t *testing.T, text, base string) {
		if strings.Contains(text+base, "\r") {
			return // to txtar, "-- a --\r" is text at the end of a file and a marker before a newline
		}
		fsys := files("a.txtar", text, "base/b.txtar", base)
		got, err := imagetest.Flatten(fsys, "a.txtar")
		if err != nil {
			if got != nil {
				t.Fatal("a text beside an error")
			}
			return
		}
		again, err := imagetest.Flatten(files("a.txtar", string(got)), "a.txtar")
		if err != nil || !bytes.Equal(got, again) {
			t.Fatalf("the flat text has a base: %v\n%s", err, got)
		}
		left := txtar.Parse(got).Files
		for _, own := range txtar.Parse([]byte(text)).Files {
			i := 0
			for i < len(left) && (left[i].Name != own.Name || !bytes.Equal(left[i].Data, own.Data)) {
				i++
			}
			if i == len(left) {
				t.Fatalf("%s is lost:\n%s", own.Name, got)
			}
			left = append(left[:i:i], left[i+1:]...)
		}
		if _, err := imagetest.Parse(got); err != nil && strings.Contains(err.Error(), "Flatten") {
			t.Fatal(err)
		}
	})
}
