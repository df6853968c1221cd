package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/targets"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
)

var update = flag.Bool("update", false, "write what is found into the images' want sections")

// TestImages scans every text image in a registry and compares the findings with its
// want section.
func TestImages(t *testing.T) {
	server := imagetest.Serve(t)
	names := texts(t)
	cache, err := layers.OpenCache(t.TempDir(), layers.DefaultCacheMax)
	if err != nil {
		t.Fatal(err)
	}
	o := scan.Options{Layers: layers.Options{Cache: cache}}
	for _, name := range names {
		t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) {
			parsed, ref := pushText(t, server, name)
			o := o
			o.Machines = machinesIn(t, parsed)
			doc, err := scan.Image(t.Context(), ref, o)
			if err != nil {
				t.Fatal(err)
			}
			rescan(t, server, ref, o, doc)
			got, patched := wantText(doc.Findings), planned(t, ref, parsed, doc.Plan)
			if want, then := parsed.Sections["want"], parsed.Sections["want-patched"]; got != want || patched != then {
				if *update {
					if patched != "" {
						got += "-- want-patched --\n" + patched
					}
					rewrite(t, name, got)
					return
				}
				t.Errorf("findings differ (-want +got):\n%s", cmp.Diff(want, got))
				t.Errorf("the plan differs (-want +got):\n%s", cmp.Diff(then, patched))
			}
		})
	}
}

// TestEveryRuleHasAnImage checks that every rule is found in an image.
func TestEveryRuleHasAnImage(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	names := texts(t)
	found := map[string]bool{}
	for _, name := range names {
		data, err := images.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := imagetest.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(parsed.Sections["want"]) {
			if words := strings.Fields(line); len(words) > 1 {
				found[words[1]] = true
			}
		}
	}
	for _, r := range set.Rules {
		if !found[r.ID] {
			t.Errorf("no image in testdata/images has the rule %s in its want section", r.ID)
		}
	}
}

// texts returns the names of the text images.
func texts(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(images.FS, "*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no test images: %v", err)
	}
	return names
}

// machinesIn returns the machines of a text's section of that name, one a line.
func machinesIn(t *testing.T, parsed *imagetest.Image) (list []targets.Machine) {
	t.Helper()
	for line := range strings.Lines(parsed.Sections["machines"]) {
		m, err := targets.Known().ParseMachine(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// wantText formats findings for a want section: a line for each, and the evidence under
// errors and warnings.
func wantText(findings []lint.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s %s\n", f.Severity, f.Rule, f.Message)
		if f.Severity == packs.Note {
			continue
		}
		if f.Demangled != "" {
			fmt.Fprintf(&b, "  symbol %s\n", f.Demangled)
		}
		for _, e := range f.Effects {
			fmt.Fprintf(&b, "  so %s\n", e.Text)
		}
		for _, n := range f.NeededBy {
			fmt.Fprintf(&b, "  needed by %s\n", n.Path)
			if n.Layer != nil {
				fmt.Fprintf(&b, "    from layer %d: %s\n", n.Layer.Index, n.Layer.CreatedBy)
			}
		}
		if f.BoundTo != nil {
			fmt.Fprintf(&b, "  asked %s\n", f.BoundTo.Path)
		}
		for _, p := range f.Present {
			fmt.Fprintf(&b, "  present at %s\n", p.Path)
		}
		for _, p := range f.Others {
			fmt.Fprintf(&b, "  there is %s\n", p.Path)
		}
		for _, r := range f.Removed {
			fmt.Fprintf(&b, "  deleted %s by layer %d: %s\n", r.Path, r.By.Index, r.By.CreatedBy)
		}
		for _, x := range f.Fixes {
			fmt.Fprintf(&b, "  fix %s\n", x)
		}
		if len(f.Affected) > len(f.NeededBy) {
			fmt.Fprintf(&b, "  affects %d files\n", len(f.Affected))
		}
	}
	return b.String()
}

func rewrite(t *testing.T, name, want string) {
	t.Helper()
	data, err := images.FS.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(data), "-- want --\n")
	if !ok {
		t.Fatalf("%s has no want section", name)
	}
	file := filepath.Join("..", "..", "testdata", "images", name)
	if err := os.WriteFile(file, []byte(head+"-- want --\n"+want), 0o644); err != nil {
		t.Fatal(err)
	}
}
