package lsp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// TestHostile: each message that is no notification has an answer, also if the input ends
// after it, and a header that cannot be read ends the server with an error.
func TestHostile(t *testing.T) {
	framed := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }
	const (
		version = `"jsonrpc":"2.0"`
		hover   = `{` + version + `,"id":1,"method":"textDocument/hover","params":{}}`
		none    = `{` + version + `,"id":1,"result":null}`
	)
	refused := func(id string, code int) string {
		return fmt.Sprintf(`{%s,"id":%s,"error":{"code":%d,`, version, id, code)
	}
	for _, tt := range []struct {
		input string
		want  []string // beginnings of the answers
		err   string
	}{
		{"", nil, ""},
		{framed(`[]`), []string{refused("null", -32600)}, ""},
		{framed(` [ ] `), []string{refused("null", -32600)}, ""},
		{framed(`[1]`), []string{"[" + refused("null", -32700)}, ""},
		{framed(`[1,2,3]`), []string{"[" + refused("null", -32700)}, ""},
		{framed(`[[]]`), []string{"[" + refused("null", -32700)}, ""},
		{framed(`[` + hover + `]`), []string{"[" + none + "]"}, ""},
		{framed(`[` + hover + `,` + hover + `]`), []string{"[" + refused("1", -32600)}, ""},
		{framed(`[{` + version + `,"method":"initialized","params":{}}]`), nil, ""},
		{framed(hover) + framed(strings.Replace(hover, "1", "2", 1)), []string{none, strings.Replace(none, "1", "2", 1)}, ""},
		{framed(`{`), []string{refused("null", -32700)}, ""},
		{framed(``), []string{refused("null", -32700)}, ""},
		{framed(`null`), []string{refused("null", -32600)}, ""},
		{framed(`"x"`), []string{refused("null", -32700)}, ""},
		{framed(`{}`), []string{refused("null", -32600)}, ""},
		{framed(`{"id":1,"method":"shutdown"}`), []string{refused("1", -32600)}, ""},
		{framed(`{` + version + `,"id":{},"method":"shutdown"}`), []string{refused("null", -32600)}, ""},
		{framed(`{` + version + `,"id":1,"method":7}`), []string{refused("1", -32700)}, ""},
		{framed(`{` + version + `,"id":1,"method":"rpc.serverInfo"}`), []string{refused("1", -32601)}, ""},
		{framed(`{` + version + `,"id":1,"method":"textDocument/hover","params":7}`), []string{refused("1", -32600)}, ""},
		{framed(`{` + version + `,"id":1,"method":"textDocument/hover","params":{"position":{"line":1e99}}}`), []string{refused("1", -32602)}, ""},
		{framed(`{` + version + `,"id":1,"result":null}`), []string{refused("1", -32600)}, ""},
		{framed(strings.Repeat("[", 1<<20)), []string{refused("null", -32700)}, ""},
		{framed(`{` + version + `,"id":1,"method":"textDocument/hover","params":{"x":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}}`), []string{refused("null", -32700)}, ""},
		{framed("\xff\xfe"), []string{refused("null", -32700)}, ""},
		{"Content-Length: -1\r\n\r\n", nil, "has the length"},
		{"Content-Length: 16777217\r\n\r\n", nil, "has the length"},
		{"Content-Length: 99999999999999999999\r\n\r\n", nil, "has the length"},
		{"Content-Length: 2\r\nContent-Length: 99\r\n\r\n[]", nil, "unexpected EOF"},
		{"Content-Length: 0x2\r\n\r\n[]", nil, "has the length"},
		{"\r\n[]", nil, "has no Content-Length"},
		{"[]", nil, "ends within the header"},
		{"Content-Length: 2\r\n", nil, "ends within the header"},
		{"[]\r\n\r\n", nil, "a line without a name"},
		{strings.Repeat("x", 1<<20), nil, "has a long line"},
		{framed(hover) + "Content-Length: x\r\n\r\n", []string{none}, "has the length"},
	} {
		var out bytes.Buffer
		err := Serve(t.Context(), strings.NewReader(tt.input), closing{&out}, Options{Rule: func(string) *packs.Rule { return nil }})
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%.80q: %v, want %q", tt.input, err, tt.err)
		}
		var got []string
		for r := (&frames{r: bufio.NewReader(&out)}); ; {
			msg, err := r.Recv()
			if err != nil {
				break
			}
			got = append(got, string(msg))
		}
		slices.Sort(got) // answers may come in any order
		if len(got) != len(tt.want) {
			t.Errorf("%.80q: %.300q, want %q", tt.input, got, tt.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], tt.want[i]) {
				t.Errorf("%.80q: %.300q, want %q", tt.input, got[i], tt.want[i])
			}
		}
	}
}

type closing struct{ io.Writer }

func (closing) Close() error { return nil }
