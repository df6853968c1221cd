package elfdeps

import (
	"bytes"
	"slices"
	"strings"
)

// This file finds the modules that the C code of a Python extension module may import:
// names that stand between two NULs in its read-only data, such as the arguments of
// PyImport_ImportModule and PyCapsule_Import, and the names that Cython interns. A name
// may also be that of a function in a traceback, an attribute, or a word.

// Modules are names in the read-only data of an extension module of Python (an object
// that defines PyInit_NAME) or of a library that takes PyImport_ImportModule, some of which
// may be modules that its code imports. Of a library they are the dotted names.
type Modules struct {
	// Names are dotted names, in the order of the data, each once, without those of the
	// module's own functions (a.NAME.f).
	Names []string `json:",omitempty"`
	// Idents are identifiers, in the order of the data. Those of a module that Cython has
	// made include the names that it imports relative to its package. Of another module they
	// are those that begin with one underscore, such as _cffi_backend, are a group of mypyc, or, if it takes
	// PyImport_ImportModule, are one of StandardModules.
	Idents []string `json:",omitempty"`
	// Strings are the dotted names and identifiers among the strings that a module of Cython
	// 3.2 or later keeps as one text: statements of its source use them, when it is initialized
	// or in functions. Its declarations use Names and Idents.
	Strings []string `json:",omitempty"`
	// Partial is set when some of that data was not searched, because it lies far from
	// the start of the file or has more names than the limits allow.
	Partial bool `json:",omitempty"`
}

// Limits on the names of one extension module.
const (
	maxModulesText = 64 << 10 // bytes of all dotted names, and of all identifiers
	maxIdent       = 64       // bytes of an identifier
	pyInit         = "PyInit_"
	cythonMark     = "cython_runtime" // the name of a module that Cython's code looks up
)

// StandardModules are modules of the standard library whose names stand in the data of C code only if it imports them, and
// that load an extension module. (On two roots of Debian 12 and 13 files have 16 such names, and each file imports what it names when it is initialized.)
var StandardModules = []string{"asyncio", "ctypes", "datetime", "decimal", "ssl", "uuid", "zoneinfo"}

// mypycMark ends the name of a module that holds the code of several others, which mypyc
// has made.
var mypycMark = []byte("__mypyc")

// finishModules sets the object's Modules if it has some. It reads the
// window's head only.
func (p *reader) finishModules() {
	n := p.named
	if n == nil || p.obj.Symbols == nil {
		return
	}
	own, ok := p.obj.Symbols.definesAfter(pyInit)
	if !ok && !p.obj.Symbols.imports([]string{"PyImport_ImportModule\x00"}) {
		return
	}
	c := &moduleNames{own: "." + own + ".", seen: map[string]bool{}, left: maxModulesText, identsLeft: maxModulesText, out: Modules{Partial: n.part || len(n.far) > 0}}
	areas := without(n.areas, p.tables())
	for _, a := range areas {
		if p.w.fillHead(a.end) != nil {
			return
		}
		if ok && bytes.Contains(p.w.head[a.off:a.end], []byte(own+"."+own)) { // av.sidedata.sidedata has siblings
			c.own = "." + own + "." + own + "."
		}
	}
	var data [][]byte
	for _, a := range areas {
		c.look(p.w.head[a.off:a.end])
		data = append(data, p.w.head[min((a.off+3)&^3, a.end):a.end])
	}
	packed := &moduleNames{own: c.own, seen: map[string]bool{}, left: maxModulesText, identsLeft: maxModulesText}
	if c.cython {
		for _, s := range cythonStrings(data) {
			packed.takeString(s)
		}
	}
	takes := p.obj.Symbols.imports([]string{"PyImport_ImportModule\x00"})
	c.out.Idents = slices.DeleteFunc(c.out.Idents, func(s string) bool {
		return !ok || s == own || !c.cython && (s[0] != '_' || s[1] == '_') && !strings.HasSuffix(s, string(mypycMark)) &&
			!(takes && slices.Contains(StandardModules, s))
	})
	// Most were left out. A pointer into c would keep all of them.
	p.obj.Modules = &Modules{Names: exact(c.out.Names), Idents: exact(c.out.Idents), Strings: exact(append(packed.out.Names, packed.out.Idents...)), Partial: c.out.Partial || packed.out.Partial}
}

// exact returns a copy of a list without room for more, or nil for an empty one.
func exact(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return append(make([]string, 0, len(list)), list...)
}

// definesAfter returns the rest of the name of the first defined symbol that begins with
// prefix.
func (s *Symbols) definesAfter(prefix string) (rest string, ok bool) {
	for i := range s.count() {
		if s.Table[i*symbolSize+symbolSize-1]&symUndef != 0 {
			continue
		}
		off := uint64(s.record(i).name)
		if off > uint64(len(s.Names)) || !bytes.HasPrefix(s.Names[off:], []byte(prefix)) {
			continue
		}
		return cstring(s.Names[off+uint64(len(prefix)):]), true
	}
	return "", false
}

// moduleNames gathers the names of one extension module.
type moduleNames struct {
	own              string // ".NAME.", or ".NAME.NAME." of a module in a package of its name
	seen             map[string]bool
	left, identsLeft int
	cython           bool
	out              Modules
}

// look searches the strings of b that end with a NUL.
func (c *moduleNames) look(b []byte) {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return
		}
		c.takeString(b[:i])
		b = b[i+1:]
	}
}

// takeString keeps a string of the data, if it has the length of a name.
func (c *moduleNames) takeString(s []byte) {
	if len(s) > 1 && len(s) <= maxNamedLen {
		c.take(s)
	}
}

// take keeps s if it is an identifier or a dotted name.
func (c *moduleNames) take(s []byte) {
	dots, ok := dottedName(s)
	if !ok && bytes.HasSuffix(s, mypycMark) { // begins with a digit
		dots, ok = dottedName(append([]byte("_"), s...))
		ok = ok && dots == 0
	}
	if !ok || dots == 0 && len(s) > maxIdent || c.seen[string(s)] {
		return
	}
	name := string(s)
	if dots > 0 {
		if strings.Contains("."+name, c.own) {
			return
		}
		c.keep(&c.out.Names, &c.left, name)
		return
	}
	c.cython = c.cython || name == cythonMark
	c.keep(&c.out.Idents, &c.identsLeft, name)
}

func (c *moduleNames) keep(list *[]string, left *int, name string) {
	if len(name) >= *left {
		c.out.Partial, *left = true, 0
		return
	}
	*left -= len(name) + 1
	c.seen[name] = true
	*list = append(*list, name)
}

// dottedName reports whether s is identifiers of ASCII letters, digits and underscores,
// joined by dots, and returns the number of dots.
func dottedName(s []byte) (dots int, ok bool) {
	start := true
	for _, b := range s {
		switch {
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_':
			start = false
		case b >= '0' && b <= '9' && !start:
		case b == '.' && !start:
			dots++
			start = true
		default:
			return 0, false
		}
	}
	return dots, !start
}

// Takes reports whether an object takes a symbol of that name from another one: it has it
// undefined.
func (s *Symbols) Takes(name string) bool {
	return s != nil && s.unpack().imports([]string{name + "\x00"})
}
