package pyenv

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestReduceSettings checks that names of modules and choices stay, and that passwords, addresses and other texts do not.
func TestReduceSettings(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"config.json", `{"backend": {"module": "a.b", "n": 2, "on": true, "none": null}, "list": ["c", "d:e"]}`, ""},
		{
			"config.json", `{"db": {"password": "hunter2", "host": "db.internal", "url": "postgres://u:p@h/x"}, "api_keys": ["a", 1], "My Name": "x"}`,
			`{"db": {"password": "\u0000", "host": "db.internal", "url": "\u0000"}, "api_keys": ["\u0000", "\u0000"], "\u0000": "x"}`,
		},
		{"config.json", `{"a": "b"`, "-"},
		{"config.json", `[] {}`, ""},
		{"settings.yaml", "models:\n    - target: a.b\nworkers: 2\noctal: 010\n", ""},
		{"settings.yaml", "a: s p a c e # hunter2\nsecret:\n  b: c\n  d: [1]\n", "a: \"\\0\"\nsecret:\n    \"\\0\": \"\\0\"\n    \"\\0\": [\"\\0\"]\n"},
		{"settings.yaml", "a: &x {b: c}\nd: *x\n", "a: {b: c}\nd: \"\\0\"\n"},
		{"settings.yaml", "a: [\n", "-"},
	} {
		want := c.want
		switch want {
		case "":
			want = c.text
		case "-":
			want = ""
		}
		got, err := Extract("app/"+c.name, int64(len(c.text)))(strings.NewReader(c.text))
		if err != nil || string(got) != want {
			t.Errorf("%s of %s\nis kept as %q (%v)\nwant %q", c.name, c.text, got, err, want)
		}
	}
}

// FuzzSettings: a reduced file of settings has no text but those that may name something, and is reduced to itself.
func FuzzSettings(f *testing.F) {
	f.Add("a.json", `{"a": ["b.c", 1, true, null, {"pass": "x"}], "d e": "f g"}`)
	f.Add("a.yaml", "a: &x [b, \"c d\", 010]\n? [e]\n: f\n<<: *x\n!t g: |\n  h\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		kept := reduceSettings(name, []byte(text))
		if again := reduceSettings(name, kept); string(again) != string(kept) {
			t.Errorf("%q is reduced to %q", kept, again)
		}
		if !strings.HasSuffix(strings.ToLower(name), ".json") {
			var doc yaml.Node
			if yaml.Unmarshal(kept, &doc) == nil {
				onlyNames(t, &doc)
			}
			return
		}
		d := json.NewDecoder(strings.NewReader(string(kept)))
		d.UseNumber() // Python reads larger ones than a float64 holds
		for {
			tok, err := d.Token()
			if err != nil {
				if err != io.EOF && len(kept) > 0 {
					t.Errorf("%q: %v", kept, err)
				}
				return
			}
			if s, ok := tok.(string); ok && s != LeftOut && !mayName.MatchString(s) && !plainKey.MatchString(s) {
				t.Errorf("the text %q is kept", s)
			}
		}
	})
}

func onlyNames(t *testing.T, n *yaml.Node) {
	if s := n.Value; n.Kind == yaml.ScalarNode && n.Tag == "!!str" && s != LeftOut && !mayName.MatchString(s) && !plainKey.MatchString(s) {
		t.Errorf("the text %q is kept", s)
	}
	for _, c := range n.Content {
		onlyNames(t, c)
	}
}
