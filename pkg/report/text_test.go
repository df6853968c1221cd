package report

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

func document(f ...lint.Finding) *Document {
	return New(Image{Ref: "a\x1b[31mb", Layers: []Layer{{Index: 1}, {Index: 2}}}, &lint.Result{Findings: f, Stats: lint.Stats{ELF: 1234}})
}

// TestTextIsSafe: no control character of an image reaches a terminal.
func TestTextIsSafe(t *testing.T) {
	evil := "lib\x1b]0;title\x07\n\r\tx\u009b31m\xff.so"
	d := document(lint.Finding{
		Rule: "missing-library", Severity: packs.Error, Message: evil, Library: evil, Because: evil, Fixes: []string{evil}, Affected: []string{evil, "/x"},
		Effects: []packs.Effect{{Text: evil, Error: evil + "!"}}, NeededBy: []replay.File{{Path: evil, Layer: &replay.LayerRef{Index: 1, CreatedBy: evil}}},
		Searched: []lint.Searched{{Source: evil, Places: []lint.Place{{Dir: evil, Result: evil}}}}, Present: []replay.File{{Path: evil}}, Removed: []replay.Removed{{File: replay.File{Path: evil}, By: &replay.LayerRef{Index: 2}}},
	})
	var b bytes.Buffer
	if err := Text(&b, d, Options{All: true}); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.String() {
		if r != '\n' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0) {
			t.Fatalf("control character %q in:\n%q", r, b.String())
		}
	}
}

// TestWayBelowHeadline: a headline says what happens, and a row below it in which way.
func TestWayBelowHeadline(t *testing.T) {
	d := document(lint.Finding{
		Rule: "unresolved-library", Severity: packs.Warning, Message: "m", Library: "libx.so.1", Kind: packs.Missing,
		Effects: []packs.Effect{
			{Text: "`import a` fails: import a → a.so needs libx.so.1", Error: "ImportError: libx.so.1"},
			{Text: "`import b` fails: import b → import a (b.py:1)"},
		},
	})
	var b bytes.Buffer
	if err := Text(&b, d, Options{Width: 80}); err != nil {
		t.Fatal(err)
	}
	want := "warning: `import a` fails  [unresolved-library]\n   |  ImportError: libx.so.1\n   =  import a → a.so needs libx.so.1\n   =  no layer has it\n   =  also: `import b` fails\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("no %q in:\n%s", want, b.String())
	}
}

// TestTextLeavesOut: notes and long lists are shown only with All.
func TestTextLeavesOut(t *testing.T) {
	long := lint.Finding{Rule: "missing-library", Severity: packs.Error, Message: "m", NeededBy: []replay.File{{Path: "/n"}}}
	for i := range 2000 {
		long.Affected = append(long.Affected, "/a/"+strings.Repeat("x", i%7)+string(rune('a'+i%26)))
	}
	d := document(long, lint.Finding{Rule: "unresolved-library", Severity: packs.Note, Message: "hidden"}, lint.Finding{Rule: "not-examined", Severity: packs.Note, Message: "unseen", Affected: []string{"/1", "/2"}})
	for all, want := range map[bool][]string{
		false: {"needed by /n and 182 more files", "1 error: 1,234 ELF files in 2 layers; 1 note, and 2 things not examined (--all shows them)"},
		true:  {"hidden", "unseen", "1 error: 1,234 ELF files in 2 layers\n"},
	} {
		var b bytes.Buffer
		if err := Text(&b, d, Options{All: all}); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("all %v: no %q in:\n%.1500s", all, w, b.String())
			}
		}
		if !all && (strings.Contains(b.String(), "hidden") || strings.Contains(b.String(), "\x1b")) {
			t.Errorf("shows too much:\n%.1500s", b.String())
		}
	}
}

// TestBlind: an image whose files could not be examined, or a directory without any, is
// not called healthy.
func TestBlind(t *testing.T) {
	d := document(lint.Finding{Rule: "not-examined", Severity: packs.Note, Message: "the image has no dynamic loader", Affected: []string{"/a", "/b"}})
	for elf, want := range map[int]string{
		0: "? nothing could be judged in a�[31mb: 0 ELF files in 2 layers; 2 things not examined (--all shows them)\n",
		2: "? nothing could be judged in a�[31mb: 2 ELF files in 2 layers, of which 2 were not judged (the image has no dynamic loader); 2 things not examined (--all shows them)\n",
		3: "✓ no problems found in a�[31mb: 3 ELF files in 2 layers; 2 things not examined (--all shows them)\n",
	} {
		d.Stats.ELF = elf
		var text, markdown bytes.Buffer
		if err := errors.Join(Text(&text, d, Options{}), Markdown(&markdown, d, Options{})); err != nil {
			t.Fatal(err)
		}
		if text.String() != want {
			t.Errorf("%d files: %q, want %q", elf, &text, want)
		}
		if said, _, _ := strings.Cut(want, " in "); !strings.Contains(markdown.String(), "**"+said+"**") {
			t.Errorf("%d files: no %q in %s", elf, said, &markdown)
		}
	}
}

