package size_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// The images of these tests have a framework that the program does not import. In most of them something uses it all the same.

const (
	unusedSite   = "/usr/local/lib/python3.12/site-packages"
	unusedStart  = "entrypoint [\"python3\",\"/app/main.py\"]\nlayer 1 RUN pip install -r requirements.txt\n-- 1/usr/local/bin/python3 --\nsymlink python3.12\n-- 1/usr/local/bin/python3.12 --\n" + hiddenProgram + "flags1 pie\n"
	bigFramework = unusedSite + "/bigjax/data.bin"
)

// unusedModules are modules of Python, and others of no distribution.
func unusedModules() (text string) {
	for _, m := range []string{"importlib/__init__", "importlib/util", "importlib/metadata", "subprocess", "os", "re", "sys", "typing", "pickle", "runpy", "pkgutil", "logging"} {
		text += own("/usr/local/lib/python3.12/"+m+".py", "TYPE_CHECKING = False")
	}
	for _, m := range []string{"joblib", "torch", "yaml", "lazy"} {
		text += own(unusedSite+"/"+m+".py", "x = 1")
	}
	return text
}

// installed is a distribution with one module, as pip installs it.
func installed(name, source, requires string, more ...string) string {
	info := fmt.Sprintf("%s/%s-1.0.dist-info", unusedSite, strings.ReplaceAll(name, "-", "_"))
	module := strings.ReplaceAll(name, "-", "_")
	text, record := own(unusedSite+"/"+module+"/__init__.py", source), module+"/__init__.py,,\n"
	for i := 0; i+1 < len(more); i += 2 {
		p := more[i]
		if !strings.HasPrefix(p, "/") {
			p = unusedSite + "/" + p
		}
		text, record = text+own(p, more[i+1]), record+more[i]+",,\n"
	}
	meta := "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"
	for _, r := range strings.Fields(requires) {
		meta += "Requires-Dist: " + r + "\n"
	}
	return text + own(info+"/METADATA", meta) + own(info+"/INSTALLER", "pip") + own(info+"/RECORD", record+strings.TrimPrefix(info, unusedSite+"/")+"/METADATA,,\n"+strings.TrimPrefix(info, unusedSite+"/")+"/RECORD,,\n")
}

// frameworkOf returns a framework of 2 MB.
func frameworkOf(more ...string) string {
	return strings.NewReplacer("--\nSIZE\n", "--\nsize 2000000\n", "--\nLIB\n", "--\nelf x86_64 soname=libbigjax.so\n").Replace(installed("bigjax", "x = 1", "", append([]string{"bigjax/data.bin", "SIZE"}, more...)...))
}

func main(text string) string { return own("/app/main.py", text) }

