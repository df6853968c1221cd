package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// files makes a file system from names and contents.
func files(list map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range list {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return m
}

func read(t *testing.T, fsys fs.FS) *Inventory {
	t.Helper()
	inv, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

var same = cmpopts.IgnoreUnexported(Inventory{}, Package{}, Python{})

// TestWheels: names are normalised, the head ends at the first empty line, and
// RECORD's paths are relative to the directory of packages.
func TestWheels(t *testing.T) {
	site := "usr/local/lib/python3.12/site-packages/"
	inv := read(t, files(map[string]string{
		"usr/local/bin/python3.12":                                                                   "\x7fELF",
		site + "torch-2.6.0+cu124.dist-info/METADATA":                                                "Metadata-Version: 2.1\r\nName: torch\r\nVersion: 2.6.0+cu124\r\nRequires-Dist: filelock\r\nRequires-Dist: nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == \"Linux\"\r\n\r\nVersion: 9\r\n",
		site + "torch-2.6.0+cu124.dist-info/RECORD":                                                  "torch/__init__.py,sha256=abc,10\n../../../bin/torchrun,sha256=def,5\n\"a,b.so\",,\ntorch/x.py,sha256=abc,1\ntorch-2.6.0+cu124.dist-info/RECORD,,\n",
		site + "Foo_Bar.baz.egg-info/PKG-INFO":                                                       "Name: Foo_Bar.baz\nVersion: 1\n",
		site + "broken-1.dist-info/METADATA":                                                         "Name: broken\n",
		site + "setuptools/_vendor/wheel-0.45.dist-info/METADATA":                                    "Name: wheel\nVersion: 0.45\n",
		"root/.cache/uv/archive-v0/x/torch-2.6.0.dist-info/METADATA":                                 "Name: torch\nVersion: 2.6.0\n",
		"opt/conda/pkgs/six-1.16.0-py310_0/lib/python3.10/site-packages/six-1.16.dist-info/METADATA": "Name: six\nVersion: 1.16.0\n",
	}))
	s := "/" + site
	want := &Inventory{
		Packages: []*Package{
			{Kind: Wheel, Name: "foo-bar-baz", Version: "1", Path: s + "Foo_Bar.baz.egg-info/PKG-INFO", Dir: s[:len(s)-1]},
			{
				Kind: Wheel, Name: "torch", Version: "2.6.0+cu124", Path: s + "torch-2.6.0+cu124.dist-info/METADATA", Dir: s[:len(s)-1],
				Requires: []string{"filelock", `nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == "Linux"`},
				Files: map[string]Listed{
					s + "torch/__init__.py": {"sha256=abc", 10}, "/usr/local/bin/torchrun": {"sha256=def", 5}, s + "a,b.so": {"", -1}, s + "torch-2.6.0+cu124.dist-info/RECORD": {"", -1},
				},
			},
		},
		Pythons: []*Python{{Prefix: "/usr/local", Version: "3.12", Interpreter: "/usr/local/bin/python3.12", Sites: []string{s[:len(s)-1]}}},
		Unread:  []Unread{{s + "broken-1.dist-info/METADATA", "it does not name a package and a version"}},
	}
	if d := cmp.Diff(want, inv, same); d != "" {
		t.Error(d)
	}
}

// TestSystem reads dpkg's list, distroless's files, apk, conda, and an rpm database that
// cannot be read.
func TestSystem(t *testing.T) {
	inv := read(t, files(map[string]string{
		"var/lib/dpkg/status":                       "Package: libcudnn9-cuda-12\nStatus: install ok installed\nVersion: 9.1.0.70-1\nDescription: a\n Package: no\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n",
		"var/lib/dpkg/status.d/libc6":               "Package: libc6\nVersion: 2.36-9\n",
		"var/lib/dpkg/status.d/libc6.md5sums":       "00 usr/lib/x\n",
		"lib/apk/db/installed":                      "C:Q1\nP:musl\nV:1.2.5-r0\nF:lib\n\nP:zlib\nV:1.3\n",
		"opt/conda/conda-meta/pytorch-2.3.0-0.json": `{"name":"pytorch","version":"2.3.0","build":"py3.10_cuda12.1_cudnn8.9.2_0","files":["x"]}`,
		"opt/conda/conda-meta/broken.json":          `{"name":`,
		"opt/conda/conda-meta/history":              "x",
		"var/lib/rpm/rpmdb.sqlite":                  "SQLite format 3\x00",
		"usr/share/rpm/rpmdb.sqlite-wal":            "x",
		"var/lib/rpm/rpmdb.sqlite-wal":              "",
		"opt/conda/etc/conda/activate.d/cuda.sh":    "#!/bin/sh\nexport LD_LIBRARY_PATH=\"$CONDA_PREFIX/lib\"\n  X=1\nif [ 1 = 1 ]; then :; fi\n",
		"opt/conda/etc/conda/activate.d/README":     "LD_LIBRARY_PATH=no\n",
		"opt/conda/etc/conda/deactivate.d/cuda.sh":  "LD_LIBRARY_PATH=no\n",
		"srv/var/lib/dpkg/status":                   "Package: other\nStatus: install ok installed\nVersion: 1\n",
	}))
	want := &Inventory{
		Packages: []*Package{
			{Kind: APK, Name: "musl", Version: "1.2.5-r0", Path: "/lib/apk/db/installed"},
			{Kind: APK, Name: "zlib", Version: "1.3", Path: "/lib/apk/db/installed"},
			{Kind: Conda, Name: "pytorch", Version: "2.3.0", Build: "py3.10_cuda12.1_cudnn8.9.2_0", Path: "/opt/conda/conda-meta/pytorch-2.3.0-0.json", Dir: "/opt/conda"},
			{Kind: Deb, Name: "libc6", Version: "2.36-9", Path: "/var/lib/dpkg/status.d/libc6"},
			{Kind: Deb, Name: "libcudnn9-cuda-12", Version: "9.1.0.70-1", Path: "/var/lib/dpkg/status"},
		},
		Activations: []*Activation{
			{"/opt/conda/etc/conda/activate.d/cuda.sh", "/opt/conda", "LD_LIBRARY_PATH", "$CONDA_PREFIX/lib"},
			{"/opt/conda/etc/conda/activate.d/cuda.sh", "/opt/conda", "X", "1"},
		},
		Unread: []Unread{
			{"/opt/conda/conda-meta/broken.json", "it is not JSON of conda: unexpected end of JSON input"},
			{"/usr/share/rpm/rpmdb.sqlite-wal", "it may change the list of rpm packages, and cannot be read"},
			{"/var/lib/rpm/rpmdb.sqlite", "not all of the rpm packages are known: it is not an rpm database: neither SQLite's nor ndb's nor a Berkeley DB hash"},
		},
	}
	if d := cmp.Diff(want, inv, same); d != "" {
		t.Error(d)
	}
}

// TestCUDA reads the build records of frameworks, toolkits, and cuDNN by file name and
// header.
func TestCUDA(t *testing.T) {
	site := "opt/venv/lib/python3.11/site-packages/"
	inv := read(t, files(map[string]string{
		site + "torch/version.py":                           "from typing import Optional\n\n__all__ = ['__version__', 'debug']\n__version__ = '2.11.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\ngit_version = 'abc'\nhip: Optional[str] = None\n",
		"srv/cpu/torch/version.py":                          "__version__ = '2.6.0+cpu'\ncuda = None\nhip = None\n",
		"srv/rocm/torch/version.py":                         "__version__ = '2.6.0+rocm6'\ncuda = None\nhip = '6.1'\n",
		"srv/bad/torch/version.py":                          "import x\n",
		"srv/bad/torchaudio/version.py":                     "import x\n",
		site + "torchaudio/version.py":                      "__version__ = '2.8.0+cu128'\ngit_version = 'def'\n",
		site + "torchvision/version.py":                     "__version__ = '0.23.0+cu128'\ngit_version = 'fed'\nfrom torchvision.extension import _check_cuda_version\nif _check_cuda_version() > 0:\n    cuda = _check_cuda_version()\n",
		site + "onnxruntime/capi/build_and_package_info.py": "package_name = 'onnxruntime-gpu'\n__version__ = '1.19.2'\ncuda_version = '12.2'\n",
		site + "tensorflow/python/platform/build_info.py":   "import collections\nbuild_info = collections.OrderedDict([(\"cpu_compiler\", \"/usr/bin/gcc\"), (\"cuda_version\", \"12.6\"), (\"cudnn_version\", \"9\"), (\"is_cuda_build\", True), (\"is_rocm_build\", False)])\n",
		"srv/cpu/tensorflow/python/platform/build_info.py":  "build_info = collections.OrderedDict([('is_cuda_build', False), ('is_rocm_build', False)])\n",
		"srv/bad/tensorflow/python/platform/build_info.py":  "import x\n",
		"usr/local/cuda-12.4/bin/nvcc":                      "x",
		"usr/local/cuda-12.6/version.json":                  `{"cuda":{"name":"CUDA SDK","version":"12.6.3"},"cuda_cudart":{"name":"x","version":"12.6.77"}}`,
		"usr/local/cuda-9.0/version.txt":                    "CUDA Version 9.0.176\n",
		"usr/lib/x86_64-linux-gnu/libcudnn.so.9.14.0":       "\x7fELF",
		"usr/include/cudnn_version_v9.h":                    "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n#define CUDNN_VERSION (CUDNN_MAJOR * 10000)\n",
		"usr/include/cudnn_version_v8.h":                    "#include \"cudnn_version_v9.h\"\n",
	}))
	want := &Inventory{
		Builds: []*Build{
			{Name: "onnxruntime", Version: "1.19.2", CUDA: "12.2", Package: "onnxruntime-gpu", Path: "/" + site + "onnxruntime/capi/build_and_package_info.py", Dir: "/opt/venv/lib/python3.11/site-packages"},
			{Name: "tensorflow", CUDA: "12.6", CUDNN: "9", Path: "/" + site + "tensorflow/python/platform/build_info.py", Dir: "/opt/venv/lib/python3.11/site-packages"},
			{Name: "torch", Version: "2.11.0+cu130", CUDA: "13.0", Git: "abc", Path: "/" + site + "torch/version.py", Dir: "/opt/venv/lib/python3.11/site-packages"},
			{Name: "torchaudio", Version: "2.8.0+cu128", Git: "def", Path: "/" + site + "torchaudio/version.py", Dir: "/opt/venv/lib/python3.11/site-packages"},
			{Name: "torchvision", Version: "0.23.0+cu128", Git: "fed", Path: "/" + site + "torchvision/version.py", Dir: "/opt/venv/lib/python3.11/site-packages"},
			{Name: "tensorflow", CPU: true, Path: "/srv/cpu/tensorflow/python/platform/build_info.py", Dir: "/srv/cpu"},
			{Name: "torch", Version: "2.6.0+cpu", CPU: true, Path: "/srv/cpu/torch/version.py", Dir: "/srv/cpu"},
			{Name: "torch", Version: "2.6.0+rocm6", Path: "/srv/rocm/torch/version.py", Dir: "/srv/rocm"},
		},
		Components: []*Component{
			{"cuda", "12.4", "/usr/local/cuda-12.4", "directory name"},
			{"cuda", "12.6", "/usr/local/cuda-12.6", "directory name"},
			{"cuda", "12.6.3", "/usr/local/cuda-12.6", "version.json"},
			{"cuda", "9.0", "/usr/local/cuda-9.0", "directory name"},
			{"cuda", "9.0.176", "/usr/local/cuda-9.0", "version.txt"},
			{"cudnn", "9.1.0", "/usr/include/cudnn_version_v9.h", "header"},
			{"cudnn", "9.14.0", "/usr/lib/x86_64-linux-gnu/libcudnn.so.9.14.0", "file name"},
		},
		Unread: []Unread{
			{"/srv/bad/tensorflow/python/platform/build_info.py", "it has no is_cuda_build"},
			{"/srv/bad/torch/version.py", "it has no __version__"},
			{"/srv/bad/torchaudio/version.py", "it has no __version__"},
			{"/usr/include/cudnn_version_v8.h", "it does not define CUDNN_MAJOR, CUDNN_MINOR and CUDNN_PATCHLEVEL"},
		},
	}
	if d := cmp.Diff(want, inv, same); d != "" {
		t.Error(d)
	}
	env := FromEnv([]string{"PATH=/bin", "CUDA_VERSION=12.4.1", "NV_CUDNN_VERSION=9.14.0.64-1", "CUDNN_VERSION=none"})
	wantEnv := []*Component{{"cuda", "12.4.1", "", "ENV CUDA_VERSION"}, {"cudnn", "9.14.0.64", "", "ENV NV_CUDNN_VERSION"}}
	if d := cmp.Diff(wantEnv, env); d != "" {
		t.Error(d)
	}
}

// TestPythons: each environment has its own interpreter, Debian's three directories are
// one environment, and a virtual environment sees the base's packages if it says so.
func TestPythons(t *testing.T) {
	wheel := func(name, version string) string { return "Name: " + name + "\nVersion: " + version + "\n" }
	fsys := files(map[string]string{
		"usr/bin/python3.10": "x",
		"usr/local/lib/python3.10/dist-packages/numpy-2.dist-info/METADATA": wheel("numpy", "2"),
		"usr/lib/python3/dist-packages/numpy-1.egg-info/PKG-INFO":           wheel("numpy", "1"),
		"usr/lib/python3/dist-packages/six-1.egg-info/PKG-INFO":             wheel("six", "1"),
		"opt/a/pyvenv.cfg":  "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.10.12\n",
		"opt/a/bin/python3": "x",
		"opt/a/lib/python3.10/site-packages/six-2.dist-info/METADATA": wheel("six", "2"),
		"opt/b/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\nversion_info = 3.10.12.final.0\n",
		"opt/b/lib/python3.10/site-packages/numpy-2.1.dist-info/METADATA": wheel("numpy", "2.1"),
		"opt/b/lib/python3.10/site-packages/numpy-2.0.dist-info/METADATA": wheel("numpy", "2.0"),
		"app/deps/six-3.dist-info/METADATA":                               wheel("six", "3"),
		"opt/broken/pyvenv.cfg":                                           "x\n",
	})
	inv := read(t, fsys)
	base := []string{"/usr/local/lib/python3.10/dist-packages", "/usr/lib/python3/dist-packages"}
	want := []*Python{
		{Prefix: "/app/deps", Sites: []string{"/app/deps"}},
		{Prefix: "/opt/a", Version: "3.10", Interpreter: "/opt/a/bin/python3", Home: "/usr/bin", Sites: append([]string{"/opt/a/lib/python3.10/site-packages"}, base...)},
		{Prefix: "/opt/b", Version: "3.10", Home: "/usr/bin", Sites: []string{"/opt/b/lib/python3.10/site-packages"}},
		{Prefix: "/usr", Version: "3.10", Interpreter: "/usr/bin/python3.10", Sites: base},
	}
	if d := cmp.Diff(want, inv.Pythons, same); d != "" {
		t.Error(d)
	}
	wants := []map[string]string{{"six": "3"}, {"six": "2", "numpy": "2"}, {}, {"numpy": "2", "six": "1"}}
	for i, p := range inv.Pythons {
		got := map[string]string{}
		for name, w := range inv.Wheels(p) {
			got[name] = w.Version
		}
		if d := cmp.Diff(wants[i], got); d != "" {
			t.Errorf("%s: %s", p.Prefix, d)
		}
	}
}

// TestLib64: Red Hat's Python searches lib64 before lib, and /usr/local before /usr
// (site.getsitepackages with sys.platlibdir lib64).
func TestLib64(t *testing.T) {
	list := map[string]string{"usr/bin/python3.12": "x"}
	sites := []string{
		"/usr/local/lib64/python3.12/site-packages", "/usr/local/lib/python3.12/site-packages",
		"/usr/lib64/python3.12/site-packages", "/usr/lib/python3.12/site-packages",
	}
	for _, dir := range sites {
		list[dir[1:]+"/six-1.dist-info/METADATA"] = "Name: six\nVersion: 1\n"
	}
	want := []*Python{{Prefix: "/usr", Version: "3.12", Interpreter: "/usr/bin/python3.12", Sites: sites}}
	if d := cmp.Diff(want, read(t, files(list)).Pythons, same); d != "" {
		t.Error(d)
	}
}

// closed is a file system whose files cannot be read.
type closed struct{ fstest.MapFS }

func (c closed) Open(name string) (fs.File, error) {
	f, err := c.MapFS.Open(name)
	if err != nil || !strings.HasSuffix(name, "METADATA") {
		return f, err
	}
	f.Close()
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("its bytes were not kept")}
}

// TestUnread: files that are too large or cannot be read are listed, and Wants rejects
// the ones that Read does not take.
func TestUnread(t *testing.T) {
	const name = "lib/python3.9/site-packages/a-1.dist-info/METADATA"
	inv := read(t, closed{files(map[string]string{name: "Name: a\nVersion: 1\n"})})
	if d := cmp.Diff([]Unread{{"/" + name, "its bytes were not kept"}}, inv.Unread); d != "" {
		t.Error(d)
	}
	big := files(map[string]string{name: "Name: a\nVersion: 1\n" + strings.Repeat("\n", 2<<20)})
	inv = read(t, big)
	if len(inv.Packages) != 0 || len(inv.Unread) != 1 || inv.Unread[0].Why != "it has 2097171 bytes, more than the limit for such files" {
		t.Errorf("%v %v", inv.Packages, inv.Unread)
	}
	if Wants(name, 2<<20+1) || !Wants(name, 2<<20) || Wants("usr/share/METADATA", 1) {
		t.Error("Wants does not agree with Read")
	}
}

func TestRequirement(t *testing.T) {
	linux := MarkerEnv{"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.12"}
	for line, want := range map[string]struct {
		r            Requirement
		holds, known bool
	}{
		`filelock`:                   {Requirement{Name: "filelock"}, true, true},
		`Torch_Vision (>=0.2,<1)`:    {Requirement{"torch-vision", ">=0.2,<1", ""}, true, true},
		`torch[opt-einsum]==2.6.0`:   {Requirement{"torch", "==2.6.0", ""}, true, true},
		`a==1; extra == 'x'`:         {Requirement{"a", "==1", "extra == 'x'"}, false, true},
		`a; os_name == "nt"`:         {Requirement{"a", "", `os_name == "nt"`}, false, false},
		`a; python_version < "3.10"`: {Requirement{"a", "", `python_version < "3.10"`}, false, true},
		`nvidia-cudnn-cu12==9.1.0.70; platform_system == "Linux" and platform_machine == "x86_64"`: {Requirement{"nvidia-cudnn-cu12", "==9.1.0.70", `platform_system == "Linux" and platform_machine == "x86_64"`}, true, true},
		`a; (sys_platform == "win32" or python_version >= "3.9") and os_name != "x" `:              {Requirement{"a", "", `(sys_platform == "win32" or python_version >= "3.9") and os_name != "x"`}, false, false},
		`a; sys_platform == "win32" and os_name == "x"`:                                            {Requirement{"a", "", `sys_platform == "win32" and os_name == "x"`}, false, true},
		`a; platform_machine in "x86_64 aarch64"`:                                                  {Requirement{"a", "", `platform_machine in "x86_64 aarch64"`}, true, true},
		`a; platform_machine not in "x86_64 aarch64"`:                                              {Requirement{"a", "", `platform_machine not in "x86_64 aarch64"`}, false, true},
		`a; (((`:            {Requirement{"a", "", `(((`}, false, false},
		`a; python_version`: {Requirement{"a", "", `python_version`}, false, false},
	} {
		r, err := ParseRequirement(line)
		holds, known := r.Applies(linux)
		if err != nil || r != want.r || known != want.known || holds && !want.holds || want.holds && !holds {
			t.Errorf("%s: %+v %v %v %v", line, r, holds, known, err)
		}
	}
	for _, bad := range []string{"", "torch @ https://x/y.whl", "-x", strings.Repeat("a", 5000)} {
		if r, err := ParseRequirement(bad); err == nil {
			t.Errorf("%q is %+v", bad, r)
		}
	}
}

// TestBounds: a file that exceeds a limit is Unread, and a file that does not exist is
// not.
func TestBounds(t *testing.T) {
	defer func(a, b int) { maxTaken, maxOwned = a, b }(maxTaken, maxOwned)
	const site = "srv/lib/python3.10/site-packages/"
	fsys := fstest.MapFS{}
	for _, name := range []string{"a", "b", "c"} {
		fsys[site+name+"-1.dist-info/METADATA"] = &fstest.MapFile{Data: []byte("Name: " + name + "\nVersion: 1\n")}
		fsys[site+name+"-1.dist-info/RECORD"] = &fstest.MapFile{Data: []byte(name + "/x.so,sha256=x,1\n")}
	}
	why := func() string {
		inv, err := Read(fsys)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, u := range inv.Unread {
			text += u.Path + ": " + u.Why + "\n"
		}
		return text
	}
	if text := why(); text != "" {
		t.Errorf("unread: %s", text)
	}
	maxOwned = 230 // two files
	if text := why(); text != "/"+site+"c-1.dist-info/RECORD: the RECORDs of the packages list more than 0 MiB of libraries and programs\n" {
		t.Errorf("unread: %s", text)
	}
	maxTaken = 50
	if text := why(); strings.Count(text, "it was skipped: ") < 2 || strings.Contains(text, "/a-1.dist-info/METADATA") {
		t.Errorf("unread: %s", text)
	}
}

// TestManyEnvironments: virtual environments inside one another see at most maxSites
// directories, and the rest is Unread.
func TestManyEnvironments(t *testing.T) {
	fsys := fstest.MapFS{}
	home := "/usr/bin"
	for i := range 2 * maxSites {
		prefix := fmt.Sprintf("srv/v%03d", i)
		fsys[prefix+"/pyvenv.cfg"] = &fstest.MapFile{Data: []byte("home = " + home + "\ninclude-system-site-packages = true\nversion = 3.10\n")}
		fsys[prefix+"/lib/python3.10/site-packages/a-1.dist-info/METADATA"] = &fstest.MapFile{Data: []byte("Name: a\nVersion: 1\n")}
		home = "/" + prefix + "/bin"
	}
	inv, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, p := range inv.Pythons {
		most = max(most, len(p.Sites))
	}
	if most != maxSites || len(inv.Unread) == 0 || !strings.Contains(inv.Unread[0].Why, "more than 64 directories of packages") {
		t.Errorf("%d directories, unread %v", most, inv.Unread)
	}
}
