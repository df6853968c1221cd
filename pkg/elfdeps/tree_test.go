package elfdeps

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// tree is a file system for tests, made from an image text or read from a directory. It
// resolves paths itself and returns the errno of open(2).
type tree struct {
	root     *node
	uid, gid int
}

type node struct {
	File
	link     string
	children map[string]*node
}

func dirNode(perm fs.FileMode) *node {
	return &node{File: File{Mode: fs.ModeDir | perm}, children: map[string]*node{}}
}

func (t *tree) As(uid, gid int) FS { return &tree{t.root, uid, gid} }

// may reports whether the user has the permission bit (4 read, 1 search).
func (t *tree) may(n *node, bit fs.FileMode) bool {
	perm := n.Mode.Perm()
	switch {
	case t.uid == 0:
		return true
	case t.uid == n.UID:
		perm >>= 6
	case t.gid == n.GID:
		perm >>= 3
	}
	return perm&bit != 0
}

func (t *tree) Find(p string) (*File, error) {
	if p == "" {
		return nil, syscall.ENOENT
	}
	if len(p) >= 4096 {
		return nil, syscall.ENAMETOOLONG
	}
	stack, rest, links := []*node{t.root}, strings.Split(p, "/"), 0
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		dir := stack[len(stack)-1]
		if !dir.Mode.IsDir() {
			return nil, syscall.ENOTDIR // also for a trailing slash
		}
		if word == "" {
			continue
		}
		if !t.may(dir, 1) {
			return nil, syscall.EACCES
		}
		if word == "." {
			continue
		}
		if word == ".." {
			stack = stack[:max(1, len(stack)-1)]
			continue
		}
		if len(word) > 255 {
			return nil, syscall.ENAMETOOLONG
		}
		n := dir.children[word]
		if n == nil {
			return nil, syscall.ENOENT
		}
		if n.Mode&fs.ModeSymlink == 0 {
			stack = append(stack, n)
			continue
		}
		if links++; links > 40 {
			return nil, syscall.ELOOP
		}
		if strings.HasPrefix(n.link, "/") {
			stack = stack[:1]
		}
		rest = append(strings.Split(n.link, "/"), rest...)
	}
	n := stack[len(stack)-1]
	if !t.may(n, 4) {
		return nil, syscall.EACCES
	}
	f := n.File
	return &f, nil
}

// put adds a node at a path with its parent directories.
func (t *tree) put(name string, n *node) {
	words := strings.Split(strings.Trim(name, "/"), "/")
	dir := t.root
	for _, w := range words[:len(words)-1] {
		if dir.children[w] == nil {
			dir.children[w] = dirNode(0o755)
		}
		dir = dir.children[w]
	}
	last := words[len(words)-1]
	if old := dir.children[last]; old != nil && n.Mode.IsDir() {
		n.children = old.children
	}
	n.Path = "/" + strings.Join(words, "/")
	dir.children[last] = n
}

func (t *tree) get(name string) *node {
	n := t.root
	for w := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if n = n.children[w]; n == nil {
			return nil
		}
	}
	return n
}

// file returns a regular file with these bytes.
func file(t testing.TB, b []byte, mode fs.FileMode, id uint64) *node {
	t.Helper()
	n := &node{File: File{Mode: mode, ID: id, Size: int64(len(b))}}
	if !bytes.HasPrefix(b, []byte("\x7fELF")) {
		n.Content = b
		return n
	}
	sum := sha256.Sum256(b)
	if o, ok := readBefore.Load(sum); ok {
		n.Object = o.(*Object)
		return n
	}
	o, err := ReadSymbols(bytes.NewReader(b), n.Size)
	if err == nil {
		n.Object = o
		if n.Size > 64<<10 {
			readBefore.Store(sum, o)
		}
	}
	return n
}

// readBefore has the objects of large files by their hash, since all worlds have the same C
// library.
var readBefore sync.Map

// imageTree returns the first layer of an image text; change edits the bytes of each file
// first.
func imageTree(t testing.TB, im *imagetest.Image, change func(path string, b []byte) []byte) *tree {
	t.Helper()
	fsys := &tree{root: dirNode(0o755)}
	for i := range im.Layers[0].Files {
		f := &im.Layers[0].Files[i]
		n := &node{File: File{ID: uint64(i + 1)}, link: f.Link}
		switch f.Type {
		case tar.TypeDir:
			n = dirNode(fs.FileMode(f.Mode).Perm())
		case tar.TypeSymlink:
			n.Mode = fs.ModeSymlink | 0o777
		case tar.TypeLink:
			n = fsys.get(f.Link)
		default:
			var b bytes.Buffer
			if _, err := f.WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			n = file(t, change("/"+f.Name, b.Bytes()), fs.FileMode(f.Mode).Perm(), uint64(i+1))
			n.Capable = f.Capable
		}
		n.UID, n.GID = f.UID, f.GID
		if f.Mode&0o4000 != 0 {
			n.Mode |= fs.ModeSetuid
		}
		if f.Mode&0o2000 != 0 {
			n.Mode |= fs.ModeSetgid
		}
		fsys.put(f.Name, n)
	}
	return fsys
}

// parsed has the real loaders, which many roots link to.
var parsed = map[uint64]*node{}

// dirTree reads a directory of this machine.
func dirTree(t testing.TB, dir string) *tree {
	t.Helper()
	fsys := &tree{root: dirNode(0o755)}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		n := &node{File: File{Mode: info.Mode(), ID: st.Ino, Size: info.Size()}}
		switch {
		case d.IsDir():
			n = dirNode(info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			if n.link, err = os.Readlink(p); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			if known := parsed[st.Ino]; known != nil && st.Nlink > 1 {
				f := *known
				n = &f
				break
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			n = file(t, b, info.Mode(), st.Ino)
			if st.Nlink > 1 {
				f := *n
				parsed[st.Ino] = &f
			}
		}
		n.UID, n.GID = int(st.Uid), int(st.Gid)
		fsys.put(strings.TrimPrefix(p, dir), n)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}
