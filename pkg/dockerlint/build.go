package dockerlint

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// systemInstallers are the package managers of distributions, and what of them needs root.
var (
	systemInstallers = []string{"apt-get", "apt", "dnf", "yum", "microdnf", "apk", "zypper"}
	needsRoot        = []string{"install", "update", "upgrade", "add", "dist-upgrade", "full-upgrade", "remove", "purge"}
)

// asRoot judges a command that needs root after a USER that is not.
func (w *walk) asRoot(c command) {
	name, _, _ := strings.Cut(w.user.value, ":")
	if name == "" || name == "root" || name == "0" || c.root || c.maybe || !slices.Contains(systemInstallers, c.name()) || w.says([]string{"fakeroot", "setuid", "u+s", "uid=0", "-u 0", "--uid 0", "-o -u"}) {
		return
	}
	args, _ := c.args()
	if !slices.ContainsFunc(args, func(a string) bool { return slices.Contains(needsRoot, a) }) {
		return
	}
	said := "root since " + strconv.Itoa(w.user.line)
	if w.once[said] { // the build has ended
		return
	}
	w.once[said] = true
	v := values{"command": c.name(), "user": name, "line": strconv.Itoa(w.user.line), "base": w.from.Ref}
	clause := "user"
	if w.user.line == 0 {
		clause = "base"
	}
	f := w.finding("needs-root", clause, c.line, v)
	f.Column = c.column
	if clause == "base" {
		w.byTag(&f)
	}
	w.add(f)
}

// ImageUser is the user of images, as far as they are not read.
type ImageUser struct {
	Images  []string `yaml:"images"`
	User    string   `yaml:"user"`
	Sources []string `yaml:"sources"`
}

// userOf returns the user of an image that was not read, or "".
func (k *Knowledge) userOf(ref string) string {
	ref, _, _ = strings.Cut(strings.TrimPrefix(ref, "docker.io/"), "@")
	for _, row := range k.ImageUsers {
		if packs.MatchAny(row.Images, ref) {
			return row.User
		}
	}
	return ""
}

// ImageVariables are patterns of the variables that images set.
type ImageVariables struct {
	Images    []string `yaml:"images"`
	Variables []string `yaml:"variables"`
	Sources   []string `yaml:"sources"`
}

// invisible judges the words of a command that use an ARG from before the first FROM, which no
// instruction of the stage declares again.
func (w *walk) invisible(c command) {
	if slices.Contains([]string{"test", "[", "echo", "printf", "export", "read"}, c.name()) || w.sourced {
		return
	}
	for _, word := range c.words {
		name := word.missing
		if name == "" || strings.HasSuffix(strings.ToLower(name), "_proxy") || w.once["$"+name] || !slices.Contains(w.parsed.Arguments, name) || w.scope.Declared(name) {
			continue
		}
		if w.base == nil && !w.lacksVariable(name) || w.base != nil && w.value(name) != "" {
			continue
		}
		w.once["$"+name] = true
		line, column := c.line, c.column
		if word.line > 0 {
			line, column = word.line, word.column
		}
		f := w.finding("argument-not-visible", "run", line, values{"name": name, "from": strconv.Itoa(w.from.Line)})
		f.Column = column
		w.add(f)
	}
}

// lacksVariable reports whether an image that was not read is known not to set a variable.
func (w *walk) lacksVariable(name string) bool {
	ref := strings.TrimPrefix(strings.TrimPrefix(w.from.Ref, "docker.io/"), "library/")
	for _, row := range w.ImageVariables {
		if packs.MatchAny(row.Images, ref) {
			return !packs.MatchAny(row.Variables, name)
		}
	}
	return false
}

