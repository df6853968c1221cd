package lint

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/pkg/targets"
	"github.com/imgcheck/imgcheck/rules"
)

// textImage returns the image of a text, or with asDir that of a directory, which has no
// config.
func textImage(t *testing.T, text string, asDir bool) *replay.Image {
	t.Helper()
	img, err := imageOf([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if asDir {
		img.Config = nil
	}
	return img
}

// imageOf returns the image of a text.
func imageOf(text []byte) (*replay.Image, error) {
	im, err := imagetest.Parse(text)
	if err != nil {
		return nil, err
	}
	var read []*layers.Layer
	var infos []source.Layer
	var history []v1.History
	for i, layer := range im.Layers {
		r, w := io.Pipe()
		go func() { w.CloseWithError(im.LayerTar(i, w)) }()
		l, err := layers.ReadLayer(r, func(string, int64) bool { return true })
		r.Close()
		if err != nil {
			return nil, err
		}
		read = append(read, l)
		infos = append(infos, source.Layer{Digest: fmt.Sprint("sha256:", i)})
		history = append(history, v1.History{CreatedBy: layer.CreatedBy})
	}
	for _, by := range im.Empty {
		history = append(history, v1.History{CreatedBy: by, EmptyLayer: true})
	}
	img := &replay.Image{
		FS:     layers.Merge(read...),
		Config: &v1.ConfigFile{Architecture: im.Platform.Architecture, OS: "linux", Config: im.Config, History: history},
	}
	img.FS.Layers = infos
	for line := range strings.Lines(im.Sections["machines"]) {
		m, err := targets.Known().ParseMachine(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		img.Machines = append(img.Machines, m)
	}
	return img, nil
}

// siteDir is the directory of Python's packages in these tests.
const siteDir = "0/usr/lib/python3.12/site-packages/"

// wheelText returns the text of a wheel's metadata.
func wheelText(name, version string, requires ...string) string {
	b := fmt.Sprintf("-- %s%s-%s.dist-info/METADATA --\ntext\nName: %s\nVersion: %s\n", siteDir, name, version, name, version)
	for _, r := range requires {
		b += "Requires-Dist: " + r + "\n"
	}
	return b
}

func torchBuild(version, cuda string) string {
	return fmt.Sprintf("-- %storch/version.py --\ntext\n__version__ = '%s'\ncuda = %s\nhip = None\n", siteDir, version, cuda)
}

func elfText(path string, lines ...string) string {
	return "-- 0/" + path + " --\nelf x86_64 " + strings.Join(lines, "\n") + "\n"
}

// checkCase is a text and the findings of the checks for its image: severity and rule.
type checkCase struct {
	name, text string
	want       []string
}

// checkCases returns the edge cases of rules that need no replay. The text images have the
// plain cases.
func checkCases() []checkCase {
	user := elfText("opt/app", "interp=/lib64/ld-linux-x86-64.so.2", "needed libcuda.so.1", "flags1 pie")
	conda := "-- 0/opt/c/etc/conda/activate.d/a.sh --\ntext\nexport LD_LIBRARY_PATH=$CONDA_PREFIX/lib\n-- 0/opt/c/bin/python --\nelf x86_64 interp=/x\n"
	musl := "entrypoint [\"/bin/py\"]\n" + "-- 0/lib/ld-musl-x86_64.so.1 --\nelf x86_64 soname=libc.musl-x86_64.so.1\nrodata \"musl libc (x86_64)\\nVersion %s\\n\\x00\\x001.2.5\\x00\"\n" +
		elfText("bin/py", "interp=/lib/ld-musl-x86_64.so.1", "needed libc.musl-x86_64.so.1", "flags1 pie")
	cudnn9 := wheelText("nvidia_cudnn_cu12", "9.5.1.17")
	return []checkCase{
		{"conda run", "entrypoint [\"conda\", \"run\", \"-n\", \"x\", \"python\"]\n" + conda, nil},
		{"a shell script may activate", "entrypoint [\"/start\"]\n" + conda + "-- 0/start --\ntext mode=0755\n#!/usr/bin/env bash\n", nil},
		{"a Python script does not", "entrypoint [\"/opt/c/bin/uvicorn\"]\n" + conda + "-- 0/opt/c/bin/uvicorn --\ntext mode=0755\n#!/opt/c/bin/python\n", []string{"warning conda-activate-only"}},
		{"a program whose name ends in a carriage return", "entrypoint [\"/start\\r\"]\n" + elfText("opt/a.so"), nil},
		{"the variable is set", "env LD_LIBRARY_PATH=/opt/c/bin\nentrypoint [\"/opt/c/bin/python\"]\n" + conda, nil},

		{"loader's tokens, and a stubs directory that is not there", "env LD_LIBRARY_PATH=$ORIGIN/../lib:/opt/${LIB}:/usr/local/nvidia/lib64\n" + user, nil},
		{"a stubs directory without the driver's", "env LD_LIBRARY_PATH=/opt/stubs\n" + elfText("opt/stubs/libfoo.so"), nil},
		{"capabilities: all", "env NVIDIA_DRIVER_CAPABILITIES=all\n" + elfText("opt/app", "interp=/x", "needed libnvcuvid.so.1"), nil},
		{"capabilities without a GPU program", "env NVIDIA_DRIVER_CAPABILITIES=utility\nenv NVIDIA_VISIBLE_DEVICES=none\n" + elfText("opt/app", "interp=/x", "needed libc.so.6"), nil},
		{"no device for a GPU wheel", "env NVIDIA_VISIBLE_DEVICES=none\n" + cudnn9, []string{"warning gpu-hidden"}},
		{"the requirement is disabled", "env NVIDIA_REQUIRE_CUDA=cuda>=11.8\nenv NVIDIA_DISABLE_REQUIRE=1\n" + wheelText("torch", "2.6.0") + torchBuild("2.6.0+cu124", "'12.4'"), nil},
		{"the requirement is of the same major", "env NVIDIA_REQUIRE_CUDA=cuda>=12.2\n" + wheelText("torch", "2.6.0") + torchBuild("2.6.0+cu124", "'12.4'"), nil},
		{"never had the driver's directory", "env LD_LIBRARY_PATH=/opt\n" + user, nil},

		{"the distribution's own", elfText("usr/lib/libnvidia-egl-wayland.so.1"), nil},
		{"links of the driver left over", "-- 0/usr/lib/libcuda.so.1 --\nsymlink libcuda.so.470.57\n", []string{"note driver-in-image"}},
		{"a link to the mount", "-- 0/usr/lib/libcuda.so.1 --\nsymlink /usr/local/nvidia/lib64/libcuda.so.1\n" + elfText("usr/local/nvidia/lib64/libcuda.so.1"), nil},
		{"bare names", elfText("usr/lib/libcuda.so"), nil},

		{"musl answers for libc", musl + elfText("usr/lib/python3.12/site-packages/a.so", "", "needed libc.so.6"), []string{"warning glibc-on-musl"}},
		{"gcompat", musl + elfText("usr/lib/python3.12/site-packages/a.so", "", "needed ld-linux-x86-64.so.2") + elfText("lib/ld-linux-x86-64.so.2"), []string{"warning glibc-on-musl"}},
		{"a cross-compiler's", elfText("usr/bin/a", "interp=/x") + "-- 0/usr/aarch64-linux-gnu/lib/libc.so.6 --\nelf aarch64\n", nil},
		{"data for another machine", "-- 0/lib/a.so --\nelf aarch64\n", []string{"warning wrong-architecture"}},

		{"TensorFlow alone", wheelText("tensorflow", "2.15.0") + cudnn9, []string{"error cudnn-version"}},
		{"TensorFlow beside torch", wheelText("tensorflow", "2.15.0") + wheelText("torch", "2.6.0", "nvidia-cudnn-cu12==9.1.0.70") + cudnn9, []string{"note cudnn-version", "note requirement-unmet"}},
		{"TensorFlow without any cuDNN", wheelText("tensorflow", "2.15.0"), nil},
		{"an older minor", wheelText("jax-cuda12-plugin", "0.6.0") + cudnn9, []string{"error cudnn-version"}},
		{"only the file's major is known", wheelText("jax-cuda12-plugin", "0.6.0") + elfText("usr/lib/libcudnn.so.9"), nil},
		{"the environment's cuDNN is not believed", "env NV_CUDNN_VERSION=8.9.2\n" + wheelText("jax-cuda12-plugin", "0.6.0"), []string{}},
		{"torch without metadata, by its build", wheelText("torch", "2.7.0") + torchBuild("2.7.0+cu128", "'12.8'") + elfText("usr/lib/libcudnn.so.9.5.1"), []string{"error cudnn-version"}},
		{"another build of it", wheelText("torch", "2.7.0") + torchBuild("2.7.0+cu118", "'11.8'") + elfText("usr/lib/libcudnn.so.9.5.1"), nil},
		{"a marker that does not hold", wheelText("torch", "2.7.0", `nvidia-cudnn-cu12==9.9; sys_platform == "win32"`) + cudnn9, nil},

		{"pair: metadata before the table", wheelText("torch", "2.6.0") + wheelText("torchvision", "0.22.0", "torch==2.6.0"), nil},
		{"pair: a version that is a command", torchBuild("2.6.0+x; evil", "'12.4'") + wheelText("torch", "2.6.0") + wheelText("torchvision", "0.22.0"), []string{"error torch-pair"}},
		{"pair: the table", wheelText("torch", "2.6.0") + wheelText("torchvision", "0.22.0"), []string{"error torch-pair"}},
		{"pair: a release that no row has", wheelText("torch", "9.0.0") + wheelText("torchvision", "0.22.0"), nil},
		{"pair: two torch in one directory", wheelText("torch", "2.6.0") + wheelText("torch", "2.5.0") + wheelText("torchvision", "0.22.0"), nil},
		{"pair: torchaudio is not bound any more", wheelText("torch", "2.12.0") + wheelText("torchaudio", "2.11.0"), nil},

		{"CPU torch beside another GPU framework", "env CUDA_VERSION=12.4.1\n" + wheelText("torch", "2.6.0+cpu") + wheelText("cupy-cuda12x", "13.0"), []string{"note cpu-build"}},
		{"CPU torch without CUDA", wheelText("torch", "2.6.0+cpu"), nil},
		{"torch that says nothing", "env CUDA_VERSION=12.4.1\n" + wheelText("torch", "2.6.0"), nil},
		{"jaxlib with its plugin", "env CUDA_VERSION=12.4.1\n" + wheelText("jaxlib", "0.6.0") + wheelText("jax-cuda12-plugin", "0.6.0"), nil},
		{"jaxlib without", "env CUDA_VERSION=12.4.1\n" + wheelText("jaxlib", "0.6.0"), []string{"note cpu-build"}},
		{"jaxlib with its own GPU code", "env CUDA_VERSION=11.6.2\n" + wheelText("jaxlib", "0.4.1+cuda11.cudnn86"), nil},

		{"onnxruntime in an image with CUDA", "env CUDA_VERSION=12.4.1\n" + wheelText("onnxruntime", "1.23.2"), []string{"warning cpu-build"}},
		{"onnxruntime with a provider of its own wheel", "env CUDA_VERSION=12.4.1\n" + wheelText("onnxruntime", "1.23.2") + wheelText("onnxruntime-ep-nv-tensorrt-rtx", "0.1.0"), nil},
		{"onnxruntime-gpu came last", wheelText("onnxruntime", "1.20.1") + wheelText("onnxruntime-gpu", "1.20.1") + "-- " + siteDir + "onnxruntime/capi/build_and_package_info.py --\ntext\npackage_name = 'onnxruntime-gpu'\n__version__ = '1.20.1'\n", []string{"note double-owner"}},
		{"OpenCV of one version", wheelText("opencv-python", "4.11.0.86") + wheelText("opencv-python-headless", "4.11.0.86"), []string{"note double-owner"}},
		{"torch for the CUDA of one of two toolkits", wheelText("torch", "2.6.0") + torchBuild("2.6.0+cu124", "'12.4'") + "-- 0/usr/local/cuda-11.8/x --\n-- 0/usr/local/cuda-12.4/x --\n", nil},
	}
}

// TestChecks checks the findings of checkCases.
func TestChecks(t *testing.T) {
	p := embedded(t)
	for _, c := range checkCases() {
		t.Run(c.name, func(t *testing.T) {
			if got := checked(t, p, textImage(t, c.text, false)); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
	t.Run("a directory has its own driver", func(t *testing.T) {
		got := checked(t, p, textImage(t, elfText("usr/lib/libcuda.so.550.54"), true))
		if d := cmp.Diff([]string{"note driver-in-image"}, got); d != "" {
			t.Error(d)
		}
	})
}

// checked returns the severities and rules of the findings of rules that need no replay.
func checked(t *testing.T, p *packs.Packs, img *replay.Image) []string {
	t.Helper()
	res, err := Run(context.Background(), img, p)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range res.Findings {
		if strings.Contains(strings.Join(f.Fixes, "\n"), "evil") {
			t.Errorf("a fix has what the image says: %q", f.Fixes)
		}
		if slices.ContainsFunc(checks(), func(r rule) bool { return slices.Contains(r.ids, f.Rule) }) {
			got = append(got, fmt.Sprintf("%s %s", f.Severity, f.Rule))
		}
	}
	return got
}

// checks returns the rows of the table that need no replay.
func checks() []rule {
	from := slices.IndexFunc(table, func(r rule) bool { return r.ids[0] == "ld-path-missing" })
	to := slices.IndexFunc(table, func(r rule) bool { return r.ids[0] == "python-home" })
	return table[from : to+1]
}

// onlyFinding returns the only finding of a rule for an image.
func onlyFinding(t *testing.T, rule string, img *replay.Image) Finding {
	t.Helper()
	res, err := Run(t.Context(), img, embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	var list []Finding
	for _, f := range res.Findings {
		if f.Rule == rule {
			list = append(list, f)
		}
	}
	if len(list) != 1 {
		t.Fatalf("there are %d findings of %s in %v, want one", len(list), rule, res.Findings)
	}
	return list[0]
}

// TestOverriddenChoice checks the finding for a variable that chooses the build of a package.
// The variable's value is not part of the cause.
func TestOverriddenChoice(t *testing.T) {
	const build = "bitsandbytes/libbitsandbytes_cuda124.so"
	text := "env BNB_CUDA_VERSION=118\n" + wheelText("bitsandbytes", "0.49.2") + elfText(siteDir[2:]+build)
	img := textImage(t, text, false)
	f := onlyFinding(t, "build-not-there", img)
	const cause = "bitsandbytes 0.49.2 has no libbitsandbytes_cuda118.so: ENV BNB_CUDA_VERSION="
	if f.Message != cause+"118" || f.Cause != cause+"{value}" || f.Kind != packs.Missing {
		t.Errorf("got %q, of the kind %s with the cause %q", f.Message, f.Kind, f.Cause)
	}
	pass := passOf(t, img)
	const why = "bitsandbytes loads libbitsandbytes_cuda118.so: ENV BNB_CUDA_VERSION=118"
	if got, known := pass.Packages.NotChosen("/" + siteDir[2:] + build); got != why || !known || pass.Packs.Err() != nil {
		t.Errorf("got %q (%v), %v; want %q", got, known, pass.Packs.Err(), why)
	}
}

// clauseCase is a text and a finding of a rule for its image: the severity and message, then
// the reason, the effects and the fixes, a line each.
type clauseCase struct{ rule, text, want string }

// clauseCases returns cases of clauses of rules that no text image has.
func clauseCases() []clauseCase {
	user := elfText("opt/app", "interp=/lib64/ld-linux-x86-64.so.2", "needed libcuda.so.1", "flags1 pie")
	conda := "entrypoint [\"/opt/c/bin/python\"]\n-- 0/opt/c/etc/conda/activate.d/a.sh --\ntext\nexport LD_LIBRARY_PATH=$(dirname $0)/lib\n-- 0/opt/c/bin/python --\nelf x86_64 interp=/x\n"
	script := func(line string) string {
		return "entrypoint [\"/start\"]\n-- 0/start --\ntext mode=0755\n" + line + "\n"
	}
	site := "opt/lib/python3.11/site-packages/"
	unasked := elfText("usr/bin/python3.12", "interp=/lib64/ld-linux-x86-64.so.2", "flags1 pie") + elfText(site+"torch/lib/libtorch_cpu.so")
	for _, name := range []string{"torch-2.6.0", "x-1"} {
		n, v, _ := strings.Cut(name, "-")
		unasked += "-- 0/" + site + name + ".dist-info/METADATA --\ntext\nMetadata-Version: 2.1\nName: " + n + "\nVersion: " + v + "\n-- 0/" + site + name + ".dist-info/INSTALLER --\ntext\npip\n"
	}
	unasked += "-- 0/" + site + "x-1.dist-info/REQUESTED --\ntext\n"
	return []clauseCase{
		{"wrong-python", unasked, "warning PyTorch is installed for Python 3.11, but the image has Python 3.12\nit is installed only as a dependency of another package\n`import torch` fails\ninstall the packages with Python 3.12, or base the image on Python 3.11"},
		{"ld-path-empty", "env LD_LIBRARY_PATH=/opt:\n" + user, "note LD_LIBRARY_PATH has an empty element: the loader looks for libraries in the working directory, /\nno library there hides another one of the image\nENV LD_LIBRARY_PATH=/opt; in a Dockerfile, ${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} adds nothing when the variable is empty"},
		{"compat-on-path", "env LD_LIBRARY_PATH=/usr/local/cuda/compat\n" + elfText("usr/local/cuda/compat/libcuda.so.1"), "warning LD_LIBRARY_PATH puts the driver of /usr/local/cuda/compat on the search path\n\non a host whose driver is newer, CUDA does not start\non a GPU that is not for data centres, CUDA does not start\nENV LD_LIBRARY_PATH=\nthe container runtime adds the directory by itself where it helps"},
		{"conda-activate-only", conda, "warning LD_LIBRARY_PATH is set only when the conda environment /opt/c is activated, which the container does not do\n\nthe container's program fails although it works in a shell after `conda activate`\nstart the program by `conda run -p /opt/c --no-capture-output …`"},
		{"wrong-architecture", "entrypoint [\"/a\"]\n-- 0/a --\nelf aarch64 interp=/x\n-- 0/b --\nelf aarch64\n", "error the image says that it is for amd64, but its 2 ELF files are for arm64\n\nno program of the image starts\nbuild the image for the platform that runs it: docker buildx build --platform linux/amd64"},
		{"broken-entrypoint", script("#!/usr/bin/env bash\r") + "-- 0/usr/bin/env --\nelf x86_64 mode=0755\n", "error /usr/bin/env: 'bash\\r': No such file or directory\n\nthe container does not start\nconvert /start to Unix line endings (`sed -i 's/\\r$//'`, `*.sh text eol=lf` in .gitattributes): the carriage return at the end of its first line becomes a part of the interpreter's name"},
		{"broken-entrypoint", script("echo"), "error exec /start: exec format error\n\nthe container does not start\ncorrect ENTRYPOINT or CMD, or add what is missing"},
	}
}

// TestClauses checks the findings of clauseCases.
func TestClauses(t *testing.T) {
	for _, c := range clauseCases() {
		res, err := Run(t.Context(), textImage(t, c.text, false), embedded(t))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(res.Findings, func(f Finding) bool { return f.Rule == c.rule })
		if i < 0 {
			t.Errorf("%s: not found in\n%s", c.rule, c.text)
			continue
		}
		f := res.Findings[i]
		lines := []string{string(f.Severity) + " " + f.Message, f.Because}
		for _, e := range f.Effects {
			lines = append(lines, e.Text)
		}
		if diff := cmp.Diff(c.want, strings.Join(append(lines, f.Fixes...), "\n")); diff != "" {
			t.Errorf("%s: %s", c.rule, diff)
		}
	}
}

// loadPacks reads the packs of the program once. A test that changes packs loads its own.
var loadPacks = sync.OnceValues(func() (*packs.Packs, error) { return packs.LoadPacks(rules.FS) })

func embedded(t *testing.T) *packs.Packs {
	t.Helper()
	set, err := loadPacks()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// passOf returns the pass for an image.
func passOf(t *testing.T, img *replay.Image) *Pass {
	t.Helper()
	set := embedded(t)
	evidence, err := replay.Run(t.Context(), img, set)
	if err != nil {
		t.Fatal(err)
	}
	return newPass(img, set, evidence)
}
