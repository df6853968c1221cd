// Package explain finds the causes of an error text, which may be one line or a whole
// log.
//
// Its knowledge is in the packs: the patterns of the rules, and the cases and texts of
// rules/explain.yaml. It matches the text against all patterns. Those that match give
// cases, the likeliest first, each with the way to confirm it. In a log, the first line
// that has a cause of its own comes first; lines that only follow from another error, and
// lines that the program survived, come after it.
//
// Beside the patterns it knows reports: texts of threads whose cause is known. A text has the words of some of them; the
// causes of those are further answers, never more than possible ones.
//
// The package reads no image. Reports of different causes have the same words (a library that is not found
// may be missing, off the search path, or of another CUDA), so the first answer is often
// right, and not always. Where they leave several causes open, the result has the one look
// that tells them apart.
package explain

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/ianlancetaylor/demangle"
	"mvdan.cc/sh/v3/syntax"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Schema names the JSON form of a Result.
const Schema = "imgcheck.explain/1"

// Result has the answers to a text.
type Result struct {
	Schema string `json:"schema"`
	// Image is the image whose findings [Explainer.InImage] added, or "".
	Image string `json:"image,omitempty"`
	// Answers are the possible causes, the likeliest first. There are none if no pattern
	// matches.
	Answers []Answer `json:"answers"`
	// Apart says how to tell the first answers apart, if there are several.
	Apart string `json:"apart,omitempty"`
	// RuledOut are the cases that [Explainer.InImage] left out, because the image would
	// show them and does not.
	RuledOut []string `json:"ruled_out,omitempty"`
	// Nearest are patterns that resemble a text without an answer. They are not answers.
	Nearest []string `json:"nearest,omitempty"`
}

// Answer is a possible cause of a text.
type Answer struct {
	// Case is the ID of a case of the packs. Rule is the rule that finds it in an image,
	// or "" if there is none.
	Case string `json:"case"`
	Rule string `json:"rule,omitempty"`
	// Class is a class of reports: missing-library, driver-too-old.
	Class      string     `json:"class"`
	Title      string     `json:"title"`
	Confidence Confidence `json:"confidence"`
	// Visible is "yes", "partly" or "no": whether an image shows the cause.
	Visible string `json:"visible_in_image"`
	// Line is the number of the line, from 1, and Text is the line.
	Line     int               `json:"line"`
	Text     string            `json:"text"`
	Captures map[string]string `json:"captures,omitempty"`
	Doc      string            `json:"doc,omitempty"`
	Causes   []string          `json:"causes,omitempty"`
	Confirm  string            `json:"confirm,omitempty"`
	Fixes    []string          `json:"fixes,omitempty"`
	Sources  []string          `json:"sources,omitempty"`
	// Like are threads whose reports resemble the text, of an answer that was found by them.
	Like []string `json:"like,omitempty"`
	// InImage are the findings of the image that confirm the answer.
	InImage []Found `json:"in_image,omitempty"`
}

// Confidence is the confidence in an answer.
type Confidence string

// An answer is certain if the text has one meaning, likely if most reports of the text
// had this cause, and possible otherwise.
const (
	Certain  Confidence = "certain"
	Likely   Confidence = "likely"
	Possible Confidence = "possible"
)

// Limits of a result.
const (
	maxAnswers  = 5
	firstOfLine = 2   // of one line, before the other lines have had their turn
	maxOfLine   = 3   // of one line, if other lines have answers
	maxHits     = 16  // matches of one pattern
	maxLine     = 400 // bytes shown of a line
)

// Explainer has the packs' patterns, ready to be matched. Several goroutines may use it.
type Explainer struct {
	packs  *packs.Packs
	texts  []text
	cases  map[string]*packs.Case
	weight map[string]float64 // weights of words, for nearest
	// english puts the C library's messages of other languages into English.
	english *strings.Replacer
	reports *knownReports // nil before ReadReports
}

// text is one of the packs' texts.
type text struct {
	*packs.ErrorText
	patterns []*pattern
	words    [][]string // as they are in a line that is spaced
}

