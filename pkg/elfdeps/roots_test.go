//go:build roots

package elfdeps

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// diskFS is a directory as the root of a loader. It reads files when they are requested.
type diskFS struct {
	root string
	mu   sync.Mutex
	read map[string]*File
}

func (d *diskFS) Find(p string) (*File, error) {
	if p == "" {
		return nil, syscall.ENOENT
	}
	real, links := "", 0
	rest := strings.Split(p, "/")
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		switch word {
		case "", ".":
			continue
		case "..":
			real = strings.TrimSuffix(filepath.Dir("/"+real), "/")
			continue
		}
		next := real + "/" + word
		st, err := os.Lstat(d.root + next)
		if err != nil {
			return nil, errno(err)
		}
		if st.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > 40 {
			return nil, syscall.ELOOP
		}
		target, err := os.Readlink(d.root + next)
		if err != nil {
			return nil, errno(err)
		}
		if strings.HasPrefix(target, "/") {
			real = ""
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	if real == "" {
		real = "/"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.read[real]; f != nil {
		return f, nil
	}
	f, err := d.open(real)
	if err == nil {
		d.read[real] = f
	}
	return f, err
}

func (d *diskFS) open(real string) (*File, error) {
	r, err := os.Open(d.root + real)
	if err != nil {
		return nil, errno(err)
	}
	defer r.Close()
	st, err := r.Stat()
	if err != nil {
		return nil, errno(err)
	}
	f := &File{Path: real, ID: st.Sys().(*syscall.Stat_t).Ino, Mode: st.Mode(), Size: st.Size()}
	if st.Mode().IsRegular() {
		if f.Object, err = ReadSymbols(r, st.Size()); err != nil {
			f.Object = nil
			if st.Size() < 1<<20 {
				if _, err := r.Seek(0, 0); err == nil {
					f.Content, _ = io.ReadAll(r)
				}
			}
		}
		if real == "/etc/ld.so.cache" && f.Content == nil {
			if _, err := r.Seek(0, 0); err == nil {
				f.Content, _ = io.ReadAll(r)
			}
		}
	}
	return f, nil
}

// theRoots returns the root file systems for the tests of this file.
func theRoots(t *testing.T) []string {
	t.Helper()
	needRoot(t)
	roots := filepath.SplitList(os.Getenv("ELFDEPS_ROOTS"))
	if len(roots) == 0 {
		t.Fatal("ELFDEPS_ROOTS lists no root file systems: `make real` makes some")
	}
	return roots
}

// TestUnresolvedOfRoots compares, for every ELF file below /usr/lib and /usr/bin of the roots
// in ELFDEPS_ROOTS, the predicted undefined references with those of the root's own loader:
//
//	ELFDEPS_ROOTS=/ go test -tags roots -run TestUnresolvedOfRoots -v ./pkg/elfdeps
//
// test/real/run.sh runs it for the roots that it makes.
func TestUnresolvedOfRoots(t *testing.T) {
	for _, root := range theRoots(t) {
		t.Run(filepath.Base(root), func(t *testing.T) { unresolvedOfRoot(t, strings.TrimSuffix(root, "/")) })
	}
}

func unresolvedOfRoot(t *testing.T, root string) {
	fsys := &diskFS{root: root, read: map[string]*File{}}
	l, err := NewLoader(fsys, glibcInterp, Env{CPU: cpuLevel(t), Intel: cpuIsIntel(t), Kernel: [3]uint32{9, 0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	files, silent, lines, otherOrder, noVersion, differ, unknown, gaveUp := 0, 0, 0, 0, 0, 0, 0, 0
	t.Setenv("ELFDEPS_FILES", root+"/usr/lib:"+root+"/usr/bin")
	machineFiles(t, func(file string, r *os.File, size int64) {
		o, err := Read(r, size)
		if err != nil || !o.Dynamic || o.Machine != l.machine || o.Class() != l.class || o.Interp != "" && o.Interp != glibcInterp {
			return
		}
		inside := strings.TrimPrefix(file, root)
		want, exit := realUnresolved(t, root, inside)
		p, err := l.Trace(inside)
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
		files++
		if exit != 0 || p.Status() != 0 {
			gaveUp++
			if (exit != 0) != (p.Status() != 0) && exit > 0 {
				t.Errorf("%s: real status %d, ours %d", inside, exit, p.Status())
			}
			return
		}
		var got []string
		for _, u := range p.Unresolved(nil) {
			line := u.text + "\t(" + u.Module.String() + ")"
			got = append(got, line)
		}
		lines += len(want)
		switch {
		case slices.Equal(got, want):
			if len(want) == 0 {
				silent++
			}
			return
		case slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))):
			otherOrder++
			t.Logf("%s: same lines in another order", inside)
			return
		case slices.Equal(withoutVersions(got), withoutVersions(want)) && len(p.Misses) > 0:
			// For an object with a missing dependency glibc's table of versions is too short in
			// trace mode: glibc reads behind its end.
			noVersion++
			return
		}
		if u := p.Unknown(); len(u) > 0 {
			unknown++
			t.Logf("%s: not known: %v; real %d lines, ours %d", inside, u, len(want), len(got))
			extra := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return slices.Contains(want, s) })
			if len(extra) > 0 {
				t.Errorf("%s: false alarms %q", inside, extra[:min(5, len(extra))])
			}
			return
		}
		differ++
		diff := strings.Split(cmp.Diff(want, got), "\n")
		t.Errorf("%s: -real +ours:\n%s", inside, strings.Join(diff[:min(len(diff), 12)], "\n"))
	})
	t.Logf("%d files, %d of them silent, %d lines; %d differ, %d in another order, %d but for versions of a missing file, %d with unknown objects, %d that the loader refuses",
		files, silent, lines, differ, otherOrder, noVersion, unknown, gaveUp)
	if files == 0 {
		t.Error("there is none")
	}
}

