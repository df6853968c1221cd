package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// editor is the other side of a server.
type editor struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	id   int
	done chan error
}

// start starts a server in which each line that has "wrong" has a finding.
func start(t *testing.T, ctx context.Context, lint func(path string, text []byte, ask bool) *dockerlint.File) *editor {
	t.Helper()
	inR, in := io.Pipe()
	out, outW := io.Pipe()
	e := &editor{t: t, in: in, out: bufio.NewReader(out), done: make(chan error, 1)}
	go func() {
		e.done <- Serve(ctx, inR, outW, Options{
			Lint: func(_ context.Context, path string, text []byte, ask bool) *dockerlint.File {
				return lint(path, text, ask)
			},
			Rule: func(id string) *packs.Rule {
				return map[string]*packs.Rule{"known": {ID: "known", Title: "the title", Severity: packs.Error}}[id]
			},
			Version: "1.2.3",
		})
		outW.Close()
	}()
	t.Cleanup(func() { in.Close(); out.Close() })
	return e
}

func lintWrong(path string, text []byte, _ bool) *dockerlint.File {
	f := &dockerlint.File{Path: path}
	for i, l := range strings.Split(string(text), "\n") {
		if at := strings.Index(l, "wrong"); at >= 0 {
			f.Findings = append(f.Findings, dockerlint.Finding{Rule: "known", Severity: packs.Error, Line: i + 1, EndLine: i + 1, Column: len([]rune(l[:at])) + 1, Message: path + " is wrong", Because: "of a `reason`", Fixes: []string{"ENV A=right"}})
		}
	}
	return f
}

func (e *editor) send(method string, id int, params string) {
	e.t.Helper()
	number := ""
	if id > 0 {
		number = fmt.Sprintf(`,"id":%d`, id)
	}
	msg := fmt.Sprintf(`{"jsonrpc":"2.0"%s,"method":%q,"params":%s}`, number, method, params)
	if _, err := fmt.Fprintf(e.in, "Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n%s", len(msg), msg); err != nil {
		e.t.Fatal(err)
	}
}

// ask sends a request and returns the result.
func (e *editor) ask(method, params string) string {
	e.t.Helper()
	e.id++
	e.send(method, e.id, params)
	m := e.next()
	if m.ID != e.id || m.Error != nil {
		e.t.Fatalf("%s: %+v", method, m)
	}
	return string(m.Result)
}

type message struct {
	ID             int
	Method         string
	Params, Result json.RawMessage
	Error          json.RawMessage
}

func (e *editor) next() (m message) {
	e.t.Helper()
	b, err := (&frames{r: e.out}).Recv()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		e.t.Fatal(err)
	}
	return m
}

// shown waits for diagnostics and returns them, LINE:COLUMN-LINE:COLUMN MESSAGE, from 0.
func (e *editor) shown() (list []string) {
	e.t.Helper()
	m := e.next()
	var p published
	if err := json.Unmarshal(m.Params, &p); err != nil || m.Method != "textDocument/publishDiagnostics" {
		e.t.Fatalf("%+v, %v", m, err)
	}
	for _, d := range p.Diagnostics {
		list = append(list, fmt.Sprintf("%d:%d-%d:%d %d %s", d.Range.Start.Line, d.Range.Start.Character, d.Range.End.Line, d.Range.End.Character, d.Severity, d.Message))
	}
	return list
}

func open(uri, language, text string) string {
	b, _ := json.Marshal(map[string]any{"textDocument": map[string]any{"uri": uri, "languageId": language, "version": 1, "text": text}})
	return string(b)
}

const uri = "file:///work/a%20b/Dockerfile"

