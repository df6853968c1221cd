package elfdeps

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// symbolOutcome has the results of binding the symbols of a world.
type symbolOutcome struct {
	Exit       int
	Stderr     []string
	NowExit    int // with LD_BIND_NOW
	NowStderr  []string
	Unresolved []string // what ldd -r prints
	Bindings   []string // from, to, version and kind of each name of symbolNames
}

var symbolNames = []string{"f", "g", "h", "d", "e", "t"}

var bindingRE = regexp.MustCompile("binding file (.*) \\[\\d+\\] to (.*) \\[\\d+\\]: (\\w+) symbol `(.*)'(?: \\[(.*)\\])?$")

// realSymbols runs the world under the real loader.
func (w *world) realSymbols(t testing.TB, dir string) symbolOutcome {
	t.Helper()
	var o symbolOutcome
	_, o.Stderr, o.Exit = w.exec(t, dir, w.env, "/app/main")
	if strings.Contains(w.interp, "musl") {
		return o
	}
	now := append([]string{"LD_BIND_NOW=1"}, w.env...)
	_, o.NowStderr, o.NowExit = w.exec(t, dir, now, "/app/main")
	_, lines, exit := w.exec(t, dir, append([]string{"LD_TRACE_LOADED_OBJECTS=1", "LD_WARN=1"}, now...), "/app/main")
	if exit != 0 { // an assertion failed
		o.Unresolved = []string{"not compared"}
	}
	for _, line := range lines {
		if exit == 0 && strings.Contains(line, "\t(") && !slices.Contains(o.Unresolved, line) {
			o.Unresolved = append(o.Unresolved, line)
		}
	}
	if o.NowExit != 0 {
		return o
	}
	_, lines, _ = w.exec(t, dir, append([]string{"LD_DEBUG=bindings"}, now...), "/app/main")
	for _, name := range symbolNames {
		for _, line := range lines {
			m := bindingRE.FindStringSubmatch(line)
			if m == nil || m[4] != name {
				continue
			}
			if s := fmt.Sprintf("%s: %s -> %s %s %s", name, m[1], m[2], m[3], m[5]); !slices.Contains(o.Bindings, s) {
				o.Bindings = append(o.Bindings, s)
			}
		}
	}
	return o
}

// replayedSymbols predicts the outcome of the world.
func (w *world) replayedSymbols(t testing.TB, fsys FS) symbolOutcome {
	t.Helper()
	run := func(env ...string) *Process {
		l, err := NewLoader(fsys, w.interp, Env{Vars: append(env, w.env...), Cwd: w.cwd, CPU: cpuLevel(t), Intel: cpuIsIntel(t)})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := l.Start("/app/main")
		return p
	}
	var o symbolOutcome
	p := run()
	o.Exit, o.Stderr = p.Status(), p.Stderr()
	if p.Loader.Libc.Musl {
		return o
	}
	p = run("LD_BIND_NOW=1")
	o.NowExit, o.NowStderr = p.Status(), p.Stderr()
	if o.NowExit == 0 {
		for _, name := range symbolNames {
			for _, b := range p.Bindings(name) {
				kind := "normal"
				if b.Protected {
					kind = "protected"
				}
				o.Bindings = append(o.Bindings, fmt.Sprintf("%s: %s -> %s %s %s", name, p.file(b.From), p.file(b.To), kind, b.Version))
			}
		}
	}
	traced, _ := p.Loader.Trace("/app/main")
	if len(traced.Misses) > 0 { // the real loader may crash: its table lacks the versions of a missing file
		o.Unresolved = []string{"not compared"}
	} else if traced.Status() == 0 {
		for _, u := range traced.Unresolved(nil) {
			o.Unresolved = append(o.Unresolved, u.String())
		}
	}
	return o
}

func (w *world) symbolDiff(t testing.TB) string {
	t.Helper()
	dir := w.build(t)
	want, got := w.realSymbols(t, dir), w.replayedSymbols(t, dirTree(t, dir))
	if want.Exit < 0 || want.NowExit < 0 {
		return "" // the real loader crashed, as it does for filters in a circle
	}
	if none := []string{"not compared"}; slices.Equal(got.Unresolved, none) || slices.Equal(want.Unresolved, none) {
		want.Unresolved, got.Unresolved = none, none
	}
	return cmp.Diff(want, got)
}