// builtWithTorch judges a package whose build imports torch, where torch is not there yet.
func (w *walk) builtWithTorch(in *install) {
	if in.maybe || in.locked || in.elsewhere || in.others() || strings.HasPrefix(in.python, "conda:") || w.hasTorch() || w.base == nil && !w.plainBase() || w.contextNames("extra-build-dependencies") || w.contextNames("match-runtime") {
		return
	}
	for _, x := range w.torchBuilds(in) {
		clause, before, perhaps := "absent", 0, false
		for _, o := range w.installs {
			if o == in || o.python != in.python {
				continue
			}
			for k := range o.wheels {
				switch y := &o.wheels[k]; {
				case y.name == "torch":
					before = y.line
				case !y.plain && !listed(w.Plain, y.name) && !w.isTool(y.name): // it may require torch
					perhaps = true
				}
			}
			perhaps = perhaps || len(o.unknown) > 0
		}
		if perhaps && before == 0 {
			return
		}
		if before > 0 { // installed: pip builds in an environment without it
			args, _ := in.command.args()
			if !x.alone && !w.isolates(in) || slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--no-build-isolation") }) || w.says([]string{"NO_BUILD_ISOLATION", "no-build-isolation"}) || w.contextNames("no-build-isolation") {
				continue
			}
			clause = "isolated"
		}
		f := w.finding("build-needs-torch", clause, x.line, values{"package": x.name, "before": strconv.Itoa(before)})
		f.Column = x.column
		for _, u := range w.unknown {
			if u.Line < in.line && u.Line != w.from.Line {
				f.Severity, f.Because = packs.Note, "line "+strconv.Itoa(u.Line)+" may bring torch, which is not known: "+u.Why
				break
			}
		}
		for _, c := range w.condas {
			if packs.MatchAny([]string{"pytorch*", "torch*"}, c.name) {
				return
			}
		}
		w.add(f)
		return
	}
}

// torchBuilt is something that an install builds, and whose build imports torch.
type torchBuilt struct {
	name         string
	line, column int
	alone        bool // in an environment of its own
}

// torchBuilds returns what an install builds with torch.
func (w *walk) torchBuilds(in *install) (list []torchBuilt) {
	for i := range in.wheels {
		x := &in.wheels[i]
		if slices.ContainsFunc(w.TorchBuilt, func(l *Listed) bool { return slices.Contains(l.Packages, x.name) }) && !x.binary && x.index == "" && !x.maybe && !x.ofProject() && x.name != "" {
			list = append(list, torchBuilt{x.name, x.line, x.column, false})
		}
	}
	for _, p := range in.projects {
		list = append(list, torchBuilt{p.name, in.line, in.column, p.alone})
	}
	return list
}

// isolates reports whether an install builds in an environment of its own: uv does, and so does pip
// without setuptools and wheel, which images of Python from 3.12 on have no more, or from 25.3 on
// (https://pip.pypa.io/en/stable/news/), which is for Python 3.9 and later.
func (w *walk) isolates(in *install) bool {
	python := w.officialPython(w.from.Ref)
	if in.oneIndex || python != "" && !version.ParseRelease(python).Before(version.ParseRelease("3.12")) {
		return true
	}
	if s := w.systemOf(w.from.Ref); python == "" && s != nil {
		python = s.Python
	}
	if python == "" || version.ParseRelease(python).Before(version.ParseRelease("3.9")) {
		return false
	}
	return slices.ContainsFunc(w.installs, func(o *install) bool {
		args, _ := o.command.args()
		return o != in && o.python == in.python && !o.maybe && (slices.Contains(args, "--upgrade") || slices.Contains(args, "-U")) &&
			slices.ContainsFunc(o.wheels, func(x wheel) bool { return x.name == "pip" && x.spec == "" })
	})
}

// contextNames reports whether the project's file in the context has a text.
func (w *walk) contextNames(text string) bool {
	b, _ := w.contextText("pyproject.toml")
	return strings.Contains(string(b), text)
}

