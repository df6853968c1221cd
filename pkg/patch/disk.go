package patch

import (
	"io"
	"io/fs"
	"os"

	"github.com/imgcheck/imgcheck/internal/outfile"
)

// disk makes the files that a patch writes. Tests replace it by one that fails at a step
// of their choice.
var disk filesystem = osDisk{}

// filesystem has the operations of the operating system that write a layer, a blob or an
// archive.
type filesystem interface {
	createTemp(dir, pattern string) (tempFile, error)
	mkdirAll(dir string) error
	rename(from, to string) error
	remove(name string) error
	// writeNamed writes a file that a user names, whole or not at all.
	writeNamed(path string, write func(io.Writer) error) error
}

// tempFile has the methods of an *os.File that write it and read it back.
type tempFile interface {
	io.WriteCloser
	io.ReaderAt
	Name() string
	Chmod(mode fs.FileMode) error
	Sync() error
}

type osDisk struct{}

func (osDisk) createTemp(dir, pattern string) (tempFile, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err // not f: a nil *os.File is no nil tempFile
	}
	return f, nil
}

func (osDisk) writeNamed(path string, write func(io.Writer) error) error {
	return outfile.Write(path, 0o644, write)
}

func (osDisk) mkdirAll(dir string) error    { return os.MkdirAll(dir, 0o755) }
func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) remove(name string) error     { return os.Remove(name) }
