package replay

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// TestImportsFirst checks whether the image's program imports torch before anything may
// import onnxruntime.
func TestImportsFirst(t *testing.T) {
	set := embedded(t)
	const python = "-- 0/usr/bin/python3 --\nelf x86_64 interp=/lib64/ld-linux-x86-64.so.2\nneeded libc.so.6\n"
	const site = "-- 0/usr/lib/python3/dist-packages/"
	const requires = site + "insightface-1.dist-info/METADATA --\nName: insightface\nVersion: 1\nRequires-Dist: onnxruntime\n" + site + "insightface-1.dist-info/RECORD --\ninsightface/__init__.py,,\n" + site + "insightface/__init__.py --\n# faces\n"
	for name, c := range map[string]struct {
		command string
		files   string
		want    bool
	}{
		"by itself":                {"python3 main.py", "-- 0/app/main.py --\nimport torch\nimport onnxruntime\n", true},
		"after":                    {"python3 main.py", "-- 0/app/main.py --\nimport onnxruntime\nimport torch\n", false},
		"after, where it is there": {"python3 main.py", "-- 0/app/main.py --\ntry:\n  import onnxruntime\nexcept ImportError: pass\nimport torch\n", false},
		"never":                    {"python3 main.py", "-- 0/app/main.py --\nimport os\n", false},
		"perhaps":                  {"python3 main.py", "-- 0/app/main.py --\nif gpu:\n  import torch\nimport onnxruntime\n", false},
		"in a string":              {"python3 main.py", "-- 0/app/main.py --\n'''\nimport torch\n'''\n", false},
		"a module of its own":      {"python3 -u -X utf8 /app/main.py", "-- 0/app/main.py --\nfrom comfy import utils\nimport onnxruntime\n-- 0/app/comfy/utils.py --\nimport torch\n", true},
		"relative":                 {"python3 -m app.main", "-- 0/app/app/main.py --\nfrom . import here\n-- 0/app/app/__init__.py --\n\n-- 0/app/app/here.py --\nfrom .there import x\n-- 0/app/app/there.py --\nimport here2, torch\n", true},
		"a package's first file":   {"python3 main.py", "-- 0/app/main.py --\nimport torchvision.ops\n" + site + "torchvision/__init__.py --\nimport torch\n", true},
		"a package that may":       {"python3 main.py", "-- 0/app/main.py --\nimport insightface\nimport torch\n" + requires, false},
		"a package afterwards":     {"python3 main.py", "-- 0/app/main.py --\nimport torch\nimport insightface\n" + requires, true},
		"a ring":                   {"python3 main.py", "-- 0/app/main.py --\nimport a\nimport torch\n-- 0/app/a.py --\nimport b\n-- 0/app/b.py --\nimport a\n", true},
		"a shell":                  {"sh main.py", "-- 0/app/main.py --\nimport torch\n", false},
		"a command line":           {"python3 -c main.py", "-- 0/app/main.py --\nimport torch\n", false},
		"not all is kept":          {"python3 main.py", "-- 0/app/main.py --\nimport a\nimport torch\n-- 0/app/a.py --\n# imgcheck: reduced 1: it is too long\nimport b\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fsKeeping(t, debianRoot+python+c.files, inventory.Wants)
			img := &Image{FS: fsys, Config: &v1.ConfigFile{Config: v1.Config{Entrypoint: strings.Fields(c.command), WorkingDir: "/app"}}}
			re := newTest(t, img, set)
			if got := re.packages.importsFirst("torch", "onnxruntime", "/usr/lib/python3/dist-packages"); got != c.want {
				t.Errorf("it is %v, want %v", got, c.want)
			}
		})
	}
}
