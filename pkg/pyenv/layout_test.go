package pyenv

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// textFS makes a file system of lines: PATH, PATH -> LINK, PATH = TEXT with \n, or
// PATH ELF MACHINE INTERPRETER NEEDED. A path that ends in a slash is a directory.
func textFS(t testing.TB, text string, skipped ...layers.Skip) *layers.FS {
	t.Helper()
	l := &layers.Layer{Skipped: skipped}
	dirs := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		e := &layers.Entry{Path: strings.Trim(name, "/"), Inode: i + 1, Mode: 0o755}
		word, arg, _ := strings.Cut(rest, " ")
		switch {
		case strings.HasSuffix(name, "/"):
			e.Type = layers.Dir
		case word == "->":
			e.Type, e.Link = layers.Symlink, arg
		case word == "=":
			e.Content = []byte(strings.ReplaceAll(arg, `\n`, "\n"))
			e.Size = int64(len(e.Content))
		case word == "unread":
			e.Size = 100
		case word == "ELF":
			e.Size = 100
			e.Object = object(t, strings.Fields(arg))
		}
		l.Entries = append(l.Entries, e)
		dirs[e.Path] = true
	}
	for _, e := range slices.Clone(l.Entries) {
		for dir := parent(e.Path); dir != ""; dir = parent(dir) {
			if !dirs[dir] {
				dirs[dir] = true
				l.Entries = append(l.Entries, &layers.Entry{Path: dir, Type: layers.Dir, Mode: 0o755})
			}
		}
	}
	return layers.Merge(l)
}

func object(t testing.TB, words []string) *elfdeps.Object {
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[words[0]]
	if machine == 0 {
		t.Fatalf("unknown machine %s", words[0])
	}
	return &elfdeps.Object{Machine: machine, Interp: words[1], Needed: words[2:]}
}

const glibc, musl = "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"

