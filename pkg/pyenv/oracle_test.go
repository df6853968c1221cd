package pyenv

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// truth is the output of testdata/oracle.py.
type truth struct {
	Version        []int
	Path           []string
	Prefix         string
	ExecPrefix     string `json:"exec_prefix"`
	BasePrefix     string `json:"base_prefix"`
	BaseExecPrefix string `json:"base_exec_prefix"`
	PlatLibDir     string
	Builtins       []string
	Suffixes       []string
	Executable     string
	Modules        map[string][]string
	Specs          map[string]found
	Points         [][]string          // group, name, module, attribute, distribution
	Tops           map[string][]string // distributions by top-level module
}

type found struct {
	Kind   Kind
	File   string
	Search []string
}

// python is an interpreter of this machine.
type python struct {
	exe     string
	version string // 3.11
	library string // libpython, or ""
	trees   []string
}

// pythons returns the interpreters of this machine that are at least 3.6, one of a
// file.
func pythons(t *testing.T) []python {
	t.Helper()
	var list []python
	seen := map[string]bool{}
	candidates := []string{"/usr/bin/python3", "/usr/local/bin/python3"}
	versions, _ := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".pyenv/versions/3.*/bin/python3"))
	for _, exe := range append(candidates, versions...) {
		real, err := filepath.EvalSymlinks(exe)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		out, err := exec.Command(exe, "-I", "-c", `import sys, sysconfig as s
print("%d.%d" % sys.version_info[:2], s.get_config_var("LIBDIR") + "/" + s.get_config_var("INSTSONAME") if s.get_config_var("Py_ENABLE_SHARED") else "-", sys.base_prefix)`).Output()
		if err != nil {
			t.Fatalf("%s: %v", exe, err)
		}
		f := strings.Fields(string(out))
		p := python{exe: exe, version: f[0]}
		if f[1] != "-" && readsLibrary(t, real) {
			p.library = f[1]
		}
		p.trees = []string{
			f[2] + "/lib/python" + f[0], f[2] + "/lib64/python" + f[0], f[2] + "/include/python" + f[0] + "/patchlevel.h", "/usr/lib/python3",
			"/usr/local/lib/python" + f[0], "/etc/python" + f[0], "/var/lib/dpkg/status",
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		t.Fatal("no python3: install the Debian package python3")
	}
	return list
}

// readsLibrary reports whether a program needs libpython. Debian builds the library, but
// its program does not.
func readsLibrary(t *testing.T, exe string) bool {
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	return len(b) < 1<<20
}

// asked are names that each oracle is asked for, in addition to all that it lists.
var asked = []string{
	"os", "os.path", "importlib.util", "importlib.machinery", "sys", "_imp", "zipimport", "collections.abc", "no_such_module", "distutils",
	"encodings.no_such_module", "shadowed", "nspace", "nspace.one", "nspace.two", "nspace.three", "order", "order.sub", "compiled", "compiledpkg",
	"compiledpkg.sub", "dirmodule", "withinit", "Case", "case", "linked", "linkedpkg", "linkedpkg.inner", "dangling", "in_zip", "pkg_in_zip",
	"pkg_in_zip.mod", "ns_in_zip", "ns_in_zip.mod", "deep_in_zip", "extmod", "abi3mod", "plainso", "taggedother", "from_pth", "egg_one", "legacy",
	"legacy.part", "legacy.deep", "editable_pkg", "editable_pkg.sub", "editable_mod", "editable_ns", "editable_ns.inner", "hatched", "appended_by_line", "__phello__",
}