// New prepares the packs. It fails if a text names a case, or a case a rule, that does
// not exist.
func New(set *packs.Packs) (*Explainer, error) {
	x := &Explainer{packs: set, cases: map[string]*packs.Case{}}
	for _, c := range set.Cases {
		if x.cases[c.ID] != nil {
			return nil, fmt.Errorf("case %q is defined twice", c.ID)
		}
		whole := *c
		if c.Rule != "" {
			r := set.Rule(c.Rule)
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
	x.english = english(set.Translations)
	for _, l := range set.Looks {
		for _, id := range l.Among {
			if x.cases[id] == nil {
				return nil, fmt.Errorf("look %q: there is no case %q", l.Look, id)
			}
		}
	}
	for _, c := range set.Contexts {
		for _, id := range append([]string{c.First}, c.Over...) {
			if x.cases[id] == nil && (id != "" || c.Visible == "") {
				return nil, fmt.Errorf("context %q: there is no case %q", c.First, id)
			}
		}
	}
	if err := x.checkSurroundings(); err != nil {
		return nil, err
	}
	for _, t := range set.Texts {
		for _, id := range t.Cases {
			if x.cases[id] == nil {
				return nil, fmt.Errorf("text %q: there is no case %q", cmp.Or(strings.Join(t.Patterns[:min(1, len(t.Patterns))], ""), fmt.Sprint(t.Words)), id)
			}
		}
		x.add(t)
	}
	for _, r := range set.Rules { // the patterns of the rules themselves
		own := slices.DeleteFunc(slices.Clone(r.Patterns), func(p string) bool { return x.ranks(p, r.ID) })
		if len(own) > 0 {
			x.add(&packs.ErrorText{Patterns: own, Cases: []string{x.caseOf(r)}})
		}
	}
	x.weight = x.weights()
	return x, nil
}

func (x *Explainer) add(t *packs.ErrorText) {
	one := text{ErrorText: t}
	for _, list := range t.Words {
		var words []string
		for _, w := range list {
			words = append(words, spaced.Replace(w))
		}
		one.words = append(one.words, words)
	}
	for _, p := range t.Patterns {
		if parsed := newPattern(p); len(parsed.anchor) >= 6 { // shorter ones match too much
			one.patterns = append(one.patterns, parsed)
		}
	}
	x.texts = append(x.texts, one)
}

// ranks reports whether the packs' texts have a pattern and list a rule among its causes.
func (x *Explainer) ranks(pattern, rule string) bool {
	return slices.ContainsFunc(x.texts, func(t text) bool {
		return len(t.Where) == 0 && slices.Contains(t.Patterns, pattern) &&
			slices.ContainsFunc(t.Cases, func(id string) bool { return x.cases[id].Rule == rule })
	})
}

// caseOf returns the case with a rule's ID, or the first one that has the rule. It makes one if
// the packs have none.
func (x *Explainer) caseOf(r *packs.Rule) string {
	if x.cases[r.ID] != nil {
		return r.ID
	}
	if i := slices.IndexFunc(x.packs.Cases, func(c *packs.Case) bool { return c.Rule == r.ID }); i >= 0 {
		return x.packs.Cases[i].ID
	}
	x.cases[r.ID] = &packs.Case{ID: r.ID, Rule: r.ID, Class: r.ID, Title: r.Title, Doc: r.Doc, Visible: "yes", Fix: r.Fix, Sources: r.Sources, Confirm: "`imgcheck scan IMAGE` reports " + r.ID}
	return r.ID
}

// hit is a place where a text of the packs matches.
type hit struct {
	tier, line, order int
	at                int
	text              *text
	captures          map[string]string
	partial           bool // only a part of the pattern matches
	cases             []string
	moved             bool   // the first case is a context's
	visible           string // at most, of its cases; or ""
}

// english returns the replacer for messages in other languages, the longest first.
func english(list []*packs.Translation) *strings.Replacer {
	type form struct{ of, text string }
	var forms []form
	for _, t := range list {
		for _, s := range t.In {
			forms = append(forms, form{s, t.Text})
		}
	}
	slices.SortStableFunc(forms, func(a, b form) int { return cmp.Or(len(b.of)-len(a.of), strings.Compare(a.of, b.of)) })
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f.of, f.text)
	}
	return strings.NewReplacer(pairs...)
}

// Explain returns the possible causes of a text of one or more lines: those of the patterns that match it, and those of known
// reports that resemble it, if ReadReports has read some.
func (x *Explainer) Explain(s string) *Result { return x.explain(s, nil) }

// explain does as Explain, without the reports that leave says.
func (x *Explainer) explain(s string, leave func(*knownReport) bool) *Result {
	r := x.byPatterns(s)
	s = x.english.Replace(unwrap(s))
	x.addSimilar(r, s, x.told(lower(s)), leave)
	if len(r.Answers) > 0 {
		r.Nearest = nil
	}
	return r
}

