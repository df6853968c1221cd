//go:build unix

package outfile

import (
	"io/fs"
	"os"
	"syscall"
)

// duplicate opens a descriptor once more, at its current offset.
func duplicate(n int, name string) (*os.File, error) {
	d, err := syscall.Dup(n)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	syscall.CloseOnExec(d)
	return os.NewFile(uintptr(d), name), nil
}