// ask runs the oracle.
func ask(t *testing.T, exe, dir string, env, flags []string) truth {
	t.Helper()
	script, err := os.ReadFile("testdata/oracle.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, slices.Concat(flags, []string{"-c", string(script)}, asked)...)
	cmd.Dir, cmd.Env = dir, append([]string{"LC_ALL=C.UTF-8"}, env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", exe, flags, err, errs.String())
	}
	var tr truth
	if err := json.Unmarshal(out, &tr); err != nil {
		t.Fatalf("%s: %v\n%s", exe, err, out)
	}
	return tr
}

// scene is one way to start an interpreter.
type scene struct {
	name  string
	exe   string
	env   []string
	flags []string
}

// options returns the options that the scene gives.
func (s scene) options(dir string) Options {
	o := Options{Env: map[string]string{}, Cwd: dir}
	for _, v := range s.env {
		name, value, _ := strings.Cut(v, "=")
		o.Env[name] = value
	}
	for _, f := range s.flags {
		switch f {
		case "-I":
			o.Isolated = true
		case "-E":
			o.IgnoreEnv = true
		case "-s":
			o.NoUserSite = true
		case "-S":
			o.NoSite = true
		case "-P":
			o.SafePath = true
		}
	}
	return o
}

// TestPython compares with the Pythons of this machine: sys.path, the prefixes, the
// builtin modules, and the specification of each module on the path.
func TestPython(t *testing.T) {
	for _, p := range pythons(t) {
		t.Run(p.version+filepath.Dir(p.exe), func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			scenes := furnish(t, p, dir)
			programs := []string{p.exe}
			if p.library != "" {
				programs = append(programs, p.library)
			}
			for _, s := range scenes {
				programs = append(programs, s.exe)
			}
			fsys := machineFS(t, programs, append(p.trees, dir)...)
			for _, s := range scenes {
				t.Run(s.name, func(t *testing.T) { compareScene(t, fsys, p, s, dir) })
			}
		})
	}
}

func compareScene(t *testing.T, fsys *layers.FS, p python, s scene, dir string) {
	want := ask(t, s.exe, dir, s.env, s.flags)
	in, err := Open(fsys, s.exe, s.options(dir))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, in, want)
}

// compare reports the differences of an interpreter from the truth.
func compare(t *testing.T, in *Interpreter, want truth) {
	t.Helper()
	if len(in.Unknown) > 0 {
		t.Errorf("unknown: %q", in.Unknown)
	}
	same := func(what string, got, want any) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-Python +ours):\n%s", what, d)
		}
	}
	path := want.Path
	if len(path) > 0 && path[0] == "" && !in.SafePath {
		path = path[1:]
	}
	if in.Micro < 0 && strings.Contains(t.Name(), "._pth") { // nothing beside a ._pth file says it
		want.Version[2] = -1
	}
	same("version", []int{in.Major, in.Minor, in.Micro}, want.Version)
	same("sys.path", in.SysPath, path)
	same("prefixes", []string{in.Prefix, in.ExecPrefix, in.BasePrefix, in.BaseExecPrefix}, []string{want.Prefix, want.ExecPrefix, want.BasePrefix, want.BaseExecPrefix})
	same("sys.platlibdir", in.PlatLibDir, want.PlatLibDir)
	same("builtins", in.Builtins, want.Builtins)
	same("suffixes", in.Suffixes, want.Suffixes)
	for _, entry := range path {
		got, known := in.Modules(entry)
		if !known {
			t.Errorf("%s was not read", entry)
		}
		if len(got) > 0 || len(want.Modules[entry]) > 0 {
			same("modules of "+entry, got, want.Modules[entry])
		}
	}
	compareSpecs(t, in, want)
	if in.Minor >= 12 {
		same("entry points", points(t, in, want), want.Points)
		same("top-level modules", tops(in, want), want.Tops)
	}
}

// points returns the entry points of the groups that there are.
func points(t *testing.T, in *Interpreter, want truth) [][]string {
	t.Helper()
	all := [][]string{}
	seen := map[string]bool{}
	for _, w := range want.Points {
		group := w[0]
		if seen[group] {
			continue
		}
		seen[group] = true
		list, unknown := in.EntryPoints(group)
		if len(unknown) > 0 {
			t.Errorf("unknown entry points: %q", unknown)
		}
		for _, p := range list {
			all = append(all, []string{group, p.Name, p.Module, p.Attr, realName(want, p.Dist)})
		}
	}
	slices.SortFunc(all, slices.Compare)
	return all
}

