package pyimport

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxWidth limits the width and precision of a field.
const maxWidth = 1000

// spec is a format specification: [[fill]align][sign][#][0][width][,][.precision][type]
// (the Format Specification Mini-Language of Python's library reference).
type spec struct {
	fill      rune
	align     byte
	sign      byte
	alternate bool
	width     int
	comma     byte
	precision int // -1 without one
	kind      byte
}

// readSpec reads a format specification.
func readSpec(s string) (f spec, ok bool) {
	f = spec{fill: ' ', precision: -1}
	if c, n := utf8.DecodeRuneInString(s); n > 0 && len(s) > n && strings.IndexByte("<>^=", s[n]) >= 0 {
		f.fill, f.align, s = c, s[n], s[n+1:]
	} else if s != "" && strings.IndexByte("<>^=", s[0]) >= 0 {
		f.align, s = s[0], s[1:]
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		f.sign, s = s[0], s[1:]
	}
	if s, f.alternate = strings.CutPrefix(s, "#"); strings.HasPrefix(s, "0") {
		s = s[1:]
		if f.align == 0 {
			f.fill, f.align = '0', '='
		}
	}
	if f.width, s, ok = digits(s); !ok {
		return f, false
	}
	if s != "" && (s[0] == ',' || s[0] == '_') {
		f.comma, s = s[0], s[1:]
	}
	if rest, dot := strings.CutPrefix(s, "."); dot {
		before := len(rest)
		if f.precision, s, ok = digits(rest); !ok || len(s) == before {
			return f, false
		}
	}
	if len(s) == 1 {
		f.kind, s = s[0], ""
	}
	return f, s == ""
}

// digits reads a number of at most maxWidth at the beginning of a text.
func digits(s string) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		if i++; n > maxWidth {
			return 0, s, false
		}
	}
	return n, s[i:], true
}

// formatted is format(v, text). known is false if the result is not known.
func (r *Run) formatted(v value, text string) (s string, known bool) {
	if text == "" {
		return r.str(v)
	}
	f, ok := readSpec(text)
	if !ok {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return f.text(v)
	case bool, int64:
		if _, is := v.(bool); is && f.kind == 0 {
			return "", false
		}
		return f.number(toInt(v))
	case float64:
		if f.kind == 'f' || f.kind == 'F' {
			return f.fixed(v)
		}
	}
	return "", false
}

// text formats a text.
func (f spec) text(s string) (string, bool) {
	if f.kind != 0 && f.kind != 's' || f.sign != 0 || f.comma != 0 || f.align == '=' || f.alternate {
		return "", false
	}
	if f.precision >= 0 && utf8.RuneCountInString(s) > f.precision {
		s = string([]rune(s)[:f.precision])
	}
	if f.align == 0 {
		f.align = '<'
	}
	return f.pad("", s), true
}

// number formats an integer.
func (f spec) number(n int64) (string, bool) {
	if f.precision >= 0 && f.kind != 'f' && f.kind != 'F' || n == -1<<63 {
		return "", false
	}
	prefix, base := "", 10
	switch f.kind {
	case 0, 'd', 'n':
	case 'x', 'X':
		prefix, base = "0"+string(f.kind), 16
	case 'o':
		prefix, base = "0o", 8
	case 'b':
		prefix, base = "0b", 2
	case 'f', 'F':
		return f.fixed(float64(n))
	default:
		return "", false
	}
	if !f.alternate {
		prefix = ""
	}
	s := strconv.FormatInt(max(n, -n), base)
	if f.kind == 'X' {
		s = strings.ToUpper(s)
	}
	if f.comma != 0 {
		if base != 10 || f.fill == '0' {
			return "", false
		}
		s = grouped(s, f.comma)
	}
	return f.signed(n < 0, prefix, s), true
}

// fixed formats a number with digits after the point.
func (f spec) fixed(v float64) (string, bool) {
	if f.comma != 0 || f.alternate {
		return "", false
	}
	if f.precision < 0 {
		f.precision = 6
	}
	s := strconv.FormatFloat(v, 'f', f.precision, 64)
	s, negative := strings.CutPrefix(s, "-")
	if s == "NaN" || strings.HasSuffix(s, "Inf") {
		return "", false
	}
	return f.signed(negative, "", s), true
}

// signed puts the sign before a number, and fills it up.
func (f spec) signed(negative bool, prefix, s string) string {
	switch {
	case negative:
		prefix = "-" + prefix
	case f.sign == '+' || f.sign == ' ':
		prefix = string(f.sign) + prefix
	}
	if f.align == 0 {
		f.align = '>'
	}
	return f.pad(prefix, s)
}

// grouped puts a mark between groups of three digits.
func grouped(s string, mark byte) string {
	var b strings.Builder
	for i := range len(s) {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(mark)
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// pad fills a text up to the width.
func (f spec) pad(prefix, s string) string {
	n := f.width - utf8.RuneCountInString(prefix) - utf8.RuneCountInString(s)
	if n <= 0 {
		return prefix + s
	}
	fill := func(n int) string { return strings.Repeat(string(f.fill), n) }
	switch f.align {
	case '<':
		return prefix + s + fill(n)
	case '^':
		return fill(n/2) + prefix + s + fill(n-n/2)
	case '=':
		return prefix + fill(n) + s
	}
	return fill(n) + prefix + s
}
