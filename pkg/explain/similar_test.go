package explain

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/rules"
)

// learned returns an explainer that knows the reports.
func learned(t testing.TB) *Explainer {
	t.Helper()
	x := explainer(t)
	if err := x.ReadReports(rules.FS); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestSimilar keeps the share of texts whose class the other reports tell, without any pattern: those of the text's file and of
// its thread are left out.
func TestSimilar(t *testing.T) {
	x := learned(t)
	names, err := fs.Glob(rules.FS, "reports/drawn-*.jsonl")
	if err != nil || len(names) < 31 {
		t.Fatalf("%d files of reports: %v", len(names), err)
	}
	s := score{}
	for _, name := range names {
		list := drawnReports(t, strings.TrimPrefix(name, "reports/"))
		own := map[string]bool{}
		for _, d := range list {
			own[d.Text], own["source "+d.Source] = true, true
		}
		leave := func(r *knownReport) bool { return own[r.Text] || r.Source != "" && own["source "+r.Source] }
		for _, d := range list {
			all := slices.DeleteFunc(votes(x.reports.nearest(d.Text, leave)), func(v vote) bool { return v.class == "" })
			place := slices.IndexFunc(all, func(v vote) bool { return slices.Contains(d.Classes, v.class) })
			s.texts++
			if place == 0 {
				s.first++
			}
			if place >= 0 && place < 3 {
				s.three++
			}
		}
	}
	if t.Log(s); s.share(s.first) < 67 || s.share(s.three) < 85 {
		t.Errorf("%s", s)
	}
}

// TestSimilarQuiet reads the lines of healthy runs and of other programs, each without itself: reports never make a certain
// answer, and few of the lines that no pattern knows get one.
func TestSimilarQuiet(t *testing.T) {
	x := learned(t)
	answered, silent := 0, 0
	for _, r := range x.reports.list {
		if len(r.Classes) > 0 {
			continue
		}
		before := x.byPatterns(r.Text).Answers
		after := x.explain(r.Text, func(o *knownReport) bool { return o.Text == r.Text }).Answers
		if len(after) > 0 && after[0].Confidence == Certain && (len(before) == 0 || before[0].Confidence != Certain) {
			t.Errorf("certain: %s", r.Text)
		}
		if len(before) > 0 {
			continue
		}
		if silent++; len(after) > 0 {
			answered++
		}
	}
	t.Logf("%d of %d lines without an answer of a pattern get one", answered, silent)
	if silent < 600 || answered*4 > silent {
		t.Errorf("%d of %d lines without an answer of a pattern get one", answered, silent)
	}
}

// TestSimilarAnswers reads texts that no pattern knows, and one whose first answer stays.
func TestSimilarAnswers(t *testing.T) {
	x := learned(t)
	r := x.Explain("ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory")
	if before := x.byPatterns("ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"); r.Answers[0].Case != before.Answers[0].Case {
		t.Errorf("the first answer is %s, and was %s", r.Answers[0].Case, before.Answers[0].Case)
	}
	classes := map[string]bool{}
	for _, a := range r.Answers {
		if classes[a.Class] && a.Like != nil {
			t.Errorf("two answers of the class %s", a.Class)
		}
		classes[a.Class] = true
		if a.Like != nil && a.Confidence == Certain {
			t.Errorf("an answer by reports is %s", a.Confidence)
		}
	}
	if len(r.Answers) < 3 || len(r.Answers) > maxAnswers {
		t.Errorf("%d answers", len(r.Answers))
	}
	for _, s := range []string{"", " \n\n", "\x00\xff", strings.Repeat("a.b_", 5000)} {
		x.Explain(s)
	}
}
