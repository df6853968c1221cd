package replay

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// preload is a [Preload] with the files that the image has for it.
type preload struct {
	packs.Preload
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
func (re *replayer) findPreload(in *Install, pre packs.Preload) *preload {
	p := &preload{Preload: pre}
	var search []string
	if len(pre.Dirs) > 0 {
		search = re.packages.SearchPath(in.Site)
	}
	for i, pattern := range slices.Concat(pre.Files, pre.Optional) {
		f := preloadFile{pattern: pattern, optional: i >= len(pre.Files)}
		if len(pre.Dirs) > 0 {
			f.paths = re.onSearchPath(in, search, pre.Dirs, pattern)
		} else {
			f.paths = re.files.Glob(in.Site, pattern)
		}
		p.files = append(p.files, f)
	}
	return p
}

// onSearchPath returns the first file that a FOLDER/NAME of a preload leads to: of the
// first directory of search that has it, in the first of dirs.
func (re *replayer) onSearchPath(in *Install, search, dirs []string, file string) []string {
	folder, name := path.Split(file)
	cuda := cmp.Or(re.packages.cudaOfInstall(in), "[0-9]*")
	for _, site := range search {
		for _, dir := range dirs {
			dir = packs.Expand(dir, "{folder}", path.Clean(folder), "{cuda}", cuda)
			if found := re.files.Glob(site, path.Join(dir, name)); len(found) > 0 {
				return found[:1:1]
			}
		}
	}
	return nil
}

// buildOfInstall returns what the framework's own version.py says, or nil.
func (pa *Packages) buildOfInstall(in *Install) *inventory.Build {
	if pa.inv == nil {
		return nil
	}
	for _, b := range pa.inv.Builds {
		if b.Dir == in.Site && slices.Contains(in.Dist, b.Name) {
			return b
		}
	}
	return nil
}

// cudaOfInstall returns the major version of CUDA that a framework is built for, or ""
// if nothing tells it.
func (pa *Packages) cudaOfInstall(in *Install) string {
	if b := pa.buildOfInstall(in); b != nil && b.CUDA != "" {
		return packs.Numbers(b.CUDA, 1)
	}
	return in.Installed.Cuda()
}

// SearchPath returns the directories of sys.path, in order, of the Python that imports
// what lies in site: PYTHONPATH, then its directories of packages, and site itself where
// neither has it.
func (pa *Packages) SearchPath(site string) []string {
	list := pa.pythonPath()
	if p := pa.pythonAt(site); p != nil {
		list = append(list, p.Sites...)
		list = append(list, pa.sitesBelow(p)...)
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
func (pa *Packages) sitesBelow(user *inventory.Python) []string {
	var list []string
	if path.Base(user.Prefix) != ".local" {
		return nil
	}
	for _, p := range pa.inv.Pythons {
		if p.Interpreter != "" && p.Home == "" && p.Version == user.Version {
			list = append(list, p.Sites...)
		}
	}
	return list
}

// pythonPath returns the directories of PYTHONPATH.
func (pa *Packages) pythonPath() []string {
	value, _ := pa.config.Getenv("PYTHONPATH")
	var list []string
	for _, dir := range strings.Split(value, ":") {
		if value == "" || len(list) == maxPythonPath {
			break
		}
		if !path.IsAbs(dir) {
			dir = path.Join("/", pa.config.Env().Cwd, dir)
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
func (pa *Packages) pythonAt(site string) *inventory.Python {
	var best *inventory.Python
	if pa.inv == nil {
		return nil
	}
	for _, p := range pa.inv.Pythons {
		if !slices.Contains(p.Sites, site) {
			continue
		}
		if best == nil || IsIn(site, p.Prefix) && (!IsIn(site, best.Prefix) || len(p.Prefix) > len(best.Prefix)) {
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
func (re *replayer) load(in *Install) {
	if b := re.packages.buildOfInstall(in); b != nil && in.release == nil {
		in.release = packs.ParseRelease(b.Version)
	}
	in.preloads = map[string]*preload{}
	for _, when := range packs.PreloadTimes {
		if pre := in.preloadAt(when); pre != nil {
			in.preloads[when] = re.findPreload(in, *pre)
			in.opens = append(in.opens, in.preloads[when].paths()...)
		}
	}
	for _, s := range in.steps() {
		for _, g := range slices.Concat(s.Optional, s.Preload) {
			in.opens = append(in.opens, re.files.Glob(in.Site, g)...)
		}
	}
	if re.loaders.Primary == nil {
		return
	}
	in.Failures = re.runSteps(re.loaders.ProgramFor(in.Home, re.loaders.Primary), in)
	if in.callsRescue() {
		for _, f := range in.Failures {
			in.rescued = append(in.rescued, kept(f.Misses)...)
		}
		in.Failures = re.runSteps(re.loaders.ProgramFor(in.Home, re.loaders.Primary), in)
	}
}

// callsRescue reports whether the first step has failed and the text of its error names
// one of the libraries of the preload for that.
func (in *Install) callsRescue() bool {
	pre := in.preloads["after-miss"]
	if pre == nil || len(in.Failures) == 0 || in.Failures[0].Step.Open != in.steps()[0].Open {
		return false
	}
	return pre.isNamed(in.Failures[0].Misses[0].Error())
}

// preloadAt returns the framework's preload of a time in its version, or nil. Where the
// version is not known, it is the last one listed, and nothing of it is required.
func (in *Install) preloadAt(when string) *packs.Preload {
	var guess *packs.Preload
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
	return &packs.Preload{When: when, Dirs: guess.Dirs, Mapped: guess.Mapped, Optional: slices.Concat(guess.Files, guess.Optional)}
}

// openPreload opens what a preload finds. What cannot be loaded is passed over: its
// misses are not the framework's. What is cut off is told, since no process goes on
// after it.
func (re *replayer) openPreload(p *elfdeps.Process, pre *preload) (cut []*elfdeps.Error) {
	if pre == nil {
		return nil
	}
	for _, f := range pre.paths() {
		cut = append(cut, cutIn(re.loaders.OpenPath(p, f))...)
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
func (re *replayer) openEager(p *elfdeps.Process, pre *preload) (cut []*elfdeps.Error) {
	if pre == nil || !slices.ContainsFunc(p.Objects, func(m *elfdeps.Module) bool { return strings.Contains(m.Real(), pre.Mapped) }) {
		return nil
	}
	for _, f := range pre.files {
		if len(f.paths) == 0 && !f.optional {
			return cut
		}
		for _, file := range f.paths {
			misses, err := re.loaders.openPathBound(p, file, elfdeps.Now)
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
func (re *replayer) rescue(p *elfdeps.Process, in *Install, told func(s packs.Step, file string, err error)) (first *Failure) {
	pre := in.preloads["after-miss"]
	for _, f := range pre.files {
		if len(f.paths) == 0 && !f.optional && pre.Missing != "" && first == nil {
			first = re.notFound(in, pre, path.Base(f.pattern))
		}
		for _, file := range f.paths {
			misses, err := re.loaders.openPathBound(p, file, elfdeps.Now)
			if told != nil && symbolError(err) != nil {
				told(in.steps()[0], file, err)
			}
			if f.optional {
				misses = cutIn(misses)
			}
			if len(misses) > 0 && first == nil {
				first = &Failure{Step: in.steps()[0], Path: file, Misses: misses}
			}
		}
	}
	return first
}

// notFound is the failure of a preload that has no file of a name: as far as they tell,
// of what the steps miss without it.
func (re *replayer) notFound(in *Install, pre *preload, name string) *Failure {
	f := &Failure{Step: in.steps()[0], Path: firstOf(re.files.Glob(in.Home, in.steps()[0].Open)), Misses: in.rescued[:1]}
	f.Step.Error = strings.ReplaceAll(pre.Missing, "{name}", name)
	for i, e := range in.rescued {
		if packs.Stem(e.Name) == packs.Stem(name) {
			f.Misses = in.rescued[i : i+1]
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
