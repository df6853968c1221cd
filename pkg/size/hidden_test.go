package size_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// The images of these tests have a file that looks as if it could go. In most of them something uses it which no
// process of the start does: a function that nothing calls at the start, settings, another program, a link. Their twins do not.

const (
	hiddenProgram = "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2 mode=0755\nneeded libc.so.6\n"
	hiddenBLAS    = "elf x86_64 soname=libcublas.so.12\nneeded libc.so.6\n"
	// infer starts a program with a GPU library, and has two more copies of it.
	hiddenInfer = "entrypoint [\"/app/infer\"]\nlayer 1 RUN make\n-- 1/app/infer --\n" + hiddenProgram + "runpath /app/lib\nneeded libcublas.so.12\n" +
		"-- 1/app/lib/libcublas.so.12 --\n" + hiddenBLAS
	buildBLAS     = "/opt/build/lib/libcublas.so.12"   // nothing leads to it
	toolkitBLAS   = "/opt/toolkit/lib/libcublas.so.12" // ldconfig does
	hiddenToolkit = "-- 1" + toolkitBLAS + " --\n" + hiddenBLAS + "-- 1/etc/ld.so.conf.d/t.conf --\n/opt/toolkit/lib\n"
	hiddenBuild   = "-- 1" + buildBLAS + " --\n" + hiddenBLAS
	hiddenPython  = "entrypoint [\"python3\",\"/app/main.py\"]\nlayer 1 RUN make\n-- 1/usr/bin/python3 --\n" + hiddenProgram + "def PyErr_Print func\nflags1 pie\n"
	hiddenShell   = "entrypoint [\"/start.sh\"]\nlayer 1 RUN make\n-- 1/usr/bin/sh --\n" + hiddenProgram + "-- 1/app/infer --\n" + hiddenProgram
)

// hidden is an image over the root file system of the tests: a start, more, and files, of which all stay, or go as class.
type hidden struct {
	start, more string
	files       []string
	class       string // that the files go as, or "" if they stay
}

func own(path, text string) string    { return "-- 1" + path + " --\n" + text + "\n" }
func script(path, text string) string { return "-- 1" + path + " --\ntext mode=0755\n" + text + "\n" }

// with puts directives before a start.
func with(directives, start string) string { return directives + "\n" + start }

// starts is the start by a script.
func starts(lines string) string { return hiddenShell + script("/start.sh", "#!/usr/bin/sh\n"+lines) }

func checkHidden(t *testing.T, cases map[string]hidden) {
	t.Helper()
	root, err := images.Text("base/rootfs.txtar")
	if err != nil {
		t.Fatal(err)
	}
	base, sections, _ := strings.Cut(string(root), "\n-- ")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			head, text, _ := strings.Cut(c.start, "\n-- ")
			text += c.more
			for _, f := range c.files {
				if !strings.Contains(text, "-- 1"+f+" --\n") {
					text += "-- 1" + f + " --\nsize 9000\n"
				}
			}
			p, err := layout.Write(t.TempDir(), empty.Index)
			if err == nil {
				err = p.AppendImage(imagetest.V1(t, base+"\n"+head+"\n-- "+sections+"-- "+text))
			}
			if err != nil {
				t.Fatal(err)
			}
			r, _, err := scan.Size(t.Context(), "oci:"+string(p), scan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := ", " + claimed(r) + ", "
			for _, f := range c.files {
				if c.class == "" && strings.Contains(got, " "+f+", ") {
					t.Errorf("%s is in use, and goes: %s", f, got)
				} else if c.class != "" && !strings.Contains(got, ", "+c.class+" "+f+", ") {
					t.Errorf("%s does not go as %s: %s", f, c.class, got)
				}
			}
		})
	}
}

