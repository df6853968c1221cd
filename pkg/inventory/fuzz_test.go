package inventory

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// names has one file of each kind that Read reads.
var names = []string{
	"lib/python3.9/site-packages/a-1.dist-info/METADATA", "lib/python3.9/site-packages/a.egg-info/PKG-INFO", "opt/v/pyvenv.cfg",
	"lib/python3.9/site-packages/torch/version.py", "srv/onnxruntime/capi/build_and_package_info.py", "srv/tensorflow/python/platform/build_info.py",
	"opt/conda/conda-meta/a.json",
	"opt/conda/etc/conda/activate.d/a.sh", "var/lib/rpm/Packages", "usr/lib/sysimage/rpm/Packages.db", "var/lib/dpkg/status", "var/lib/dpkg/status.d/a", "lib/apk/db/installed",
	"usr/local/cuda/version.json", "usr/local/cuda/version.txt", "usr/include/cudnn_version.h", "lib/python3.9/site-packages/a-1.dist-info/RECORD",
	"lib/python3.9/site-packages/torchaudio/version.py",
	"lib/python3.9/site-packages/a-1.dist-info/INSTALLER", "lib/python3.9/site-packages/a-1.dist-info/top_level.txt", "opt/conda/conda-meta/history",
	"var/lib/apt/extended_states", "etc/apk/world", "etc/os-release",
}

// mayBeSilent are the names of files that may have nothing to say.
var mayBeSilent = []string{"/db/", "dpkg", "activate.d", "INSTALLER", "top_level.txt", "history", "extended_states", "world", "os-release"}

// FuzzRead states, for any bytes of a file: Read returns an inventory, and the same one
// for the same bytes; entries made from the file name it; and a file that must give an
// entry and gave none is Unread.
func FuzzRead(f *testing.F) {
	for i := range names {
		for _, text := range []string{
			"Name: a\nVersion: 1\nRequires-Dist: b\n\nx", "home = /usr/bin\nversion = 3.9\n", "__version__ = '1'\ncuda = None\npackage_name = 'onnxruntime'\n",
			`{"name":"a","version":"1","build":"0","cuda":{"version":"12"}}`, "export A=b\n", "ID=ubuntu\nVERSION_ID=\"24.04\"\nID_LIKE=debian\n", "Package: a\nStatus: install ok installed\nVersion: 1\n", "P:a\nV:1\n\n",
			"CUDA Version 9.0\n", "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n", "a.py,sha256=x,1\n\"b\"\"c\",,\n", "\x00", "",
		} {
			f.Add(byte(i), text)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, text string) {
		name := names[int(kind)%len(names)]
		fsys := fstest.MapFS{name: {Data: []byte(text)}}
		if strings.HasSuffix(path.Dir(name), ".dist-info") && !strings.HasSuffix(name, "METADATA") {
			fsys[path.Dir(name)+"/METADATA"] = &fstest.MapFile{Data: []byte("Name: a\nVersion: 1\n")}
		}
		inv, err := Read(fsys)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := Read(fsys)
		if !reflect.DeepEqual(inv, again) {
			t.Fatal("two readings differ")
		}
		if isMetadata(name) { // what is left of it says the same
			fsys[name] = &fstest.MapFile{Data: reduceMetadata([]byte(text))}
			if less, _ := Read(fsys); !reflect.DeepEqual(inv.Packages, less.Packages) {
				t.Errorf("%q reduced has other packages", text)
			}
		}
		for _, p := range inv.Packages {
			if p.Name == "" || p.Version == "" || len(p.Name) > maxText || len(p.Version) > maxText || len(p.Requires) > maxRequires || len(p.Pythons) > maxPythons {
				t.Errorf("%q has the package %+v", text, p)
			}
			for _, m := range p.Modules() {
				if !isModule(m) {
					t.Errorf("%q has the module %q", p.Name, m)
				}
			}
			for file := range p.Files {
				if !path.IsAbs(file) || file != path.Clean(file) {
					t.Errorf("%q owns %q", p.Name, file)
				}
			}
		}
		for _, u := range inv.Unread {
			if u.Path != "/"+name || u.Why == "" {
				t.Errorf("unread: %+v", u)
			}
		}
		told := len(inv.Packages) + len(inv.Builds) + len(inv.Components) + len(inv.Pythons) + len(inv.Unread)
		silent := slices.ContainsFunc(mayBeSilent, func(part string) bool { return strings.Contains(name, part) })
		if !silent && told == 0 {
			t.Errorf("%s with %q is passed over", name, text)
		}
	})
}

// FuzzRequirement states that the parts of a requirement are parts of the line, and that
// a marker holds only if that is known.
func FuzzRequirement(f *testing.F) {
	for _, line := range []string{"a", "a (>=1)", "a[b]==1; c == 'd'", `a; (python_version < "3" or extra == 'x') and platform_system not in "Linux"`, "a @ https://b", "a;((((", ""} {
		f.Add(line)
	}
	env := MarkerEnv{"platform_system": "Linux", "python_version": "3.12"}
	f.Fuzz(func(t *testing.T, line string) {
		r, err := ParseRequirement(line)
		if err != nil {
			return
		}
		if r.Name == "" || r.Name != Normalize(r.Name) || !strings.Contains(line, r.Specifiers) || !strings.Contains(line, r.Marker) {
			t.Errorf("%q: %+v", line, r)
		}
		if holds, known := r.Applies(env); holds && !known {
			t.Errorf("%q holds and is not known", line)
		}
	})
}
