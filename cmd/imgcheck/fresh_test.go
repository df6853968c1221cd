package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// fresh is a text of testdata/images/fresh. Its expect section states what is true of
// the image, and so what a scan must find:
//
//	state healthy   the image works: no error and no warning, ever
//	state fixed     the same, of an image that was fixed as its report advises
//	state broken    a finding must say so, with a fix that works
//	state unfixed   a finding must say so; none of its fixes works yet
//	state missed    the image is broken, and no finding says so yet
//	state alarm     the image is healthy, and an error or a warning still says otherwise
//
// An image in one of the last three states fails the test when it becomes better, until
// its state is changed, which -update does: these lists only grow shorter.
//
// A broken image is found by a finding of one of the rules, of at least the severity,
// that names the library and a file with where in its path. A fix works if the pattern
// matches it.
type fresh struct {
	state, severity, library, where string
	rules                           []string
	fix                             *regexp.Regexp
	image                           *imagetest.Image
}

// TestFresh compares the findings of images that were rebuilt from bug reports, by an
// author who had not written the rules, with what is true of the images.
func TestFresh(t *testing.T) {
	compareFresh(t, "fresh/*.txtar")
}

// TestStacks does the same with images of popular stacks, which were rebuilt from the
// files that build them: NAME works, NAME.broken fails as users reported.
func TestStacks(t *testing.T) { compareFresh(t, "stacks/*.txtar") }

func compareFresh(t *testing.T, pattern string) {
	names, err := fs.Glob(images.FS, pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no images: %v", err)
	}
	server := imagetest.Serve(t)
	for _, name := range names {
		short := strings.TrimSuffix(filepath.Base(name), ".txtar")
		t.Run(short, func(t *testing.T) {
			readFresh(t, name).compare(t, server, name)
		})
	}
}

// compare scans the image of the text name, and compares its findings with its state.
func (f *fresh) compare(t *testing.T, server *imagetest.Server, name string) {
	t.Helper()
	found := f.scan(t, server, strings.TrimSuffix(name, ".txtar"))
	var alarms []string
	for _, x := range found {
		if x.Severity != packs.Note {
			alarms = append(alarms, fmt.Sprintf("%s %s %s %q", x.Severity, x.Rule, x.Message, x.Fixes))
		}
	}
	switch f.state {
	case "healthy", "fixed":
		if len(alarms) > 0 {
			t.Errorf("it works, and is reported to fail:\n%s", strings.Join(alarms, "\n"))
		}
	case "alarm":
		if len(alarms) == 0 {
			rename(t, name, "alarm", "healthy")
		}
	default:
		want, got := slices.Index(brokenStates, f.state), f.found(found)
		if got < want {
			t.Errorf("it is %s, and should be %s: findings of %s at %s that name %s at %q with a fix like %q are asked for, and there are\n%s",
				brokenStates[got], f.state, f.rules, f.severity, f.library, f.where, f.fix, strings.Join(alarms, "\n"))
		} else if got > want {
			rename(t, name, f.state, brokenStates[got])
		}
	}
}

// rename writes a better state into a text with -update; without -update it is an error.
func rename(t *testing.T, name, from, to string) {
	t.Helper()
	if !*update {
		t.Errorf("it is no longer %s: go test ./cmd/imgcheck -run TestFresh -update makes it %s", from, to)
		return
	}
	file := filepath.Join("..", "..", "testdata", "images", name)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(b, []byte("\nstate "+from+"\n"), []byte("\nstate "+to+"\n"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

// brokenStates are the states of an image that is broken, from bad to good.
var brokenStates = []string{"missed", "unfixed", "broken"}

// found returns the index in brokenStates of the state that the findings show.
func (f *fresh) found(list []lint.Finding) int {
	state := 0
	for _, x := range list {
		if f.isFound(x) {
			state = max(state, 1)
			if slices.ContainsFunc(x.Fixes, f.fix.MatchString) {
				state = 2
			}
		}
	}
	return state
}

func (f *fresh) isFound(x lint.Finding) bool {
	at := []string{x.Message}
	at = append(at, x.Affected...)
	for _, file := range slices.Concat(x.NeededBy, x.Present) {
		at = append(at, file.Path)
	}
	return slices.Contains(f.rules, x.Rule) && x.Severity.AtLeast(packs.Severity(f.severity)) &&
		strings.Contains(x.Message+" "+x.Library+" "+x.Symbol, f.library) && strings.Contains(strings.Join(at, " "), f.where)
}

// readFresh reads a text and its expect section.
func readFresh(t *testing.T, name string) *fresh {
	t.Helper()
	text, err := images.Text(name)
	if err != nil {
		t.Fatal(err)
	}
	image, err := imagetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	f := &fresh{image: image, fix: regexp.MustCompile("")}
	for line := range strings.Lines(image.Sections["expect"]) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "state":
			f.state = value
		case "severity":
			f.severity = value
		case "rules":
			f.rules = strings.Fields(value)
		case "library":
			f.library = value
		case "where":
			f.where = value
		case "fix":
			f.fix = regexp.MustCompile(value)
		default:
			t.Fatalf("expect says %q", line)
		}
	}
	broken := slices.Contains(brokenStates, f.state)
	if !broken && !slices.Contains([]string{"healthy", "fixed", "alarm"}, f.state) || broken != (len(f.rules) > 0) || broken != (f.severity != "") {
		t.Fatalf("expect says nothing that can be held: %q", image.Sections["expect"])
	}
	// The file's name states the truth about the image, and its state must agree.
	base := filepath.Base(name)
	fixed, isBroken := strings.Contains(base, ".fixed."), strings.Contains(base, ".broken")
	healthy := !isBroken && (strings.HasPrefix(base, "healthy-") || strings.HasPrefix(name, "stacks/"))
	if fixed != (f.state == "fixed") || isBroken && !broken || healthy && broken {
		t.Fatalf("its name says otherwise than its state, %s", f.state)
	}
	return f
}

// scan returns the findings of the image.
func (f *fresh) scan(t *testing.T, server *imagetest.Server, name string) []lint.Finding {
	t.Helper()
	img, err := f.image.V1()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := server.Push(strings.ToLower(name)+":latest", img)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := scan.Image(context.Background(), ref, scan.Options{NoPlan: true})
	if err != nil {
		t.Fatal(err)
	}
	return doc.Findings
}