// TestHiddenCopies keeps the copies of a GPU library to which something leads that no process of the start does.
func TestHiddenCopies(t *testing.T) {
	build, toolkit := []string{buildBLAS}, []string{toolkitBLAS}
	const packages = "/usr/lib/python3/dist-packages"
	bundled := packages + "/mypkg/backends/lib/cupti/libcublas.so.12"
	other := "/opt/venv2/lib/python3.12/site-packages"
	wheel := other + "/nvidia/cublas/lib/libcublas.so.12"
	call := func(arg string) string {
		return own("/app/x.py", "import ctypes, glob, os\nfrom pathlib import Path\ndef f():\n    return ctypes.CDLL("+arg+")")
	}
	checkHidden(t, map[string]hidden{
		"nothing":                    {hiddenInfer, hiddenBuild, build, "abandoned-copies"},
		"a README":                   {hiddenInfer, hiddenBuild + own("/opt/build/README", "made in /opt/build/lib"), build, "abandoned-copies"},
		"a label":                    {with("label org.example.dir=/opt/build/lib", hiddenInfer), hiddenBuild, build, "abandoned-copies"},
		"settings":                   {hiddenInfer, hiddenBuild + own("/etc/infer.conf", "blas = /opt/build/lib/libcublas.so.12"), build, ""},
		"settings in YAML":           {hiddenInfer, hiddenBuild + own("/app/settings.yaml", "plugins:\n  dir: /opt/build/lib"), build, ""},
		"settings in JSON":           {hiddenInfer, hiddenBuild + own("/app/model.json", `{"lib": "/opt/build/lib/libcublas.so.12"}`), build, ""},
		"an ini file":                {hiddenInfer, hiddenBuild + own("/app/app.ini", "[blas]\npath=/opt/build/lib/libcublas.so.12"), build, ""},
		"properties":                 {hiddenInfer, hiddenBuild + own("/app/app.properties", "java.library.path=/opt/build/lib"), build, ""},
		"XML":                        {hiddenInfer, hiddenBuild + own("/app/plugins.xml", `<plugin path="/opt/build/lib/libcublas.so.12"/>`), build, ""},
		"a file of variables":        {hiddenInfer, hiddenBuild + own("/app/env", "export LD_LIBRARY_PATH=/opt/build/lib"), build, ""},
		"a shell's settings":         {hiddenInfer, hiddenBuild + own("/root/.bashrc", "export LD_LIBRARY_PATH=/opt/build/lib"), build, ""},
		"the environment of logins":  {hiddenInfer, hiddenBuild + own("/etc/environment", "LD_LIBRARY_PATH=/opt/build/lib"), build, ""},
		"a profile":                  {hiddenInfer, hiddenBuild + own("/etc/profile.d/blas.sh", "export LD_LIBRARY_PATH=/opt/build/lib"), build, ""},
		"environment modules":        {hiddenInfer, hiddenBuild + own("/usr/share/modules/modulefiles/blas", "#%Module\nprepend-path LD_LIBRARY_PATH /opt/build/lib"), build, ""},
		"Lua":                        {hiddenInfer, hiddenBuild + own("/app/main.lua", `ffi.load("/opt/build/lib/libcublas.so.12")`), build, ""},
		"Ruby":                       {hiddenInfer, hiddenBuild + own("/app/x.rb", `Fiddle.dlopen "/opt/build/lib/libcublas.so.12"`), build, ""},
		"R":                          {hiddenInfer, hiddenBuild + own("/app/x.R", `dyn.load("/opt/build/lib/libcublas.so.12")`), build, ""},
		"Julia":                      {hiddenInfer, hiddenBuild + own("/app/x.jl", `Libdl.dlopen("/opt/build/lib/libcublas.so.12")`), build, ""},
		"a class of Java":            {hiddenInfer, hiddenBuild + own("/app/Main.class", "\xca\xfe\xba\xbe /opt/build/lib/libcublas.so.12"), build, ""},
		"UTF-16 of .NET":             {hiddenInfer, hiddenBuild + own("/app/app.dll", strings.Join(strings.Split("/opt/build/lib", ""), "\x00")+"\x00"), build, ""},
		"an archive of Java":         {hiddenInfer, hiddenBuild + own("/app/app.jar", "PK"), build, "copies"},
		"PyInstaller":                {hiddenInfer, hiddenBuild + own("/app/tool", hiddenProgram+`rodata "_MEIPASS2\x00"`), build, "copies"},
		"pathlib":                    {hiddenInfer, hiddenBuild + call(`str(Path("/") / "opt" / "build" / "lib" / "libcublas.so.12")`), build, ""},
		"os.sep":                     {hiddenInfer, hiddenBuild + call(`os.sep.join(["", "opt", "build", "lib", "libcublas.so.12"])`), build, ""},
		"a pattern":                  {hiddenInfer, hiddenBuild + call(`glob.glob("/*/*/lib/libcublas.so*")[0]`), build, ""},
		"a walk":                     {hiddenInfer, hiddenBuild + call(`[d + "/libcublas.so.12" for d, _, n in os.walk("/") if "libcublas.so.12" in n][0]`), build, ""},
		"find":                       {hiddenInfer, hiddenBuild + script("/usr/local/bin/tool", "#!/bin/sh\nLD_PRELOAD=$(find / -name \"libcublas.so*\" | head -1) exec /app/infer"), build, ""},
		"GModule":                    {hiddenInfer, hiddenBuild + own("/app/feature", hiddenProgram+"undef g_module_open\nrodata \"/opt/build/lib/libcublas.so.12\\x00\""), build, ""},
		"a directory in data":        {hiddenInfer, hiddenBuild + own("/app/feature", hiddenProgram+"rodata \"/opt/build/lib\\x00\""), build, ""},
		"a static program":           {hiddenInfer, hiddenBuild + own("/app/go", "elf x86_64 type=exec nodynamic mode=0755\nrodata \"/opt/build/lib/libcublas.so.12\\x00\""), build, ""},
		"systemd":                    {hiddenInfer, hiddenBuild + own("/etc/systemd/system/x.service", "[Service]\nEnvironment=LD_LIBRARY_PATH=/opt/build/lib\nExecStart=/app/infer"), build, ""},
		"cron":                       {hiddenInfer, hiddenBuild + own("/etc/cron.d/x", "* * * * * root LD_LIBRARY_PATH=/opt/build/lib /app/infer"), build, ""},
		"supervisor":                 {hiddenInfer, hiddenBuild + own("/etc/supervisor/conf.d/x.conf", "[program:x]\nenvironment=LD_LIBRARY_PATH=\"/opt/build/lib\"\ncommand=/app/infer"), build, ""},
		"ld.so.preload":              {hiddenInfer, hiddenBuild + own("/etc/ld.so.preload", buildBLAS), build, ""},
		"OpenCL's list":              {hiddenInfer, hiddenBuild + own("/etc/OpenCL/vendors/x.icd", buildBLAS), build, ""},
		"a volume":                   {with("volume /opt/build", hiddenInfer), hiddenBuild, build, ""},
		"a health check":             {with(`healthcheck ["CMD-SHELL","LD_LIBRARY_PATH=/opt/build/lib /app/infer --check"]`, hiddenInfer), hiddenBuild, build, ""},
		"a .pth":                     {hiddenInfer, hiddenBuild + own(packages+"/x.pth", "/opt/build/lib"), build, ""},
		"a link":                     {hiddenInfer, hiddenBuild + "-- 1/usr/lib/blas.so --\nsymlink " + buildBLAS + "\n", build, ""},
		"a chain of links":           {hiddenInfer, hiddenBuild + "-- 1/app/cur --\nsymlink ../opt/link\n-- 1/opt/link --\nsymlink build\n", build, ""},
		"a relative path":            {hiddenInfer, hiddenBuild + own("/opt/app/settings", "blas=../build/lib/libcublas.so.12"), build, ""},
		"a home directory":           {hiddenInfer, own("/home/me/lib/libcublas.so.12", hiddenBLAS) + own("/app/settings", "blas=~/lib"), []string{"/home/me/lib/libcublas.so.12"}, "copies"},
		"a variable above":           {with("env TOOLKIT_HOME=/opt/toolkit", hiddenInfer), hiddenToolkit, toolkit, ""},
		"settings in two parts":      {hiddenInfer, hiddenBuild + own("/app/x.yaml", "root: /opt\nname: build"), build, "copies"},
		"only ldconfig finds it":     {hiddenInfer, hiddenToolkit, toolkit, "copies"},
		"a wrapper":                  {hiddenInfer, hiddenToolkit + script("/usr/local/bin/tool", "#!/bin/sh\nLD_LIBRARY_PATH=/opt/toolkit/lib exec /app/tool.real"), toolkit, ""},
		"a profile of the toolkit":   {hiddenInfer, hiddenToolkit + own("/etc/profile.d/t.sh", "export LD_LIBRARY_PATH=/opt/toolkit/lib"), toolkit, ""},
		"a variable of its own":      {with("env BLAS_DIR=/opt/toolkit/lib", hiddenInfer), hiddenToolkit, toolkit, ""},
		"a variable with the file":   {with("env BLAS_LIBRARY="+toolkitBLAS, hiddenInfer), hiddenToolkit, toolkit, ""},
		"the loader's variable":      {with("env LD_LIBRARY_PATH=/opt/toolkit/lib2", hiddenInfer), hiddenToolkit, toolkit, "copies"},
		"parts of a path":            {hiddenInfer, hiddenToolkit + call(`str(Path("/opt") / "toolkit" / "lib" / "libcublas.so.12")`), toolkit, ""},
		"parts and a constant":       {hiddenInfer, hiddenToolkit + own("/app/x.py", "import os, ctypes\nROOT = \"/opt\"\ndef f():\n    return ctypes.CDLL(os.path.join(ROOT, \"toolkit\", \"lib\", \"libcublas.so.12\"))"), toolkit, ""},
		"parts in Node":              {hiddenInfer, hiddenToolkit + own("/app/x.js", `const f = () => process.dlopen(module, path.join("/opt", "toolkit", "lib", "libcublas.so.12"))`), toolkit, ""},
		"only its name":              {hiddenInfer, hiddenToolkit + call(`"libcublas.so.12"`), toolkit, "copies"},
		"its own program's place":    {hiddenInfer, hiddenToolkit + own("/opt/toolkit/bin/prog.py", "import ctypes, os\ndef f():\n    ctypes.CDLL(os.path.join(os.path.dirname(__file__), \"..\", \"lib\", \"libcublas.so.12\"))"), toolkit, ""},
		"its own RUNPATH":            {hiddenInfer, hiddenToolkit + own("/opt/toolkit/bin/prog", hiddenProgram+"runpath $ORIGIN/../lib\nneeded libcublas.so.12"), toolkit, ""},
		"an older processor":         {hiddenInfer, "-- 1/app/lib/glibc-hwcaps/x86-64-v3/libcublas.so.12 --\n" + hiddenBLAS, []string{"/app/lib/libcublas.so.12", "/app/lib/glibc-hwcaps/x86-64-v3/libcublas.so.12"}, ""},
		"a package's own":            {hiddenInfer, own(bundled, hiddenBLAS) + own(packages+"/mypkg/knobs.py", "import pathlib\ndef f():\n    return pathlib.Path(__file__).parent.absolute() / \"backends\" / \"lib\" / \"cupti\""), []string{bundled}, ""},
		"a package that has no name": {hiddenInfer, own(bundled, hiddenBLAS) + own(packages+"/mypkg/knobs.py", "def f():\n    return 1"), []string{bundled}, "copies"},
		"another environment":        {hiddenInfer, own(wheel, hiddenBLAS) + own(other+"/ort/p.so", "elf x86_64 soname=p.so\nneeded libcublas.so.12"), []string{wheel}, ""},
	})
}

