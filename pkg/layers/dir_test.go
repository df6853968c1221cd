package layers

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

func makeTree(t *testing.T, text string) string {
	t.Helper()
	im, err := imagetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := im.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A directory is indexed like the layer that was unpacked into it.
func TestDir(t *testing.T) {
	text := findImage + `
-- 0/bin/app --
elf x86_64 interp=/lib64/ld-linux-x86-64.so.2
needed libc.so.6
-- 0/bin/app2 --
hardlink bin/app
-- 0/bin/script --
#!/bin/sh -e
`
	dir := makeTree(t, text)
	img, f := mustIndex(t, "dir:"+dir, Options{})
	if img.Config != nil || len(f.Layers) != 1 {
		t.Errorf("config %v, layers %v", img.Config, f.Layers)
	}
	want := strings.ReplaceAll(listing(mergeText(t, text)), "implied", "dir")
	if diff := cmp.Diff(want, listing(f)); diff != "" {
		t.Errorf("-the layer +the directory:\n%s", diff)
	}
	a, _ := f.Find("/bin/app")
	b, _ := f.Find("/bin/app2")
	if a.Object == nil || a.ID != b.ID {
		t.Errorf("hard links: %+v and %+v", a, b)
	}
	if e, _, _ := f.Lookup("/bin/script"); e.Shebang != "/bin/sh -e" {
		t.Errorf("shebang %q", e.Shebang)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, again := mustIndex(t, "dir:"+link, Options{}); listing(again) != listing(f) {
		t.Errorf("through a link: %s", listing(again))
	}
}

// Nothing in a directory makes the scan wait or fail.
func TestDirWithOddFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("unix", in("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = errors.Join(
		syscall.Mkfifo(in("fifo"), 0o600), os.Symlink("loop", in("loop")), os.Symlink("fifo", in("tofifo")),
		os.WriteFile(in("line\nbreak"), []byte("#!/bin/sh\n"), 0o600), os.WriteFile(in("bad\xffname"), nil, 0o600),
		os.Mkdir(in("proc"), 0o755), os.WriteFile(in(".wh.kept"), []byte("x"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	mount(t, "proc", in("proc"), syscall.MS_RDONLY, "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	layer, err := readDir(ctx, dir, &Options{Keep: everything})
	if err != nil {
		t.Fatal(err)
	}
	want := `0 file .wh.kept = x
0 file bad` + "\xff" + `name
0 other fifo
0 file line
break = #!/bin/sh
0 link loop -> loop
0 other socket
0 link tofifo -> fifo
0 skipped proc: it is the kernel's proc file system
`
	if diff := cmp.Diff(want, listing(Merge(layer))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A file that this user may not read is kept with the reason.
func TestDirThatMayNotBeRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test takes rights from itself: run it as root")
	}
	dir := makeTree(t, "-- 0/open/f --\nf\n-- 0/shut/f --\nf\n-- 0/secret --\nsecret\n")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "shut"), 0), os.Chmod(filepath.Join(dir, "secret"), 0)); err != nil {
		t.Fatal(err)
	}
	for d := filepath.Dir(dir); d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	l := asNobody(t, func() (*Layer, error) { return readDir(t.Context(), dir, &Options{Keep: everything}) })
	want := `0 dir open
0 file open/f = f
0 file secret fault: permission denied
0 dir shut
0 skipped shut: permission denied
`
	if diff := cmp.Diff(want, listing(Merge(l))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// asNobody runs f with the rights of uid 65534.
func asNobody(t *testing.T, f func() (*Layer, error)) *Layer {
	t.Helper()
	if err := syscall.Setresuid(-1, 65534, -1); err != nil { // all threads
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setresuid(-1, 0, -1); err != nil {
			panic(err)
		}
	}()
	l, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDirErrors(t *testing.T) {
	wantError(t, "dir:/no/such", Options{}, "dir:/no/such: /no/such: no such file or directory")
	wantError(t, "dir:"+writeFile(t, "f", nil), Options{}, "dir:TMP/f: is not a directory: say docker-archive: or oci-archive: for a file")
	wantError(t, "dir:"+t.TempDir(), Options{}, "dir:TMP: is empty: nothing is unpacked or mounted there")
	wantError(t, "dir:"+makeTree(t, "-- 0/oci-layout --\n{}\n"), Options{}, "dir:TMP: is an OCI layout: say oci:TMP")
	wantError(t, "dir:"+makeTree(t, "-- 0/docs/readme --\ntext\ntext\n"), Options{},
		"indexing dir:TMP: has no ELF file: name the directory that holds the root file system, with bin, lib and usr")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	img, err := Open(ctx, "dir:"+makeTree(t, "-- 0/f --\nf\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := img.Index(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The variables of this process apply to its own root, and to no other.
func TestDirRoot(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "/opt/lib")
	img, err := Open(context.Background(), "dir:/", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if img.Config == nil || !slices.Contains(img.Config.Config.Env, "LD_LIBRARY_PATH=/opt/lib") {
		t.Errorf("the config of dir:/: %+v", img.Config)
	}
	other, err := Open(context.Background(), "dir:"+makeTree(t, "-- 0/f --\nf\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Config != nil {
		t.Errorf("a directory has a config: %+v", other.Config)
	}
}
