package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asked returns the answers for the packages of a kind, by name.
func asked(inv *Inventory, kind Kind) map[string]Answer {
	m := map[string]Answer{}
	for _, p := range inv.Packages {
		if p.Kind == kind {
			m[p.Name] = p.Asked
		}
	}
	return m
}

// TestAskedWheels: pip 20.2 and later write REQUESTED for what is named on the command
// line or in a requirements file, earlier ones and poetry write none, and uv writes one
// for every package.
func TestAskedWheels(t *testing.T) {
	site := "usr/lib/python3.12/site-packages/"
	wheel := func(m map[string]string, dir, name, installer string, requested bool) {
		info := dir + name + "-1.dist-info/"
		m[info+"METADATA"] = "Name: " + name + "\nVersion: 1\n"
		if installer != "" {
			m[info+"INSTALLER"] = installer + "\n"
		}
		if requested {
			m[info+"REQUESTED"] = ""
		}
	}
	list := map[string]string{}
	wheel(list, site, "torch", "pip", true)
	wheel(list, site, "sympy", "pip", false)
	wheel(list, site, "six", "uv", true)
	wheel(list, site, "idna", "poetry 1.8.2", false)
	wheel(list, site, "lost", "", true)
	wheel(list, "opt/old/lib/python3.6/site-packages/", "numpy", "pip", false)
	want := map[string]Answer{"torch": Yes, "sympy": No, "six": Unknown, "idna": Unknown, "lost": Unknown, "numpy": Unknown}
	if d := cmp.Diff(want, asked(read(t, files(list)), Wheel)); d != "" {
		t.Error(d)
	}
}

