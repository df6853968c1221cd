package lint

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Checks of packages that are there for another Python than the one that reads
// them, and of where Python looks for its own library.

var (
	siteVersion  = regexp.MustCompile(`/python(3\.\d+)/(?:site|dist)-packages$`)
	extensionTag = regexp.MustCompile(`\.cpython-3(\d+)[a-z]*-`)
	pythonName   = regexp.MustCompile(`^python3\.\d+$`)
)

// wrongPythons finds frameworks whose extensions are for another Python than the
// directory that they lie in, and those in the directory of a Python that the image
// does not have.
func (w *world) wrongPythons() []Finding {
	bySite := map[string][]*install{}
	for _, in := range w.installs {
		if siteVersion.MatchString(in.site) {
			bySite[in.site] = append(bySite[in.site], in)
		}
	}
	have := w.pythonVersions()
	var list []Finding
	for _, site := range slices.Sorted(maps.Keys(bySite)) {
		version := siteVersion.FindStringSubmatch(site)[1]
		if len(have) > 0 && !slices.Contains(have, version) {
			list = append(list, w.pythonAbsent(bySite[site], version, have))
			continue
		}
		for _, in := range bySite[site] {
			if file, of := w.otherTag(in, version); file != "" {
				module := strings.ReplaceAll(strings.TrimPrefix(file[:strings.Index(file, ".cpython-")], site+"/"), "/", ".")
				f := w.say("wrong-python", "extension", values{"file": strings.TrimPrefix(file, site+"/"), "of": of, "python": version, "package": path.Base(in.home), "module": module})
				f.Subject, f.Present = file, []File{w.file(file)}
				list = append(list, f)
			}
		}
	}
	return list
}

// pythonAbsent returns the finding about frameworks that no Python of the image reads.
func (w *world) pythonAbsent(installs []*install, version string, have []string) Finding {
	first := installs[0]
	f := w.say("wrong-python", "absent", values{"title": first.Title, "python": version, "have": strings.Join(have, ", "), "package": path.Base(first.home), "newest": have[len(have)-1]})
	f.Subject = first.home
	for _, in := range installs {
		f.Affected = append(f.Affected, in.home)
	}
	f.Present = w.filesOf(f.Affected[:1])
	return f
}

// otherTag returns an extension of a framework whose name says another Python than
// version, and that Python; "" if an extension for version is there as well.
func (w *world) otherTag(in *install, version string) (file, of string) {
	for _, s := range in.Steps {
		for _, f := range w.glob(in.home, s.Open) {
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

// pythonVersions returns the versions of the image's interpreters and libpythons, or nil
// if the name of an interpreter does not have its version.
func (w *world) pythonVersions() []string {
	found := map[string]bool{}
	for _, name := range []string{"python", "python3"} {
		for _, p := range w.usable(w.named[name]) {
			if real := path.Base(realPath(w.img.FS, p)); !pythonName.MatchString(real) && path.Base(path.Dir(p)) == "bin" {
				return nil
			}
		}
	}
	interpreter := false
	for name, paths := range w.named {
		version, library := strings.CutPrefix(name, "libpython")
		if library {
			version, _, _ = strings.Cut(version, ".so")
			version = strings.TrimRight(version, "mdt")
		}
		if program := pythonName.MatchString(name); program || library {
			if len(w.usable(paths)) > 0 {
				interpreter = interpreter || program
				found[strings.TrimPrefix(version, "python")] = true
			}
		}
	}
	if !interpreter {
		return nil
	}
	return slices.SortedFunc(maps.Keys(found), version.Compare)
}

// pythonHome finds a PYTHONHOME that has the library of no Python of the image: each ends
// before it reads a program.
func (w *world) pythonHome() []Finding {
	value, _ := w.getenv("PYTHONHOME")
	home, _, _ := strings.Cut(value, ":")
	if home == "" {
		return nil
	}
	var versions []string
	for _, p := range w.inv.Pythons {
		if p.Interpreter == "" || p.Version == "" || slices.Contains(versions, p.Version) {
			continue
		}
		if w.isFile(home+"/lib/python"+p.Version+"/os.py") || w.isFile(home+"/lib/python"+strings.ReplaceAll(p.Version, ".", "")+".zip") {
			return nil
		}
		versions = append(versions, p.Version)
	}
	if len(versions) == 0 {
		return nil
	}
	f := w.say("python-home", "no-library", values{"value": value, "python": versions[0]})
	f.Subject, f.Values = "PYTHONHOME", values{"home": home}
	return []Finding{f}
}
