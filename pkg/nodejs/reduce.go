package nodejs

import (
	"bytes"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
)

// Bounds of a source, in bytes.
const (
	maxSource  = 1 << 20
	maxReduced = 24 << 10
	maxBody    = 12 << 10 // of a function that loads something
	maxPlain   = 400      // of a function that loads nothing, and of a statement that calls
)

// unread is the reduced text of a source that could not be read.
const unread = "!"

// magic begins a reduced text, and left stands for statements that were left out.
const (
	magic = `"@js1";`
	left  = `"?"`
)

// KeepID names the version of Keep and Reduce.
const KeepID = "nodejs 2"

// Keep reports whether this package reads a file, by its path without a leading slash and
// its size in bytes: JavaScript outside of Python's packages and of web pages, and
// package.json.
func Keep(name string, size int64) bool {
	if size == 0 {
		return false
	}
	switch path.Ext(name) {
	case ".js", ".cjs", ".mjs":
		return !strings.HasSuffix(name, ".min.js") && !isPage(name) && !isPackageTest(name)
	case ".json":
		return size <= 256<<10 && path.Base(name) == "package.json" && isPackage(name)
	}
	return false
}

// IsSource reports whether a file is JavaScript by its path, and not too large to be read:
// then Extract's function for it is Reduce.
func IsSource(name string, size int64) bool {
	switch path.Ext(name) {
	case ".js", ".cjs", ".mjs":
		return size <= maxSource
	}
	return false
}

// Extract returns the function that reduces a file of [Keep], or nil for one that is kept
// whole, by its path and its size in bytes.
func Extract(name string, size int64) func(io.Reader) ([]byte, error) {
	switch path.Ext(name) {
	case ".js", ".cjs", ".mjs":
		return func(r io.Reader) ([]byte, error) { return extract(r, size) }
	case ".json":
		if path.Base(name) == "package.json" && isPackage(name) {
			return func(r io.Reader) ([]byte, error) {
				b, err := io.ReadAll(r)
				return ReducePackage(b), err
			}
		}
	}
	return nil
}

