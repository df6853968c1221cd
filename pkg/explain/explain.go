// Package explain tells what an error text means: a line that somebody pastes, or
// a whole log.
//
// What it knows are the packs: the patterns of the rules, and the cases and texts
// of rules/explain.yaml. A line is held against all patterns; those that fit give
// cases, the likeliest first, each with what would confirm it. Of a log the first
// line with a cause of its own decides, and lines that only follow from another
// error come after it.
//
// The package does not know any image, and it does not guess: a text that no
// pattern fits has no answer. The same words stand in reports of different causes
// (a library that is not found may be missing, or off the path, or of another
// CUDA), so that the first answer is often right and not always.
package explain

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/ianlancetaylor/demangle"

	"github.com/imgcheck/imgcheck/pkg/lint"
)

// Schema names the form of a Result in JSON.
const Schema = "imgcheck.explain/1"

// Result is what is known of a text.
type Result struct {
	Schema string `json:"schema"`
	// Image is the one whose findings were put beside the answers, if any.
	Image string `json:"image,omitempty"`
	// Answers are what it may come from, the likeliest first; none when the text
	// is not known.
	Answers []Answer `json:"answers"`
	// Nearest are patterns that are like a text that is not known. They are no
	// answers.
	Nearest []string `json:"nearest,omitempty"`
}

// Answer is one case that a text may come from.
type Answer struct {
	// Case is the ID of a case of the packs, Rule of the rule that finds it in an
	// image, empty when none does.
	Case string `json:"case"`
	Rule string `json:"rule,omitempty"`
	// Class is one of the taxonomy of reports: missing-library, driver-too-old.
	Class      string     `json:"class"`
	Title      string     `json:"title"`
	Confidence Confidence `json:"confidence"`
	// Visible says whether an image shows it: yes, partly or no.
	Visible string `json:"visible_in_image"`
	// Line is the number of the line, from 1, and Text the line.
	Line     int               `json:"line"`
	Text     string            `json:"text"`
	Captures map[string]string `json:"captures,omitempty"`
	Doc      string            `json:"doc,omitempty"`
	Causes   []string          `json:"causes,omitempty"`
	Confirm  string            `json:"confirm,omitempty"`
	Fixes    []string          `json:"fixes,omitempty"`
	Sources  []string          `json:"sources,omitempty"`
	// InImage are the findings in the image that say the same.
	InImage []Found `json:"in_image,omitempty"`
}

// Confidence is how sure an answer is.
type Confidence string

// An answer is certain when the text has one meaning, likely when it is the one
// that most reports of the text turned out to be, possible otherwise.
const (
	Certain  Confidence = "certain"
	Likely   Confidence = "likely"
	Possible Confidence = "possible"
)

// Limits on an answer.
const (
	maxAnswers = 5
	maxOfLine  = 3   // of one line, where others have something to say
	maxHits    = 16  // of one pattern
	maxLine    = 400 // bytes of a line that is shown
)

// Explainer holds the packs' patterns, ready to be matched. It may be used by
// several at a time.
type Explainer struct {
	packs  *lint.Packs
	texts  []text
	cases  map[string]*lint.Case
	weight map[string]float64 // of words, for nearest
}

// text is one of the packs' texts.
type text struct {
	*lint.ErrorText
	patterns []*pattern
}

// New prepares the packs. It is an error when a text names a case that there is
// not, or a case a rule.
func New(packs *lint.Packs) (*Explainer, error) {
	x := &Explainer{packs: packs, cases: map[string]*lint.Case{}}
	for _, c := range packs.Cases {
		if x.cases[c.ID] != nil {
			return nil, fmt.Errorf("case %q is there twice", c.ID)
		}
		whole := *c
		if c.Rule != "" {
			r := packs.Rule(c.Rule)
			if r == nil {
				return nil, fmt.Errorf("case %q: there is no rule %q", c.ID, c.Rule)
			}
			whole.Title, whole.Doc = cmp.Or(c.Title, r.Title), cmp.Or(c.Doc, r.Doc)
			if len(c.Fix) == 0 {
				whole.Fix = r.Fix
			}
			if len(c.Sources) == 0 {
				whole.Sources = r.Sources
			}
		}
		x.cases[c.ID] = &whole
	}
	for _, t := range packs.Texts {
		for _, id := range t.Cases {
			if x.cases[id] == nil {
				return nil, fmt.Errorf("text %q: there is no case %q", t.Patterns[0], id)
			}
		}
		x.add(t)
	}
	for _, r := range packs.Rules { // how a rule says that it reads
		own := slices.DeleteFunc(slices.Clone(r.Patterns), func(p string) bool { return x.ranks(p, r.ID) })
		if len(own) > 0 {
			x.add(&lint.ErrorText{Patterns: own, Cases: []string{x.caseOf(r)}})
		}
	}
	x.weight = x.weights()
	return x, nil
}

