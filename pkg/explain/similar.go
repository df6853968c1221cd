package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// knownReport is a text that somebody pasted into a thread, and the classes of the causes that the thread shows. A text
// without a class is of a healthy run, or of a program that needs no GPU.
type knownReport struct {
	Text    string   `json:"text"`
	Source  string   `json:"source"`
	Classes []string `json:"classes"`
}

// knownReports are the known reports, by their words. A text that no pattern knows, or of which patterns are not
// certain, most likely has the cause of the reports whose words it has: the words are weighed by how few reports
// have them (TF-IDF), and the nearest reports vote with the square of their cosine.
type knownReports struct {
	list   []knownReport
	with   map[string][]int32 // the reports with a word
	weight map[string]float64
	norm   []float64
}

// Parameters of the vote. They were chosen on reports that were left out, one file at a time: 10 to 40
// neighbours give the same figures within one percent. The last four draws, each with the patterns and reports of before it,
// chose ofPatterns: with it, three texts more of 447 have their class among the first three answers.
const (
	neighbours = 30
	usual      = 300  // reports that have a word which says nothing
	leastAlike = 0.15 // cosine of the nearest report, for a text that no pattern knows
	leastSaid  = 15   // weight of the words that it shares with it
	maxReports = 20_000
	maxWords   = 4 << 10 // bytes of a text whose words are read
	newWord    = 7       // weight of a word that no report has
	fromOthers = 2       // answers of reports beside those of patterns
	ofPatterns = 0.05    // share of the votes that is added to the patterns' second answer, half of it to the third, a third to the fourth
)

// ReadReports reads the known reports of a file system: each line of reports/*.jsonl, with text, source and classes, and the
// lines of healthy runs in reports/*.log. Explain then also answers from the reports that resemble a text.
func (x *Explainer) ReadReports(fsys fs.FS) error {
	r := &knownReports{with: map[string][]int32{}, weight: map[string]float64{}}
	seen := map[string]bool{}
	for _, kind := range []string{"jsonl", "log"} {
		names, err := fs.Glob(fsys, "reports/*."+kind)
		if err != nil {
			return err
		}
		for _, name := range names {
			b, err := fs.ReadFile(fsys, name)
			if err != nil {
				return err
			}
			n := 0
			for line := range bytes.Lines(b) {
				n++
				one := knownReport{Text: string(bytes.TrimSpace(line))}
				if kind == "jsonl" {
					if err := json.Unmarshal(line, &one); err != nil {
						return fmt.Errorf("%s, line %d: %w", name, n, err)
					}
				}
				if len(r.list) == maxReports {
					return fmt.Errorf("%s: there are more than %d reports", name, maxReports)
				}
				if one.Text != "" && !seen[one.Text] {
					seen[one.Text] = true
					r.list = append(r.list, one)
				}
			}
		}
	}
	r.index()
	x.reports = r
	return nil
}

// index counts the words of the reports.
func (r *knownReports) index() {
	r.norm = make([]float64, len(r.list))
	words := make([][]string, len(r.list))
	for i, one := range r.list {
		words[i] = reportWords(one.Text)
		for _, w := range words[i] {
			r.with[w] = append(r.with[w], int32(i))
		}
	}
	for w, list := range r.with {
		r.weight[w] = math.Log(float64(len(r.list)) / float64(len(list)))
		if len(list) >= usual {
			delete(r.with, w)
		}
	}
	for i := range r.list {
		r.norm[i] = r.length(words[i])
	}
}

// length is the Euclidean length of a text's words.
func (r *knownReports) length(words []string) float64 {
	sum := 0.0
	for _, w := range words {
		weight, known := r.weight[w]
		if !known {
			weight = newWord
		}
		sum += weight * weight
	}
	return max(math.Sqrt(sum), 1)
}

// reportWord matches a word or a number.
var reportWord = regexp.MustCompile(`[a-z_][a-z_0-9.]{1,40}|[0-9]+(?:\.[0-9]+)*`)

