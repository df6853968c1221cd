package provide

// Offers returns the sources that are known to have a library, as --from names them: the
// package index, NVIDIA's archives, and a public image for a major version of CUDA. release
// and versions are as for [ImageWith].
func Offers(library, cuda, release string, versions []string) []string {
	lib := LibraryOf(library)
	if lib == nil {
		return nil
	}
	var list []string
	if len(lib.Wheels) > 0 && (cuda != "" || !lib.perCUDA()) {
		list = append(list, "pypi:")
	}
	if lib.Redist.Component != "" && (cuda != "" || lib.Redist.Label == "cuda") { // the others are made for one CUDA each
		list = append(list, "redist:")
	}
	if img := ImageWith(library, cuda, release, versions); img != nil {
		list = append(list, "image:"+img.Ref)
	}
	return list
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
