package elfdeps

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRandomWorlds replays random worlds with the package's loader and with the real one. It
// shrinks a disagreement and prints it.
//
// ELFDEPS_WORLDS is the number of worlds for each loader, ELFDEPS_SEED the number of the
// first.
func TestRandomWorlds(t *testing.T) {
	needRoot(t)
	n, seed := randomSize(t)
	failed := 0
	for _, interp := range interps() {
		for i := range n {
			w := randomWorld(rand.New(rand.NewPCG(uint64(seed+i), 1)), interp)
			if w.diff(t) == "" {
				continue
			}
			w = w.shrink(t)
			t.Errorf("%s, world %d: -real +ours:\n%s\n%s", interp, seed+i, w.diff(t), w)
			if failed++; failed == 3 {
				return
			}
		}
	}
}

// randomSize returns the number of worlds and the number of the first.
func randomSize(t *testing.T) (n, seed int) {
	t.Helper()
	n, seed = 40, 1
	for name, to := range map[string]*int{"ELFDEPS_WORLDS": &n, "ELFDEPS_SEED": &seed} {
		if s := os.Getenv(name); s != "" {
			v, err := strconv.Atoi(s)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			*to = v
		}
	}
	return n, seed
}

// shrink removes from w what the disagreement does not need.
func (w *world) shrink(t *testing.T) *world {
	for again := true; again; {
		again = false
		for _, smaller := range w.smaller() {
			if smaller.diff(t) != "" {
				w, again = smaller, true
				break
			}
		}
	}
	return w
}

// circular reports whether libraries of w may need each other in a circle. When a later dlopen
// fails, glibc 2.35 unloads a part of such a circle that is in use (bug 28937), which this
// package does not predict.
func (w *world) circular() bool {
	needs := map[string][]string{}
	for _, f := range w.files {
		names := []string{path.Base(f.name)}
		var asked []string
		for line := range strings.Lines(f.body) {
			for _, word := range strings.Fields(line) {
				if soname, ok := strings.CutPrefix(word, "soname="); ok {
					names = append(names, soname)
				}
			}
			if kind, name, _ := strings.Cut(strings.TrimSpace(line), " "); kind == "needed" || kind == "symlink" || kind == "filter" || kind == "auxiliary" {
				asked = append(asked, path.Base(name))
			}
		}
		for _, n := range names {
			needs[n] = append(needs[n], asked...)
		}
	}
	for start := range needs {
		seen := map[string]bool{}
		for queue := slices.Clone(needs[start]); len(queue) > 0; queue = queue[1:] {
			if queue[0] == start {
				return true
			}
			if !seen[queue[0]] {
				seen[queue[0]] = true
				queue = append(queue, needs[queue[0]]...)
			}
		}
	}
	return false
}

// smaller returns the worlds that lack one thing of w.
func (w *world) smaller() []*world {
	var list []*world
	without := func(change func(c *world)) {
		c := *w
		c.files, c.env = slices.Clone(w.files), slices.Clone(w.env)
		change(&c)
		list = append(list, &c)
	}
	for i := range w.env {
		without(func(c *world) { c.env = slices.Delete(c.env, i, i+1) })
	}
	if w.conf != "" {
		without(func(c *world) { c.conf = "" })
	}
	for i, f := range w.files {
		if f.name != "/app/main" {
			without(func(c *world) { c.files = slices.Delete(c.files, i, i+1) })
		}
		lines := strings.SplitAfter(strings.TrimSuffix(f.body, "\n"), "\n")
		for j := 1; j < len(lines); j++ {
			body := strings.TrimSuffix(strings.Join(slices.Delete(slices.Clone(lines), j, j+1), ""), "\n") + "\n"
			without(func(c *world) { c.files[i].body = body })
		}
	}
	return list
}

