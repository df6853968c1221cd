package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/imgcheck/imgcheck/internal/trust"
)

// Find looks for the file in dir and, within a git repository, in the directories above up
// to the repository's root. It returns "" if there is none, and an error if a directory
// has one of each name.
//
// Outside a repository it looks at no directory above: on a machine that several people
// use, /tmp may have anybody's file. For the same reason a repository that belongs to
// another user counts as none.
func Find(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	top := repository(dir)
	for {
		var found []string
		for _, name := range []string{filepath.Join(dir, FileName), filepath.Join(dir, OtherName)} {
			if st, err := os.Stat(name); err == nil && !st.IsDir() {
				found = append(found, name)
			}
		}
		switch len(found) {
		case 1:
			return found[0], nil
		case 2:
			return "", fmt.Errorf("there are two policies, %s and %s: keep one of them", found[0], found[1])
		}
		if dir == top {
			return "", nil
		}
		dir = filepath.Dir(dir)
	}
}

// repository returns the root of the repository that has a directory, or the directory
// itself if it is in none.
func repository(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if st, err := os.Lstat(filepath.Join(at, ".git")); err == nil && trust.Owner(st) == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// Load reads a file that the user has named. It reads pipes and devices as well, so that a
// shell can make the file (<(command)).
func Load(name string) (*Policy, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(name, f)
}

// loadRegular reads a file that another one names. It waits for no writer of a FIFO.
func loadRegular(name string) (*Policy, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|trust.Nonblocking, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no regular file", name), err)
	}
	return read(name, f)
}

// LoadFound reads a file that Find has returned, which the command line does not name. The file must be a
// regular one that belongs to the user or to root, and that no other user may write. The
// same holds for a link in its place, except for its mode.
func LoadFound(name string) (*Policy, error) {
	f, err := openFound(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := read(name, f)
	if err != nil {
		return nil, err
	}
	p.found = true
	return p, nil
}

func openFound(name string) (*os.File, error) {
	refuse := func(err error) error {
		return fmt.Errorf("%s %w: if it is meant, name it (--config %s)", name, err, name)
	}
	link, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if err := trust.Owner(link); err != nil {
		return nil, refuse(err)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|trust.Nonblocking, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		err = trust.File(st)
	}
	if err != nil {
		f.Close()
		return nil, refuse(err)
	}
	return f, nil
}
