package pyimport

import (
	"regexp"
	"slices"
	"strings"
)

func init() {
	functions("re", map[string]func(*Run, *args) value{
		"compile": func(_ *Run, a *args) value { return newPattern(a) },
		"escape":  func(_ *Run, a *args) value { return escaped(a) },
	})
	for _, name := range patternMethods {
		functions("re", map[string]func(*Run, *args) value{name: reFunc(name)})
	}
}

// patternMethods are the methods of patterns that are known.
var patternMethods = []string{"match", "search", "fullmatch", "sub", "subn", "findall", "finditer", "split"}

// pattern is a re.Pattern that Go's syntax has, too.
type pattern struct {
	of   *regexp.Regexp
	text string // in Go's syntax
}

func (*pattern) typeName() string { return "re.Pattern" }

func (p *pattern) attr(_ *Run, name string) (value, bool) {
	if slices.Contains(patternMethods, name) {
		return &builtin{"re.Pattern." + name, func(r *Run, a *args) value { return p.apply(r, name, a) }}, true
	}
	return nil, false
}

// regexFlags are the flags of re by their names, with those of Go's syntax: "?" for a flag
// that it lacks, "x" for one that [withFlags] applies (Lib/re/__init__.py).
var regexFlags = []struct {
	names string
	bit   int64
	flag  string
}{
	{"T TEMPLATE", 1, "?"},
	{"I IGNORECASE", 2, "i"},
	{"L LOCALE", 4, "?"},
	{"M MULTILINE", 8, "m"},
	{"S DOTALL", 16, "s"},
	{"U UNICODE", 32, ""},
	{"X VERBOSE", 64, "x"},
	{"DEBUG", 128, "?"},
	{"A ASCII", 256, "?"},
}

// presetFlags sets the names that re has by enum.global_enum, or by an update of its globals.
func (r *Run) presetFlags(m *module) {
	if m.name != "re" {
		return
	}
	for _, f := range regexFlags {
		for _, name := range strings.Fields(f.names) {
			if v, ok := m.names.get(name); !ok || isUnknown(v) {
				m.names.put(name, f.bit)
			}
		}
	}
}

// maxPattern is the length of a regular expression that is compiled, in bytes.
const maxPattern = 500

// newPattern compiles the first argument, with flags as the second.
func newPattern(a *args) value {
	if p, ok := a.pattern(); ok {
		return p
	}
	t, ok := a.text(0, "pattern")
	if !ok || len(t) > maxPattern || a.open || differs(t) {
		return unknownf("a pattern")
	}
	if f, ok := a.get(1, "flags"); ok {
		bits, known := f.(int64)
		if t, ok = withFlags(t, bits); !known || !ok {
			return unknownf("a pattern")
		}
	}
	re, err := regexp.Compile(t)
	if err != nil {
		return unknownf("a pattern")
	}
	return &pattern{re, t}
}

// pattern returns the first argument, if it is a compiled pattern.
func (a *args) pattern() (*pattern, bool) {
	v, _ := a.get(0, "pattern")
	p, ok := v.(*pattern)
	return p, ok
}

// differs reports whether a pattern has a group that Go's syntax lacks or reads in another way.
func differs(t string) bool {
	for {
		i := strings.Index(t, "(?")
		if i < 0 {
			return false
		}
		if t = t[i+2:]; !strings.HasPrefix(t, "P<") && !strings.HasPrefix(t, ":") {
			return true
		}
	}
}

// withFlags returns a pattern with flags of re in Go's syntax; ok is false if that has not all.
func withFlags(t string, bits int64) (pattern string, ok bool) {
	flags := ""
	for _, f := range regexFlags {
		switch {
		case bits&f.bit == 0:
		case f.flag == "?":
			return "", false
		case f.flag == "x":
			t = terse(t)
		default:
			flags += f.flag
		}
	}
	if flags != "" {
		t = "(?" + flags + ")" + t
	}
	return t, true
}

// terse returns a pattern of re.VERBOSE without its blanks and comments: those that neither
// follow a backslash nor stand in a class.
func terse(t string) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(t); i++ {
		switch c := t[i]; {
		case c == '\\' && i+1 < len(t):
			b.WriteString(t[i : i+2])
			i++
		case !class && strings.IndexByte(" \t\n\r\f\v", c) >= 0:
		case !class && c == '#':
			for i+1 < len(t) && t[i+1] != '\n' {
				i++
			}
		default:
			class = c == '[' || class && c != ']'
			b.WriteByte(c)
		}
	}
	return b.String()
}

