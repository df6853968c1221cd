package fix

import (
	"bytes"
	"debug/elf"
	"io"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// opened returns a function that opens b.
func opened(b []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

// stackOf returns the flags of PT_GNU_STACK as debug/elf reads them.
func stackOf(t *testing.T, b []byte) (flags elf.ProgFlag, there bool) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_GNU_STACK {
			return p.Flags, true
		}
	}
	return 0, false
}

// On every machine, clearStack changes one bit.
func TestClearStack(t *testing.T) {
	for _, machine := range []string{"x86_64", "i386", "aarch64", "ppc64le"} {
		e, err := imagetest.ParseELF("elf " + machine + " execstack soname=libx.so\nneeded libc.so.6\n")
		if err != nil {
			t.Fatal(err)
		}
		before := e.Bytes()
		r, err := clearStack(opened(before))
		if err != nil {
			t.Fatal(err)
		}
		after, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if flags, there := stackOf(t, after); !there || flags != elf.PF_R|elf.PF_W {
			t.Errorf("%s: the flags are %v", machine, flags)
		}
		differ := 0
		for i := range before {
			if before[i] != after[i] {
				differ++
			}
		}
		if differ != 1 || len(before) != len(after) {
			t.Errorf("%s: %d bytes differ, %d are %d", machine, differ, len(before), len(after))
		}
	}
	none, _ := imagetest.ParseELF("elf x86_64 nognustack soname=libx.so\n")
	for _, b := range [][]byte{none.Bytes(), nil, []byte("\x7fELF"), bytes.Repeat([]byte{0xff}, 100)} {
		if _, err := clearStack(opened(b)); err == nil {
			t.Error("no error for a file without PT_GNU_STACK")
		}
	}
}

// The output of clearStack is as long as its input, and differs in at most one bit.
func FuzzClearStack(f *testing.F) {
	for _, machine := range []string{"x86_64", "i386"} {
		e, _ := imagetest.ParseELF("elf " + machine + " execstack soname=libx.so\n")
		f.Add(e.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := clearStack(opened(b))
		if err != nil {
			return
		}
		after, err := io.ReadAll(r)
		if err != nil || len(after) != len(b) {
			t.Fatalf("%d bytes of %d: %v", len(after), len(b), err)
		}
		differ := 0
		for i := range b {
			if b[i] == after[i] {
				continue
			}
			if differ++; b[i]&^after[i] != pfX || after[i]&^b[i] != 0 {
				t.Errorf("byte %d is %#x, was %#x", i, after[i], b[i])
			}
		}
		if differ > 1 {
			t.Errorf("%d bytes differ", differ)
		}
	})
}

// Only NVIDIA's files must not be changed.
func TestNotNVIDIAs(t *testing.T) {
	for file, want := range map[string]bool{
		"/usr/lib/libcurl.so.4": false, "/usr/lib/libcups.so.2": false, "/opt/libctranslate2-bc15bf3f.so.4.5.0": false, "/x/torch/lib/libtorch_cpu.so": false,
		"/usr/lib/libcudnn.so.9": true, "/usr/lib/libcublas.so.12": true, "/x/site-packages/nvidia/cufile/lib/libcufile.so.0": true,
		"/usr/lib/libcuda.so.1": true, "/usr/lib/libnvinfer.so.10": true, "/usr/lib/libnccl.so.2": true, "/usr/lib/libnvidia-ml.so.1": true,
	} {
		if got := isNVIDIAs(file); got != want {
			t.Errorf("%s: NVIDIA's %v, want %v", file, got, want)
		}
	}
}
