package plain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"
)

// JSON writes v as JSON that is safe in a log. It escapes what [Text] would change, so
// that a JSON reader gets it unchanged. indent is the indentation of a level; "" writes
// one line.
func JSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escaped(b.Bytes()))
	return err
}

// escaped escapes the characters that act in encoded JSON. Outside of strings, JSON has
// only ASCII, the encoder's white space, and no "#".
func escaped(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for whole := range bytes.Lines(text) {
		if ordinary(bytes.TrimSuffix(whole, []byte("\n"))) {
			out = append(out, whole...)
			continue
		}
		var l line
		for _, r := range string(whole) {
			if l.commands(r) || r != '\n' && acts(r) {
				out = fmt.Appendf(out, `\u%04x`, r)
				continue
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}
