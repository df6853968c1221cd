// Package outfile writes files that a user names: completely or not at all, and through
// links. It does not know their content.
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

// Write writes the file name. A regular file appears completely or not at all: Write
// writes it under a temporary name in the same directory, and renames it. It keeps a link
// and writes its target. It writes to devices, pipes and the program's own descriptors
// (/dev/stdout) in place. It creates no file in /dev, /proc and /sys.
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

// Check returns the reason why name cannot be written, as far as that shows without
// creating it: its directory does not exist, or no file can be created there.
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

// maxLinks limits the links that lead to a file, as Linux does.
const maxLinks = 40

// followed returns the file that name stands for. It follows links, also to a target that
// does not exist yet. It does not follow a descriptor of this process, which Linux shows
// as a link: its file may be open for appending, or have no name any more.
func followed(name string) (string, error) {
	p := name
	for range maxLinks {
		parent, base := filepath.Split(p) // filepath.Dir would clean it: link/.. is not the link's directory
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

// inPlace opens a file that must not be replaced. It returns nil for a regular file and
// for one that does not exist yet.
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
	return &fs.PathError{Op: "open", Path: name, Err: errors.New("no such device, and no file can be created there")}
}

// kernels reports whether a file is where the kernel and the system keep devices and
// settings. /dev/shm is memory for ordinary files.
func kernels(name string) bool {
	for _, dir := range []string{"/dev/", "/proc/", "/sys/"} {
		if strings.HasPrefix(name, dir) {
			return !strings.HasPrefix(name, "/dev/shm/")
		}
	}
	return false
}

// descriptor returns the number of the descriptor of this process that name stands for.
// It follows the links of name's directory.
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

// replace writes a temporary file beside name and renames it to name.
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
