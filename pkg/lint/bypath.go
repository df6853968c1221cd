package lint

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// preload is a [Preload] with the files that the image has for it.
type preload struct {
	Preload
	files []preloadFile
}

// preloadFile is what one pattern of a preload comes to.
type preloadFile struct {
	pattern  string
	paths    []string // none: the image does not have it
	optional bool
}

// paths returns the files that a preload opens, in order.
func (p *preload) paths() []string {
	var list []string
	for _, f := range p.files {
		list = append(list, f.paths...)
	}
	return list
}

// isNamed reports whether the text of an error names one of the libraries, as torch
// looks for them: `lib.split(".")[0] in err.args[0]`.
func (p *preload) isNamed(text string) bool {
	return slices.ContainsFunc(p.files, func(f preloadFile) bool {
		library, _, _ := strings.Cut(path.Base(f.pattern), ".")
		return strings.Contains(text, library)
	})
}

// findPreload looks for the files of a preload.
func (w *world) findPreload(in *install, pre Preload) *preload {
	p := &preload{Preload: pre}
	var search []string
	if len(pre.Dirs) > 0 {
		search = w.searchPath(in.site)
	}
	for i, pattern := range slices.Concat(pre.Files, pre.Optional) {
		f := preloadFile{pattern: pattern, optional: i >= len(pre.Files)}
		if len(pre.Dirs) > 0 {
			f.paths = w.onSearchPath(in, search, pre.Dirs, pattern)
		} else {
			f.paths = w.glob(in.site, pattern)
		}
		p.files = append(p.files, f)
	}
	return p
}

// onSearchPath returns the first file that a FOLDER/NAME of a preload leads to: of the
// first directory of search that has it, in the first of dirs.
func (w *world) onSearchPath(in *install, search, dirs []string, file string) []string {
	folder, name := path.Split(file)
	cuda := cmp.Or(w.cudaOfInstall(in), "[0-9]*")
	for _, site := range search {
		for _, dir := range dirs {
			dir = expand(dir, "{folder}", path.Clean(folder), "{cuda}", cuda)
			if found := w.glob(site, path.Join(dir, name)); len(found) > 0 {
				return found[:1:1]
			}
		}
	}
	return nil
}

// buildOfInstall returns what the framework's own version.py says, or nil.
func (w *world) buildOfInstall(in *install) *inventory.Build {
	if w.inv == nil {
		return nil
	}
	for _, b := range w.inv.Builds {
		if b.Dir == in.site && slices.Contains(in.Dist, b.Name) {
			return b
		}
	}
	return nil
}

// cudaOfInstall returns the major version of CUDA that a framework is built for, or ""
// if nothing tells it.
func (w *world) cudaOfInstall(in *install) string {
	if b := w.buildOfInstall(in); b != nil && b.CUDA != "" {
		return numbers(b.CUDA, 1)
	}
	return in.dist.cuda()
}

// searchPath returns the directories of sys.path, in order, of the Python that imports
// what lies in site: PYTHONPATH, then its directories of packages, and site itself where
// neither has it.
func (w *world) searchPath(site string) []string {
	list := w.pythonPath()
	if p := w.pythonAt(site); p != nil {
		list = append(list, p.Sites...)
		list = append(list, w.sitesBelow(p)...)
	}
	if !slices.Contains(list, site) {
		list = append(list, site)
	}
	// A directory whose packages have no metadata is not in the inventory.
	for _, dir := range slices.Clone(list) {
		if twin := libTwin(dir); twin != "" && !slices.Contains(list, twin) {
			list = append(list, twin)
		}
	}
	return list
}

// sitesBelow returns the directories of packages that come after those of a user (pip
// install --user, site.USER_BASE): of the Pythons of that version that are no virtual
// environments.
func (w *world) sitesBelow(user *inventory.Python) []string {
	var list []string
	if path.Base(user.Prefix) != ".local" {
		return nil
	}
	for _, p := range w.inv.Pythons {
		if p.Interpreter != "" && p.Home == "" && p.Version == user.Version {
			list = append(list, p.Sites...)
		}
	}
	return list
}

// pythonPath returns the directories of PYTHONPATH.
func (w *world) pythonPath() []string {
	value, _ := w.getenv("PYTHONPATH")
	var list []string
	for _, dir := range strings.Split(value, ":") {
		if value == "" || len(list) == maxPythonPath {
			break
		}
		if !path.IsAbs(dir) {
			dir = path.Join("/", w.env().Cwd, dir)
		}
		list = append(list, path.Clean(dir))
	}
	return list
}

// maxPythonPath bounds the directories of PYTHONPATH, in each of which every file of a
// preload is looked for.
const maxPythonPath = 64

// pythonAt returns the environment that sees a directory of packages, or nil: of
// several the one that it belongs to.
func (w *world) pythonAt(site string) *inventory.Python {
	var best *inventory.Python
	if w.inv == nil {
		return nil
	}
	for _, p := range w.inv.Pythons {
		if !slices.Contains(p.Sites, site) {
			continue
		}
		if best == nil || isIn(site, p.Prefix) && (!isIn(site, best.Prefix) || len(p.Prefix) > len(best.Prefix)) {
			best = p
		}
	}
	return best
}

