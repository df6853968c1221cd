package policy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/report"
)

const whole = `
images: [ghcr.io/org/app:1, {ref: "oci:x", platform: linux/arm64, dockerfile: docker/Dockerfile, indexes: {from: none}}]
fail-on: never
severities: {a: error, b: note}
rules: packs
ignore:
- id: a
  path: "**/x/**"
  image: "ghcr.io/*/app"
  library: "lib*.so.*"
  reason: because
  expires: 2026-11-21
from: [dir:/opt/cudnn, dir:vendor, "pypi:"]
baseline: /abs/base.json
indexes: {from: ghcr.io/org/indexes, keys: [build.pub, "-----BEGIN PUBLIC KEY-----"]}
`

func TestParse(t *testing.T) {
	got, err := Parse("dir/.imgcheck.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := &Policy{
		File: "dir/.imgcheck.yaml", Images: []Image{{Ref: "ghcr.io/org/app:1"}, {Ref: "oci:x", Platform: "linux/arm64", Dockerfile: "dir/docker/Dockerfile", Indexes: Indexes{From: "none"}}}, FailOn: report.Never,
		Severities: []Severity{{"a", packs.Error, "dir/.imgcheck.yaml", 4}, {"b", packs.Note, "dir/.imgcheck.yaml", 4}}, Rules: "dir/packs", From: []string{"dir:/opt/cudnn", "dir:dir/vendor", "pypi:"}, Baseline: "/abs/base.json",
		Indexes: Indexes{"ghcr.io/org/indexes", []Key{{Path: "dir/build.pub", File: "dir/.imgcheck.yaml", Line: 15}, {Text: "-----BEGIN PUBLIC KEY-----", File: "dir/.imgcheck.yaml", Line: 15}}},
		Ignores: []Ignore{{"a", "**/x/**", "ghcr.io/*/app", "lib*.so.*", "because", "2026-11-21", "dir/.imgcheck.yaml", 7}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Policy{})); diff != "" {
		t.Error(diff)
	}
	for ref, want := range map[string]string{"oci:x": "dir/docker/Dockerfile", "ghcr.io/org/app:1": "", "else": ""} {
		if file := got.DockerfileOf(Image{Ref: ref}); file != want {
			t.Errorf("the Dockerfile of %s is %q, want %q", ref, file, want)
		}
	}
	for ref, want := range map[string]string{"oci:x": "none 2", "else": "ghcr.io/org/indexes 2"} {
		if x := got.IndexesOf(Image{Ref: ref}); fmt.Sprint(x.From, " ", len(x.Keys)) != want {
			t.Errorf("the indexes of %s are %v, want %s", ref, x, want)
		}
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "images:\nignore:\nfail-on:\n"} {
		if _, err := Parse("f", []byte(empty)); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

// badFiles are files that Parse refuses, with the error of each. The JSON Schema accepts
// those whose schema is false, because it cannot express the rule.
var badFiles = []struct {
	text, want string
	schema     bool
}{
	{"images: []\na: b: c", "f:2: mapping values are not allowed in this context", false},
	{"- a", "f:1: the file: want keys and values, not a list", true},
	{"fail_on: error", `f:1: the file has no key "fail_on": did you mean fail-on?`, true},
	{"fail-on: error\n\nseverity: {}", `f:3: the file has no key "severity": did you mean severities?`, true},
	{"zzz: 1", `f:1: the file has no key "zzz": there are extends, images, targets, fail-on, `, true},
	{"fail-on: error\nfail-on: note", "f:2: fail-on is set twice", false},
	{"fail-on: fatal", `f:1: there is no severity "fatal": say error, warning, note or never`, true},
	{"severities: {a: never}", `f:1: there is no severity "never": say error, warning or note`, true},
	{"severities: [a]", "f:1: severities: want rules with their severities", true},
	{"ignore: {id: a}", "f:1: ignore: want a list, not keys and values", true},
	{"ignore:\n- id: a", "f:2: the ignore of a needs a reason", true},
	{"ignore:\n- id: a\n  reason: ' '", `f:3: want text, not nothing`, true},
	{"ignore:\n- reason: r", "f:2: an ignore needs an id", true},
	{"ignore:\n- id: a\n  reasn: r", `f:3: an ignore has no key "reasn": did you mean reason?`, true},
	{"ignore:\n- id: a\n  reason: r\n  expires: soon", `f:4: "soon" is not a date: write it like 2026-12-31`, true},
	{"ignore:\n- id: a\n  reason: r\n  expires: 2026-02-30", `f:4: "2026-02-30" is not a date`, false},
	{"ignore:\n- id: a\n  reason: r\n  path: '[a'", `f:4: "[a" is not a pattern`, false},
	{"images: [{platform: x}]", "f:1: an image needs a ref", true},
	{"images: [[a]]", "f:1: an image: want keys and values, not a list", true},
	{"images: [&a x, *a]", "f:1: an image: want keys and values, not an alias", false},
	{"indexes: {}", "f:1: indexes: want from, keys or both", true},
	{"indexes: {from: referrer}", `f:1: indexes: from "referrer": say referrers, a repository`, true},
	{"indexes: {key: a}", `f:1: indexes has no key "key": did you mean keys?`, true},
	{"indexes: {keys: a.pub}", `f:1: keys: want a list, not "a.pub"`, true},
	{"rules: [a]", "f:1: want text, not a list", true},
	{"{}\n---\n{}", "f: more than one document", false},
	{"root:$6$hunter2:20228::\n", "f:1: the file has an unknown key, which is not shown here: there are extends", true},
	{"hunter2 of a file that extends names", "f:1: the file: want keys and values, not a text", true},
	{"targets: [" + strings.Repeat("L4,", maxTargets+1) + "]", "f:1: there are more than 1000 targets", false},
}

func TestBadFiles(t *testing.T) {
	for _, x := range badFiles {
		p, err := Parse("f", []byte(x.text))
		if err == nil || !strings.HasPrefix(err.Error(), x.want) || p != nil {
			t.Errorf("%q:\n got %v\nwant %s", x.text, err, x.want)
		}
	}
}

// TestSchema compares the published JSON Schema with the parser: both accept the
// template, with its comments and without, and refuse the same files.
func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schema", "config-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		return schema.Validate(jsonable(v))
	}
	filled := regexp.MustCompile(`(?m)^#([a-z]|  )`).ReplaceAllString(Template(nil), "$1")
	for _, text := range []string{whole, Template(nil), filled, Template([]string{"a:1", `b"c`})} {
		p, err := Parse("f", []byte(text))
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		if err := valid(text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		if text == filled && (len(p.Images) != 2 || len(p.Ignores) != 1 || p.FailOn != packs.Error || p.Baseline == "" || p.Rules == "" || len(p.From) != 1 || p.Indexes.From == "" || len(p.Indexes.Keys) != 1 || len(p.Severities) != 1) {
			t.Errorf("the template lacks something: %+v", p)
		}
	}
	for _, x := range badFiles {
		if x.schema && valid(x.text) == nil {
			t.Errorf("the schema takes %q", x.text)
		}
	}
}

// jsonable converts a YAML value to its JSON form, in which a date is a string.
func jsonable(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = jsonable(v[k])
		}
	case []any:
		for i := range v {
			v[i] = jsonable(v[i])
		}
	case interface{ Format(string) string }:
		return v.Format("2006-01-02")
	}
	return v
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	mk := func(dir string) string {
		d := filepath.Join(root, dir)
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		return d
	}
	write := func(dir string) string {
		name := filepath.Join(mk(dir), FileName)
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	above := write("")
	mk("repo/.git")
	in := write("team/svc")
	mk("other/.git")
	top := write("other")
	for dir, want := range map[string]string{"": above, "repo/a/b": "", "repo": "", "team/svc": in, "team/svc/deep": "", "team": "", "other/a/b": top} {
		got, err := Find(mk(dir))
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", dir, got, err, want)
		}
	}
}

