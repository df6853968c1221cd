package packs

import "fmt"

// Backend is a kind of files that a program opens by their names when it is asked for them, and
// that the author of an image adds to it.
type Backend struct {
	ID    string   `yaml:"id"`
	Files []string `yaml:"files"` // patterns of the files' names
	Host  string   `yaml:"host"`  // name of the program that opens them
	// Effect and Error are about a file that cannot be opened: {name} is its directory's name,
	// {error} the loader's message.
	Effect  string   `yaml:"effect"`
	Error   string   `yaml:"error"`
	Sources []string `yaml:"sources"`
}

func (b *Backend) validate() error {
	if b.ID == "" || len(b.Files) == 0 || b.Host == "" || b.Effect == "" || len(b.Sources) == 0 {
		return fmt.Errorf("backends %q: needs an id, files, the program that opens them (host), an effect and sources", b.ID)
	}
	return checkPatterns("backends "+b.ID, b.Files)
}
