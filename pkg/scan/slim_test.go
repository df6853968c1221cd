package scan

import (
	"archive/tar"
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/slim"
	"github.com/imgcheck/imgcheck/pkg/targets"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// gpuImage has GPU code of a wheel, of a package of Debian's, of conda's, and of NVIDIA's. SHA, MD5 and HEX
// are the digests of the file ops.
const gpuImage = `
layer 1 RUN pip install ops
-- 0/opt --
dir
-- 1/opt/site-packages/ops/libops.so --
OPS
-- 1/opt/site-packages/ops/copy.so --
hardlink opt/site-packages/ops/libops.so
-- 1/opt/site-packages/ops/one.so --
elf x86_64 soname=one.so
gpu sm_75
-- 1/opt/site-packages/ops-1.dist-info/METADATA --
Name: ops
Version: 1
-- 1/opt/site-packages/ops-1.dist-info/RECORD --
ops/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0
ops/libops.so,sha256=SHA,SIZE
ops/other.so,sha256=SHA,SIZE
"ops/copy.so",sha256=SHA,SIZE
ops/one.so,sha256=untrue,1
-- 1/usr/lib/libops.so --
OPS
-- 1/var/lib/dpkg/info/libops.md5sums --
MD5  usr/lib/libops.so
MD5  usr/lib/libother.so
-- 1/opt/conda/lib/libops.so --
OPS
-- 1/opt/conda/conda-meta/ops-1-0.json --
{"paths_data": {"paths": [{"_path": "lib/libops.so", "sha256": "HEX", "sha256_in_prefix": "HEX"}]}}
-- 1/opt/site-packages/nvidia/cublas/lib/libcublas.so.12 --
OPS
-- 1/opt/kernels.fatbin --
fatbin count=2 sm_80 sm_89 compute_75
`

const ops = `elf x86_64 soname=libops.so
gpu count=3 sm_75 sm_80/zstd sm_89 sm_90a compute_90
gpu section=__nv_relfatbin sm_80 lto_75 compute_80
gpu sm_90a`

func digests(b []byte) *strings.Replacer {
	sha, sum := sha256.Sum256(b), md5.Sum(b)
	return strings.NewReplacer("OPS", ops, "SHA", base64.RawURLEncoding.EncodeToString(sha[:]), "MD5", hex.EncodeToString(sum[:]), "HEX", hex.EncodeToString(sha[:]), "SIZE", fmt.Sprint(len(b)))
}

// files returns the contents of an image's files.
func files(t *testing.T, img v1.Image) map[string][]byte {
	t.Helper()
	rc := mutate.Extract(img)
	defer rc.Close()
	all := map[string][]byte{}
	for tr := tar.NewReader(rc); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeLink {
			b = all[h.Linkname]
		}
		all[h.Name] = b
	}
}