// reFunc makes a function of re from a method of patterns.
func reFunc(name string) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		most := 2 // the pattern and the text
		if strings.HasPrefix(name, "sub") {
			most = 3
		}
		if len(a.pos) < most {
			return unknownf("the result of re.%s", name)
		}
		compiled := &args{pos: a.pos[:1], open: a.open}
		if f, ok := a.kw["flags"]; ok {
			compiled.pos = []value{a.pos[0], f}
		} else if len(a.pos) == most+1 && most == 2 && name != "split" {
			compiled.pos, most = []value{a.pos[0], a.pos[2]}, 3
		}
		p, ok := newPattern(compiled).(*pattern)
		if !ok || len(a.pos) > most {
			return unknownf("the result of re.%s", name)
		}
		n := 2
		if strings.HasPrefix(name, "sub") {
			n = 3
		}
		given := &args{pos: a.pos[1:n]}
		if c, ok := a.kw["maxsplit"]; ok {
			given.pos = append(given.pos[:1:1], c)
		}
		return p.apply(r, name, given)
	}
}

// agrees reports whether Go reads a pattern as Python does for a text: `$` also matches before a last line's end there, and
// classes of characters have all of Unicode.
func (p *pattern) agrees(s string) bool {
	return !(strings.HasSuffix(s, "\n") && strings.Contains(p.text, "$")) &&
		!(strings.ContainsFunc(s, func(c rune) bool { return c > 127 }) && strings.ContainsAny(p.text, `\?`))
}

// apply calls a method of a pattern.
func (p *pattern) apply(r *Run, name string, a *args) value {
	for _, v := range a.pos {
		if s, ok := v.(string); ok && !p.agrees(s) {
			return unknownf("the result of re.%s", name)
		}
	}
	switch name {
	case "sub", "subn":
		return p.sub(r, name, a)
	case "findall", "finditer", "split":
		return p.all(r, name, a)
	}
	s, ok := a.text(0, "string")
	if !ok || len(a.pos) > 1 {
		return unknownf("a match")
	}
	r.spend(1 + len(s)/64)
	of := p.of
	switch name {
	case "match":
		of = anchored(p.text, "")
	case "fullmatch":
		of = anchored(p.text, `\z`)
	}
	if of == nil {
		return unknownf("a match")
	}
	i := of.FindStringSubmatchIndex(s)
	if i == nil {
		return nil
	}
	return &match{p, s, i}
}

// anchored compiles a pattern that begins at the beginning of a text, and has something after it.
func anchored(text, after string) *regexp.Regexp {
	flags := ""
	if strings.HasPrefix(text, "(?") && text[2] != 'P' && text[2] != ':' {
		n := strings.IndexByte(text, ')') + 1
		flags, text = text[:n], text[n:]
	}
	re, err := regexp.Compile(flags + `\A(?:` + text + ")" + after)
	if err != nil {
		return nil
	}
	return re
}

