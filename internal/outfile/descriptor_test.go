//go:build unix

package outfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestWriteDescriptor writes to descriptors by name, at their current offset, also after
// their file was removed.
func TestWriteDescriptor(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	if err := os.WriteFile(file, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(fmt.Sprintf("/dev/fd/%d", f.Fd()), link); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, link, "one\n")
	mustWrite(t, fmt.Sprintf("/dev/fd/%d", f.Fd()), "two\n")
	wantText(t, file, "before\none\ntwo\n")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, link, "three\n")
	f.Seek(0, io.SeekStart)
	if b, _ := io.ReadAll(f); string(b) != "before\none\ntwo\nthree\n" {
		t.Errorf("got %q", b)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
	if err := Write("/dev/fd/1000", 0o644, says("x")); err == nil {
		t.Error("a descriptor that is not open was written to")
	}
}

func TestWritePipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(pipe, os.O_RDWR, 0) // does not block
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mustWrite(t, pipe, "text")
	b := make([]byte, 10)
	if n, err := f.Read(b); string(b[:n]) != "text" {
		t.Errorf("got %q, %v", b[:n], err)
	}
}

// TestWriteMakesNoDevice: a Write that fails leaves at most a file with a name of its
// own. The script devices of cmd/imgcheck tests real devices in a /dev of its own.
func TestWriteMakesNoDevice(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/dev/imgcheck-test", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/dev/imgcheck-test", "/proc/imgcheck-test", "/sys/imgcheck-test", "/dev/../dev/imgcheck-test", link} {
		t.Cleanup(func() { os.Remove(name) })
		for what, err := range map[string]error{"Check": Check(name), "Write": Write(name, 0o644, says("x"))} {
			if err == nil {
				t.Errorf("%s of %s: no error", what, name)
			} else if runtime.GOOS == "linux" && !strings.HasSuffix(err.Error(), "no file can be created there") {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
	}
}
