package patch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gofrs/flock"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ggcr "github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// faultyDisk counts its steps and does something at one of them.
type faultyDisk struct {
	mu    sync.Mutex
	steps int
	at    int          // the step, counted from 1; 0 is none
	do    func() error // what happens there; an error is the step's own
	done  string       // the step at which it happened
}

func (d *faultyDisk) step(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.steps++; d.steps != d.at {
		return nil
	}
	d.done = name
	return d.do()
}

func (d *faultyDisk) createTemp(dir, pattern string) (tempFile, error) {
	if err := d.step("create"); err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir, pattern), Err: err}
	}
	f, err := os.CreateTemp(dir, pattern)
	return &faultyFile{f, d}, err
}

func (d *faultyDisk) mkdirAll(dir string) error {
	if err := d.step("mkdir"); err != nil {
		return err
	}
	return osDisk{}.mkdirAll(dir)
}

func (d *faultyDisk) rename(from, to string) error {
	if err := d.step("rename"); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (d *faultyDisk) writeNamed(path string, write func(io.Writer) error) error {
	return osDisk{}.writeNamed(path, func(w io.Writer) error {
		if err := d.step("open"); err != nil {
			return err
		}
		return write(&faultyWriter{w, d})
	})
}

// faultyWriter writes half before it fails, as a full disk does.
type faultyWriter struct {
	w io.Writer
	d *faultyDisk
}

func (f *faultyWriter) Write(b []byte) (int, error) {
	if err := f.d.step("write"); err != nil {
		n, _ := f.w.Write(b[:len(b)/2])
		return n, err
	}
	return f.w.Write(b)
}

// remove never fails, so that the tests may ask that nothing is left behind.
func (d *faultyDisk) remove(name string) error { return os.Remove(name) }

type faultyFile struct {
	*os.File
	d *faultyDisk
}

func (f *faultyFile) Write(b []byte) (int, error) {
	return (&faultyWriter{f.File, f.d}).Write(b)
}

func (f *faultyFile) Chmod(mode fs.FileMode) error {
	if err := f.d.step("chmod"); err != nil {
		return err
	}
	return f.File.Chmod(mode)
}

func (f *faultyFile) Sync() error {
	if err := f.d.step("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Close() error {
	err := f.File.Close()
	if strings.HasPrefix(filepath.Base(f.Name()), "imgcheck-layer-") {
		return err // all of it has been read by then
	}
	return errors.Join(err, f.d.step("close"))
}

// everyStep patches a base and publishes it, once for each step of the disk. At that step
// it calls happens.
func everyStep(t *testing.T, ref, to string, happens func(cancel context.CancelFunc) error, check func(step string, err error)) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	inMemory, real := spoolInMemory, disk
	t.Cleanup(func() { spoolInMemory, disk = inMemory, real })
	spoolInMemory = 10 // a file for each layer
	b := open(t, ref, quick())
	base := indexed(t, b.Images[0])
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		d := &faultyDisk{at: at, do: func() error { return happens(cancel) }}
		disk = d
		p, err := Apply(ctx, b.Images[0], base, change())
		if err == nil {
			_, err = Publish(ctx, b, []*Patched{p}, to, quick())
			p.Close()
		}
		disk = real
		cancel()
		if d.done == "" && err != nil {
			t.Fatalf("without a fault: %v", err)
		}
		if left, rerr := os.ReadDir(dir); rerr != nil || len(left) > 0 {
			t.Errorf("%s, step %d: left behind: %v, %v", d.done, at, left, rerr)
		}
		if d.done == "" {
			if at < 5 {
				t.Fatalf("the disk was asked %d times only", at-1)
			}
			return
		}
		check(fmt.Sprintf("%s (step %d)", d.done, at), err)
	}
}

// filesIn returns all files below a directory except complete blobs, which may stay for
// the next attempt.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		blob := slices.Contains(strings.Split(rel, string(filepath.Separator)), "blobs")
		if err == nil && !d.IsDir() && (!blob || strings.Contains(rel, ".imgcheck")) {
			list = append(list, rel)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return list
}

