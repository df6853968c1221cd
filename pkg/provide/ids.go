package provide

// Libraries are the IDs of the libraries that rules/provide tells of, sorted.
func Libraries() []string { return libraryIDs() }
