package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/lint"
)

// Fingerprint tells a finding from the others of its image, and is the same in
// the next build of that image: it is made of the rule and of the library and
// symbol that are missing, or else of the first file. It does not depend on tags,
// layers, the length of lists, or severities. 32 hexadecimal digits.
func Fingerprint(f *lint.Finding) string {
	subject := []string{f.Rule, f.Library, f.Symbol}
	if f.Library == "" {
		subject = append(subject, PathKey(Path(f)))
	}
	if f.Library == "" && f.Symbol == "" && Path(f) == "" {
		subject = append(subject, f.Message)
	}
	sum := sha256.Sum256([]byte(strings.Join(subject, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// fingerprints are those of all findings, made different where two are alike:
// GitLab and GitHub show only the first of equal ones.
func fingerprints(findings []lint.Finding) []string {
	seen := map[string]int{}
	out := make([]string, len(findings))
	for i := range findings {
		p := Fingerprint(&findings[i])
		seen[p]++
		if n := seen[p]; n > 1 {
			sum := sha256.Sum256([]byte(fmt.Sprintf("%s\x00%d", p, n)))
			p = hex.EncodeToString(sum[:16])
		}
		out[i] = p
	}
	return out
}

// Path is the file that a finding is shown at: the first that asks for what is
// missing, else the first that is affected, present or deleted. Empty when it
// is about no file.
func Path(f *lint.Finding) string {
	switch {
	case len(f.NeededBy) > 0:
		return f.NeededBy[0].Path
	case len(f.Affected) > 0:
		return f.Affected[0]
	case len(f.Present) > 0:
		return f.Present[0].Path
	case len(f.Removed) > 0:
		return f.Removed[0].Path
	}
	return ""
}

var pythonVersion = regexp.MustCompile(`/python[23]\.[0-9]+/`)

// PathKey is what of a path outlives a rebuild: below site-packages or
// dist-packages only that, and elsewhere the path without Python's minor
// version.
func PathKey(p string) string {
	for _, dir := range []string{"/site-packages/", "/dist-packages/"} {
		if _, below, ok := strings.Cut(p, dir); ok {
			return "packages/" + below
		}
	}
	return path.Clean(pythonVersion.ReplaceAllString(p, "/python/"))
}
