// Package lsp shows the findings of `imgcheck lint` in editors, by the Language Server
// Protocol 3.17 (https://microsoft.github.io/language-server-protocol/): diagnostics of open
// Dockerfiles, the rule's page at a finding, and actions that change the file.
//
// It knows documents, positions and edits, and asks its caller to lint a text. Documents are
// whole texts: the server asks the editor for no changes of parts. A lint that a later change
// of the document overtakes is stopped, and shows nothing.
package lsp

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/handler"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Options have the functions of the caller that a server needs.
type Options struct {
	// Lint lints a text. path is the file's, or a name if the document is none. ask is set for
	// a text that was opened or saved: registries and indexes are not to be asked for names
	// that are half typed. It is called for one text at a time.
	Lint func(ctx context.Context, path string, text []byte, ask bool) *dockerlint.File
	// Rule returns a rule by its ID, or nil.
	Rule func(id string) *packs.Rule
	// Version is the program's.
	Version string
}

// maxDocument bounds a Dockerfile, in bytes. A larger document is none.
const maxDocument = 1 << 20

// Serve answers an editor until it says exit, the input ends or the context does.
func Serve(ctx context.Context, in io.Reader, out io.WriteCloser, o Options) error {
	s := &server{Options: o, ctx: ctx, open: map[string]*document{}}
	s.rpc = jrpc2.NewServer(handler.Map{
		"initialize":              handler.New(s.initialize),
		"initialized":             handler.New(s.nothing),
		"shutdown":                handler.New(s.shutdown),
		"exit":                    handler.New(s.exit),
		"textDocument/didOpen":    handler.New(s.didOpen),
		"textDocument/didChange":  handler.New(s.didChange),
		"textDocument/didSave":    handler.New(s.didSave),
		"textDocument/didClose":   handler.New(s.didClose),
		"textDocument/hover":      handler.New(s.hover),
		"textDocument/codeAction": handler.New(s.codeAction),
	}, &jrpc2.ServerOptions{AllowPush: true, DisableBuiltin: true, Concurrency: 1, NewContext: func() context.Context { return ctx }})
	stop := context.AfterFunc(ctx, s.rpc.Stop)
	defer stop()
	s.rpc.Start(newAnswered(newFrames(in, out)))
	err := s.rpc.Wait()
	s.mu.Lock()
	clear(s.open) // their lints are not needed
	s.mu.Unlock()
	s.lints.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.exited {
		return nil
	}
	return err
}

type server struct {
	Options
	ctx    context.Context
	rpc    *jrpc2.Server
	exited bool
	lints  sync.WaitGroup
	one    sync.Mutex // held by the lint that runs
	mu     sync.Mutex // protects the fields below
	open   map[string]*document
}

// document is an open Dockerfile.
type document struct {
	text     string
	lines    []string
	findings []dockerlint.Finding // of the last lint that ended
}

// The part of the protocol that is used.
type (
	position struct {
		Line      int `json:"line"`
		Character int `json:"character"` // in units of UTF-16
	}
	span struct {
		Start position `json:"start"`
		End   position `json:"end"`
	}
	identifier struct {
		URI string `json:"uri"`
	}
	diagnostic struct {
		Range    span      `json:"range"`
		Severity int       `json:"severity"` // 1 is an error, 2 a warning, 3 information
		Code     string    `json:"code"`
		Page     *codePage `json:"codeDescription,omitempty"`
		Source   string    `json:"source"`
		Message  string    `json:"message"`
	}
	codePage struct {
		Href string `json:"href"`
	}
	published struct {
		URI         string       `json:"uri"`
		Diagnostics []diagnostic `json:"diagnostics"`
	}
	textEdit struct {
		Range   span   `json:"range"`
		NewText string `json:"newText"`
	}
	action struct {
		Title       string       `json:"title"`
		Kind        string       `json:"kind"`
		Diagnostics []diagnostic `json:"diagnostics"`
		Preferred   bool         `json:"isPreferred,omitempty"`
		Edit        struct {
			Changes map[string][]textEdit `json:"changes"`
		} `json:"edit"`
	}
)

func (s *server) initialize(context.Context, any) (any, error) {
	return map[string]any{
		"serverInfo": map[string]string{"name": "imgcheck", "version": s.Version},
		"capabilities": map[string]any{
			"positionEncoding":   "utf-16",
			"textDocumentSync":   map[string]any{"openClose": true, "change": 1, "save": true}, // whole texts
			"hoverProvider":      true,
			"codeActionProvider": map[string]any{"codeActionKinds": []string{"quickfix"}},
		},
	}, nil
}

