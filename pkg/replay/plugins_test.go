package replay

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestPlugins: the files that libraries open by themselves are mapped.
func TestPlugins(t *testing.T) {
	text, err := images.Text("imports-plugins.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := mappedByStart(t, text)
	for _, want := range []string{"libtbbmalloc.so.2", "libucs_fuse.so.0", "libcudart.so.13", "legacy.so"} {
		if !slices.Contains(files, want) {
			t.Errorf("%s is not among %q", want, files)
		}
	}
	if slices.Contains(files, "libucs_other.so.0") {
		t.Errorf("a damaged file is mapped: %q", files)
	}
}

// TestNoPlugins: an older release of oneTBB, and a module that does not call the function, open nothing.
func TestNoPlugins(t *testing.T) {
	text, err := images.Text("imports-plugins.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("libtbb.so.12.14"), []byte("libtbb.so.12.8"))
	text = bytes.Replace(text, []byte("undef OSSL_PROVIDER_load\n"), nil, 1)
	files := mappedByStart(t, text)
	for _, opener := range []string{"libtbb.so.12.8", "libcrypto.so.3"} {
		if !slices.Contains(files, opener) {
			t.Errorf("%s is not among %q", opener, files)
		}
	}
	for _, file := range []string{"libtbbmalloc.so.2", "legacy.so"} {
		if slices.Contains(files, file) {
			t.Errorf("%s is mapped: %q", file, files)
		}
	}
}

// TestTooManyPlugins: a library opens as many files as the limit allows.
func TestTooManyPlugins(t *testing.T) {
	text, err := images.Text("imports-plugins.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var more strings.Builder
	for i := range 2 * maxPlugins {
		fmt.Fprintf(&more, "-- 1/usr/local/lib/python3.12/site-packages/uses/lib/ucx/libucs_%d.so.0 --\nelf x86_64 soname=libucs_%d.so.0\n", i, i)
	}
	n := 0
	for _, file := range mappedByStart(t, bytes.Replace(text, []byte("-- want --"), []byte(more.String()+"-- want --"), 1)) {
		if strings.HasPrefix(file, "libucs_") || strings.HasPrefix(file, "libtbbmalloc") {
			n++
		}
	}
	if n != maxPlugins {
		t.Errorf("%d plug-ins are mapped, of at most %d", n, maxPlugins)
	}
}

// mappedByStart returns the names of the files that the first program of a text image maps.
func mappedByStart(t *testing.T, text []byte) []string {
	t.Helper()
	ev, err := Run(t.Context(), imageOf(t, text), embedded(t))
	if err != nil || len(ev.Starts) == 0 {
		t.Fatalf("no start: %v", err)
	}
	var files []string
	for _, file := range ev.Starts[0].Mapped {
		files = append(files, path.Base(file))
	}
	return files
}
