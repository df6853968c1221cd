// Package predict judges an image that is not built yet: it lays the files of Python wheels over
// the index of the image's base, and judges the result by the rules for images.
//
// Of a wheel it reads the directory at its end and, within a bound of bytes, the parts of its
// shared libraries that a loader reads, by range requests: of a large library that is compressed
// the two ends, if they tell. A file beyond the bound is there, and its needs are not known. Of
// the findings it returns those about libraries that a file of a
// wheel does not find, or finds in a release that is too old.
//
// It chooses wheels as pip does where releases do not depend on one another, and lays a
// distribution's Python down where a package manager would install it. It runs nothing, and does
// not know Dockerfiles, the program that the image will start, nor what scripts of packages do.
package predict

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyindex"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Base is the image that others are built on.
type Base struct {
	FS     *layers.FS
	Config *v1.ConfigFile // nil if it has none
}

// Options are the settings of predictions.
type Options struct {
	// Indexes returns those that are asked for wheels, or why they are not; nil: only wheels of
	// the build context are known.
	Indexes func(dockerlint.Indexes) (pyindex.Several, string)
	// Most is the number of bytes that are read of one wheel.
	Most  int64
	Cache Cache // of what was read of wheels; nil: none
	Packs *packs.Packs
	// Fetched, if set, is called with the name of a wheel and the bytes that were read of it.
	Fetched func(wheel string, bytes int64)
}

// Cache keeps documents by keys.
type Cache interface {
	Document(key string) ([]byte, bool)
	PutDocument(key string, doc []byte) error
}

// Outlook is the result of a prediction.
type Outlook struct {
	Findings []dockerlint.Predicted
	// Judged says of each package of the prospect whether all that it brings was read.
	Judged  []bool
	Unknown []dockerlint.NotPredicted
}

// PlatformOf returns the Python and the C library for which pip chooses wheels, or why they are not
// known.
func PlatformOf(base Base, p dockerlint.Prospect) (pyindex.Platform, string) {
	py, why := pythonOf(base.FS, p)
	if why != "" {
		return pyindex.Platform{}, why
	}
	return py.platform(), ""
}

// rules are those whose findings a file's own needs decide, and not what a program does first.
var rules = []string{"missing-library", "missing-sublibrary", "version-not-found", "unresolved-library"}

// Image judges an image.
func Image(ctx context.Context, base Base, p dockerlint.Prospect, o Options) *Outlook {
	out := &Outlook{Judged: make([]bool, len(p.Packages))}
	py, why := pythonOf(base.FS, p)
	if why != "" {
		out.Unknown = append(out.Unknown, dockerlint.NotPredicted{Why: why, Brings: true})
		return out
	}
	r := &resolver{ctx: ctx, o: o, python: py, have: installedIn(base.FS, py), unknown: &out.Unknown}
	r.resolve(p.Packages)
	for i := range p.Packages {
		out.Judged[i] = r.whole(i)
	}
	var entries []layers.Entry
	entries = append(entries, py.entries...)
	owner := map[string]*distribution{}
	for _, d := range r.list {
		for _, e := range d.entries(py) {
			owner["/"+e.Path] = d
			entries = append(entries, e)
		}
	}
	if len(owner) == 0 {
		return out
	}
	var config v1.ConfigFile
	if base.Config != nil {
		config = *base.Config.DeepCopy()
	}
	config.Config.Env, config.Config.Entrypoint, config.Config.Cmd = p.Env, nil, []string{"/" + py.program}
	fsys := base.FS.With(layers.NewLayer(entries), source.Layer{CreatedBy: "RUN pip install"})
	result, err := lint.Run(ctx, &replay.Image{FS: fsys, Config: &config}, o.Packs)
	if err != nil {
		out.Unknown = append(out.Unknown, dockerlint.NotPredicted{Why: "what the packages need: " + err.Error()})
		clear(out.Judged)
		return out
	}
	for i := range result.Findings {
		if x, ok := predicted(&result.Findings[i], owner); ok {
			out.Findings = append(out.Findings, x)
		}
	}
	return out
}

// predicted returns a finding about files of distributions.
func predicted(f *lint.Finding, owner map[string]*distribution) (dockerlint.Predicted, bool) {
	if !slices.Contains(rules, f.Rule) || f.Severity == packs.Note {
		return dockerlint.Predicted{}, false
	}
	paths := f.Affected
	if len(f.NeededBy) > 0 {
		paths = nil
		for _, n := range f.NeededBy {
			paths = append(paths, n.Path)
		}
	}
	for _, p := range paths {
		d := owner[p]
		if d == nil {
			continue
		}
		x := dockerlint.Predicted{Severity: f.Severity, Package: d.name, Version: d.version, By: d.by, Needs: f.Version, GPU: f.Family != "", Message: f.Message, Fixes: f.Fixes}
		if f.Library != "" {
			x.Libraries = []string{f.Library}
		}
		return x, true
	}
	return dockerlint.Predicted{}, false
}

