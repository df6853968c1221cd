package lint

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// fixes returns the fixes of a cause: those that the image's files suggest, then those of
// the packs for the library.
func fixes(pass *Pass, f *Finding, fam *packs.Family, c *cause) []packs.Advice {
	e := c.first
	cuda, asks := wantedCUDA(pass, f, c.cuda), "" // a truncated file needs nothing
	if len(f.NeededBy) > 0 {
		asks = f.NeededBy[0].Path
	}
	if e.Unknown {
		return nil
	}
	list, enough := nearFixes(pass, f, c, asks)
	if enough {
		return list
	}
	if fam == nil && e.Missing() && len(f.Present) == 0 && len(list) == 0 {
		if list = npmFix(pass, path.Base(f.Library), asks, len(pass.Packs.LibraryAdvice(f.Library, cuda)) > 0); len(list) > 0 {
			return list
		}
	}
	if len(f.Others) > 0 {
		list = append(list, otherMajorFix(pass, f, fam, asks)...)
	}
	if e.Missing() && len(f.Present) == 0 {
		list = append(list, otherReleaseFix(pass, f)...)
	}
	if fam != nil && f.Rule != "unusable-library" || fam == nil && e.Missing() {
		list = append(list, pass.Packs.LibraryAdvice(f.Library, cuda)...)
	}
	if len(list) == 0 && e.Missing() {
		list = recordedFix(pass, f.Library)
	}
	if len(list) == 0 && e.Missing() && asks != "" && f.Rule == "unresolved-library" && c.verdict.Severity != packs.Note {
		list = releaseFix(pass, f.Library, asks)
	}
	return list
}

// releaseFix returns the fix for a library that no file of the image is and that nothing is
// known of: to install it, or to rebuild the file that asks for it, against the release of the
// library that the image has. It returns nil for a loader and a C library.
func releaseFix(pass *Pass, library, asks string) []packs.Advice {
	if strings.HasPrefix(library, "ld-") || strings.HasPrefix(library, "libc.") {
		if l := pass.Loaders.Primary; l != nil && l.Libc.Musl && strings.HasPrefix(library, "ld-linux") {
			return pass.advice("glibc-base", packs.Values{"file": asks})
		}
		return nil
	}
	v := packs.Values{"library": library, "file": asks}
	stem := libraryStem(library)
	for _, o := range pass.Files.Objects {
		if name := path.Base(o.Path); stem != "" && libraryStem(name) == stem && o.Path != asks {
			v["soname"], v["dir"] = cmp.Or(o.ELF.Soname, name), path.Dir(o.Path)
			return pass.advice("other-release", v)
		}
	}
	if v["package"] = debianPackage(path.Base(library)); v["package"] != "" && isDebian(pass) {
		return pass.advice("install-debian-library", v)
	}
	return pass.advice("install-library", v)
}

// isDebian reports whether the image is of Debian, of Ubuntu, or of one of their children.
// Without os-release, the layout of the directories tells.
func isDebian(pass *Pass) bool {
	d := pass.Inventory.Distribution
	if d == nil {
		return isDirIn(pass, "/usr/lib/x86_64-linux-gnu") || isDirIn(pass, "/usr/lib/aarch64-linux-gnu")
	}
	return d.Is("debian") || d.Is("ubuntu")
}

// isDirIn reports whether a path of the image is a directory.
func isDirIn(pass *Pass, dir string) bool {
	e, _, ok := pass.Image.FS.Lookup(dir)
	return ok && e.IsDir()
}

// debianPackage returns the name that Debian's policy (8.1, run-time shared libraries) asks of
// the package of a library, or "" if its name has no version. A library whose name ends in 8
// hexadecimal digits is of a wheel.
func debianPackage(library string) string {
	name, version, ok := strings.Cut(library, ".so.")
	switch name {
	case "libm", "libdl", "libpthread", "librt", "libutil", "libresolv", "libanl", "libmvec":
		return "libc6"
	}
	if !ok || name == "" || version == "" || wheelName.MatchString(name) {
		return ""
	}
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		name += "-"
	}
	return strings.ReplaceAll(strings.ToLower(name), "_", "-") + version
}