// realName returns the name of a distribution as its metadata spells it, which Python
// prints.
func realName(want truth, dist string) string {
	for _, p := range want.Points {
		if Normalized(p[4]) == Normalized(dist) {
			return p[4]
		}
	}
	for _, list := range want.Tops {
		for _, name := range list {
			if Normalized(name) == Normalized(dist) {
				return name
			}
		}
	}
	return dist
}

func tops(in *Interpreter, want truth) map[string][]string {
	all := map[string][]string{}
	for _, d := range in.Distributions() {
		for _, m := range d.TopLevel {
			if m[0] < '0' || m[0] > '9' { // no identifier
				all[m] = append(all[m], realName(want, d.Name))
			}
		}
	}
	for _, names := range all {
		slices.Sort(names)
	}
	return all
}

func compareSpecs(t *testing.T, in *Interpreter, want truth) {
	t.Helper()
	failed := 0
	for name, w := range want.Specs {
		var s *Spec
		if up, _, ok := cutLast(name); ok {
			s = in.Find(name, want.Specs[up].Search)
		} else {
			s = in.Find(name, want.Path)
		}
		g := found{Kind: s.Kind, File: s.File, Search: s.Search}
		if s.Member != "" {
			g.File, g.Kind = s.File+"/"+s.Member, Source
		}
		if g.Kind == Frozen {
			g.File = ""
		}
		if d := cmp.Diff(w, g); d != "" || s.Uncertain != "" {
			if failed++; failed <= 10 {
				t.Errorf("%s: %s (-Python +ours)\n%s", name, s.Uncertain, d)
			}
		}
	}
	if failed > 10 {
		t.Errorf("%d of %d modules differ", failed, len(want.Specs))
	}
	t.Logf("%d modules", len(want.Specs))
}

// furnish makes environments and directories of modules in dir, and returns ways to start
// the interpreter with them.
func furnish(t *testing.T, p python, dir string) []scene {
	t.Helper()
	venv := func(name string, args ...string) string {
		out, err := exec.Command(p.exe, slices.Concat([]string{"-I", "-m", "venv", "--without-pip"}, args, []string{dir + "/" + name})...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s\ninstall the Debian package python3-venv", p.exe, err, out)
		}
		return dir + "/" + name + "/bin/python"
	}
	plain, copied, system := venv("venv"), venv("copied", "--copies"), venv("system", "--system-site-packages")
	site := "/lib/python" + p.version + "/site-packages/"
	furnishModules(t, p, dir+"/mods")
	furnishSite(t, p, dir, dir+"/venv"+site)
	furnishSite(t, p, dir, dir+"/home/.local"+site)
	link(t, plain, dir+"/bin/venvpython")
	link(t, p.exe, dir+"/bin/python3")
	home := "HOME=" + dir + "/home"
	mods := "PYTHONPATH=" + dir + "/mods/a:" + dir + "/mods/b:" + dir + "/mods/c.zip:" + dir + "/mods/c.zip/deep::" + dir + "/missing:mods/rel"
	scenes := []scene{
		{"plain", p.exe, []string{"HOME=/nonexistent"}, nil},
		{"user site", p.exe, []string{home}, nil},
		{"no user site", p.exe, []string{home, "PYTHONNOUSERSITE=1"}, nil},
		{"user base", p.exe, []string{"HOME=/nonexistent", "PYTHONUSERBASE=" + dir + "/home/.local"}, []string{"-E"}},
		{"-s", p.exe, []string{home, mods}, []string{"-s"}},
		{"-I", p.exe, []string{home, mods}, []string{"-I"}},
		{"-E", p.exe, []string{home, mods}, []string{"-E"}},
		{"path", p.exe, []string{home, mods}, nil},
		{"venv", plain, []string{home}, nil},
		{"venv with path", plain, []string{home, mods}, nil},
		{"copied venv", copied, []string{home}, nil},
		{"venv with system", system, []string{home}, nil},
		{"link to venv", dir + "/bin/venvpython", []string{home}, nil},
		{"link", dir + "/bin/python3", []string{home}, nil},
		{"-S", plain, []string{home}, []string{"-S"}},
		{"home", p.exe, []string{"HOME=/nonexistent", "PYTHONHOME=" + baseOf(t, p)}, nil},
		{"home in venv", plain, []string{"HOME=/nonexistent", "PYTHONHOME=" + baseOf(t, p)}, nil},
		{"distutils of the library", p.exe, []string{"HOME=/nonexistent", "SETUPTOOLS_USE_DISTUTILS=stdlib"}, nil},
	}
	if !strings.HasPrefix(p.version, "3.1") || p.version == "3.10" {
		return scenes
	}
	return append(scenes,
		scene{"-P", p.exe, []string{home, mods}, []string{"-P"}},
		scene{"PYTHONSAFEPATH", p.exe, []string{home, mods, "PYTHONSAFEPATH=1"}, nil},
		furnishPth(t, p, dir, "bare", ""), furnishPth(t, p, dir, "sited", "import site\n"))
}

