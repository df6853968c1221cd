package dockerlint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Prospect is an image as far as the instructions of a target tell, for [Input.Predict].
type Prospect struct {
	Ref, Platform string // of the image that it is built on
	Env           []string
	// Python is the directory of a virtual environment, the release of a Python, or "" for that
	// of PATH. Venv says that an instruction makes the environment.
	Python string
	Venv   bool
	// System has the Pythons by distributions, as [SystemPython] says, if a package manager
	// installs that of the image's; else it is nil.
	System   map[string]string
	Packages []Installed
}

// Installed is a distribution that an instruction installs into an environment.
type Installed struct {
	Name, Spec, Extras string
	Indexes            Indexes
	// Alone says that what it requires is not installed with it: --no-deps, a lock. Locked says
	// that a lock names it, so that it may be there for another one.
	Alone, Locked bool
	// File is the text of a wheel of the build context, and FileName its name.
	File     []byte
	FileName string
}

// Predicted is a finding that the image would have.
type Predicted struct {
	Severity packs.Severity
	// Package has the file that fails, in its release Version. By is the index of the
	// distribution in [Prospect.Packages] that brings it.
	Package, Version string
	By               int
	// Libraries are the names that are missing, or the one of a library that lacks the version
	// Needs. Without them Message says what fails.
	Libraries []string
	Needs     string
	GPU       bool // they are CUDA's
	Message   string
	Fixes     []string
}

// NotPredicted is something about packages that is not known. Brings is set if they may bring
// files that are not known either.
type NotPredicted struct {
	Why    string
	Brings bool
}

// predict lets the caller judge the files of the packages that are installed, and reports the
// libraries that they lack.
func (w *walk) predict() {
	if w.predicted == nil || w.base == nil || w.from.Ref == "scratch" {
		return
	}
	w.judged = map[*wheel]bool{}
	for _, python := range w.environments() {
		w.predictIn(python)
	}
}

// prospect returns an image without its packages.
func (w *walk) prospect(python string) *Prospect {
	return &Prospect{Ref: w.from.Ref, Platform: w.from.Platform, Env: w.environ(), Python: python, System: w.systemPythons(), Venv: slices.Contains(w.copied, python) || slices.ContainsFunc(w.venvs, func(v venv) bool { return v.path == python })}
}

// predictIn predicts one environment.
func (w *walk) predictIn(python string) {
	p := *w.prospect(python)
	if !strings.HasPrefix(python, "/") && minorOf.FindString(python) != python { // conda's, poetry's
		return
	}
	var from []*wheel
	brings := ""
	for _, in := range w.installs {
		if in.maybe || in.elsewhere {
			brings = fmt.Sprintf("line %d may bring it: it is not known whether and where its packages are installed", in.line)
		}
		if in.python != python || in.elsewhere || in.maybe {
			continue
		}
		for i := range in.wheels {
			x := &in.wheels[i]
			gone := slices.ContainsFunc(w.uninstalls, func(r removed) bool { return r.path == x.name })
			if x.maybe || x.name == "" || gone {
				continue
			}
			indexes, known := in.asks(x)
			if !known && w.otherIndex(in, x) {
				continue
			} else if !known {
				indexes = Indexes{URLs: []string{""}}
			}
			p.Packages = append(p.Packages, Installed{Name: x.name, Spec: x.spec, Extras: x.extras, Alone: in.noDeps || in.locked, Locked: in.locked, File: x.file, FileName: x.fileName, Indexes: indexes})
			from = append(from, x)
		}
	}
	if len(p.Packages) == 0 {
		return
	}
	list, judged, unknown := w.predicted(p)
	for i, all := range judged {
		if all {
			w.judged[from[i]] = true
		}
	}
	for _, u := range unknown {
		w.unread = append(w.unread, Unknown{from[0].line, u.Why})
		if u.Brings && brings == "" {
			brings = fmt.Sprintf("line %d may add it, which is not known: %s", from[0].line, u.Why)
		}
	}
	list = together(list)
	for i := range list {
		w.sayPredicted(&list[i], from[list[i].By], brings)
	}
}

