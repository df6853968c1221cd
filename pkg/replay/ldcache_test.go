package replay

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
)

// debianRoot is a root file system whose ld.so.conf names the architecture's directory,
// as Debian's and Ubuntu's do.
const debianRoot = `-- 0/lib --
symlink usr/lib
-- 0/lib64/ld-linux-x86-64.so.2 --
elf x86_64 soname=ld-linux-x86-64.so.2
rodata "ld.so (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\x00"
rodata "/lib/x86_64-linux-gnu/\x00/usr/lib/x86_64-linux-gnu/\x00/lib/\x00/usr/lib/\x00"
-- 0/usr/lib/x86_64-linux-gnu/libc.so.6 --
elf x86_64 soname=libc.so.6
-- 0/etc/ld.so.conf --
include /etc/ld.so.conf.d/*.conf
-- 0/usr/local/cuda/lib64/stubs/libcuda.so --
elf x86_64 soname=libcuda.so.1
-- 0/usr/local/cuda/lib64/stubs/libcuda.so.1 --
symlink libcuda.so
`

const debianConf = `-- 0/etc/ld.so.conf.d/x86_64-linux-gnu.conf --
/usr/local/lib/x86_64-linux-gnu
/lib/x86_64-linux-gnu
/usr/lib/x86_64-linux-gnu
`

const mountedCUDA = "-- 0/usr/lib/x86_64-linux-gnu/libcuda.so.1 --\nelf x86_64 soname=libcuda.so.1\n"

// TestDriverComesFirst compares DriverComesFirst with the cache that the real ldconfig
// writes for a root with the driver.
func TestDriverComesFirst(t *testing.T) {
	set := embedded(t)
	stubs := func(conf string) string {
		return "-- 0/etc/ld.so.conf.d/" + conf + " --\n/usr/local/cuda/lib64/stubs\n"
	}
	const dropIn = "-- 0" + runtimeConf + " --\n/usr/lib/x86_64-linux-gnu\n"
	for name, c := range map[string]struct{ image, host string }{
		"no conf for the stubs":     {debianConf, ""},
		"behind the architecture's": {debianConf + stubs("z-cuda-stubs.conf"), ""},
		"before the architecture's": {debianConf + stubs("cuda-stubs.conf"), ""},
		"driver's not in the conf":  {stubs("cuda-stubs.conf"), dropIn},
		"before the drop-in":        {stubs("00-cuda-compat.conf"), dropIn},
	} {
		t.Run(name, func(t *testing.T) {
			re := newTest(t, &Image{FS: fsOf(t, debianRoot+c.image)}, set)
			if re.loaders.Primary == nil {
				t.Fatal("no loader")
			}
			root := t.TempDir()
			m, err := imagetest.Parse([]byte(debianRoot + c.image + c.host + mountedCUDA))
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Unpack(root); err != nil {
				t.Fatal(err)
			}
			if got, want := re.loaders.DriverComesFirst(), strings.HasSuffix(writtenCUDA(t, root), "-linux-gnu/libcuda.so.1"); got != want {
				t.Errorf("driverComesFirst is %v; with ldconfig's cache it is %v", got, want)
			}
			// The legacy runtime's command line.
			if got := writtenCUDA(t, root, "/usr/lib/x86_64-linux-gnu"); got != "/usr/lib/x86_64-linux-gnu/libcuda.so.1" {
				t.Errorf("with the driver's directory on ldconfig's command line, the loader gets %s", got)
			}
		})
	}
}

// writtenCUDA returns the path of libcuda.so.1 in the cache that the real ldconfig writes
// for a root.
func writtenCUDA(t *testing.T, root string, dirs ...string) string {
	t.Helper()
	args := append([]string{"-X", "-r", root, "-f", "/etc/ld.so.conf", "-C", LDCache}, dirs...)
	if out, err := exec.Command("/sbin/ldconfig", args...).CombinedOutput(); err != nil {
		t.Fatalf("ldconfig (of package libc-bin; -r wants root): %v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(root, LDCache))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := elfdeps.ParseCache(b).Lookup("libcuda.so.1", elfdeps.CacheFlags(elf.EM_X86_64, elf.ELFCLASS64), 236, elf.EM_X86_64, elfdeps.Env{})
	return p
}

// fsOf returns the file system of a text image with one layer, with the contents of all
// files.
func fsOf(t *testing.T, text string) *layers.FS {
	t.Helper()
	return fsKeeping(t, text, func(string, int64) bool { return true })
}

// fsKeeping is fsOf with the contents of the files that keep selects.
func fsKeeping(t *testing.T, text string, keep func(string, int64) bool) *layers.FS {
	t.Helper()
	m, err := imagetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var list []*layers.Layer
	for i := range m.Layers {
		var b bytes.Buffer
		if err := m.LayerTar(i, &b); err != nil {
			t.Fatal(err)
		}
		l, err := layers.ReadLayer(&b, keep)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	return layers.Merge(list...)
}

// newTest returns newReplayer of an image, or fails the test.
func newTest(t *testing.T, img *Image, set *packs.Packs) *replayer {
	t.Helper()
	re, err := newReplayer(img, set)
	if err != nil {
		t.Fatal(err)
	}
	return re
}

// embedded returns the packs of the program.
func embedded(t *testing.T) *packs.Packs {
	t.Helper()
	set, err := loadPacks()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

var loadPacks = sync.OnceValues(func() (*packs.Packs, error) { return packs.LoadPacks(rules.FS) })