// extract reads a source and reduces it.
func extract(r io.Reader, size int64) ([]byte, error) {
	if size > maxSource {
		return []byte(unread), nil
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return Reduce(b), nil
}

// isPackage reports whether a package.json is that of an installed package, of which
// [ReducePackage] keeps a part.
func isPackage(name string) bool {
	return strings.Contains(name, "node_modules/") || strings.Contains(name, "/nodejs/")
}

// isPage reports whether a file is not for a program of Node: Python's packages and Jupyter
// have JavaScript for browsers, and so do directories of static files. npm's own is not read:
// pkg/startup knows what npm starts.
func isPage(name string) bool {
	for _, dir := range []string{
		"site-packages/", "dist-packages/", "share/jupyter/", "/static/", "/_next/static/", "usr/share/javascript/", "usr/share/doc/",
		"lib/node_modules/npm/", "lib/node_modules/corepack/", "usr/share/nodejs/npm/",
	} {
		if strings.Contains(name, dir) {
			return true
		}
	}
	return false
}

// isPackageTest reports whether a file is a test or an example of an installed package.
func isPackageTest(name string) bool {
	i := strings.LastIndex(name, "node_modules/")
	if i < 0 {
		return false
	}
	for _, dir := range []string{"/test/", "/tests/", "/__tests__/", "/examples/", "/docs/", "/deps/", "/bench/"} {
		if strings.Contains(name[i:], dir) {
			return true
		}
	}
	return false
}

// words begin what makes a source worth reading: without one of them a file loads nothing.
var words = [][]byte{[]byte("require"), []byte("import"), []byte("dlopen"), []byte("export"), []byte("exit")}

// Reduce returns the statements of a source that decide what it loads, as JavaScript: those
// that load something when the file is loaded, and the functions and variables that they
// use. Marks "@12" say at which line the next statement was. It returns [unread] for a
// source that it cannot parse or that is too large. The result does not
// share src's memory.
func Reduce(src []byte) []byte {
	if bytes.HasPrefix(src, []byte(magic)) {
		return bytes.Clone(src)
	}
	if len(src) > maxSource {
		return []byte(unread)
	}
	if !slices.ContainsFunc(words, func(w []byte) bool { return bytes.Contains(src, w) }) {
		return []byte(magic)
	}
	tree, buf := parseJS(src)
	if tree == nil {
		return []byte(unread)
	}
	if bytes.Contains(src, []byte("platform")) {
		js.Walk(&onLinux{}, tree)
	}
	rd := &reducer{src: buf, lines: lineStarts(src)}
	for _, plain := range []int{maxPlain, 100, 0} {
		rd.plain = plain
		text := rd.reduce(tree.List)
		if len(text) > maxReduced {
			continue
		}
		if again, _ := parseJS(text); again == nil {
			break // the parser takes what its writer cannot write
		}
		return bytes.Clone(text) // no larger than it must be, for it is kept
	}
	return []byte(unread)
}

// attributes are those of an import, which the parser does not know.
var attributes = regexp.MustCompile(`((?:\bfrom|\bimport)\s*(?:'[^'\n]*'|"[^"\n]*")\s*)((?:with|assert)\s*\{[^{}]{0,300}\})`)

// parseJS parses a source, also with a return at its top as CommonJS allows, and returns
// the bytes of which the tree has parts. The tree is nil if the source cannot be parsed.
func parseJS(src []byte) (*js.AST, []byte) {
	buf := append(make([]byte, 0, len(src)+1), src...)
	if tree, err := js.Parse(parse.NewInputBytes(buf), js.Options{}); err == nil {
		return tree, buf
	}
	buf = append(make([]byte, 0, len(src)+1), src...)
	if tree, err := js.Parse(parse.NewInputBytes(buf), js.Options{Inline: true}); err == nil && !bytes.HasPrefix(src, []byte("#!")) {
		return tree, buf
	}
	buf = append(make([]byte, 0, len(src)+1), src...)
	if end := bytes.IndexByte(buf, '\n'); bytes.HasPrefix(buf, []byte("#!")) && end > 0 {
		copy(buf[:end], bytes.Repeat([]byte(" "), end))
	}
	for _, at := range attributes.FindAllSubmatchIndex(buf, -1) {
		copy(buf[at[4]:at[5]], bytes.Repeat([]byte(" "), at[5]-at[4]))
	}
	for _, o := range []js.Options{{}, {Inline: true}} {
		text := append(make([]byte, 0, len(buf)+1), buf...)
		if tree, err := js.Parse(parse.NewInputBytes(text), o); err == nil {
			return tree, text
		}
	}
	return nil, nil
}

// onLinux removes the branches for other systems.
type onLinux struct{}

func (l *onLinux) Enter(n js.INode) js.IVisitor {
	if s, ok := n.(*js.IfStmt); ok {
		b, isBinary := s.Cond.(*js.BinaryExpr)
		if isBinary && (b.Op == js.EqEqEqToken || b.Op == js.EqEqToken) && b.X.String() == "(process.platform)" {
			if v, ok := b.Y.(*js.LiteralExpr); ok && v.TokenType == js.StringToken && literal(v.Data) != "linux" {
				s.Body = &js.BlockStmt{}
			}
		}
	}
	return l
}

func (*onLinux) Exit(js.INode) {}

var newline = []byte("\n")

func lineStarts(src []byte) []int {
	list := make([]int, 1, 1+bytes.Count(src, newline))
	for at := 0; ; {
		n := bytes.IndexByte(src[at:], '\n')
		if n < 0 {
			return list
		}
		at += n + 1
		list = append(list, at)
	}
}

// reducer reduces one source.
type reducer struct {
	src   []byte
	lines []int
	plain int
	marks int // the last line that was marked
}

// lineOf returns the line of a part of the source, or 0 if it is none. The parser keeps
// parts of its input, without their offsets.
func (rd *reducer) lineOf(part []byte) int {
	if len(part) == 0 {
		return 0
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(rd.src)))
	if at >= uintptr(len(rd.src)) {
		return 0
	}
	n, found := slices.BinarySearch(rd.lines, int(at))
	if found {
		n++
	}
	return n
}

