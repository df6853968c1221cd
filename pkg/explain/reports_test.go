package explain

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
)

func explainer(t testing.TB) *Explainer {
	t.Helper()
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	x, err := New(set)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// report is a real report: its text, and the class of its cause.
type report struct{ Text, Class, Source string }

func reports(t testing.TB) []report {
	t.Helper()
	f, err := os.Open("testdata/reports.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []report
	for s := bufio.NewScanner(f); s.Scan(); {
		var r report
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// TestReports checks real reports. Reports of different causes have the same words, so no
// order of cases is right for all of them; the test keeps the share that was reached.
func TestReports(t *testing.T) {
	x := explainer(t)
	list := reports(t)
	first, three := 0, 0
	for _, r := range list {
		var got []string
		for i, a := range x.Explain(r.Text).Answers {
			if i < 3 {
				got = append(got, a.Class)
			}
		}
		place := slices.Index(got, r.Class)
		if place == 0 {
			first++
		} else {
			t.Logf("%s: %s is at %d of %q: %.100q", r.Source, r.Class, place, got, r.Text)
		}
		if place >= 0 {
			three++
		}
	}
	t.Logf("%d reports: %.1f %% by the first answer, %.1f %% by the first three", len(list), 100*float64(first)/float64(len(list)), 100*float64(three)/float64(len(list)))
	if len(list) < 200 || first*100 < 82*len(list) || three*100 < 98*len(list) {
		t.Errorf("%d of %d reports by the first answer, %d by the first three", first, len(list), three)
	}
}