// numbers matches digits, which are the same word whatever they are: 12.4 is 0.0.
var numbers = regexp.MustCompile(`[0-9]+`)

// reportWords returns the words of a text, sorted: with the parts of dotted names, and each number as 0.
func reportWords(s string) []string {
	s = lower(s[:min(len(s), maxWords)])
	have := map[string]bool{}
	for _, w := range reportWord.FindAllString(s, -1) {
		w = numbers.ReplaceAllString(w, "0")
		have[w] = true
		for _, part := range strings.FieldsFunc(w, func(c rune) bool { return c == '.' || c == '_' }) {
			if len(part) > 1 {
				have[part] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(have))
}

// near is a report that resembles a text.
type near struct {
	of    *knownReport
	alike float64 // cosine, 0 to 1
	said  float64 // the weight of the words that both have
}

// nearest returns the reports that resemble a text most, the most alike first, without those that leave says.
func (r *knownReports) nearest(s string, leave func(*knownReport) bool) []near {
	words := reportWords(s)
	sums, said := map[int32]float64{}, map[int32]float64{}
	for _, w := range words {
		for _, i := range r.with[w] {
			sums[i] += r.weight[w] * r.weight[w]
			said[i] += r.weight[w]
		}
	}
	length := r.length(words)
	var list []near
	for _, i := range slices.Sorted(maps.Keys(sums)) {
		if one := &r.list[i]; leave == nil || !leave(one) {
			list = append(list, near{one, sums[i] / (r.norm[i] * length), said[i]})
		}
	}
	slices.SortStableFunc(list, func(a, b near) int { return cmp.Compare(b.alike, a.alike) })
	return list[:min(len(list), neighbours)]
}

// vote is a class, and the reports that have it.
type vote struct {
	class string // "" is no cause at all
	score float64
	by    []near
}

// votes returns the classes of reports, the likeliest first.
func votes(list []near) []vote {
	of := map[string]*vote{}
	for _, n := range list {
		classes := n.of.Classes
		if len(classes) == 0 {
			classes = []string{""}
		}
		for _, c := range classes {
			v := of[c]
			if v == nil {
				v = &vote{class: c}
				of[c] = v
			}
			v.score += n.alike * n.alike / float64(len(classes))
			v.by = append(v.by, n)
		}
	}
	var all []vote
	for _, c := range slices.Sorted(maps.Keys(of)) {
		all = append(all, *of[c])
	}
	slices.SortStableFunc(all, func(a, b vote) int { return cmp.Compare(b.score, a.score) })
	return all
}

// speaksOfFailure matches words of errors. A text that resembles a healthy run's, and has none, is one.
var speaksOfFailure = regexp.MustCompile(`error|fail|fatal|cannot|can't|could not|couldn't|unable|denied|refused|exception|traceback|not found|no such|invalid|timed out|abort|crash|panic`)

// excerpt returns the part of a long log that is compared with reports, and where it begins: the lines up to the last
// one that speaks of an error.
func excerpt(s string) (part string, at int) {
	if len(s) <= maxWords {
		return s, 0
	}
	low, end := lower(s), 0
	for _, w := range []string{"error", "exception", "failed", "fatal", "cannot", "not found", "denied", "unable"} {
		end = max(end, strings.LastIndex(low, w))
	}
	if end == 0 {
		end = len(s)
	}
	if n := strings.IndexByte(s[end:], '\n'); n >= 0 {
		end += n
	} else {
		end = len(s)
	}
	at = max(0, end-maxWords)
	if n := strings.IndexByte(s[at:end], '\n'); at > 0 && n >= 0 {
		at += n + 1
	}
	return s[at:end], at
}

// addSimilar adds to the answers of patterns the causes of the reports that resemble a text most, if the first answer is not
// certain. The first answer stays; votes of reports order the others, and ofPatterns is added to the patterns' own. A text
// without an answer gets those of reports, if it says enough and does not resemble a healthy run. Answers of reports are
// never more than possible.
func (x *Explainer) addSimilar(r *Result, s string, where surroundings, leave func(*knownReport) bool) {
	if x.reports == nil || len(r.Answers) > 0 && r.Answers[0].Confidence == Certain {
		return
	}
	part, _ := excerpt(s)
	list := x.reports.nearest(part, leave)
	all := votes(list)
	most := fromOthers
	if len(r.Answers) == 0 {
		if len(list) == 0 || list[0].alike < leastAlike || list[0].said < leastSaid || all[0].class == "" && !speaksOfFailure.MatchString(lower(part)) {
			return
		}
		most = firstAnswers
	}
	sum := 0.0
	for _, v := range all {
		sum += v.score
	}
	type place struct {
		a     Answer
		share float64 // of the votes
	}
	var rest []place
	for i, a := range r.Answers[min(1, len(r.Answers)):] {
		rest = append(rest, place{a, ofPatterns / float64(i+1)})
	}
	for _, v := range all {
		if v.class == "" || len(r.Answers) > 0 && v.class == r.Answers[0].Class {
			continue
		}
		if i := slices.IndexFunc(rest, func(p place) bool { return p.a.Class == v.class }); i >= 0 {
			rest[i].a.Like, rest[i].share = sourcesOf(v.by), rest[i].share+v.score/sum
		} else if most > 0 {
			if a, ok := x.similarAnswer(v, s, where); ok {
				rest, most = append(rest, place{a, v.score / sum}), most-1
			}
		}
	}
	slices.SortStableFunc(rest, func(a, b place) int { return cmp.Compare(b.share, a.share) })
	added := slices.Clone(r.Answers[:min(1, len(r.Answers))])
	for _, p := range rest {
		if len(added) < maxAnswers && !slices.ContainsFunc(added, func(a Answer) bool { return a.Case == p.a.Case }) {
			added = append(added, p.a)
		}
	}
	r.Answers = added
}

// similarAnswer returns the answer of a class of reports: the case that the patterns find in the most alike of the reports.
func (x *Explainer) similarAnswer(v vote, s string, where surroundings) (Answer, bool) {
	id := ""
	for _, n := range v.by[:min(len(v.by), 3)] {
		answers := x.byPatterns(n.of.Text).Answers
		if i := slices.IndexFunc(answers, func(a Answer) bool { return a.Class == v.class }); i >= 0 {
			id = answers[i].Case
			break
		}
	}
	if i := slices.IndexFunc(x.packs.Cases, func(c *packs.Case) bool { return c.Class == v.class }); id == "" && i >= 0 {
		id = x.packs.Cases[i].ID
	}
	if id == "" {
		return Answer{}, false
	}
	h := x.likestLine(s, v.by[0].of.Text)
	a := x.answer(x.cases[id], h, s, Possible, where)
	a.Like = sourcesOf(v.by)
	return a, true
}

// maxLike is the number of reports that an answer names.
const maxLike = 2

// sourcesOf returns the threads of the most alike reports.
func sourcesOf(list []near) []string {
	var out []string
	for _, n := range list {
		if n.of.Source != "" && !slices.Contains(out, n.of.Source) && len(out) < maxLike {
			out = append(out, n.of.Source)
		}
	}
	return out
}

// likestLine returns the place of the line of a text that shares most with another text.
func (x *Explainer) likestLine(s, other string) hit {
	have := map[string]bool{}
	for _, w := range reportWords(other) {
		have[w] = true
	}
	part, at := excerpt(s)
	best, h := -1.0, hit{line: 1 + strings.Count(s[:at], "\n"), at: at}
	number := h.line
	for line := range strings.Lines(part) {
		score := 0.0
		for _, w := range reportWords(line) {
			if have[w] {
				score += x.reports.weight[w]
			}
		}
		if strings.TrimSpace(line) != "" && score > best {
			best, h = score, hit{line: number, at: at}
		}
		at += len(line)
		number++
	}
	return h
}
