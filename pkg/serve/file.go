package serve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/trust"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Limits of a directory.
const (
	maxEntries = 20_000 // files and directories in it and below it
	maxFiles   = 1_000  // that may be reports
	maxDepth   = 32     // directories in one another: each opens all above it
	maxHead    = 4 << 10
)

// place is a file or a directory that a user names.
type place struct {
	name string
	dir  bool
}

// placeOf returns the place with a name.
func placeOf(name string) (place, error) {
	if name == "-" {
		return place{}, errors.New("the standard input can be read only once: serve needs files or directories")
	}
	st, err := os.Stat(name)
	if err != nil {
		return place{}, source.PathError(err)
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return place{}, fmt.Errorf("%s: %w", name, errIrregular)
	}
	return place{name, st.IsDir()}, nil
}

// file is a file that may be a report.
type file struct {
	place place
	at    int    // the index of the place
	rel   string // its path in the directory, or the last element of its name; with slashes
	name  string // for people
	wrong error  // the reason why it is not opened, or nil
}

// Reasons why a file is not shown.
var (
	errLink      = errors.New("not shown: it is a link")
	errIrregular = errors.New("not a regular file")
	errDeep      = fmt.Errorf("not shown: it is more than %d directories deep", maxDepth)
	errForeign   = errors.New("not a page of imgcheck")
	errTooMuch   = fmt.Errorf("not in the table: the reports of one overview have at most %d MiB", maxRead>>20)
)

// files lists the files of a place that may be reports, by their names; at is its index. Links
// in a directory are listed and not followed, and hidden directories left out.
func (p place) files(at int) []file {
	if !p.dir {
		return []file{{place: p, at: at, rel: filepath.Base(p.name)}}
	}
	root, err := os.OpenRoot(p.name)
	if err != nil {
		return []file{{place: p, at: at, rel: ".", wrong: source.PathError(err)}}
	}
	defer root.Close()
	var list []file
	entries := 0
	fs.WalkDir(root.FS(), ".", func(rel string, d fs.DirEntry, err error) error { // its function returns no error
		add := func(why error) { list = append(list, file{place: p, at: at, rel: rel, wrong: why}) }
		entries++
		suffix := path.Ext(rel)
		switch {
		case err != nil:
			add(source.PathError(err))
			return nil
		case entries > maxEntries || len(list) >= maxFiles:
			rel = "."
			add(fmt.Errorf("not shown whole: a directory has at most %d files here, and %d of them reports", maxEntries, maxFiles))
			return fs.SkipAll
		case d.IsDir() && rel != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() && strings.Count(rel, "/") >= maxDepth:
			add(errDeep)
			return fs.SkipDir
		case d.IsDir() || suffix != ".json" && suffix != ".html":
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			add(errLink)
		case !d.Type().IsRegular():
			add(errIrregular)
		default:
			add(nil)
		}
		return nil
	})
	return list
}

// path returns the path of the file's page.
func (f *file) path() string { return "/" + strconv.Itoa(f.at+1) + "/" + f.rel }

// link returns the path as it stands in the overview and in a request, relative to the overview.
func (f *file) link() string {
	return strings.TrimPrefix((&url.URL{Path: f.path()}).EscapedPath(), "/")
}

// isPage reports whether the file is a page, and not JSON.
func (f *file) isPage() bool { return path.Ext(f.rel) == ".html" }

// open opens the file, unless it is a link in a directory, or not a regular file. It does not
// wait for the writer of a FIFO.
func (f *file) open() (*os.File, int64, error) {
	if f.wrong != nil {
		return nil, 0, f.wrong
	}
	from, err := f.opened()
	if err != nil {
		return nil, 0, source.PathError(err)
	}
	st, err := from.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		from.Close()
		return nil, 0, err
	}
	return from, st.Size(), nil
}

func (f *file) opened() (*os.File, error) {
	if !f.place.dir {
		return os.OpenFile(f.place.name, os.O_RDONLY|trust.Nonblocking, 0)
	}
	root, err := os.OpenRoot(f.place.name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := filepath.FromSlash(f.rel)
	if st, err := root.Lstat(name); err != nil || st.Mode()&fs.ModeSymlink != 0 {
		return nil, cmp.Or(err, errLink)
	}
	return root.OpenFile(name, os.O_RDONLY|trust.Nonblocking, 0)
}

// images returns the images of a report of at most so many bytes, and the size of the file.
func (f *file) images(most int64) ([]report.Scanned, int64, error) {
	from, size, err := f.open()
	if err != nil {
		return nil, 0, err
	}
	defer from.Close()
	if size > most {
		return nil, 0, errTooMuch
	}
	doc, set, err := report.ReadAny(io.LimitReader(from, size)) // one that grows is cut, and an error
	switch {
	case err != nil:
		return nil, size, err
	case set != nil:
		return set.Images, size, nil
	}
	return []report.Scanned{{Ref: doc.Image.Ref, Report: doc}}, size, nil
}

// saved returns a page that imgcheck has written, or its beginning.
func (f *file) saved(whole bool) ([]byte, error) {
	from, size, err := f.open()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	if size > maxPage {
		return nil, fmt.Errorf("the page is larger than %d MiB", maxPage>>20)
	}
	if !whole {
		size = min(size, maxHead)
	}
	b, err := io.ReadAll(io.LimitReader(from, size))
	if err != nil {
		return nil, source.PathError(err)
	}
	head := b[:min(len(b), maxHead)]
	if !bytes.Contains(head, []byte("<title>imgcheck: ")) && !bytes.Contains(head, []byte("<title>GPUs for ")) {
		return nil, errForeign
	}
	return b, nil
}

// page writes the page of the file.
func (f *file) page(w io.Writer, o report.Options) error {
	if f.isPage() {
		b, err := f.saved(true)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
	from, _, err := f.open()
	if err != nil {
		return err
	}
	defer from.Close()
	doc, set, err := report.ReadAny(from)
	switch {
	case err != nil:
		return err
	case set != nil:
		return report.SetHTML(w, set, o)
	}
	return report.HTML(w, doc, o)
}

// check returns an error if a place has nothing to show. A directory whose first files have more
// than maxRead bytes may have something.
func (p place) check(at int) error {
	left := int64(maxRead)
	for _, f := range p.files(at) {
		var err error
		if f.isPage() {
			_, err = f.saved(false)
		} else {
			var size int64
			_, size, err = f.images(left)
			left -= size
		}
		switch {
		case err == nil, p.dir && errors.Is(err, errTooMuch):
			return nil
		case !p.dir:
			return fmt.Errorf("reading %s: %w", p.name, err)
		}
	}
	return fmt.Errorf("%s has no report of imgcheck: make one with `imgcheck scan -o json=FILE`", p.name)
}