// symbolLibrary writes a library or program with symbols.
func (r chooser) symbolLibrary(head string, needs []string) string {
	var b strings.Builder
	b.WriteString(head + "\n")
	for _, n := range needs {
		fmt.Fprintf(&b, "needed %s\n", n)
	}
	if r.chance(6) {
		b.WriteString("flags " + r.pick("now", "symbolic", "now symbolic") + "\n")
	}
	if r.chance(10) && strings.Contains(head, "soname") { // versions of objects before the program are not checked
		fmt.Fprintf(&b, "%s %s\n", r.pick("auxiliary", "filter"), r.symbolName())
	}
	var asked []string
	if len(needs) > 0 && r.chance(2) {
		asked = []string{"V1", "V2", "V3"}[:1+r.IntN(3)]
		fmt.Fprintf(&b, "verneed %s %s\n", needs[r.IntN(len(needs))], strings.Join(asked, r.pick(" ", "? ")))
	}
	var defines []string
	if r.chance(2) {
		defines = []string{"V1", "V2", "V3"}[:1+r.IntN(3)]
		fmt.Fprintf(&b, "verdef self %s\n", strings.Join(defines, " "))
	}
	for _, name := range symbolNames {
		kind := map[string]string{"d": " object", "e": " object", "t": " tls"}[name]
		switch r.IntN(5) {
		case 0, 1:
			r.define(&b, name, kind, defines)
		case 2:
			if kind == " object" {
				kind = " data"
			}
			version := ""
			if len(asked) > 0 && !r.chance(3) {
				version = "@" + r.pick(asked...)
			}
			fmt.Fprintf(&b, "undef %s%s%s", name, version, kind)
			if r.chance(5) {
				b.WriteString(" weak")
			}
			if kind == "" && r.chance(4) {
				b.WriteString(" load")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// define writes one or more versions of a symbol.
func (r chooser) define(b *strings.Builder, name, kind string, versions []string) {
	n := 1
	if len(versions) > 0 && r.chance(3) {
		n = 2
	}
	for i := range n {
		version := ""
		if len(versions) > 0 && (n > 1 || !r.chance(4)) {
			version = r.pick("@", "@@") + versions[(i+r.IntN(2))%len(versions)]
		}
		fmt.Fprintf(b, "def %s%s%s", name, version, kind)
		for _, word := range []string{"weak", "hidden", "protected", "called", "load"} {
			switch {
			case !r.chance(8):
			case word == "hidden" && !hiddenIsLocal(): // linkers make such a symbol local
			case word == "called" && kind != "", word == "load" && kind == " tls", word == "protected" && strings.HasSuffix(b.String(), "hidden"):
			default:
				b.WriteString(" " + word)
			}
		}
		b.WriteString("\n")
	}
}

// hiddenIsLocal reports whether the real glibc ignores hidden symbols, as it does from 2.24
// on (glibc commit b6084a958f).
var hiddenIsLocal = sync.OnceValue(func() bool { return !strings.Contains(strings.Join(interps(), " "), "linux") || hereRelease() >= 224 })

func (r chooser) symbolName() string { return "lib" + r.pick("a", "b", "c1", "d") + ".so" }

func symbolWorld(rnd *rand.Rand, interp string) *world {
	r := chooser{rnd}
	w := &world{interp: interp, cwd: "/", env: []string{"LD_LIBRARY_PATH=/1"}}
	needs := func(most int) []string {
		var list []string
		for range r.IntN(most + 1) {
			if n := r.symbolName(); !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
		return list
	}
	main := append([]string{r.symbolName()}, needs(2)...)
	if r.chance(3) {
		main = append(main, "libc.so.6")
	}
	w.files = append(w.files, worldFile{"/app/main", r.symbolLibrary("elf "+here.name+" interp="+interp, slices.Compact(main))})
	for _, n := range []string{"liba.so", "libb.so", "libc1.so", "libd.so"} {
		w.files = append(w.files, worldFile{"/1/" + n, r.symbolLibrary("elf "+here.name+" soname="+n, needs(3))})
	}
	if r.chance(5) {
		w.env = append(w.env, "LD_PRELOAD="+r.symbolName())
	}
	return w
}

// TestRandomSymbols binds the symbols of random worlds with the package's loader and with
// the real one. ELFDEPS_WORLDS and ELFDEPS_SEED are as for TestRandomWorlds.
func TestRandomSymbols(t *testing.T) {
	needRoot(t)
	n, seed := randomSize(t)
	for _, interp := range interps() {
		for i := range n {
			w := symbolWorld(rand.New(rand.NewPCG(uint64(seed+i), 2)), interp)
			if w.symbolDiff(t) == "" {
				continue
			}
			w = w.shrinkBy(func(c *world) bool { return c.symbolDiff(t) != "" })
			t.Errorf("%s, world %d: -real +ours:\n%s\n%s", interp, seed+i, w.symbolDiff(t), w)
			return
		}
	}
}

// shrinkBy removes from w what fails does not need.
func (w *world) shrinkBy(fails func(*world) bool) *world {
	for again := true; again; {
		again = false
		for _, smaller := range w.smaller() {
			if smaller.valid() && fails(smaller) {
				w, again = smaller, true
				break
			}
		}
	}
	return w
}

// valid reports whether the world's text can be parsed: shrinking may have removed the
// version of a symbol.
func (w *world) valid() bool {
	_, err := imagetest.Parse([]byte(w.String()))
	return err == nil
}
