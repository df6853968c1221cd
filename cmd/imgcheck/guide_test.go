package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestGuide follows docs/rule-packs.md in an empty directory: it writes the files of the
// blocks "yaml FILE", and runs the commands of the blocks "console", whose output has the
// lines below the command, in their order.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(root, "docs", "rule-packs.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	guideImage(t)
	commands := 0
	for i, block := range strings.Split(string(guide), "```") {
		head, body, _ := strings.Cut(block, "\n")
		file, isFile := strings.CutPrefix(head, "yaml ")
		switch {
		case i%2 == 0:
		case isFile:
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
		case head == "console":
			commands++
			followGuide(t, body)
		default:
			t.Errorf("a block of %q is neither a file nor commands", head)
		}
	}
	if commands < 5 {
		t.Errorf("%d commands were run", commands)
	}
}

// guideImage writes the image of the guide.
func guideImage(t *testing.T) {
	t.Helper()
	text, err := images.Text("entrypoint-library.txtar")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := imagetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	img, err := parsed.V1()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := layout.Write("app", empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.AppendImage(img); err != nil {
		t.Fatal(err)
	}
}

// followGuide runs a command, and looks for the lines below it in its output.
func followGuide(t *testing.T, block string) {
	t.Helper()
	line, want, _ := strings.Cut(block, "\n")
	command, ok := strings.CutPrefix(line, "$ ")
	args, err := shell.NewLex('\\').ProcessWords(command, shell.EnvsFromSlice(nil))
	if err != nil || !ok || args[0] != "imgcheck" {
		t.Fatalf("%q is no command: %v", line, err)
	}
	var out bytes.Buffer
	run(t.Context(), args, &out, &out)
	got := strings.Split(out.String(), "\n")
	for line := range strings.Lines(want) {
		at := slices.Index(got, strings.TrimSuffix(line, "\n"))
		if at < 0 {
			t.Errorf("%s: there is no line %q behind the one before it in\n%s", command, line, out.String())
			return
		}
		got = got[at+1:]
	}
}
