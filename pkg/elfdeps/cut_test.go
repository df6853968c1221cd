package elfdeps

import (
	"path"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// nameless is a file system in which the name of what liba.so needs could not be read.
type nameless struct {
	FS
	cut bool // because the file ends before it
}

func (n nameless) Find(p string) (*File, error) {
	f, err := n.FS.Find(p)
	if err != nil || path.Base(f.Path) != "liba.so" {
		return f, err
	}
	file, object := *f, *f.Object
	object.Needed = []string{""}
	if n.cut {
		object.LoadEnd = f.Size + 4096
	}
	file.Object = &object
	return &file, nil
}

// TestCutNames: nobody asks for names that lie behind the end of a library, because the
// process is dead when the loader would read them. libcudnn_ops.so.9 of cuDNN 9.19 has
// its string table last: with 4096 bytes less PyTorch and JAX die of a bus error.
func TestCutNames(t *testing.T) {
	im, err := imagetest.Parse([]byte("-- 0/lib64/ld-linux-x86-64.so.2 --\nelf x86_64 soname=ld-linux-x86-64.so.2\n" +
		`rodata "ld.so (GNU libc) stable release version 2.36.\n\x00/lib64/\x00/usr/lib64/\x00"` + "\n" +
		"-- 0/lib64/liba.so --\nelf x86_64 soname=liba.so\nneeded libb.so\n"))
	if err != nil {
		t.Fatal(err)
	}
	fsys := imageTree(t, im, func(_ string, b []byte) []byte { return b })
	for _, cut := range []bool{false, true} {
		l, err := NewLoader(nameless{fsys, cut}, glibcInterp, Env{})
		if err != nil {
			t.Fatal(err)
		}
		p := l.Bare()
		m, err := p.Dlopen(nil, "liba.so")
		if err != nil || m.Truncated() != cut || len(m.Deps) != 1 || (len(p.Misses) == 0) != cut {
			t.Errorf("cut %t: %v with dependencies %v, misses %v, %v", cut, m, m.Deps, p.Misses, err)
		}
	}
}