func (x *Explainer) add(t *lint.ErrorText) {
	one := text{ErrorText: t}
	for _, p := range t.Patterns {
		if parsed := newPattern(p); len(parsed.anchor) >= 6 { // less says nothing
			one.patterns = append(one.patterns, parsed)
		}
	}
	x.texts = append(x.texts, one)
}

// ranks reports whether the packs' texts have a pattern and say where a rule
// stands among its causes.
func (x *Explainer) ranks(pattern, rule string) bool {
	return slices.ContainsFunc(x.texts, func(t text) bool {
		return len(t.Where) == 0 && slices.Contains(t.Patterns, pattern) &&
			slices.ContainsFunc(t.Cases, func(id string) bool { return x.cases[id].Rule == rule })
	})
}

// caseOf is the case of a rule's own name, made when the packs have none.
func (x *Explainer) caseOf(r *lint.Rule) string {
	if x.cases[r.ID] == nil {
		x.cases[r.ID] = &lint.Case{ID: r.ID, Rule: r.ID, Class: r.ID, Title: r.Title, Doc: r.Doc, Visible: "yes", Fix: r.Fix, Sources: r.Sources, Confirm: "`imgcheck scan IMAGE` reports " + r.ID}
	}
	return r.ID
}

// hit is a place where a text of the packs fits.
type hit struct {
	tier, line, order int
	at                int
	text              *text
	captures          map[string]string
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")

// Explain tells what a text of one or more lines means.
func (x *Explainer) Explain(s string) *Result {
	if strings.Contains(s, "\x1b") {
		s = escapes.ReplaceAllString(s, "")
	}
	r := &Result{Schema: Schema, Answers: []Answer{}}
	hits := x.hits(s)
	several := slices.ContainsFunc(hits, func(h hit) bool { return h.line != hits[0].line })
	seen, ofLine := map[string]bool{}, map[int]int{}
	take := func(key func(*lint.Case) string) {
		for _, h := range hits {
			for i, id := range h.text.Cases {
				c := x.cases[id]
				if seen[key(c)] || len(r.Answers) == maxAnswers || several && ofLine[h.line] == maxOfLine {
					continue
				}
				seen[c.Class], seen["case "+c.ID] = true, true
				ofLine[h.line]++
				r.Answers = append(r.Answers, x.answer(c, h, s, confidence(h.text, i == 0 && len(r.Answers) == 0)))
			}
		}
	}
	// One of each class first, then what else may be.
	take(func(c *lint.Case) string { return c.Class })
	take(func(c *lint.Case) string { return "case " + c.ID })
	if len(hits) == 0 {
		r.Nearest = x.nearest(s)
	}
	return r
}

func confidence(t *text, first bool) Confidence {
	switch {
	case !first || t.Symptom:
		return Possible
	case t.Certain:
		return Certain
	}
	return Likely
}

// hits are the places where texts fit: causes before what follows from them, in
// the order of the lines, of one line the more special text first.
func (x *Explainer) hits(s string) []hit {
	low := lower(s)
	in := newGrams(low)
	var list []hit
	for i := range x.texts {
		t := &x.texts[i]
		for _, p := range t.patterns {
			if !in.may(p.anchor) {
				continue
			}
			n := 0
			p.each(s, low, func(at int, captures map[string]string) bool {
				if !t.allows(captures) {
					return true
				}
				list = append(list, hit{tier: x.tier(t), order: i, at: at, text: t, captures: captures})
				n++
				return n < maxHits
			})
		}
	}
	slices.SortStableFunc(list, func(a, b hit) int { return cmp.Compare(a.at, b.at) })
	line, at := 1, 0
	for i := range list {
		line += strings.Count(s[at:list[i].at], "\n")
		at = list[i].at
		list[i].line = line
	}
	slices.SortStableFunc(list, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.line, b.line), cmp.Compare(a.order, b.order))
	})
	return list
}

// tier is 0 for a cause, 1 for what follows from one, 2 for what does not matter.
func (x *Explainer) tier(t *text) int {
	switch {
	case x.cases[t.Cases[0]].Class == "benign-message":
		return 2
	case t.Symptom:
		return 1
	}
	return 0
}