// byPatterns returns the causes of the patterns that match a text.
func (x *Explainer) byPatterns(s string) *Result {
	s = x.english.Replace(unwrap(s))
	r := &Result{Schema: Schema, Answers: []Answer{}}
	where := x.told(lower(s))
	hits := x.hits(s, where)
	several := slices.ContainsFunc(hits, func(h hit) bool { return h.line != hits[0].line })
	seen, ofLine := map[string]bool{}, map[int]int{}
	take := func(most int, key func(*packs.Case) string) {
		for _, h := range hits {
			for i, id := range h.cases {
				c := x.cases[id]
				if seen[key(c)] || len(r.Answers) == maxAnswers || several && ofLine[h.line] >= most {
					continue
				}
				seen[c.Class], seen["case "+c.ID] = true, true
				ofLine[h.line]++
				r.Answers = append(r.Answers, x.answer(c, h, s, sure(h, s, i == 0 && len(r.Answers) == 0), where))
			}
		}
	}
	// Take one case of each class, of all lines that have causes; then the others.
	class := func(c *packs.Case) string { return c.Class }
	take(firstOfLine, class)
	take(maxOfLine, class)
	take(maxOfLine, func(c *packs.Case) string { return "case " + c.ID })
	if len(hits) == 0 {
		r.Nearest = x.nearest(s)
	}
	r.Apart = x.apart(r.Answers)
	return r
}

// apart returns the look that tells the first answer apart from the others of its line, or
// "" if there are no others, or the first is certain.
func (x *Explainer) apart(answers []Answer) string {
	var ids []string
	for _, a := range answers {
		if a.Line == answers[0].Line {
			ids = append(ids, a.Case)
		}
	}
	if len(ids) < 2 || answers[0].Confidence == Certain {
		return ""
	}
	best, most := "", 0
	for _, l := range x.packs.Looks {
		if n := tells(l.Among, ids); n > most {
			best, most = l.Look, n
		}
	}
	filled, _ := fill(best, answers[0].Captures)
	return filled
}

// firstAnswers is the number of answers that a look should tell apart before all others.
const firstAnswers = 3

// tells rates a look that tells cases apart, for answers with these cases: by the number of the
// first answers that it tells apart, by that of all, and then higher if it was written for the
// first one. 0 is a look that tells nothing of them.
func tells(among, ids []string) int {
	n, first := 0, 0
	for i, id := range ids {
		if slices.Contains(among, id) {
			n++
			if i < firstAnswers {
				first++
			}
		}
	}
	switch {
	case n < 2 || !slices.Contains(among, ids[0]):
		return 0
	case among[0] == ids[0]:
		return 1 + 2*n + 2*(maxAnswers+1)*first
	}
	return 2*n + 2*(maxAnswers+1)*first
}

// sure returns the confidence in a case of a hit. A line that only speaks of an error is not
// certain, and a part of a pattern neither.
func sure(h hit, s string, first bool) Confidence {
	c := confidence(h.text, first)
	switch quoted, quiet := speaks(s, h.at); {
	case c == Possible || quiet && h.tier != benignTier:
		return Possible
	case h.partial || h.moved || quoted:
		return Likely
	}
	return c
}

func confidence(t *text, first bool) Confidence {
	switch {
	case !first || t.Symptom || len(t.Words) > 0:
		return Possible
	case t.Certain:
		return Certain
	}
	return Likely
}

// hits returns the places where texts match: causes before their consequences, then in
// the order of the lines, then the more specific text first.
func (x *Explainer) hits(s string, where surroundings) []hit {
	low := lower(s)
	list := x.match(s, low)
	list = append(list, newHits(list, x.broken(s, low, x.vague(list)))...)
	if x.vague(list) {
		list = append(list, x.cut(s, low)...)
	}
	list = withoutAdvice(list, s)
	if len(list) == 0 {
		list = x.byWords(low)
	}
	slices.SortStableFunc(list, func(a, b hit) int { return cmp.Compare(a.at, b.at) })
	line, at := 1, 0
	for i := range list {
		line += strings.Count(s[at:list[i].at], "\n")
		at = list[i].at
		list[i].line = line
	}
	x.inContext(list, low)
	for i := range list {
		x.inSurroundings(&list[i], where)
	}
	list = withoutBenign(list)
	list = withoutSteps(list, s)
	putBack(list)
	slices.SortStableFunc(list, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.line, b.line), cmp.Compare(a.order, b.order))
	})
	return list
}

