package size_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/testdata/images"
)

// The images of these tests have CUDA's packages of libraries, as apt installs them. The program needs one of them, and nothing the
// others. In most images something uses one all the same.

const debLib = "/usr/local/cuda-12.4/targets/x86_64-linux/lib/"

// debText is a package of dpkg with a library of a megabyte, and links to it.
type debText struct {
	name, library, release, fields string
	needed                         []string
}

// debsOf returns the files of packages, and dpkg's records of them.
func debsOf(list []debText, more string) (text string) {
	status := ""
	for _, p := range list {
		files := "/.\n/usr\n/usr/local\n" + strings.TrimSuffix(debLib, "/") + "\n/usr/share/doc/" + p.name + "/copyright\n"
		text += own("/usr/share/doc/"+p.name+"/copyright", "terms about "+p.library)
		if p.library != "" {
			major, _, _ := strings.Cut(p.release, ".")
			full, short := p.library+".so."+p.release, p.library+".so."+major
			text += "-- 1" + debLib + full + " --\nelf x86_64 soname=" + short + "\nneeded libc.so.6\n"
			for _, n := range p.needed {
				text += "needed " + n + "\n"
			}
			text += "rodata \"" + strings.Repeat("x", 400_000) + "\"\n"
			text += "-- 1" + debLib + short + " --\nsymlink " + full + "\n"
			files += debLib + full + "\n" + debLib + short + "\n"
		}
		status += fmt.Sprintf("Package: %s\nStatus: install ok installed\nPriority: optional\nArchitecture: amd64\nVersion: %s-1\n%s\n", p.name, p.release, p.fields)
		text += own("/var/lib/dpkg/info/"+p.name+".list", files)
	}
	return text + own("/var/lib/dpkg/status", status+more)
}

func cudaDebs() []debText {
	return []debText{
		{"cuda-libraries-12-4", "", "12.4.1", "Depends: libcublas-12-4 (>= 12.4.5.8), libcusolver-12-4 (>= 11.6.1.9), libcusparse-12-4 (>= 12.3.1.170), libnpp-12-4 (>= 12.2.5.30)\n", nil},
		{"libcublas-12-4", "libcublas", "12.4.5.8", "", nil},
		{"libcusolver-12-4", "libcusolver", "11.6.1.9", "", []string{"libcusparse.so.12", "libcublas.so.12"}},
		{"libcusparse-12-4", "libcusparse", "12.3.1.170", "", nil},
		{"libnpp-12-4", "libnppc", "12.2.5.30", "", nil},
	}
}

const (
	debInfer = "entrypoint [\"/app/infer\"]\nlayer 1 RUN apt-get install cuda-libraries-12-4\n-- 1/app/infer --\n" + hiddenProgram + "runpath " + debLib + "\nneeded libcublas.so.12\n"
	npp      = debLib + "libnppc.so.12.2.5.30"
	cusparse = debLib + "libcusparse.so.12.3.1.170"
	cusolver = debLib + "libcusolver.so.11.6.1.9"
	debBLAS  = debLib + "libcublas.so.12.4.5.8"
)

