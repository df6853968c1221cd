package replay

import (
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Glob are the paths below dir that fit a pattern, sorted. `..` at its beginning
// leads up. The list is shared: it is not to be changed.
func (fi *Files) Glob(dir, pattern string) []string {
	full := path.Join(dir, pattern)
	if known, ok := fi.globs.Load(full); ok {
		return known.([]string)
	}
	list := fi.globOf(full)
	fi.globs.Store(full, list)
	return list
}

func (fi *Files) globOf(full string) []string {
	if e, _, ok := fi.img.FS.Lookup(full); ok && !e.IsDir() {
		return []string{full}
	} else if literal(full) == full {
		return nil
	}
	var list []string
	for _, one := range alternatives(full) {
		below, rest := doublestar.SplitPattern(one)
		// Links are followed up to the first special character: /usr/local/cuda is one.
		real := strings.TrimPrefix(RealPath(fi.img.FS, below), "/")
		for rel := range fi.fitting(real, rest) {
			list = append(list, path.Join(below, rel))
		}
	}
	slices.Sort(list)
	return slices.Clip(slices.Compact(list))
}

// fitting yields what below a real directory fits a pattern and is no directory
// itself, from there on. Of a tree only those directories are entered that a segment
// of the pattern fits; where segments do not tell (`**`, braces), all.
func (fi *Files) fitting(real, pattern string) iter.Seq[string] {
	segment, rest, deeper := strings.Cut(pattern, "/")
	return func(yield func(string) bool) {
		if strings.Contains(pattern, "**") || strings.ContainsAny(pattern, `{\`) || !doublestar.ValidatePattern(segment) {
			for e := range fi.img.FS.Below(real) {
				if rel := strings.TrimPrefix(strings.TrimPrefix(e.Path, real), "/"); !e.IsDir() && packs.Match(pattern, rel) && !yield(rel) {
					return
				}
			}
			return
		}
		entries := fi.img.FS.In(real)
		if literal(segment) == segment {
			entries = func(yield func(*layers.Entry, int) bool) {
				if e, layer, ok := fi.img.FS.Lstat("/" + path.Join(real, segment)); ok {
					yield(e, layer)
				}
			}
		}
		for e := range entries {
			name := path.Base(e.Path)
			switch {
			case e.IsDir() != deeper || !packs.Match(segment, name):
			case !deeper:
				if !yield(name) {
					return
				}
			default:
				for rel := range fi.fitting(e.Path, rest) {
					if !yield(name + "/" + rel) {
						return
					}
				}
			}
		}
	}
}

// literal is what a pattern begins with, up to its first special character: most of
// an image's 150,000 paths are told by it without a match.
func literal(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// alternatives are the patterns that a pattern with braces stands for: they begin
// with more than it does, so that less has to be looked through.
func alternatives(pattern string) []string {
	open := strings.IndexByte(pattern, '{')
	if open < 0 || strings.ContainsAny(pattern, `\[`) || strings.Count(pattern, "{") > 4 {
		return []string{pattern}
	}
	var list []string
	from, depth := open+1, 0
	for i := open; i == open || i < len(pattern) && depth > 0; i++ {
		switch pattern[i] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if pattern[i] == ',' && depth == 1 || depth == 0 {
			list = append(list, pattern[from:i])
			from = i + 1
		}
	}
	if depth != 0 {
		return []string{pattern}
	}
	var all []string
	for _, a := range list {
		all = append(all, alternatives(pattern[:open]+a+pattern[from:])...)
	}
	return all
}
