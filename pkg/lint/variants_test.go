package lint

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// beside is the text images with one more file.
type beside struct{ more fstest.MapFS }

func (b beside) Open(name string) (fs.File, error) {
	if _, ok := b.more[name]; ok {
		return b.more.Open(name)
	}
	return images.FS.Open(name)
}

// overBase returns a text with the text image that its first line names as its base written out.
func overBase(t *testing.T, text string) string {
	t.Helper()
	if !strings.HasPrefix(text, "base ") {
		return text
	}
	flat, err := imagetest.Flatten(beside{fstest.MapFS{"variant.txtar": {Data: []byte(text)}}}, "variant.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return string(flat)
}

// variants are text images with one change each, by the clause that the change shows.
func variants() map[string]string {
	const (
		site    = "-- 1/usr/local/lib/python3.12/site-packages/"
		torch   = "base torch-cu130-healthy\n"
		toolkit = "-- 3/usr/local/cuda-12.4/"
		gone    = " --\nhardlink gone\n"
		half    = " --\nelf x86_64 half\n"
		stub    = "base stub-by-runpath\n"
		ort     = "base ort-cpp-healthy\n-- 2/app/lib/libonnxruntime_providers_cuda.so"
		cuda    = site + "nvidia/cu13/lib/"
	)
	return map[string]string{
		"library-unexamined":          "base short-library\n-- 2/opt/cuda/lib/libcublas.so.12" + gone,
		"taken-for-override":          "base bitsandbytes-no-build\nenv BNB_CUDA_VERSION=130\n",
		"start-unsure":                "base imports-program\n-- 2/usr/lib/x86_64-linux-gnu/libnuma.so.1" + gone,
		"build-not-there/override":    "base bitsandbytes-no-build\nenv BNB_CUDA_VERSION=130\n",
		"killed":                      ort + half,
		"driver-path-lost/configured": "base driver-path-lost\n-- 1/etc/ld.so.conf --\n/usr/local/nvidia/lib64\n",
		"shell-only-path/unmissed":    "entrypoint [\"/app\"]\nlayer 0 RUN echo 'export LD_LIBRARY_PATH=/opt/x' >> ~/.bashrc\n" + elfText("opt/x/libfoo.so"),
		"stub-driver/compat":          stub + toolkit + "lib64/libcuda.so.1 --\nsymlink ../compat/libcuda.so.1\n" + toolkit + "compat/libcuda.so.1 --\nelf x86_64 soname=libcuda.so.1\npad 1048576\n",
		"stub-driver/copied":          stub + toolkit + "lib64/libcuda.so.1 --\ncopy 1/usr/local/cuda-12.4/lib64/stubs/libcuda.so\n",
		"stub-driver/mounted-first":   stub + "env LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/cuda-12.4/lib64\n",
		"stub-driver/searched":        stub + toolkit + "lib64/libcuda.so.1 --\nsymlink stubs/libcuda.so\n",
		"add-part":                    torch + "- 1/usr/local/lib/python3.12/site-packages/nvidia_cudnn_cu13-9.19.0.56.dist-info/METADATA\n- 1/usr/local/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn_ops.so.9\n",
		"stack-if-opened":             "base ctranslate2-execstack\n-- 2/app/libold.so --\nelf x86_64 nognustack soname=libold.so\nneeded libcudart.so.12\nneeded libc.so.6\n",
		"what-is-preloaded":           "base report-preload-broken\n-- 1/plugins/liblayerplugin.so --\nelf x86_64 soname=liblayerplugin.so\nneeded libmid.so\nrunpath $ORIGIN\n-- 1/plugins/libmid.so --\nelf x86_64 soname=libmid.so\nneeded libcudart.so.10.1\n",
		"cuda-unknown-wheel":          "base opt-dangles\n-- 1/app/infer --\nelf x86_64 interp=/lib64/ld-linux-x86-64.so.2\nneeded libcupti.so\nflags1 pie\n",
	}
}

// examinedVariants returns the variants with their findings, by the names of the clauses.
func examinedVariants(t *testing.T) []examined {
	t.Helper()
	set, texts := embedded(t), variants()
	var all []examined
	for _, clause := range slices.Sorted(maps.Keys(texts)) {
		img := textImage(t, overBase(t, texts[clause]), false)
		all = append(all, examined{clause, img, findingsOf(t, img, set)})
	}
	return all
}