func withoutVersions(lines []string) []string {
	lines = slices.Clone(lines)
	for i, line := range lines {
		symbol, file, _ := strings.Cut(line, "\t")
		symbol, _, _ = strings.Cut(symbol, ", version ")
		lines[i] = symbol + "\t" + file
	}
	return lines
}

// realUnresolved returns the lines for undefined symbols that the root's loader prints for a
// file, each once.
func realUnresolved(t *testing.T, root, file string) ([]string, int) {
	t.Helper()
	cmd := exec.Command(glibcInterp, file)
	cmd.Env = []string{"LD_TRACE_LOADED_OBJECTS=1", "LD_BIND_NOW=1", "LD_WARN=1"}
	cmd.Dir = "/"
	if root != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(stderr.String()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "undefined symbol: ") && !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	return list, cmd.ProcessState.ExitCode()
}

// TestBindingsOfRoots compares the bindings of every tenth file of ELFDEPS_ROOTS, or every
// ELFDEPS_EVERY-th, with those of LD_DEBUG=bindings.
func TestBindingsOfRoots(t *testing.T) {
	every := 10
	if n, err := strconv.Atoi(os.Getenv("ELFDEPS_EVERY")); err == nil && n > 0 {
		every = n
	}
	for _, root := range theRoots(t) {
		t.Run(filepath.Base(root), func(t *testing.T) { bindingsOfRoot(t, strings.TrimSuffix(root, "/"), every) })
	}
}

func bindingsOfRoot(t *testing.T, root string, every int) {
	fsys := &diskFS{root: root, read: map[string]*File{}}
	l, err := NewLoader(fsys, glibcInterp, Env{CPU: cpuLevel(t), Intel: cpuIsIntel(t), Kernel: [3]uint32{9, 0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	seen, files, total := 0, 0, 0
	t.Setenv("ELFDEPS_FILES", root+"/usr/lib:"+root+"/usr/bin")
	machineFiles(t, func(file string, r *os.File, size int64) {
		o, err := Read(r, size)
		if err != nil || !o.Dynamic || o.Machine != l.machine || o.Class() != l.class || o.Interp != "" && o.Interp != glibcInterp {
			return
		}
		if seen++; seen%every != 0 {
			return
		}
		inside := strings.TrimPrefix(file, root)
		want := realBindings(t, root, inside)
		p, _ := l.Trace(inside)
		if p.Status() != 0 || len(p.Misses) > 0 || strings.Contains(inside, "ld-linux") {
			return
		}
		got := map[string]bool{}
		for _, m := range p.binder.order() {
			p.eachReference(m, func(q *query, rec record, _ bool, find func() (*Module, record, *Error)) {
				to, _, err := find()
				if to == nil || err != nil {
					return
				}
				kind, version := "normal", ""
				if rec.vis() == elf.STV_PROTECTED {
					kind = "protected"
				}
				if q.version != nil {
					version = q.version.Name
				}
				got[bindingLine(p.file(m), p.file(to), kind, string(q.name), version)] = true
			})
		}
		files++
		total += len(want)
		if maps.Equal(want, got) {
			return
		}
		var diff []string
		for line := range want {
			if !got[line] {
				diff = append(diff, "- "+line)
			}
		}
		for line := range got {
			if !want[line] {
				diff = append(diff, "+ "+line)
			}
		}
		slices.Sort(diff)
		t.Errorf("%s: %d real bindings, %d ours; -real +ours:\n%s", inside, len(want), len(got), strings.Join(diff[:min(8, len(diff))], "\n"))
	})
	t.Logf("%d files, %d bindings", files, total)
	if total == 0 {
		t.Error("there is none")
	}
}

func bindingLine(from, to, kind, name, version string) string {
	return strings.Join([]string{from, to, kind, name, version}, " ")
}

// realBindings returns the bindings that the root's loader prints for a file and its
// dependencies without running the file.
func realBindings(t *testing.T, root, file string) map[string]bool {
	t.Helper()
	cmd := exec.Command(glibcInterp, file)
	cmd.Env = []string{"LD_TRACE_LOADED_OBJECTS=1", "LD_BIND_NOW=1", "LD_WARN=1", "LD_DEBUG=bindings"}
	cmd.Dir = "/"
	if root != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil
	}
	lines := map[string]bool{}
	for line := range strings.Lines(stderr.String()) {
		m := bindingRE.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m != nil && !strings.Contains(m[1], "ld-linux") && m[1] != "linux-vdso.so.1" {
			lines[bindingLine(m[1], m[2], m[3], m[4], m[5])] = true
		}
	}
	return lines
}
