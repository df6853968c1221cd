package size_test

import (
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestUsers keeps the caches from which the image's start installs, and what it compiles with: no
// process maps them, and without them the start fails, or only a feature of it.
func TestUsers(t *testing.T) {
	text, err := images.Text("slim-hidden.txtar")
	if err != nil {
		t.Fatal(err)
	}
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	const program = " --\nelf x86_64 interp=/lib64/ld-linux-x86-64.so.2 mode=0755\nneeded libc.so.6\n"
	var more strings.Builder
	for _, name := range []string{"sh", "uv", "uvx", "pip", "apt-get", "npm", "npx", "conda", "gcc", "poetry", "true"} {
		more.WriteString("-- 2/usr/bin/" + name + program)
	}
	files := map[string]string{
		"pip": "root/.cache/pip/http-1", "uv": "root/.cache/uv/archive/a", "apt": "var/lib/apt/lists/a",
		"npm": "root/.npm/_cacache/a", "conda": "opt/conda/pkgs/a.conda", "poetry": "root/.cache/pypoetry/artifacts/a",
		"wheel": "tmp/wheels/a.whl", "static": "usr/lib/liba.a", "header": "usr/include/a.h", "cuda": "usr/local/cuda-12.4/include/cuda_fp16.h",
	}
	for _, f := range files {
		if !strings.Contains(f, "/pip/") {
			more.WriteString("-- 1/" + f + " --\nsize 1000\n")
		}
	}
	jit := "-- 2/usr/bin/jit" + program + "needed libnvrtc.so.12\n" +
		"-- 2/usr/lib/x86_64-linux-gnu/libnvrtc.so.12 --\nelf x86_64 soname=libnvrtc.so.12\nneeded libc.so.6\n"
	more.WriteString("-- 2/start.sh --\ntext mode=0755\n#!/bin/sh\nset -e\nif [ -n \"$EXTRA\" ]; then\n  apt-get install -y --no-install-recommends $EXTRA\nfi\nexec /app/infer\n")
	for start, kept := range map[string]string{
		`["/app/infer"]`:                               "",
		`["uv", "run", "--offline", "app.py"]`:         "uv",
		`["uv", "run", "--no-sync", "true"]`:           "",
		`["uv", "--version"]`:                          "",
		`["uvx", "ruff"]`:                              "uv",
		`["sh", "-c", "pip install -e /app && infer"]`: "pip",
		`["sh", "-c", "pip list && infer"]`:            "",
		`["/start.sh"]`:                                "apt",
		`["npx", "serve"]`:                             "npm",
		`["sh", "-c", "pip install --no-index /tmp/wheels/*.whl && infer"]`: "pip wheel",
		`["sh", "-c", "pip install --find-links=/tmp/wheels a"]`:            "pip wheel",
		`["sh", "-c", "unzip -d /app /tmp/wheels/a.whl; infer"]`:            "wheel",
		`["npm", "start"]`:                                "",
		`["npm", "ci", "--offline"]`:                      "npm",
		`["conda", "run", "-n", "base", "true"]`:          "",
		`["conda", "install", "--offline", "a"]`:          "conda",
		`["poetry", "install"]`:                           "poetry",
		`["sh", "-c", "gcc -shared app.c && exec infer"]`: "static header cuda",
		`["/usr/bin/jit"]`:                                "cuda",
	} {
		jit := jit
		if kept != "cuda" {
			jit = ""
		}
		img := read(t, []byte(strings.Replace(string(text), `entrypoint ["/app/infer"]`, "entrypoint "+start, 1)+more.String()+jit))
		ev, err := replay.Run(t.Context(), img.judged(img.fsys), set)
		if err != nil {
			t.Fatal(err)
		}
		r := find(t, size.Image{Layers: img.layers, FS: img.fsys, Evidence: ev, Packs: set})
		got := claimed(r)
		var why []string
		for _, k := range r.Kept {
			why = append(why, k.Title+" for "+k.For)
		}
		for what, f := range files {
			if is, want := !strings.Contains(got, "/"+f), strings.Contains(" "+kept+" ", " "+what+" "); is != want {
				t.Errorf("%s: the file of %s is kept: %v (%s)", start, what, is, strings.Join(why, ", "))
			}
		}
		if (strings.ReplaceAll(kept, "wheel", "") == "") != (len(why) == 0) {
			t.Errorf("%s: kept %q", start, why)
		}
		validate(t, r)
	}
}