// TestHealthy: the report of a healthy image is one line, green if colours are on.
func TestHealthy(t *testing.T) {
	var b bytes.Buffer
	if err := Text(&b, document(), Options{Color: true}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.HasPrefix(got, "\x1b[32m✓ no problems found in\x1b[0m") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}

// TestNotStarted: that the image's program does not start is the headline, before other effects,
// and the last line says it first. Quiet leaves a line a problem.
func TestNotStarted(t *testing.T) {
	d := document(
		lint.Finding{Rule: "r1", Severity: packs.Error, Cause: "one", Message: "m1", Effects: []packs.Effect{
			{Text: "`import x` fails: import x", Error: "log1"},
			{Name: lint.NotStarted, Text: "the program ends at its start: CMD x", Error: "log2"},
		}},
		lint.Finding{Rule: "r2", Severity: packs.Warning, Cause: "two", Message: "m2"},
	)
	d.Problems, d.Summary = problems(d.Findings), Summary{Errors: 1, Warnings: 1}
	var b, quiet bytes.Buffer
	if err := errors.Join(Text(&b, d, Options{}), Text(&quiet, d, Options{Quiet: true})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nerror 1: the program ends at its start: `import x` fails  [r1]\n   |  log2\n", "\n   =  CMD x\n", "\nthe program ends at its start; 1 error, 1 warning: "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, &b)
		}
	}
	if want := "error: the program ends at its start: `import x` fails (m1)  [r1]\nwarning: m2  [r2]\n"; quiet.String() != want {
		t.Errorf("quiet: %q, want %q", &quiet, want)
	}
	quiet.Reset()
	healthy := document()
	healthy.Stats.ELF = 1
	if err := Text(&quiet, healthy, Options{Quiet: true}); err != nil || quiet.Len() > 0 {
		t.Errorf("quiet of a healthy image: %q, %v", &quiet, err)
	}
}

// TestCopied: a line that people may copy does not end with a period.
func TestCopied(t *testing.T) {
	d := document(lint.Finding{
		Rule: "library-not-on-path", Severity: packs.Error, Message: "m", Fixes: []string{"ENV LD_LIBRARY_PATH=/opt/lib"},
		NeededBy: []replay.File{{Path: "/app/x"}}, Because: "it is so",
	})
	got := "\n" + sentences(d, &d.Findings[0]) + "\n"
	for _, line := range []string{"m.", "Needed by /app/x", "Fix: ENV LD_LIBRARY_PATH=/opt/lib", "Because: it is so."} {
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("no line %q in %s", line, got)
		}
	}
}

// TestAdvice checks that commands are not broken, and that the words around them are.
func TestAdvice(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"ENV LD_LIBRARY_PATH=/opt/nccl/lib", []string{"ENV LD_LIBRARY_PATH=/opt/nccl/lib"}},
		{"install cuDNN 8: `pip install 'cudnn>=8,<9'`, or another", []string{"install cuDNN 8:", "`pip install 'cudnn>=8,<9'`,", "or another"}},
		{"pip install 'a==1,!=2' b, or a release of c", []string{"pip install 'a==1,!=2' b,", "or a release of c"}},
		{"install pip packages of it", []string{"install pip packages", "of it"}},
	} {
		if got := advice(tt.text, 20); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestDistribution checks which paths are those of a Python package's metadata.
func TestDistribution(t *testing.T) {
	for p, want := range map[string]string{
		"/v/site-packages/jax_cuda12_plugin-0.6.0.dist-info/METADATA": "jax-cuda12-plugin /v/site-packages",
		"/v/site-packages/jax/METADATA":                               " ",
		"/METADATA":                                                   " ",
		"/v/x-1.dist-info/RECORD":                                     " ",
	} {
		if name, site := distribution(p); name+" "+site != want {
			t.Errorf("%s: %q in %q, want %q", p, name, site, want)
		}
	}
}
