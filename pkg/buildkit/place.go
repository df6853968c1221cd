package buildkit

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// CheckPlace returns an error if a context cannot be written to a directory: the
// directory must be new or empty, and its parent must exist.
func CheckPlace(dir string) error {
	list, err := os.ReadDir(dir)
	switch {
	case err == nil && len(list) > 0:
		return fmt.Errorf("%s is not empty: name a new directory", dir)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return shortened(dir, err)
	}
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s is a dangling link: name a new directory", dir)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Clean(dir))); err != nil {
		return shortened(dir, err)
	}
	return nil
}

// shortened returns an error of a directory that names it once.
func shortened(dir string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", dir, err)
}

// Write writes the context to a new or empty directory. A new directory appears whole or
// not at all; in an existing one, the Dockerfile comes last.
func (c *Context) Write(ctx context.Context, dir string) (err error) {
	if err := CheckPlace(dir); err != nil {
		return err
	}
	_, missing := os.Stat(dir)
	beside := dir
	if missing != nil {
		beside = filepath.Dir(filepath.Clean(dir))
	}
	made, err := os.MkdirTemp(beside, ".imgcheck-*")
	if err != nil {
		return shortened(dir, err)
	}
	defer os.RemoveAll(made)
	if err := c.writeTo(ctx, made); err != nil {
		return fmt.Errorf("writing %s: %w", dir, err)
	}
	if missing != nil {
		if err := os.Chmod(made, 0o755); err != nil {
			return shortened(dir, err)
		}
		return os.Rename(made, dir)
	}
	return moveInto(dir, made)
}

func (c *Context) writeTo(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return c.write(ctx, &place{root})
}

// moveInto moves the content of a directory into another, the Dockerfile last, and moves
// it back if that fails.
func moveInto(dir, from string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	slices.Reverse(list) // sorted, "Dockerfile" comes before "rootfs"
	for i, e := range list {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			for _, moved := range list[:i] {
				os.RemoveAll(filepath.Join(dir, moved.Name()))
			}
			return err
		}
	}
	return nil
}

// place is a directory that a context is written into.
type place struct{ *os.Root }

func (p *place) mkdir(name string) error {
	if err := p.Mkdir(name, 0o755); err != nil {
		return err
	}
	return p.Chmod(name, 0o755) // whatever the umask is
}

// entry writes an entry of a tar.
func (p *place) entry(ctx context.Context, name string, h *tar.Header, r io.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return p.mkdir(name)
	case tar.TypeSymlink:
		if err := p.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return linkTime(filepath.Join(p.Name(), filepath.FromSlash(name)), h.ModTime)
	}
	if err := p.file(name, stopping{ctx, r}, fs.FileMode(contextMode(h))); err != nil {
		return err
	}
	return p.Chtimes(name, h.ModTime, h.ModTime)
}

// file writes a file with exactly this mode.
func (p *place) file(name string, r io.Reader, mode fs.FileMode) error {
	f, err := p.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Close()
}

// stopping fails a read once its context is done.
type stopping struct {
	ctx context.Context
	io.Reader
}

func (s stopping) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(b)
}
