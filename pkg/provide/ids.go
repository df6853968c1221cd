package provide

// Libraries returns the IDs of the libraries in rules/provide, sorted.
func Libraries() []string { return libraryIDs() }

// WheelsOf returns the distributions that have a library for a major version of CUDA, by the
// library's ID.
func WheelsOf(id, cuda string) []string {
	if lib := libraryByID(id); lib != nil {
		return lib.WheelNames(cuda)
	}
	return nil
}
