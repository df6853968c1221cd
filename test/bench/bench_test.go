//go:build linux

package bench

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// The limit and imgcheck read the images, from the layout and from the server, and
// each layer is made once.
func TestImages(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	dir := t.TempDir()
	one := []content{{name: "one", text: "1\n"}}
	for name, kind := range map[string]types.MediaType{"gzip": types.OCILayer, "zstd": types.OCILayerZStd} {
		img, err := makeImage(filepath.Join(dir, name), kind, nil, one, []content{{name: "two", text: "2\n", under: "opt"}, {name: "three", text: "3\n", under: "srv"}})
		if err != nil {
			t.Fatal(err)
		}
		again, err := makeImage(filepath.Join(dir, name), kind, nil)
		if err != nil || !slices.Equal(img.Sizes, again.Sizes) || len(img.Sizes) != 2 || img.size() < 2048 {
			t.Errorf("%s: %v, and then %v, %v", name, img, again, err)
		}
		if _, err := makeImage(filepath.Join(dir, name+"-same"), kind, nil, one); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		asked := 0
		s := httptest.NewServer(server(map[string]image{name: img}, func(string) { mu.Lock(); defer mu.Unlock(); asked++ }))
		defer s.Close()
		host := strings.TrimPrefix(s.URL, "http://")
		for _, from := range []string{"", host} {
			if err := limit(img.Dir, from); err != nil {
				t.Errorf("%s from %q: %v", name, from, err)
			}
		}
		if err := makeArchive(img); err != nil {
			t.Fatal(err)
		}
		for _, ref := range []string{"oci:" + img.Dir, host + "/" + name + ":1", "docker-archive:" + archive(img)} {
			read, err := layers.Open(t.Context(), ref, layers.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			fsys, err := read.Index(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []string{"/app/main.py", "/opt/app/main.py", "/srv/app/main.py"} {
				if _, _, ok := fsys.Lookup(p); !ok {
					t.Errorf("%s has no %s", ref, p)
				}
			}
		}
		if asked < 5 {
			t.Errorf("the server was asked %d times", asked)
		}
		m, err := manifest(img.Dir)
		if err != nil {
			t.Fatal(err)
		}
		blob := blobs{img.Dir}.path(m.Layers[0].Digest.String())
		if err := os.WriteFile(blob, []byte("something else"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := limit(img.Dir, ""); err == nil {
			t.Errorf("%s: the limit does not look at digests", name)
		}
	}
	if made, err := filepath.Glob(filepath.Join(dir, "made", "*.json")); len(made) != 4 || err != nil {
		t.Errorf("made %q, %v", made, err)
	}
}

func TestMiddle(t *testing.T) {
	c := middle([]cost{{wall: 3 * time.Second, peak: 1}, {wall: time.Second, peak: 9}, {wall: 2 * time.Second, peak: 2}})
	if c.wall != 2*time.Second || c.peak != 9 {
		t.Errorf("got %+v", c)
	}
	if got := packages([]content{{packages: []string{"b", "a"}}, {packages: []string{"a"}}, {text: "x"}}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
}

// Another program runs with an empty home, which is removed afterwards. A message
// of timeout is reported.
func TestFresh(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	c := b.fresh(`test -z "$(ls -A "$HOME")" && test "$TMPDIR" = "$HOME" && test "$1" = one && head -c 1000000 /dev/zero >"$TMPDIR/file"`, "one")
	if left, err := os.ReadDir(b.dir); c.err != nil || len(left) > 0 || err != nil {
		t.Errorf("got %+v, left %v, %v", c, left, err)
	}
	for command, want := range map[string]string{"exit 124": "did not finish within 10 minutes", "echo why >&2; exit 3": "exit status 3: why"} {
		if c := b.fresh(command); c.err == nil || c.err.Error() != want {
			t.Errorf("%s: got %v", command, c.err)
		}
	}
}

// TestNeeds: of a file a scan needs at least what tells its kind, of an ELF file its tables as well.
func TestNeeds(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	elf, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"data": make([]byte, 1<<20), "script": append([]byte("#!/bin/sh\n"), make([]byte, 1000)...), "program": elf} {
		var n int64
		for _, p := range needs("usr/share/"+name, b) {
			n += p[1] - p[0]
		}
		switch size := int64(len(b)); {
		case name == "data" && n != 64, name == "script" && n != size, name == "program" && (n < 4096 || n > size/2):
			t.Errorf("%s: %d of %d bytes", name, n, size)
		}
	}
}