// TestUnusedDebs claims CUDA's packages that nothing uses, and none that something may use in any way.
func TestUnusedDebs(t *testing.T) {
	all, without := []string{npp, cusparse, cusolver}, []string{npp}
	cuda := debsOf(cudaDebs(), "")
	goes := func(h hidden) hidden { h.class = "unused-packages"; return h }
	stays := func(more string) hidden { return hidden{debInfer, cuda + more, without, ""} }
	python := func(text string) hidden {
		return hidden{unusedStart, main(text) + unusedModules() + own("/usr/local/lib/python3.12/ctypes/__init__.py", "class CDLL:\n    pass") + own("/usr/local/lib/python3.12/ctypes/util.py", "def find_library(name):\n    pass") + cuda, without, ""}
	}
	start := func(argv string) string { return strings.Replace(debInfer, "[\"/app/infer\"]", argv, 1) }
	with := func(name, fields string) string {
		list := cudaDebs()
		for i := range list {
			if list[i].name == name {
				list[i].fields += fields
			}
		}
		return debsOf(list, "")
	}
	another := func(fields, files string) string {
		return debsOf(cudaDebs(), "Package: other\nStatus: install ok installed\nVersion: 1\n"+fields) + own("/app/other", "x") + own("/var/lib/dpkg/info/other.list", files)
	}
	feature := func(rodata string) string {
		return own("/app/feature", hiddenProgram+"undef dlopen\nrodata \""+rodata+"\"")
	}
	sh := "-- 1/usr/bin/sh --\n" + hiddenProgram
	checkHidden(t, map[string]hidden{
		"nothing":                 goes(hidden{debInfer, cuda, all, ""}),
		"what the program needs":  {debInfer, cuda, []string{debBLAS}, ""},
		"a README":                goes(hidden{debInfer, cuda + own("/app/README.md", "libnppc.so.12"), all, ""}),
		"the licence":             goes(hidden{debInfer, cuda + own("/NGC-DL-CONTAINER-LICENSE", "libnppc.so"), all, ""}),
		"NVIDIA's variables":      goes(hidden{"env NV_LIBNPP_PACKAGE=libnpp-12-4=12.2.5.30-1\nenv NV_LIBCUSPARSE_PACKAGE=libcusparse-12-4\n" + debInfer, cuda, all, ""}),
		"the loader's cache":      goes(hidden{debInfer, cuda + own("/etc/ld.so.cache", "glibc-ld.so.cache1.1 libnppc.so.12"), all, ""}),
		"other libraries' names":  goes(hidden{debInfer, cuda + own("/app/x.py", "import nppclient\nX = 'libnppc2.so'\nY = 'libnppc.so.11'"), all, ""}),
		"a known program":         goes(python("import ctypes, ctypes.util\ndef f():\n    ctypes.CDLL(ctypes.util.find_library('cublas'))\n    ctypes.CDLL('libcublas.so.12')")),
		"a known script":          goes(hidden{start("[\"/start.sh\"]"), cuda + sh + script("/start.sh", "#!/usr/bin/sh\nset -e\nexec /app/infer"), all, ""}),
		"a suggestion":            goes(hidden{debInfer, another("Suggests: libnpp-12-4\n", "/app/other\n"), all, ""}),
		"a package not installed": goes(hidden{debInfer, strings.Replace(another("Depends: libnpp-12-4\n", "/app/other\n"), "Package: other\nStatus: install ok installed", "Package: other\nStatus: deinstall ok config-files", 1), all, ""}),

		// Another file needs or opens it.
		"another program":         stays(own("/app/other", hiddenProgram+"needed libnppc.so.12")),
		"a library":               stays(own("/app/lib/p.so", "elf x86_64 soname=p.so\nneeded libnppc.so.12")),
		"dlopen in a feature":     stays(feature("libnppc.so.12\\x00")),
		"dlopen of any release":   stays(feature("libnppc.so\\x00")),
		"a format":                stays(feature("libnpp%s.so.12\\x00")),
		"a beginning":             stays(feature("libnpp\\x00")),
		"a name in parts":         stays(feature("lib%s.so.%d\\x00nppc\\x00")),
		"Rust":                    stays(own("/app/rs", hiddenProgram+"rodata \"cublaslibnppc.so.12curand\"")),
		"Rust, a short name":      stays(own("/app/rs", hiddenProgram+"rodata \"lib{}.socublasnppccurand\"")),
		"UTF-16":                  stays(own("/app/app.dll", "MZ\x00"+strings.Join(strings.Split("libnppc.so.12", ""), "\x00")+"\x00")),
		"GModule":                 stays(own("/app/plugin.so", "elf x86_64 soname=plugin.so\nundef g_module_open\nrodata \"libnppc.so.12\\x00\"")),
		"a path":                  stays(own("/app/settings.json", `{"npp": "`+npp+`"}`)),
		"settings":                stays(own("/etc/infer.conf", "library = libnppc.so.12")),
		"settings in capitals":    stays(own("/app/infer.yaml", "library: NPPC")),
		"a package of Python":     stays(own(unusedSite+"/lib.py", "import ctypes, ctypes.util\ndef f():\n    return ctypes.CDLL(ctypes.util.find_library('nppc'))")),
		"find_library":            python("import ctypes, ctypes.util\ndef f():\n    return ctypes.CDLL(ctypes.util.find_library('nppc'))"),
		"an own function":         python("import ctypes\ndef f():\n    return ctypes.CDLL('libnppc.so')"),
		"an f-string":             python("import ctypes\ndef f(x):\n    return ctypes.CDLL(f'lib{x}.so.12')"),
		"an unknown name":         python("import ctypes\ndef f(name):\n    return ctypes.CDLL(name)"),
		"an unknown search":       python("from ctypes.util import find_library\ndef f(name):\n    return find_library(name)"),
		"code":                    python("def f(code):\n    exec(code)"),
		"a shell's script":        stays(script("/usr/local/bin/tool", "#!/bin/sh\nLD_PRELOAD=libnppc.so.12 exec /app/infer")),
		"a preload of any":        stays(script("/usr/local/bin/tool", "#!/bin/sh\nLD_PRELOAD=$LIB exec /app/infer")),
		"a linker's line":         stays(own("/app/build.sh", "gcc x.c -lnppc")),
		"Lua":                     stays(own("/app/main.lua", `ffi.load("nppc")`)),
		"an ICD":                  stays(own("/etc/OpenCL/vendors/x.icd", "libnppc.so.12")),
		"ld.so.preload":           stays(own("/etc/ld.so.preload", "libnppc.so.12")),
		"a link":                  stays("-- 1/app/lib/npp.so --\nsymlink " + npp + "\n"),
		"alternatives":            stays("-- 1/etc/alternatives/npp --\nsymlink " + npp + "\n-- 1" + debLib + "libnpp-default.so --\nsymlink /etc/alternatives/npp\n"),
		"a development link":      stays("-- 1" + debLib + "libnppc.so --\nsymlink libnppc.so.12\n"),
		"a variable":              {"env NPP_LIBRARY=libnppc.so.12\n" + debInfer, cuda, without, ""},
		"an argument":             {start("[\"/app/infer\",\"--lib\",\"libnppc.so.12\"]"), cuda, without, ""},
		"a health check":          {"healthcheck [\"CMD-SHELL\",\"LD_PRELOAD=libnppc.so.12 /app/infer\"]\n" + debInfer, cuda, without, ""},
		"an archive":              stays(own("/app/plugins.tar.gz", "\x1f\x8b")),
		"a jar":                   stays(own("/app/app.jar", "PK")),
		"an archive of a package": stays(own(unusedSite+"/lib.zip", "PK")),
		"capitals":                stays(own(unusedSite+"/lib.py", "def f(load, name='NPPC'):\n    return load('lib%s.so.12' % name.lower())")),
		"a text in code":          {debInfer, cuda + feature("H\\xb8libcuspaH\\xc3rse.so.12"), []string{cusparse}, ""},
		"encrypted code":          stays(own("/app/x.py", "from pytransform import pyarmor_runtime\n__pyarmor__(1)")),
		"UPX":                     stays(own("/app/tool", hiddenProgram+"rodata \"UPX!\"")),
		"needed by what is used":  {strings.Replace(debInfer, "needed libcublas.so.12", "needed libcusolver.so.11", 1), cuda, []string{cusolver, cusparse, debBLAS}, ""},

		// Another package requires it, or dpkg does not remove it.
		"Depends":             {debInfer, another("Depends: libc6, libnpp-12-4 (>= 12)\n", "/app/other\n"), without, ""},
		"Recommends":          {debInfer, another("Recommends: libnpp-12-4\n", "/app/other\n"), without, ""},
		"an alternative":      {debInfer, another("Depends: libnpp-11-8 | libnpp-12-4\n", "/app/other\n"), without, ""},
		"Provides":            {debInfer, strings.Replace(another("Depends: libnpp\n", "/app/other\n"), "Package: libnpp-12-4\n", "Package: libnpp-12-4\nProvides: libnpp (= 12)\n", 1), without, ""},
		"a metapackage stays": {debInfer, another("Depends: cuda-libraries-12-4\n", "/app/other\n"), without, ""},
		"Essential":           {debInfer, with("libnpp-12-4", "Essential: yes\n"), without, ""},
		"another file":        {debInfer, strings.Replace(cuda, npp+"\n"+debLib, npp+"\n/etc/npp.conf\n"+debLib, 1) + own("/etc/npp.conf", "x"), without, ""},
		"two packages":        {debInfer, another("", npp+"\n"), without, ""},
		"no list":             {debInfer, strings.Replace(cuda, "info/libnpp-12-4.list", "info/libnpp-12-4.old", 1), without, ""},
		"no dpkg":             {debInfer, strings.Replace(cuda, "dpkg/status", "dpkg/status-old", 1), without, ""},

		// The program is not known.
		"a shell":              {start("[\"/usr/bin/sh\"]"), cuda + sh, without, ""},
		"no program":           {strings.Replace(debInfer, "entrypoint [\"/app/infer\"]\n", "", 1), cuda, without, ""},
		"an unknown start":     {start("[\"/start.sh\"]"), cuda + sh + script("/start.sh", "#!/usr/bin/sh\n. /data/hooks.sh\nexec /app/infer"), without, ""},
		"an unknown argument":  {start("[\"/start.sh\"]"), cuda + sh + script("/start.sh", "#!/usr/bin/sh\nexec /app/infer $(cat /data/args)"), without, ""},
		"an interpreter":       {start("[\"/usr/bin/julia\"]"), cuda + own("/usr/bin/julia", hiddenProgram), without, ""},
		"Python's interpreter": {strings.Replace(unusedStart, ",\"/app/main.py\"", "", 1), unusedModules() + cuda, without, ""},
		"a package's program":  {strings.Replace(unusedStart, "\"/app/main.py\"", "\"-m\",\"server\"", 1), own(unusedSite+"/server.py", "x = 1") + unusedModules() + cuda, without, ""},
		"plug-ins":             {strings.Replace(debInfer, "needed libcublas.so.12", "undef dlopen", 1), cuda, without, ""},
		"a library of users":   {strings.Replace(debInfer, "needed libcublas.so.12", "needed libplugin.so", 1), cuda, without, ""},
		"GStreamer":            {strings.Replace(debInfer, "needed libcublas.so.12", "needed libgstreamer-1.0.so.0", 1), cuda + own(debLib+"libgstreamer-1.0.so.0", "elf x86_64 soname=libgstreamer-1.0.so.0"), without, ""},
		"TensorRT's program":   {start("[\"/app/trtexec\"]"), cuda + own("/app/trtexec", hiddenProgram), without, ""},
		"sleep":                {start("[\"/usr/bin/sleep\",\"infinity\"]"), cuda + own("/usr/bin/sleep", hiddenProgram), without, ""},
		"a service and tail":   {start("[\"/start.sh\"]"), cuda + sh + own("/usr/bin/tail", hiddenProgram) + script("/start.sh", "#!/usr/bin/sh\n/app/infer &\nexec tail -f /var/log/x"), without, ""},
		"a tool of the system": {start("[\"/usr/bin/nginx\"]"), cuda + own("/usr/bin/nginx", hiddenProgram), without, ""},
		"a system's for GPUs":  goes(hidden{start("[\"/usr/bin/render\"]"), cuda + own("/usr/bin/render", hiddenProgram+"runpath "+debLib+"\nneeded libcublas.so.12"), without, ""}),
		"a short sleep":        goes(hidden{start("[\"/start.sh\"]"), cuda + sh + own("/usr/bin/sleep", hiddenProgram) + script("/start.sh", "#!/usr/bin/sh\nsleep 1\nexec /app/infer"), without, ""}),
		"installs first":       {start("[\"/start.sh\"]"), cuda + sh + script("/start.sh", "#!/usr/bin/sh\napt-get install -y x\nexec /app/infer"), without, ""},
		"small":                {debInfer, strings.ReplaceAll(cuda, strings.Repeat("x", 400_000), "x"), without, ""},
	})
}

// TestUnusedDebsText shows the packages below the package without files that requires them, and the commands.
func TestUnusedDebsText(t *testing.T) {
	root, err := images.Text("base/rootfs.txtar")
	if err != nil {
		t.Fatal(err)
	}
	list := cudaDebs()
	list[4].fields = "X-Field: x\nStatus: hold ok installed\n"
	base, sections, _ := strings.Cut(string(root), "\n-- ")
	head, text, _ := strings.Cut(debInfer, "\n-- ")
	r := shows(t, []byte(base+"\n"+head+"\n-- "+sections+"-- "+text+debsOf(list, "")),
		"  command  apt-mark manual libcublas-12-4 && apt-get purge -y --allow-change-held-packages cuda-libraries-12-4 libcusolver-12-4 libcusparse-12-4 libnpp-12-4\n",
		"  instead  apt-get install -y --no-install-recommends libcublas-12-4\n",
		"cuda-libraries-12-4 12.4.1-1, with 3 packages that only it requires: libcusolver-12-4, libcusparse-12-4, libnpp-12-4  layer 2\n")
	if links := len(r.Groups[len(r.Groups)-1].Rest); links != 3 {
		t.Errorf("%d links go with the packages, not 3", links)
	}
}
