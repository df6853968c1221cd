package provide

// Libraries returns the IDs of the libraries in rules/provide, sorted.
func Libraries() []string { return libraryIDs() }