var ruleList = []*packs.Rule{{ID: "missing-library", Severity: packs.Error}, {ID: "broken-entrypoint", Severity: packs.Warning}}

func doc(f ...lint.Finding) *report.Document {
	d := report.New(report.Image{Ref: "ghcr.io/org/app:1"}, &lint.Result{Findings: f})
	d.Rules = ruleList
	return d
}

func missing(lib string, s packs.Severity, paths ...string) lint.Finding {
	f := lint.Finding{Rule: "missing-library", Severity: s, Message: lib + ": cannot open", Library: lib}
	for _, p := range paths {
		f.NeededBy = append(f.NeededBy, replay.File{Path: p})
	}
	return f
}

func parse(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"severities:\n  missing-libary: note":                      `f:2: there is no rule "missing-libary": did you mean missing-library?`,
		"ignore:\n- {id: nothing-like-it-at-all, reason: r}":       `f:2: there is no rule "nothing-like-it-at-all"`,
		"ignore:\n- {id: missing-library, reason: r}\nbaseline: x": "",
	} {
		got := ""
		if err := parse(t, text).Check(ruleList); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestIgnore(t *testing.T) {
	d := doc(missing("libcudnn.so.9", packs.Error, "/opt/x/a.so", "/opt/y/b.so"))
	for entry, ignored := range map[string]bool{
		"":                         true,
		"path: '**/*.so'":          true,
		"path: /opt/**":            true,
		"path: opt/x/*":            false, // b.so is affected too
		"image: 'ghcr.io/org/*'":   true,
		"image: ghcr.io/org/app":   true,
		"image: 'ghcr.io/*'":       false, // * ends at a slash
		"image: 'ghcr.io/**'":      true,
		"library: 'libcudnn*'":     true,
		"library: libcudnn.so.8":   false,
		"expires: 2026-11-20":      false,
		"expires: 2026-11-21":      true,
		"expires: 2027-01-01":      true,
		"path: '**', image: other": false,
	} {
		got, warnings := parse(t, fmt.Sprintf("ignore: [{id: missing-library, reason: r, %s}]", entry)).Apply(d, nil, "2026-11-21")
		if (len(got.Ignored) == 1) != ignored || len(got.Findings)+len(got.Ignored) != 1 || got.Summary.Errors != len(got.Findings) {
			t.Errorf("%s: %+v", entry, got)
		}
		if expired := strings.HasPrefix(entry, "expires: 2026-11-20"); (len(warnings) == 1) != expired {
			t.Errorf("%s: warnings %q", entry, warnings)
		}
	}
	if _, w := parse(t, "ignore:\n- {id: missing-library, reason: why, expires: 2020-01-02}").Apply(d, nil, "2026-11-21"); len(w) != 1 || w[0] != "f:2: the ignore of missing-library expired on 2020-01-02, so its findings count: why" {
		t.Errorf("got %q", w)
	}
	// Nothing to ignore gives no warning.
	if _, w := parse(t, "ignore:\n- {id: broken-entrypoint, reason: why, expires: 2020-01-02}").Apply(d, nil, "2026-11-21"); len(w) != 0 {
		t.Errorf("got %q", w)
	}
	// An entry without a path matches a finding without a path.
	if got, _ := parse(t, "ignore: [{id: broken-entrypoint, reason: r, path: '**'}]").Apply(doc(lint.Finding{Rule: "broken-entrypoint", Severity: packs.Error}), nil, "2026-11-21"); len(got.Ignored) != 0 {
		t.Error("a path matches a finding without one")
	}
}

// TestSeverities: a finding that has its rule's severity gets the policy's, and a finding
// that was lowered with a reason is not raised.
func TestSeverities(t *testing.T) {
	d := doc(missing("a", packs.Error), missing("b", packs.Note), lint.Finding{Rule: "broken-entrypoint", Severity: packs.Warning, Message: "m"})
	for text, want := range map[string]string{
		"severities: {missing-library: warning}":                           "warning a, warning , note b",
		"severities: {missing-library: note}":                              "warning , note a, note b",
		"severities: {missing-library: error}":                             "error a, warning , note b",
		"severities: {broken-entrypoint: error, missing-library: warning}": "error , warning a, note b",
		"": "error a, warning , note b",
	} {
		got, _ := parse(t, text).Apply(d, nil, "2026-11-21")
		var list []string
		for _, f := range got.Findings {
			list = append(list, string(f.Severity)+" "+f.Library)
		}
		if s := strings.Join(list, ", "); text != "" && s != want {
			t.Errorf("%s: %s, want %s", text, s, want)
		}
	}
}

// TestBaseline: a known finding does not count, whatever the order and the Python version
// in its path. A finding that is new, heavier, or of another file counts.
func TestBaseline(t *testing.T) {
	old := doc(missing("a", packs.Error, "/usr/lib/python3.10/site-packages/p/x.so"), missing("b", packs.Note, "/b"))
	old.Known = []lint.Finding{missing("k", packs.Error, "/k")}
	old.Ignored = []report.Ignored{{Finding: missing("i", packs.Error, "/i")}}
	var saved bytes.Buffer
	if err := report.JSON(&saved, old, report.Options{}); err != nil {
		t.Fatal(err)
	}
	read, err := report.Read(&saved)
	if err != nil {
		t.Fatal(err)
	}
	base := NewBaseline(read)
	for name, x := range map[string]struct {
		f     lint.Finding
		known bool
	}{
		"the same":         {missing("a", packs.Error, "/usr/lib/python3.10/site-packages/p/x.so"), true},
		"a newer Python":   {missing("a", packs.Error, "/opt/venv/lib/python3.12/site-packages/p/x.so"), true},
		"lighter":          {missing("a", packs.Note, "/usr/lib/python3.10/site-packages/p/x.so"), true},
		"heavier":          {missing("b", packs.Error, "/b"), false},
		"another library":  {missing("c", packs.Error, "/b"), false},
		"one more asks":    {missing("a", packs.Error, "/usr/lib/python3.10/site-packages/p/x.so", "/usr/lib/python3.10/site-packages/q/x.so"), false},
		"known before":     {missing("k", packs.Error, "/k"), true},
		"an ended ignore":  {missing("i", packs.Error, "/i"), false},
		"the other's path": {missing("b", packs.Note, "/usr/lib/python3.10/site-packages/p/x.so"), false},
	} {
		got, _ := new(Policy).Apply(doc(x.f), base, "2026-11-21")
		if (len(got.Known) == 1) != x.known || len(got.Known)+len(got.Findings) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzParse states that an error names the file, and that Parse returns either a policy
// or an error.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(template))
	for _, x := range badFiles {
		f.Add([]byte(x.text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse("f", b)
		if (p == nil) == (err == nil) {
			t.Errorf("%v beside %v", p, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("does not name the file: %v", err)
		}
		if err == nil {
			p.Apply(doc(missing("a", packs.Error, "/x")), nil, "2026-11-21")
		}
	})
}

// TestID: policies have the same ID if the same findings count, whatever the spelling.
func TestID(t *testing.T) {
	const ref, today = "app:1", "2026-11-21"
	same := func(a, b string) bool { return parse(t, a).ID(ref, nil, today) == parse(t, b).ID(ref, nil, today) }
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"", "images: [x]\nfail-on: never\nfrom: [\"pypi:\"]", true},
		{"", "severities: {a: note}", false},
		{"severities: {a: note}", "severities: {a: error}", false},
		{"severities: {a: note, b: error}", "severities: {b: error, a: note}", true},
		{"ignore: [{id: a, reason: x}]", "ignore: [{id: a, reason: because, expires: 2026-11-21}]", true},
		{"ignore: [{id: a, reason: x}]", "ignore: [{id: a, reason: x, library: lib*}]", false},
		{"", "ignore: [{id: a, reason: x, expires: 2026-11-20}]", true},
	} {
		if got := same(tt.a, tt.b); got != tt.same {
			t.Errorf("%q and %q are the same: %v", tt.a, tt.b, got)
		}
	}
	if got := new(Policy).ID(ref, nil, today); got != "" {
		t.Errorf("a policy that changes nothing: %q", got)
	}
	base := NewBaseline(doc(missing("liba.so", packs.Error, "/a")))
	if a, b := new(Policy).ID(ref, base, today), new(Policy).ID(ref, NewBaseline(doc()), today); a == "" || a == b {
		t.Errorf("baselines: %q and %q", a, b)
	}
	p := parse(t, "ignore: [{id: a, reason: x, image: other}]")
	if p.ID("app:1", nil, today) == p.ID("other", nil, today) {
		t.Error("an ignore for one image is the same for another")
	}
}
