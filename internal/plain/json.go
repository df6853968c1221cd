package plain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON writes v as JSON that is safe in a log. It masks logins in URLs. Else it escapes what
// [Text] would change, so that a JSON reader gets it unchanged. indent is the indentation of a level; "" writes
// one line.
func JSON(w io.Writer, v any, indent string) error { return write(w, v, indent, false) }

// JSONText writes as JSON does, for readers that show the strings to people, such as a viewer of
// SARIF: a character without a shape stays as its escape.
func JSONText(w io.Writer, v any, indent string) error { return write(w, v, indent, true) }

func write(w io.Writer, v any, indent string, text bool) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escaped(b.Bytes(), text))
	return err
}

// escaped escapes the characters that act in encoded JSON. Outside of strings, JSON has
// only ASCII, the encoder's white space, and no "#". With twice, the escape of an invisible
// character is escaped itself.
func escaped(text []byte, twice bool) []byte {
	out := make([]byte, 0, len(text))
	for whole := range bytes.Lines(text) {
		if bytes.Contains(whole, []byte("://")) && bytes.IndexByte(whole, '@') >= 0 {
			whole = []byte(Masked(string(whole)))
		}
		if ordinary(bytes.TrimSuffix(whole, []byte("\n"))) {
			out = append(out, whole...)
			continue
		}
		var l line
		for _, r := range string(whole) {
			command := l.commands(r)
			switch {
			case invisible(r) && twice:
				out = append(append(out, '\\'), escape(r)...)
				continue
			case r > 0xffff && invisible(r):
				high, low := utf16.EncodeRune(r)
				out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
				continue
			case command, r != '\n' && hides(r):
				out = fmt.Appendf(out, `\u%04x`, r)
				continue
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}