// statement is a statement at the top of a file.
type statement struct {
	stmt js.IStmt
	use  *uses
	keep bool
}

// reduce returns the text of the statements that are kept.
func (rd *reducer) reduce(body []js.IStmt) []byte {
	list := make([]statement, len(body))
	defined := map[string]bool{}
	for i, s := range body {
		u := &uses{defined: defined, names: map[string]bool{}}
		u.define(s)
		for _, n := range u.defines {
			defined[n] = true
		}
		list[i] = statement{stmt: s, use: u}
	}
	for i, s := range body {
		js.Walk(list[i].use, s)
		list[i].keep = list[i].use.loads || rd.calls(s) || rd.exports(s)
	}
	for changed := true; changed; {
		changed = false
		needed := map[string]bool{}
		for _, s := range list {
			if s.keep {
				for n := range s.use.names {
					needed[n] = true
				}
			}
		}
		for i := range list {
			if !list[i].keep && slices.ContainsFunc(list[i].use.defines, func(n string) bool { return needed[n] }) {
				list[i].keep, changed = true, true
			}
		}
	}
	var out bytes.Buffer
	out.WriteString(magic)
	rd.marks = 0
	for _, s := range list {
		if !s.keep {
			continue
		}
		if n := rd.line(s.stmt); n > 0 {
			out.WriteString(`"@` + strconv.Itoa(n) + `";`)
			rd.marks = n
		}
		js.Walk(&shortener{rd: rd}, s.stmt)
		s.stmt.JS(&out)
		if out.Len() > 4*maxReduced {
			break
		}
		out.WriteString(";\n")
	}
	return out.Bytes()
}

// calls reports whether a statement is a short call, which may be of a function that loads.
func (rd *reducer) calls(s js.IStmt) bool {
	e, ok := s.(*js.ExprStmt)
	if !ok {
		return false
	}
	switch e.Value.(type) {
	case *js.CallExpr, *js.UnaryExpr:
		return sizeOf(e, rd.plain) <= rd.plain
	}
	return false
}

// exports reports whether a statement exports something short.
func (rd *reducer) exports(s js.IStmt) bool {
	switch s := s.(type) {
	case *js.ExportStmt:
		return s.Module != nil || sizeOf(s, rd.plain) <= rd.plain
	case *js.ExprStmt:
		if b, ok := s.Value.(*js.BinaryExpr); ok && b.Op == js.EqToken {
			t := b.X.String()
			return strings.Contains(t, "exports") && sizeOf(s, 4*rd.plain) <= 4*rd.plain
		}
	}
	return false
}

// counter counts the bytes of a text. It panics with itself above a bound: the library
// takes no other way to end early.
type counter struct{ n, most int }

func (c *counter) Write(b []byte) (int, error) {
	if c.n += len(b); c.n > c.most {
		panic(c)
	}
	return len(b), nil
}

// sizeOf returns the bytes of a part when it is written, or more than most if it has more.
func sizeOf(n js.INode, most int) (size int) {
	c := &counter{most: most}
	defer func() {
		if size = c.n; size > most {
			_ = recover() // c's own
		}
	}()
	n.JS(c)
	return c.n
}

// line returns the line of the first part of a statement, or 0.
func (rd *reducer) line(s js.IStmt) int {
	f := &firstPart{rd: rd}
	js.Walk(f, s)
	return f.line
}

// firstPart finds the smallest line of the literals of a statement. Of a variable the parser
// keeps the text of its first use.
type firstPart struct {
	rd   *reducer
	line int
	n    int
}