// slimmed slims an image and returns the new one as it is pulled.
func slimmed(t *testing.T, text string, so SlimOptions) (*Slimmed, v1.Image) {
	t.Helper()
	ref, err := imagetest.Serve(t).Push("test:1", imagetest.V1(t, text))
	if err != nil {
		t.Fatal(err)
	}
	base, err := patch.OpenBase(t.Context(), ref, patch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Slim(t.Context(), ref, base.Images[0], so, Options{})
	if err != nil {
		t.Fatal(err)
	}
	to := strings.Replace(ref, ":1", ":slim", 1)
	if to == ref {
		t.Fatal(ref)
	}
	if _, err := patch.PublishRewritten(t.Context(), base, []*patch.Rewrite{s.Rewrite()}, to, patch.Options{}); err != nil {
		t.Fatal(err)
	}
	parsed, err := name.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(parsed)
	if err == nil {
		err = validate.Image(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, img
}

// TestSlimGPU drops the code for other GPUs; the lists of installers stay true, NVIDIA's library
// stays as it is, and the verdicts on the other GPUs change.
func TestSlimGPU(t *testing.T) {
	elf, err := imagetest.ParseELF(ops)
	if err != nil {
		t.Fatal(err)
	}
	old := elf.Bytes()
	text := digests(old).Replace(gpuImage)
	before := files(t, imagetest.V1(t, text))
	s, img := slimmed(t, text, SlimOptions{GPUs: []targets.Machine{{GPU: "L40S", Arch: 89}}})
	after := files(t, img)
	if len(after) != len(before) {
		t.Errorf("%d files became %d", len(before), len(after))
	}
	libops := after["opt/site-packages/ops/libops.so"]
	if bytes.Equal(libops, old) || len(libops) != len(old) {
		t.Fatal("libops.so is as it was, or has another length")
	}
	for _, name := range []string{"opt/site-packages/ops/copy.so", "usr/lib/libops.so", "opt/conda/lib/libops.so"} {
		if !bytes.Equal(after[name], libops) {
			t.Errorf("%s is not as libops.so", name)
		}
	}
	if bytes.Equal(after["opt/kernels.fatbin"], before["opt/kernels.fatbin"]) {
		t.Error("kernels.fatbin is as it was")
	}
	is := digests(libops)
	record := is.Replace("ops/libops.so,sha256=SHA,SIZE\n") + digests(old).Replace("ops/other.so,sha256=SHA,SIZE\n") + is.Replace("\"ops/copy.so\",sha256=SHA,SIZE\nops/one.so,sha256=untrue,1\n")
	for name, want := range map[string]string{
		"opt/site-packages/ops-1.dist-info/RECORD": "ops/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n" + record,
		"var/lib/dpkg/info/libops.md5sums":         is.Replace("MD5  usr/lib/libops.so\n") + digests(old).Replace("MD5  usr/lib/libother.so\n"),
		"opt/conda/conda-meta/ops-1-0.json":        is.Replace(`{"paths_data": {"paths": [{"_path": "lib/libops.so", "sha256": "HEX", "sha256_in_prefix": "HEX"}]}}`) + "\n",
	} {
		if got := string(after[name]); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	changed := []string{"opt/site-packages/ops/one.so", "opt/site-packages/ops/libops.so", "opt/site-packages/ops/copy.so", "usr/lib/libops.so", "opt/conda/lib/libops.so", "opt/kernels.fatbin", "opt/site-packages/ops-1.dist-info/RECORD", "var/lib/dpkg/info/libops.md5sums", "opt/conda/conda-meta/ops-1-0.json"}
	for name := range before {
		if bytes.Equal(before[name], after[name]) == slices.Contains(changed, name) {
			t.Errorf("%s: it has changed: %v", name, !slices.Contains(changed, name))
		}
	}
	var stripped []string
	for _, f := range s.Plan.Stripped {
		stripped = append(stripped, f.Path)
	}
	want := "/opt/conda/lib/libops.so /opt/kernels.fatbin /opt/site-packages/ops/copy.so /opt/site-packages/ops/one.so /usr/lib/libops.so"
	if got := strings.Join(stripped, " "); got != want {
		t.Errorf("stripped %s\nwant     %s", got, want)
	}
	if len(s.Plan.Kept) != 1 || !strings.Contains(s.Plan.Kept[0].Why, "(--modify cuda-1.2)") {
		t.Errorf("kept %+v", s.Plan.Kept)
	}

	s, img = slimmed(t, text, SlimOptions{GPUs: []targets.Machine{{GPU: "L40S", Arch: 89}}, Modify: []string{"cuda-1.2"}})
	if got := files(t, img)["opt/site-packages/nvidia/cublas/lib/libcublas.so.12"]; !bytes.Equal(got, libops) || len(s.Plan.Kept) > 0 {
		t.Errorf("with --modify libcublas.so.12 is not stripped; kept %+v", s.Plan.Kept)
	}
}

// TestSlimAsSize overwrites the bytes of GPU code that size says can go, in relocatable code, too.
func TestSlimAsSize(t *testing.T) {
	text := strings.ReplaceAll(gpuImage, "OPS", ops)
	for _, m := range []targets.Machine{{GPU: "L40S", Arch: 89}, {GPU: "H100", Arch: 90}, {GPU: "T4", Arch: 75}} {
		s, _ := slimmed(t, text, SlimOptions{GPUs: []targets.Machine{m}, Modify: []string{"cuda-1.2"}})
		var overwritten, said []string
		for _, f := range s.Plan.Stripped {
			overwritten = append(overwritten, fmt.Sprint(f.Path, f.Bytes))
		}
		for _, g := range s.Size.Groups {
			for _, f := range g.Files {
				if g.ID == size.GPUCode {
					said = append(said, fmt.Sprint(f.Path, f.Bytes))
				}
			}
		}
		slices.Sort(overwritten)
		slices.Sort(said)
		if len(said) == 0 || !slices.Equal(overwritten, said) {
			t.Errorf("%s: slim overwrites %v, and size says %v", m.GPU, overwritten, said)
		}
	}
}

// TestSlimForced refuses an image whose environment lets the driver use PTX alone, and names that
// are not known.
func TestSlimForced(t *testing.T) {
	for text, want := range map[string]string{
		"env CUDA_FORCE_PTX_JIT=1\n" + strings.TrimPrefix(gpuImage, "\n"): "CUDA_FORCE_PTX_JIT=1 in its environment",
		gpuImage: `there is no clause "cuda": say cudnn-2.2 or cuda-1.2`,
	} {
		ref, err := imagetest.Serve(t).Push("test:1", imagetest.V1(t, strings.ReplaceAll(text, "OPS", ops)))
		if err != nil {
			t.Fatal(err)
		}
		base, err := patch.OpenBase(t.Context(), ref, patch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		so := SlimOptions{GPUs: []targets.Machine{{Arch: 89}}}
		if !strings.HasPrefix(text, "env") {
			so.Modify = []string{"cuda"}
		}
		_, err = Slim(t.Context(), ref, base.Images[0], so, Options{})
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, new(*WorseError)) != (so.Modify == nil) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestSlimSecondCUDA drops the libraries of a CUDA base of which torch gets those of its wheels, and
// keeps the one that another program of the image gets, and that which a program opens by its name.
func TestSlimSecondCUDA(t *testing.T) {
	text, err := images.Text("torch-cu130-healthy.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const site = "-- 1/usr/local/lib/python3.12/site-packages/"
	const cuda = "torch/lib/libtorch_cuda.so --\nelf x86_64 soname=libtorch_cuda.so\n"
	torch := strings.Replace(string(text), cuda, cuda+"needed libnccl.so.2\n", 1) + site + "nvidia/nccl/lib/libnccl.so.2 --\nelf x86_64 soname=libnccl.so.2\nneeded libc.so.6\n"
	const lib = "/usr/local/cuda-13.0/targets/x86_64-linux/lib/"
	base := "-- 0/usr/local/cuda --\nsymlink cuda-13.0\n-- 0/usr/local/cuda-13.0/lib64 --\nsymlink targets/x86_64-linux/lib\n" +
		"-- 0/etc/ld.so.conf.d/cuda.conf --\n/usr/local/cuda/lib64\n-- 0" + strings.TrimSuffix(lib, "/") + " --\ndir\n"
	for _, name := range []string{"libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13", "libcusparse.so.12", "libcudnn.so.9", "libnccl.so.2"} {
		base += "-- 0" + lib + name + " --\nelf x86_64 soname=" + name + "\nneeded libc.so.6\n"
	}
	const program = "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2 mode=0755\nneeded libc.so.6\nrunpath " + lib + "\n"
	for name, tt := range map[string]struct{ more, stays string }{
		"torch alone":       {"", ""},
		"another process":   {"-- 1/usr/bin/tool --\n" + program + "needed libcublas.so.13\n", "libcublas.so.13"},
		"a name in data":    {"-- 1/usr/bin/tool --\n" + program + "undef dlopen\nrodata \"libnccl.so.2\\x00\"\n", "libnccl.so.2"},
		"a function's path": {"-- 1/app/extra.py --\nimport ctypes\ndef extra():\n    return ctypes.CDLL('/usr/local/cuda/lib64/libcudnn.so.9')\n", "libcudnn.so.9"},
	} {
		s, _ := slimmed(t, torch+base+tt.more, SlimOptions{Classes: []string{"copies"}})
		var gone []string
		for _, f := range s.Plan.Dropped {
			if n, ok := strings.CutPrefix(f.Path, lib); ok {
				gone = append(gone, n)
			}
		}
		slices.Sort(gone)
		want := slices.DeleteFunc([]string{"libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13", "libcudnn.so.9", "libcusparse.so.12", "libnccl.so.2"}, func(n string) bool { return n == tt.stays })
		if !slices.Equal(gone, want) {
			t.Errorf("%s: %v go, not %v", name, gone, want)
		}
	}
}

// TestSlimUnused drops a framework that nothing uses, with what it requires, and no part of it by default.
func TestSlimUnused(t *testing.T) {
	text, err := images.Text("slim-unused-packages.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := slimmed(t, string(text), SlimOptions{}); !s.Plan.Empty() {
		t.Errorf("%v go by default", s.Plan.Dropped)
	}
	s, img := slimmed(t, string(text), SlimOptions{Classes: []string{size.UnusedPackages}})
	if len(s.Plan.Dropped) != 41 || len(s.Plan.Kept) != 0 {
		t.Errorf("%d files go, and %d stay: %v", len(s.Plan.Dropped), len(s.Plan.Kept), s.Plan.Kept)
	}
	for name := range files(t, img) {
		if strings.Contains(name, "tensorflow") || strings.Contains(name, "nvidia") {
			t.Errorf("%s is left", name)
		}
	}
	g := s.Size.Groups[0]
	var list []string
	for _, p := range g.Packages {
		list = append(list, fmt.Sprintf("%s %s for %q, %d bytes, asked at %q", p.Name, p.Version, p.For, p.Bytes/100_000, p.Asked))
	}
	want := []string{`tensorflow 2.18.0 for "", 21 bytes, asked at "/app/requirements.txt:2"`, `nvidia-cublas-cu12 12.5.3.2 for "tensorflow", 21 bytes, asked at ""`}
	if len(list) != 7 || !slices.Equal(list[:2], want) {
		t.Errorf("the packages are\n%s", strings.Join(list, "\n"))
	}
}

// TestSlimUnusedGPU drops a framework with GPU code for one GPU: the table of the GPU is compared without what goes.
func TestSlimUnusedGPU(t *testing.T) {
	text, err := images.Text("slim-unused-packages.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const cublas, ops = "elf x86_64 soname=libcublas.so.12\n", "-- 1/usr/local/lib/python3.12/site-packages/numpy/_core.cpython-312-x86_64-linux-gnu.so --\nelf x86_64\n"
	if !strings.Contains(string(text), cublas) {
		t.Fatal("the image has no cuBLAS")
	}
	for _, code := range []string{"gpu sm_75", "gpu sm_75 sm_89", "gpu sm_89", "gpu compute_70"} {
		for _, other := range []string{"", ops + "gpu sm_89\n", ops + "gpu sm_75\n", ops + "gpu compute_70\n"} {
			image := strings.Replace(string(text), cublas, cublas+code+"\n", 1) + other
			s, _ := slimmed(t, image, SlimOptions{Classes: []string{size.UnusedPackages}, GPUs: []targets.Machine{{GPU: "L40S", Arch: 89}}})
			if len(s.Plan.Dropped) != 41 {
				t.Errorf("%s, %q: %d files go", code, other, len(s.Plan.Dropped))
			}
		}
	}
}

// TestSlimUnusedDebs drops a package of CUDA libraries with its links, and takes them out of dpkg's list. With a GPU it does the same, and
// drops copies that have no code for the GPU.
func TestSlimUnusedDebs(t *testing.T) {
	text, err := images.Text("slim-abandoned.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const lib = "/usr/local/cuda-12.4/targets/x86_64-linux/lib/libnppc.so.12"
	image := string(text) + "-- 1" + path.Dir(lib) + " --\ndir\n-- 1" + lib + `.2.5.30 --
elf x86_64 soname=libnppc.so.12
needed libc.so.6
gpu sm_75
pad 2MiB
-- 1` + lib + ` --
symlink libnppc.so.12.2.5.30
-- 1/var/lib/dpkg/status --
Package: libnpp-12-4
Status: hold ok installed
Version: 12.2.5.30-1
-- 1/var/lib/dpkg/info/libnpp-12-4.list --
/.
/usr
` + lib + `
` + lib + `.2.5.30
`
	image = strings.ReplaceAll(image, "elf x86_64 soname=libcublas.so.12\n", "elf x86_64 soname=libcublas.so.12\ngpu sm_75\n")
	for _, gpus := range [][]targets.Machine{nil, {{GPU: "L40S", Arch: 89}}, {{GPU: "T4", Arch: 75}}} {
		s, img := slimmed(t, image, SlimOptions{Classes: []string{size.UnusedPackages, size.AbandonedCopies}, GPUs: gpus})
		if kept := slices.DeleteFunc(s.Plan.Kept, func(k slim.Kept) bool { return k.Class == size.GPUCode }); len(s.Plan.Dropped) != 3 || len(kept) != 0 {
			t.Errorf("%v go, and %v stay", s.Plan.Dropped, kept)
		}
		got := files(t, img)
		if want := "/.\n/usr\n"; string(got["var/lib/dpkg/info/libnpp-12-4.list"]) != want {
			t.Errorf("dpkg's list is %q, not %q", got["var/lib/dpkg/info/libnpp-12-4.list"], want)
		}
		if got[lib[1:]+".2.5.30"] != nil {
			t.Error("the library is there")
		}
	}
}

// TestSlimLists takes files that go out of dpkg's lists.
func TestSlimLists(t *testing.T) {
	_, img := slimmed(t, `
-- 0/usr/local/cuda-12.4/lib64/libcudart.so.12 --
elf x86_64 soname=libcudart.so.12
-- 0/usr/local/cuda-12.4/lib64/libcudart_static.a --
!<arch>
-- 0/var/lib/dpkg/info/cuda-cudart-dev.list --
/.
/usr/local/cuda-12.4/lib64
/usr/local/cuda-12.4/lib64/libcudart_static.a
/usr/local/cuda-12.4/lib64/libcudart.so.12
-- 0/var/lib/dpkg/info/cuda-cudart-dev.md5sums --
d41d8cd98f00b204e9800998ecf8427e  usr/local/cuda-12.4/lib64/libcudart_static.a
-- 0/var/lib/dpkg/info/other.list --
/.
`, SlimOptions{Classes: []string{"static-libraries"}})
	got := files(t, img)
	if got["usr/local/cuda-12.4/lib64/libcudart_static.a"] != nil {
		t.Error("the static library is there")
	}
	for name, want := range map[string]string{
		"var/lib/dpkg/info/cuda-cudart-dev.list":    "/.\n/usr/local/cuda-12.4/lib64\n/usr/local/cuda-12.4/lib64/libcudart.so.12\n",
		"var/lib/dpkg/info/cuda-cudart-dev.md5sums": "",
		"var/lib/dpkg/info/other.list":              "/.\n",
	} {
		if s := string(got[name]); s != want {
			t.Errorf("%s: %q, want %q", name, s, want)
		}
	}
}

// TestSlimLargeList refuses a list that may name a file that changes and is too large to be read.
func TestSlimLargeList(t *testing.T) {
	text := strings.ReplaceAll(gpuImage, "OPS", ops) + "-- 1/opt/site-packages/more-1.dist-info/RECORD --\nsize 17MiB\n"
	ref, err := imagetest.Serve(t).Push("test:1", imagetest.V1(t, text))
	if err != nil {
		t.Fatal(err)
	}
	base, err := patch.OpenBase(t.Context(), ref, patch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Slim(t.Context(), ref, base.Images[0], SlimOptions{GPUs: []targets.Machine{{Arch: 89}}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "too large to be read") {
		t.Errorf("error %v", err)
	}
}

// TestSlimWorse refuses code that a named GPU needs, and a process that would load other files.
func TestSlimWorse(t *testing.T) {
	ref, err := imagetest.Serve(t).Push("test:1", imagetest.V1(t, strings.ReplaceAll(gpuImage, "OPS", ops)))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{}
	img, err := Open(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	j, read, err := judgeLayers(t.Context(), ref, img, o)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := slim.New(read, j.Image.FS, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	none := func(entries []gpucode.Entry) []bool { return make([]bool, len(entries)) }
	if err := plan.Strip(t.Context(), img, none, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	ev, err := replay.Run(t.Context(), j.Image, j.Packs)
	if err != nil {
		t.Fatal(err)
	}
	err = j.proveSlim(t.Context(), plan, nil, []targets.Machine{{GPU: "L40S", Arch: 89}}, lint.GPURows(ev, j.Image, j.Packs))
	if err == nil || !strings.Contains(err.Error(), "the verdict on L40S (sm_89) would be another one") {
		t.Errorf("without any code: %v", err)
	}
	a := []lint.Process{{Title: "a", Mapped: []string{"/x", "/y"}}}
	for want, b := range map[string][]lint.Process{
		"a would not run as before":       {},
		"a would not load /y":             {{Title: "a", Mapped: []string{"/x", "/z"}}},
		"a would load other files":        {{Title: "a", Mapped: []string{"/x", "/y", "/z"}}},
		"b would run, which does not now": {a[0], {Title: "b"}},
	} {
		if err := sameMaps(a, b); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := sameMaps(a, a); err != nil {
		t.Error(err)
	}
}
