package explain

import (
	"iter"
	"math"
	"path"
	"regexp"
	"strings"
)

// maxCapture limits a capture, in bytes, so that the time to match is proportional to the
// text.
const maxCapture = 600

// pattern matches a part of a line: literals with captures between them. ASCII case does
// not matter.
type pattern struct {
	text     string
	literals []string // lower case; the first and the last may be empty
	names    []string // names of the captures, one less than literals
	anchor   string   // the longest literal
	words    []string // words of the literals
}

var captureName = regexp.MustCompile(`\{[a-z]+\}`)

// newPattern parses a pattern of the packs.
func newPattern(text string) *pattern {
	text = squeeze(typography.Replace(text))
	p := &pattern{text: text, words: words(captureName.ReplaceAllString(text, " "))}
	seen := map[string]bool{}
	at := 0
	for _, m := range captureName.FindAllStringIndex(text, -1) {
		p.literals = append(p.literals, lower(text[at:m[0]]))
		name := text[m[0]+1 : m[1]-1]
		if seen[name] {
			name += "_2"
		}
		seen[name] = true
		p.names = append(p.names, name)
		at = m[1]
	}
	p.literals = append(p.literals, lower(text[at:]))
	for _, l := range p.literals {
		if len(l) > len(p.anchor) {
			p.anchor = l
		}
	}
	return p
}

// first returns the number of the literal by which the pattern is found: the one after the capture
// with which it may begin. It is "" if the pattern cannot match.
func (p *pattern) first() int {
	if p.literals[0] == "" && len(p.literals) > 1 {
		return 1
	}
	return 0
}

// each calls f with the offset and the captures of each match, until f returns false. low
// is text in lower case.
func (p *pattern) each(text, low string, f func(at int, captures map[string]string) bool) {
	if lit := p.literals[p.first()]; lit != "" {
		p.eachAt(text, low, places(low, lit), f)
	}
}

// eachAt is like each, with the places of the first literal.
func (p *pattern) eachAt(text, low string, places iter.Seq[int], f func(at int, captures map[string]string) bool) {
	first := p.first()
	lit := p.literals[first]
	from := 0
	for at := range places {
		if at < from {
			continue
		}
		from = at + len(lit)
		captures := map[string]string{}
		begin := at
		if first == 1 {
			begin = wordBefore(text, at, p.names[0])
			if begin == at {
				continue
			}
			captures[p.names[0]] = trimWord(text[begin:at])
			if !plausible(p.names[0], captures[p.names[0]]) {
				continue
			}
		} else if isWord(lit[0]) && inWord(low, at) {
			continue
		}
		if p.rest(text, low, at+len(lit), first, captures) && !f(begin, captures) {
			return
		}
	}
}

// rest matches the part of the pattern after literal i, which ends at pos.
func (p *pattern) rest(text, low string, pos, i int, captures map[string]string) bool {
	for ; i < len(p.names); i++ {
		name, next := p.names[i], p.literals[i+1]
		window := low[pos:min(len(low), pos+maxCapture+len(next))]
		if nl := strings.IndexAny(window, "\n\v"); nl >= 0 {
			window = window[:nl]
		}
		var n int
		if next == "" {
			n = wordLength(window, name)
		} else {
			n = strings.Index(window, next)
		}
		if n < 0 || n == 0 && !p.optional(i) || next != "" && wordLength(window[:n], name) != n {
			return false
		}
		captures[name] = trimWord(text[nameStart(text, pos, name) : pos+n])
		if !plausible(name, captures[name]) {
			return false
		}
		pos += n + len(next)
	}
	last := p.literals[len(p.literals)-1]
	return last == "" || !isWord(last[len(last)-1]) || pos >= len(low) || !isWord(low[pos])
}

// optional reports whether capture i may be empty: a text that ends the pattern.
func (p *pattern) optional(i int) bool {
	return i == len(p.names)-1 && p.literals[i+1] == "" && strings.TrimSuffix(p.names[i], "_2") == "text"
}

// nameStart returns where the name begins of which a capture has the rest, since the literal has
// the first part: GLIBCXX_3.4.30, for GLIBC{name}. An option is not a part of it: -lcurand.
func nameStart(text string, pos int, name string) int {
	begin := pos
	for strings.TrimSuffix(name, "_2") == "name" && begin > 0 && pos-begin < maxCapture && isWord(text[begin-1]) {
		begin--
	}
	if begin > 0 && text[begin-1] == '-' {
		return pos
	}
	return begin
}