// TestHiddenCaches keeps the caches from which a program installs that nothing runs at the start, and those whose files are named.
func TestHiddenCaches(t *testing.T) {
	const pip, uv, deb, lists, npm = "/root/.cache/pip/http-v2/0/abc", "/root/.cache/uv/archive-v0/x/mod.py", "/var/cache/apt/archives/x.deb", "/var/lib/apt/lists/x_Packages", "/root/.npm/_cacache/content/x"
	feature := func(body string) string {
		return own("/app/main.py", "import os, subprocess, sys\ndef feature():\n    "+body)
	}
	link := func(at, to string) string { return "-- 1" + at + " --\nsymlink " + to + "\n" }
	checkHidden(t, map[string]hidden{
		"nothing":                 {hiddenInfer, "", []string{pip, uv, deb, lists, npm}, "package-cache"},
		"removed":                 {starts("rm -rf /root/.cache/uv /var/lib/apt/lists/*\nexec /app/infer"), "", []string{uv, lists}, "package-cache"},
		"the cache's variable":    {with("env UV_CACHE_DIR=/root/.cache/uv", hiddenInfer), "", []string{uv}, "package-cache"},
		"an advice":               {hiddenPython, feature(`raise ImportError("please pip install xformers")`), []string{pip}, "package-cache"},
		"a Dockerfile":            {hiddenInfer, own("/app/Dockerfile", "RUN --mount=type=cache,target=/root/.cache/uv uv sync"), []string{uv}, "package-cache"},
		"dpkg":                    {starts("dpkg -i /var/cache/apt/archives/*.deb\nexec /app/infer"), "", []string{deb}, ""},
		"copied":                  {starts("cp -r /root/.cache/uv/. /data\nexec /app/infer"), "", []string{uv}, ""},
		"copied from home":        {starts("cp -r $HOME/.cache/uv /data\nexec /app/infer"), "", []string{uv}, ""},
		"copied from ~":           {starts("cp -r ~/.cache/uv /data\nexec /app/infer"), "", []string{uv}, ""},
		"copied with all":         {starts("cp -r /root/.cache /data\nexec /app/infer"), "", []string{uv, pip}, ""},
		"a function of a script":  {starts("f() {\n  pip install --no-index foo\n}\nexec /app/infer"), "", []string{pip}, ""},
		"a file that is sourced":  {starts(". /app/lib\nexec /app/infer"), own("/app/lib", "pip install foo"), []string{pip}, ""},
		"make":                    {starts("cd /app\nexec make run"), own("/app/Makefile", "run:\n\tuv run --offline main.py") + own("/usr/bin/make", hiddenProgram), []string{uv}, ""},
		"a Makefile of the build": {starts("exec /app/infer"), own("/app/Makefile", "setup:\n\tuv sync"), []string{uv}, "package-cache"},
		"npm start":               {starts("cd /app\nexec npm start"), own("/app/package.json", `{"scripts": {"start": "npx serve"}}`) + own("/usr/bin/npm", hiddenProgram), []string{npm}, ""},
		"cron":                    {starts("exec cron -f"), script("/etc/cron.daily/x", "#!/bin/sh\napt-get install -y foo") + own("/usr/bin/cron", hiddenProgram), []string{lists}, ""},
		"subprocess":              {hiddenPython, feature(`subprocess.run(["pip", "install", "foo"])`), []string{pip}, ""},
		"subprocess of Python":    {hiddenPython, feature(`subprocess.run([sys.executable, "-m", "pip", "install", "foo"])`), []string{pip}, ""},
		"system":                  {hiddenPython, feature(`os.system("apt-get install -y ffmpeg")`), []string{lists}, ""},
		"execSync":                {hiddenInfer, own("/app/x.js", `function f() { execSync("npm ci --offline") }`), []string{npm}, ""},
		"a path":                  {hiddenPython, feature(`return open("/root/.cache/uv/archive-v0/x/mod.py").read()`), []string{uv}, ""},
		"a path from home":        {hiddenPython, feature(`return os.listdir(os.path.expanduser("~/.cache/uv"))`), []string{uv}, ""},
		"a path that is removed":  {hiddenPython, feature(`shutil.rmtree("/root/.cache/uv")`), []string{uv}, "package-cache"},
		"settings":                {hiddenInfer, own("/app/settings.yaml", "cache: /root/.cache/uv"), []string{uv}, ""},
		"a volume":                {with("volume /root/.cache/uv", hiddenInfer), "", []string{uv}, ""},
		"a link":                  {hiddenInfer, link("/app/venv", "../root/.cache/uv/archive-v0/x"), []string{uv}, ""},
		"a link to the file":      {hiddenInfer, link("/app/mod.py", uv), []string{uv}, ""},
		"a link to all":           {hiddenInfer, link("/app/cache", "/root/.cache"), []string{uv}, ""},
		"a .pth":                  {hiddenPython, own("/usr/lib/python3/dist-packages/x.pth", "/root/.cache/uv/archive-v0/x") + own("/app/main.py", "import os"), []string{uv}, ""},
		"PYTHONPATH":              {with("env PYTHONPATH=/root/.cache/uv/archive-v0/x", hiddenPython), own("/app/main.py", "import os"), []string{uv}, ""},
		"a line with #!":          {hiddenInfer, script("/usr/local/bin/tool", "#!/root/.cache/uv/archive-v0/x/bin/python"), []string{uv}, ""},
		"shlex":                   {hiddenPython, feature(`subprocess.Popen(shlex.split("pip install foo"))`), []string{pip}, ""},
		"a constant":              {hiddenPython, own("/app/main.py", "import os\nCMD = \"pip install --no-index foo\"\ndef feature():\n    os.system(CMD)"), []string{pip}, ""},
		"pip as a module":         {hiddenPython, feature(`from pip._internal import main; main(["install", "foo"])`), []string{pip}, ""},
		"pathlib's home":          {hiddenPython, feature(`return list((Path.home() / ".cache/uv").iterdir())`), []string{uv}, ""},
		"a part of home":          {hiddenPython, feature(`return os.path.join(os.environ["HOME"], ".cache", "uv")`), []string{uv}, ""},
		"no first line":           {starts("sh /app/more\nexec /app/infer"), own("/app/more", "pip install foo"), []string{pip}, ""},
		"another cache":           {hiddenPython, feature(`return os.path.join(os.environ["HOME"], ".cache", "huggingface")`), []string{uv, pip}, "package-cache"},
		"a docstring":             {hiddenPython, own("/app/main.py", "\"\"\"Run pip install foo first.\"\"\"\nimport os"), []string{pip}, "package-cache"},
		"a comment":               {hiddenPython, own("/app/main.py", "# see /root/.cache/uv\nimport os"), []string{uv}, "package-cache"},
		"servers of tools":        {hiddenInfer, own("/app/mcp.json", `{"command": "uvx", "args": ["a"]}`), []string{uv}, ""},
		"conda's links":           {hiddenInfer, link("/opt/conda/envs/e/lib/mod.py", "../../../pkgs/p-1/lib/mod.py"), []string{"/opt/conda/pkgs/p-1/lib/mod.py"}, ""},
	})
}