var wheelName = regexp.MustCompile(`-[0-9a-f]{8}$`)

// libraryStem returns the name of a library without its numbers: "libboost_python" for
// libboost_python36.so.1.67.0. It returns "" for a name without ".so".
func libraryStem(name string) string {
	stem, _, ok := strings.Cut(name, ".so")
	if !ok {
		return ""
	}
	return strings.TrimRight(stem, "0123456789.-")
}

// recordedFix returns the fix for a library that a wheel has installed, by its RECORD, and
// that is gone, or nil.
func recordedFix(pass *Pass, library string) []packs.Advice {
	for p, pkg := range pass.Packages.EachWheel() {
		var files []string
		for file := range pkg.Files {
			if strings.HasSuffix(file, library) && path.Base(file) == library {
				files = append(files, file)
			}
		}
		slices.Sort(files)
		for _, file := range files {
			if _, _, ok := pass.Image.FS.Lookup(file); !ok && !pass.Image.MayBeSkipped(file) {
				return pass.advice("reinstall-recorded", packs.Values{"package": pkg.Name, "version": pass.Packages.Version(p, pkg), "file": file})
			}
		}
	}
	return nil
}

// otherReleaseFix returns the fix for a library of a framework that the installed release of
// it does not have, or nil.
func otherReleaseFix(pass *Pass, f *Finding) []packs.Advice {
	for _, in := range pass.Evidence.Installs {
		if in.Installed.Name != "" && packs.MatchAny(in.Serves, path.Base(f.Library)) {
			return pass.advice("framework-of-other-release", packs.Values{"library": f.Library, "framework": in.Installed.Name, "version": in.Installed.Version})
		}
	}
	return nil
}

// nearFixes returns the fixes that the image's files suggest, and whether they are enough.
func nearFixes(pass *Pass, f *Finding, c *cause, asks string) (list []packs.Advice, enough bool) {
	e := c.first
	named := len(f.Present) > 0 && len(pass.Files.Present(e.Name)) > 0
	switch {
	case pass.Files.OtherMachine(f.Library) != "":
		return pass.advice("other-machine", packs.Values{"machine": pass.Files.OtherMachine(f.Library), "image": replay.NameOf(pass.Files.Machine)}), false
	case !e.Missing() && strings.Contains(e.Message, "invalid ELF header") && strings.Contains(f.Library, "/node_modules/"):
		return pass.advice("node-modules", nil), true
	case f.Rule == "unusable-library":
		return wholeFix(pass, cmp.Or(e.Subject, e.Name)), false
	case f.Rule == "missing-link", f.Rule == "broken-entrypoint" && len(f.Present) > 0 && !named:
		return linkFix(pass, f), true
	case f.Rule == "broken-entrypoint" && named, f.Rule == "unresolved-library" && c.verdict.Severity != packs.Note && named:
		return searchFixes(pass, f, asks), true
	case f.Rule == "library-not-on-path":
		list = searchFixes(pass, f, asks)
		if in := pass.Evidence.InstallOf(asks); in != nil && len(in.Helped) > 0 {
			list = append(list, pass.advice("load-first", nil)...)
		}
		return list, true
	case c.part && len(f.Removed) == 0:
		return partFix(pass, f.Library, c.front)
	case len(f.Removed) > 0 && f.Removed[0].By != nil:
		r := f.Removed[0]
		return pass.advice("keep-file", packs.Values{"file": r.Path, "layer": strconv.Itoa(r.By.Index)}), false
	}
	return danglingFixes(pass, e.Name), false
}

// searchFixes returns the fixes that make the loader search the directory of a library that
// the image has.
func searchFixes(pass *Pass, f *Finding, asks string) []packs.Advice {
	dir := path.Dir(f.Present[0].Path)
	return append(ldconfigFix(pass, dir), pass.advice("search-path", packs.Values{"search-path": pathWith(pass, asks, dir)})...)
}

