package pysource

import "strings"

// Module is a module that an import statement names.
type Module struct {
	// Name is dotted. A name that begins with dots is relative to the file's own package.
	// `from a import b` gives two, a and a.b, although a.b may not be a module. The last is
	// "?" if the file is Partial.
	Name string
	// Guarded means that the statement stands in a block, so that it may never run.
	Guarded bool
}

// Modules returns the modules that a source names, or a text that [Reduce] returned, in
// the order of the text.
func Modules(text []byte) []Module {
	f := Parse(text)
	m := &modules{}
	m.block(f.Body, false)
	if f.Partial != "" {
		m.list = append(m.list, Module{"?", false})
	}
	return m.list
}

type modules struct{ list []Module }

func (m *modules) block(body []Stmt, guarded bool) {
	for _, s := range body {
		switch s := s.(type) {
		case *Import:
			for _, a := range s.Names {
				m.list = append(m.list, Module{a.Name, guarded})
			}
		case *ImportFrom:
			m.from(s, guarded)
		default:
			for _, b := range blocks(s) {
				m.block(b, true)
			}
		}
	}
}

func (m *modules) from(s *ImportFrom, guarded bool) {
	name := strings.Repeat(".", s.Level) + s.Module
	if s.Module != "" {
		m.list = append(m.list, Module{name, guarded})
		name += "."
	}
	for _, a := range s.Names {
		if a.Name != "*" {
			m.list = append(m.list, Module{name + a.Name, guarded})
		}
	}
}

// blocks returns the blocks of a statement, in their order.
func blocks(s Stmt) [][]Stmt {
	switch s := s.(type) {
	case *If:
		return [][]Stmt{s.Body, s.Else}
	case *While:
		return [][]Stmt{s.Body, s.Else}
	case *For:
		return [][]Stmt{s.Body, s.Else}
	case *With:
		return [][]Stmt{s.Body}
	case *Def:
		return [][]Stmt{s.Body}
	case *Class:
		return [][]Stmt{s.Body}
	case *Try:
		list := [][]Stmt{s.Body}
		for _, h := range s.Handlers {
			list = append(list, h.Body)
		}
		return append(list, s.Else, s.Finally)
	case *Match:
		var list [][]Stmt
		for _, c := range s.Cases {
			list = append(list, c.Body)
		}
		return list
	}
	return nil
}
