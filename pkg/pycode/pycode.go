// Package pycode reads Python's bytecode: it reduces a .pyc file to the imports that an
// import of it executes, as a text of pkg/pysource.
//
// It knows the formats of CPython 3.6 to 3.14 (marshal, code objects, the opcodes of
// imports, jumps and exceptions). Of a module it reads the code at the top: which modules it
// imports, in order, which of them stand in a try and what that catches, and which under a
// condition. It does not read what a condition is, what is called, or the bodies of functions
// and classes. So the text says that it is partial: names and other statements of the module
// are not known, and no import is ever said to be the only one.
package pycode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// maxFile limits a file, in bytes.
const maxFile = 4 << 20

// KeepID names the version of Keep and Reduce.
const KeepID = "pycode 1"

// Keep reports whether Python may load a file in place of source, by the file's path without
// a leading slash and its size in bytes: bytecode in __pycache__ is loaded only beside its
// source (SourcelessFileLoader, importlib/_bootstrap_external.py).
func Keep(name string, size int64) bool {
	return path.Ext(name) == ".pyc" && size > 0 && !strings.Contains(name, "__pycache__/")
}

// Extract returns the function that reduces a file of [Keep], by its size in bytes.
func Extract(size int64) func(io.Reader) ([]byte, error) {
	return func(r io.Reader) ([]byte, error) {
		head := make([]byte, min(size, 4))
		if _, err := io.ReadFull(r, head); err != nil {
			return nil, err
		}
		if size > maxFile || versionOf(head) == nil {
			return Reduce(head), nil
		}
		b := make([]byte, size)
		copy(b, head)
		if _, err := io.ReadFull(r, b[len(head):]); err != nil {
			return nil, err
		}
		return Reduce(b), nil
	}
}

// Reduce returns the imports of a .pyc file, as a text that pysource.Parse reads. If it
// cannot read the file, the text has none, and says why it is partial.
func Reduce(pyc []byte) []byte {
	v := versionOf(pyc)
	if v == nil {
		return pysource.Partial("its bytecode is of a Python that is not read", "")
	}
	if len(pyc) < v.header || len(pyc) > maxFile {
		return pysource.Partial("its bytecode cannot be read", "")
	}
	u := &reader{data: pyc[v.header:], version: v}
	c, ok := u.object(0).(*code)
	if !ok || u.bad {
		return pysource.Partial("its bytecode cannot be read", "")
	}
	return pysource.Partial("it is bytecode, of which only the imports are read", c.searchPath()+write(c.imports(v)))
}

// searchPath returns statements after which the search path is not known, if the module may
// change how modules are found: those of sys that decide it are among its names.
func (c *code) searchPath() string {
	has := func(names ...string) bool {
		return slices.ContainsFunc(c.names, func(n any) bool { s, ok := n.(string); return ok && slices.Contains(names, s) })
	}
	if has("sys", "site") && has("path", "meta_path", "path_hooks", "modules", "addsitedir") {
		return "import sys\nsys.path.append(?)\nsys.meta_path.append(?)\n"
	}
	return ""
}

// versionOf returns the version whose magic number begins a file, or nil.
func versionOf(pyc []byte) *version {
	if len(pyc) < 4 || pyc[2] != '\r' || pyc[3] != '\n' {
		return nil
	}
	magic := int(binary.LittleEndian.Uint16(pyc))
	i := slices.IndexFunc(versions, func(v version) bool { return v.magic == magic })
	if i < 0 {
		return nil
	}
	return &versions[i]
}

// statement is an import statement.
type statement struct {
	line   int // 0 if it is not known
	level  int
	module string
	names  []string // nil for `import module`
	// maybe means that it stands under a condition, or in a handler; try is the number of the
	// innermost try around it, or -1.
	maybe bool
	try   int
	catch string // what the try catches: `except A`, "?" if that is not known
}

// write returns the text of statements. Those of one try stand together.
func write(list []statement) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		n := i + 1
		for n < len(list) && list[n].try == list[i].try && list[n].maybe == list[i].maybe {
			n++
		}
		indent := ""
		if list[i].maybe {
			b.WriteString("if ?:\n")
			indent += " "
		}
		if list[i].try >= 0 {
			b.WriteString(indent + "try:\n")
			for _, s := range list[i:n] {
				b.WriteString(indent + " " + s.String())
			}
			b.WriteString(indent + list[i].catch + ":\n" + indent + " pass\n")
		} else {
			for _, s := range list[i:n] {
				b.WriteString(indent + s.String())
			}
		}
		i = n
	}
	return b.String()
}

func (s statement) String() string {
	text := "import " + s.module
	if s.names != nil {
		text = fmt.Sprintf("from %s%s import %s", strings.Repeat(".", s.level), s.module, strings.Join(s.names, ","))
	}
	return fmt.Sprintf("%s#%d\n", text, max(s.line, 0))
}

// isName reports whether a text of a file can stand for a name in a text.
func isName(s string) bool {
	return s != "" && len(s) < 1000 && !bytes.ContainsFunc([]byte(s), func(c rune) bool {
		return c < 128 && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) && (s[0] < '0' || s[0] > '9') && strings.ToValidUTF8(s, "") == s && !keywords[s]
}

// keywords cannot be names.
var keywords = map[string]bool{
	"import": true, "from": true, "as": true, "if": true, "else": true, "elif": true, "try": true, "except": true, "finally": true, "def": true,
	"class": true, "pass": true, "return": true, "raise": true, "for": true, "while": true, "with": true, "in": true, "is": true, "not": true,
	"and": true, "or": true, "lambda": true, "None": true, "True": true, "False": true, "del": true, "global": true, "nonlocal": true,
	"assert": true, "break": true, "continue": true, "yield": true, "await": true, "async": true,
}

func isDotted(s string) bool {
	return !slices.ContainsFunc(strings.Split(s, "."), func(p string) bool { return !isName(p) })
}