// layouts are the files of Pythons in popular images, and the paths that the images print.
var layouts = []struct {
	name, files, exe string
	options          Options
	version          string // with micro
	prefixes         string // sys.prefix, sys.base_prefix
	path             string
	suffix           string // the first
}{
	{
		name: "python:3.12-slim",
		files: `/usr/local/bin/python3.12 ELF amd64 ` + glibc + ` libpython3.12.so.1.0
/usr/local/bin/python3 -> python3.12
/usr/local/bin/python -> python3
/usr/local/lib/libpython3.12.so.1.0 ELF amd64 -
/usr/local/lib/python3.12/os.py
/usr/local/lib/python3.12/site.py = PREFIXES = [sys.prefix, sys.exec_prefix]
/usr/local/lib/python3.12/lib-dynload/math.cpython-312-x86_64-linux-gnu.so
/usr/local/lib/python3.12/site-packages/`,
		exe: "/usr/local/bin/python", version: "3.12.7", prefixes: "/usr/local /usr/local",
		options: Options{Env: map[string]string{"PYTHON_VERSION": "3.12.7"}, User: "/root"},
		path:    "/usr/local/lib/python312.zip /usr/local/lib/python3.12 /usr/local/lib/python3.12/lib-dynload /usr/local/lib/python3.12/site-packages",
		suffix:  ".cpython-312-x86_64-linux-gnu.so",
	},
	{
		name: "conda environment",
		files: `/opt/conda/envs/ml/bin/python3.11 ELF amd64 ` + glibc + ` libc.so.6
/opt/conda/envs/ml/bin/python -> python3.11
/opt/conda/envs/ml/conda-meta/python-3.11.9-hb806964_0_cpython.json
/opt/conda/envs/ml/lib/python3.11/os.py
/opt/conda/envs/ml/lib/python3.1 -> python3.11
/opt/conda/envs/ml/lib/python3.11/lib-dynload/math.cpython-311-x86_64-linux-gnu.so
/opt/conda/envs/ml/lib/python3.11/site-packages/
/opt/conda/bin/python3.12 ELF amd64 ` + glibc + `
/opt/conda/lib/python3.12/os.py`,
		exe: "/opt/conda/envs/ml/bin/python", version: "3.11.9", prefixes: "/opt/conda/envs/ml /opt/conda/envs/ml",
		path: "/opt/conda/envs/ml/lib/python311.zip /opt/conda/envs/ml/lib/python3.11 /opt/conda/envs/ml/lib/python3.11/lib-dynload " +
			"/opt/conda/envs/ml/lib/python3.11/site-packages",
		options: Options{User: "/root"}, suffix: ".cpython-311-x86_64-linux-gnu.so",
	},
	{
		name: "uv",
		files: `/root/.local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu/bin/python3.12 ELF amd64 ` + glibc + ` libc.so.6
/root/.local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu/lib/python3.12/os.py
/root/.local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu/lib/python3.12/lib-dynload/_crypt.cpython-312-x86_64-linux-gnu.so
/root/.local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu/lib/python3.12/site-packages/
/app/.venv/bin/python -> /root/.local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu/bin/python3.12
/app/.venv/pyvenv.cfg = home = /root/.local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu/bin\nimplementation = CPython\nuv = 0.5.11\nversion_info = 3.12.8\ninclude-system-site-packages = false\n
/app/.venv/lib/python3.12/site-packages/_virtualenv.pth = import _virtualenv
/app/.venv/lib/python3.12/site-packages/_virtualenv.py = sys.meta_path.insert(0, _Finder())
/app/.venv/lib64 -> lib`,
		exe: "/app/.venv/bin/python", version: "3.12.8",
		prefixes: "/app/.venv /root/.local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu",
		path: strings.ReplaceAll("P/lib/python312.zip P/lib/python3.12 P/lib/python3.12/lib-dynload ", "P", "/root/.local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu") +
			"/app/.venv/lib/python3.12/site-packages",
		options: Options{User: "/root"}, suffix: ".cpython-312-x86_64-linux-gnu.so",
	},
	{
		name: "ubi9",
		files: `/usr/bin/python3.9 ELF amd64 ` + glibc + ` libpython3.9.so.1.0
/usr/bin/python3 -> python3.9
/usr/lib64/libpython3.9.so.1.0 ELF amd64 -
/usr/lib64/python3.9/os.py
/usr/lib64/python3.9/lib-dynload/math.cpython-39-x86_64-linux-gnu.so
/usr/lib64/python3.9/site-packages/
/usr/lib/python3.9/site-packages/
/usr/local/lib64/python3.9/site-packages/
/usr/local/lib/python3.9/site-packages/
/etc/redhat-release`,
		exe: "/usr/bin/python3", version: "3.9.-1", prefixes: "/usr /usr",
		path: "/usr/lib64/python39.zip /usr/lib64/python3.9 /usr/lib64/python3.9/lib-dynload /usr/local/lib64/python3.9/site-packages " +
			"/usr/local/lib/python3.9/site-packages /usr/lib64/python3.9/site-packages /usr/lib/python3.9/site-packages",
		options: Options{User: "/root"}, suffix: ".cpython-39-x86_64-linux-gnu.so",
	},
	{
		name: "venv on ubi9",
		files: `/usr/bin/python3.9 ELF amd64 ` + glibc + ` libpython3.9.so.1.0
/usr/lib64/libpython3.9.so.1.0 ELF amd64 -
/usr/lib64/python3.9/os.py
/usr/lib64/python3.9/site.py = PREFIXES = [sys.prefix, sys.exec_prefix]\n    if ENABLE_USER_SITE and 'RPM_BUILD_ROOT' not in os.environ:\n        PREFIXES.insert(0, "/usr/local")
/usr/lib64/python3.9/lib-dynload/math.cpython-39-x86_64-linux-gnu.so
/usr/lib64/python3.9/site-packages/
/usr/local/lib/python3.9/site-packages/
/opt/app-root/bin/python -> /usr/bin/python3.9
/opt/app-root/pyvenv.cfg = home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.9.18\n
/opt/app-root/lib/python3.9/site-packages/
/opt/app-root/lib64 -> lib`,
		exe: "/opt/app-root/bin/python", version: "3.9.18", prefixes: "/opt/app-root /usr",
		path: "/usr/lib64/python39.zip /usr/lib64/python3.9 /usr/lib64/python3.9/lib-dynload /opt/app-root/lib64/python3.9/site-packages " +
			"/opt/app-root/lib/python3.9/site-packages",
		options: Options{User: "/root"}, suffix: ".cpython-39-x86_64-linux-gnu.so",
	},
	{
		name: "alpine",
		files: `/usr/bin/python3.12 ELF amd64 ` + musl + ` libpython3.12.so.1.0
/usr/bin/python3 -> python3.12
/usr/lib/libpython3.12.so.1.0 ELF amd64 -
/usr/lib/python3.12/os.py
/usr/lib/python3.12/lib-dynload/math.cpython-312-x86_64-linux-musl.so
/usr/lib/python3.12/site-packages/
/lib/apk/db/installed = P:busybox\nV:1.36.1-r29\n\nP:python3\nV:3.12.12-r0\nA:x86_64\n\n`,
		exe: "/usr/bin/python3", version: "3.12.12", prefixes: "/usr /usr",
		path:    "/usr/lib/python312.zip /usr/lib/python3.12 /usr/lib/python3.12/lib-dynload /usr/lib/python3.12/site-packages",
		options: Options{User: "/root"}, suffix: ".cpython-312-x86_64-linux-musl.so",
	},
	{
		name: "ubuntu 22.04 on arm64",
		files: `/usr/bin/python3.10 ELF arm64 /lib/ld-linux-aarch64.so.1 libc.so.6
/usr/bin/python3 -> python3.10
/usr/lib/python3.10/os.py
/usr/lib/python3.10/lib-dynload/_json.cpython-310-aarch64-linux-gnu.so
/usr/lib/python3/dist-packages/
/usr/local/lib/python3.10/dist-packages/
/var/lib/dpkg/status = Package: python3.10-minimal\nStatus: install ok installed\nVersion: 3.10.12-1~22.04.7\n\n`,
		exe: "/usr/bin/python3", version: "3.10.12", prefixes: "/usr /usr",
		path:    "/usr/lib/python310.zip /usr/lib/python3.10 /usr/lib/python3.10/lib-dynload /usr/local/lib/python3.10/dist-packages /usr/lib/python3/dist-packages",
		options: Options{User: "/root"}, suffix: ".cpython-310-aarch64-linux-gnu.so",
	},
	{
		name: "free-threaded",
		files: `/usr/local/bin/python3.13t ELF amd64 ` + glibc + ` libpython3.13t.so.1.0
/usr/local/lib/libpython3.13t.so.1.0 ELF amd64 -
/usr/local/include/python3.13t/patchlevel.h = #define PY_VERSION          "3.13.1"\n
/usr/local/lib/python3.13t/os.py
/usr/local/lib/python3.13t/lib-dynload/math.cpython-313t-x86_64-linux-gnu.so
/usr/local/lib/python3.13t/site-packages/`,
		exe: "/usr/local/bin/python3.13t", version: "3.13.1", prefixes: "/usr/local /usr/local",
		path:    "/usr/local/lib/python313t.zip /usr/local/lib/python3.13t /usr/local/lib/python3.13t/lib-dynload /usr/local/lib/python3.13t/site-packages",
		options: Options{User: "/root"}, suffix: ".cpython-313t-x86_64-linux-gnu.so",
	},
}