// TestHiddenArchives keeps the packages and archives in temporary directories that something reads.
func TestHiddenArchives(t *testing.T) {
	wheel, tar, zip := "/tmp/x/foo-1.0-py3-none-any.whl", "/tmp/model.tar.gz", "/tmp/lib.zip"
	checkHidden(t, map[string]hidden{
		"nothing":          {hiddenInfer, "", []string{wheel, tar, "/root/x.run"}, "installers"},
		"a function":       {hiddenPython, own("/app/main.py", "import tarfile\ndef feature():\n    tarfile.open(\"/tmp/model.tar.gz\")"), []string{tar}, ""},
		"--find-links":     {hiddenPython, own("/app/main.py", "import subprocess\ndef feature():\n    subprocess.run([\"pip\", \"install\", \"--find-links\", \"/tmp/x\", \"foo\"])"), []string{wheel}, ""},
		"PYTHONPATH":       {with("env PYTHONPATH="+zip, hiddenPython), own("/app/main.py", "import os"), []string{zip}, ""},
		"sys.path":         {hiddenPython, own("/app/main.py", "import sys\nsys.path.append(\"/tmp/lib.zip\")"), []string{zip}, ""},
		"a script":         {starts("pip install /tmp/x/*.whl\nexec /app/infer"), "", []string{wheel}, ""},
		"a directory":      {starts("cd /tmp/x && pip install ./*.whl\nexec /app/infer"), "", []string{wheel}, ""},
		"a variable":       {starts("D=/tmp\nfor f in $D/x/*.whl; do pip install $f; done\nexec /app/infer"), "", []string{wheel}, ""},
		"settings":         {hiddenInfer, own("/etc/app.conf", "archive=/tmp/model.tar.gz"), []string{tar}, ""},
		"the working dir":  {with("workdir /tmp", hiddenInfer), "", []string{tar}, ""},
		"an argument":      {with(`cmd ["--model","/tmp/model.tar.gz"]`, hiddenInfer), "", []string{tar}, ""},
		"another's folder": {hiddenInfer, own("/etc/app.conf", "archive=/tmp/y/model.tar.gz"), []string{wheel}, "installers"},
	})
}

