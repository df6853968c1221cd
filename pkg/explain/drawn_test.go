package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// drawn is a text of a report that was drawn after the patterns had been written: a title
// or a line that somebody pasted. Classes are those that its thread shows; several, if the
// thread leaves them open.
type drawn struct {
	Text, Source string
	Classes      []string
}

// score counts the places of the right classes among the answers to texts.
type score struct{ texts, first, three, none int }

func (s score) String() string {
	return fmt.Sprintf("%d texts: first %.1f %%, among three %.1f %%, no answer %.1f %%", s.texts, s.share(s.first), s.share(s.three), s.share(s.none))
}

func (s score) share(n int) float64 { return 100 * float64(n) / float64(s.texts) }

// count counts the answers to a text, of which the one at place is right; -1 if none is.
func (s *score) count(answers []Answer, place int) {
	switch {
	case len(answers) == 0:
		s.none++
	case place == 0:
		s.first++
	}
	if place >= 0 && place < 3 {
		s.three++
	}
}

// mark explains texts by the patterns and compares the answers' classes with those of the threads.
func mark(t *testing.T, x *Explainer, list []drawn) score {
	t.Helper()
	s := score{texts: len(list)}
	for _, d := range list {
		answers := x.byPatterns(d.Text).Answers
		place := slices.IndexFunc(answers, func(a Answer) bool { return slices.Contains(d.Classes, a.Class) })
		s.count(answers, place)
		if place != 0 {
			var got []string
			for _, a := range answers {
				got = append(got, a.Class)
			}
			t.Logf("%s: %q is at %d of %q: %.160q", d.Source, d.Classes, place, got, d.Text)
		}
	}
	return s
}

// TestDrawn keeps the share of right answers. An answer is right if its class is one of the
// thread's.
func TestDrawn(t *testing.T) {
	x := explainer(t)
	for _, c := range []struct {
		name               string
		first, three, none float64 // percent: floors, and a ceiling
	}{
		{"drawn-1.jsonl", 92, 99, 0},
		{"drawn-2.jsonl", 93, 99, 0},
		{"drawn-3.jsonl", 90, 95, 0},
		{"drawn-4.jsonl", 91, 95, 0},
		{"drawn-5.jsonl", 86, 98, 0},
		{"drawn-6.jsonl", 87, 99, 0},
		{"drawn-7.jsonl", 97, 99, 0},
		{"drawn-8.jsonl", 95, 98, 0},
		{"drawn-9.jsonl", 85, 96, 0},
		{"drawn-10.jsonl", 86, 95, 0},
		{"drawn-11.jsonl", 92, 97, 0},
		{"drawn-12.jsonl", 86, 97, 0},
		{"drawn-13.jsonl", 87, 95, 0},
		{"drawn-14.jsonl", 90, 96, 0},
		{"drawn-15.jsonl", 95, 99, 0},
		{"drawn-16.jsonl", 90, 99, 0},
		{"drawn-17.jsonl", 96, 98, 0},
		{"drawn-18.jsonl", 91, 97, 0},
		{"drawn-19.jsonl", 94.5, 99, 0},
		{"drawn-20.jsonl", 91, 97, 0},
		{"drawn-21.jsonl", 96, 98, 0},
		{"drawn-22.jsonl", 96, 99, 0},
		{"drawn-23.jsonl", 93, 99, 0},
		{"drawn-24.jsonl", 96, 99, 0},
		{"drawn-25.jsonl", 98, 99, 0},
		{"drawn-26.jsonl", 97, 99, 0},
		{"drawn-27.jsonl", 96, 96, 3},
		{"drawn-28.jsonl", 80, 95, 0},
		{"drawn-29.jsonl", 95, 99, 0},
		{"drawn-30.jsonl", 99, 99, 0},
		{"drawn-31.jsonl", 90, 97, 3},
		{"drawn-32.jsonl", 75, 82, 6},
		{"drawn-33.jsonl", 85, 92, 0},
		{"drawn-34.jsonl", 84, 92, 1},
		{"drawn-35.jsonl", 88, 96, 0},
		{"practice-1.jsonl", 98, 98, 0},
		{"practice-2.jsonl", 93, 94, 2},
		{"practice-3.jsonl", 97, 100, 0},
		{"practice-4.jsonl", 93, 97, 0},
		{"practice-5.jsonl", 82, 97, 0},
		{"practice-6.jsonl", 90, 96, 0},
	} {
		s := mark(t, x, lines[drawn](t, c.name))
		t.Logf("%s: %s", c.name, s)
		if s.texts < 18 || s.share(s.first) < c.first || s.share(s.three) < c.three || s.share(s.none) > c.none {
			t.Errorf("%s: %s", c.name, s)
		}
	}
}