func TestLayouts(t *testing.T) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			in, err := Open(textFS(t, l.files), l.exe, l.options)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{fmt.Sprintf("%d.%d.%d", in.Major, in.Minor, in.Micro), in.Prefix + " " + in.BasePrefix, strings.Join(in.SysPath, " "), in.Suffixes[0]}
			if d := cmp.Diff([]string{l.version, l.prefixes, l.path, l.suffix}, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			for _, u := range in.Unknown { // the files of these texts have no symbols
				if !strings.Contains(u, "exports no init functions") {
					t.Errorf("unknown: %s", u)
				}
			}
		})
	}
}

// TestOpenErrors shows what Open says of files that are no Python that it knows.
func TestOpenErrors(t *testing.T) {
	fsys := textFS(t, `/bin/script = x
/bin/pypy3 ELF amd64 `+glibc+` libpypy3.10-c.so
/bin/cat ELF amd64 `+glibc+`
/bin/python ELF amd64 `+glibc+`
/opt/lib/python3.11/os.py
/opt/lib/python3.12/os.py
/opt/bin/python3 ELF amd64 `+glibc+`
/one/lib/python3.11/os.py
/one/lib/python3.1 -> python3.11
/one/bin/python3 ELF amd64 `+glibc)
	e, _, _ := fsys.Lookup("/bin/script")
	e.Shebang = "/bin/sh"
	for exe, want := range map[string]string{
		"/bin/none": "is not there", "/bin/script": "is a script: #!/bin/sh", "/bin/pypy3": "is PyPy", "/bin/cat": "is no Python",
		"/bin/python": "has an unknown version", "/opt/bin/python3": "has an unknown version", "bin/python": "is no absolute path",
	} {
		if _, err := Open(fsys, exe, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", exe, err, want)
		}
	}
	in, err := Open(fsys, "/one/bin/python3", Options{})
	if err != nil || in.Minor != 11 {
		t.Errorf("version by the standard library: got %+v, %v", in, err)
	}
}