// partFix returns the fixes that add a part of the library at front, and whether they are
// enough.
func partFix(pass *Pass, library, front string) (list []packs.Advice, enough bool) {
	v := packs.Values{"library": library, "dir": path.Dir(front), "file": path.Base(front)}
	if r := pass.Packages.ReleaseOf(front); r != nil {
		v["release"] = r.String()
		list = pass.advice("add-part-of-release", v)
	} else {
		list = pass.advice("add-part", v)
	}
	d := pass.Packages.DistOf(front)
	if d.Name == "" || !strings.Contains(front, "-packages/") {
		return list, false
	}
	return append(list, pass.advice("or-reinstall", packs.Values{"package": strings.ReplaceAll(d.Name, "_", "-"), "version": d.Version})...), true
}

// otherMajorFix returns the fix for a library of which the image has another major version.
func otherMajorFix(pass *Pass, f *Finding, fam *packs.Family, asks string) []packs.Advice {
	other := f.Others[0].Path
	v := packs.Values{"soname": pass.Files.ByPath[other].ELF.Soname, "dir": path.Dir(other), "library": f.Library}
	if by := pass.Packs.Family(asks); by != nil && by != fam {
		v["by"] = by.Title
		return pass.advice("other-major-of-family", v)
	}
	return pass.advice("other-major", v)
}

// ldconfigFix returns the fix for a directory that a file of ld.so.conf names: to run
// ldconfig, which was not run since. It returns nil for another directory.
func ldconfigFix(pass *Pass, dir string) []packs.Advice {
	dirs := pass.Loaders.SearchDirs()
	for _, d := range slices.Sorted(maps.Keys(dirs)) {
		if by := dirs[d]; strings.HasPrefix(by, "/") && replay.RealPath(pass.Image.FS, d) == dir {
			return pass.advice("ldconfig", packs.Values{"conf": by, "dir": d})
		}
	}
	return nil
}

// wholeFix returns the fix for a file that cannot be used. A file of a few bytes in place of
// a library is a text, such as a Git LFS pointer.
func wholeFix(pass *Pass, file string) []packs.Advice {
	if e, _, ok := pass.Image.FS.Lookup(file); ok && e.Object == nil && e.Size > 8 && e.Size < 512 {
		return pass.advice("replace-text", packs.Values{"file": file, "size": strconv.FormatInt(e.Size, 10)})
	}
	return pass.advice("replace-file", packs.Values{"file": file})
}

// maxDangling limits the fixes of a finding that are about dangling links.
const maxDangling = 3

// danglingFixes returns the fixes for dangling links of a library's name: to bring their
// targets into the image.
func danglingFixes(pass *Pass, name string) []packs.Advice {
	var list []packs.Advice
	for _, p := range slices.Sorted(slices.Values(pass.Files.Named[path.Base(name)])) {
		if e, _, ok := pass.Image.FS.Lstat(p); ok && e.Type == layers.Symlink {
			if _, _, leads := pass.Image.FS.Lookup(p); !leads {
				list = append(list, pass.advice("bring-target", packs.Values{"file": e.Link, "link": p})...)
			}
		}
	}
	return list[:min(len(list), maxDangling)]
}

// linkFix returns the fix that adds a missing link beside the library. If the loader does
// not search that directory, the fix sets LD_LIBRARY_PATH as well.
func linkFix(pass *Pass, f *Finding) []packs.Advice {
	for _, p := range f.Present {
		dir := path.Dir(p.Path)
		for _, s := range f.Searched {
			if slices.ContainsFunc(s.Places, func(place Place) bool { return replay.RealPath(pass.Image.FS, place.Dir) == dir }) {
				return pass.advice("link", packs.Values{"file": path.Base(p.Path), "link": dir + "/" + f.Library})
			}
		}
	}
	p := f.Present[0].Path
	return pass.advice("link-and-path", packs.Values{
		"file": path.Base(p), "link": path.Dir(p) + "/" + f.Library, "search-path": pathWith(pass, "", path.Dir(p)),
	})
}

