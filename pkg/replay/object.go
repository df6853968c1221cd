package replay

import (
	"debug/elf"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Object is a dynamic ELF file of the image, and the result of its replay.
type Object struct {
	Path   string // real path
	ELF    *elfdeps.Object
	Loader *elfdeps.Loader  // of the process that loads it; nil: the image has none for it, and it was not replayed
	Misses []*elfdeps.Error // of itself and its dependencies, alone or after the framework that it relies on
}

// IsProgram reports whether an ELF file is a program. A library may name an interpreter
// as well, such as libc.so.6, which can be run.
func IsProgram(o *elfdeps.Object) bool {
	return o.Type == elf.ET_EXEC || o.Interp != "" && (o.PIE() || o.Soname == "")
}

// isStatic reports whether an ELF file is a static program, which the kernel starts
// without a loader. A static-pie has a dynamic section to relocate itself.
func isStatic(o *elfdeps.Object) bool { return o.Interp == "" && (o.PIE() || o.Type == elf.ET_EXEC) }

// IsPythonExtension reports whether a path is that of an extension module, which only
// Python's import opens.
func IsPythonExtension(p string) bool {
	name := path.Base(p)
	return strings.HasSuffix(name, ".abi3.so") || strings.HasSuffix(name, ".so") && strings.Contains(name, ".cpython-")
}

// Defines reports whether an object is known to define a symbol. o may be nil.
func Defines(o *elfdeps.Object, symbol string) bool { return o != nil && o.Symbols.Defines(symbol) }

// Reaches returns m and all modules that it needs, breadth first. m may be nil.
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
