package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/lint"
)

// Fingerprint tells a finding from the others of its image, and is the same in
// the next build of that image: it is made of the rule and of the library,
// version or symbol that is missing, or else of the first file. It does not
// depend on tags, layers, the length of lists, or severities. 32 hexadecimal
// digits.
func Fingerprint(f *lint.Finding) string {
	key := subject(f)
	if f.Library == "" {
		key += "\x00" + pathKey(pathOf(f))
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// Keys are what a finding consists of: the same as its fingerprint is made of,
// with each of the files that ask for what is missing. Two reports of an image
// are compared by them: when another package comes to miss a library that was
// missed before, one key is new.
func Keys(f *lint.Finding) []string {
	paths := Paths(f)
	if len(paths) == 0 {
		paths = []string{""}
	}
	s := subject(f)
	keys := make([]string, len(paths))
	for i, p := range paths {
		keys[i] = s + "\x00" + pathKey(p)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// subject returns what is missing. A symbol is enough without its version.
func subject(f *lint.Finding) string {
	version := f.Version
	switch {
	case f.Symbol != "":
		version = ""
	case f.Rule == "stale-version-table":
		version = "needed != NULL" // fingerprints have had the loader's assertion in the place of a version
	}
	message := ""
	if f.Library == "" && f.Symbol == "" && pathOf(f) == "" {
		message = f.Message
	}
	return strings.Join([]string{f.Rule, f.Library, version, f.Symbol, message}, "\x00")
}

// Category tells the scans of one commit apart, for who compares the reports of two
// commits: it is the reference as it was given and the platform. It is the same in the
// next build: it has no digest, and of a tag nothing that names a build, which is a part
// of seven hexadecimal digits or more (a commit, a pipeline, a day). main-3f2a9c1 is main,
// 2.4.0-cuda12.4 is itself.
func Category(i Image) string {
	name := digest.ReplaceAllString(i.Ref, "")
	if at := strings.LastIndex(name, ":"); at > strings.LastIndex(name, "/") {
		name = name[:at] + strings.TrimRight(":"+variant(name[at+1:]), ":")
	}
	if i.Platform != "" {
		name += "/" + i.Platform
	}
	return clean(name)
}

var (
	digest  = regexp.MustCompile(`@[a-z0-9]+:[0-9a-f]{32,}$`)
	ofBuild = regexp.MustCompile(`^g?[0-9a-f]{7,}$`) // v1.2-3-gabcdef0 is git describe's
	between = regexp.MustCompile(`[-_.+]`)
)

// variant is a tag without its parts that name a build.
func variant(tag string) string {
	out, at := "", 0
	keep := func(part, separator string) {
		if !ofBuild.MatchString(part) {
			out += part + separator
		}
	}
	for _, m := range between.FindAllStringIndex(tag, -1) {
		keep(tag[at:m[0]], tag[m[0]:m[1]])
		at = m[1]
	}
	keep(tag[at:], "")
	return strings.TrimRight(out, "-_.+")
}

// fingerprints are those of all findings of a category, made different where two are
// alike: GitLab and GitHub show only the first of equal ones.
func fingerprints(category string, findings []lint.Finding) []string {
	seen := map[string]int{}
	out := make([]string, len(findings))
	for i := range findings {
		sum := sha256.Sum256([]byte(category + "\x00" + Fingerprint(&findings[i])))
		p := hex.EncodeToString(sum[:16])
		seen[p]++
		if n := seen[p]; n > 1 {
			sum := sha256.Sum256([]byte(fmt.Sprintf("%s\x00%d", p, n)))
			p = hex.EncodeToString(sum[:16])
		}
		out[i] = p
	}
	return out
}

// Paths are the files that a finding is about: those that ask for what is
// missing, else those that are affected, present or deleted.
func Paths(f *lint.Finding) []string {
	var paths []string
	switch {
	case len(f.NeededBy) > 0:
		for _, n := range f.NeededBy {
			paths = append(paths, n.Path)
		}
	case len(f.Affected) > 0:
		paths = f.Affected
	case len(f.Present) > 0:
		for _, n := range f.Present {
			paths = append(paths, n.Path)
		}
	default:
		for _, r := range f.Removed {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// pathOf is the file that a finding is shown at, the first of Paths; empty when
// it is about no file.
func pathOf(f *lint.Finding) string {
	if p := Paths(f); len(p) > 0 {
		return p[0]
	}
	return ""
}

var pythonVersion = regexp.MustCompile(`/python[23]\.[0-9]+/`)

// pathKey is what of a path outlives a rebuild: below site-packages or
// dist-packages only that, and elsewhere the path without Python's minor
// version.
func pathKey(p string) string {
	for _, dir := range []string{"/site-packages/", "/dist-packages/"} {
		if _, below, ok := strings.Cut(p, dir); ok {
			return "packages/" + below
		}
	}
	return path.Clean(pythonVersion.ReplaceAllString(p, "/python/"))
}
