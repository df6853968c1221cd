package ldd

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/internal/plain/plaintest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// FuzzHostile puts a text into every name that a process shows: files, libraries, search
// paths, versions, symbols, variables, arguments of dlopen. Neither the drawing nor the JSON
// may contain commands for terminals or CI systems.
func FuzzHostile(f *testing.F) {
	names, err := filepath.Glob("../elfdeps/testdata/cases/003-*.txtar")
	if err != nil || len(names) != 1 {
		f.Fatalf("%v: %v", names, err)
	}
	base, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range plaintest.Poison {
		f.Add(s)
	}
	f.Add("a\n" + plaintest.Injected)
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ReplaceAll(s, "\x00", "") // ends a name
		if !plaintest.May(s) || len(s) > 200 {
			return
		}
		im := hostile(t, base, s)
		fsys := merged(t, im)
		files := Files{FS: fsys, Env: elfdeps.Env{Vars: im.Config.Env}, Symbols: true, Names: true}
		run := Run{
			Exe: "/app/main", Env: files.Env, Search: true, Hwcaps: true, Bindings: []string{s, "f"},
			Args: []string{"dlopen=N:" + s, "dlopen=N:liba.so", "from=liba.so:N:" + s, "sym=" + s},
		}
		shown := 0
		for _, color := range []bool{false, true} {
			o := TreeOptions{All: true, Symbols: true, Names: true, Color: color}
			var b bytes.Buffer
			for _, path := range []string{"/app/main", "/app/" + s + "x", "/r/liba.so"} {
				p, err := files.Process(path)
				if err != nil || p == nil {
					continue // some names are not paths
				}
				shown++
				if err := Tree(&b, p, path, o); err != nil {
					t.Fatal(err)
				}
				file, err := files.Look(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := plain.JSON(&b, file, ""); err != nil {
					t.Fatal(err)
				}
			}
			if err := Static(&b, s+"x"); err != nil {
				t.Fatal(err)
			}
			for _, exe := range []string{"/app/main", "/app/" + s + "x"} {
				run.Exe = exe
				if err := Draw(&b, fsys, run, o); err != nil {
					continue
				}
				shown++
			}
			if strings.ContainsAny(s, ":; ") { // which split search paths, so that the rest may begin a line
				plaintest.Obeyed(t, "ldd", b.String(), color)
			} else {
				plaintest.Lawful(t, "ldd", b.String(), color)
			}
		}
		if shown < 6 {
			t.Errorf("only %d of the processes were drawn", shown)
		}
	})
}

// hostile returns the image of a case with s in all of its names.
func hostile(t *testing.T, base []byte, s string) *imagetest.Image {
	im, err := imagetest.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	path := "/x" + s + "/"
	im.Config.Env = []string{"LD_LIBRARY_PATH=" + path, "LD_PRELOAD=" + strings.Join(strings.Fields(s), "_")} // blanks would split it
	layer := &im.Layers[0]
	main := elfOf(layer, "app/main")
	main.Needed = append([]string{s, "lib" + s + ".so"}, main.Needed...)
	*main.Runpath += ":" + path
	main.Rodata = "lib" + s + ".so.1\x00libz.so.%d" + s + "\x00"
	main.Symbols = []imagetest.Symbol{{Name: "dlopen"}, {Name: s, Load: true}, {Name: "f", Load: true}}
	lib := elfOf(layer, "r/liba.so")
	lib.Needed = []string{s + ".so"}
	lib.VerDefs = []string{"liba.so", s}
	lib.Symbols = []imagetest.Symbol{{Name: "f", Defined: true}, {Name: s + "2", Load: true}}
	other := *main
	other.VerNeeds = append([]imagetest.VerNeed{{File: "libc.so.6", Versions: []imagetest.Version{{Name: s}}}}, main.VerNeeds...)
	second := layer.Files[0]
	for _, f := range layer.Files {
		if f.ELF == main {
			second = f
		}
	}
	second.Name, second.ELF = "app/"+s+"x", &other
	third := second
	third.Name, third.ELF = "x"+s+"/lib"+s+".so", &imagetest.ELF{Soname: s, Needed: []string{s}}
	layer.Files = append(layer.Files, second, third)
	for i := range layer.Files {
		if f := &layer.Files[i]; f.ELF != nil {
			f.Size = f.ELF.Size()
		}
	}
	return im
}

func elfOf(l *imagetest.Layer, name string) *imagetest.ELF {
	for _, f := range l.Files {
		if f.Name == name {
			return f.ELF
		}
	}
	panic("no file " + strconv.Quote(name))
}
