// Package variables puts the values of variables into texts, as Docker Compose does:
// https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md. It knows $NAME,
// ${NAME}, ${NAME:-default}, ${NAME-default}, ${NAME:+other}, ${NAME+other}, ${NAME:?error},
// ${NAME?error}, values that have variables in turn, and $$ for a dollar. It does not know
// where values come from.
package variables

import "strings"

// maxNested limits how deeply variables stand in the values of others.
const maxNested = 20

// Expand returns a text with the values of its variables. missing is the name of the first
// variable that has neither a value nor a default, or "". The text is as long as its own
// parts and the values that it names.
func Expand(s string, values map[string]string) (out, missing string) {
	e := &expander{values: values}
	out = e.text(s, 0)
	return out, e.missing
}

type expander struct {
	values  map[string]string
	missing string
}

func (e *expander) text(s string, depth int) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		switch c := s[0]; {
		case c == '$':
			b.WriteByte('$')
			s = s[1:]
		case c == '{':
			end := closing(s)
			if end < 0 || depth == maxNested {
				e.miss("${")
				return b.String()
			}
			b.WriteString(e.braced(s[1:end], depth))
			s = s[end+1:]
		default:
			n := nameLength(s)
			if n == 0 {
				b.WriteByte('$')
				continue
			}
			b.WriteString(e.value(s[:n]))
			s = s[n:]
		}
	}
}

// braced returns the value of a variable in braces.
func (e *expander) braced(s string, depth int) string {
	n := nameLength(s)
	name, rest := s[:n], s[n:]
	value, is := e.values[name]
	if rest == "" || n == 0 {
		return e.value(name)
	}
	full := rest[0] == ':' // an empty value counts as none
	if full {
		rest = rest[1:]
		is = is && value != ""
	}
	if rest == "" {
		return e.miss(name)
	}
	switch word := rest[1:]; rest[0] {
	case '-':
		if !is {
			return e.text(word, depth+1)
		}
		return value
	case '+':
		if is {
			return e.text(word, depth+1)
		}
		return ""
	case '?':
		if is {
			return value
		}
	}
	return e.miss(name)
}

func (e *expander) value(name string) string {
	if v, ok := e.values[name]; ok {
		return v
	}
	return e.miss(name)
}

// miss records a variable without a value, and returns "".
func (e *expander) miss(name string) string {
	if e.missing == "" {
		e.missing = name
		if name == "" {
			e.missing = "${"
		}
	}
	return ""
}

// closing returns the index of the brace that closes the one at the start, or -1.
func closing(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// nameLength returns how many bytes at the start of a text are the name of a variable.
func nameLength(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}
