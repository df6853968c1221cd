package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// TestInImage adds an image's findings to the answers: findings about the same library
// come first, and a rule that the text alone does not suggest is added.
func TestInImage(t *testing.T) {
	x := explainer(t)
	text := "ImportError: libcublas.so.12: cannot open shared object file: No such file or directory"
	offPath := lint.Finding{
		Rule: "library-not-on-path", Severity: packs.Error, Library: "libcublas.so.12", Message: "libcublas.so.12: cannot open shared object file",
		NeededBy: []replay.File{{Path: "/app/x.so"}},
	}
	other := offPath
	other.Library, other.Message = "libcufft.so.11", "libcufft.so.11: cannot open shared object file"
	link := lint.Finding{Rule: "missing-link", Severity: packs.Warning, Library: "libcublas.so.12", Message: "libcublas.so.12: cannot open"}

	for _, c := range []struct {
		findings []lint.Finding
		first    string
		sure     Confidence
		shown    int // answers that the image confirms
	}{
		{nil, "missing-library", Possible, 0},
		{[]lint.Finding{other}, "missing-library", Possible, 0},
		{[]lint.Finding{other, offPath}, "library-not-on-path", Certain, 1},
		{[]lint.Finding{link}, "missing-link", Likely, 1},
		{[]lint.Finding{link, offPath}, "library-not-on-path", Certain, 2},
	} {
		r := x.Explain(text)
		x.InImage(r, "app", c.findings)
		a := r.Answers[0]
		shown := len(slices.DeleteFunc(slices.Clone(r.Answers), func(a Answer) bool { return len(a.InImage) == 0 }))
		if c.shown > 0 && (r.Apart != "" || !slices.Contains(r.RuledOut, "missing-library")) || c.shown == 0 && len(r.RuledOut) > 0 {
			t.Errorf("left out %q, apart %q", r.RuledOut, r.Apart)
		}
		if a.Case != c.first || a.Confidence != c.sure || shown != c.shown || len(r.Answers) > maxAnswers {
			t.Errorf("got %s %s, %d shown of %v; want %s %s, %d", a.Confidence, a.Case, shown, caseIDs(r), c.sure, c.first, c.shown)
		}
	}
	// A file that was not examined may have the other causes.
	r := x.Explain(text)
	x.InImage(r, "app", []lint.Finding{offPath, {Rule: "not-examined", Severity: packs.Note}})
	if len(r.RuledOut) > 0 || len(r.Answers) < 3 {
		t.Errorf("left out %q of %v", r.RuledOut, caseIDs(r))
	}
	// The image's own fix comes before the rule's.
	offPath.Fixes = []string{"ENV LD_LIBRARY_PATH=/x"}
	r = x.Explain(text)
	x.InImage(r, "app", []lint.Finding{offPath})
	var b strings.Builder
	if err := r.Text(&b, 0); err != nil || !strings.Contains(b.String(), "\n  fix        ENV LD_LIBRARY_PATH=/x\n") || !strings.Contains(b.String(), "left out") {
		t.Errorf("%v:\n%s", err, b.String())
	}
	r = x.Explain("nothing that is known")
	x.InImage(r, "app", []lint.Finding{offPath})
	if len(r.Answers) != 0 {
		t.Errorf("a text that is not known has the answers %v", caseIDs(r))
	}
}
