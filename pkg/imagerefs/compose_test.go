package imagerefs

import (
	"path"
	"strings"
	"testing"
)

func TestIncludes(t *testing.T) {
	for text, want := range map[string]string{
		"include: b.yaml": "a/b.yaml",
		"include: [../c.yaml, {path: d/e.yaml, env_file: x.env}, {path: [f.yaml, ../../g.yaml]}, 'https://h/i.git', /abs.yaml, '${NONE}.yaml', '${HAS}.yaml']": "c.yaml a/d/e.yaml a/f.yaml a/has.yaml",
		"services: {a: {extends: {file: b.yaml, service: x}}, b: {extends: a}, c: {<<: {extends: {file: m.yaml}}}}":                                            "a/b.yaml a/m.yaml",
		"include: {a: b: c": "",
		"services: {}":      "",
	} {
		if got := strings.Join(Includes("a/compose.yaml", []byte(text), map[string]string{"HAS": "has"}), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if !IsEnv("a/.env") || IsEnv("a/b.env") {
		t.Error("the name of .env")
	}
}

// FuzzIncludes: an included file is in the repository, and its path is clean.
func FuzzIncludes(f *testing.F) {
	f.Add("a/compose.yaml", "include: [../b.yaml, {path: ../../c.yaml}]\nservices: {a: {extends: {file: d}}}")
	f.Fuzz(func(t *testing.T, file, text string) {
		for _, p := range Includes(path.Clean("a/"+strings.ReplaceAll(file, "..", "")), []byte(text), nil) {
			if p == "" || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") || path.Clean(p) != p {
				t.Errorf("%q", p)
			}
		}
	})
}