// TestHiddenCompilers keeps headers and static libraries where something compiles.
func TestHiddenCompilers(t *testing.T) {
	header, static := "/usr/include/x.h", "/usr/lib/x86_64-linux-gnu/libx.a"
	distribution := func(name string) string {
		return own("/usr/lib/python3/dist-packages/"+name+"-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: "+name+"\nVersion: 1.0")
	}
	checkHidden(t, map[string]hidden{
		"nothing":       {hiddenInfer, "", []string{header}, "headers"},
		"no linker":     {hiddenInfer, "", []string{static}, "static-libraries"},
		"-ldl":          {hiddenInfer, "", []string{"/usr/lib/x86_64-linux-gnu/libdl.a", "/usr/lib/x86_64-linux-gnu/libpthread.a", "/usr/lib/x86_64-linux-gnu/librt.a"}, ""},
		"a script":      {starts("cc -shared x.c -o x.so\nexec /app/infer"), "", []string{header, static}, ""},
		"a function":    {hiddenPython, own("/app/main.py", "import subprocess\ndef feature():\n    subprocess.run([\"gcc\", \"-O2\", \"x.c\"])"), []string{header, static}, ""},
		"cpp_extension": {hiddenPython, own("/app/main.py", "def feature():\n    from torch.utils import cpp_extension\n    cpp_extension.load(name='x', sources=['x.cpp'])"), []string{header, static}, ""},
		"pytensor":      {hiddenInfer, distribution("pytensor"), []string{header}, ""},
		"cppyy-cling":   {hiddenInfer, distribution("cppyy_cling"), []string{header}, ""},
		"warp":          {hiddenInfer, distribution("warp_lang"), []string{header}, "headers"},
		"a profiler":    {starts("exec /opt/nvidia/nsight-systems/2024/bin/nsys profile /app/infer"), own("/opt/nvidia/nsight-systems/2024/bin/nsys", hiddenProgram), []string{"/opt/nvidia/nsight-systems/2024/lib/data"}, ""},
		"no profiler":   {hiddenInfer, "", []string{"/opt/nvidia/nsight-systems/2024/lib/data"}, "cuda-tools"},
	})
}

// TestManyFacts claims no caches and archives of an image whose files name more paths than are kept.
func TestManyFacts(t *testing.T) {
	var names strings.Builder
	for i := range 20_001 {
		fmt.Fprintf(&names, "/tmp/%d\n", i)
	}
	cache, archive := "/root/.cache/pip/http-1", "/tmp/x.whl"
	checkHidden(t, map[string]hidden{
		"many":    {hiddenInfer, own("/app/names", names.String()), []string{cache, archive}, ""},
		"as many": {hiddenInfer, own("/app/names", strings.TrimSuffix(names.String(), "/tmp/20000\n")), []string{cache}, "package-cache"},
	})
}