func (s *server) nothing(context.Context, any) error { return nil }

func (s *server) shutdown(context.Context) (any, error) { return nil, nil }

func (s *server) exit(context.Context) error {
	s.exited = true
	go s.rpc.Stop() // which waits for this handler
	return nil
}

func (s *server) didOpen(_ context.Context, p struct {
	Document struct {
		URI      string `json:"uri"`
		Language string `json:"languageId"`
		Text     string `json:"text"`
	} `json:"textDocument"`
},
) error {
	if d := p.Document; len(d.Text) <= maxDocument && (d.Language == "dockerfile" || dockerfile.Named(pathOf(d.URI))) {
		s.change(d.URI, d.Text, true)
	}
	return nil
}

func (s *server) didChange(_ context.Context, p struct {
	Document identifier `json:"textDocument"`
	Changes  []struct {
		Text string `json:"text"`
	} `json:"contentChanges"`
},
) error {
	s.mu.Lock()
	known := s.open[p.Document.URI] != nil
	s.mu.Unlock()
	if n := len(p.Changes); n > 0 && known && len(p.Changes[n-1].Text) <= maxDocument {
		s.change(p.Document.URI, p.Changes[n-1].Text, false)
	}
	return nil
}

func (s *server) didSave(_ context.Context, p struct {
	Document identifier `json:"textDocument"`
},
) error {
	s.mu.Lock()
	d := s.open[p.Document.URI]
	s.mu.Unlock()
	if d != nil {
		s.change(p.Document.URI, d.text, true)
	}
	return nil
}

func (s *server) didClose(_ context.Context, p struct {
	Document identifier `json:"textDocument"`
},
) error {
	s.mu.Lock()
	known := s.open[p.Document.URI] != nil
	delete(s.open, p.Document.URI)
	s.mu.Unlock()
	if !known {
		return nil
	}
	return s.rpc.Notify(s.ctx, "textDocument/publishDiagnostics", published{p.Document.URI, []diagnostic{}})
}

// change takes a document's text and lints it beside the answers to the editor.
func (s *server) change(uri, text string, ask bool) {
	d := &document{text: text, lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
	s.mu.Lock()
	if old := s.open[uri]; old != nil {
		d.findings = old.findings // until the lint ends
	}
	s.open[uri] = d
	s.mu.Unlock()
	current := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.open[uri] == d && s.ctx.Err() == nil
	}
	s.lints.Go(func() {
		s.one.Lock()
		defer s.one.Unlock()
		if !current() {
			return
		}
		file := s.Lint(s.ctx, pathOf(uri), []byte(text), ask)
		if !current() {
			return
		}
		s.mu.Lock()
		d.findings = file.Findings
		s.mu.Unlock()
		list := []diagnostic{}
		for i := range file.Findings {
			list = append(list, s.diagnostic(d, &file.Findings[i]))
		}
		s.rpc.Notify(s.ctx, "textDocument/publishDiagnostics", published{uri, list}) // an editor that has gone needs none
	})
}

// diagnostic returns a finding as the editor shows it.
func (s *server) diagnostic(d *document, f *dockerlint.Finding) diagnostic {
	x := diagnostic{Range: d.span(f), Severity: map[packs.Severity]int{packs.Error: 1, packs.Warning: 2}[f.Severity], Code: plain.Line(f.Rule), Source: "imgcheck", Message: plain.Line(f.Message)}
	if x.Severity == 0 {
		x.Severity = 3
	}
	if u, err := url.Parse(f.URL); err == nil && u.Scheme == "https" {
		x.Page = &codePage{f.URL}
	}
	for _, fix := range f.Fixes {
		x.Message += "\nfix: " + plain.Line(fix)
	}
	return x
}

// span returns the place of a finding: from its column to the end of its last line.
func (d *document) span(f *dockerlint.Finding) span {
	line := min(max(f.Line, 1), len(d.lines)) - 1
	end := min(max(f.EndLine, f.Line, 1), len(d.lines)) - 1
	before := []rune(d.lines[line])
	return span{position{line, units(string(before[:min(max(f.Column-1, 0), len(before))]))}, position{end, units(d.lines[end])}}
}

// units returns the length of a text in units of UTF-16.
func units(text string) int { return len(utf16.Encode([]rune(text))) }

// asked has the parts of a request that say for which place it is.
type asked struct {
	Document identifier `json:"textDocument"`
	Position position   `json:"position"`
	Range    span       `json:"range"`
}