// libTwin returns the other of PREFIX/lib64/pythonX.Y/site-packages and
// PREFIX/lib/pythonX.Y/site-packages, or "": where Python's platlibdir is lib64 (Red Hat,
// SUSE), site.getsitepackages() has both, lib64 first, and pip puts packages with
// compiled code into lib64 and the others, NVIDIA's wheels among them, into lib.
func libTwin(site string) string {
	if before, after, ok := strings.Cut(site, "/lib64/python"); ok {
		return before + "/lib/python" + after
	}
	if before, after, ok := strings.Cut(site, "/lib/python"); ok {
		return before + "/lib64/python" + after
	}
	return ""
}

// load replays a framework's steps in one process. Where the first misses a library
// and a preload is for that, it is replayed again with its help.
func (w *world) load(in *install) {
	if b := w.buildOfInstall(in); b != nil && in.release == nil {
		in.release = parseRelease(b.Version)
	}
	in.preloads = map[string]*preload{}
	for _, when := range preloadTimes {
		if pre := in.preloadAt(when); pre != nil {
			in.preloads[when] = w.findPreload(in, *pre)
			in.opens = append(in.opens, in.preloads[when].paths()...)
		}
	}
	for _, s := range in.steps() {
		for _, g := range slices.Concat(s.Optional, s.Preload) {
			in.opens = append(in.opens, w.glob(in.site, g)...)
		}
	}
	if w.primary == nil {
		return
	}
	in.failures = w.runSteps(w.programFor(in.home, w.primary), in)
	if in.callsRescue() {
		for _, f := range in.failures {
			in.rescued = append(in.rescued, kept(f.misses)...)
		}
		in.failures = w.runSteps(w.programFor(in.home, w.primary), in)
	}
}

// callsRescue reports whether the first step has failed and the text of its error names
// one of the libraries of the preload for that.
func (in *install) callsRescue() bool {
	pre := in.preloads["after-miss"]
	if pre == nil || len(in.failures) == 0 || in.failures[0].step.Open != in.steps()[0].Open {
		return false
	}
	return pre.isNamed(in.failures[0].misses[0].Error())
}

// preloadAt returns the framework's preload of a time in its version, or nil. Where the
// version is not known, it is the last one listed, and nothing of it is required.
func (in *install) preloadAt(when string) *Preload {
	var guess *Preload
	for i := range in.Preload {
		p := &in.Preload[i]
		if p.When != when {
			continue
		}
		fits, known := in.release.Within(p.Versions)
		if fits {
			return p
		}
		if !known {
			guess = p
		}
	}
	if guess == nil {
		return nil
	}
	return &Preload{When: when, Dirs: guess.Dirs, Mapped: guess.Mapped, Optional: slices.Concat(guess.Files, guess.Optional)}
}

// openPreload opens what a preload finds. What cannot be loaded is passed over: its
// misses are not the framework's. What is cut off is told, since no process goes on
// after it.
func (w *world) openPreload(p *elfdeps.Process, pre *preload) (cut []*elfdeps.Error) {
	if pre == nil {
		return nil
	}
	for _, f := range pre.paths() {
		cut = append(cut, cutIn(w.openPath(p, f))...)
	}
	return cut
}

// cutIn are those of the errors that end the process.
func cutIn(list []*elfdeps.Error) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(list), func(e *elfdeps.Error) bool { return e.Kind != elfdeps.CutError })
}

// openEager opens a preload that comes after the first step has succeeded, where what it
// asks for is mapped. Its first file that is not there or cannot be loaded ends it,
// unless it is optional, and the framework goes on.
func (w *world) openEager(p *elfdeps.Process, pre *preload) (cut []*elfdeps.Error) {
	if pre == nil || !slices.ContainsFunc(p.Objects, func(m *elfdeps.Module) bool { return strings.Contains(m.Real(), pre.Mapped) }) {
		return nil
	}
	for _, f := range pre.files {
		if len(f.paths) == 0 && !f.optional {
			return cut
		}
		for _, file := range f.paths {
			misses, err := w.openPathBound(p, file, elfdeps.Now)
			cut = append(cut, cutIn(misses)...)
			if len(misses) > 0 || symbolError(err) != nil {
				return cut
			}
		}
	}
	return cut
}

// rescue opens a preload that comes when the first step has failed, and after which that
// step is tried once more. It returns the first file that is not there or cannot be
// loaded, which ends the import, or nil. The others are opened all the same, so that what
// they would have brought is not missed as well.
func (w *world) rescue(p *elfdeps.Process, in *install, told func(s Step, file string, err error)) (first *failure) {
	pre := in.preloads["after-miss"]
	for _, f := range pre.files {
		if len(f.paths) == 0 && !f.optional && pre.Missing != "" && first == nil {
			first = w.notFound(in, pre, path.Base(f.pattern))
		}
		for _, file := range f.paths {
			misses, err := w.openPathBound(p, file, elfdeps.Now)
			if told != nil && symbolError(err) != nil {
				told(in.steps()[0], file, err)
			}
			if f.optional {
				misses = cutIn(misses)
			}
			if len(misses) > 0 && first == nil {
				first = &failure{step: in.steps()[0], path: file, misses: misses}
			}
		}
	}
	return first
}

// notFound is the failure of a preload that has no file of a name: as far as they tell,
// of what the steps miss without it.
func (w *world) notFound(in *install, pre *preload, name string) *failure {
	f := &failure{step: in.steps()[0], path: firstOf(w.glob(in.home, in.steps()[0].Open)), misses: in.rescued[:1]}
	f.step.Error = strings.ReplaceAll(pre.Missing, "{name}", name)
	for i, e := range in.rescued {
		if stem(e.Name) == stem(name) {
			f.misses = in.rescued[i : i+1]
			break
		}
	}
	return f
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