// sub is re.Pattern.sub, with a text without references to groups, or a function.
func (p *pattern) sub(r *Run, name string, a *args) value {
	repl, _ := a.get(0, "repl")
	to, isText := repl.(string)
	s, ok := a.text(1, "string")
	if !ok || isText && strings.ContainsAny(to, `\`) || len(a.pos) > 2 || len(a.kw) > 0 || len(s)*(len(to)+1) > maxText {
		return unknownf("a text")
	}
	r.spend(1 + len(s)/64)
	var b strings.Builder
	last, n := 0, 0
	for _, at := range p.of.FindAllStringSubmatchIndex(s, -1) {
		if at[0] == at[1] {
			return unknownf("a text") // Python and Go count empty matches beside others differently
		}
		t := to
		if !isText {
			if !r.step() {
				return unknownf("a text")
			}
			if t, ok = r.call(repl, &args{pos: []value{&match{p, s, at}}}).(string); !ok || r.raised != nil || b.Len()+len(t) > maxText {
				return unknownf("a text")
			}
		}
		b.WriteString(s[last:at[0]])
		b.WriteString(t)
		last = at[1]
		n++
	}
	b.WriteString(s[last:])
	if name == "subn" {
		return &tuple{items: []value{b.String(), int64(n)}}
	}
	return b.String()
}

// all is `findall`, `finditer` or split.
func (p *pattern) all(r *Run, name string, a *args) value {
	s, ok := a.text(0, "string")
	most := -1
	if n, given := a.get(1, "maxsplit"); given && name == "split" {
		if most = int(toInt(n)); most == 0 {
			most = -1
		}
	} else if given {
		ok = false
	}
	l := &list{mark: r.born(), open: !ok || len(s) > maxText}
	if l.open {
		return l
	}
	r.spend(1 + len(s)/64)
	last := 0
	for _, at := range p.of.FindAllStringSubmatchIndex(s, most) {
		if at[0] == at[1] {
			return &list{mark: r.born(), open: true}
		}
		m := &match{p, s, at}
		groups := len(at)/2 - 1
		switch {
		case name == "finditer":
			l.items = append(l.items, m)
		case name == "split":
			l.items = append(l.items, s[last:at[0]])
			for g := range groups {
				l.items = append(l.items, m.group(int64(g+1)))
			}
			last = at[1]
		case groups <= 1:
			l.items = append(l.items, m.found(groups))
		default:
			t := &tuple{}
			for g := range groups {
				t.items = append(t.items, m.found(g+1))
			}
			l.items = append(l.items, t)
		}
	}
	if name == "split" {
		l.items = append(l.items, s[last:])
	}
	if l = r.own(l); name == "finditer" {
		return r.newIterator(l.items, l.open)
	}
	return l
}

// escaped is re.escape.
func escaped(a *args) value {
	s, ok := a.text(0, "pattern")
	if !ok || len(s) > maxText/2 {
		return unknownf("a pattern")
	}
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune("()[]{}?*+-|^$\\.&~# \t\n\r\v\f", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// match is a re.Match.
type match struct {
	of    *pattern
	text  string
	index []int
}

func (*match) typeName() string { return "re.Match" }

func (m *match) group(v value) value {
	n := -1
	switch v := v.(type) {
	case int64:
		if v >= 0 && v < int64(len(m.index)/2) {
			n = int(v)
		}
	case string:
		n = m.of.of.SubexpIndex(v)
	}
	if n < 0 {
		return unknownf("a group")
	}
	if m.index[2*n] < 0 {
		return nil
	}
	return m.text[m.index[2*n]:m.index[2*n+1]]
}

// found returns the text of a group as `findall` does: an empty one for a group that took no part.
func (m *match) found(n int) value {
	if t, ok := m.group(int64(n)).(string); ok {
		return t
	}
	return ""
}

func (m *match) item(_ *Run, index value) value { return m.group(index) }

func (m *match) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "group":
		return &builtin{"group", func(_ *Run, a *args) value {
			switch len(a.pos) {
			case 0:
				return m.group(int64(0))
			case 1:
				return m.group(a.pos[0])
			}
			t := &tuple{}
			for _, v := range a.pos {
				t.items = append(t.items, m.group(v))
			}
			return t
		}}, true
	case "groupdict":
		return &builtin{"groupdict", func(r *Run, a *args) value {
			d := r.newDict()
			none, _ := a.get(0, "default")
			for _, name := range m.of.of.SubexpNames() {
				if name == "" {
					continue
				}
				v := m.group(name)
				if v == nil {
					v = none
				}
				r.setKey(d, name, v)
			}
			return d
		}}, true
	case "start", "end", "span":
		return &builtin{name, func(_ *Run, a *args) value {
			v, given := a.get(0, "")
			n, ok := v.(int64)
			if given && (!ok || n < 0 || n >= int64(len(m.index)/2)) || strings.ContainsFunc(m.text, func(c rune) bool { return c > 127 }) {
				return unknownf("a position")
			}
			from, to := int64(m.index[2*n]), int64(m.index[2*n+1])
			switch name {
			case "start":
				return from
			case "end":
				return to
			}
			return &tuple{items: []value{from, to}}
		}}, true
	case "groups":
		return &builtin{"groups", func(*Run, *args) value {
			t := &tuple{}
			for i := 1; i < len(m.index)/2; i++ {
				t.items = append(t.items, m.group(int64(i)))
			}
			return t
		}}, true
	}
	return nil, false
}
