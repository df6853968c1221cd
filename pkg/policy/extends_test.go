package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

const digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// write writes files below a new directory, and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestResolve: what a policy says counts more than what it extends, and the rest adds up.
func TestResolve(t *testing.T) {
	dir := write(t, map[string]string{
		"app/.imgcheck.yaml": "extends: [../base.yaml, https://host/org.yaml" + digest + "]\nfail-on: note\nseverities: {a: error}\nignore: [{id: c, reason: own}]\n",
		"base.yaml":          "extends: sub/more.yaml\nfail-on: warning\nrules: packs\nseverities: {a: note, b: note}\nignore: [{id: a, reason: base}]\n",
		"sub/more.yaml":      "baseline: known.json\nfail-on: error\nimages: [x]\nindexes: {keys: [a.pub]}\n",
	})
	p, err := Load(filepath.Join(dir, "app/.imgcheck.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err = p.Resolve(func(ref string) ([]byte, error) {
		return []byte("from: ['pypi:']\nindexes: {from: referrers}\nseverities: {b: warning}\nignore: [{id: b, reason: org}]\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rel := func(name string) string { return strings.TrimPrefix(name, dir+"/") }
	got := []string{rel(p.File), string(p.FailOn), rel(p.Rules), rel(p.Baseline), fmt.Sprint(p.From, p.Images), p.Indexes.From + " " + rel(p.Indexes.Keys[0].Path)}
	for _, s := range p.Severities {
		got = append(got, s.Rule+" "+string(s.Severity)+" "+rel(s.File))
	}
	for _, g := range p.Ignores {
		got = append(got, g.Rule+" "+g.Reason+" "+rel(g.File))
	}
	if diff := cmp.Diff([]string{
		"app/.imgcheck.yaml", string(packs.Note), "packs", "sub/known.json", "[pypi:] [{x  []  { []}}]", "referrers sub/a.pub",
		"b warning https://host/org.yaml" + digest, "a error app/.imgcheck.yaml",
		"a base base.yaml", "b org https://host/org.yaml" + digest, "c own app/.imgcheck.yaml",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestResolveErrors: each says which line extends what.
func TestResolveErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"extends: none.yaml", ":1: extends: open "},
		{"extends: self.yaml", "self.yaml extends itself"},
		{"extends: https://host/a.yaml", "without its digest somebody else decides"},
		{"extends: oci://host/a:1", "without its digest somebody else decides"},
		{"extends: https://host/a.yaml" + digest, "no network"},
		{"extends: oci://host/rules" + digest, ":1: rules: a policy from elsewhere has no files beside it"},
		{"extends: oci://host/from" + digest, ":1: from dir:x: a policy from elsewhere"},
		{"extends: oci://host/image" + digest, ":1: dockerfile: a policy from elsewhere"},
		{"extends: oci://host/key" + digest, ":1: keys: a policy from elsewhere"},
		{"extends: oci://host/file" + digest, "extends a.yaml: a policy from elsewhere"},
		{"extends: {a: b}", "extends: want a list"},
		{"extends: 1.yaml", "more than 5 policies extend one another"},
		{"extends: [" + strings.Repeat("empty.yaml,", 21) + "]", "more than 20 policies are extended"},
	} {
		files := map[string]string{"p.yaml": c.text, "self.yaml": "extends: self.yaml", "empty.yaml": ""}
		for i := range 9 {
			files[fmt.Sprintf("%d.yaml", i)] = fmt.Sprintf("extends: %d.yaml", i+1)
		}
		dir := write(t, files)
		p, err := Load(filepath.Join(dir, "p.yaml"))
		if err == nil {
			_, err = p.Resolve(func(ref string) ([]byte, error) {
				for name, text := range map[string]string{"rules": "rules: x", "from": "from: ['dir:x']", "key": "indexes: {keys: [a.pub]}", "image": "images: [{ref: x, dockerfile: y}]", "file": "extends: a.yaml"} {
					if strings.Contains(ref, "host/"+name) {
						return []byte(text), nil
					}
				}
				return nil, errors.New("no network")
			})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestResolveFound: a file that a policy extends which was found, and not named, is trusted as
// that one is.
func TestResolveFound(t *testing.T) {
	dir := write(t, map[string]string{".imgcheck.yaml": "extends: base.yaml", "base.yaml": "fail-on: note"})
	if err := os.Chmod(filepath.Join(dir, "base.yaml"), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := LoadFound(filepath.Join(dir, ".imgcheck.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Resolve(nil); err == nil || !strings.Contains(err.Error(), "base.yaml") {
		t.Errorf("a file that others may write is read: %v", err)
	}
}