// at returns the document of a request and its findings between two lines.
func (s *server) at(uri string, first, last int) (*document, []dockerlint.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.open[uri]
	if d == nil {
		return nil, nil
	}
	var list []dockerlint.Finding
	for i := range d.findings {
		if r := d.span(&d.findings[i]); r.Start.Line <= last && first <= r.End.Line {
			list = append(list, d.findings[i])
		}
	}
	return d, list
}

// hover returns what is known of the findings of a line: why, the fixes, and their rules'
// pages.
func (s *server) hover(_ context.Context, p asked) (any, error) {
	_, findings := s.at(p.Document.URI, p.Position.Line, p.Position.Line)
	var b strings.Builder
	seen := map[string]bool{}
	for i := range findings {
		f := &findings[i]
		if b.Len() > 0 {
			b.WriteString("\n---\n\n")
		}
		fmt.Fprintf(&b, "**%s**: %s\n", f.Severity, markdown(f.Message))
		if f.Because != "" {
			fmt.Fprintf(&b, "\nbecause %s\n", markdown(f.Because))
		}
		for _, fix := range f.Fixes {
			fmt.Fprintf(&b, "\n- fix: %s\n", markdown(fix))
		}
		if r := s.Rule(f.Rule); r != nil && !seen[f.Rule] {
			seen[f.Rule] = true
			b.WriteString("\n" + r.Page())
		}
	}
	if b.Len() == 0 {
		return nil, nil
	}
	return map[string]any{"contents": map[string]string{"kind": "markdown", "value": b.String()}}, nil
}

// markdown returns a text as a code span, in which nothing of it has a meaning.
func markdown(text string) string {
	return "`" + strings.ReplaceAll(plain.Line(text), "`", "'") + "`"
}

// codeAction returns the changes that help against the findings of some lines: a fix that is
// an instruction of the same kind takes its place, and a comment ignores the finding.
func (s *server) codeAction(_ context.Context, p asked) (any, error) {
	d, findings := s.at(p.Document.URI, p.Range.Start.Line, p.Range.End.Line)
	list := []action{}
	for i := range findings {
		f := &findings[i]
		shown := s.diagnostic(d, f)
		add := func(title string, preferred bool, e textEdit) {
			a := action{Title: title, Kind: "quickfix", Diagnostics: []diagnostic{shown}, Preferred: preferred}
			a.Edit.Changes = map[string][]textEdit{p.Document.URI: {e}}
			list = append(list, a)
		}
		line := shown.Range.Start.Line
		indent := d.lines[line][:len(d.lines[line])-len(strings.TrimLeft(d.lines[line], " \t"))]
		whole := span{position{line, len(indent)}, position{line, units(d.lines[line])}}
		for _, fix := range f.Fixes {
			if shown.Range.End.Line == line && replaces(d.lines[line], fix) {
				add(plain.Line(fix), true, textEdit{whole, fix})
				break
			}
		}
		if s.Rule(f.Rule) != nil || f.URL != "" {
			add("ignore "+plain.Line(f.Rule)+" here", false, textEdit{span{position{line, 0}, position{line, 0}}, indent + "# imgcheck ignore=" + f.Rule + " say why\n"})
		}
	}
	return list, nil
}

// replaces reports whether a fix is an instruction that can take the place of a line: of the
// same kind, whole, and for ENV with the one variable that the line sets.
func replaces(line, fix string) bool {
	old, new := strings.Fields(line), strings.Fields(fix)
	if len(old) < 2 || len(new) < 2 || !strings.EqualFold(old[0], new[0]) || strings.ContainsAny(fix, "…\n") || strings.HasSuffix(line, "\\") {
		return false
	}
	switch strings.ToUpper(new[0]) {
	case "WORKDIR":
		return len(old) == 2 && len(new) == 2
	case "ENV":
		before, _, ok := strings.Cut(old[1], "=")
		after, _, ok2 := strings.Cut(new[1], "=")
		return ok && ok2 && before == after && len(old) == 2 && len(new) == 2
	}
	return false
}

// pathOf returns the path of a document, or the last part of its address if it is no file.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "Dockerfile"
	case u.Scheme == "file" && filepath.IsAbs(u.Path):
		return filepath.FromSlash(u.Path)
	}
	parts := strings.FieldsFunc(u.Path+"/"+u.Opaque, func(r rune) bool { return r == '/' })
	return slices.Concat([]string{"Dockerfile"}, parts)[len(parts)]
}
