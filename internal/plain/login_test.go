package plain

import (
	"strings"
	"testing"
)

func TestMasked(t *testing.T) {
	for text, want := range map[string]string{
		"pypi:https://ci:secret@host/simple":              "pypi:https://…@host/simple",
		"https://token@host/x and https://a:secret@b":     "https://…@host/x and https://…@b",
		"https://ci:sec/ret@host/simple":                  "https://…@host/simple",
		"https://ci:sec%zzret@host":                       "https://…@host",
		"https://ci:s@cret@host":                          "https://…@host",
		"https://host/a@b":                                "https://host/a@b",
		"docker://localhost:5000/app@sha256:0123":         "docker://localhost:5000/app@sha256:0123",
		"https://ci:12345/secret@host":                    "https://…@host",
		"ghcr.io/org/app@sha256:0123":                     "ghcr.io/org/app@sha256:0123",
		"mail a@b.c":                                      "mail a@b.c",
		`{"a":"https://u:secret@h","b":"x@y"}`:            `{"a":"https://…@h","b":"x@y"}`,
		"parse \"https://u:sec ret@h\": invalid userinfo": "parse \"https://u:sec ret@h\": invalid userinfo", // only MaskedURL knows
	} {
		if got := Masked(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`https://u:sec "ret'@host/x`: "https://…@host/x",
		"https://host/x":             "https://host/x",
		"u:p@host":                   "u:p@host",
	} {
		if got := MaskedURL(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// FuzzMasked states that no password of a URL in a text stays.
func FuzzMasked(f *testing.F) {
	f.Add("see ", "https", "ci", "/x y@z")
	f.Fuzz(func(t *testing.T, before, scheme, user, after string) {
		const password = "TOPSECRET"
		if strings.ContainsAny(user, " \t\r\n\v\f\u0085\u00a0\"'\\<>/") || strings.Contains(before+scheme+user+after, password) {
			return
		}
		if got := Masked(before + " " + scheme + "://" + user + ":" + password + "@host" + after); strings.Contains(got, password) {
			t.Errorf("%s", got)
		}
	})
}
