package replay

import (
	"debug/elf"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Object is one ELF file and what its replay came to.
type Object struct {
	Path   string
	ELF    *elfdeps.Object
	Loader *elfdeps.Loader // nil: no loader of the image would take it
	Misses []*elfdeps.Error
}

// IsProgram tells a program from a library: it names its interpreter, and is
// not a library that can also be run (libc.so.6).
func IsProgram(o *elfdeps.Object) bool {
	return o.Type == elf.ET_EXEC || o.Interp != "" && (o.PIE() || o.Soname == "")
}

// isStatic tells a static program that has a dynamic section only to relocate
// itself (static-pie): the kernel starts it without a loader.
func isStatic(o *elfdeps.Object) bool { return o.Interp == "" && (o.PIE() || o.Type == elf.ET_EXEC) }

// IsPythonExtension reports whether a path is an extension module, which nothing
// but a Python's import opens.
func IsPythonExtension(p string) bool {
	name := path.Base(p)
	return strings.HasSuffix(name, ".abi3.so") || strings.HasSuffix(name, ".so") && strings.Contains(name, ".cpython-")
}

func Defines(o *elfdeps.Object, symbol string) bool { return o != nil && o.Symbols.Defines(symbol) }

// Reaches are the objects that m needs, breadth first, itself first.
func Reaches(m *elfdeps.Module) []*elfdeps.Module {
	if m == nil {
		return nil
	}
	list := []*elfdeps.Module{m}
	seen := map[*elfdeps.Module]bool{m: true}
	for i := 0; i < len(list); i++ {
		for _, d := range list[i].Deps {
			if d != nil && !seen[d] {
				seen[d] = true
				list = append(list, d)
			}
		}
	}
	return list
}