// together makes one of the findings about missing libraries of a package.
func together(list []Predicted) (out []Predicted) {
	for _, p := range list {
		i := slices.IndexFunc(out, func(o Predicted) bool {
			return o.By == p.By && o.Package == p.Package && o.Severity == p.Severity && o.GPU == p.GPU && o.Needs == "" && p.Needs == "" && len(o.Libraries) > 0 && len(p.Libraries) > 0
		})
		if i < 0 {
			out = append(out, p)
			continue
		}
		out[i].Libraries = append(out[i].Libraries, p.Libraries...)
		if !slices.Equal(out[i].Fixes, p.Fixes) {
			out[i].Fixes = append(out[i].Fixes[:len(out[i].Fixes):len(out[i].Fixes)], p.Fixes...)
		}
	}
	for i := range out {
		slices.Sort(out[i].Libraries)
		out[i].Libraries = slices.Compact(out[i].Libraries)
		out[i].Fixes = unique(out[i].Fixes)
	}
	return out
}

// unique returns a list without what it has before, in its order.
func unique(list []string) (out []string) {
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// environ returns the variables of the image.
func (w *walk) environ() (env []string) {
	var names []string
	for _, e := range w.base.Env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	for _, v := range w.variables {
		names = append(names, v.value)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if v, known := w.scope.Get(name); known {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// systemPythons returns the Pythons of distributions if the package manager installs one.
func (w *walk) systemPythons() map[string]string {
	if !slices.ContainsFunc(w.adds, func(p systemPackage) bool { return slices.Contains(w.PythonPackages, p.name) }) {
		return nil
	}
	list := map[string]string{}
	for _, s := range w.SystemPythons {
		list[s.System] = s.Python
	}
	return list
}

// sayPredicted reports a library that a file of a package does not find. It is a note if
// something that is not known may bring it, or brings names what may.
func (w *walk) sayPredicted(p *Predicted, x *wheel, brings string) {
	v := values{"package": p.Package, "version": p.Version, "libraries": strings.Join(p.Libraries, ", "), "needs": p.Needs, "base": w.from.Ref, "from": strconv.Itoa(w.from.Line), "message": p.Message}
	if p.Package != x.name {
		v["package"] = fmt.Sprintf("%s %s, which %s requires,", p.Package, p.Version, x.name)
		v["version"] = ""
	}
	v["package"] = strings.TrimSpace(v["package"] + " " + v["version"])
	clause := "file"
	switch {
	case p.Needs != "":
		clause = "file-version"
	case len(p.Libraries) == 0:
		clause = "file-other"
	}
	f := w.finding("wheel-needs-library", clause, x.line, v)
	f.Column, f.Severity, f.Fixes = x.column, p.Severity, p.Fixes
	if by := cmp.Or(brings, w.mayBringFile(p)); by != "" {
		f.Severity, f.Because = packs.Note, by
	}
	w.judged[x] = true
	w.add(f)
}

// mayBringFile names what may bring a library that no wheel and no file of the base is, or is
// empty.
func (w *walk) mayBringFile(p *Predicted) string {
	for _, u := range w.unknown {
		if u.Line != w.from.Line {
			return fmt.Sprintf("line %d may add it, which is not known: %s", u.Line, u.Why)
		}
	}
	for _, a := range w.adds {
		if cudaPackage.MatchString(a.name) || !p.GPU && !w.without(a.name, p.Libraries) {
			return fmt.Sprintf("the package %s (line %d) may bring it", a.name, a.line)
		}
	}
	for _, c := range w.condas {
		return fmt.Sprintf("conda's %s (line %d) may bring it", c.name, c.line)
	}
	if len(w.links) > 0 {
		return fmt.Sprintf("the link of line %d may be it", w.links[0])
	}
	paths, known := w.scope.Get("LD_LIBRARY_PATH")
	if !known && w.base == nil && w.lastPath.line == 0 && (w.lacksVariable("LD_LIBRARY_PATH") || w.officialPython(w.from.Ref) != "") {
		paths, known = "", true
	}
	for _, c := range w.copies {
		switch {
		case !c.bringsLibrary():
		case c.to == "" || c.to == "/" || strings.HasPrefix(c.to, "/usr") || strings.HasPrefix(c.to, "/lib"):
			return "a COPY below /usr may add it"
		case !known || slices.ContainsFunc(strings.Split(paths, ":"), func(dir string) bool { return strings.HasPrefix(dir+"/", strings.TrimSuffix(c.to, "/")+"/") }):
			return "a COPY into a directory of LD_LIBRARY_PATH may add it"
		}
	}
	return ""
}