// wordLength returns the length of a capture at the beginning of s: digits and dots for a
// number, everything for a text, else the characters of a word, a path or a name.
func wordLength(s, name string) int {
	n := 0
	for n < len(s) && inCapture(s[n], name) {
		n++
	}
	return n
}

// wordBefore returns where the word that ends at a place begins.
func wordBefore(s string, at int, name string) int {
	i := at
	for i > 0 && at-i < maxCapture && inCapture(s[i-1], name) && (s[i-1] != ':' || name == "text") {
		i--
	}
	return i
}

func inCapture(c byte, name string) bool {
	switch strings.TrimSuffix(name, "_2") {
	case "text", "error":
		return c != '\n' && c != lineBreak
	case "number":
		return '0' <= c && c <= '9' || c == '.'
	case "name", "requirement":
		return c > ' '
	}
	return c > ' ' && !strings.ContainsRune("'\"`,;(){}<>|", rune(c))
}

// plausible reports whether a value fits the name of its capture: the name of a library
// contains .so or begins with lib. Errors about other files and programs have the same
// words.
func plausible(name, value string) bool {
	if strings.TrimSuffix(name, "_2") != "library" {
		return true
	}
	base := lower(path.Base(value))
	if base == "lib" || base == "library" || base == "libraries" {
		return false
	}
	return strings.HasPrefix(base, "lib") || strings.HasSuffix(base, ".so") || strings.Contains(base, ".so.")
}

// inWord reports whether a place is within a word. An underscore before a word may be
// Markdown's.
func inWord(s string, at int) bool {
	if at > 0 && s[at-1] == '_' {
		at--
	}
	return at > 0 && isWord(s[at-1])
}

func trimWord(s string) string { return strings.Trim(s, " \t.,;:'\"`") }

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// lower returns s in ASCII lower case, so that offsets stay. It replaces glibc's quotes
// `two' and double ones by 'these', as some programs do when they print an error.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		switch {
		case 'A' <= c && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case c == '`' || c == '"':
			b[i] = '\''
		}
	}
	return string(b)
}

// places returns the places of s in a text, without those that overlap an earlier one.
func places(text, s string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for from := 0; from < len(text); {
			i := strings.Index(text[from:], s)
			if i < 0 || !yield(from+i) {
				return
			}
			from += i + len(s)
		}
	}
}

// grams has the places of all runs of four bytes in a text, by their hashes: those of hash h are
// at[start[h]:start[h+1]], in their order.
type grams struct {
	text  string
	start [gramHashes + 1]uint32
	at    []uint32
}

const (
	gramSize   = 4
	gramBits   = 14
	gramHashes = 1 << gramBits
)

func newGrams(s string) *grams {
	g := &grams{text: s, at: make([]uint32, max(0, len(s)-gramSize+1))}
	for i := range g.at {
		g.start[gram(s[i:])+1]++
	}
	for h := range gramHashes {
		g.start[h+1] += g.start[h]
	}
	next := g.start
	for i := range g.at {
		h := gram(s[i:])
		g.at[next[h]] = uint32(i)
		next[h]++
	}
	return g
}

func gram(s string) uint32 {
	v := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
	return v * 2654435761 >> (32 - gramBits)
}

// may reports whether s may be in the text.
func (g *grams) may(s string) bool {
	for i := 0; i+gramSize <= len(s); i++ {
		if h := gram(s[i:]); g.start[h] == g.start[h+1] {
			return false
		}
	}
	return true
}

// places returns the places of s in the text. It looks only where the rarest four bytes of s are.
func (g *grams) places(s string) iter.Seq[int] {
	if len(s) < gramSize {
		return places(g.text, s)
	}
	rarest, offset, least := uint32(0), 0, uint32(math.MaxUint32)
	for i := 0; i+gramSize <= len(s); i++ {
		h := gram(s[i:])
		if n := g.start[h+1] - g.start[h]; n < least {
			rarest, offset, least = h, i, n
		}
	}
	return func(yield func(int) bool) {
		for _, place := range g.at[g.start[rarest]:g.start[rarest+1]] {
			at := int(place) - offset
			if at >= 0 && strings.HasPrefix(g.text[at:], s) && !yield(at) {
				return
			}
		}
	}
}
