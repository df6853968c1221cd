package provide

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// cudnnImage is an image with cuDNN from Debian packages in one layer, cuBLAS
// from a wheel in another, and a newer cuDNN that a later layer has removed.
const cudnnImage = `
layer 0 ADD base
layer 1 RUN apt-get install libcublas
layer 2 RUN apt-get install libcudnn9
layer 3 RUN rm
-- 0/NGC-DL-CONTAINER-LICENSE --
the licence of the image
-- 0/etc/debian_version --
12
-- 1/opt/venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12 --
elf x86_64 soname=libcublas.so.12
-- 1/opt/venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublasLt.so.12 --
elf x86_64 soname=libcublasLt.so.12
-- 1/opt/venv/lib/python3.11/site-packages/nvidia_cublas_cu12-12.4.5.8.dist-info/License.txt --
the licence of the wheel
-- 1/usr/lib/x86_64-linux-gnu/libz.so.1.2.13 --
elf x86_64 soname=libz.so.1
-- 1/usr/lib/x86_64-linux-gnu/libz.so.1 --
symlink libz.so.1.2.13
-- 2/usr/lib/x86_64-linux-gnu/libcudnn.so.9.1.0 --
elf x86_64 soname=libcudnn.so.9
-- 2/usr/lib/x86_64-linux-gnu/libcudnn.so.9 --
symlink libcudnn.so.9.1.0
-- 2/usr/lib/x86_64-linux-gnu/libcudnn_ops.so.9.1.0 --
elf x86_64 soname=libcudnn_ops.so.9
-- 2/usr/lib/x86_64-linux-gnu/libcudnn_twin.so.9.1.0 --
hardlink usr/lib/x86_64-linux-gnu/libcudnn_ops.so.9.1.0
-- 2/usr/share/doc/libcudnn9-cuda-12/copyright --
the licence of the package
-- 2/usr/local/cuda/lib64/stubs/libcudnn.so.9.9.9 --
elf x86_64 soname=libcudnn.so.9
-- 2/opt/new/libcudnn.so.9.5.0 --
elf x86_64 soname=libcudnn.so.9
-- 3/opt/.wh.new --
`

func TestImageGivesWhatItShows(t *testing.T) {
	reg := imagetest.Serve(t)
	ref, err := reg.Push("cuda:test", imagetest.V1(t, cudnnImage))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, "image:"+ref)
	tests := map[string]struct {
		want             Want
		version, licence string
		files            []string
	}{
		"packages": {
			Want{Names: []string{"libcudnn.so.9"}, Versions: []string{">=9.1.0.70"}},
			"9.1.0", "the licence of the package\n",
			[]string{"libcudnn.so.9.1.0 libcudnn.so.9", "libcudnn_ops.so.9.1.0 libcudnn_ops.so.9", "libcudnn_twin.so.9.1.0 libcudnn_ops.so.9"},
		},
		"wheel": {
			Want{Names: []string{"libcublasLt.so.12"}, Pin: "12.4.5.8"},
			"12.4.5.8", "the licence of the wheel\n",
			[]string{"libcublas.so.12", "libcublasLt.so.12"},
		},
		"of no family": {Want{Names: []string{"libz.so.1"}}, "1.2.13", "", []string{"libz.so.1.2.13 libz.so.1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := s.Find(t.Context(), tt.want)
			if err != nil {
				t.Fatal(err)
			}
			if f.Version != tt.version || f.License != nil && f.License.Text != tt.licence {
				t.Errorf("got %s, %+v", f.Version, f.License)
			}
			if diff := cmp.Diff(tt.files, shape(f)); diff != "" {
				t.Error(diff)
			}
			for _, file := range f.Files {
				if b := read(t, &file); file.Digest != "sha256:"+sum([]byte(b)) || !strings.HasPrefix(b, "\x7fELF") {
					t.Errorf("%s has other bytes than it says", file.Name)
				}
			}
		})
	}
	for want, why := range map[string]string{
		"libcudnn.so.8":     "9.1.0 has no libcudnn.so.8",
		"libcudnn_x.so.9":   "9.1.0 has no libcudnn_x.so.9",
		"libcusparse.so.12": "has no such library for amd64",
	} {
		if _, err := s.Find(t.Context(), Want{Names: []string{want}}); err == nil || !strings.HasSuffix(err.Error(), why) {
			t.Errorf("%s: got %v, want %s", want, err, why)
		}
	}
}

// Only the layers that have the files are read again, and those once for all
// runs.
func TestImageReadsTheLayersThatHaveIt(t *testing.T) {
	reg := imagetest.Serve(t)
	img := imagetest.V1(t, cudnnImage)
	ref, err := reg.Push("cuda:test", img)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	indexes, err := layers.OpenCache(t.TempDir(), layers.DefaultCacheMax)
	if err != nil {
		t.Fatal(err)
	}
	reads := func() (counts []int) {
		for _, l := range blobs {
			d, err := l.Digest()
			if err != nil {
				t.Fatal(err)
			}
			counts = append(counts, reg.Requests()["GET /v2/cuda/blobs/"+d.String()])
		}
		return counts
	}
	find := func() {
		s, err := Open(t.Context(), []string{"image:" + ref}, Options{Cache: cache, Indexes: indexes})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Find(t.Context(), Want{Library: "cudnn"}); err != nil {
			t.Fatal(err)
		}
	}
	find()
	first := reads()
	// Indexing reads each layer at most once.
	for i, n := range first {
		if i == 2 && (n < 1 || n > 2) || i != 2 && n > 1 {
			t.Errorf("layer %d was read %d times", i, n)
		}
	}
	find()
	if diff := cmp.Diff(first, reads()); diff != "" {
		t.Errorf("the second run has read layers\n%s", diff)
	}
}

func TestImageFromAnyPlace(t *testing.T) {
	img := imagetest.V1(t, cudnnImage)
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	f, err := open(t, "image:oci:"+dir).Find(t.Context(), Want{Library: "cudnn"})
	if err != nil || f.Version != "9.1.0" {
		t.Errorf("got %v, %v", f, err)
	}
	if _, err := Open(t.Context(), []string{"image:dir:/x"}, Options{Cache: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "say dir:/x") {
		t.Errorf("got %v", err)
	}
	// Another machine's image is not taken for this one.
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.Architecture = "arm64"
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if p, err = layout.Write(other, empty.Index); err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, "image:oci:"+other).Find(t.Context(), Want{Library: "cudnn"}); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("got %v", err)
	}
}

// A layer whose bytes are not those that the manifest names gives nothing.
func TestImageWhoseLayerIsDamaged(t *testing.T) {
	img := imagetest.V1(t, cudnnImage)
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	s := open(t, "image:oci:"+dir)
	if _, err := s.Find(t.Context(), Want{Names: []string{"libnone.so"}}); err == nil {
		t.Fatal("it has libnone.so")
	}
	blobs, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	d, err := blobs[2].Digest()
	if err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(dir, "blobs", "sha256", d.Hex)
	b, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	b[4] ^= 1 // the time in the gzip header, which no decoder looks at
	if err := os.WriteFile(blob, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Find(t.Context(), Want{Library: "cudnn"}); err == nil || !strings.Contains(err.Error(), "the image is damaged") {
		t.Errorf("got %v, %v", f, err)
	}
}
