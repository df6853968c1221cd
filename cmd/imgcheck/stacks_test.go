package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestStacks compares the findings of images of popular stacks, whose layout and loading
// were read in the build files and sources of the projects, with what is true of the
// images. NAME.broken.txtar is the image with a fault that users reported; all others work.
// Their expect sections are those of TestFresh.
func TestStacks(t *testing.T) {
	names, err := fs.Glob(images.FS, "stacks/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no images: %v", err)
	}
	server := imagetest.Serve(t)
	for _, name := range names {
		short := strings.TrimSuffix(filepath.Base(name), ".txtar")
		t.Run(short, func(t *testing.T) {
			f := readFresh(t, name)
			if broken := slices.Contains(brokenStates, f.state); broken != strings.Contains(short, ".broken") {
				t.Fatalf("its name says otherwise than its state, %s", f.state)
			}
			checkFresh(t, f, name, f.scan(t, server, "stacks-"+short))
		})
	}
}

// checkFresh reports what the findings say otherwise than the image's expect section.
func checkFresh(t *testing.T, f *fresh, name string, found []lint.Finding) {
	t.Helper()
	var all []string
	alarms := 0
	for _, x := range found {
		if x.Severity != packs.Note {
			alarms++
		}
		all = append(all, fmt.Sprintf("%s %s %s", x.Severity, x.Rule, x.Message))
	}
	list := strings.Join(all, "\n")
	switch f.state {
	case "healthy", "fixed":
		if alarms > 0 {
			t.Errorf("it works, and is reported to fail:\n%s", list)
		}
	case "alarm":
		if alarms == 0 {
			rename(t, name, "alarm", "healthy")
		}
	default:
		want, got := slices.Index(brokenStates, f.state), f.found(found)
		if got < want {
			t.Errorf("it is %s, and should be %s: findings of %s at %s that name %s at %q with a fix like %q are asked for, and there are\n%s",
				brokenStates[got], f.state, f.rules, f.severity, f.library, f.where, f.fix, list)
		} else if got > want {
			rename(t, name, f.state, brokenStates[got])
		}
	}
}
