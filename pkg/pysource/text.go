package pysource

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// strings reads adjacent strings as one.
func (p *parser) strings() Expr {
	var parts []Expr
	var isBytes, format, bad bool
	for ; p.is(tokString) || p.isOp("?"); p.at++ {
		text := p.tok().text
		if text == "?" {
			bad = true
			continue
		}
		prefix, body, raw := splitString(text)
		switch {
		case isFormat(prefix):
			format = true
			parts = append(parts, p.format(body, raw)...)
			bad = bad || strings.ContainsAny(prefix, "tT") // a template, no string
		case strings.ContainsAny(prefix, "bB"):
			isBytes = true
			fallthrough
		default:
			bad = bad || hasNamed(body, raw || isBytes)
			parts = append(parts, &Const{unescape(body, raw, isBytes)})
		}
	}
	if bad {
		return &BadExpr{"?"}
	}
	parts = join(parts)
	if format {
		return &FString{parts}
	}
	s := ""
	if len(parts) > 0 {
		s = parts[0].(*Const).Value.(string)
	}
	if isBytes {
		return &Const{[]byte(s)}
	}
	return &Const{s}
}

// hasNamed reports whether a string has a character by its Unicode name: its value is not
// known here.
func hasNamed(s string, raw bool) bool { return !raw && strings.Contains(s, "\\N{") }

// join makes one of string constants side by side.
func join(parts []Expr) []Expr {
	var list []Expr
	for i := 0; i < len(parts); i++ {
		var b strings.Builder
		n := 0
		for ; i+n < len(parts); n++ {
			c, _ := parts[i+n].(*Const)
			if c == nil {
				break
			}
			text, ok := c.Value.(string)
			if !ok {
				break
			}
			b.WriteString(text)
		}
		if n == 0 {
			list = append(list, parts[i])
			continue
		}
		if b.Len() > 0 || n == len(parts) {
			list = append(list, &Const{b.String()})
		}
		i += n - 1
	}
	return list
}

// splitString splits a string token into its prefix and the text between the quotes.
func splitString(text string) (prefix, body string, raw bool) {
	i := strings.IndexAny(text, `"'`)
	prefix, body = text[:i], text[i:]
	n := 1
	if len(body) >= 6 && body[1] == body[0] && body[2] == body[0] {
		n = 3
	}
	return prefix, body[n : len(body)-n], strings.ContainsAny(prefix, "rR")
}

// unescape returns the value of a string or bytes.
func unescape(s string, raw, isBytes bool) string {
	if strings.IndexByte(s, '\r') >= 0 {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	}
	if raw || strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for s != "" {
		n := strings.IndexByte(s, '\\')
		if n < 0 || n+1 == len(s) {
			break
		}
		b.WriteString(s[:n])
		s = s[n+1:]
		s = s[escape(&b, s, isBytes):]
	}
	b.WriteString(s)
	return b.String()
}

// escape writes the character of an escape sequence, and returns the length of the
// sequence without its backslash. One that is not known stays as it is.
func escape(b *strings.Builder, s string, isBytes bool) int {
	switch c := s[0]; c {
	case '\n':
		return 1
	case '\\', '\'', '"':
		b.WriteByte(c)
		return 1
	case 'a', 'b', 'f', 'n', 'r', 't', 'v':
		b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		return 1
	case 'x':
		return hex(b, s, 2, isBytes)
	case 'u':
		return hex(b, s, 4, isBytes)
	case 'U':
		return hex(b, s, 8, isBytes)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n := 1
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(s[:n], 8, 32)
		put(b, rune(v), isBytes)
		return n
	}
	b.WriteByte('\\')
	_, n := utf8.DecodeRuneInString(s)
	b.WriteString(s[:n])
	return n
}

// hex writes the character of n hexadecimal digits after the first byte of s.
func hex(b *strings.Builder, s string, n int, isBytes bool) int {
	if len(s) > n && (!isBytes || n == 2) {
		if v, err := strconv.ParseUint(s[1:n+1], 16, 32); err == nil {
			put(b, rune(v), isBytes)
			return n + 1
		}
	}
	b.WriteByte('\\')
	b.WriteByte(s[0])
	return 1
}

