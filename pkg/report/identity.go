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
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Fingerprint identifies a finding within its image, and is the same in the next build of
// that image. It depends on the rule and on the missing library, version or symbol, or
// else on the first file. It does not depend on tags, layers, the length of lists, or
// severities. It has 32 hexadecimal digits.
func Fingerprint(f *lint.Finding) string {
	key := subject(f)
	if f.Library == "" {
		key += "\x00" + pathKey(pathOf(f))
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// Keys returns a key for each file that needs what is missing, and each machine of a finding
// about machines, made of the values that the fingerprint depends on and the file. Two reports of an image are compared by them:
// if another package misses a library that was missing before, one key is new.
func Keys(f *lint.Finding) []string {
	paths := Paths(f)
	if len(paths) == 0 {
		paths = []string{""}
	}
	subjects := []string{subject(f)}
	if len(f.Machines) > 0 {
		subjects = nil
		for _, m := range f.Machines {
			one := *f
			one.Machines = []targets.Machine{m}
			subjects = append(subjects, subject(&one))
		}
	}
	var keys []string
	for _, p := range paths {
		for _, s := range subjects {
			keys = append(keys, s+"\x00"+pathKey(p))
		}
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
	parts := []string{f.Rule, f.Library, version, f.Symbol, message}
	for _, m := range f.Machines {
		parts = append(parts, fmt.Sprint(m.Arch, "@", m.Driver))
	}
	return strings.Join(parts, "\x00")
}

// Category separates the scans of one commit, so that the reports of two commits can be
// compared. It is the reference as given, and the platform. It is the same in the next
// build, because it has no digest and no part of a tag that names a build: seven or more
// hexadecimal digits (a commit, a pipeline, a day). main-3f2a9c1 becomes main, and
// 2.4.0-cuda12.4 stays.
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
	ofBuild = regexp.MustCompile(`^g?[0-9a-f]{7,}$`) // git describe writes v1.2-3-gabcdef0
	between = regexp.MustCompile(`[-_.+]`)
)

// variant returns a tag without the parts that name a build.
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

// fingerprints returns the fingerprints of the findings of a category. It makes equal
// ones different, because GitLab and GitHub show only the first of them.
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

// Paths returns the files that a finding is about: those that need what is missing, else
// those that are affected, present or deleted.
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

// pathOf returns the file that a finding is shown at, the first of Paths, or "" if there
// is none.
func pathOf(f *lint.Finding) string {
	if p := Paths(f); len(p) > 0 {
		return p[0]
	}
	return ""
}

var pythonVersion = regexp.MustCompile(`/python[23]\.[0-9]+/`)

// pathKey returns the part of a path that a rebuild keeps: below site-packages or
// dist-packages only the rest, and elsewhere the path without Python's minor version.
func pathKey(p string) string {
	for _, dir := range []string{"/site-packages/", "/dist-packages/"} {
		if _, below, ok := strings.Cut(p, dir); ok {
			return "packages/" + below
		}
	}
	return path.Clean(pythonVersion.ReplaceAllString(p, "/python/"))
}