// inContext gives hits their cases, in the order of their texts, or with that first which the
// whole text makes likelier.
func (x *Explainer) inContext(list []hit, low string) {
	held := map[*packs.Context]bool{}
	for i := range list {
		h := &list[i]
		h.cases, h.visible = h.text.Cases, h.text.Visible
		for _, c := range x.packs.Contexts {
			if !slices.Contains(c.Over, h.cases[0]) {
				continue
			}
			holds, known := held[c]
			if !known {
				holds = hasWords(low, c.Words)
				held[c] = holds
			}
			if holds && c.Visible != "" {
				h.visible = c.Visible
				continue
			}
			if holds {
				rest := slices.DeleteFunc(slices.Clone(h.cases), func(id string) bool { return id == c.First })
				h.cases, h.moved = append([]string{c.First}, rest...), true
				if x.cases[c.First].Class == benignClass {
					h.tier = benignTier
				}
				break
			}
		}
	}
}

// withoutBenign leaves out the hits within benign messages: those that follow a benign hit in
// its line.
func withoutBenign(list []hit) []hit {
	benign := map[int]int{} // the first place of a line
	for _, h := range list {
		if at, has := benign[h.line]; h.tier == benignTier && (!has || h.at < at) {
			benign[h.line] = h.at
		}
	}
	return slices.DeleteFunc(list, func(h hit) bool {
		at, has := benign[h.line]
		return has && h.tier != benignTier && h.at >= at
	})
}

// stepHeader matches the begin of a line by which a builder names a step and its command, as it
// begins ("#20 [12/17] RUN …", "Step 3/9 : RUN …") or beside the error ("> [12/17] RUN …:").
var stepHeader = regexp.MustCompile(`^\s*(?:#\d+ |=> |> )?(?:(?:ERROR|CACHED) )?(?:\[(?:[^\]\n]{1,60} )?\d+/\d+\]|Step \d+/\d+ ?:) [A-Z]{3,}\s`)

// failedCopy matches BuildKit's mark of a COPY that failed. It says more of the failure than the
// error, which has the path alone.
var failedCopy = regexp.MustCompile(`^ERROR \[[^\]\n]{1,60}\] COPY `)

// withoutSteps leaves out the hits in commands of a build's steps, if other lines have any: a
// command says what is to be done, and no error.
func withoutSteps(list []hit, s string) []hit {
	inStep := func(h hit) bool {
		if failedCopy.MatchString(s[h.at:min(len(s), h.at+maxLine)]) {
			return false
		}
		return stepHeader.MatchString(s[strings.LastIndexAny(s[:h.at], "\n\v")+1:])
	}
	if !slices.ContainsFunc(list, func(h hit) bool { return !inStep(h) }) {
		return list
	}
	return slices.DeleteFunc(list, inStep)
}

// putBack puts the lines that a program survives behind the errors of other lines.
func putBack(list []hit) {
	survived, ends := map[int]bool{}, false
	for _, h := range list {
		survived[h.line] = survived[h.line] || h.text.Survives
	}
	for _, h := range list {
		ends = ends || !survived[h.line] && h.tier < survivedTier
	}
	for i := range list {
		if ends && survived[list[i].line] && list[i].tier < survivedTier {
			list[i].tier = survivedTier
		}
	}
}

// newHits returns the hits of more that are not in the list. A capture before the pattern's first
// words may begin earlier in lines that are joined.
func newHits(list, more []hit) []hit {
	return slices.DeleteFunc(more, func(h hit) bool {
		return slices.ContainsFunc(list, func(o hit) bool { return o.order == h.order && h.at <= o.at && o.at <= h.at+maxCapture })
	})
}

// vague reports whether hits, if there are any, name no cause.
func (x *Explainer) vague(list []hit) bool {
	return !slices.ContainsFunc(list, func(h hit) bool { return x.cases[h.text.Cases[0]].Class != "undetermined" })
}

// match returns the places where patterns match.
func (x *Explainer) match(s, low string) []hit {
	in := newGrams(low)
	var list []hit
	for i := range x.texts {
		t := &x.texts[i]
		for _, p := range t.patterns {
			lit := p.literals[p.first()]
			if lit == "" || !in.may(p.anchor) {
				continue
			}
			n := 0
			p.eachAt(s, low, in.places(lit), func(at int, captures map[string]string) bool {
				if !t.allows(captures) || t.Line && !wholeLine(low, at, lit) {
					return true
				}
				list = append(list, hit{tier: x.tier(t), order: i, at: at, text: t, captures: captures})
				n++
				return n < maxHits
			})
		}
	}
	return list
}

