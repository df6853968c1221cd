package elfdeps

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
)

// nameless is a file system in which the names that liba.so needs could not be read.
type nameless struct {
	FS
	cut bool // because the file ends before them
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

// TestCutNames: names behind the end of a truncated library are not requested, because the
// process dies when the loader reads them. libcudnn_ops.so.9 of cuDNN 9.19 has its string
// table last: without its last 4096 bytes PyTorch and JAX die of a bus error.
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
		if err != nil || m.Truncated() != cut || len(m.Deps) != 1 || (len(p.Misses) == 0) != cut || (p.Cut == m) != cut {
			t.Errorf("cut %t: %v with dependencies %v, misses %v, %v", cut, m, m.Deps, p.Misses, err)
		}
	}
}

// TestTruncated cuts libraries at the edges of their last pages and lets the real loader open
// them: the process is killed exactly where Truncated reports true. It closes false alarms: a
// libcublas.so.13 that lacked the 4096 bytes of its section headers, and no page of its
// segments, was reported to kill PyTorch, JAX and CuPy, which worked with it; and half of a
// libcufft.so.12, whose other half no loader touches, to kill PyTorch.
func TestTruncated(t *testing.T) {
	tooltest.Need(t, "gcc", "gcc")
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	lib, program := filepath.Join(dir, "whole.so"), filepath.Join(dir, "open")
	tooltest.Output(t, "gcc", "-o", program, write("open.c", "#include <dlfcn.h>\nint main(int c, char **v) { return !dlopen(v[1], RTLD_NOW); }"), "-ldl")
	for _, c := range []struct {
		text string
		lazy bool // the loader touches only the first pages of the data
	}{
		{"char data[9000] = {1}, zeros[9000]; char *f(void) { return data + *zeros; }", false},
		{"char data[200000] = {1}; char *f(void) { return data; }", true},
		// The page in which the data ends is filled with zeros.
		{"char data[200000] = {1}, zeros[9000]; char *f(void) { return data + *zeros; }", false},
	} {
		tooltest.Output(t, "gcc", "-shared", "-fPIC", "-nostdlib", "-o", lib, write("lib.c", c.text))
		whole, err := os.ReadFile(lib)
		if err != nil {
			t.Fatal(err)
		}
		o, err := Read(strings.NewReader(string(whole)), int64(len(whole)))
		if err != nil {
			t.Fatal(err)
		}
		if (o.LazyTail > 0) != c.lazy {
			t.Errorf("%s: no loader touches %d bytes", c.text, o.LazyTail)
		}
		const page = 4096
		touched := o.LoadEnd - o.LazyTail
		last := (touched - 1) / page * page
		sizes := []int64{int64(len(whole)), o.LoadEnd, o.LoadEnd - o.LazyTail/2, touched, last}
		if !c.lazy {
			sizes = append(sizes, o.LoadEnd-1, last+1, last-1, last-page+1)
		}
		for _, size := range sizes {
			err := exec.Command(program, write("cut.so", string(whole[:size]))).Run()
			killed := false
			if exit, ok := err.(*exec.ExitError); ok {
				killed = exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGBUS
			}
			if err != nil && !killed {
				t.Fatalf("%s: %d bytes: %v", c.text, size, err)
			}
			m := &Module{Object: o, File: &File{Size: size}}
			if m.Truncated() != killed {
				t.Errorf("%s: %d bytes of %d mapped ones: Truncated returns %t, killed under the real loader: %t", c.text, size, o.LoadEnd, m.Truncated(), killed)
			}
		}
	}
}
