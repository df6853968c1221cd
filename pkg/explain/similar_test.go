package explain

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

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
		list := lines[drawn](t, strings.TrimPrefix(name, "reports/"))
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

// TestSimilarInLog finds the last error of a long log, and its line.
func TestSimilarInLog(t *testing.T) {
	x := learned(t)
	report := x.reports.list[slices.IndexFunc(x.reports.list, func(r knownReport) bool {
		return len(r.Classes) == 1 && !strings.Contains(r.Text, "\n") && strings.Contains(r.Text, "error") && len(r.Text) > 80 && len(x.byPatterns(r.Text).Answers) > 0
	})]
	log := strings.Repeat("step: loading the next batch of pictures\n", 1000) + report.Text + "\n" + strings.Repeat("bye\n", 200)
	part, at := excerpt(log)
	if !strings.HasSuffix(part, report.Text) || len(part) > maxWords || at == 0 || log[at-1] != '\n' {
		t.Errorf("%d bytes from %d: …%q", len(part), at, part[max(0, len(part)-100):])
	}
	if h := x.likestLine(log, report.Text); h.line != 1001 || !strings.HasPrefix(log[h.at:], report.Text) {
		t.Errorf("line %d: %.80q", h.line, log[h.at:])
	}
	for _, s := range []string{strings.Repeat("x", 3*maxWords), strings.Repeat("error ", maxWords), strings.Repeat("\n", 2*maxWords), "error" + strings.Repeat(" ", 2*maxWords)} {
		if part, at := excerpt(s); len(part) > maxWords || at+len(part) > len(s) {
			t.Errorf("%d bytes from %d of %d", len(part), at, len(s))
		}
		x.Explain(s)
	}
}

// FuzzSimilar states that reports leave the first answer of the patterns, and add no case twice, no line that the text does not
// have, and nothing certain.
func FuzzSimilar(f *testing.F) {
	x := learned(f)
	for _, r := range x.reports.list[:200] {
		f.Add(r.Text)
	}
	f.Add(strings.Repeat("error: out of memory\n", 400))
	f.Add("\x00\xff error\v_.0._")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<14 {
			return
		}
		before, after := x.byPatterns(s).Answers, x.Explain(s).Answers
		if len(after) < len(before) && len(after) < maxAnswers || len(after) > maxAnswers {
			t.Fatalf("%d answers, and %d with reports", len(before), len(after))
		}
		if len(before) > 0 && before[0].Case != after[0].Case {
			t.Fatalf("first %s, and %s with reports", before[0].Case, after[0].Case)
		}
		lines, seen := strings.Count(s, "\n")+1, map[string]bool{}
		for _, a := range after {
			known := slices.ContainsFunc(before, func(b Answer) bool { return b.Case == a.Case })
			if seen[a.Case] || a.Line < 1 || a.Line > lines || !utf8.ValidString(a.Text) || !known && (a.Confidence != Possible || a.Like == nil && len(a.Text) == 0) {
				t.Fatalf("of %d lines: %+v", lines, a)
			}
			seen[a.Case] = true
		}
	})
}