// linePrefix matches what builders, compose and log collectors put before a line: BuildKit's step
// and its seconds ("#12 138.5 "), a service ("app-1 | "), a time.
var linePrefix = regexp.MustCompile(`(?i)^(?:\s*(?:#\d+|\d+\.\d+|[\w.-]+\s?\||\[[^\]\n]{1,60}\]|\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?|\d\d:\d\d:\d\d(?:[.,]\d+)?)(?:\s|$))*\s*$`)

// wholeLine reports whether a literal at a place is a line, apart from spaces and a prefix of the
// log.
func wholeLine(s string, at int, lit string) bool {
	from, end := max(0, at-maxLine), at+len(lit)
	before, after := s[from:at], s[end:min(len(s), end+maxLine)]
	begin := strings.LastIndexAny(before, "\n\v") + 1
	if begin == 0 && from > 0 {
		return false
	}
	if i := strings.IndexAny(after, "\n\v"); i >= 0 {
		after = after[:i]
	}
	return strings.TrimSpace(after) == "" && linePrefix.MatchString(before[begin:])
}

// Tiers of hits behind those of causes (0) and of consequences (1): lines that the program
// survived, if another line has an error, and benign messages.
const (
	survivedTier = 2
	benignTier   = 3
)

// benignClass is the class of benign messages.
const benignClass = "benign-message"

// tier returns 0 for a cause, 1 for a consequence, and benignTier for a benign message.
func (x *Explainer) tier(t *text) int {
	switch {
	case x.cases[t.Cases[0]].Class == benignClass:
		return benignTier
	case t.Symptom:
		return 1
	}
	return 0
}

// allows reports whether captures match the patterns that the text has for them. One that a
// pattern of the text does not have is not limited.
func (t *text) allows(captures map[string]string) bool {
	for name, globs := range t.Where {
		value, has := captures[name]
		if has && !slices.ContainsFunc(globs, func(g string) bool {
			return doublestar.MatchUnvalidated(g, value) || doublestar.MatchUnvalidated(g, path.Base(value))
		}) {
			return false
		}
	}
	return len(t.Differ) == 0 || major(captures[t.Differ[0]]) != major(captures[t.Differ[1]])
}

// major returns the first number of a version. cuDNN's versions without dots have it in front of
// three digits, and from 9 on of four: 8902, 90100.
func major(version string) string {
	first, _, dots := strings.Cut(version, ".")
	switch n := len(first); {
	case dots:
	case n == 4:
		return first[:1]
	case n > 4:
		return first[:n-4]
	}
	return first
}

