package elfdeps

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// countingFS counts calls of Find.
type countingFS struct {
	FS
	asked atomic.Int64
}

func (c *countingFS) Find(p string) (*File, error) {
	c.asked.Add(1)
	return c.FS.Find(p)
}

// hostileTree returns a root with a loader, a program, and libraries.
func hostileTree(t *testing.T, files map[string]string) *countingFS {
	t.Helper()
	tr := &tree{root: dirNode(0o755)}
	files["/lib64/ld-linux-x86-64.so.2"] = "elf x86_64 soname=ld-linux-x86-64.so.2\nrodata \"ld.so (GNU libc) stable release version 2.31.\\x00\""
	id := uint64(0)
	for name, text := range files {
		id++
		tr.put(name, file(t, parseELF(t, text).Bytes(), 0o755, id))
	}
	return &countingFS{FS: tr}
}

// TestWorkIsBounded: a few kilobytes that cost a loader endless work end at the limit, with an
// error that says so, and not with libraries that are missing.
func TestWorkIsBounded(t *testing.T) {
	defer func(was int64) { maxWork = was }(maxWork)
	maxWork = 20_000
	const prog = "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2\nflags1 pie\n"
	mutual, many, filters := map[string]string{}, map[string]string{}, map[string]string{}
	needs, filtees := "", ""
	for i := range 60 {
		needs += fmt.Sprintf("needed libn%d.so\n", i)
		filtees += fmt.Sprintf("filter libn%d.so\nauxiliary libn%d.so\n", i, 60-i)
	}
	for i := range 60 {
		mutual[fmt.Sprintf("/lib64/libn%d.so", i)] = "elf x86_64\n" + needs
		filters[fmt.Sprintf("/lib64/libn%d.so", i)] = "elf x86_64\n" + filtees
	}
	mutual["/prog"], filters["/prog"] = prog+needs, prog+needs
	dirs, absent := "", ""
	for i := range 300 {
		dirs += fmt.Sprintf("/d%d:", i)
		absent += fmt.Sprintf("needed libx%d.so\n", i)
	}
	many["/prog"] = prog + "runpath " + dirs + "\n" + absent
	for name, files := range map[string]map[string]string{"libraries that need each other": mutual, "many directories": many, "filters": filters} {
		t.Run(name, func(t *testing.T) {
			fsys, work := hostileTree(t, files), new(Work)
			l, err := NewLoader(fsys, "/lib64/ld-linux-x86-64.so.2", Env{Work: work})
			if err != nil {
				t.Fatal(err)
			}
			for range 50 {
				l.Trace("/prog")
			}
			if err := work.Err(); !errors.Is(err, ErrWork) {
				t.Fatalf("the limit is not reached: %d units, %v", work.done.Load(), err)
			}
			if n := fsys.asked.Load(); n > maxWork {
				t.Errorf("%d files were asked for", n)
			}
			before := fsys.asked.Load()
			p, _ := l.Trace("/prog")
			if n := fsys.asked.Load() - before; n > 2 || len(p.Misses) > 0 {
				t.Errorf("after the limit, a start looks up %d files and misses %d", n, len(p.Misses))
			}
			_, err = l.Bare().Dlopen(nil, "libx0.so")
			var e *Error
			if !errors.As(err, &e) || !e.Unknown || e.Missing() {
				t.Errorf("after the limit, the error of a library is %+v", err)
			}
		})
	}
}

// TestNamesWithoutEnd: the NUL of each name is not searched to the end of a string table.
// 65,536 names in a table of 64 MiB without a NUL would read 4 TiB.
func TestNamesWithoutEnd(t *testing.T) {
	b := parseELF(t, "elf x86_64 soname=liba.so\n"+strings.Repeat("needed "+strings.Repeat("A", 5000)+"\n", 3)).Bytes()
	o, err := Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Needed) != 3 || o.Needed[0] != "" || o.Soname != "liba.so" || len(o.Unread) != 1 {
		t.Errorf("needed %q, soname %q, unread %v", o.Needed, o.Soname, o.Unread)
	}
	p := &reader{obj: new(Object), strtab: bytes.Repeat([]byte{'A'}, 32<<20), dyn: nil}
	for range 65_536 {
		p.name("DT_NEEDED", 0, true)
	}
	if len(p.obj.Unread) != maxTold {
		t.Errorf("%d reasons are kept, not %d", len(p.obj.Unread), maxTold)
	}
}