// TestRandomByHand calls the loader by hand in random worlds.
func TestRandomByHand(t *testing.T) {
	needRoot(t)
	n, seed := randomSize(t)
	for i := range n {
		rnd := rand.New(rand.NewPCG(uint64(seed+i), 3))
		r := chooser{rnd}
		w := randomWorld(rnd, r.pick(interps()...))
		if r.chance(2) {
			w.byHand = append(w.byHand, "--library-path", r.path(":"))
		}
		if r.chance(4) {
			if name := r.request(); w.interp == muslInterp || hereRelease() >= 230 { // the option came with 2.30
				w.byHand = append(w.byHand, "--preload", name)
			}
		}
		if r.chance(4) && w.interp == glibcInterp {
			w.byHand = append(w.byHand, "--inhibit-cache")
		}
		w.files = append(w.files, worldFile{"/bin/main", "symlink /app/main\n"})
		w.byHand = append(w.byHand, r.pick("/app/main", "/app/main", "../app/main", "/bin/main", "/gone", "/app"))
		if w.diff(t) == "" {
			continue
		}
		w = w.shrink(t)
		t.Fatalf("%s, world %d: -real +ours:\n%s\n%s", w.interp, seed+i, w.diff(t), w)
	}
}

// chooser makes the choices of a random world.
type chooser struct{ *rand.Rand }

func (r chooser) pick(list ...string) string { return list[r.IntN(len(list))] }

// chance returns true once in n times.
func (r chooser) chance(n int) bool { return r.IntN(n) == 0 }

func (r chooser) name() string { return "lib" + r.pick("a", "b", "c1", "d", "e") + ".so" }

func (r chooser) dir() string {
	return r.pick("/1", "/2", "/2/sub", "/3", "/w", "/usr/lib", "/lib/"+here.triplet, "/lib", "/app/lib")
}

// elem returns an element of a search path.
func (r chooser) elem() string {
	switch r.IntN(12) {
	case 0:
		return r.pick("$ORIGIN", "${ORIGIN}/", "$ORIGIN/sub", "$ORIGIN/../2", "$ORIGIN/../app/lib", "/ln/$ORIGIN")
	case 1:
		return r.pick("", ".", "w", "../1", "sub/", "gone")
	case 2:
		return r.pick("/ln", "/ln/sub", "/1/", "/2//sub", "/1/../2", "/gone", "/1/liba.so", "/loop", "/$LIB", "/$PLATFORM", "/$X", "/1;/2")
	}
	return r.dir()
}

func (r chooser) path(sep string) string {
	var list []string
	for range 1 + r.IntN(3) {
		list = append(list, r.elem())
	}
	return strings.Join(list, sep)
}

// request returns a name for DT_NEEDED.
func (r chooser) request() string {
	if r.chance(15) {
		return r.pick(r.dir()+"/"+r.name(), "$ORIGIN/"+r.name(), "./"+r.name(), "w/"+r.name(), "/ln/"+r.name(), "lib$X.so")
	}
	return r.name()
}

func (r chooser) library(soname string) string {
	var b strings.Builder
	b.WriteString("elf " + here.name)
	if soname != "" {
		b.WriteString(" soname=" + soname)
	}
	b.WriteString("\n")
	r.needs(&b, 3)
	if r.chance(12) {
		fmt.Fprintf(&b, "%s %s\n", r.pick("auxiliary", "auxiliary", "filter"), r.request())
	}
	if r.chance(4) {
		b.WriteString("verdef " + r.name() + " V1" + r.pick("", " V2", " V2 V3") + "\n")
	}
	return b.String()
}

func (r chooser) needs(b *strings.Builder, most int) {
	var asked []string
	for range r.IntN(most + 1) {
		asked = append(asked, r.request())
		fmt.Fprintf(b, "needed %s\n", asked[len(asked)-1])
	}
	if len(asked) > 0 && r.chance(8) {
		fmt.Fprintf(b, "verneed %s %s\n", asked[0], r.pick("V1", "V2", "V1 V3?", "V9?", "V2 V3"))
	}
	switch r.IntN(4) {
	case 0:
		fmt.Fprintf(b, "rpath /1:%s\n", r.path(":"))
		if r.chance(6) { // with nowhere to look the errno is that of an earlier open
			b.WriteString("flags1 nodeflib\n")
		}
	case 1:
		fmt.Fprintf(b, "runpath %s\n", r.path(":"))
	}
	if r.chance(20) {
		fmt.Fprintf(b, "rpath %s\n", r.path(":"))
	}
}