func (x *Explainer) answer(c *packs.Case, h hit, s string, sure Confidence, where surroundings) Answer {
	begin := strings.LastIndexAny(s[:h.at], "\n\v") + 1
	line := s[begin:]
	if i := strings.IndexAny(line, "\n\v"); i >= 0 {
		line = line[:i]
	}
	if len(line) > maxLine { // keep the match and its surroundings
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
	confirmed, _ := fill(c.Confirm, h.captures)
	visible := c.Visible
	if visible == "yes" {
		visible = cmp.Or(h.visible, visible)
	}
	return Answer{
		Case: c.ID, Rule: c.Rule, Class: c.Class, Title: c.Title, Confidence: sure, Visible: visible, Line: h.line,
		Text: strings.ToValidUTF8(strings.TrimSpace(line), "\uFFFD"), Captures: valid(h.captures),
		Doc: strings.TrimSpace(c.Doc), Causes: c.Causes, Confirm: confirmed, Fixes: x.fixes(c, h, s, where), Sources: c.Sources,
	}
}

// missing returns the name of the library that a text reports missing, or "".
func missing(captures map[string]string) string {
	if library := cmp.Or(captures["library_2"], captures["library"]); library != "" {
		return path.Base(library)
	}
	return ""
}

// placeholder matches what a text of the packs leaves to the names of the error text.
var placeholder = regexp.MustCompile(`\{(missing|name|library|symbol|version|package|module|requirement|path|image|variable|header|owner)\}`)

// fill replaces placeholders by the captures: {missing} is the library that is missing,
// {name} its name up to .so. It reports whether all of them have a value; NAME stands for
// one that has none.
func fill(template string, captures map[string]string) (string, bool) {
	whole := true
	filled := placeholder.ReplaceAllStringFunc(template, func(p string) string {
		value := captures[p[1:len(p)-1]]
		switch p {
		case "{missing}":
			value = missing(captures)
		case "{requirement}", "{owner}":
			value = quoted(value)
		case "{name}":
			value, _, _ = strings.Cut(cmp.Or(missing(captures), captures["module"]), ".so")
		}
		if value == "" {
			whole, value = false, "NAME"
		}
		return value
	})
	return filled, whole
}

// fixes returns the fixes of a case for a hit, filled with the names of the text: first those of
// the surroundings that the text tells, last those of others that it leaves open. It leaves out
// those that need a name that the text does not have.
func (x *Explainer) fixes(c *packs.Case, h hit, s string, where surroundings) []string {
	captures := h.captures
	if captures["module"] != "" && c.Class != "mixed-versions" { // which is there, in another release
		captures = x.withPackage(captures)
	}
	if fix := x.packs.SymbolFix(captures["symbol"]); fix != "" && c.Class == "undefined-symbol" {
		return []string{fix} // which leaves nothing open
	}
	list := x.particular(c, captures, s)
	if list == nil {
		list = filled(c.Fix, captures)
	}
	told, others := where.fixes(c)
	named, shared := x.sharedFixes(c, where.low)
	captures = maps.Clone(captures)
	if captures == nil {
		captures = map[string]string{}
	}
	captures["owner"] = x.owner(s, h.at)
	list = slices.Insert(list, min(1, len(list)), filled(named, captures)...) // after the usual one
	list = slices.Concat(filled(told, captures), list, filled(shared, captures), filled(others, captures))
	if len(list) > 0 { // the one before it may be left out
		list[0] = strings.TrimPrefix(list[0], "or ")
	}
	return list
}

// particular returns the fixes that the packs have for the library or the header of a text, which stand in place of the general ones, or nil.
func (x *Explainer) particular(c *packs.Case, captures map[string]string, s string) []string {
	if !c.OwnFixes && (c.Class == "missing-library" || c.Class == "missing-system-lib") {
		if list := x.packs.LibraryFixes(missing(captures)); len(list) > 0 {
			return slices.Clone(list)
		}
	}
	if c.ID == headerCase || c.ID == toolCase {
		return x.headerFixes(cmp.Or(captures["header"], captures["package"], captures["name"]), s)
	}
	return nil
}

// filled fills fixes, and leaves out those that lack a name.
func filled(templates []string, captures map[string]string) []string {
	var list []string
	for _, t := range templates {
		if f, whole := fill(t, captures); whole {
			list = append(list, f)
		}
	}
	return list
}

// withPackage replaces the module of captures by the requirement that brings it, or by a package
// of its name. It keeps a module within another, whose first word may be many packages': google.
func (x *Explainer) withPackage(captures map[string]string) map[string]string {
	top, _, within := strings.Cut(captures["module"], ".")
	requirement := packs.RequirementOf(x.packs.Modules, top)
	if requirement == "" && within {
		return captures
	}
	captures = maps.Clone(captures)
	delete(captures, "module")
	if requirement != "" {
		captures["requirement"] = requirement
	} else {
		captures["package"] = top
	}
	return captures
}

// quoted returns a requirement as a shell takes it.
func quoted(requirement string) string {
	if requirement == "" {
		return ""
	}
	q, err := syntax.Quote(requirement, syntax.LangPOSIX)
	if err != nil { // a control character, which no requirement has
		return requirement
	}
	return q
}

// Cases of a header, and of a tool, that a build does not find.
const (
	headerCase = "development-package-missing"
	toolCase   = "build-tool-missing"
)

// pythonRelease matches the release of Python in a compiler's command: of its headers, or of the
// extension module that it makes.
var pythonRelease = regexp.MustCompile(`(?:include/python|\.cpython-)3\.?(\d{1,2})\b`)

// headerFixes returns the fixes for a header or a tool that is missing, by its name.
func (x *Explainer) headerFixes(header, s string) []string {
	python := "python3"
	if m := pythonRelease.FindStringSubmatch(s); m != nil {
		python = "python3." + m[1]
	}
	for _, h := range x.packs.Development {
		if header != "" && packs.Match(h.Match, header) {
			return []string{strings.ReplaceAll(h.Fix, "{python}", python)}
		}
	}
	return nil
}

func valid(m map[string]string) map[string]string {
	for k, v := range m {
		m[k] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return m
}

// maxNearest limits the text for nearest, which is made for a line and not for a log.
const maxNearest = 4 << 10

// nearest returns the patterns that share most of their words with a text.
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

// weights returns the weights of words: the fewer patterns have a word, the heavier it
// is.
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
