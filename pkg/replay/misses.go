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

// IsVersion reports whether a library is there and lacks a version.
func IsVersion(e *elfdeps.Error) bool {
	return e.Kind == elfdeps.VersionError || e.Kind == elfdeps.InnerError
}

// IsStack reports whether a loader refuses a library for its executable stack.
func IsStack(e *elfdeps.Error) bool {
	return strings.HasPrefix(e.Message, "cannot enable executable stack")
}

// StackLibrary is the file that a loader refuses for its stack, by its path where
// the image has it once.
func (fi *Files) StackLibrary(e *elfdeps.Error) string {
	if copies := fi.filesNamed(path.Base(e.Subject)); len(copies) == 1 {
		return copies[0]
	}
	return e.Subject
}

// Real leaves out what is no miss on a machine with a GPU: the driver's
// libraries.
func (fi *Files) Real(misses []*elfdeps.Error) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(misses), func(e *elfdeps.Error) bool {
		return e.Missing() && fi.packs.FromDriver(e.Name)
	})
}

// MissesOf are the misses of a module and of all that it needs: libraries, and
// versions of libraries that are there.
func (fi *Files) MissesOf(p *elfdeps.Process, root *elfdeps.Module) []*elfdeps.Error {
	all := slices.Concat(p.Misses, VersionsOf(p), fi.cutOf(p.Objects, 0))
	if len(all) == 0 {
		return nil
	}
	seen := map[*elfdeps.Module]bool{root: true}
	queue := []*elfdeps.Module{root}
	for i := 0; i < len(queue); i++ {
		for _, d := range queue[i].Deps {
			if d != nil && !seen[d] {
				seen[d] = true
				queue = append(queue, d)
			}
		}
	}
	var list []*elfdeps.Error
	for _, e := range all {
		if seen[e.By] {
			list = append(list, e)
		}
	}
	return list
}

// VersionsOf are the versions that a process misses, less those of libraries that
// it has not found or could not use: the real loader has ended before.
func VersionsOf(p *elfdeps.Process) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(p.Versions), func(v *elfdeps.Error) bool {
		return v.Kind == elfdeps.InnerError && slices.ContainsFunc(p.Misses, func(e *elfdeps.Error) bool { return e.Name == v.Name })
	})
}

// cutOf returns the errors of the modules, from a number on, whose files end before
// their segments do. The loader maps them and writes to what is not there: the process
// ends with SIGBUS while it loads them, or when it gets there.
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

// cutIn are those of the errors that end the process.
func cutIn(list []*elfdeps.Error) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(list), func(e *elfdeps.Error) bool { return e.Kind != elfdeps.CutError })
}

// kept are errors without the processes that they are from: there is one for each
// file, and each may hold all files.
func kept(list []*elfdeps.Error) []*elfdeps.Error {
	var kept []*elfdeps.Error
	for _, e := range list {
		kept = append(kept, e.Alone())
	}
	return kept
}

// symbolError is the error of a symbol that is missing, nil for any other, such as
// one about thread-local storage, which hangs on what else is loaded.
func symbolError(err error) *elfdeps.Error {
	var e *elfdeps.Error
	if errors.As(err, &e) && (e.Kind == elfdeps.SymbolError || e.Kind == elfdeps.RelocationError) && strings.Contains(e.Message, "symbol") {
		return e
	}
	return nil
}
