package layers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// indexDir indexes a directory as one layer.
func (img *Image) indexDir(ctx context.Context) ([]*Layer, error) {
	l, err := readDir(ctx, img.Root, &img.opts)
	if err == nil {
		err = l.programless()
	}
	return []*Layer{l}, err
}

// programless returns an error for a directory without an ELF file, and without an
// unreadable file that may be one. An image may hold data alone, but a user who names
// such a directory has most likely meant another.
func (l *Layer) programless() error {
	maybe := func(e *Entry) bool { return e.Object != nil || e.Type == Regular && e.Fault != "" }
	switch {
	case slices.ContainsFunc(l.Entries, maybe):
		return nil
	case len(l.Skipped) > 0:
		return fmt.Errorf("has no ELF file in the part that could be read (not /%s: %s)", l.Skipped[0].Path, l.Skipped[0].Why)
	}
	return errors.New("has no ELF file: name the directory that holds the root file system, with bin, lib and usr")
}

// fileStat has the fields of stat(2) that [fs.FileInfo] lacks.
type fileStat struct {
	dev, ino uint64
	uid, gid uint32
}

// readDir indexes a directory tree. A directory that may not be read is skipped, a file
// that may not be read has a fault.
func readDir(ctx context.Context, root string, o *Options) (*Layer, error) {
	b := newBuilder(o.keep, o.Extract, nil)
	l := &Layer{}
	var at []inode // of each entry
	var dev uint64
	var block []Entry
	var names blocks
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		name := "."
		if p != root {
			name = filepath.ToSlash(strings.TrimPrefix(p[len(root):], string(filepath.Separator)))
		}
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if err != nil {
			b.skip(name, plainPathErrorText(err))
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		st := statOf(info)
		if name == "." {
			dev = st.dev
			return nil
		}
		if d.IsDir() && st.dev != dev {
			if kind := pseudoFS(p); kind != "" {
				b.skip(name, "it is the kernel's "+kind+" file system")
				return fs.SkipDir
			}
		}
		b.seq++
		if len(block) == 0 {
			block = make([]Entry, 256)
		}
		e := &block[0]
		block = block[1:]
		*e = Entry{Path: names.keep(name), Mode: info.Mode().Perm() | info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky), UID: int(st.uid), GID: int(st.gid), Inode: b.seq}
		switch t := info.Mode().Type(); {
		case t.IsDir():
			e.Type = Dir
		case t == fs.ModeSymlink:
			e.Type = Symlink
			if e.Link, err = os.Readlink(p); err != nil {
				e.Fault = plainPathErrorText(err)
			}
		case t.IsRegular():
			e.Size = info.Size()
		default:
			e.Type = Other
		}
		l.Entries, at = append(l.Entries, e), append(at, inode{st.dev, st.ino})
		b.names += int64(len(e.Path) + len(e.Link))
		return b.full()
	})
	if err != nil {
		return nil, err
	}
	if err := b.readFiles(ctx, root, l.Entries); err != nil {
		return nil, err
	}
	shareInodes(l.Entries, at)
	b.finish(l)
	return l, nil
}

// blocks holds texts that are kept, many in one allocation: each by itself would lie among what reading leaves behind, whose
// memory could not be given back.
type blocks struct{ block strings.Builder }

// keep returns a copy of a text.
func (b *blocks) keep(s string) string {
	if b.block.Cap()-b.block.Len() < len(s) {
		b.block = strings.Builder{}
		b.block.Grow(max(64<<10, len(s)))
	}
	at := b.block.Len()
	b.block.WriteString(s)
	return b.block.String()[at:]
}

// inode identifies a file in the operating system.
type inode struct{ dev, ino uint64 }

// shareInodes gives names of one ELF file one inode: hard links, and files that are
// mounted in several places. Those of other files are not used.
func shareInodes(list []*Entry, at []inode) {
	first := map[inode]int{}
	for i, e := range list {
		key := at[i]
		if e.Object == nil || key.ino == 0 {
			continue
		}
		if first[key] == 0 {
			first[key] = e.Inode
		}
		e.Inode = first[key]
	}
}

// dirReaders bounds how many files are read at a time. Each reader may hold 20 MiB of
// its file.
const dirReaders = 4

// readFiles reads the contents of the files in a list, some at a time.
func (b *builder) readFiles(ctx context.Context, root string, list []*Entry) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := min(runtime.GOMAXPROCS(0), dirReaders)
	for w := range workers {
		g.Go(func() error {
			part := newBuilder(b.keep, b.extract, new(elfdeps.Reader)) // counts kept bytes by itself
			for i := w; i < len(list); i += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				if list[i].Type == Regular {
					part.readFile(root, list[i])
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func openFile(root string, e *Entry) (*os.File, error) {
	return os.OpenFile(filepath.Join(root, filepath.FromSlash(e.Path)), os.O_RDONLY|openFlags, 0)
}

// readFile reads one file. An error becomes the file's fault.
func (b *builder) readFile(root string, e *Entry) {
	f, err := openFile(root, e)
	if err != nil {
		e.Fault = plainPathErrorText(err)
		return
	}
	defer f.Close()
	e.Caps = e.Mode&0o111 != 0 && hasCapabilities(f)
	if err := b.content(e, f); err != nil {
		e.Fault = strings.TrimPrefix(err.Error(), "reading "+plain.Name(e.Path)+": ")
		if errors.Is(err, io.ErrUnexpectedEOF) {
			e.Fault = "it is shorter than its size says"
		}
	}
}

func plainPathErrorText(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
