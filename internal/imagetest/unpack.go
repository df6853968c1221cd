package imagetest

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// opaque is the name in the whiteout .wh..wh..opq, which removes all that lower layers have in its directory.
const opaque = ".wh..opq"

// Unpack applies the layers to a directory in order, as a container runtime would. It makes directories, files and links, but
// no devices, FIFOs, owners or capabilities. It returns an error for a path that leads outside dir, itself or through a link.
func (im *Image) Unpack(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	defer root.Close()
	for n, l := range im.Layers {
		if err := unpackLayer(root, l.Files); err != nil {
			return fmt.Errorf("unpacking layer %d: %w", n, err)
		}
	}
	return nil
}

// unpackLayer unpacks one layer. It applies the whiteouts first: they concern the layers below, wherever they stand.
func unpackLayer(root *os.Root, files []File) error {
	for i := range files {
		if name, ok := isWhiteout(path.Base(clean(files[i].Name))); ok {
			if err := removeLower(root, path.Dir(clean(files[i].Name)), name); err != nil {
				return fmt.Errorf("%s: %w", files[i].Name, err)
			}
		}
	}
	for i := range files {
		if _, ok := isWhiteout(path.Base(clean(files[i].Name))); ok {
			continue
		}
		if err := files[i].unpack(root); err != nil {
			return fmt.Errorf("%s: %w", files[i].Name, err)
		}
	}
	return nil
}

func removeLower(root *os.Root, dir, name string) error {
	switch name {
	case "", ".", "..":
		return fmt.Errorf("a whiteout of nothing")
	case opaque:
		return removeEntries(root, dir)
	}
	return root.RemoveAll(path.Join(dir, name))
}

func removeEntries(root *os.Root, dir string) error {
	entries, err := fs.ReadDir(root.FS(), dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := root.RemoveAll(path.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) unpack(root *os.Root) error {
	name := clean(f.Name)
	if name == "." {
		return nil
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := f.makeRoom(root, name); err != nil {
		return err
	}
	switch f.Type {
	case tar.TypeReg:
		return f.unpackRegular(root, name)
	case tar.TypeSymlink:
		return root.Symlink(f.Link, name)
	case tar.TypeLink:
		return root.Link(clean(f.Link), name)
	case tar.TypeDir:
		if err := root.Mkdir(name, 0o755); err != nil && !os.IsExist(err) {
			return err
		}
		return root.Chmod(name, f.permissions())
	}
	return nil
}

// makeRoom removes the file in the place of f, unless both are directories.
func (f *File) makeRoom(root *os.Root, name string) error {
	old, err := root.Lstat(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil || old.IsDir() && f.Type == tar.TypeDir {
		return err
	}
	return root.RemoveAll(name)
}

func (f *File) unpackRegular(root *os.Root, name string) error {
	w, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteTo(w)
	if closed := w.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return root.Chmod(name, f.permissions())
}

// permissions converts the mode of a tar entry to an fs.FileMode.
func (f *File) permissions() fs.FileMode {
	mode := fs.FileMode(f.Mode & 0o777)
	for bit, flag := range map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if f.Mode&bit != 0 {
			mode |= flag
		}
	}
	return mode
}
