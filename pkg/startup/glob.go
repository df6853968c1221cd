package startup

import (
	"io/fs"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/pattern"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// glob returns the paths of the image that match a shell's pattern, sorted. ok is false if
// there are too many.
func glob(fsys *layers.FS, pat string) (list []string, ok bool) { return globFrom(fsys, "/", pat) }

// globFrom returns the paths that match a pattern below a directory, spelled as the
// pattern is: with "./" at their start if it has that.
func globFrom(fsys *layers.FS, dir, pat string) (list []string, ok bool) {
	list = []string{""}
	if strings.HasPrefix(pat, "/") {
		list = []string{"/"}
	}
	for segment := range strings.SplitSeq(strings.Trim(pat, "/"), "/") {
		var next []string
		for _, start := range list {
			names := matching(fsys, absolute(start, dir), segment)
			if len(next)+len(names) > maxArgs {
				return nil, false
			}
			for _, n := range names {
				next = append(next, start+n+"/")
			}
		}
		list = next
	}
	for i, p := range list {
		list[i] = strings.TrimSuffix(p, "/")
	}
	return list, true
}

// matching returns the names in a directory that match one part of a pattern.
func matching(fsys *layers.FS, dir, segment string) []string {
	if !pattern.HasMeta(segment, pattern.ExtendedOperators) {
		name := unquoted(segment)
		if _, _, ok := fsys.Lstat(dir + "/" + name); ok || name == "." || name == ".." {
			return []string{name}
		}
		return nil
	}
	src, err := pattern.Regexp(segment, pattern.EntireString|pattern.NoGlobStar|pattern.ExtendedOperators)
	if err != nil || len(src) > 4096 {
		return nil
	}
	re, err := regexp.Compile(src)
	if err != nil {
		return nil
	}
	d := strings.TrimPrefix(dir, "/")
	if d == "" {
		d = "."
	}
	entries, _ := fs.ReadDir(fsys, d)
	var list []string
	for _, e := range entries {
		if re.MatchString(e.Name()) && (segment[0] == '.' || e.Name()[0] != '.') {
			list = append(list, e.Name())
		}
	}
	return list
}

// unquoted removes the backslashes of a pattern.
func unquoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