// layoutOf writes an image into a layout under a tag and returns its reference.
func layoutOf(t *testing.T, dir, tag string, img v1.Image) string {
	t.Helper()
	p, err := ggcr.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img, ggcr.WithAnnotations(map[string]string{source.RefName: tag})); err != nil {
		t.Fatal(err)
	}
	return "oci:" + dir + ":" + tag
}

// A disk that fails at any step ends the patch with an error that says so; nothing
// is left behind, and what a name meant it means still.
func TestDiskFails(t *testing.T) {
	full := func(context.CancelFunc) error { return syscall.ENOSPC }
	for _, form := range []string{"new layout", "layout", "archive", "layer", "registry"} {
		t.Run(form, func(t *testing.T) {
			s := newServer(t)
			ref := s.push(t, "app:1", imagetest.V1(t, app))
			out := t.TempDir()
			dir := filepath.Join(out, "out")
			from := layoutOf(t, filepath.Join(out, "from"), "1", imagetest.V1(t, app))
			var to string
			now := func() string { return "" }
			switch form {
			case "new layout":
				to = "oci:" + dir + ":1"
				now = func() string {
					b, err := OpenBase(t.Context(), to, quick())
					if err != nil {
						return ""
					}
					return b.Digest
				}
			case "layout": // in place
				to, dir = from, filepath.Join(out, "from")
				now = func() string { return open(t, to, quick()).Digest }
			case "archive":
				to = "docker-archive:" + filepath.Join(dir, "a.tar")
			case "layer":
				to = "layer:" + filepath.Join(dir, "l.tar")
			case "registry":
				from, to = ref, ref
				now = func() string { return s.digest(t, "app:1") }
			}
			if form == "archive" || form == "layer" {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			was, files := now(), filesIn(t, dir)
			everyStep(t, from, to, full, func(step string, err error) {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("%s: error %v", step, err)
				}
				left := slices.DeleteFunc(filesIn(t, dir), func(f string) bool { return form == "new layout" && f == "oci-layout" })
				if now() != was || !slices.Equal(left, files) {
					t.Errorf("%s: the name means %q, not %q; files are %v, not %v", step, now(), was, left, files)
				}
			})
		})
	}
}

// A patch that is interrupted at any step of the disk leaves no files behind: it is done
// whole or not at all.
func TestInterruptedAtDisk(t *testing.T) {
	stop := func(cancel context.CancelFunc) error { cancel(); return nil }
	for _, form := range []string{"oci:", "docker-archive:", "layer:"} {
		t.Run(form, func(t *testing.T) {
			from := layoutOf(t, t.TempDir(), "1", imagetest.V1(t, app))
			dir := t.TempDir()
			stopped := 0
			everyStep(t, from, form+filepath.Join(dir, "out"), stop, func(step string, err error) {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("%s: error %v", step, err)
				}
				if err != nil {
					stopped++
				}
				for _, f := range filesIn(t, dir) {
					if strings.Contains(f, ".imgcheck") || err != nil && f != filepath.Join("out", "oci-layout") {
						t.Errorf("%s: error %v, and %s is there", step, err, f)
					}
				}
				if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
					t.Fatal(err)
				}
			})
			if stopped < 3 {
				t.Errorf("stopped %d times only", stopped)
			}
		})
	}
}

// The wait for a layout that another process has locked can be interrupted, and a lock file
// that is a link is not followed.
func TestLockedLayout(t *testing.T) {
	dir := t.TempDir()
	ref := layoutOf(t, dir, "1", imagetest.V1(t, app))
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	lock := flock.New(filepath.Join(dir, lockName))
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := Publish(ctx, b, p, ref, quick())
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if now := open(t, ref, quick()).Digest; now != b.Digest {
		t.Errorf("the name has %s", now)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(t.Context(), b, p, ref, quick()); err != nil { // what a process that was killed has left locks nothing
		t.Error(err)
	}
	away := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Symlink(away, filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Undo(t.Context(), ref, quick()); err == nil || !strings.HasSuffix(err.Error(), lockName+" is no file") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(away); err == nil {
		t.Error("a file was made elsewhere")
	}
	// Nor is any other link of a layout.
	linked := t.TempDir()
	if err := os.Symlink(away, filepath.Join(linked, "oci-layout")); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(t.Context(), b, p, "oci:"+linked+":1", quick()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(away); err == nil {
		t.Error("a file was made elsewhere")
	}
}