func baseOf(t *testing.T, p python) string {
	out, err := exec.Command(p.exe, "-I", "-c", "import sys; print(sys.base_prefix)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// furnishPth makes a program with a ._pth file.
func furnishPth(t *testing.T, p python, dir, name, more string) scene {
	link(t, p.exe, dir+"/"+name+"/python3")
	base := baseOf(t, p)
	write(t, dir+"/"+name+"/python3._pth", fmt.Sprintf("# comment\n%s/lib/python%s\n%s/lib/python%s/lib-dynload # too\n../mods/a\nimport os\n%s", base, p.version, base, p.version, more))
	return scene{"._pth " + name, dir + "/" + name + "/python3", []string{"HOME=/nonexistent", "PYTHONPATH=/nowhere"}, nil}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// furnishModules makes directories and a zip file of modules that hide one another.
func furnishModules(t *testing.T, p python, dir string) {
	t.Helper()
	tag := strings.TrimSpace(run(t, p.exe, "-I", "-c", "import importlib.machinery as m; print(m.EXTENSION_SUFFIXES[0])"))
	for _, f := range []string{
		"a/shadowed.py", "b/shadowed/__init__.py", "a/nspace/one.py", "b/nspace/two.py", "b/nspace/three/x.py", "a/order.py", "a/order" + tag,
		"a/order/__init__.py", "a/order/__init__.abi3.so", "a/order/sub.py", "a/order/sub.pyc", "a/order/sub.so", "a/compiled.pyc",
		"a/compiledpkg/__init__.pyc", "a/compiledpkg/sub.pyc", "a/dirmodule.py/x", "b/dirmodule.py", "a/withinit/__init__.py/x", "b/withinit.py",
		"a/Case.py", "b/case.py", "real/linkedpkg/__init__.py", "real/linkedpkg/inner.py", "real/mod.py", "a/extmod" + tag, "b/extmod.py",
		"a/abi3mod.abi3.so", "a/plainso.so", "a/taggedother.cpython-27-x86_64-linux-gnu.so", "a/a.b.py", "a/no-identifier.py", "rel/from_rel.py",
	} {
		write(t, dir+"/"+f, "")
	}
	link(t, "../real/mod.py", dir+"/a/linked.py")
	link(t, "../real/linkedpkg", dir+"/a/linkedpkg")
	link(t, "nowhere.py", dir+"/a/dangling.py")
	writeZip(t, dir+"/c.zip", "in_zip.py", "pkg_in_zip/__init__.py", "pkg_in_zip/mod.py", "ns_in_zip/", "ns_in_zip/mod.py", "deep/deep_in_zip.py")
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

func writeZip(t *testing.T, name string, files ...string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for _, file := range files {
		if _, err := z.Create(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

// nspkg returns the line that setuptools/namespaces.py writes for a package.
func nspkg(pkg string) string {
	parts := "('" + strings.ReplaceAll(pkg, ".", "', '") + "')"
	up, child, dotted := cutLast(pkg)
	if !dotted {
		parts = "('" + pkg + "',)"
	}
	line := "import sys, types, os;p = os.path.join(sys._getframe(1).f_locals['sitedir'], *" + parts + ");importlib = __import__('importlib.util');" +
		"__import__('importlib.machinery');m = sys.modules.setdefault('PKG', importlib.util.module_from_spec(" +
		"importlib.machinery.PathFinder.find_spec('PKG', [os.path.dirname(p)])));m = m or sys.modules.setdefault('PKG', types.ModuleType('PKG'));" +
		"mp = (m or []) and m.__dict__.setdefault('__path__',[]);(p not in mp) and mp.append(p)"
	line = strings.ReplaceAll(line, "PKG", pkg)
	if dotted {
		line += ";m and setattr(sys.modules['" + up + "'], '" + child + "', m)"
	}
	return line + "\n"
}

// furnishSite makes the .pth files of installers in a directory of packages. src is for
// the sources of editable installs.
func furnishSite(t *testing.T, p python, src, site string) {
	t.Helper()
	write(t, site+"b.pth", "# comment\n\n  \n"+src+"/pth\nnot-there\nrelative\r\n"+src+"/pth\n../up/../up\n")
	write(t, site+"legacy-1.0-nspkg.pth", nspkg("legacy")+nspkg("legacy.deep"))
	write(t, site+"legacy/deep/leaf.py", "")
	write(t, site+"legacy/part.py", "")
	write(t, site+"up/x.py", "")
	write(t, site+"../up/from_up.py", "")
	write(t, site+"relative/from_relative.py", "")
	write(t, src+"/pth/from_pth.py", "")
	write(t, site+"easy-install.pth", "import sys; sys.__plen = len(sys.path)\n./one.egg\n"+src+"/two.egg\n"+
		"import sys; new=sys.path[sys.__plen:]; del sys.path[sys.__plen:]; p=getattr(sys,'__egginsert',0); sys.path[p:p]=new; sys.__egginsert = p+len(new)\n")
	writeEgg(t, site+"one.egg")
	write(t, src+"/two.egg/egg_two.py", "")
	write(t, site+"zz_append.pth", "import sys, os; d = '"+src+"/base'; d = os.path.join(os.getenv('NO_SUCH_VARIABLE') or d, 'appended'); d in sys.path or sys.path.append(d);\n")
	write(t, src+"/base/appended/appended_by_line.py", "")
	write(t, site+"last.pth", src+"/last\n")
	write(t, src+"/last/last.py", "")
	furnishEditable(t, p, src, site)
}

func writeEgg(t *testing.T, name string) { writeZip(t, name, "egg_one.py") }

// furnishEditable makes editable installs.
func furnishEditable(t *testing.T, p python, src, site string) {
	t.Helper()
	text, err := os.ReadFile("testdata/editable_finder.py.txt")
	if err != nil {
		t.Fatal(err)
	}
	write(t, site+"__editable__.demo-1.0.pth", "import __editable___demo_1_0_finder; __editable___demo_1_0_finder.install()")
	finder := strings.ReplaceAll(string(text), "@SRC@", src)
	if slices.Contains([]string{"3.6", "3.7", "3.8"}, p.version) { // as setuptools wrote it before 69
		finder = strings.NewReplacer("from __future__ import annotations\n", "", ": dict[str, str]", "", ": dict[str, list[str]]", "").Replace(finder)
	}
	write(t, site+"__editable___demo_1_0_finder.py", finder)
	for _, f := range []string{"editable_pkg/__init__.py", "editable_pkg/sub.py", "editable_mod.py", "ns/inner.py"} {
		write(t, src+"/edit/"+f, "")
	}
}