// base is a Python without packages.
const base = `/usr/bin/python3.11 ELF amd64 ` + glibc + ` libc.so.6
/usr/lib/python3.11/os.py
/usr/lib/python3.11/json/__init__.py
/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so
/usr/lib/python3.11/site.py = x
/usr/lib/python3.11/site-packages/here.py
`

// wholeBase is base with as many files as a whole standard library.
var wholeBase = func() string {
	var b strings.Builder
	for i := range minStdlib {
		fmt.Fprintf(&b, "/usr/lib/python3.11/filler%d.py\n", i)
	}
	return base + b.String()
}()

// TestUncertain shows when an answer is not certain, and when it is all the same.
func TestUncertain(t *testing.T) {
	for _, tt := range []struct {
		name, files, module string
		skipped             []layers.Skip
		kind                Kind
		uncertain           string
	}{
		{"certain", "", "absent", nil, Missing, ""},
		{"package that is there", "", "json", nil, Source, ""},
		{"directory skipped", "", "absent", []layers.Skip{{Path: "usr/lib/python3.11/site-packages", Why: "denied"}}, Missing, "/usr/lib/python3.11/site-packages was not read: denied"},
		{"before the one that is found", "", "here", []layers.Skip{{Path: "usr/lib/python3.11/lib-dynload", Why: "denied"}}, Source, "/usr/lib/python3.11/lib-dynload was not read: denied"},
		{"after the one that is found", "", "json", []layers.Skip{{Path: "usr/lib/python3.11/site-packages", Why: "denied"}}, Source, ""},
		{"file skipped", "", "absent", []layers.Skip{{Path: "usr/lib/python3.11/absent.py", Why: "denied"}}, Missing, "/usr/lib/python3.11/absent.py was not read: denied"},
		{"another file skipped", "", "absent", []layers.Skip{{Path: "usr/lib/python3.11/other.py", Why: "denied"}}, Missing, ""},
		{"package skipped", "", "absent", []layers.Skip{{Path: "usr/lib/python3.11/absent", Why: "denied"}}, Missing, "/usr/lib/python3.11/absent was not read: denied"},
		{"all skipped", "", "absent", []layers.Skip{{Path: "", Why: "too many files"}}, Missing, "/ was not read: too many files"},
		{"zip file not kept", "/usr/lib/python311.zip unread", "absent", nil, Missing, "/usr/lib/python311.zip: its list of files was not kept"},
		{"perhaps built in", "", "math", nil, Missing, "it may be built into the interpreter"},
		{"finder by .pth", "/usr/lib/python3.11/site-packages/x.pth = import x_finder; x_finder.install()\n/usr/lib/python3.11/site-packages/x_finder.py = sys.meta_path.append(F)", "absent", nil, Missing, "/usr/lib/python3.11/site-packages/x.pth may install a finder for it"},
		{"finder not read", "/usr/lib/python3.11/site-packages/x.pth = import x_finder\n/usr/lib/python3.11/site-packages/x_finder.py unread", "absent", nil, Missing, "/usr/lib/python3.11/site-packages/x.pth may install a finder for it"},
		{"harmless .pth", "/usr/lib/python3.11/site-packages/x.pth = import x_start\n/usr/lib/python3.11/site-packages/x_start.py = import os", "absent", nil, Missing, ""},
		{"line that a variable asks for", "/usr/lib/python3.11/site-packages/x.pth = import os, sys;exec('if \\'X_START\\' in os.environ:\\x0a try:\\x0a  from x_start import init\\x0a  init()\\x0a except Exception:\\x0a  pass\\x0a')\n/usr/lib/python3.11/site-packages/x_start.py unread", "absent", nil, Missing, ""},
		{"variable that is set", "/usr/lib/python3.11/site-packages/x.pth = import os, sys;exec('if \\'PATH\\' not in os.environ or os.getenv(\\'NONE\\', \\'1\\'):\\x0a import x_start')\n/usr/lib/python3.11/site-packages/x_start.py unread", "absent", nil, Missing, "/usr/lib/python3.11/site-packages/x.pth may install a finder for it"},
		{"call that a variable asks for", "/usr/lib/python3.11/site-packages/x.pth = import os; exec('try: __import__(\"x_start\").auto() if os.environ.get(\"X_START\") else None\\x0aexcept ImportError: pass')\n/usr/lib/python3.11/site-packages/x_start.py unread", "absent", nil, Missing, ""},
		{"finder of editables", "/usr/lib/python3.11/site-packages/_a.pth = import _editable_impl_a\n/usr/lib/python3.11/site-packages/_editable_impl_a.py = from editables.redirector import RedirectingFinder as F\\nF.install()\\nF.map_module('a', '/src/a/__init__.py')\n/src/a/__init__.py", "a", nil, Source, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, err := Open(textFS(t, wholeBase+tt.files, tt.skipped...), "/usr/bin/python3.11", Options{User: "/root"})
			if err != nil {
				t.Fatal(err)
			}
			if s := in.Find(tt.module, nil); s.Kind != tt.kind || s.Uncertain != tt.uncertain {
				t.Errorf("got %q, %q; want %q, %q", s.Kind, s.Uncertain, tt.kind, tt.uncertain)
			}
		})
	}
}

