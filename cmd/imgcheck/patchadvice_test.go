package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/report"
)

// TestDryRunSaysWhatScanSays compares the advice of `patch --dry-run` with that of a scan for
// every text image, and the exit status of patch with the scan's plan. It leaves out a scan that
// reached its limit of changes: patch tries more.
func TestDryRunSaysWhatScanSays(t *testing.T) {
	planned, clean, refused := 0, 0, 0
	for _, name := range texts(t) {
		_, ref := shelfText(t, name)
		doc := scanOf(t, name, false)
		if doc.Plan != nil && doc.Plan.Truncated {
			continue
		}
		var out, errs, want bytes.Buffer
		status := run(t.Context(), []string{"imgcheck", "patch", ref, "--dry-run", "--config", "none"}, &out, &errs)
		if err := report.Fix(&want, doc, report.Options{}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), want.String()) || want.Len() == 0 && strings.Contains(out.String(), "fix: ") {
			t.Errorf("%s: scan says\n%spatch says\n%s", name, want.String(), out.String())
		}
		wanted := exitOK
		switch {
		case doc.Plan == nil:
			clean++
			if !strings.HasPrefix(errs.String(), "nothing to do: ") {
				t.Errorf("%s: a clean image: %s", name, errs.String())
			}
		case len(doc.Plan.Steps) == 0:
			refused++
			wanted = exitFindings
		default:
			planned++
		}
		if status != wanted {
			t.Errorf("%s: exit status %d, want %d: %s", name, status, wanted, errs.String())
		}
	}
	if planned < 50 || clean < 50 || refused < 50 {
		t.Errorf("only %d images with a plan, %d without findings, %d that no change helps", planned, clean, refused)
	}
}
