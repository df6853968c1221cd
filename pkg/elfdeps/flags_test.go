package elfdeps

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRandomFlags opens libraries of random worlds with random flags, with the package's
// loader and with the real one, and compares where symbols are found.
func TestRandomFlags(t *testing.T) {
	needRoot(t)
	n, seed := randomSize(t)
	for _, interp := range interps() {
		t.Run(filepath.Base(interp), func(t *testing.T) {
			program := compile(t, "testdata/probe/probe.c", interp)
			for i := range n {
				w := dlopenWorld(rand.New(rand.NewPCG(uint64(seed+i), 3)), interp)
				w.program = program
				if w.diff(t) == "" {
					continue
				}
				w.shrink(t)
				t.Fatalf("world %d: -real +ours:\n%s\n%q\n%s", seed+i, w.diff(t), w.actions, w.world)
			}
		})
	}
}

// opening is a world and the actions of its program.
type opening struct {
	*world
	program string
	actions []string
}

func (w *opening) diff(t testing.TB) string {
	t.Helper()
	if w.interp == glibcInterp && hereRelease() == 235 && w.circular() {
		return ""
	}
	dir := w.build(t)
	want := w.realOpening(t, dir)
	if want == nil {
		return "" // the real loader crashes for filters in a circle
	}
	return cmp.Diff(want, w.replay(t, dirTree(t, dir)))
}

// realOpening returns the output of the real loader in the root dir, nil when it is killed.
func (w *opening) realOpening(t testing.TB, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(w.program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/app/main", b, 0o755); err != nil {
		t.Fatal(err)
	}
	out, stderr, exit := w.exec(t, dir, w.env, append([]string{"/app/main"}, w.actions...)...)
	out = append(out, stderr...)
	switch {
	case exit < 0:
		return nil
	case exit != 0:
		out = append(out, fmt.Sprint("exit ", exit))
	}
	return out
}

func (w *opening) replay(t testing.TB, fsys FS) []string {
	t.Helper()
	l, err := NewLoader(fsys, w.interp, Env{Vars: w.env, CPU: cpuLevel(t), Intel: cpuIsIntel(t)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Start("/app/main")
	if err != nil {
		return append(p.Stderr(), fmt.Sprint("exit ", p.Status()))
	}
	var lines []string
	var handles []*Module
	for _, a := range w.actions {
		symbol := strings.Contains(a, "?")
		var m *Module
		var err error
		if !symbol {
			flags, name, _ := strings.Cut(a, ":")
			m, err = p.DlopenFlags(nil, name, openFlags(flags))
			handles = append(handles, m)
			if m != nil {
				lines = append(lines, "ok")
				continue
			}
		} else {
			handles = append(handles, nil)
			k, name, _ := strings.Cut(a, "?")
			var handle *Module
			if k != "" {
				i, _ := strconv.Atoi(k)
				if handle = handles[i]; handle == nil {
					lines = append(lines, "no handle")
					continue
				}
			}
			if name, version, ok := strings.Cut(name, "@"); ok {
				m, err = p.VSym(handle, name, version)
			} else {
				m, err = p.Sym(handle, name)
			}
			if m != nil {
				lines = append(lines, "in "+p.file(m))
				continue
			}
		}
		switch {
		case p.fatal != nil:
			return append(append(lines, p.Stderr()...), fmt.Sprint("exit ", p.Status()))
		case err != nil:
			lines = append(lines, err.Error())
		case symbol:
			lines = append(lines, "not known")
		default:
			lines = append(lines, "(null)") // RTLD_NOLOAD
		}
	}
	return append(lines, p.Warnings...)
}

func (w *opening) shrink(t *testing.T) {
	for again := true; again; {
		again = false
		for i := range w.actions {
			c := *w
			c.actions = slices.Clone(w.actions)
			c.actions[i] = "?none" // keeps the numbers of the others
			if c.actions[i] != w.actions[i] && c.diff(t) != "" {
				w.actions, again = c.actions, true
				break
			}
		}
		for _, smaller := range w.smaller() {
			c := *w
			if c.world = smaller; smaller.valid() && smaller.files[0].name == "/app/main" && c.diff(t) != "" {
				w.world, again = smaller, true
				break
			}
		}
	}
}

func dlopenWorld(rnd *rand.Rand, interp string) *opening {
	r := chooser{rnd}
	w := &opening{world: symbolWorld(rnd, interp)}
	w.files[0].body = "elf " + here.name + " interp=" + interp + "\n" // a text for the program
	w.env = []string{"LD_LIBRARY_PATH=/1"}
	if r.chance(4) {
		w.env = append(w.env, "LD_PRELOAD="+r.symbolName())
	}
	if r.chance(8) {
		w.env = append(w.env, "LD_BIND_NOW=1")
	}
	if r.chance(8) {
		w.env = append(w.env, "GLIBC_TUNABLES="+r.pick("", "glibc.malloc.check=0:")+"glibc.rtld.execstack="+r.pick("0", "1", "2", "2"))
		f := &w.files[1+r.IntN(4)]
		f.body = strings.Replace(f.body, "\n", r.pick(" execstack", " nognustack")+"\n", 1)
	}
	for i := range 2 + r.IntN(6) {
		switch {
		case i > 0 && r.chance(3):
			a := "?" + r.pick("f", "g", "h", "d", "e")
			if r.chance(2) {
				a = strconv.Itoa(r.IntN(i)) + a
			}
			if interp == glibcInterp && r.chance(4) {
				a += "@" + r.pick("V1", "V2", "V3")
			}
			w.actions = append(w.actions, a)
		default:
			w.actions = append(w.actions, r.pick("N", "N", "L", "L", "NO", "")+r.pick("", "", "G")+r.pick("", "", "", "D")+":"+r.pick("", "", "", "/1/")+r.symbolName())
		}
	}
	return w
}