func TestSession(t *testing.T) {
	var asked []bool
	e := start(t, t.Context(), func(path string, text []byte, ask bool) *dockerlint.File {
		asked = append(asked, ask)
		return lintWrong(path, text, ask)
	})
	if r := e.ask("initialize", `{"processId":null,"rootUri":null,"capabilities":{}}`); !strings.Contains(r, `"positionEncoding":"utf-16"`) || !strings.Contains(r, `"version":"1.2.3"`) {
		t.Error(r)
	}
	e.send("initialized", 0, "{}")
	e.send("$/setTrace", 0, `{"value":"off"}`)
	e.send("textDocument/didOpen", 0, open("file:///work/notes.txt", "plaintext", "wrong"))
	e.send("textDocument/didOpen", 0, open(uri, "dockerfile", "FROM a\r\nENV A=𝔘wrong\r\n"))
	want := []string{"1:8-1:13 1 /work/a b/Dockerfile is wrong\nfix: ENV A=right"}
	if diff := cmp.Diff(want, e.shown()); diff != "" {
		t.Error(diff)
	}
	place := `{"textDocument":{"uri":"` + uri + `"},"position":{"line":LINE,"character":0},"range":{"start":{"line":LINE,"character":0},"end":{"line":LINE,"character":1}},"context":{"diagnostics":[]}}`
	if r := e.ask("textDocument/hover", strings.ReplaceAll(place, "LINE", "0")); r != "null" {
		t.Error(r)
	}
	if r := e.ask("textDocument/hover", strings.ReplaceAll(place, "LINE", "1")); !strings.Contains(r, "because `of a 'reason'`") || !strings.Contains(r, "# known\\n\\n**error**: the title") {
		t.Error(r)
	}
	var actions []action
	if err := json.Unmarshal([]byte(e.ask("textDocument/codeAction", strings.ReplaceAll(place, "LINE", "1"))), &actions); err != nil || len(actions) != 2 {
		t.Fatalf("%+v, %v", actions, err)
	}
	got := ""
	for _, a := range actions {
		for _, x := range a.Edit.Changes[uri] {
			got += fmt.Sprintf("%s %v %+v %q\n", a.Title, a.Preferred, x.Range, x.NewText)
		}
	}
	wantActions := "ENV A=right true {Start:{Line:1 Character:0} End:{Line:1 Character:13}} \"ENV A=right\"\n" +
		"ignore known here false {Start:{Line:1 Character:0} End:{Line:1 Character:0}} \"# imgcheck ignore=known say why\\n\"\n"
	if got != wantActions {
		t.Errorf("%s\nwant\n%s", got, wantActions)
	}
	e.send("textDocument/didChange", 0, `{"textDocument":{"uri":"`+uri+`","version":2},"contentChanges":[{"text":"FROM a\n"}]}`)
	if list := e.shown(); list != nil {
		t.Error(list)
	}
	e.send("textDocument/didSave", 0, `{"textDocument":{"uri":"`+uri+`"}}`)
	if list := e.shown(); list != nil {
		t.Error(list)
	}
	e.send("textDocument/didClose", 0, `{"textDocument":{"uri":"`+uri+`"}}`)
	if list := e.shown(); list != nil {
		t.Error(list)
	}
	if r := e.ask("textDocument/hover", strings.ReplaceAll(place, "LINE", "1")); r != "null" {
		t.Error(r)
	}
	if r := e.ask("shutdown", "null"); r != "null" {
		t.Error(r)
	}
	e.send("exit", 0, "null")
	if err := <-e.done; err != nil {
		t.Error(err)
	}
	if fmt.Sprint(asked) != "[true false true]" {
		t.Errorf("asked: %v", asked)
	}
}

// TestOvertaken: a lint that a later text overtakes shows nothing.
func TestOvertaken(t *testing.T) {
	begun, go1 := make(chan bool), make(chan bool)
	e := start(t, t.Context(), func(path string, text []byte, ask bool) *dockerlint.File {
		if string(text) == "wrong first" {
			begun <- true
			<-go1
		}
		return lintWrong(path, text, ask)
	})
	e.send("textDocument/didOpen", 0, open(uri, "dockerfile", "wrong first"))
	<-begun
	e.send("textDocument/didChange", 0, `{"textDocument":{"uri":"`+uri+`"},"contentChanges":[{"text":"second"},{"text":"  wrong third"}]}`)
	e.ask("textDocument/hover", `{"textDocument":{"uri":"`+uri+`"},"position":{"line":0,"character":0}}`) // the change is taken
	close(go1)
	if got, want := fmt.Sprint(e.shown()), "[0:2-0:13 1 /work/a b/Dockerfile is wrong\nfix: ENV A=right]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestEnds: the server ends with its input and with its context.
func TestEnds(t *testing.T) {
	e := start(t, t.Context(), lintWrong)
	e.in.Close()
	if err := <-e.done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e = start(t, ctx, lintWrong)
	e.ask("initialize", "{}")
	cancel()
	if err := <-e.done; err != context.Canceled {
		t.Error(err)
	}
}

func TestReplaces(t *testing.T) {
	for _, tt := range []struct {
		line, fix string
		want      bool
	}{
		{"ENV A=b", "ENV A=c", true},
		{"env A=b", "ENV A=c", true},
		{"ENV A=b B=c", "ENV A=c", false},
		{"ENV A=b", "ENV B=c", false},
		{"ENV A b", "ENV A=c", false},
		{"ENV A=b\\", "ENV A=c", false},
		{"ENV A=b", "ENV {names}=… sets a variable", false},
		{"WORKDIR x", "WORKDIR /x", true},
		{"RUN cd x", "WORKDIR /x", false},
		{"RUN a", "RUN b", false},
	} {
		if got := replaces(tt.line, tt.fix); got != tt.want {
			t.Errorf("%q, %q: %v", tt.line, tt.fix, got)
		}
	}
	for uri, want := range map[string]string{"file:///a/b": "/a/b", "untitled:Untitled-1": "Untitled-1", "git:/a/Dockerfile?x": "Dockerfile", "": "Dockerfile", "%": "Dockerfile"} {
		if got := pathOf(uri); got != want {
			t.Errorf("%q: %q, want %q", uri, got, want)
		}
	}
}

// FuzzFrames reads any input: messages within the bound, or an error.
func FuzzFrames(f *testing.F) {
	f.Add("Content-Length: 2\r\n\r\n{}Content-Length: 1\n\nx")
	f.Add("Content-Length: 99999999999\r\n\r\n")
	f.Add(strings.Repeat("x", 2*maxHeader))
	f.Fuzz(func(t *testing.T, input string) {
		r := &frames{r: bufio.NewReaderSize(strings.NewReader(input), maxHeader)}
		for all := 0; ; {
			msg, err := r.Recv()
			if err != nil {
				break
			}
			if all += len(msg); all > len(input) {
				t.Errorf("%d bytes of %d", all, len(input))
			}
		}
	})
}