func TestNotesAreBounded(t *testing.T) {
	for name, json := range map[string]string{
		"entries": "[" + strings.Repeat("{},", maxNotes) + "{}]",
		"names":   `[{"soname":[` + strings.Repeat(`"",`, maxNotes) + `""]}]`,
		"bytes":   `[{"soname":["` + strings.Repeat("a", maxJSON) + `"]}]`,
	} {
		o := readText(t, "elf x86_64\nneeded libc.so.6\ndlopen "+json)
		if len(o.Dlopen) != 0 || len(o.Unread) != 1 || o.Unread[0].What != ".note.dlopen" {
			t.Errorf("%s: %d notes, unread %v", name, len(o.Dlopen), o.Unread)
		}
	}
	o := readText(t, "elf x86_64 soname=ld-linux-x86-64.so.2\nrodata \""+strings.Repeat(`/lib/\x00`, 5000)+"\"")
	if o.Libc == nil || len(o.Libc.SystemDirs) != maxSystem {
		t.Errorf("libc %+v", o.Libc)
	}
}

// TestChainIsLinear: the cost of a process grows with the number of its libraries, not with
// the square: each library of a chain costs the same in chains of any length.
func TestChainIsLinear(t *testing.T) {
	for _, musl := range []bool{false, true} {
		spent := func(n int) int64 {
			files := map[string]string{}
			for i := range n {
				files[fmt.Sprintf("/lib/libc%d.so", i)] = fmt.Sprintf("elf x86_64\nneeded libc%d.so\n", i+1)
			}
			files[fmt.Sprintf("/lib/libc%d.so", n)] = "elf x86_64\n"
			interp := "/lib64/ld-new.so" // up to 2.34 sorting takes quadratic time
			files[interp] = "elf x86_64 soname=ld-linux-x86-64.so.2\nrodata \"ld.so (GNU libc) stable release version 2.36.\\x00\""
			if musl {
				interp = "/lib/ld-musl-x86_64.so.1"
				files[interp] = "elf x86_64 soname=libc.musl-x86_64.so.1\n"
			}
			files["/prog"] = "elf x86_64 interp=" + interp + "\nflags1 pie\nneeded libc0.so\n"
			work := new(Work)
			l, err := NewLoader(hostileTree(t, files), interp, Env{Work: work, Vars: []string{"LD_LIBRARY_PATH=/lib"}})
			if err != nil {
				t.Fatal(err)
			}
			p, err := l.Start("/prog")
			if err != nil || len(p.Objects) < n+1 {
				t.Fatalf("%d objects, %v", len(p.Objects), err)
			}
			return work.done.Load()
		}
		if short, long := spent(250), spent(1000); long > 4*short+100 {
			t.Errorf("musl %v: a chain of 250 costs %d, one of 1000 %d", musl, short, long)
		}
	}
}

// TestErrorAlone: Alone keeps the text of an error and drops its process.
func TestErrorAlone(t *testing.T) {
	files := map[string]string{
		"/lib64/liba.so": "elf x86_64\nneeded libb.so\nneeded libabsent.so\n",
		"/lib64/libb.so": "elf x86_64\n",
		"/prog":          "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2\nflags1 pie\nneeded liba.so\n",
	}
	l, err := NewLoader(hostileTree(t, files), "/lib64/ld-linux-x86-64.so.2", Env{Vars: []string{"LD_LIBRARY_PATH=/lib64"}})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := l.Trace("/prog")
	if len(p.Misses) != 1 || len(p.Misses[0].By.Deps) != 2 {
		t.Fatalf("misses %v", p.Misses)
	}
	e := p.Misses[0]
	alone := e.Alone()
	if alone.Error() != e.Error() || alone.By.String() != e.By.String() || alone.By.Real() != "/lib64/liba.so" || alone.By.Object != e.By.Object {
		t.Errorf("%v by %v, alone %v by %v", e, e.By, alone, alone.By)
	}
	if m := alone.By; m.Deps != nil || m.By != nil || m.loader != nil || m.link.scopes != nil {
		t.Errorf("it holds %+v", m)
	}
}

// TestCrowdsAreCounted: in a process of thousands of objects, each further one costs what is
// done with all the others.
func TestCrowdsAreCounted(t *testing.T) {
	const n = 2500
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("/lib/libx%d.so", i)] = "elf x86_64\n"
	}
	files["/prog"] = "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2\nflags1 pie\n"
	work := new(Work)
	l, err := NewLoader(hostileTree(t, files), "/lib64/ld-linux-x86-64.so.2", Env{Work: work})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Start("/prog")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := p.Dlopen(nil, fmt.Sprintf("/lib/libx%d.so", i)); err != nil {
			t.Fatal(err)
		}
	}
	least := 0
	for i := range n {
		least += crowd(i)
	}
	if got := work.done.Load(); got < int64(least) || least == 0 {
		t.Errorf("%d units, fewer than the %d of the objects before", got, least)
	}
}
