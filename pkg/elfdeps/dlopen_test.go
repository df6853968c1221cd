package elfdeps

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// probeFlags compile the program with each kind of search path.
var probeFlags = []string{
	"-Wl,--as-needed", "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../1:/2", "-Wl,--enable-new-dtags,-rpath,/3:$ORIGIN/lib", "-Wl,-z,execstack",
}

func compileProbes(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, flags := range probeFlags {
		list = append(list, compile(t, "testdata/probe/lists.c", glibcInterp, flags))
	}
	return list
}

// TestRandomDlopen opens random names in random worlds with the package's loader and with the
// real one.
func TestRandomDlopen(t *testing.T) {
	needRoot(t)
	probes := compileProbes(t)
	n, seed := randomSize(t)
	for i := range n {
		rnd := rand.New(rand.NewPCG(uint64(seed+i), 2))
		d := dlopens{world: *randomWorld(rnd, glibcInterp), probe: probes[rnd.IntN(len(probes))]}
		d.files = slices.DeleteFunc(d.files, func(f worldFile) bool { return f.name == "/app/main" || f.name == "/etc/ld.so.preload" })
		d.env = slices.DeleteFunc(d.env, func(v string) bool { return strings.HasPrefix(v, "LD_PRELOAD=") })
		r := chooser{rnd}
		for range 2 + r.IntN(4) {
			d.names = append(d.names, r.request())
		}
		if d.diff(t) == "" {
			continue
		}
		d = d.shrink(t)
		t.Fatalf("world %d: -real +ours:\n%s\nprobe %s opens %q\n%s", seed+i, d.diff(t), d.probe, d.names, &d.world)
	}
}

// dlopens is a world in which a probe opens names.
type dlopens struct {
	world
	probe string
	names []string
}

func (d dlopens) shrink(t *testing.T) dlopens {
	for again := true; again; {
		again = false
		var list []dlopens
		for _, w := range d.smaller() {
			list = append(list, dlopens{*w, d.probe, d.names})
		}
		for i := range d.names {
			list = append(list, dlopens{d.world, d.probe, slices.Delete(slices.Clone(d.names), i, i+1)})
		}
		for _, smaller := range list {
			if smaller.diff(t) != "" {
				d, again = smaller, true
				break
			}
		}
	}
	return d
}

func (d dlopens) diff(t *testing.T) string {
	t.Helper()
	if hereRelease() == 235 && d.circular() {
		return ""
	}
	dir := d.build(t)
	if err := os.MkdirAll(dir+"/app", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(d.probe, dir+"/app/main"); err != nil {
		t.Fatal(err)
	}
	out, stderr, exit := d.exec(t, dir, d.env, slices.Concat([]string{"/app/main"}, d.names)...)
	if exit == ranAway {
		return ""
	}
	want := append(out, stderr...)
	if exit < 0 {
		want = append(want, "killed")
	}
	return cmp.Diff(want, d.replayed(t, dirTree(t, dir)))
}

func (d dlopens) replayed(t *testing.T, fsys FS) []string {
	t.Helper()
	l, err := NewLoader(fsys, d.interp, Env{Vars: d.env, Cwd: d.cwd, CPU: cpuLevel(t), Intel: cpuIsIntel(t)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Start("/app/main")
	var e *Error
	if errors.As(err, &e) {
		return p.Stderr()
	}
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, name := range d.names {
		said := "ok"
		if _, err := p.Dlopen(nil, name); err != nil {
			said = err.Error()
			if errors.As(err, &e) && e.Kind == InnerError {
				return p.Stderr() // the process ended before it printed
			}
		}
		lines = append(lines, name+": "+said)
	}
	for _, m := range p.Objects {
		names := m.Names
		if m.Main {
			names = []string{""}
		}
		lines = append(lines, strings.TrimSpace("object "+m.Path+" "+strings.Join(names, " ")))
	}
	return append(lines, p.Stderr()...)
}