// TestUnknown shows what lowers the certainty of a whole interpreter.
func TestUnknown(t *testing.T) {
	for _, tt := range []struct{ name, files, want string }{
		{"pth", "/usr/lib/python3.11/site-packages/x.pth unread", "/usr/lib/python3.11/site-packages/x.pth was not read, so that sys.path may have more directories"},
		{"hidden pth", "/usr/lib/python3.11/site-packages/.x.pth = /tmp", "whether site reads /usr/lib/python3.11/site-packages/.x.pth, since the release of Python 3.11 is not known"},
		{"venv", "/usr/pyvenv.cfg unread", "/usr/pyvenv.cfg was not read, so that the home of the environment is not known"},
		{"_pth", "/usr/bin/python3.11._pth unread", "/usr/bin/python3.11._pth was not read, so that sys.path is not known"},
	} {
		in, err := Open(textFS(t, base+tt.files), "/usr/bin/python3.11", Options{User: "/root"})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(in.Unknown, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, in.Unknown, tt.want)
		}
	}
}

// TestPartial shows that a sketch of a standard library proves nothing.
func TestPartial(t *testing.T) {
	for text, want := range map[string]string{base: "/usr/lib/python3.11 has not the whole standard library", wholeBase: ""} {
		in, err := Open(textFS(t, text), "/usr/bin/python3.11", Options{User: "/root"})
		if err != nil {
			t.Fatal(err)
		}
		if s := in.Find("absent", nil); s.Kind != Missing || s.Uncertain != want || in.Partial() != (want != "") {
			t.Errorf("got %+v, %t; want %q", s, in.Partial(), want)
		}
	}
}

func TestPath0(t *testing.T) {
	fsys := textFS(t, base+`/app/main.py
/usr/local/bin/tool -> /app/main.py
/app/pack.zip = imgcheck: files of a zip file\n__main__.py`)
	in, err := Open(fsys, "/usr/bin/python3.11", Options{Cwd: "/app"})
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{"/app/main.py": "/app", "main.py": "/app", "/usr/local/bin/tool": "/app", "/app": "/app", "/app/pack.zip": "/app/pack.zip"} {
		if got := in.Path0(script); got != want {
			t.Errorf("%s: got %s, want %s", script, got, want)
		}
	}
	in.SafePath = true
	if got := in.Path0("main.py"); got != "" {
		t.Errorf("with -P: got %s", got)
	}
}