// TestQuiet reads lines of logs, of prose and of other domains: none has a certain answer,
// and few have any.
func TestQuiet(t *testing.T) {
	x := explainer(t)
	texts := strings.Split(strings.TrimSpace(read(t, "innocent-2.log")), "\n")
	if len(texts) < 200 {
		t.Errorf("%d innocent lines", len(texts))
	}
	others := lines[struct{ Text string }](t, "lookalikes-2.jsonl")
	if len(others) < 40 {
		t.Errorf("%d texts of other domains", len(others))
	}
	for _, o := range others {
		texts = append(texts, o.Text)
	}
	reported := lines[drawn](t, "innocent-3.jsonl")
	if len(reported) < 60 {
		t.Errorf("%d innocent lines of reports", len(reported))
	}
	healthy := lines[drawn](t, "innocent-4.jsonl")
	if len(healthy) < 75 {
		t.Errorf("%d lines of healthy runs", len(healthy))
	}
	gathered := lines[drawn](t, "innocent-5.jsonl")
	if len(gathered) < 75 {
		t.Errorf("%d lines of logs around an error", len(gathered))
	}
	for _, r := range slices.Concat(reported, healthy, gathered) {
		texts = append(texts, r.Text)
	}
	answered := 0
	for _, text := range texts {
		r := x.Explain(text)
		if len(r.Answers) == 0 {
			continue
		}
		answered++
		t.Logf("%s %s: %s", r.Answers[0].Confidence, r.Answers[0].Case, text)
		if r.Answers[0].Confidence == Certain {
			t.Errorf("certain: %s", text)
		}
	}
	t.Logf("%d of %d have an answer", answered, len(texts))
	if answered*8 > len(texts) {
		t.Errorf("%d of %d have an answer", answered, len(texts))
	}
}

// TestDrawnQuiet reads lines of healthy runs, and lines of other domains that resemble errors of
// GPU images, drawn in three rounds without a look at the patterns. None has a certain answer.
func TestDrawnQuiet(t *testing.T) {
	x := explainer(t)
	type line struct{ Text, Kind string }
	list := slices.Concat(lines[line](t, "innocent-6.jsonl"), lines[line](t, "innocent-7.jsonl"), lines[line](t, "innocent-8.jsonl"))
	if len(list) < 240 {
		t.Errorf("%d texts", len(list))
	}
	answered := map[string]int{}
	for _, l := range list {
		answers := x.Explain(l.Text).Answers
		if len(answers) == 0 || answers[0].Class == "benign-message" {
			continue
		}
		answered[l.Kind]++
		t.Logf("%s: %s %s: %.200s", l.Kind, answers[0].Confidence, answers[0].Case, l.Text)
		if answers[0].Confidence == Certain {
			t.Errorf("certain: %s", l.Text)
		}
	}
	t.Logf("with an answer: %v", answered)
	if answered["healthy"] > 5 || answered["lookalike"] > 37 {
		t.Errorf("with an answer: %v", answered)
	}
}

// TestWritten explains texts in the words of real ones: the class is the first.
func TestWritten(t *testing.T) {
	x := explainer(t)
	for _, c := range []struct{ class, text string }{
		{"framework-pair-mismatch", "RuntimeError: Unable to initialize backend 'cuda': INVALID_ARGUMENT: Mismatched PJRT plugin PJRT API version (0.61) and framework PJRT API version 0.58)."},
		{"framework-pair-mismatch", "INVALID_ARGUMENT: Unexpected PJRT_Client_Create_Args size: expected 96, got 88. This plugin is built with PJRT API version 0.66."},
		{"model-code", "RuntimeError: rnn: hx is not contiguous"},
		{"benign-message", "UserWarning: RNN module weights are not part of single contiguous chunk of memory."},
		{"stub-in-path", "Mapped libcuda.so paths:\n  /usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libcuda.so"},
		{"musl", "libdl.so.2 => /lib/ld-musl-x86_64.so.1 (0x7f1133500000)\nException caught: No error information"},
		{"host-setup", "node3:41:41 [0] include/socket.h:311 NCCL WARN Socket creation failed : Address family not supported by protocol"},
		{"build-time-gpu", "CUDA not available. Falling back to all architectures"},
		{"build-time-gpu", "In docker build torch prints is_available: False; there is no GPU during the build"},
	} {
		answers := x.Explain(c.text).Answers
		if len(answers) == 0 || answers[0].Class != c.class {
			t.Errorf("%q: want %s first, got %+v", c.text, c.class, answers)
		}
	}
}

// TestThreads keeps the share of texts whose thread was solved by a fix of the right answer: the cause
// and the fix are regular expressions that were written before the answers were seen.
func TestThreads(t *testing.T) {
	x := explainer(t)
	list := lines[struct{ Source, Text, Cause, Fix string }](t, "threads.jsonl")
	s := score{texts: len(list)}
	for _, d := range list {
		cause, fix := regexp.MustCompile(d.Cause), regexp.MustCompile(d.Fix)
		answers := x.Explain(d.Text).Answers
		place := slices.IndexFunc(answers, func(a Answer) bool {
			return cause.MatchString(strings.Join(append([]string{a.Title, a.Doc}, a.Causes...), " ")) && slices.ContainsFunc(a.Fixes, fix.MatchString)
		})
		s.count(answers, place)
		if place != 0 {
			t.Logf("%s: at %d of %q: %.160q", d.Source, place, caseIDs(&Result{Answers: answers}), d.Text)
		}
	}
	t.Log(s)
	if s.share(s.first) < 95 || s.share(s.three) < 96 || s.none > 0 {
		t.Errorf("%s", s)
	}
}