// TestAskedConda reads requested_spec as conda, micromamba and rattler write it, and
// conda's history where a package has none. A prefix where all were asked for is that of
// a lock file.
func TestAskedConda(t *testing.T) {
	meta := func(fields string) string { return `{"version":"1","build":"0",` + fields + `}` }
	for _, c := range []struct {
		name string
		list map[string]string
		want map[string]Answer
	}{
		{"fields", map[string]string{
			"opt/conda/conda-meta/numpy.json": meta(`"name":"numpy","requested_spec":"numpy=2"`),
			"opt/conda/conda-meta/blas.json":  meta(`"name":"blas","requested_spec":"None"`),
			"opt/conda/conda-meta/gmp.json":   meta(`"name":"gmp","requested_spec":""`),
			"opt/conda/conda-meta/mpc.json":   meta(`"name":"mpc","requested_spec":null,"requested_specs":["mpc"]`),
			"opt/conda/conda-meta/mpfr.json":  meta(`"name":"mpfr","requested_specs":[]`),
			"opt/conda/conda-meta/zlib.json":  meta(`"name":"zlib"`),
			"opt/conda/conda-meta/tk.json":    meta(`"name":"tk","requested_spec":null`),
		}, map[string]Answer{"numpy": Yes, "blas": No, "gmp": No, "mpc": Yes, "mpfr": No, "zlib": Unknown, "tk": Unknown}},
		{"history", map[string]string{
			"opt/conda/conda-meta/a.json":  meta(`"name":"a"`),
			"opt/conda/conda-meta/b.json":  meta(`"name":"b"`),
			"opt/conda/conda-meta/c.json":  meta(`"name":"c"`),
			"opt/conda/conda-meta/d.json":  meta(`"name":"d"`),
			"opt/conda/conda-meta/history": "==> 2024-01-01 00:00:00 <==\n# cmd: conda install x\n# update specs: ['conda-forge/linux-64::a==1=0', \"b[version='>=1,<2']\", 'c']\n+defaults::a-1-0\n# remove specs: ['c']\n# install specs: d >=1\n",
		}, map[string]Answer{"a": Yes, "b": Yes, "c": No, "d": Yes}},
		{"lock file", map[string]string{
			"env/conda-meta/a.json": meta(`"name":"a","requested_spec":"a-1-0"`),
			"env/conda-meta/b.json": meta(`"name":"b","requested_spec":"b-1-0"`),
		}, map[string]Answer{"a": Unknown, "b": Unknown}},
		{"packages without files", map[string]string{
			"env/conda-meta/rapids.json": meta(`"name":"rapids","requested_spec":"rapids","files":[],"depends":["cudf ==24.10.*","rapids-x"]`),
			"env/conda-meta/cudf.json":   meta(`"name":"cudf","requested_spec":"None","files":["a.py"],"depends":["numpy >=1.23"]`),
			"env/conda-meta/x.json":      meta(`"name":"rapids-x","requested_spec":"None","files":[ ],"depends":["cuml","rapids"]`),
			"env/conda-meta/cuml.json":   meta(`"name":"cuml","requested_spec":"None","files":["b.py"]`),
			"env/conda-meta/numpy.json":  meta(`"name":"numpy","requested_spec":"None","files":["c.py"]`),
		}, map[string]Answer{"rapids": Yes, "cudf": Yes, "rapids-x": Yes, "cuml": Yes, "numpy": No}},
		{"history without specs", map[string]string{
			"env/conda-meta/a.json":  meta(`"name":"a"`),
			"env/conda-meta/history": "==> 2024 <==\n",
		}, map[string]Answer{"a": Unknown}},
	} {
		if d := cmp.Diff(c.want, asked(read(t, files(c.list)), Conda)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// TestAskedSystem: apt's extended_states lists what it installed by itself, and apk's
// world what was asked for.
func TestAskedSystem(t *testing.T) {
	status := "Package: libc6\nPriority: required\nVersion: 2\n\nPackage: ffmpeg\nPriority: optional\nVersion: 5\n\nPackage: libavcodec59\nPriority: optional\nVersion: 5\n"
	inv := read(t, files(map[string]string{
		"var/lib/dpkg/status":          status,
		"var/lib/apt/extended_states":  "Package: libavcodec59\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: ffmpeg\nAuto-Installed: 0\n",
		"var/lib/dpkg/status.d/tzdata": "Package: tzdata\nPriority: optional\nVersion: 1\n",
		"lib/apk/db/installed":         "P:musl\nV:1\n\nP:zlib\nV:1\n\nP:curl\nV:1\n\nP:gcc\nV:1\n\nP:.build\nV:0\nD:gcc>=1 !libressl\n\n",
		"etc/apk/world":                "musl\ncurl>=1@edge\n.build=0\n",
	}))
	if d := cmp.Diff(map[string]Answer{"libc6": No, "ffmpeg": Yes, "libavcodec59": No, "tzdata": Unknown}, asked(inv, Deb)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]Answer{"musl": Yes, "zlib": No, "curl": Yes, "gcc": Yes, ".build": Yes}, asked(inv, APK)); d != "" {
		t.Error(d)
	}
	inv = read(t, files(map[string]string{"var/lib/dpkg/status": status, "lib/apk/db/installed": "P:musl\nV:1\n\n"}))
	if d := cmp.Diff(map[string]Answer{"libc6": No, "ffmpeg": Unknown, "libavcodec59": Unknown}, asked(inv, Deb)); d != "" {
		t.Errorf("without apt's list: %s", d)
	}
	if d := cmp.Diff(map[string]Answer{"musl": Unknown}, asked(inv, APK)); d != "" {
		t.Errorf("without apk's list: %s", d)
	}
}

// TestModules: top_level.txt is believed, and RECORD serves where there is none.
func TestModules(t *testing.T) {
	record := "six.py,,\npkg/__init__.py,,\npkg/sub/__init__.py,,\nfast/_core.cpython-312-x86_64-linux-gnu.so,,\nmod.abi3.so,,\n_c.cpython-312-x86_64-linux-gnu.so,,\nnvidia/cublas/lib/libcublas.so.12,,\na.libs/libz.so.1,,\nlibs/libx.so,,\n" +
		"../../../bin/tool,,\n__editable___a_finder.py,,\na-1.dist-info/RECORD,,\ndata.txt,,\n"
	for _, c := range []struct {
		list map[string]string
		want []string
	}{
		{map[string]string{"RECORD": record}, []string{"_c", "fast", "mod", "pkg", "six"}},
		{map[string]string{"RECORD": record, "top_level.txt": "pkg\n_c\npkg\n\nnot-one\n"}, []string{"_c", "pkg"}},
		{map[string]string{}, nil},
	} {
		list := map[string]string{"lib/python3.12/site-packages/a-1.dist-info/METADATA": "Name: a\nVersion: 1\n"}
		for name, text := range c.list {
			list["lib/python3.12/site-packages/a-1.dist-info/"+name] = text
		}
		if d := cmp.Diff(c.want, read(t, files(list)).Packages[0].Modules()); d != "" {
			t.Error(d)
		}
	}
}
