package replay

import (
	"bytes"
	"cmp"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// TestTooManyInstalls checks the error for an image with more frameworks than the limit.
func TestTooManyInstalls(t *testing.T) {
	defer func(was int) { maxInstalls = was }(maxInstalls)
	const torch = "/lib/python3.10/site-packages/torch/lib/libtorch_cpu.so"
	m, err := imagetest.Parse([]byte(elfText("a"+torch) + elfText("b"+torch)))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.LayerTar(0, &b); err != nil {
		t.Fatal(err)
	}
	l, err := layers.ReadLayer(&b, nil)
	if err != nil {
		t.Fatal(err)
	}
	img, p := &Image{FS: layers.Merge(l)}, embedded(t)
	n := len(newTest(t, img, p).ev.Installs)
	if n < 2 {
		t.Fatalf("%d installations", n)
	}
	maxInstalls = n
	if _, err := Run(t.Context(), img, p); err != nil {
		t.Error(err)
	}
	maxInstalls = n - 1
	if _, err := Run(t.Context(), img, p); err == nil || !strings.Contains(err.Error(), "scan an image with fewer environments") {
		t.Errorf("error %v", err)
	}
}

// TestTooManyObjects checks the error for an image with more ELF files than the limit: names of
// one file count, since each is judged.
func TestTooManyObjects(t *testing.T) {
	defer func(was int) { maxObjects = was }(maxObjects)
	const prog = " --\nelf x86_64 interp=/lib64/ld-linux-x86-64.so.2\nflags1 pie\n"
	img, p := &Image{FS: fsOf(t, "-- 0/bin/a"+prog+"-- 0/bin/b"+prog+"-- 0/bin/c"+prog)}, embedded(t)
	maxObjects = 3
	if _, err := Run(t.Context(), img, p); err != nil {
		t.Error(err)
	}
	maxObjects = 2
	const want = "it has 3 dynamic ELF files, more than the 2 that are replayed: it was not judged"
	if _, err := Run(t.Context(), img, p); err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	if _, err := FindWays(t.Context(), img, p); err == nil || err.Error() != want {
		t.Errorf("the ways have the error %v", err)
	}
}

// TestTooManySeen checks the error for an image whose environments see more packages than
// the limit.
func TestTooManySeen(t *testing.T) {
	defer func(was int) { maxSeen = was }(maxSeen)
	list := []layers.Entry{}
	keep := func(name, text string) {
		list = append(list, layers.Entry{Path: name, Mode: 0o644, Size: int64(len(text)), Content: []byte(text)})
	}
	for _, pkg := range []string{"a", "b"} {
		keep("usr/lib/python3.10/site-packages/"+pkg+"-1.dist-info/METADATA", "Name: "+pkg+"\nVersion: 1\n")
	}
	for _, venv := range []string{"v", "w"} {
		keep("srv/"+venv+"/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.10\n")
	}
	img, p := &Image{FS: layers.Merge(layers.NewLayer(list))}, embedded(t)
	maxSeen = 6 // two of three environments
	if _, err := Run(t.Context(), img, p); err != nil {
		t.Error(err)
	}
	maxSeen = 5
	if _, err := Run(t.Context(), img, p); err == nil || !strings.Contains(err.Error(), "environments see more than the 5 packages") {
		t.Errorf("error %v", err)
	}
}

// TestNoProcessIsHeld checks that the evidence holds no processes: of a process it holds
// the mapped files, each file with one module, and of a miss the module that has it.
func TestNoProcessIsHeld(t *testing.T) {
	text := "-- 0/lib64/ld-linux-x86-64.so.2 --\nelf x86_64 soname=ld-linux-x86-64.so.2\n" +
		"-- 0/lib64/libcudart.so.12 --\nelf x86_64 soname=libcudart.so.12\n" +
		"-- 0/lib64/liba.so --\nelf x86_64 soname=liba.so\nneeded libb.so\n" +
		"-- 0/lib64/libb.so --\nelf x86_64 soname=libb.so\nneeded libabsent.so\n"
	for _, name := range []string{"p", "q"} {
		text += "-- 0/bin/" + name + " --\nelf x86_64 interp=/lib64/ld-linux-x86-64.so.2\nneeded libcudart.so.12\nflags1 pie\n"
	}
	re := newTest(t, &Image{FS: fsKeeping(t, text, nil)}, embedded(t))
	if err := cmp.Or(re.replay(t.Context()), re.runStarts(t.Context())); err != nil {
		t.Fatal(err)
	}
	shared := map[string]*elfdeps.Module{}
	for _, r := range re.ev.Processes {
		if r.proc != nil || r.done != nil {
			t.Errorf("%s holds its process", r.Title)
		}
		for _, m := range r.Loaded {
			if first := shared[m.Real()]; first != nil && first != m.Module {
				t.Errorf("%s: %s is held twice", r.Title, m.Real())
			}
			shared[m.Real()] = m.Module
		}
	}
	if len(re.ev.Processes) != 2 || shared["/lib64/libcudart.so.12"] == nil {
		t.Errorf("%d processes, of %v", len(re.ev.Processes), shared)
	}
	misses := re.files.ByPath["/lib64/liba.so"].Misses
	if len(misses) != 1 || misses[0].By.Real() != "/lib64/libb.so" || misses[0].By.By != nil {
		t.Errorf("misses %v", misses)
	}
}

// elfText returns the text of an ELF file of a text image.
func elfText(path string, lines ...string) string {
	return "-- 0/" + path + " --\nelf x86_64 " + strings.Join(lines, "\n") + "\n"
}
