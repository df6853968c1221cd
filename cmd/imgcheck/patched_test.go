package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestPatched patches every text image that can be patched, publishes it, and scans the
// published image: the findings are those that the plan predicted. An image takes
// libraries from the texts of testdata/images/from that its from section names; without
// that section, a plan that adds a library cannot be carried out.
func TestPatched(t *testing.T) {
	names := texts(t)
	patched := 0
	for _, name := range names {
		t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) {
			parsed, ref := shelfText(t, name)
			then, ok := foretold(parsed)
			if !ok {
				return
			}
			patched++
			args := []string{"imgcheck", "patch", ref, "-t", ref + "-fixed", "--accept-nvidia-license"}
			for _, dir := range sourcesOf(t, parsed) {
				args = append(args, "--from", "dir:"+dir)
			}
			machines := machinesIn(t, parsed)
			for _, m := range machines {
				args = append(args, "--gpu", m.Text())
			}
			var out, errs bytes.Buffer
			if status := run(context.Background(), args, &out, &errs); status != exitOK {
				t.Fatalf("exit status %d: %s", status, errs.String())
			}
			doc, err := scan.Image(context.Background(), ref+"-fixed", scan.Options{Machines: machines})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(then, briefly(doc.Findings)); diff != "" {
				t.Errorf("the published image is not what was planned (-want +got):\n%s", diff)
			}
		})
	}
	if patched == 0 {
		t.Error("no image was patched")
	}
}

// foretold returns the findings that the plan predicts; ok is false if the plan cannot
// be carried out.
func foretold(parsed *imagetest.Image) (then string, ok bool) {
	plan, then, ok := strings.Cut(parsed.Sections["want-patched"], "then\n")
	return then, ok && !strings.Contains(plan, "from nowhere")
}

// sourcesOf unpacks the texts that the from section names.
func sourcesOf(t *testing.T, parsed *imagetest.Image) []string {
	t.Helper()
	var dirs []string
	for _, name := range strings.Fields(parsed.Sections["from"]) {
		data, err := images.Text("from/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		text, err := imagetest.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := text.Unpack(dir); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// planned returns the plan of a scan or, if the image has sources of libraries, patch's
// plan with them or the reason why patch refuses.
func planned(t *testing.T, ref string, parsed *imagetest.Image, plan *fix.Plan) string {
	t.Helper()
	dirs := sourcesOf(t, parsed)
	if len(dirs) == 0 {
		return patchedText(plan)
	}
	p := &patching{ref: ref, dry: true, out: io.Discard, errs: io.Discard, progress: newProgress(io.Discard, true, false)}
	defer p.done()
	for _, d := range dirs {
		p.from = append(p.from, "dir:"+d)
	}
	sources, err := provide.Open(context.Background(), p.from, provide.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sources.Close()
	base, err := patch.OpenBase(context.Background(), ref, patch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.plan(context.Background(), base.Images[0], sources)
	if errors.As(err, new(errRefused)) {
		return "refused: " + strings.TrimPrefix(err.Error(), ref+": ") + "\n"
	}
	if err != nil {
		t.Fatal(err)
	}
	text := patchedText(w.plan)
	for _, d := range dirs {
		text = strings.ReplaceAll(text, filepath.Dir(d)+"/", "")
	}
	return text
}

// patchedText formats a plan for a want-patched section: its steps, the result for each
// finding, and the findings after the steps. An image without a plan has no such
// section, or a line with the reason.
func patchedText(p *fix.Plan) string {
	if p == nil || len(p.Steps) == 0 {
		return ""
	}
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprint(&b, s.Text)
		if s.StandIn {
			b.WriteString(" from nowhere")
		}
		b.WriteString("\n")
		if s.Variable != "" {
			fmt.Fprintf(&b, "  %s=%s\n", s.Variable, s.Value)
		}
		for _, f := range s.Files {
			fmt.Fprintf(&b, "  %s\n", f)
		}
	}
	for _, c := range p.Outcomes {
		fmt.Fprintf(&b, "resolves %d of %d: %s\n", c.Resolves, c.Of, c.Message)
		for _, a := range c.Tried {
			fmt.Fprintf(&b, "  tried %s: %d of %d", a.Text, a.Resolves, c.Of)
			if a.Why != "" {
				fmt.Fprintf(&b, ", but %s", a.Why)
			}
			b.WriteString("\n")
		}
		if c.Why != "" {
			fmt.Fprintf(&b, "  %s\n", c.Why)
		}
	}
	return b.String() + "then\n" + briefly(p.After.Findings)
}

// briefly returns a line for each finding.
func briefly(findings []lint.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s %s\n", f.Severity, f.Rule, f.Message)
	}
	return b.String()
}