func put(b *strings.Builder, r rune, isBytes bool) {
	if isBytes {
		b.WriteByte(byte(r))
	} else {
		b.WriteRune(r)
	}
}

// format returns the parts of an f-string.
func (p *parser) format(s string, raw bool) []Expr {
	if p.inside > 4 {
		return []Expr{&BadExpr{"f"}}
	}
	var parts []Expr
	var text strings.Builder
	left := newStrings(s).left // of all fields together
	for s != "" {
		n := strings.IndexAny(s, "{}\\")
		if n < 0 {
			break
		}
		text.WriteString(s[:n])
		s = s[n:]
		switch {
		case s[0] == '\\' && !raw && strings.HasPrefix(s, "\\N{"):
			end := strings.IndexByte(s, '}')
			if end < 0 {
				end = len(s) - 1
			}
			parts = append(parts, &Const{unescape(text.String(), raw, false)}, &BadExpr{s[:end+1]})
			text.Reset()
			s = s[end+1:]
		case s[0] == '\\':
			n := min(2, len(s))
			if n == 2 && (s[1] == '{' || s[1] == '}') {
				n = 1
			}
			text.WriteString(s[:n])
			s = s[n:]
		case len(s) > 1 && s[1] == s[0]:
			text.WriteByte(s[0])
			s = s[2:]
		case s[0] == '}':
			s = s[1:]
		default:
			parts = append(parts, &Const{unescape(text.String(), raw, false)})
			text.Reset()
			var field []Expr
			field, s = p.field(s[1:], &left)
			parts = append(parts, field...)
		}
	}
	return append(parts, &Const{unescape(text.String()+s, raw, false)})
}

// field reads a replacement field after its `{`, and returns the text after its `}`. With
// `=`, the field's text comes before its value. left is what its strings may take.
func (p *parser) field(s string, left *int) (parts []Expr, rest string) {
	t := stringScanner{src: s, left: *left}
	end, spec, ok := t.field(0, `"""`, 0)
	*left = t.left
	if !ok {
		return []Expr{&BadExpr{"f"}}, ""
	}
	code, rest := s[:end-1], s[end:]
	if spec {
		rest = afterSpec(rest)
	}
	if text := withEqual(code); text != "" {
		return []Expr{&Const{text}, &BadExpr{"f"}}, rest
	}
	e := p.fieldExpr(code)
	if spec {
		e = &BadExpr{"f"}
	}
	return []Expr{e}, rest
}

// withEqual returns the text that `{code=}` shows, or "" if the code does not end with a
// single `=`.
func withEqual(code string) string {
	if n := len(code) - 2; n > 0 && code[n] == '!' && isNameStart(code[n+1]) {
		code = code[:n]
	}
	trimmed := strings.TrimRight(code, " \t\n")
	if n := len(trimmed) - 1; n > 0 && trimmed[n] == '=' && strings.IndexByte("=!<>", trimmed[n-1]) < 0 {
		return code
	}
	return ""
}

// afterSpec returns the text after a format specification and its `}`.
func afterSpec(s string) string {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth < 0 {
				return s[i+1:]
			}
		}
	}
	return ""
}

// fieldExpr parses the expression of a replacement field. One with a conversion other
// than !s is a BadExpr.
func (p *parser) fieldExpr(code string) Expr {
	code = strings.TrimSpace(code)
	tokens, _ := lex("("+code+")", false, nil)
	n := len(tokens)
	if n > 5 && tokens[n-5].text == "!" && tokens[n-4].kind == tokName { // ! NAME ) NEWLINE EOF
		if tokens[n-4].text != "s" {
			return &BadExpr{"f"}
		}
		tokens = append(tokens[:n-5], tokens[n-3:]...)
	}
	q := &parser{tokens: tokens, inside: p.inside + 1, depth: p.depth}
	e := q.list(q.starOrNamed)
	p.gen = p.gen || q.gen
	if q.bad || !q.is(tokNewline) {
		return &BadExpr{"f"}
	}
	return e
}
