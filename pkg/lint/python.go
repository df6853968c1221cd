package lint

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

var (
	siteVersion  = regexp.MustCompile(`/python(3\.\d+)/(?:site|dist)-packages$`)
	extensionTag = regexp.MustCompile(`\.cpython-3(\d+)[a-z]*-`)
	pythonName   = regexp.MustCompile(`^python3\.\d+$`)
)

// wrongPythons returns a finding for each framework whose extensions are for another version of
// Python than its directory, and for those in the directory of a Python that the image lacks.
func wrongPythons(pass *Pass) []Finding {
	bySite := map[string][]*replay.Install{}
	for _, in := range pass.Evidence.Installs {
		if siteVersion.MatchString(in.Site) {
			bySite[in.Site] = append(bySite[in.Site], in)
		}
	}
	have := pythonVersions(pass)
	var list []Finding
	for _, site := range slices.Sorted(maps.Keys(bySite)) {
		version := siteVersion.FindStringSubmatch(site)[1]
		if len(have) > 0 && !slices.Contains(have, version) {
			list = append(list, pythonAbsent(pass, bySite[site], version, have))
			continue
		}
		for _, in := range bySite[site] {
			if file, of := otherTag(pass, in, version); file != "" {
				module := strings.ReplaceAll(strings.TrimPrefix(file[:strings.Index(file, ".cpython-")], site+"/"), "/", ".")
				f := pass.say("wrong-python", "extension", packs.Values{"file": strings.TrimPrefix(file, site+"/"), "of": of, "python": version, "package": path.Base(in.Home), "module": module})
				f.Subject, f.Present = file, []replay.File{pass.Image.File(file)}
				list = append(list, f)
			}
		}
	}
	return list
}

// pythonAbsent returns the finding for frameworks in the directory of a Python that the image
// lacks. have are the versions that it has.
func pythonAbsent(pass *Pass, installs []*replay.Install, version string, have []string) Finding {
	first := installs[0]
	f := pass.say("wrong-python", "absent", packs.Values{"title": first.Title, "python": version, "have": strings.Join(have, ", "), "package": path.Base(first.Home), "newest": have[len(have)-1]})
	f.Subject = first.Home
	for _, in := range installs {
		f.Affected = append(f.Affected, in.Home)
	}
	f.Present = pass.Image.FilesOf(f.Affected[:1])
	alone := slices.DeleteFunc(slices.Clone(installs), func(in *replay.Install) bool { return isElsewhere(pass, in) })
	switch {
	case len(alone) == 0:
		pass.lower(&f, "leftover", nil)
	case !slices.ContainsFunc(alone, pass.Evidence.Unseen.Wanted):
		pass.lower(&f, "no-python", nil)
	}
	return f
}

// isElsewhere reports whether the image has a framework at another place as well.
func isElsewhere(pass *Pass, in *replay.Install) bool {
	return slices.ContainsFunc(pass.Evidence.Installs, func(o *replay.Install) bool { return o != in && o.Framework == in.Framework })
}

// otherTag returns an extension of a framework that is tagged for another version of Python,
// and that version. It returns "" if the framework has the extension for version as well.
func otherTag(pass *Pass, in *replay.Install, version string) (file, of string) {
	for _, s := range in.Steps {
		for _, f := range pass.Files.Glob(in.Home, s.Open) {
			tag := extensionTag.FindStringSubmatch(path.Base(f))
			if tag == nil || "3."+tag[1] == version {
				file = ""
				break
			}
			if file == "" {
				file, of = f, "3."+tag[1]
			}
		}
		if file != "" {
			return file, of
		}
	}
	return "", ""
}

// pythonVersions returns the versions of the image's interpreters and libpythons, in order. It
// returns nil if there is no interpreter, or if one has a name without its version.
func pythonVersions(pass *Pass) []string {
	found := map[string]bool{}
	for _, name := range []string{"python", "python3"} {
		for _, p := range pass.Files.Usable(pass.Files.Named[name]) {
			if real := path.Base(replay.RealPath(pass.Image.FS, p)); !pythonName.MatchString(real) && path.Base(path.Dir(p)) == "bin" {
				return nil
			}
		}
	}
	interpreter := false
	for name, paths := range pass.Files.Named {
		version, program := versionInName(name)
		if version != "" && len(pass.Files.Usable(paths)) > 0 {
			found[version] = true
			interpreter = interpreter || program
		}
	}
	if !interpreter {
		return nil
	}
	return slices.SortedFunc(maps.Keys(found), version.Compare)
}

// versionInName returns the version of Python in the name of an interpreter or a libpython,
// or "". program reports whether it is an interpreter's.
func versionInName(name string) (version string, program bool) {
	if pythonName.MatchString(name) {
		return strings.TrimPrefix(name, "python"), true
	}
	rest, library := strings.CutPrefix(name, "libpython")
	if !library {
		return "", false
	}
	version, _, _ = strings.Cut(rest, ".so")
	return strings.TrimRight(version, "mdt"), false
}

// pythonHome returns a finding for a PYTHONHOME that lacks the standard library of every Python
// of the image: each ends before it reads a program.
func pythonHome(pass *Pass) []Finding {
	value, _ := pass.Config.Getenv("PYTHONHOME")
	home, _, _ := strings.Cut(value, ":")
	if home == "" {
		return nil
	}
	var versions []string
	for _, p := range pass.Inventory.Pythons {
		if p.Interpreter == "" || p.Version == "" || slices.Contains(versions, p.Version) {
			continue
		}
		if pass.Image.IsFile(home+"/lib/python"+p.Version+"/os.py") || pass.Image.IsFile(home+"/lib/python"+strings.ReplaceAll(p.Version, ".", "")+".zip") {
			return nil
		}
		versions = append(versions, p.Version)
	}
	if len(versions) == 0 {
		return nil
	}
	f := pass.say("python-home", "no-library", packs.Values{"value": value, "python": versions[0]})
	f.Subject, f.Values = "PYTHONHOME", packs.Values{"home": home}
	return []Finding{f}
}
