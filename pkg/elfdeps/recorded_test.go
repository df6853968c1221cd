package elfdeps

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/imgcheck/imgcheck/internal/imagetest"
)

var recordWorlds = flag.Bool("record", false, "write what the loader of -loaderroot does into the worlds of testdata/recorded that are for its release")

// TestRecordedWorlds replays worlds that were recorded with loaders of other releases than
// this machine's. If -loaderroot has such a loader it runs again.
//
// The section "loader" has the machine and the release of glibc, "actions" the actions of
// probe.c, if any, and "real" the results: of the actions, or without actions of the start
// and the trace.
func TestRecordedWorlds(t *testing.T) {
	eachText(t, "testdata/recorded", recorded)
}

func recorded(t *testing.T, file string) {
	text, im := readImage(t, file)
	name, release, _ := strings.Cut(strings.TrimSpace(im.Sections["loader"]), " ")
	i := slices.IndexFunc(machines, func(m machine) bool { return m.name == name })
	if i < 0 || releaseNumber(release) == 0 {
		t.Fatalf("section loader: want a machine and a release, such as %q", "x86_64 2.31")
	}
	w := &opening{world: readWorld(t, file), actions: strings.Fields(im.Sections["actions"])}
	w.interp = machines[i].glibc
	if here.name == name && hereRelease() == releaseNumber(release) {
		needRoot(t)
		real := strings.Join(w.realLines(t), "\n") + "\n"
		if *recordWorlds {
			text = withSection(text, "real", real)
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if d := cmp.Diff(im.Sections["real"], real); d != "" {
			t.Errorf("-recorded +real:\n%s", d)
		}
		im.Sections["real"] = real
	}
	stub, err := imagetest.Parse(append(text, stubs(machines[i], release)...))
	if err != nil {
		t.Fatal(err)
	}
	got := w.lines(t, imageTree(t, stub, func(_ string, b []byte) []byte { return b }))
	if d := cmp.Diff(strings.Split(strings.TrimSpace(im.Sections["real"]), "\n"), got); d != "" {
		t.Errorf("-recorded +ours:\n%s", d)
	}
}

// realLines returns the results of the real loader for a recorded world.
func (w *opening) realLines(t *testing.T) []string {
	t.Helper()
	dir := w.build(t)
	if len(w.actions) == 0 {
		return outcomeLines(w.real(t, dir))
	}
	w.program = compile(t, "testdata/probe/probe.c", w.interp)
	return w.realOpening(t, dir)
}

// lines returns the predicted results for it.
func (w *opening) lines(t *testing.T, fsys FS) []string {
	t.Helper()
	if len(w.actions) == 0 {
		return outcomeLines(w.replayed(t, fsys))
	}
	return w.replay(t, fsys)
}

func outcomeLines(o worldOutcome) []string {
	lines := append(slices.Clone(o.Stderr), fmt.Sprint("exit ", o.Exit), "ldd:")
	return slices.Concat(lines, o.Trace, o.TraceStderr, []string{fmt.Sprint("exit ", o.TraceExit)})
}

// stubs returns files that contain the facts of a release's loader and C library.
func stubs(m machine, release string) string {
	libs := fmt.Sprintf("/lib/%[1]s/\\x00/usr/lib/%[1]s/\\x00/lib/\\x00/usr/lib/\\x00", m.triplet)
	text := fmt.Sprintf("-- 0%s --\nelf %s soname=%s\nrodata \"ld.so (GNU libc) stable release version %s.\\n\\x00%s\"\n", m.glibc, m.name, filepath.Base(m.glibc), release, libs)
	text += fmt.Sprintf("-- 0/lib/%s/libc.so.6 --\nelf %s soname=libc.so.6\nneeded %s\n", m.triplet, m.name, filepath.Base(m.glibc))
	if releaseNumber(release) < 234 {
		text += fmt.Sprintf("-- 0/lib/%s/libdl.so.2 --\nelf %s soname=libdl.so.2\nneeded libc.so.6\n", m.triplet, m.name)
	}
	return text
}

// withSection adds a section to the text of a world, before its files.
func withSection(text []byte, name, body string) []byte {
	head := []byte("\n-- " + name + " --\n")
	if i := bytes.Index(text, head); i >= 0 {
		rest := text[i+len(head):]
		end := bytes.Index(rest, []byte("-- "))
		if end < 0 {
			end = len(rest)
		}
		return slices.Concat(text[:i], head, []byte(body), rest[end:])
	}
	i := bytes.Index(text, []byte("-- 0/"))
	return slices.Concat(text[:i], head[1:], []byte(body), text[i:])
}
