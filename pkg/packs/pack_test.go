package packs

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/imgcheck/imgcheck/rules"
)

func embedded(t *testing.T) *Packs {
	t.Helper()
	p, err := LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFamilies checks which names are GPU libraries, and which the driver brings.
func TestFamilies(t *testing.T) {
	p := embedded(t)
	for name, want := range map[string]string{
		"libcudart.so.12": "cuda", "libcudart.so.11.0": "cuda", "libcudart-9335f6a2.so.12": "cuda", "libcudart.faf08d9a.so.13": "cuda",
		"libcublasLt.so.12": "cuda", "libnvrtc-builtins.so.12.4": "cuda", "libnvrtc-672ee683.so.11.2": "cuda", "libcufftw.so.11": "cuda",
		"libnppicc.so.12": "cuda", "libcusparseLt.so.0": "cuda", "libnvJitLink.so.12": "cuda", "libcupti.so.13": "cuda",
		"libcudnn.so.9": "cudnn", "libcudnn_ops_infer.so.8": "cudnn", "libcudnn_engines_precompiled.so.9": "cudnn", "libcudnn.so": "cudnn",
		"libnccl.so.2": "nccl", "libnvinfer.so.10": "tensorrt", "libnvinfer_plugin.so.10": "tensorrt", "libnvonnxparser.so.10": "tensorrt",
		"/opt/lib/libcudnn.so.9": "cudnn",
		// of no family
		"libcuda.so.1": "", "libcudadebugger.so.1": "", "libcutensor.so.2": "", "libnccl-net.so": "nccl", "libcurl.so.4": "", "libcups.so.2": "",
		"libc.so.6": "", "libtorch_cuda.so": "", "libcudf.so": "", "libnvidia-ml.so.1": "",
	} {
		got := ""
		if f := p.Family(name); f != nil {
			got = f.ID
		}
		if got != want {
			t.Errorf("%s: family %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{
		"libcuda.so.1": true, "libcuda.so": true, "libnvidia-ml.so.1": true, "libnvcuvid.so.1": true, "libnvidia-encode.so.1": true, "libGLX_nvidia.so.0": true,
		"libcudart.so.12": false, "libGL.so.1": false, "libcuda-injection.so": false, "libcuda": false,
	} {
		if got := p.FromDriver(name); got != want {
			t.Errorf("%s: from the driver %v, want %v", name, got, want)
		}
	}
}

// manyKeys returns n keys of a mapping. The decoder compares each with all others, which
// takes many seconds for 50,000.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d, ", i)
	}
	return b.String()
}

// note returns a pack's section rules with one rule, which is a note.
func note(id string) string {
	return "rules: [{id: " + id + ", severity: note, title: t, doc: d, sources: [s]}]"
}

// TestBadPacks checks that invalid packs are refused, with their file and the reason.
func TestBadPacks(t *testing.T) {
	for text, want := range map[string]string{
		"rules: [{id: a, severity: error, title: t}]":                                                                        `rule "a": needs an id, a title, a doc and a severity`,
		"rules: [{id: a, severity: bad, title: t, doc: d}]":                                                                  "a severity (error, warning or note)",
		"rules: [{id: a, severity: note, title: t, doc: d, colour: red}]":                                                    "field colour not found",
		"families: [{id: a, title: t, match: ['lib[.so'], sources: [s]}]":                                                    "is not a pattern",
		"families: [{id: a, title: t, match: ['lib.so'], sources: [s], fix_of: [{match: [l], fix: [f]}]}]":                   "fix_of: needs",
		"families: [{id: a, title: t, match: ['lib.so']}]":                                                                   "and sources",
		"driver: {libraries: [libx]}":                                                                                        "driver: needs sources",
		"optional: [{match: '**/x.so', sources: [s]}]":                                                                       "a why and sources",
		"shared_fixes: [{of: [a], fix: f}]":                                                                                  `fix "f": needs the cases that it is of, and sources`,
		"surroundings: [{id: a, kind: k, label: in a}]":                                                                      `surrounding "a": needs an id, a kind, a label and words`,
		"surroundings: [{id: a, kind: k, label: l, words: [[w]], fixes: [{of: [b], fix: f}]}]":                               `surrounding "a": fix "f": needs`,
		"versions: [{match: 'X_*', sources: [s]}]":                                                                           "needs a match, a fix and sources",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], preload: [{when: soon}]}]":                                  `when is "soon"`,
		"frameworks: [{id: a, title: t, marker: m, sources: [s], preload: [{when: first, versions: '~2'}]}]":                 "is not >=, < or == and a version",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], preload: [{when: first, dirs: [lib], files: [a/b]}]}]":      `dirs: "lib" has neither`,
		"frameworks: [{id: a, title: t, marker: m, sources: [s], preload: [{when: first, dirs: ['{folder}'], files: [b]}]}]": `files: "b" is not FOLDER/NAME`,
		"frameworks: [{id: a, title: t, marker: m, sources: [s], preload: [{when: first, missing: x}]}]":                     "missing goes with after-miss",
		"frameworks: [{id: a, title: t, marker: m/n, sources: [s]}]":                                                         "the marker is a file name",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], later: [{part: p, names: [n]}]}]":                           "an effect unless it is optional",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], helped: [{why: w}]}]":                                       "a framework or files",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], uses: [{part: p}]}]":                                        "needs a part (id/part)",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], refuses: [{library: l, numbers: 1, effect: e}]}]":           "needs a library, its own",
		"dlopens: [{id: a, by: [b], sources: [s]}]":                                                                          "who opens (by), opens",
		"dlopens: [{id: a, by: [b], sources: [s], opens: [{part: p, names: [n], effect: e, flags: [soon]}]}]":                `flag is "soon"`,
		"dlopens:\n- ~": "bad.yaml:2: an entry of dlopens is empty",

		"rules:\n- {id: a, " + manyKeys(50_000) + "}": "bad.yaml:2: has more than 1024 keys in one mapping",
		"? {" + manyKeys(50_000) + "}\n: 1":           "has more than 1024 keys in one mapping",

		"toolkits: [{cuda: '12'}]":                                                                                                       "toolkits: needs",
		"sonames: [{libraries: [liba], sources: [s]}]":                                                                                   "sonames: needs",
		"releases: [{match: ['lib*'], sources: [s]}]":                                                                                    "releases: needs",
		"symbols: [{match: 'x*'}]":                                                                                                       "needs a match and sources",
		"symbols: [{match: 'x[', sources: [s]}]":                                                                                         "is not a pattern",
		"frameworks: [{id: a, title: t, package: p, sources: [s]}]":                                                                      "a marker and sources",
		"pairs: [{package: a, for: b, sources: [s]}]":                                                                                    "needs a package, what it is for, versions and sources",
		"pairs:\n- {package: a, for: b, versions: {\"1\": \"2\"}, cuda: patch, sources: [s]}":                                            `bad.yaml:2: pair a: cuda is major or minor, not "patch"`,
		"stacks: [{package: a, versions: '>=1', sources: [s]}]":                                                                          "versions, cuda or cudnn, and sources",
		"stacks: [{package: a, versions: '1', cuda: '12', sources: [s]}]":                                                                "is not a version specifier",
		"stacks: [{package: a, versions: '>=1', cudnn: 'x', sources: [s]}]":                                                              "is not a version",
		"exclusive: [{id: a, members: [a, b], keep: c, sources: [s]}]":                                                                   "which of them to keep",
		"cpu_builds: [{package: a, effect: e, fix: f, severity: bad, sources: [s]}]":                                                     "a severity and sources",
		"pinned: [{packages: ['a['], requires: [b], why: w, severity: note, sources: [s]}]":                                              "is not a pattern",
		"rules: [{id: a, title: t, severity: note, doc: d, sources: [s], mend: [variable], edits: [{variable: A, op: grow, value: x}]}]": "needs a variable and an op",
		"rules: [{id: a, title: t, severity: note, doc: d, sources: [s], mend: [variable], edits: [{variable: A, op: drop}]}]":           "needs a value",
		"rules: [{id: a, title: t, severity: note, doc: d, sources: [s], mend: [variable]}]":                                             "edits go with",
		"rules: [{id: a, title: t, severity: note, doc: d, sources: [s], edits: [{variable: A, op: tidy}]}]":                             "edits go with",

		"carriers: [{family: cudnn, library: libcudnn.so}]":                                     "carrier \"cudnn\": needs a family, a library and sources",
		"pairs: [{package: a, for: b, versions: {\"1\": \"2\"}, builds: ['c['], sources: [s]}]": "is not a pattern",
		"cxx_namespaces: [{names: [at], sources: [s]}]":                                         "needs names, libraries and sources",
		"extension_builds: [{packages: [a], for: torch, versions: '>=2'}]":                      "needs packages, what they are for, its versions and sources",
		"extension_builds: [{packages: [a], for: torch, versions: two, sources: [s]}]":          "extension builds of [\"a\"]: versions: ",
		"extension_hosts: [{match: torch, sources: [s]}]":                                       "needs a match, a why and sources",
		"rules:\n- {id: cpu-build, severity: note, title: t, doc: d, sources: [s]}\ncpu_builds:\n- {package: a, effect: e, fix: f, severity: warning, sources: [s]}": "bad.yaml:4: cpu_builds: a row has the severity warning, and the rule cpu-build is note",

		"rules: [{id: a, severity: note, kind: odd, title: t, doc: d, sources: [s]}]":                                                                                                        `rule "a": there is no kind "odd": say one of missing, unusable,`,
		"rules: [{id: a, severity: note, title: t, doc: d, sources: ['']}]":                                                                                                                  `rule "a": needs sources`,
		"rules: [{id: a, severity: note, title: t, doc: d, sources: [s], mend: [grow]}]":                                                                                                     `there is no step "grow": say one of link,`,
		"rules: [{id: a, severity: note, title: t, doc: d, sources: [s], clauses: {c: {message: m, sources: [' ']}}}]":                                                                       `rule "a": clause "c": a source is empty`,
		"rules: [{id: a, severity: note, title: t, doc: d, sources: [s], clauses: {c: {message: m, severity: warning}}}]":                                                                    `clause "c" has a higher severity than the rule`,
		"clauses: {c: {message: m, severity: bad}}":                                                                                                                                          `clause "c": severity is "bad"`,
		"absent: [{match: m, why: w, sources: [s]}]":                                                                                                                                         `absent "m": needs an effect`,
		"made_for: [{package: a, versions: '>=1', needs: 'b>1', effect: e, severity: error, sources: [s]}]\n" + note("requirement-unmet"):                                                    "bad.yaml:1: made_for: a row has the severity error, and the rule requirement-unmet is note",
		"dlopens: [{id: a, by: [b], sources: [s], opens: [{part: p, names: [n], effect: e, severity: note}, {part: q, names: [n], effect: e, severity: warning}]}]\n" + note("missing-link"): "bad.yaml:1: dlopens: a row has the severity warning, and the rule missing-link is note",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], later: [{part: p, names: [n], effect: e, severity: error}]}]\n" + note("missing-library"):                                   "bad.yaml:1: frameworks: a row has the severity error",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], uses: [{part: p/q, severity: error}]}]\n" + note("missing-sublibrary"):                                                      "bad.yaml:1: frameworks: a row has the severity error",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], mixed: [{library: l, effect: e, severity: warning}]}]\n" + note("mixed-releases"):                                           "bad.yaml:1: frameworks: a row has the severity warning, and the rule mixed-releases is note",

		"capabilities: [{name: compute}]":         "needs a name and sources",
		"mounts: [{match: 'a/**', sources: [s]}]": "needs a match, a why and sources",
		"rules:\n- {id: a, severity: note, title: t, doc: d, sources: [s]}\n- {id: a, severity: note, title: t, doc: d, sources: [s]}": `bad.yaml:3: rule "a" is there twice`,
		"rules: [{id: a, severity: note, title: t, doc: d}]":                                                                           `rule "a": needs sources`,
		"rules: [{id: A b, severity: note, title: t, doc: d, sources: [s]}]":                                                           "an id is of lower-case letters",
		"\n\nrules:\n- {id: a, severity: note, title: t, doc: d, sources: [s]}\n- {id: b}":                                             `bad.yaml:5: rule "b": needs`,
		"rules: [{id: a, severity: note, title: \"a\\nb\", doc: d, sources: [s]}]":                                                     "a title is one line",
		"rules:\n- ~":               "bad.yaml:2: an entry of rules is empty",
		"pairs:\n- ~":               "bad.yaml:2: an entry of pairs is empty",
		"rules:\n- 5\n":             "bad.yaml:2: cannot unmarshal",
		"driver:\n  libraries: [a]": "bad.yaml:1: driver: needs sources",
		"\nrules: {":                "did not find expected",

		"rules: []\n---\nrules: []\n": "bad.yaml:2: has a second document",
		"dlopens: [{id: a, by: [b], sources: [s], opens: [{part: p, effect: e, names: " + many("n", maxOpens) + "}]}]":                                               "bad.yaml:1: frameworks and dlopens have 2001 names and patterns",
		"dlopens: [{id: a, by: " + many("b", maxOpens) + ", sources: [s], opens: [{part: p, effect: e, names: [n]}]}]":                                               "bad.yaml:1: frameworks and dlopens have 2001 names and patterns",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], preload: [{when: first, dirs: " + many("{folder}/d", 50) + ", files: " + many("f/x", 50) + "}]}]":   "bad.yaml:1: frameworks and dlopens have 2500 names and patterns",
		"frameworks: [{id: a, title: t, marker: m, sources: [s], later: [{part: p, effect: e, names: " + many("n", maxOpens) + "}], steps: [{open: o, effect: e}]}]": "bad.yaml:1: frameworks and dlopens have 2001 names and patterns",
		"rules:\n" + manyRules(): "bad.yaml:2: there are 2001 rules with this pack, more than the limit of 2000",
	} {
		_, err := LoadPacks(fstest.MapFS{"bad.yaml": {Data: []byte(text)}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "rule pack bad.yaml:") {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// many returns a list of n names.
func many(name string, n int) string {
	return "['" + strings.Repeat(name+"', '", n-1) + name + "']"
}

// manyRules returns one rule more than the limit.
func manyRules() string {
	var b strings.Builder
	for i := range maxRules + 1 {
		fmt.Fprintf(&b, "- {id: r%d, severity: note, title: t, doc: d, sources: [s]}\n", i)
	}
	return b.String()
}

// TestManyPacks checks that packs that are small each are refused if they are large together.
func TestManyPacks(t *testing.T) {
	fsys := fstest.MapFS{}
	for i := range maxPacksSize/(maxPackSize/2) + 1 {
		fsys[fmt.Sprintf("%d.yaml", i)] = &fstest.MapFile{Data: []byte("#" + strings.Repeat("\n", maxPackSize/2-1))}
	}
	if _, err := LoadPacks(fsys); err == nil || err.Error() != "rule pack 8.yaml: the rule packs of its directory are together longer than the limit of 4194304 bytes" {
		t.Error(err)
	}
	delete(fsys, "8.yaml")
	if _, err := LoadPacks(fsys); err != nil {
		t.Error(err)
	}
}

// TestHeavyRowOfAnotherPack checks that a pack is refused whose rule is lighter than the row
// of a pack before it, or the other way round.
func TestHeavyRowOfAnotherPack(t *testing.T) {
	rule := fstest.MapFS{"rule.yaml": {Data: []byte("\n" + note("cpu-build"))}}
	row := fstest.MapFS{"row.yaml": {Data: []byte("cpu_builds:\n- {package: a, effect: e, fix: f, severity: warning, sources: [s]}")}}
	const text = "cpu_builds: a row has the severity warning, and the rule cpu-build is note"
	if _, err := LoadPacks(rule, row); err == nil || err.Error() != "rule pack row.yaml:2: "+text {
		t.Error(err)
	}
	if _, err := LoadPacks(row, rule); err == nil || err.Error() != "rule pack rule.yaml:2: "+text {
		t.Error(err)
	}
}

// TestSectionsAreValidated checks that entries of every section have validate, which
// Sections.validate finds by reflection.
func TestSectionsAreValidated(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Sections]()) {
		of := reflect.PointerTo(f.Type)
		if f.Type.Kind() != reflect.Struct {
			of = f.Type.Elem()
		}
		if !of.Implements(reflect.TypeFor[interface{ validate() error }]()) && f.Type.Kind() != reflect.Map {
			t.Errorf("%s has no validate", f.Name)
		}
	}
}

// FuzzPacks checks that a pack from anywhere either loads, and then its rules have pages, or
// is refused in one line with its name and a line number.
func FuzzPacks(f *testing.F) {
	entries, err := rules.FS.ReadDir(".")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if b, err := rules.FS.ReadFile(e.Name()); err == nil {
			f.Add(string(b))
		}
	}
	f.Add("rules: [{id: a, severity: note, title: t, doc: d, sources: [s]}]")
	f.Add("frameworks: [{steps: [~]}]\ntexts: [{where: {a: [b]}}]\n---\nrules: 1")
	line := regexp.MustCompile(`^rule pack x\.yaml:[0-9]+: .`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := LoadPacks(fstest.MapFS{"x.yaml": {Data: []byte(text)}})
		if err != nil {
			if !line.MatchString(err.Error()) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("not one line with its place: %q", err)
			}
			return
		}
		for _, r := range p.Rules {
			if !strings.HasPrefix(r.Page(), "# "+r.ID+"\n") {
				t.Fatalf("rule %q has the page %q", r.ID, r.Page())
			}
		}
	})
}
