package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// without returns LD_LIBRARY_PATH less dir and empty elements.
func without(pass *Pass, dir string) string {
	kept := slices.DeleteFunc(slices.Clone(pass.Loaders.PathEntries()), func(e string) bool { return e == "" || path.Clean(e) == dir })
	return strings.Join(kept, ":")
}

// hasToken reports whether an element has a token that the loader expands.
func hasToken(entry string) bool {
	return slices.ContainsFunc([]string{"$ORIGIN", "${ORIGIN}", "$LIB", "${LIB}", "$PLATFORM", "${PLATFORM}"}, func(t string) bool { return strings.Contains(entry, t) })
}

// ldPathMissing returns a finding for each directory of LD_LIBRARY_PATH that the image lacks,
// unless it is for a mount.
func ldPathMissing(pass *Pass) []Finding {
	var list []Finding
	for _, e := range slices.Compact(slices.Sorted(slices.Values(pass.Loaders.PathEntries()))) {
		literal := !hasToken(e) && (strings.Contains(e, "$") || strings.HasPrefix(e, "~"))
		if !strings.HasPrefix(e, "/") && !literal || hasToken(e) || pass.Config.IsMount(e) {
			continue
		}
		if _, _, ok := pass.Image.FS.Lookup(e); ok {
			continue
		}
		clause := "absent"
		if literal {
			clause = "unexpanded"
		}
		v := packs.Values{"dir": e}
		f := pass.say("ld-path-missing", clause, withEdit(pass, "ld-path-missing", v))
		f.Subject, f.Values = packs.LdLibraryPath, v
		list = append(list, f)
	}
	return list
}

// ldPathFile returns a finding for each element of LD_LIBRARY_PATH that is a file.
func ldPathFile(pass *Pass) []Finding {
	var list []Finding
	for _, e := range slices.Compact(slices.Sorted(slices.Values(pass.Loaders.PathEntries()))) {
		entry, _, ok := pass.Image.FS.Lookup(e)
		if !strings.HasPrefix(e, "/") || !ok || entry.IsDir() {
			continue
		}
		f := pass.say("ld-path-file", "file", packs.Values{"file": e, "dir": path.Dir(e)})
		f.Subject, f.Present, f.Values = packs.LdLibraryPath, []replay.File{pass.Image.File(e)}, packs.Values{"file": e}
		list = append(list, f)
	}
	return list
}

// ldPathEmpty returns a finding for an empty element of LD_LIBRARY_PATH.
func ldPathEmpty(pass *Pass) []Finding {
	if !slices.Contains(pass.Loaders.PathEntries(), "") {
		return nil
	}
	dir := path.Join("/", pass.Config.Env().Cwd)
	clause, shadows := "empty", shadowsIn(pass, dir)
	if len(shadows) > 0 {
		clause = "shadows"
	}
	f := pass.say("ld-path-empty", clause, withEdit(pass, "ld-path-empty", packs.Values{"dir": dir}))
	f.Subject, f.Present = packs.LdLibraryPath, pass.Image.FilesOf(shadows)
	return []Finding{f}
}

// shadowsIn returns the libraries in the working directory dir, unless dir is one of the
// loader's own.
func shadowsIn(pass *Pass, dir string) []string {
	if dir == "/usr/lib" || dir == "/lib" {
		return nil
	}
	var list []string
	for _, o := range pass.Files.Objects {
		if path.Dir(o.Path) == dir && !replay.IsProgram(o.ELF) {
			list = append(list, o.Path)
		}
	}
	return list
}
