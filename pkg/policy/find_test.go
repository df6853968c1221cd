//go:build unix

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLoadFound: a file that the user did not name must not be one that another user can
// have written. Reading it must not wait for a writer.
func TestLoadFound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test gives files to another user: run it as root")
	}
	const text = "fail-on: warning\n"
	for what, c := range map[string]struct {
		make func(name string) error
		want string // of the error; "": none
	}{
		"mine":          {func(string) error { return nil }, ""},
		"private group": {func(name string) error { return os.Chmod(name, 0o664) }, ""},
		"others'":       {func(name string) error { return os.Chown(name, 1234, 0) }, "belongs to another user (1234)"},
		"writable":      {func(name string) error { return os.Chmod(name, 0o646) }, "may be written by other users (mode 0646; chmod go-w)"},
		"a group's": {func(name string) error {
			return join(os.Chown(name, 0, 1234), os.Chmod(name, 0o664))
		}, "may be written by other users"},
		"a link of mine": {func(name string) error {
			return join(os.Rename(name, name+".real"), os.Symlink(name+".real", name))
		}, ""},
		"a link to others'": {func(name string) error {
			return join(os.Rename(name, name+".real"), os.Chown(name+".real", 1234, 0), os.Symlink(name+".real", name))
		}, "belongs to another user"},
		"others' link": {func(name string) error {
			return join(os.Rename(name, name+".real"), os.Symlink(name+".real", name), os.Lchown(name, 1234, 0))
		}, "belongs to another user"},
		"a FIFO": {func(name string) error {
			return join(os.Remove(name), syscall.Mkfifo(name, 0o600))
		}, "is no regular file"},
	} {
		name := filepath.Join(t.TempDir(), FileName)
		if err := join(os.WriteFile(name, []byte(text), 0o644), c.make(name)); err != nil {
			t.Fatal(err)
		}
		p, err := LoadFound(name)
		switch {
		case c.want == "" && (err != nil || p.FailOn != "warning"):
			t.Errorf("%s: %v", what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--config "+name)):
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

func join(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestFindOthersRepository: a .git that another user has made above the directory does not
// let Find look there.
func TestFindOthersRepository(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test gives files to another user: run it as root")
	}
	top := t.TempDir()
	in := filepath.Join(top, "in")
	if err := join(os.Mkdir(in, 0o755), os.WriteFile(filepath.Join(top, FileName), nil, 0o644), os.Mkdir(filepath.Join(top, ".git"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(in); err != nil || got == "" {
		t.Fatalf("%q, %v in a repository of one's own", got, err)
	}
	if err := os.Chown(filepath.Join(top, ".git"), 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(in); err != nil || got != "" {
		t.Errorf("%q, %v in a repository of another user", got, err)
	}
}

// TestLargePolicy: no more is read of a file than a byte beyond the bound.
func TestLargePolicy(t *testing.T) {
	_, err := read("f", endless{})
	if err == nil || err.Error() != "f: larger than 1024 KiB" {
		t.Errorf("%v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '#'
	}
	return len(b), nil
}

// TestExtendsFIFO: a policy that the user names waits for no writer of a FIFO that it extends.
func TestExtendsFIFO(t *testing.T) {
	dir := write(t, map[string]string{"named.yaml": "extends: fifo.yaml\n"})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Load(filepath.Join(dir, "named.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Resolve(nil); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("%v", err)
	}
}