// python is the Python into which packages are installed.
type python struct {
	release string // "3.10"
	site    string // the directory of packages, without a leading slash
	prefix  string // of scripts and data
	program string
	glibc   string
	musl    string
	// entries are the files of a Python that the base does not have.
	entries []layers.Entry
}

func (p *python) platform() pyindex.Platform {
	return pyindex.Platform{Python: p.release, Glibc: p.glibc, Musl: p.musl}
}

// pythonOf finds the Python of a prospect in its base, or lays down that of the distribution.
func pythonOf(fsys *layers.FS, p dockerlint.Prospect) (*python, string) {
	py := &python{}
	libc, machine := libcOf(fsys)
	switch {
	case libc == nil:
		return nil, "which wheels fit: the base image has no C library that is known"
	case libc.Musl:
		py.musl = cmp.Or(libc.Release, "1.2")
	default:
		py.glibc = libc.Release
	}
	if py.glibc == "" && py.musl == "" || machine != "amd64" {
		return nil, "which wheels fit: the base image is not for x86-64, or its C library has no release"
	}
	found := py.find(fsys, p)
	if !found && p.System != nil {
		found = py.system(fsys, p)
	}
	switch {
	case !found:
		return nil, "which Python the packages are for"
	case strings.HasPrefix(p.Python, "/"):
		py.venv(fsys, p)
	case strings.HasPrefix(p.Python, "3.") && p.Python != py.release:
		return nil, "which Python the packages are for"
	}
	return py, ""
}

// find looks for a Python as a shell does: in a virtual environment that the base has, else on
// PATH.
func (py *python) find(fsys *layers.FS, p dockerlint.Prospect) bool {
	dirs := strings.Split(valueOf(p.Env, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ":")
	if strings.HasPrefix(p.Python, "/") && !p.Venv {
		dirs = []string{p.Python + "/bin"}
	}
	for _, dir := range dirs {
		name := path.Join(dir, "python"+cmp.Or(minor(p.Python), "3"))
		e, _, ok := fsys.Lookup(strings.TrimPrefix(name, "/"))
		if !ok || e.Object == nil {
			continue
		}
		m := pythonName.FindStringSubmatch(path.Base(e.Path))
		if m == nil {
			continue
		}
		py.release, py.program = m[1], strings.TrimPrefix(name, "/")
		py.place(fsys, path.Dir(path.Dir(strings.TrimPrefix(name, "/"))))
		return true
	}
	return false
}

// place sets the directory of packages of a Python below a prefix: Debian has its own.
func (py *python) place(fsys *layers.FS, prefix string) {
	py.prefix, py.site = prefix, path.Join(prefix, "lib", "python"+py.release, "site-packages")
	if _, _, venv := fsys.Lookup(path.Join(prefix, "pyvenv.cfg")); prefix == "usr" && !venv {
		if _, _, debian := fsys.Lookup("etc/debian_version"); debian {
			py.prefix, py.site = "usr/local", path.Join("usr/local/lib", "python"+py.release, "dist-packages")
		} else {
			py.prefix, py.site = "usr/local", path.Join("usr/local/lib", "python"+py.release, "site-packages")
		}
	}
}

// venv puts the packages into a virtual environment that an instruction makes.
func (py *python) venv(fsys *layers.FS, p dockerlint.Prospect) {
	dir := strings.TrimPrefix(path.Clean(p.Python), "/")
	if _, _, ok := fsys.Lookup(path.Join(dir, "pyvenv.cfg")); ok {
		return
	}
	home := "/" + path.Dir(py.program)
	py.entries = append(py.entries,
		layers.Entry{Path: path.Join(dir, "pyvenv.cfg"), Type: layers.Regular, Mode: 0o644, Content: []byte("home = " + home + "\ninclude-system-site-packages = false\nversion = " + py.release + "\n")},
		layers.Entry{Path: path.Join(dir, "bin/python3"), Type: layers.Symlink, Mode: fs.ModePerm, Link: "/" + py.program},
		layers.Entry{Path: path.Join(dir, "bin/python"), Type: layers.Symlink, Mode: fs.ModePerm, Link: "python3"},
	)
	py.prefix, py.program = dir, path.Join(dir, "bin/python3")
	py.site = path.Join(dir, "lib", "python"+py.release, "site-packages")
}

// installedIn returns the releases of the distributions in the directory of packages of a
// Python, and of the one of the system's packages.
func installedIn(fsys *layers.FS, py *python) map[string]string {
	have := map[string]string{}
	for e := range fsys.Below(path.Dir(py.site)) {
		if m := distInfo.FindStringSubmatch(path.Base(e.Path)); m != nil && path.Dir(e.Path) == py.site {
			have[normalize(m[1])] = m[2]
		}
	}
	return have
}

func valueOf(env []string, name, otherwise string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return otherwise
}
