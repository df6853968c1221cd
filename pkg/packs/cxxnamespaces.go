package packs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CXXNamespaces are C++ namespaces whose symbols extensions take from the libraries of a
// framework.
type CXXNamespaces struct {
	Names     []string `yaml:"names"`
	Libraries []string `yaml:"libraries"` // patterns of SONAMEs
	Home      string   `yaml:"home"`      // the pattern of the library that defines most of them
	Sources   []string `yaml:"sources"`
}

func (n *CXXNamespaces) validate() error {
	if len(n.Names) == 0 || len(n.Libraries) == 0 || len(n.Sources) == 0 {
		return fmt.Errorf("cxx_namespaces %q: needs names, libraries and sources", n.Names)
	}
	return checkPatterns("cxx_namespaces", append([]string{n.Home}, n.Libraries...))
}

// named reports whether one of the namespaces stands at the beginning of a mangled nested
// name, behind its N and qualifiers.
func (n *CXXNamespaces) named(nested string) bool {
	return slices.ContainsFunc(n.Names, func(name string) bool {
		after, ok := strings.CutPrefix(nested, strconv.Itoa(len(name))+name)
		return ok && after != "" && (after[0] < 'a' || after[0] > 'z')
	})
}

// in reports whether a mangled name has a part in one of the namespaces.
func (n *CXXNamespaces) in(symbol string) bool {
	return slices.ContainsFunc(n.Names, func(name string) bool {
		mangled := strconv.Itoa(len(name)) + name
		return strings.Contains(symbol, "N"+mangled) || strings.Contains(symbol, "NK"+mangled)
	})
}

// Namespaces returns the namespaces of a mangled name, or nil: of a nested name (_ZN…,
// _ZNK…) or the table of a type (_ZTIN…, _ZTVN…). Where parts of the name are in several,
// they are the first in the packs.
func (p *Packs) Namespaces(symbol string) *CXXNamespaces {
	rest, ok := strings.CutPrefix(symbol, "_Z")
	if !ok {
		return nil
	}
	if len(rest) > 2 && rest[0] == 'T' {
		rest = rest[2:]
	}
	if rest, ok = strings.CutPrefix(rest, "N"); !ok {
		return nil
	}
	rest = strings.TrimLeft(rest, "KV")
	i := slices.IndexFunc(p.CXXNamespaces, func(n *CXXNamespaces) bool { return n.named(rest) })
	if i < 0 {
		return nil
	}
	if first := slices.IndexFunc(p.CXXNamespaces, func(n *CXXNamespaces) bool { return n.in(symbol) }); first >= 0 {
		i = first
	}
	return p.CXXNamespaces[i]
}
