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

// Glob returns the paths below dir that match a pattern, sorted, without directories. The
// pattern may begin with "..". Callers share the list and must not change it.
func (fi *Files) Glob(dir, pattern string) []string {
	full := path.Join(dir, pattern)
	if known, ok := fi.globs.Load(full); ok {
		return known.([]string)
	}
	list := fi.globOf(full)
	fi.globs.Store(full, list)
	return list
}

// globOf returns the paths that match an absolute pattern.
func (fi *Files) globOf(full string) []string {
	if e, _, ok := fi.img.FS.Lookup(full); ok && !e.IsDir() {
		return []string{full}
	} else if literal(full) == full {
		return nil
	}
	var list []string
	for _, one := range alternatives(full) {
		below, rest := doublestar.SplitPattern(one)
		// Symbolic links before the first special character are followed, such as /usr/local/cuda.
		real := strings.TrimPrefix(RealPath(fi.img.FS, below), "/")
		for rel := range fi.fitting(real, rest) {
			list = append(list, path.Join(below, rel))
		}
	}
	slices.Sort(list)
	return slices.Clip(slices.Compact(list))
}

// fitting yields the paths below a real directory that match a pattern, relative to it
// and without directories. It enters only directories that match a segment of the pattern;
// if the segments do not decide that (`**`, braces), it goes through all.
func (fi *Files) fitting(real, pattern string) iter.Seq[string] {
	segment, rest, deeper := strings.Cut(pattern, "/")
	if strings.Contains(pattern, "**") || strings.ContainsAny(pattern, `{\`) || !doublestar.ValidatePattern(segment) {
		return fi.fittingBelow(real, pattern)
	}
	return func(yield func(string) bool) {
		for e := range fi.entries(real, segment) {
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

// fittingBelow is fitting for all paths below a real directory.
func (fi *Files) fittingBelow(real, pattern string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for e := range fi.img.FS.Below(real) {
			if rel := strings.TrimPrefix(strings.TrimPrefix(e.Path, real), "/"); !e.IsDir() && packs.Match(pattern, rel) && !yield(rel) {
				return
			}
		}
	}
}

// entries returns the entries of a real directory that may match a segment of a pattern.
func (fi *Files) entries(real, segment string) iter.Seq2[*layers.Entry, int] {
	if literal(segment) != segment {
		return fi.img.FS.In(real)
	}
	return func(yield func(*layers.Entry, int) bool) {
		if e, layer, ok := fi.img.FS.Lstat("/" + path.Join(real, segment)); ok {
			yield(e, layer)
		}
	}
}

// literal returns the start of a pattern up to its first special character. It rules out
// most of an image's 150,000 paths without a match.
func literal(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// alternatives returns the patterns that a pattern with braces stands for. Their literal
// starts are longer than its own, so that fewer directories are searched.
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
