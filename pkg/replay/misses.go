package replay

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// IsVersion reports whether a process found a library that lacks a required version.
func IsVersion(e *elfdeps.Error) bool {
	return e.Kind == elfdeps.VersionError || e.Kind == elfdeps.InnerError
}

// IsStack reports whether the loader refuses a library for its executable stack.
func IsStack(e *elfdeps.Error) bool {
	return strings.HasPrefix(e.Message, "cannot enable executable stack")
}

// StackLibrary returns the library that the loader refuses for its stack: its path if the
// image has one file of the name, else the name in the error.
func (fi *Files) StackLibrary(e *elfdeps.Error) string {
	if copies := fi.filesNamed(path.Base(e.Subject)); len(copies) == 1 {
		return copies[0]
	}
	return e.Subject
}

// Real returns the misses without those of the driver's libraries, which a machine with a
// GPU has.
func (fi *Files) Real(misses []*elfdeps.Error) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(misses), func(e *elfdeps.Error) bool {
		return e.Missing() && fi.packs.FromDriver(e.Name)
	})
}

// MissesOf returns the misses of root and of all that it needs: libraries, versions and
// truncated files.
func (fi *Files) MissesOf(p *elfdeps.Process, root *elfdeps.Module) []*elfdeps.Error {
	all := slices.Concat(p.Misses, VersionsOf(p), fi.cutOf(p.Objects, 0))
	if len(all) == 0 {
		return nil
	}
	reached := map[*elfdeps.Module]bool{}
	for _, m := range Reaches(root) {
		reached[m] = true
	}
	return slices.DeleteFunc(all, func(e *elfdeps.Error) bool { return !reached[e.By] })
}

// VersionsOf returns the versions that a process misses, without those of libraries that
// it cannot find or use: the real loader ends before it checks them.
func VersionsOf(p *elfdeps.Process) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(p.Versions), func(v *elfdeps.Error) bool {
		return v.Kind == elfdeps.InnerError && slices.ContainsFunc(p.Misses, func(e *elfdeps.Error) bool { return e.Name == v.Name })
	})
}

// cutOf returns the errors about truncated files among modules[from:]. The loader maps
// all segments of such a file, and the process gets a SIGBUS where it first touches a
// page past the end of the file.
func (fi *Files) cutOf(modules []*elfdeps.Module, from int) []*elfdeps.Error {
	var list []*elfdeps.Error
	for _, m := range modules[min(from, len(modules)):] {
		if !m.Truncated() {
			continue
		}
		by := m
		for _, other := range modules {
			if slices.Contains(other.Deps, m) {
				by = other
				break
			}
		}
		list = append(list, &elfdeps.Error{
			Kind: elfdeps.CutError, Name: path.Base(m.Path), Subject: m.Real(), By: by,
			Message: fi.packs.Phrase("file-ends", packs.Values{"size": strconv.FormatInt(m.File.Size, 10), "least": strconv.FormatInt(m.Object.LoadEnd, 10)}),
		})
	}
	return list
}

// cutIn returns the errors about truncated files, which kill the process.
func cutIn(list []*elfdeps.Error) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(list), func(e *elfdeps.Error) bool { return e.Kind != elfdeps.CutError })
}

// kept returns the errors without their processes, of which each may hold all files.
func kept(list []*elfdeps.Error) []*elfdeps.Error {
	var kept []*elfdeps.Error
	for _, e := range list {
		kept = append(kept, e.Alone())
	}
	return kept
}

// symbolError returns err if it is about a missing symbol, else nil. Errors about
// thread-local storage depend on the other libraries of the process, and are left out.
func symbolError(err error) *elfdeps.Error {
	var e *elfdeps.Error
	if errors.As(err, &e) && (e.Kind == elfdeps.SymbolError || e.Kind == elfdeps.RelocationError) && strings.Contains(e.Message, "symbol") {
		return e
	}
	return nil
}