// PythonRange says for which Pythons the releases of packages have wheels. They have no source.
type PythonRange struct {
	Packages []string `yaml:"packages"`
	Versions string   `yaml:"versions"` // PEP 440 specifiers
	First    string   `yaml:"first"`    // "3.8"; "" if it is not known
	Last     string   `yaml:"last"`
	Sources  []string `yaml:"sources"`
}

// onPython judges pinned packages against the image's Python.
func (w *walk) onPython() {
	for _, in := range w.installs {
		if in.elsewhere || in.maybe || in.hidden {
			continue
		}
		python := in.markers["python_version"]
		if python == "" {
			continue
		}
		for i := range in.wheels {
			if x := &in.wheels[i]; !x.maybe && !x.binary && x.version != "" {
				w.withoutWheel(in, x, python)
			}
		}
	}
}

func (w *walk) withoutWheel(in *install, x *wheel, python string) {
	for _, url := range append(slices.Concat(in.index, in.extra), x.index) {
		if url != "" && !in.isPyPI(url) && !anyTorchIndex.MatchString(url) {
			return
		}
	}
	has := version.ParseRelease(python)
	for _, r := range w.PythonRanges {
		public, _, _ := strings.Cut(x.version, "+")
		if ok, err := version.Satisfies(public, r.Versions); !slices.Contains(r.Packages, x.name) || err != nil || !ok {
			continue
		}
		late := r.Last != "" && version.ParseRelease(r.Last).Before(has)
		if !late && (r.First == "" || !has.Before(version.ParseRelease(r.First))) {
			continue
		}
		bound := "up to Python " + r.Last
		if !late {
			bound = "from Python " + r.First + " on"
		}
		f := w.finding("wheel-absent", "python", x.line, values{"package": x.name, "version": x.version, "bound": bound, "python": python, "base": w.from.Ref, "from": strconv.Itoa(w.from.Line)})
		f.Column = x.column
		w.byTag(&f)
		w.add(f)
		return
	}
}

// unfitForMachine judges a package without wheels for another machine than x86-64.
func (w *walk) unfitForMachine(in *install, x *wheel) {
	r := row(w.X86Only, x)
	if r == nil || !strings.HasPrefix(w.from.Platform, "linux/arm64") || in.others() || x.index != "" || x.binary {
		return
	}
	w.unfit("machine", x, values{"machine": "arm64"}, "")
}

var pythonPackage = regexp.MustCompile(`^python(3\.\d+)(?:-(?:dev|venv|distutils|full|minimal|tk))?$`)

// absentPackages judges packages of a release of Python that the distribution does not have.
func (w *walk) absentPackages() {
	system := w.systemOf(w.from.Ref)
	ref := strings.TrimPrefix(strings.TrimPrefix(w.from.Ref, "docker.io/"), "library/")
	if system == nil || !packs.MatchAny(w.PythonElsewhere, ref) && w.officialPython(ref) == "" {
		return
	}
	for _, a := range w.adds {
		m := pythonPackage.FindStringSubmatch(a.name)
		if m == nil || m[1] == system.Python || slices.Contains(system.Also, m[1]) || a.maybe {
			continue
		}
		v := values{"package": a.name, "base": w.from.Ref, "from": strconv.Itoa(w.from.Line), "system": system.System, "python": system.Python}
		clause := ""
		switch ppa := w.says([]string{"deadsnakes"}); {
		case ppa && system.NoDeadsnakes && !w.says([]string{"sources.list", "/etc/apt", "apt.sources", "mirror"}) && !w.copiesTo("/etc"):
			clause = "deadsnakes"
		case !ppa && !w.says(otherRepositories) && !w.copiesTo("/etc") && !w.unknownBefore(a.line):
			clause = "release"
		default:
			continue
		}
		f := w.finding("package-absent", clause, a.line, v)
		w.byTag(&f)
		w.add(f)
		return
	}
}

