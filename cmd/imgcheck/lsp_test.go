package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// TestLSP: an editor sees what imgcheck lint prints, also of the base image, which is not
// asked for while its name is typed.
func TestLSP(t *testing.T) {
	t.Chdir(t.TempDir())
	server := imagetest.Serve(t)
	_, ref := pushText(t, server, "ort-no-cudnn.txtar")
	inR, in := io.Pipe()
	out, outW := io.Pipe()
	t.Cleanup(func() { in.Close(); out.Close() })
	var stderr bytes.Buffer
	app := newApp(outW, &stderr)
	app.Reader = inR
	done := make(chan error, 1)
	go func() {
		done <- app.RunContext(t.Context(), []string{"imgcheck", "lsp", "--index", "none", "--no-cache"})
	}()
	send := func(method, params string) {
		t.Helper()
		msg := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
		if _, err := fmt.Fprintf(in, "Content-Length: %d\r\n\r\n%s", len(msg), msg); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(out)
	shown := func() (list []string) {
		t.Helper()
		h, err := textproto.NewReader(r).ReadMIMEHeader()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(h.Get("Content-Length"))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		var m struct {
			Params struct {
				Diagnostics []struct {
					Code  string
					Range struct{ Start struct{ Line int } }
				}
			}
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		for _, d := range m.Params.Diagnostics {
			list = append(list, fmt.Sprintf("%d %s", d.Range.Start.Line, d.Code))
		}
		return list
	}
	const doc = `"textDocument":{"uri":"file:///w/Dockerfile","languageId":"dockerfile","version":1`
	change := func(text string) {
		send("textDocument/didChange", `{`+doc+fmt.Sprintf(`},"contentChanges":[{"text":%q}]}`, text))
	}
	for _, tt := range []struct {
		do   func()
		want string
	}{
		{func() { send("textDocument/didOpen", `{`+doc+`,"text":"FROM scratch\nRUNN x\n"}}`) }, "1 build-error"},
		{func() { change("FROM " + ref + "\nRUN pip check\n") }, ""},
		{func() { send("textDocument/didSave", `{`+doc+`}}`) }, "0 missing-library"},
		{func() { change("FROM " + ref + "\nRUN pip check && true\n") }, "0 missing-library"},
	} {
		tt.do()
		if got := strings.Join(shown(), ", "); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
	send("exit", "null")
	if err := <-done; err != nil || stderr.Len() > 0 {
		t.Errorf("%v, %s", err, stderr.String())
	}
}