// body returns the file for the name of a library, which is mostly a library.
func (r chooser) body(name string) string {
	switch r.IntN(24) {
	case 0:
		return r.pick("text\n", "text\nthis is no library, and it is longer than the header of an ELF file has to be\n", "text\nshort\n")
	case 1:
		return "elf i386 soname=" + name + "\n"
	case 2:
		return "elf " + here.other + " soname=" + name + "\n"
	case 3:
		return "symlink " + r.pick(r.name(), r.dir()+"/"+r.name(), "../1/"+r.name(), name, "gone") + "\n"
	case 4:
		return r.pick("dir\n", "elf "+here.name+" type=exec\n", "elf "+here.name+" interp="+glibcInterp+"\nflags1 pie\n", "elf "+here.name+" nodynamic\nrodata \"x\"\n", "elf "+here.name+" execstack\n", "elf "+here.name+"\nisa 0x4000\n", "elf "+here.name+"\nabitag 99.0.0\n", "elf "+here.name+" nognustack\n")
	case 5:
		return r.library("")
	case 6, 7:
		return r.library(r.name())
	}
	return r.library(name)
}

func randomWorld(rnd *rand.Rand, interp string) *world {
	r := chooser{rnd}
	w := &world{interp: interp, cwd: r.pick("/", "/", "/w", "/2")}
	have := map[string]bool{}
	add := func(name, body string) {
		if !have[name] {
			have[name] = true
			w.files = append(w.files, worldFile{name, body})
		}
	}
	var b strings.Builder
	b.WriteString("elf " + here.name + " interp=" + interp + "\n")
	for range 1 + r.IntN(3) {
		fmt.Fprintf(&b, "needed %s\n", r.request())
	}
	if r.chance(3) {
		b.WriteString("needed libc.so.6\n")
	}
	r.needs(&b, 1)
	add("/app/main", b.String())
	for _, d := range []string{"/1", "/2", "/w"} {
		add(d, "dir\n")
	}
	add("/ln", "symlink /2\n")
	add("/loop", "symlink loop\n")
	for range 4 + r.IntN(9) {
		name := r.name()
		dir := r.dir()
		if r.chance(6) {
			dir += r.pick("/glibc-hwcaps/x86-64-v2", "/glibc-hwcaps/x86-64-v3", "/glibc-hwcaps/x86-64-v4", "/glibc-hwcaps/zz", "/tls", "/tls/"+here.name, "/"+here.name, "/"+here.name+"/"+here.name, "/haswell", "/tls/haswell/"+here.name, "/avx512_1", "/haswell/avx512_1", "/atomics", "/"+here.name+"/atomics")
		}
		add(dir+"/"+name, r.body(name))
	}
	if r.chance(2) {
		w.env = append(w.env, "LD_LIBRARY_PATH="+r.path(r.pick(":", ";")))
	}
	if r.chance(5) {
		w.env = append(w.env, "LD_PRELOAD="+r.request()+r.pick(" ", ":")+r.request())
	}
	if interp == muslInterp {
		if r.chance(3) {
			add("/etc/ld-musl-"+here.name+".path", "text\n"+r.path("\n")+"\n")
		}
		return w
	}
	if r.chance(6) {
		add("/etc/ld.so.preload", "text\n"+r.request()+" # x\n"+r.request()+"\n")
	}
	if r.chance(2) {
		w.conf = r.pick("/1\n/2\n", "/2\n", "/ln\n/3\n", "/3\n/2/sub\n/1\n")
	}
	return w
}