// pathWith returns LD_LIBRARY_PATH with, behind its elements, the directories of all GPU
// libraries that needer misses and the image has, and dir.
func pathWith(pass *Pass, needer, dir string) string {
	var dirs []string
	for _, v := range pass.Config.Env().Vars {
		if old, ok := strings.CutPrefix(v, "LD_LIBRARY_PATH="); ok && old != "" {
			dirs = strings.Split(old, ":")
		}
	}
	add := func(d string) {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	if o := pass.Files.ByPath[needer]; o != nil {
		for _, e := range pass.Files.Real(o.Misses) {
			if paths := pass.Files.Present(e.Name); e.Missing() && pass.Packs.Family(e.Name) != nil && len(paths) > 0 {
				add(path.Dir(paths[0]))
			}
		}
	}
	add(dir)
	return strings.Join(dirs, ":")
}

// olderCopyFix returns the fix that makes the loader find the newer of two copies first.
func olderCopyFix(pass *Pass, older, newer string) []packs.Advice {
	v := packs.Values{"older": older, "older-dir": path.Dir(older), "newer": newer, "newer-dir": path.Dir(newer)}
	if prefix, ok := strings.CutSuffix(path.Dir(older), "/lib"); ok && strings.HasPrefix(path.Base(older), "libstdc++.so") && isDirIn(pass, prefix+"/conda-meta") {
		v["prefix"] = prefix
		return pass.advice("conda-libstdcxx", v)
	}
	if by := pass.Loaders.SearchDirs()[path.Dir(older)]; strings.HasPrefix(by, "/") {
		v["conf"] = by
		return pass.advice("older-copy-out", v)
	}
	return pass.advice("newer-copy-first", v)
}

// oneReleaseFix returns the fixes that make a process load stray and with from one release.
func oneReleaseFix(pass *Pass, stray, with string) []packs.Advice {
	dir, first := path.Dir(stray), path.Dir(with)
	v := packs.Values{"dir": dir, "first": first}
	old, set := pass.Config.Getenv("LD_LIBRARY_PATH")
	if !set {
		return pass.advice("one-release", v)
	}
	var rest []string
	for d := range strings.SplitSeq(old, ":") {
		if d != "" && !pass.Image.SameDir(d, dir) {
			rest = append(rest, d)
		}
	}
	if v["search-path"] = strings.Join(rest, ":"); v["search-path"] != old {
		return pass.advice("one-release-by-dropping", v)
	}
	rest = slices.DeleteFunc(rest, func(d string) bool { return d == first })
	v["search-path"] = strings.Join(append([]string{first}, rest...), ":")
	return pass.advice("one-release-by-order", v)
}

// reinstall returns the fix that restores the files of a wheel.
func reinstall(pass *Pass, name, version string) []packs.Advice {
	return pass.advice("reinstall", packs.Values{"wheel": strings.ReplaceAll(name, "_", "-"), "version": version})
}

// adviseRequired puts a fix before the others of a missing library if the package that needs
// it requires a release of the wheel that has it.
func adviseRequired(pass *Pass, f *Finding) {
	if f.Rule != "missing-library" && f.Rule != "missing-sublibrary" {
		return
	}
	for _, n := range f.NeededBy {
		if advice := requiredFix(pass, n.Path, path.Base(f.Library)); len(advice) > 0 {
			f.Advice = append(advice, f.Advice...)
			return
		}
	}
}

// requiredFix returns the fix that installs the wheel with a library, in the release that the
// package of a file requires. It returns nil if the package's metadata names none.
func requiredFix(pass *Pass, file, library string) []packs.Advice {
	p, pkg, wheels, r := pass.Packages.Requirement(file, library)
	if pkg == nil {
		return nil
	}
	clause := "required"
	if wheels[r.Name] != nil {
		clause = "required-again"
	}
	return pass.advice(clause, packs.Values{"requirement": r.Name + r.Specifiers, "package": pkg.Name, "version": pass.Packages.Version(p, pkg)})
}
