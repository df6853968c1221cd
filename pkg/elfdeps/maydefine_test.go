package elfdeps

import (
	"bytes"
	"path"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// hiding is a file system in which only a prefix of the symbols of libdrv.so is known.
type hiding struct {
	FS
	begin string // empty: not even a prefix
	id    uint64
}

func (h hiding) Find(p string) (*File, error) {
	f, err := h.FS.Find(p)
	if err != nil || path.Base(f.Path) != "libdrv.so" {
		return f, err
	}
	hidden, object := *f, *f.Object
	object.Symbols = nil
	hidden.Object, hidden.ID = &object, h.id
	if h.begin != "" {
		hidden.MayDefine = func(name []byte) bool { return bytes.HasPrefix(name, []byte(h.begin)) }
	}
	return &hidden, nil
}

// TestMayDefine: an object without known symbols counts as defining the names that it may
// define, and no others. A remembered binding with one such object is not used for another.
func TestMayDefine(t *testing.T) {
	im, err := imagetest.Parse([]byte("-- 0/lib64/ld-linux-x86-64.so.2 --\nelf x86_64 soname=ld-linux-x86-64.so.2\n" +
		`rodata "ld.so (GNU libc) stable release version 2.36.\n\x00/lib64/\x00/usr/lib64/\x00"` + "\n" +
		"-- 0/lib64/libdrv.so --\nelf x86_64 soname=libdrv.so\n" +
		"-- 0/lib64/liba.so --\nelf x86_64 soname=liba.so\nneeded libdrv.so\nundef drvInit func\n" +
		"-- 0/lib64/libb.so --\nelf x86_64 soname=libb.so\nneeded libdrv.so\nundef drvInit func\nundef other func\n"))
	if err != nil {
		t.Fatal(err)
	}
	fsys := imageTree(t, im, func(_ string, b []byte) []byte { return b })
	for _, c := range []struct {
		begin string
		a, b  string // dlopen's errors
	}{
		{"", "", ""},
		{"drv", "", "/lib64/libb.so: undefined symbol: other"},
		{"none", "/lib64/liba.so: undefined symbol: drvInit", "/lib64/libb.so: undefined symbol: drvInit"},
		{"", "", ""},
		{"drv", "", "/lib64/libb.so: undefined symbol: other"},
	} {
		l, err := NewLoader(hiding{fsys, c.begin, 1<<63 + uint64(len(c.begin))}, glibcInterp, Env{})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"liba.so": c.a, "libb.so": c.b} {
			p := l.Bare()
			p.Settle()
			got := ""
			m, err := p.Dlopen(nil, name)
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%q: %s: %q, want %q", c.begin, name, got, want)
			}
			if m != nil && !p.Complete(m) {
				t.Errorf("%q: %s was opened, but Complete returns false", c.begin, name)
			}
			traced := l.Bare()
			if m, err = traced.Dlopen(nil, name); err != nil {
				t.Fatal(err)
			}
			if got := traced.Complete(m); got != (want == "") || got != (len(traced.Unresolved(m)) == 0) {
				t.Errorf("%q: Complete(%s) = %t", c.begin, name, got)
			}
		}
	}
}
