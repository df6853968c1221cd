package replay

import (
	"bytes"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// TestGPUHost checks that the host has the driver's libraries in one of the loader's
// directories, and otherwise the files of the image.
func TestGPUHost(t *testing.T) {
	set := embedded(t)
	m, err := imagetest.Parse([]byte(`-- 0/lib --
symlink usr/lib
-- 0/lib64/ld-linux-x86-64.so.2 --
elf x86_64 soname=ld-linux-x86-64.so.2
rodata "ld.so (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\x00"
rodata "/lib/x86_64-linux-gnu/\x00/usr/lib/x86_64-linux-gnu/\x00/lib/\x00/usr/lib/\x00"
-- 0/usr/lib/x86_64-linux-gnu/libc.so.6 --
elf x86_64 soname=libc.so.6
-- 0/opt/libx.so --
elf x86_64 soname=libx.so
`))
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
	re := newTest(t, &Image{FS: layers.Merge(l)}, set)
	if re.loaders.Primary == nil {
		t.Fatal("no loader")
	}
	host := re.loaders.gpuHost(re.loaders.Primary)
	for p, want := range map[string]bool{
		"/usr/lib/x86_64-linux-gnu/libcuda.so.1":      true,
		"/lib/x86_64-linux-gnu/libnvidia-ml.so.1":     true, // the same directory by its link
		"/usr/lib/x86_64-linux-gnu/libc.so.6":         true,
		"/opt/libcuda.so.1":                           false,
		"/usr/lib/x86_64-linux-gnu/libcudart.so.12":   false,
		"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so":   false,
		"/usr/lib/x86_64-linux-gnu/no/libcuda.so.1":   false,
		"/usr/lib/x86_64-linux-gnu/libcuda.so.1/more": false,
	} {
		if _, err := host.Find(p); (err == nil) != want {
			t.Errorf("Find(%q): %v, want it there: %v", p, err, want)
		}
	}
	p := re.hosts.primary().Bare()
	if m, err := p.Dlopen(nil, "libcuda.so.1"); err != nil || m.Object.Soname != "libcuda.so.1" {
		t.Errorf("the driver cannot be opened: %v", err)
	}
}
