// Package outfile writes the files that a user names: whole or not at all, and
// through links.
//
// It does not know what is written.
package outfile

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Write writes the file name. A regular file appears whole or not at all: it is
// written under a temporary name in the same directory, and renamed. A link stays
// and its target is written; devices, pipes and the program's own descriptors
// (/dev/stdout) are written to as they are. In /dev, /proc and /sys no file is
// ever made.
func Write(name string, mode fs.FileMode, write func(io.Writer) error) error {
	name, err := followed(name)
	if err != nil {
		return err
	}
	f, err := inPlace(name)
	if err != nil {
		return err
	}
	if f == nil {
		return replace(name, mode, write)
	}
	return errors.Join(write(f), f.Close())
}

// Check reports why name cannot be written, as far as can be seen without making
// it: its directory does not exist, or no file is made there.
func Check(name string) error {
	name, err := followed(name)
	if err != nil || !kernels(name) {
		return err
	}
	if _, err := os.Lstat(name); err != nil {
		return noneMade(name)
	}
	return nil
}

// maxLinks bounds the links that lead to a file, as Linux does.
const maxLinks = 40

// followed returns the file that name stands for: links are followed, also one
// whose target does not exist yet. A descriptor of this process, which Linux shows
// as a link, is left as it is: its file may have been opened to append, or have no
// name any more.
func followed(name string) (string, error) {
	p := name
	for range maxLinks {
		parent, base := filepath.Split(p) // Dir would clean: link/.. is not the link's directory
		dir, err := filepath.EvalSymlinks(cmp.Or(parent, "."))
		if err != nil {
			return "", err
		}
		p = filepath.Join(dir, base)
		if _, ok := descriptor(p); ok {
			return p, nil
		}
		to, err := os.Readlink(p)
		if err != nil {
			return p, nil
		}
		if p = to; !filepath.IsAbs(to) {
			p = dir + string(filepath.Separator) + to
		}
	}
	return "", &fs.PathError{Op: "open", Path: name, Err: errors.New("too many links")}
}

// inPlace opens what must not be replaced: nil for a regular file, and for one
// that does not exist yet.
func inPlace(name string) (*os.File, error) {
	if n, ok := descriptor(name); ok {
		return duplicate(n, name)
	}
	st, err := os.Stat(name)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return os.OpenFile(name, os.O_WRONLY, 0)
	case err != nil && kernels(name):
		return nil, noneMade(name)
	case kernels(name):
		return os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	}
	return nil, nil
}

func noneMade(name string) error {
	return &fs.PathError{Op: "open", Path: name, Err: errors.New("there is no such device, and no file is made there")}
}

// kernels reports whether a file lies where the kernel and the system keep
// devices and settings. /dev/shm is memory for everybody's files.
func kernels(name string) bool {
	for _, dir := range []string{"/dev/", "/proc/", "/sys/"} {
		if strings.HasPrefix(name, dir) {
			return !strings.HasPrefix(name, "/dev/shm/")
		}
	}
	return false
}

// descriptor returns the number of a descriptor of this process that name stands
// for, with the links of its directory followed.
func descriptor(name string) (int, bool) {
	dir, base := filepath.Split(name)
	n, err := strconv.Atoi(base)
	if err != nil || n < 0 {
		return 0, false
	}
	for _, own := range []string{"/proc/self/fd", "/dev/fd"} {
		if real, err := filepath.EvalSymlinks(own); err == nil && real == filepath.Clean(dir) {
			return n, true
		}
	}
	return 0, false
}

// replace writes a file beside name and renames it to name.
func replace(name string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".imgcheck-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = write(f)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
