package provide

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Bounds of the search of a directory. A CUDA installation has 20,000 files, a conda
// environment 300,000.
const (
	maxWalk  = 2 << 20
	maxDepth = 32
)

// dirSource is a directory with everything below it.
type dirSource struct {
	dir  string
	root *os.Root
	// above is a directory some steps up, and at the path from there: the .dist-info
	// of the wheel in site-packages/nvidia/cudnn/lib is there.
	above fs.FS
	at    string
}

func (e *env) openDir(dir string) (provider, error) {
	if dir == "" {
		return nil, errors.New("names no directory: say dir:DIR")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		root.Close()
		return nil, err
	}
	d := &dirSource{dir: dir, root: root}
	for range 3 {
		if up := filepath.Dir(abs); up != abs {
			d.at, abs = path.Join(filepath.Base(abs), d.at), up
		}
	}
	d.above = os.DirFS(abs)
	return d, nil
}

func (d *dirSource) close() error { return d.root.Close() }

func (d *dirSource) find(ctx context.Context, r *request) (*Found, error) {
	dirs, err := d.walk(ctx, r)
	if err != nil {
		return nil, err
	}
	var all []*set
	for _, dir := range dirs {
		list, err := d.entries(dir, r)
		if err != nil {
			return nil, err
		}
		all = append(all, r.sets(dir, "", list)...)
	}
	r.place(d.above, d.at, all)
	s, doubt, err := r.choose(all)
	if err != nil {
		return nil, err
	}
	f := &Found{Version: s.version, Source: "dir:" + path.Join(d.dir, s.dir), Public: "a directory", Doubt: doubt, Files: s.list()}
	for i := range f.Files {
		if f.Files[i].Digest, err = digestOf(f.Files[i].Open); err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Files[i].Name, err)
		}
	}
	f.licensed(r, d.licence(s))
	return f, nil
}

// walk returns the directories with a file that may fit the request.
func (d *dirSource) walk(ctx context.Context, r *request) ([]string, error) {
	var dirs []string
	n := 0
	err := fs.WalkDir(d.root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		if n++; n > maxWalk {
			return fmt.Errorf("has more than %d files: name the directory that has the libraries", maxWalk)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("could not be searched: %w", err)
		case e.IsDir() && (e.Name() == "stubs" || strings.Count(p, "/") > maxDepth):
			return fs.SkipDir
		case !e.IsDir() && r.takes(e.Name()) && !slices.Contains(dirs, path.Dir(p)):
			dirs = append(dirs, path.Dir(p))
		}
		return nil
	})
	return dirs, err
}

// entries returns a directory's libraries and links.
func (d *dirSource) entries(dir string, r *request) ([]entry, error) {
	names, err := fs.ReadDir(d.root.FS(), dir)
	if err != nil {
		return nil, err
	}
	var list []entry
	for _, n := range names {
		p := path.Join(dir, n.Name())
		switch {
		case n.Type()&fs.ModeSymlink != 0:
			text, err := d.root.Readlink(p)
			if err != nil {
				return nil, err
			}
			if text == path.Base(text) { // other links lead to other directories
				list = append(list, entry{name: n.Name(), link: text})
			}
		case n.Type().IsRegular() && r.takes(n.Name()):
			e, err := d.library(p)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", filepath.Join(d.dir, p), err)
			}
			list = append(list, e)
		}
	}
	return list, nil
}

// library returns a file as an entry; it need not be a library.
func (d *dirSource) library(p string) (entry, error) {
	open := func() (io.ReadCloser, error) {
		return d.root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for a FIFO's writer
	}
	rc, err := open()
	if err != nil {
		return entry{}, err
	}
	defer rc.Close()
	st, err := rc.(*os.File).Stat()
	if err != nil {
		return entry{}, err
	}
	o, err := elfdeps.Read(bufio.NewReader(rc), st.Size())
	if err != nil && !errors.Is(err, elfdeps.ErrNotELF) {
		return entry{}, err
	}
	return entry{name: path.Base(p), object: o, size: st.Size(), open: open}, nil
}

// licence returns the text of the nearest licence.
func (d *dirSource) licence(s *set) string {
	for _, at := range []struct {
		fs    fs.FS
		files []string
	}{{d.above, s.wheelLicences(d.above)}, {d.root.FS(), s.licences(d.root.FS())}} {
		for _, p := range at.files {
			f, err := at.fs.Open(p)
			if err != nil {
				continue
			}
			defer f.Close()
			if text := licenceText(f); text != "" {
				return text
			}
		}
	}
	return ""
}