// TestUnusedPackages claims a framework that nothing uses, and none that something may use in any way.
func TestUnusedPackages(t *testing.T) {
	big := []string{bigFramework}
	const plainMain = "import applib\napplib.run()"
	app := func(source string, more ...string) string { return installed("applib", source, "", more...) }
	lib := app("def run():\n    return 1") + unusedModules()
	// mains are programs; libraries are sources of a package that the program imports.
	mains := func(text string) hidden {
		return hidden{unusedStart, main("import applib\napplib.run()\n"+text) + lib + frameworkOf(), big, ""}
	}
	goes := func(h hidden) hidden { h.class = "unused-packages"; return h }
	library := func(source string) hidden {
		return hidden{unusedStart, main(plainMain) + app(source) + unusedModules() + frameworkOf(), big, ""}
	}
	files := func(more string) hidden {
		return hidden{unusedStart, main(plainMain) + lib + frameworkOf() + more, big, ""}
	}
	starts := func(argv, more string) hidden {
		return hidden{strings.Replace(unusedStart, "[\"python3\",\"/app/main.py\"]", argv, 1), main(plainMain) + lib + frameworkOf() + more, big, ""}
	}
	plugin := func(group string) string {
		return frameworkOf("bigjax-1.0.dist-info/entry_points.txt", "["+group+"]\nx = bigjax:x")
	}
	sh := "-- 1/usr/bin/sh --\n" + hiddenProgram
	checkHidden(t, map[string]hidden{
		"nothing":               goes(files("")),
		"requirements":          goes(files(own("/app/requirements.txt", "applib==1.0\nbigjax==1.0"))),
		"a pyproject":           goes(files(own("/app/pyproject.toml", "[project]\ndependencies = [\n  \"bigjax>=1\",\n]"))),
		"a README":              goes(files(own("/app/README.md", "bigjax is fast"))),
		"a Dockerfile":          goes(files(own("/app/Dockerfile", "RUN pip install bigjax"))),
		"logs of the installer": goes(files(own("/var/log/pip.log", "installed bigjax"))),
		"a test of Python":      goes(files(own("/usr/local/lib/python3.12/test/test_x.py", "import bigjax"))),
		"a test of another":     goes(files(own("/usr/share/doc/x/examples/x.py", "import bigjax"))),
		"a program's script":    goes(files(own("/app/run.sh", "python /app/main.py"))),
		"known programs":        goes(mains("import subprocess\ndef f():\n    subprocess.run([\"ffmpeg\", \"-i\", p])\n    cmd = [\"ls\"]\n    subprocess.run(cmd)\n    subprocess.run([sys.executable, \"-m\", \"applib\"])")),
		"weights":               goes(mains("def f(p):\n    return torch.load(p, weights_only=True)")),
		"a known import":        goes(mains("import importlib\ndef f():\n    return importlib.import_module(\"applib\")")),
		"model.eval":            goes(mains("import re\ndef f(model):\n    model.eval()\n    return re.compile(\"x\")")),

		// The program itself says so.
		"an import":            mains("import bigjax"),
		"in a function":        mains("def f():\n    import bigjax.ops"),
		"from":                 mains("def f():\n    from bigjax import x"),
		"a try":                mains("try:\n    import bigjax\nexcept ImportError:\n    bigjax = None"),
		"another module":       files(own("/app/feature.py", "import bigjax")),
		"a package of the app": files(own("/app/pkg/deep/feature.py", "def f():\n    import bigjax")),
		"a text":               mains("import importlib\ndef f():\n    return importlib.import_module(\"bigjax.ops\")"),
		"a variable":           mains("BACKEND = \"bigjax\""),
		"an unknown name":      mains("import importlib\ndef f(name):\n    return importlib.import_module(name)"),
		"a made name":          mains("def f(name):\n    return __import__(\"big\" + name)"),
		"an f-string":          mains("import importlib\ndef f(name):\n    return importlib.import_module(f\"big{name}\")"),
		"exec":                 mains("def f(code):\n    exec(code)"),
		"eval":                 mains("def f(code):\n    return eval(code, {})"),
		"runpy":                mains("import runpy\ndef f(name):\n    runpy.run_module(name)"),
		"importlib by getattr": mains("import importlib\ndef f(name):\n    return getattr(importlib, \"import_\" + \"module\")(name)"),
		"an alias":             mains("from importlib import import_module as load\ndef f(name):\n    return load(name)"),
		"entry points":         mains("from importlib.metadata import entry_points\ndef f():\n    return [e.load() for e in entry_points(group=\"x\")]"),
		"all modules":          mains("import pkgutil\ndef f():\n    return list(pkgutil.iter_modules())"),
		"a plug-in's file":     mains("import importlib.util\ndef f(p):\n    return importlib.util.spec_from_file_location(\"x\", p)"),
		"a pickle":             mains("import pickle\ndef f(p):\n    return pickle.load(open(p, \"rb\"))"),
		"joblib":               mains("import joblib\ndef f(p):\n    return joblib.load(p)"),
		"torch.load":           mains("import torch\ndef f(p):\n    return torch.load(p, map_location=dev(0))"),
		"YAML with objects":    mains("import yaml\ndef f(p):\n    return yaml.load(open(p), Loader=yaml.Loader)"),
		"remote code":          mains("def f(m):\n    return AutoModel.from_pretrained(m, trust_remote_code=True)"),
		"python -m":            mains("import subprocess, sys\ndef f():\n    subprocess.run([sys.executable, \"-m\", \"bigjax.cli\"])"),
		"python -c":            mains("import os\ndef f():\n    os.system(\"python3 -c 'import bigjax'\")"),
		"an unknown script":    mains("import subprocess, sys\ndef f(p):\n    subprocess.run([sys.executable, p])"),
		"an unknown program":   mains("import subprocess\ndef f(cmd):\n    subprocess.run(cmd)"),
		"a command's variable": mains("import subprocess\ndef f(p):\n    cmd = [\"python\", p]\n    subprocess.run(cmd)"),
		"a shell's text":       mains("import subprocess\ndef f(p):\n    subprocess.run(f\"python {p}\", shell=True)"),
		"a directory of code":  mains("import os, sys\nsys.path.append(os.environ[\"PLUGINS\"])"),
		"applications by env":  mains("import os\nINSTALLED_APPS = os.environ[\"APPS\"].split()"),
		"a prefix":             {unusedStart, main(plainMain+"\ndef f(n):\n    return load(\"big_\" + n)") + lib + strings.ReplaceAll(frameworkOf(), "bigjax", "big_jax"), []string{unusedSite + "/big_jax/data.bin"}, ""},

		// Other files do.
		"settings":              files(own("/app/config.yaml", "backend: bigjax.ops")),
		"settings in etc":       files(own("/etc/app.ini", "[plugins]\nuse=bigjax")),
		"settings in JSON":      files(own("/app/settings.json", "{\"loader\": \"bigjax:load\"}")),
		"logging":               files(own("/app/logging.yaml", "handlers:\n  a:\n    class: bigjax.log.Handler")),
		"cron":                  files(own("/etc/cron.d/x", "0 * * * * root python3 -m bigjax.sync")),
		"systemd":               files(own("/etc/systemd/system/x.service", "ExecStart=/usr/bin/env python3 -m bigjax")),
		"a supervisor":          files(own("/etc/supervisor/conf.d/x.conf", "command=python -m bigjax")),
		"a notebook":            files(own("/app/x.ipynb", "{\"cells\": [{\"source\": [\"import bigjax\"]}]}")),
		"a script":              files(own("/app/nightly.sh", "#!/bin/sh\npython -m bigjax")),
		"a script without name": files(own("/usr/local/bin/nightly", "#!/usr/bin/env python3\nimport bigjax")),
		"JavaScript":            files(own("/app/x.js", "spawn('python3', ['-m', 'bigjax'])")),
		"a Makefile":            files(own("/app/Makefile", "x:\n\tpython -m bigjax")),
		"a pickled model":       files(own("/models/x.pkl", "cbigjax.ops\nModel\n")),
		"a text model":          files(own("/models/config", "architecture=bigjax")),
		"a program":             files("-- 1/usr/local/bin/tool --\n" + hiddenProgram + "rodata \"import bigjax\\x00\"\n"),
		"a zip file":            files(own("/app/lib.zip", "PK")),
		"the start hook":        files(own(unusedSite+"/sitecustomize.py", "import bigjax")),
		"a .pth file":           files(own(unusedSite+"/x.pth", "import bigjax")),
		"a module beside":       files(own(unusedSite+"/local.py", "def f():\n    import bigjax")),
		"a link":                files("-- 1/app/jax --\nsymlink " + unusedSite + "/bigjax\n"),
		"an environment":        {with("env APP_BACKEND=bigjax", unusedStart), main(plainMain) + lib + frameworkOf(), big, ""},
		"an argument":           starts("[\"python3\",\"/app/main.py\",\"--backend=bigjax\"]", ""),
		"a health check":        {with("healthcheck [\"CMD\",\"python3\",\"-c\",\"import bigjax\"]", unusedStart), main(plainMain) + lib + frameworkOf(), big, ""},
		"a library":             {unusedStart, main(plainMain) + lib + frameworkOf("bigjax/libbigjax.so", "LIB") + "-- 1/usr/local/lib/libx.so --\nelf x86_64 soname=libx.so\nneeded libbigjax.so\n", big, ""},

		"settings of the project":  files(own("/app/pyproject.toml", "[project]\nname = \"app\"\n[tool.app]\nbackend = \"bigjax\"")),
		"an environment's setting": files(own("/app/environment.yaml", "backend: bigjax")),
		"a test of the app":        files(own("/app/tests/test_x.py", "import bigjax")),
		"Cython of the app":        files(own("/app/fast.pyx", "import bigjax")),
		"bytecode of the app":      files(own("/app/feature.pyc", "x")),
		"a compiled app":           files("-- 1/app/fast.cpython-312-x86_64-linux-gnu.so --\nelf x86_64 soname=fast.so\nneeded libc.so.6\ndef PyInit_fast func\nundef PyImport_Import\nrodata \"importlib\\x00\"\n"),
		"a program with sources":   files("-- 1/app/tool --\n" + hiddenProgram + "rodata \"_MEIPASS\\x00\"\n"),
		"Python itself":            files(own("/usr/local/lib/python3.12/zoneinfo/_common.py", "from importlib import resources\ndef load(key):\n    return resources.files(\"bigjax.zoneinfo\")")),
		"a model's name":           {unusedStart, main(plainMain+"\ndef f(name):\n    return spacy.load(name)") + lib + frameworkOf(), big, ""},
		"an egg":                   files(own(unusedSite+"/x.egg", "PK")),
		"the interpreter's hook":   files(own("/usr/local/lib/python3.12/sitecustomize.py", "import bigjax")),

		// The packages do that the program uses.
		"required":                {unusedStart, main(plainMain) + installed("applib", "x = 1", "bigjax>=1") + frameworkOf(), big, ""},
		"required as an extra":    {unusedStart, main(plainMain) + installed("applib", "x = 1", "bigjax;extra=='fast'") + frameworkOf(), big, ""},
		"required further":        {unusedStart, main(plainMain) + installed("applib", "x = 1", "midlib") + installed("midlib", "x = 1", "bigjax") + frameworkOf(), big, ""},
		"a library's import":      library("def run():\n    import bigjax"),
		"a library's try":         library("try:\n    import bigjax\nexcept ImportError:\n    pass\ndef run():\n    pass"),
		"a library's text":        library("from importlib import import_module\ndef run():\n    pass\ndef load():\n    return import_module(\"bigjax\")\nx = load"),
		"a library's list":        library("import importlib\nBACKENDS = [\"bigjax\", \"numpy\"]\ndef run():\n    pass\ndef load():\n    for b in BACKENDS:\n        importlib.import_module(b)"),
		"a list of another":       library("from applib import other\nBACKENDS = (\n    \"bigjax\",\n)\ndef run():\n    other.load(BACKENDS)"),
		"a lazy module":           library("import lazy\nops = lazy.Module(\"bigjax\")\ndef run():\n    pass"),
		"split texts":             library("NAMES = \"numpy bigjax\".split()\ndef run():\n    pass"),
		"a library's command":     library("import subprocess\ndef run():\n    subprocess.run(\"python -m bigjax\", shell=True)"),
		"a function that is used": library("def run():\n    return _load()\ndef _load():\n    import bigjax"),
		"a used class":            library("class Backend:\n    def load(self):\n        import bigjax\ndef run():\n    return Backend()"),
		"a registered function":   library("@register(\"big\")\ndef load():\n    import bigjax\ndef run():\n    pass"),
		"a function by its name":  library("def load():\n    import bigjax\ndef run(kind=\"load\"):\n    return globals()[kind]()"),
		"a function of a program": {unusedStart, main(plainMain+"\nx = applib.jaxhandler") + app("def jaxhandler():\n    import bigjax\ndef run():\n    pass") + frameworkOf(), big, ""},
		"a library's settings":    {unusedStart, main(plainMain) + app("def run():\n    pass", "applib/backends.json", "{\"default\": \"bigjax\"}") + frameworkOf(), big, ""},
		"entry points of it":      {unusedStart, main(plainMain) + app("def load():\n    from importlib.metadata import entry_points\n    return entry_points(group=\"applib.backends\")\ndef run():\n    pass") + plugin("applib.backends"), big, ""},
		"a group by its parts":    {unusedStart, main(plainMain) + app("def load(name):\n    return catalogue.load(\"_\".join((\"applib\", name)))\ndef run():\n    pass") + unusedModules() + plugin("applib_factories"), big, ""},
		"a computed function":     {unusedStart, main(plainMain) + app("from applib import formats\ndef run():\n    pass\ndef load(kind):\n    return getattr(formats, \"read_\" + kind)", "applib/formats.py", "def read_big():\n    import bigjax") + unusedModules() + frameworkOf(), big, ""},
		"a .pth of its own":       {unusedStart, main(plainMain) + lib + frameworkOf("bigjax.pth", "import bigjax"), big, ""},

		// These do not lead to it.
		"entry points of others": goes(hidden{unusedStart, main(plainMain) + lib + plugin("pytest11"), big, ""}),
		"a comment":              goes(library("# faster than bigjax\ndef run():\n    pass")),
		"a docstring":            goes(library("\"\"\"As bigjax does.\n\nimport bigjax\n\"\"\"\ndef run():\n    '''bigjax'''")),
		"a message":              goes(library("def run(x=1):\n    if not x:\n        raise ValueError(\"neither numpy nor bigjax has it\")")),
		"types":                  goes(library("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import bigjax\ndef run():\n    pass")),
		"a comparison":           goes(library("def run(x=1):\n    return type(x).__module__ == \"bigjax\" or x in (\"a\", \"bigjax\")")),
		"a tested list":          goes(library("class C:\n    _skipped = frozenset((\n        \"numpy\",\n        \"bigjax\",\n    ))\n    def f(self, x):\n        return x.module in self._skipped\ndef run():\n    pass")),
		"an unused function":     goes(library("__all__ = [\"run\", \"jaxhandler\"]\ndef jaxhandler(x):\n    import bigjax\n    return jaxhandler(x)\ndef run():\n    pass")),
		"another's name":         goes(library("def f():\n    from . import bigjax\ndef run():\n    pass")),
		"an example":             goes(library("from applib import docs\ndef run():\n    pass\ndocs.add(run, \"\"\"\n>>> import bigjax\n>>> bigjax.x\n\"\"\")")),
		"a package's tests":      goes(hidden{unusedStart, main(plainMain) + app("def run():\n    pass", "applib/tests/test_big.py", "import bigjax") + frameworkOf(), big, ""}),
		"another function":       goes(hidden{unusedStart, main(plainMain) + app("from applib.formats import read\ndef run():\n    pass", "applib/formats.py", "def read_big():\n    import bigjax\ndef read():\n    pass") + unusedModules() + frameworkOf(), big, ""}),
		"another unused one":     goes(hidden{unusedStart, main(plainMain) + lib + installed("otherlib", "import bigjax", "bigjax") + frameworkOf(), big, ""}),

		// A program that takes code, or is not known.
		"a shell":           {"cmd [\"bash\"]\n" + strings.Replace(unusedStart, "entrypoint [\"python3\",\"/app/main.py\"]\n", "", 1), main(plainMain) + lib + frameworkOf(), big, ""},
		"an interpreter":    starts("[\"python3\"]", ""),
		"code":              starts("[\"python3\",\"-\"]", ""),
		"a notebook kernel": files(installed("ipykernel", "x = 1", "")),
		"a cluster":         files(installed("ray", "x = 1", "")),
		"an absent module":  {unusedStart, main("import plugin\n"+plainMain) + lib + frameworkOf(), big, ""},
		"installs first":    starts("[\"/start.sh\"]", sh+script("/usr/local/bin/pip", "#!/usr/local/bin/python3\nimport pip")+own(unusedSite+"/pip.py", "x = 1")+script("/start.sh", "#!/usr/bin/sh\npip install -r /data/requirements.txt\nexec python3 /app/main.py")),
		"an unknown start":  starts("[\"/start.sh\"]", sh+script("/start.sh", "#!/usr/bin/sh\n. /data/hooks.sh\nexec python3 /app/main.py")),
		"a known start":     goes(starts("[\"/start.sh\"]", sh+script("/start.sh", "#!/usr/bin/sh\nset -e\nexport A=1\nexec python3 /app/main.py"))),
		"no program":        {hiddenInfer, lib + frameworkOf() + "-- 1/usr/local/bin/python3.12 --\n" + hiddenProgram, big, ""},
		"conda's":           {unusedStart, main(plainMain) + lib + strings.Replace(frameworkOf(), "--\npip\n", "--\nconda\n", 1), big, ""},
		"small":             {unusedStart, main(plainMain) + lib + strings.Replace(frameworkOf(), "size 2000000", "size 20000", 1), big, ""},
	})
}

// TestUnusedText shows the packages with what only they require, and the command that removes all.
func TestUnusedText(t *testing.T) {
	text, err := images.Text("slim-unused-packages.txtar")
	if err != nil {
		t.Fatal(err)
	}
	shows(t, text,
		"  command  pip uninstall -y tensorflow nvidia-cublas-cu12 nvidia-cudnn-cu12",
		"tensorflow 2.18.0, with 6 packages that only it requires: nvidia-cublas-cu12, nvidia-cudnn-cu12, nvidia-cuda-runtime-cu12",
		" (/app/requirements.txt:2 asks for it)  layer 2\n")
}

// shows finds what an image can do without, and expects parts of the text that says so.
func shows(t *testing.T, image []byte, parts ...string) *size.Result {
	t.Helper()
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	img := read(t, image)
	ev, err := replay.Run(t.Context(), img.judged(img.fsys), set)
	if err != nil {
		t.Fatal(err)
	}
	r := find(t, img.sized(ev, set))
	validate(t, r)
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range parts {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, b.String())
		}
	}
	return r
}
