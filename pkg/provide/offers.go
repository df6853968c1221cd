package provide

import (
	"maps"
	"slices"
)

// Offers returns the sources that are known to have a library for a major version of CUDA, as
// --from names them: the package index, NVIDIA's archives, and a public image. release and
// versions are as for [ImageWith]. It returns nil for a version of CUDA that rules/provide does
// not know.
func Offers(library, cuda, release string, versions []string) []string {
	lib := LibraryOf(library)
	if lib == nil || !knownCUDA(cuda) {
		return nil
	}
	var list []string
	if len(lib.Wheels) > 0 {
		list = append(list, "pypi:")
	}
	if lib.Redist.Component != "" {
		list = append(list, "redist:")
	}
	if img := ImageWith([]string{library}, cuda, release, versions); img != nil {
		list = append(list, "image:"+img.Ref)
	}
	return list
}

// knownCUDA reports whether a library of rules/provide is known to be of a major version of CUDA.
func knownCUDA(major string) bool {
	return slices.ContainsFunc(known().Libraries, func(l *Library) bool {
		return slices.Contains(slices.Collect(maps.Values(l.CUDA)), major)
	})
}

// LicenseOf returns the licence of the library that a name belongs to, without its text, or
// nil if none in rules/provide does.
func LicenseOf(name string) *License {
	lib := LibraryOf(name)
	if lib == nil {
		return nil
	}
	return lib.license.license()
}
