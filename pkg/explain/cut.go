package explain

import (
	"regexp"
	"slices"
	"strings"
)

// Limits of the search for patterns that are broken or cut off. They count from the end of the
// text, so that lines in front change nothing.
const (
	maxBroken = 8 << 10 // bytes
	minBroken = 40      // bytes of a line that was broken
	maxCut    = 12      // lines
	minCut    = 14      // bytes of a pattern that the text has
	longCut   = 24      // the same, for a line that begins within a word
)

// broken returns the matches of patterns across the ends of lines, which a terminal or a mail
// has broken between two words or within one. Patterns with {text} are matched only if no line
// names a cause, since that may be anything.
func (x *Explainer) broken(s, low string, vague bool) []hit {
	from := max(0, len(low)-maxBroken)
	if from > 0 {
		from += strings.IndexByte(low[from:], '\n') + 1
	}
	if !strings.Contains(low[from:], "\n") {
		return nil
	}
	spaced, places := joined(s[from:], " ")
	list := moved(x.match(spaced, lower(spaced)), places)
	whole, places := joined(s[from:], "")
	list = append(list, moved(x.match(whole, lower(whole)), places)...)
	list = slices.DeleteFunc(list, func(h hit) bool { return h.captures["text"] != "" && !vague })
	for i := range list {
		list[i].at += from
	}
	return list
}

// moved replaces the places of hits by those of the text that was joined.
func moved(list []hit, places []int) []hit {
	for i := range list {
		list[i].at = places[list[i].at]
	}
	return list
}

// joined returns a text whose long lines are joined with the next ones, and the place in the text
// of each of its bytes: with a space, or with nothing if the line ends within a word.
func joined(s, with string) (string, []int) {
	b, places := make([]byte, 0, len(s)), make([]int, 0, len(s)+1)
	begin := 0
	for i := range len(s) {
		c := s[i]
		if c == '\n' {
			long := i-begin >= minBroken && i+1 < len(s)
			begin = i + 1
			switch {
			case long && with != "":
				c = ' '
			case long && isWord(s[i-1]) && isWord(s[i+1]):
				continue
			}
		}
		b, places = append(b, c), append(places, i)
	}
	return string(b), append(places, len(s))
}

// cut returns the matches of patterns with lines of which the begin or the end was cut off, as
// in a title. More than half of the pattern must be there.
func (x *Explainer) cut(s, low string) []hit {
	var list []hit
	end := len(low)
	for range maxCut {
		begin := strings.LastIndexAny(low[:end], "\n\v") + 1
		whole, _ := strings.CutSuffix(low[begin:end], "[truncated]")
		line := strings.TrimRight(whole, " .…")
		lead := len(line) - len(strings.TrimLeft(line, " .…"))
		ends := [2]bool{dotted.MatchString(whole[:min(lead, len(whole))]), dotted.MatchString(whole[len(line):]) || len(whole) < end-begin}
		if len(line)-lead >= minCut && len(line) <= maxLine {
			for _, h := range x.cutLine(s[begin+lead:begin+len(line)], line[lead:], ends) {
				h.at += begin + lead
				list = append(list, h)
			}
		}
		if end = begin - 1; end < 0 {
			break
		}
	}
	return list
}

// dotted matches the dots of a line that was cut off.
var dotted = regexp.MustCompile(`\.\.|…`)

// cutLine returns the matches of parts of patterns at the ends of a line. Without dots, a line
// is cut off only if that is within a word.
func (x *Explainer) cutLine(s, low string, ends [2]bool) []hit {
	var list []hit
	for i := range x.texts {
		t := &x.texts[i]
		for _, p := range t.patterns {
			for _, part := range []*pattern{p.tail(low, ends[1]), p.head(low, ends[0]), p.inner(low, ends)} {
				if part == nil {
					continue
				}
				part.each(s, low, func(at int, captures map[string]string) bool {
					if t.allows(captures) && t.has(captures) {
						list = append(list, hit{tier: x.tier(t), order: i, at: at, text: t, captures: captures, partial: true})
					}
					return false
				})
			}
		}
	}
	return list
}

// has reports whether captures have all that the text limits.
func (t *text) has(captures map[string]string) bool {
	for name := range t.Where {
		if _, ok := captures[name]; !ok {
			return false
		}
	}
	for _, name := range t.Differ {
		if _, ok := captures[name]; !ok {
			return false
		}
	}
	return true
}

// tail returns the part of a pattern that is at the end of a line, or nil if that is less than
// half of the pattern.
func (p *pattern) tail(line string, dots bool) *pattern {
	before := 0
	for k, l := range p.literals {
		for n := len(l) - 1; n > 0 && before+n >= p.enough(); n-- {
			if strings.HasSuffix(line, l[:n]) && (dots || within(l, n)) {
				return &pattern{literals: append(slices.Clone(p.literals[:k]), l[:n]), names: p.names[:k]}
			}
		}
		before += len(l)
	}
	return nil
}

// within reports whether byte n of s is within a word. A number is whole at each of its digits:
// "exit code 1" is not the begin of "exit code 137".
func within(s string, n int) bool {
	return isWord(s[n-1]) && isWord(s[n]) && (s[n-1] < '0' || '9' < s[n-1])
}

// head returns the part of a pattern that is at the beginning of a line, or nil.
func (p *pattern) head(line string, dots bool) *pattern {
	after := 0
	for k := len(p.literals) - 1; k >= 0; k-- {
		l := p.literals[k]
		for n := len(l) - 1; n > 0 && after+n >= p.enough(); n-- {
			if from := len(l) - n; strings.HasPrefix(line, l[from:]) && (dots || after+n >= longCut && isWord(l[from-1]) && isWord(l[from])) {
				return &pattern{literals: append([]string{l[from:]}, p.literals[k+1:]...), names: p.names[k:]}
			}
		}
		after += len(l)
	}
	return nil
}

// inner returns the part of a pattern that is a whole line, both ends of which were cut off, or
// nil.
func (p *pattern) inner(line string, dots [2]bool) *pattern {
	for _, l := range p.literals {
		if dots[0] && dots[1] && len(line) >= p.enough() && strings.Contains(l, line) {
			return &pattern{literals: []string{line}}
		}
	}
	return nil
}

// enough returns the number of bytes of a pattern's literals that a cut line must have.
func (p *pattern) enough() int {
	n := 0
	for _, l := range p.literals {
		n += len(l)
	}
	return max(minCut, n*6/10)
}
