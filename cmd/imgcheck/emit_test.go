package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/rules"
)

// TestEmittedSources emits a Dockerfile for every text image, alone and with a directory, with
// and without a source of libraries. Whatever it copies is there: in an image that rules/provide
// knows, or in the directory, which a comment then names as the context.
func TestEmittedSources(t *testing.T) {
	public := publicImages(t)
	alone, inDir := 0, 0
	for _, name := range texts(t) {
		parsed, ref := shelfText(t, name)
		var from []string
		for _, dir := range sourcesOf(t, parsed) {
			from = append(from, "--from", "dir:"+dir)
		}
		repository, _, _ := strings.Cut(ref, "@")
		repository = repository[:strings.LastIndex(repository, ":")]
		for _, more := range [][]string{nil, from} {
			if text, ok := emit(t, ref, slices.Concat(more, []string{"--emit", "dockerfile"})); ok {
				alone++
				checkSources(t, name, repository, text, "", public)
			}
			dir := filepath.Join(t.TempDir(), "fix")
			if _, ok := emit(t, ref, slices.Concat(more, []string{"--emit", "dockerfile=" + dir})); ok {
				inDir++
				text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
				if err != nil {
					t.Fatal(err)
				}
				checkSources(t, name, repository, string(text), dir, public)
			}
			if len(from) == 0 {
				break
			}
		}
	}
	if alone < 50 || inDir < 50 {
		t.Errorf("only %d Dockerfiles alone, %d in a directory", alone, inDir)
	}
}

// emit returns what patch writes on the standard output; ok is false if it refuses or has
// nothing to do. An error has one line with what to do instead.
func emit(t *testing.T, ref string, args []string) (text string, ok bool) {
	t.Helper()
	var out, errs bytes.Buffer
	status := run(t.Context(), append([]string{"imgcheck", "patch", ref, "--accept-nvidia-license"}, args...), &out, &errs)
	if status == exitFailed {
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, ": say --emit dockerfile=DIR") && !strings.Contains(last, ": publish it with -t") && !strings.Contains(last, ": name their source with --from") {
			t.Errorf("%s %v: no advice in %q", ref, args, last)
		}
	}
	return out.String(), status == exitOK && !strings.Contains(errs.String(), "nothing to do: ")
}

func checkSources(t *testing.T, name, repository, text, dir string, public map[string]bool) {
	t.Helper()
	if !strings.Contains(text, "\nFROM "+repository+"@sha256:") {
		t.Errorf("%s: is not FROM %s:\n%s", name, repository, text)
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "COPY" {
			continue
		}
		from := ""
		var operands []string
		for _, w := range words[1:] {
			if image, ok := strings.CutPrefix(w, "--from="); ok {
				from = image
			} else if !strings.HasPrefix(w, "--") {
				operands = append(operands, w)
			}
		}
		if len(operands) < 2 {
			t.Fatalf("%s: %q copies nothing", name, line)
		}
		if from != "" {
			if ref, _, _ := strings.Cut(from, "@"); !public[ref] {
				t.Errorf("%s: %q copies from an image that no rule knows", name, line)
			}
			continue
		}
		if !strings.Contains(text, "# Its context is the directory of this file") {
			t.Errorf("%s: no comment names the context of %q", name, line)
		}
		for _, o := range operands[:len(operands)-1] {
			if _, err := os.Lstat(filepath.Join(dir, o)); dir == "" || err != nil {
				t.Errorf("%s: %q copies something that is not there", name, line)
			}
		}
	}
}

// publicImages returns the images from which a Dockerfile may copy.
func publicImages(t *testing.T) map[string]bool {
	t.Helper()
	text, err := fs.ReadFile(rules.FS, "provide/images.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Images []struct{ Ref string } }
	if err := yaml.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, i := range list.Images {
		known[i.Ref] = true
	}
	return known
}