func TestResolve(t *testing.T) {
	in, err := Open(textFS(t, base), "/usr/bin/python3.11", Options{User: "/root"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Kind{"json": Source, "json.decoder": Missing, "os.path": Frozen, "os.nothing": Missing, "here.sub": Missing, "importlib.util": Missing, "sys": Builtin} {
		if s := in.Resolve(name); s.Kind != want || s.Name != name {
			t.Errorf("%s: got %+v, want %q", name, s, want)
		}
	}
}

// TestResolveAgain checks that a package is found as it was, whatever became of what was returned for it.
func TestResolveAgain(t *testing.T) {
	fsys := textFS(t, base+"\n/usr/lib/python3.11/pkg/__init__.py\n/usr/lib/python3.11/pkg/sub/__init__.py\n/usr/lib/python3.11/pkg/sub/end.py\n")
	in, err := Open(fsys, "/usr/bin/python3.11", Options{User: "/root"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := in.Resolve("pkg.sub")
		if s.Kind != Source || s.Name != "pkg.sub" || !slices.Equal(s.Search, []string{"/usr/lib/python3.11/pkg/sub"}) {
			t.Fatalf("got %+v", s)
		}
		s.Kind, s.Name, s.Search[0] = Missing, "other", "/nothing"
		if s := in.Resolve("pkg.sub.end"); s.Kind != Source || s.File != "/usr/lib/python3.11/pkg/sub/end.py" {
			t.Fatalf("got %+v", s)
		}
	}
}

// TestExtractLarge lists a zip file that is larger than what Extract holds of it.
func TestExtractLarge(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "large.bin", Method: zip.Store})
	if err != nil {
		t.Fatal(err)
	}
	w.Write(make([]byte, maxWhole+1<<20))
	z.Create("pkg/__init__.py")
	z.Close()
	kept, err := Extract("app/x.zip", int64(b.Len()))(&b)
	if want := zipMagic + "large.bin\npkg/__init__.py\n"; err != nil || string(kept) != want {
		t.Errorf("got %q, %v; want %q", kept, err, want)
	}
}

// TestTogether finds modules from several goroutines: the race detector judges.
func TestTogether(t *testing.T) {
	in, err := Open(textFS(t, base), "/usr/bin/python3.11", Options{User: "/root"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if s := in.Resolve("json"); s.Kind != Source {
				t.Errorf("got %+v", s)
			}
			in.Distributions()
		})
	}
	wg.Wait()
}

func TestKeep(t *testing.T) {
	for name, want := range map[string]bool{
		"usr/lib/python3.11/site.py": true, "opt/lib64/python3.13t/site.py": true, "opt/venv/pyvenv.cfg": true, "x/a.dist-info/entry_points.txt": true,
		"x/a.pth": true, "usr/bin/python3._pth": true, "x/__editable___a_1_0_finder.py": true, "x/_editable_impl_a.py": true, "spark/py4j-src.zip": true,
		"x/site.py": false, "x/finder.py": false, "x/a.txt": false, "x/RECORD": false,
		"app/config.json": true, "usr/src/app/Settings.yaml": true, "app/conf/app-config.toml": false, "app/data.json": false, "app/config.py": false,
		"usr/lib/python3/dist-packages/a/config.json": false, "usr/local/lib/python3.12/site-packages/a/config.json": false, "etc/x/config.json": false, "app/node_modules/a/config.json": false,
	} {
		if got := Keep(name, 100); got != want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if Keep("a.zip", maxPack+1) || Keep("a.pth", maxKept+1) || Keep("config.json", maxSettings+1) {
		t.Error("keeps files of any size")
	}
}

// TestHandler checks the handler of a model of TorchServe, in an archive and beside it.
func TestHandler(t *testing.T) {
	const doc = `{"model": {"handler": "handle.py:run"}}`
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{"MAR-INF/MANIFEST.json": doc, "handle.py": "import a\n", "data.json": "{}"} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	size := int64(b.Len())
	kept, err := Extract("store/a.mar", size)(&b)
	if err != nil {
		t.Fatal(err)
	}
	e := &layers.Entry{Path: "store/a.mar", Type: layers.Regular, Content: kept}
	if _, has := Member(e, "data.json"); has {
		t.Error("other files are kept")
	}
	for _, e := range []*layers.Entry{e, {Path: "store/a/MAR-INF/MANIFEST.json", Content: []byte(doc)}} {
		if got := Handler(e); got != "handle.py:run" {
			t.Errorf("%s: got %q", e.Path, got)
		}
	}
	if got := Handler(&layers.Entry{Path: "x/MANIFEST.json", Content: []byte("{")}); got != "" {
		t.Errorf("a broken manifest has %q", got)
	}
}

// BenchmarkFind finds modules that are in the last of ten directories.
func BenchmarkFind(b *testing.B) {
	var text strings.Builder
	text.WriteString(base)
	var search []string
	for i := range 10 {
		search = append(search, fmt.Sprintf("/opt/%d", i))
		for j := range 500 {
			fmt.Fprintf(&text, "/opt/%d/m%d_%d/__init__.py\n", i, i, j)
		}
	}
	in, err := Open(textFS(b, text.String()), "/usr/bin/python3.11", Options{User: "/root"})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if s := in.Find(fmt.Sprintf("m9_%d", i%500), search); s.Kind != Source {
			b.Fatal(s)
		}
	}
}
