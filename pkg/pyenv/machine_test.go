package pyenv

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// machineFS returns a file system with parts of this machine's: trees, and the files that
// programs are, with all links on the way.
func machineFS(t *testing.T, programs []string, trees ...string) *layers.FS {
	t.Helper()
	m := &machine{t: t, entries: map[string]*layers.Entry{}}
	for _, tree := range trees {
		m.tree(tree)
	}
	for _, p := range programs {
		e := m.add(p)
		if e == nil {
			t.Fatalf("%s is not there", p)
		}
		b, err := os.ReadFile("/" + e.Path)
		if err != nil {
			t.Fatal(err)
		}
		if e.Object, err = elfdeps.ReadSymbols(bytes.NewReader(b), int64(len(b))); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
	}
	l := &layers.Layer{}
	for _, e := range m.entries {
		l.Entries = append(l.Entries, e)
	}
	return layers.Merge(l)
}

type machine struct {
	t       *testing.T
	entries map[string]*layers.Entry // by path
}

// add adds a file with the directories and links on its way, and returns the entry to
// which it leads, or nil.
func (m *machine) add(name string) *layers.Entry {
	cur := ""
	parts := strings.Split(strings.Trim(name, "/"), "/")
	var e *layers.Entry
	for n := 0; len(parts) > 0 && n < 400; n++ {
		part := parts[0]
		parts = parts[1:]
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			cur = strings.TrimPrefix(filepath.Dir("/"+cur), "/")
			continue
		}
		next := strings.TrimPrefix(cur+"/"+part, "/")
		if e = m.one(next); e == nil {
			return nil
		}
		if e.Type == layers.Symlink {
			if filepath.IsAbs(e.Link) {
				cur = ""
			}
			parts = append(strings.Split(e.Link, "/"), parts...)
			continue
		}
		cur = next
	}
	return m.entries[cur]
}

// one adds one entry.
func (m *machine) one(name string) *layers.Entry {
	if e, ok := m.entries[name]; ok {
		return e
	}
	info, err := os.Lstat("/" + name)
	if err != nil {
		return nil
	}
	e := &layers.Entry{Path: name, Mode: info.Mode().Perm()}
	switch info.Mode().Type() {
	case fs.ModeDir:
		e.Type = layers.Dir
	case fs.ModeSymlink:
		e.Type = layers.Symlink
		e.Link, _ = os.Readlink("/" + name)
	case 0:
		e.Size = info.Size()
		m.content(e)
	default:
		e.Type = layers.Other
	}
	m.entries[name] = e
	return e
}

func (m *machine) content(e *layers.Entry) {
	if !Keep(e.Path, e.Size) && !maybeImported(e.Path) {
		return
	}
	f, err := os.Open("/" + e.Path)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	read := func() ([]byte, error) { return os.ReadFile("/" + e.Path) }
	if extract := Extract(e.Path, e.Size); extract != nil {
		read = func() ([]byte, error) { return extract(f) }
	}
	if e.Content, err = read(); err != nil {
		m.t.Fatal(err)
	}
}

// maybeImported reports whether a line of a .pth file may import a file, or whether it is
// one that others keep.
func maybeImported(name string) bool {
	dir, base := filepath.Split(name)
	return base == "RECORD" || strings.HasSuffix(dir, "-packages/") && strings.HasSuffix(base, ".py") ||
		base == "__init__.py" && strings.HasSuffix(filepath.Dir(filepath.Clean(dir)), "-packages")
}

// tree adds a tree, and the targets of the links in it.
func (m *machine) tree(root string) {
	if m.add(root) == nil {
		return
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return
	}
	filepath.WalkDir(real, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "__pycache__" {
			if d != nil && d.IsDir() {
				m.one(strings.TrimPrefix(p, "/"))
				return fs.SkipDir
			}
			return nil
		}
		if d.Type() == fs.ModeSymlink {
			m.add(p)
		} else {
			m.one(strings.TrimPrefix(p, "/"))
		}
		return nil
	})
}