// otherRepositories are texts of a file that may add packages to those of the distribution.
var otherRepositories = []string{"add-apt-repository", "sources.list", "/etc/apt", "ppa", "keyring", "apt-key", ".sources", "extrepo", "dpkg", "backports", "testing", "experimental", "-t "}

// copiesTo reports whether a COPY brings files below a directory, or to a place that is not known.
func (w *walk) copiesTo(dir string) bool {
	return w.broughtTo(dir) || slices.ContainsFunc(w.copies, func(c copied) bool {
		return c.bringsLibrary() && (c.to == "" || c.to == "/" || strings.HasPrefix(path.Clean(c.to)+"/", dir+"/"))
	})
}

// broughtTo reports whether files of other stages and images come below one of some directories, or to a
// place that is not known.
func (w *walk) broughtTo(dirs ...string) bool {
	return slices.ContainsFunc(w.brought, func(to string) bool {
		return to == "" || to == "/" || slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(to+"/", dir+"/") })
	})
}

func (w *walk) unknownBefore(line int) bool {
	return slices.ContainsFunc(w.unknown, func(u Unknown) bool {
		return u.Line != w.from.Line && u.Line <= line && (strings.HasPrefix(u.Why, "the effect of") || strings.HasPrefix(u.Why, "the commands of"))
	})
}

// clones judges an install that clones a repository in an image without git.
func (w *walk) clones(in *install) {
	if in.maybe || len(in.sources) == 0 {
		return
	}
	switch {
	case w.base != nil && (len(w.base.Programs) == 0 || w.base.program("git")):
		return
	case w.base == nil && matchImage(w.WithoutGit, w.from.Ref) == nil:
		return
	}
	for _, s := range in.sources {
		i := strings.Index(s.name, "git+")
		if i < 0 {
			continue
		}
		by := ""
		for _, a := range w.adds {
			if a.name == "git" || strings.Contains(a.name, "$") {
				return
			}
			if !packs.MatchAny(w.GitWithout, a.name) {
				by = "the package " + a.name + " (line " + strconv.Itoa(a.line) + ") may bring it"
			}
		}
		if len(w.brought) > 0 || w.copiesTo("/usr") || len(w.condas) > 0 || w.says([]string{"conda", "mamba", "pixi", "apk ", "dnf ", "yum ", "microdnf ", "nix", "install git", "git version", "git config"}) {
			return
		}
		if w.unknownBefore(in.line) {
			by = "a command before it, whose effect is not known, may bring it"
		}
		f := w.finding("program-absent", "git", s.line, values{"url": s.name[i:], "base": w.from.Ref, "from": strconv.Itoa(w.from.Line)})
		f.Column = s.column
		w.byTag(&f)
		if by != "" {
			f.Severity, f.Because = packs.Note, by
		}
		w.add(f)
		return
	}
}

// notActivated judges a program of an environment that the image's shell activates only if a
// variable says so.
func (w *walk) notActivated(c command) {
	name := c.name()
	if c.env != "" || len(c.words) == 0 || strings.Contains(c.words[0].text, "/") || !pipName.MatchString(name) && !pythonName.MatchString(name) || w.once["activate"] {
		return
	}
	ref := strings.TrimPrefix(w.from.Ref, "docker.io/")
	for _, row := range w.ActivatedBy {
		if !packs.MatchAny(row.Images, ref) || w.says([]string{row.Instead, "SHELL ", "shell hook", "micromamba shell", "PATH=", "PATH "}) || len(w.brought) > 0 || slices.ContainsFunc(w.adds, func(a systemPackage) bool {
			return strings.HasPrefix(a.name, "python") || strings.Contains(a.name, "pip")
		}) {
			continue
		}
		w.once["activate"] = true
		f := w.finding("program-absent", "activate", c.line, values{"program": name, "base": w.from.Ref, "from": strconv.Itoa(w.from.Line), "variable": row.Instead})
		f.Column = c.column
		w.add(f)
	}
}
