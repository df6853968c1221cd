package inventory

import (
	"path"
	"slices"
	"strings"
	"unicode"
)

// Modules returns the top-level modules of a wheel, sorted: those that its top_level.txt
// names, or else the packages and modules that its RECORD lists at the top of a directory
// of packages. A directory without __init__.py counts if an extension module lies in it;
// other namespace packages do not. Modules returns nil where neither file was read.
func (p *Package) Modules() []string {
	if p.TopLevel != nil {
		return p.TopLevel
	}
	return p.listed
}

func isTopLevel(name string) bool {
	return path.Base(name) == "top_level.txt" && (strings.HasSuffix(path.Dir(name), ".dist-info") || strings.HasSuffix(path.Dir(name), ".egg-info"))
}

// readTopLevel reads setuptools' list of modules, one to a line.
func readTopLevel(inv *Inventory, name string, b []byte) error {
	list := []string{}
	for line := range lines(b) {
		if line = strings.TrimSpace(line); isModule(line) && len(list) < maxModules {
			list = append(list, line)
		}
	}
	slices.Sort(list)
	if inv.marks.topLevel == nil {
		inv.marks.topLevel = map[string][]string{}
	}
	inv.marks.topLevel[path.Dir("/"+name)] = slices.Compact(list)
	return nil
}

const maxModules = 1 << 10 // of one package

// isModule reports whether a name is an identifier that a wheel means to be imported:
// `__editable___NAME_finder` of an editable install is none.
func isModule(name string) bool {
	return name != "" && len(name) <= 256 && !strings.HasPrefix(name, "__") && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) && !unicode.IsDigit(rune(name[0]))
}

// listedModule returns the top-level module that a path of RECORD shows, or "".
func listedModule(file string) string {
	top, rest, inside := strings.Cut(path.Clean(file), "/")
	switch {
	case inside && rest != "__init__.py" && (strings.Contains(rest, "/") || !isExtension(rest)):
		return ""
	case !inside && strings.HasSuffix(top, ".py"):
		top = strings.TrimSuffix(top, ".py")
	case !inside && isExtension(top):
		top, _, _ = strings.Cut(top, ".")
	case !inside:
		return ""
	}
	if !isModule(top) {
		return ""
	}
	return top
}

// isExtension reports whether Python could import a file as an extension module by its
// name: m.so, m.abi3.so, m.cpython-312-x86_64-linux-gnu.so. Libraries begin with "lib".
func isExtension(base string) bool {
	name, tag, _ := strings.Cut(base, ".")
	return isModule(name) && !strings.HasPrefix(name, "lib") &&
		(tag == "so" || tag == "abi3.so" || strings.HasPrefix(tag, "cpython-") && strings.HasSuffix(tag, ".so"))
}
