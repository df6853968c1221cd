package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/fix"
)

// TestPlan shows the steps, what they resolve, what resolves less, and what stays. It
// shows nothing of a plan without steps.
func TestPlan(t *testing.T) {
	p := &fix.Plan{Command: "imgcheck patch a -t NEWREF", Outcomes: []fix.Outcome{
		{Message: "libcudnn.so.9: gone", Of: 1094, Resolves: 1094, Tried: []fix.Attempt{{Text: "a search path alone"}, {Text: "x", Resolves: 7, Why: "breaks /y\x1b[0m"}}},
		{Message: "libz.so: stays", Of: 1, Why: "nothing helps"},
	}, Behind: []fix.Behind{{Message: "/t.so: undefined symbol: y"}}}
	text := func(all bool) string {
		var b bytes.Buffer
		if err := Plan(&b, &Document{Plan: p}, Options{All: all}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := text(false); got != "" {
		t.Errorf("without steps: %q", got)
	}
	p.Truncated, p.Trials = true, 24
	if got := text(false); !strings.HasPrefix(got, "patch  the search stopped after 24 changed images;") {
		t.Errorf("without steps, at the bound: %q", got)
	}
	for i := range 8 {
		p.Steps = append(p.Steps, fix.Step{Text: "step " + string(rune('a'+i)), StandIn: i == 0, License: strings.Repeat("L", i%2), Doubt: strings.Repeat("?", i/7)})
	}
	got := text(false)
	for _, want := range []string{
		"patch  would resolve 1 of 2 findings", "change     step a\n", "with an empty library", "it comes under the L,", "… 2 more (--all shows them)",
		"resolves   1,094 of 1,094 files: libcudnn.so.9: gone\n", "a search path alone resolves 0 of 1,094\n", "x resolves 7 of 1,094, but breaks /y�[0m\n",
		"leaves     libz.so: stays\n", "nothing helps\n", "shows then /t.so: undefined symbol: y\n", "bound      the search stopped after 24 changed images", "run        imgcheck patch a -t NEWREF\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if all := text(true); !strings.Contains(all, "step h") || !strings.Contains(all, "?") {
		t.Errorf("not all:\n%s", all)
	}
}