func (f *firstPart) Enter(n js.INode) js.IVisitor {
	if f.n++; f.n > 200 {
		return nil
	}
	var part []byte
	switch n := n.(type) {
	case *js.LiteralExpr:
		part = n.Data
	case *js.DotExpr:
		if l, ok := n.Y.(js.LiteralExpr); ok {
			part = l.Data
		}
	case *js.VarDecl: // its names begin here, unless they are used before
		if len(n.List) > 0 {
			if v, ok := n.List[0].Binding.(*js.Var); ok && f.rd.lineOf(v.Name()) > f.rd.marks {
				part = v.Name()
			}
		}
	case *js.TemplateExpr:
		part = n.Tail
		if len(n.List) > 0 {
			part = n.List[0].Value
		}
	case *js.ImportStmt:
		part = n.Module
	case *js.ExportStmt:
		part = n.Module
	case *js.FuncDecl, *js.ArrowFunc, *js.MethodDecl:
		if f.line > 0 {
			return nil
		}
	}
	if line := f.rd.lineOf(part); line > 0 && (f.line == 0 || line < f.line) {
		f.line = line
	}
	return f
}

func (f *firstPart) Exit(js.INode) {}

// shortener replaces the bodies of long functions, and marks the lines of statements in
// blocks.
type shortener struct {
	rd    *reducer
	depth int // of functions within one another
}

// maxNested limits the functions within one another: each is measured.
const maxNested = 25

func (sh *shortener) Enter(n js.INode) js.IVisitor {
	switch n := n.(type) {
	case *js.FuncDecl:
		return sh.body(&n.Body)
	case *js.MethodDecl:
		return sh.body(&n.Body)
	case *js.ArrowFunc:
		return sh.body(&n.Body)
	case *js.BlockStmt:
		n.List = sh.mark(n.List)
	case *js.CaseClause:
		n.List = sh.mark(n.List)
	}
	return sh
}

func (sh *shortener) Exit(js.INode) {}

// body shortens the body of a function, unless it is short. It returns nil if nothing is
// left in it.
func (sh *shortener) body(b *js.BlockStmt) js.IVisitor {
	if sh.depth < maxNested && sh.isShort(b) {
		return &shortener{sh.rd, sh.depth + 1}
	}
	b.List = []js.IStmt{&js.ExprStmt{Value: &js.LiteralExpr{TokenType: js.StringToken, Data: []byte(left)}}}
	return nil
}

// isShort reports whether a body is short enough to be kept.
func (sh *shortener) isShort(b *js.BlockStmt) bool {
	size := sizeOf(b, max(maxBody, maxReduced/2))
	if size <= 2*sh.rd.plain {
		return true
	}
	limit := maxBody
	if sh.rd.plain == 0 {
		limit = maxPlain
	}
	return size <= limit && loads(b) || size <= maxReduced/2 && sh.rd.plain == maxPlain && isWrapper(b)
}

// isWrapper reports whether a body loads something itself, outside of the functions in it.
func isWrapper(b *js.BlockStmt) bool {
	return slices.ContainsFunc(b.List, func(s js.IStmt) bool { return loads(s) })
}

// mark puts the lines of the statements that load something before them.
func (sh *shortener) mark(body []js.IStmt) []js.IStmt {
	var list []js.IStmt
	for _, s := range body {
		if line := sh.rd.line(s); line > sh.rd.marks && loads(s) {
			sh.rd.marks = line
			list = append(list, &js.ExprStmt{Value: &js.LiteralExpr{TokenType: js.StringToken, Data: []byte(`"@` + strconv.Itoa(line) + `"`)}})
		}
		list = append(list, s)
	}
	return list
}

// uses are the names that a statement defines and uses.
type uses struct {
	loads   bool            // it may load something, throw, or end the program
	names   map[string]bool // only names that a statement at the top defines
	defines []string
	defined map[string]bool // by any statement at the top
}

// loads reports whether a part of a source may load something, throw, or end the program.
func loads(n js.INode) bool {
	var l loader
	js.Walk(&l, n)
	return bool(l)
}

// loader is set once something is found that loads.
type loader bool