// allows reports whether captures are what the text is about.
func (t *text) allows(captures map[string]string) bool {
	for name, globs := range t.Where {
		value := captures[name]
		if !slices.ContainsFunc(globs, func(g string) bool {
			return doublestar.MatchUnvalidated(g, value) || doublestar.MatchUnvalidated(g, path.Base(value))
		}) {
			return false
		}
	}
	return true
}

func (x *Explainer) answer(c *lint.Case, h hit, s string, sure Confidence) Answer {
	begin := strings.LastIndexByte(s[:h.at], '\n') + 1
	line := s[begin:]
	if i := strings.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	if len(line) > maxLine { // what fits, and what is around it
		from := max(0, min(h.at-begin-maxLine/4, len(line)-maxLine))
		line = line[from : from+maxLine]
	}
	if len(h.captures) == 0 {
		h.captures = nil
	}
	if symbol := h.captures["symbol"]; symbol != "" {
		if name := demangle.Filter(symbol); name != symbol {
			h.captures["demangled"] = name
		}
	}
	return Answer{
		Case: c.ID, Rule: c.Rule, Class: c.Class, Title: c.Title, Confidence: sure, Visible: c.Visible, Line: h.line,
		Text: strings.ToValidUTF8(strings.TrimSpace(line), "\uFFFD"), Captures: valid(h.captures),
		Doc: strings.TrimSpace(c.Doc), Causes: c.Causes, Confirm: named(h.captures).Replace(c.Confirm), Fixes: x.fixes(c, h.captures), Sources: c.Sources,
	}
}

// missing is the library that a text says is missing, empty when it names none.
func missing(captures map[string]string) string {
	if library := cmp.Or(captures["library_2"], captures["library"]); library != "" {
		return path.Base(library)
	}
	return ""
}

// named puts what a text names into a case's words.
func named(captures map[string]string) *strings.Replacer {
	library := cmp.Or(missing(captures), "NAME")
	name, _, _ := strings.Cut(library, ".so")
	return strings.NewReplacer("{missing}", library, "{name}", name)
}

// fixes are those of a case. What the packs know of the very library or symbol takes
// the place of what is said of all.
func (x *Explainer) fixes(c *lint.Case, captures map[string]string) []string {
	if fix := x.packs.SymbolFix(captures["symbol"]); fix != "" && c.Class == "undefined-symbol" {
		return []string{fix}
	}
	library := missing(captures)
	if c.Class == "missing-library" || c.Class == "missing-system-lib" {
		if list := x.packs.LibraryFixes(library); len(list) > 0 {
			return list
		}
	}
	var list []string
	for _, fix := range c.Fix {
		filled := named(captures).Replace(fix)
		if library != "" || filled == fix {
			list = append(list, filled)
		}
	}
	return list
}

func valid(m map[string]string) map[string]string {
	for k, v := range m {
		m[k] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return m
}

// maxNearest bounds the text that nearest looks at: it is for a line, not a log.
const maxNearest = 4 << 10

// nearest are the patterns that share most of their words with a text.
func (x *Explainer) nearest(s string) []string {
	if len(s) > maxNearest {
		return nil
	}
	have := map[string]bool{}
	for _, w := range words(s) {
		have[w] = true
	}
	type scored struct {
		text  string
		score float64
	}
	var list []scored
	for _, t := range x.texts {
		for _, p := range t.patterns {
			all, shared, n := 0.0, 0.0, 0
			for _, w := range p.words {
				all += x.weight[w]
				if have[w] {
					shared += x.weight[w]
					n++
				}
			}
			if n >= 3 && shared >= all/2 || n == 2 && shared == all {
				list = append(list, scored{p.text, shared / all})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.text, b.text)) })
	var out []string
	for _, c := range list {
		if !slices.Contains(out, c.text) && len(out) < 3 {
			out = append(out, c.text)
		}
	}
	return out
}

// weights are what words are worth: the rarer in the patterns, the more.
func (x *Explainer) weights() map[string]float64 {
	count := map[string]int{}
	n := 0
	for _, t := range x.texts {
		for _, p := range t.patterns {
			n++
			seen := slices.Sorted(slices.Values(p.words))
			for _, w := range slices.Compact(seen) {
				count[w]++
			}
		}
	}
	m := map[string]float64{}
	for w, k := range count {
		m[w] = math.Log(float64(n+1) / float64(k))
	}
	return m
}

func words(s string) []string {
	list := strings.FieldsFunc(lower(s), func(r rune) bool { return !(r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z') })
	return slices.DeleteFunc(list, func(w string) bool { return len(w) < 3 })
}