func (l *loader) Enter(n js.INode) js.IVisitor {
	if *l = *l || loader(loadsItself(n)); *l {
		return nil
	}
	return l
}

func (*loader) Exit(js.INode) {}

// define collects the names that a statement binds or assigns.
func (u *uses) define(s js.INode) {
	switch s := s.(type) {
	case *js.FuncDecl:
		if s.Name != nil {
			u.defines = append(u.defines, string(s.Name.Name()))
		}
	case *js.ClassDecl:
		if s.Name != nil {
			u.defines = append(u.defines, string(s.Name.Name()))
		}
	case *js.VarDecl:
		for _, e := range s.List {
			u.bind(e.Binding)
		}
	case *js.ExportStmt:
		if s.Decl != nil {
			u.define(s.Decl)
		}
	case *js.ExprStmt:
		u.define(s.Value)
	case *js.BinaryExpr:
		if v, ok := rootOf(s.X).(*js.Var); ok && isAssign(s.Op) {
			u.defines = append(u.defines, string(v.Name()))
		}
	case *js.IfStmt:
		u.define(s.Body)
		if s.Else != nil {
			u.define(s.Else)
		}
	case *js.BlockStmt:
		for _, b := range s.List {
			u.define(b)
		}
	case *js.TryStmt:
		u.define(s.Body)
		if s.Catch != nil {
			u.define(s.Catch)
		}
	}
}

// rootOf returns the variable of which an expression is a part.
func rootOf(e js.IExpr) js.IExpr {
	for {
		switch x := e.(type) {
		case *js.DotExpr:
			e = x.X
		case *js.IndexExpr:
			e = x.X
		default:
			return e
		}
	}
}

func (u *uses) bind(b js.IBinding) {
	switch b := b.(type) {
	case *js.Var:
		u.defines = append(u.defines, string(b.Name()))
	case *js.BindingArray:
		for _, e := range b.List {
			u.bind(e.Binding)
		}
		u.bind(b.Rest)
	case *js.BindingObject:
		for _, e := range b.List {
			u.bind(e.Value.Binding)
		}
		if b.Rest != nil {
			u.bind(b.Rest)
		}
	}
}

func (u *uses) Enter(n js.INode) js.IVisitor {
	u.loads = u.loads || loadsItself(n)
	if v, ok := n.(*js.Var); ok {
		switch name := v.Name(); string(name) {
		case "exports", "module", "undefined", "process":
		default:
			if u.defined[string(name)] && !u.names[string(name)] {
				u.names[string(name)] = true
			}
		}
	}
	return u
}

// loadsItself reports whether a node, without those in it, loads something.
func loadsItself(n js.INode) bool {
	switch n := n.(type) {
	case *js.Var:
		switch string(n.Name()) {
		case "require", "createRequire", "__non_webpack_require__", "__require", "nodeRequire":
			return true
		}
	case *js.ImportStmt, *js.ThrowStmt:
		return true
	case *js.ExportStmt:
		return n.Module != nil
	case *js.CallExpr:
		l, ok := n.X.(*js.LiteralExpr)
		return ok && string(l.Data) == "import"
	case *js.LiteralExpr:
		return n.TokenType == js.ImportToken
	case *js.DotExpr:
		switch memberName(n.Y) {
		case "dlopen", "exit", "_resolveFilename", "_load", "registerHooks":
			return true
		}
	}
	return false
}

func (u *uses) Exit(js.INode) {}

// isAssign reports whether an operator assigns.
func isAssign(op js.TokenType) bool {
	switch op {
	case js.EqToken, js.AddEqToken, js.OrEqToken, js.AndEqToken, js.NullishEqToken, js.SubEqToken, js.MulEqToken, js.DivEqToken, js.ModEqToken,
		js.BitOrEqToken, js.BitAndEqToken, js.BitXorEqToken, js.LtLtEqToken, js.GtGtEqToken, js.GtGtGtEqToken, js.ExpEqToken:
		return true
	}
	return false
}
