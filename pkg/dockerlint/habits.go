package dockerlint

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

type values = map[string]string

// env judges an ENV of LD_LIBRARY_PATH without the old value.
func (w *walk) env(st *dockerfile.Step) {
	for _, s := range st.Settings {
		if s.Name == "PATH" {
			w.searched(st.Line, s.Value)
		}
		if s.Name != "LD_LIBRARY_PATH" {
			continue
		}
		value, known := w.scope.Expand(s.Value)
		if !strings.Contains(s.Value, "LD_LIBRARY_PATH") && known && value != "" {
			w.replaced(st.Line, value)
		}
		w.lastPath = setting{value, st.Line}
		if known {
			w.paths = append(w.paths, setting{value, st.Line})
		} else {
			w.paths = nil
		}
	}
}

// replaced judges a new value of LD_LIBRARY_PATH against the one before.
func (w *walk) replaced(line int, value string) {
	lost := func(old string) (list []string) {
		for dir := range strings.SplitSeq(old, ":") {
			if dir != "" && !slices.Contains(strings.Split(value, ":"), dir) && !slices.Contains(list, dir) {
				list = append(list, dir)
			}
		}
		return list
	}
	v := values{"value": value, "base": w.from.Ref}
	if n := len(w.paths); n > 0 {
		v["before"] = strconv.Itoa(w.paths[n-1].line)
		if dirs := lost(w.paths[n-1].value); len(dirs) > 0 {
			v["lost"] = strings.Join(dirs, ":")
			clause := "own"
			if len(dirs) < len(strings.FieldsFunc(w.paths[n-1].value, func(r rune) bool { return r == ':' })) { // some are kept
				clause = "rewritten"
			}
			w.say("library-path-replaced", clause, line, v)
		}
		return
	}
	if w.base == nil {
		if strings.Contains(w.from.Ref, "nvidia/cuda") || strings.HasPrefix(w.from.Ref, "nvcr.io/nvidia/") {
			w.say("library-path-replaced", "unknown", line, v)
		}
		return
	}
	old, _ := w.scope.Get("LD_LIBRARY_PATH")
	dirs := lost(old)
	if len(dirs) == 0 {
		return
	}
	clause := "mounts"
	if held := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return !w.base.Libraries[path.Clean(d)] || linked.MatchString(d) }); len(held) > 0 {
		clause, dirs = "base", held
	}
	v["lost"] = strings.Join(dirs, ":")
	w.say("library-path-replaced", clause, line, v)
}

// linked matches the directories that the loader's configuration has in the images that set
// them in LD_LIBRARY_PATH as well, and those to which the driver is mounted.
var linked = regexp.MustCompile(`^/(usr/local/(cuda|nvidia)|usr/lib|lib)`)

// copy keeps a COPY, and judges what it copies.
func (w *walk) copy(st *dockerfile.Step) {
	if len(st.Words) < 2 {
		return
	}
	var words []string
	known := true
	for _, word := range st.Words {
		text, ok := w.scope.Expand(word)
		words, known = append(words, text), known && ok
	}
	to := w.at(words[len(words)-1], known)
	for _, from := range words[:len(words)-1] {
		base := path.Base(from)
		if packs.MatchAny(w.DriverFiles, base) && !strings.Contains(to, "/stubs") { // to link with
			w.say("driver-copied", "file", st.Line, values{"path": base})
		}
	}
	if st.From >= 0 || st.FromRef != "" {
		w.brought = append(w.brought, to)
		w.otherPackages(st.Line, to)
	}
	switch {
	case st.From >= 0:
		w.copyStage(st, words, to)
	case st.FromRef != "" && w.programImage(st.FromRef):
	case st.FromRef != "":
		w.unknown = append(w.unknown, Unknown{st.Line, "the files that come from the image " + st.FromRef})
	case strings.HasSuffix(words[len(words)-1], "/") && to != "/":
		w.copies = append(w.copies, copied{words[:len(words)-1], to + "/"})
	default:
		w.copies = append(w.copies, copied{words[:len(words)-1], to})
	}
}

// programImage reports whether an image has programs alone, that need no library of it.
func (w *walk) programImage(ref string) bool {
	name, _, _ := strings.Cut(ref, "@")
	return matchImage(w.ProgramImages, name) != nil
}

// copyStage judges a COPY of another stage: an environment that comes to another path, or, with
// its packages, to the same one.
func (w *walk) copyStage(st *dockerfile.Step, words []string, to string) {
	of := Unknown{st.Line, "the files that come from " + w.parsed.Stages[st.From].String()}
	if w.nested >= maxStagesNested {
		w.unknown = append(w.unknown, of)
		return
	}
	other := w.other(st.From)
	sources, known := words[:len(words)-1], to != ""
	for _, from := range sources {
		if list := other.written[path.Clean("/"+from)]; list != nil && to != "" {
			at := to
			if strings.HasSuffix(words[len(words)-1], "/") || to == w.dir || len(sources) > 1 {
				at = path.Join(to, path.Base(from))
			}
			if w.written == nil {
				w.written = map[string]func(*install){}
			}
			w.written[at] = list
		}
		known = known && (w.bringEnvironment(st, other, from, to, len(sources)) || noLibrary(from, to))
	}
	if !known {
		w.unknown = append(w.unknown, of)
	}
}

// bringEnvironment judges a copied path that has an environment. It reports whether all that
// the path brings is known.
func (w *walk) bringEnvironment(st *dockerfile.Step, other *walk, from, to string, sources int) bool {
	from = path.Clean("/" + from)
	whole := false
	for _, e := range other.venvs {
		rest, below := strings.CutPrefix(e.path+"/", from+"/")
		if !below || to == "" || sources > 1 {
			continue
		}
		now := path.Join(to, rest)
		if now == e.path {
			whole = w.bring(other, e)
			w.behind = append(w.behind, behind{other, e, st.Line})
		} else if !w.mentioned(e.path) && !slices.ContainsFunc(w.moved, func(m moved) bool { return m.env.path == e.path && m.to == now }) {
			w.moved = append(w.moved, moved{e, now, st.Line})
		}
	}
	return whole
}

// bring takes the packages of an environment of another stage. It reports whether these are
// all that it may have.
func (w *walk) bring(other *walk, e venv) (whole bool) {
	whole = !slices.ContainsFunc(other.unknown, func(u Unknown) bool { return u.Line != other.from.Line })
	activated := other.value("VIRTUAL_ENV") == e.path || strings.HasPrefix(other.programs, e.path+"/bin")
	for _, in := range other.installs {
		switch {
		case in.elsewhere:
		case in.python == e.path || in.python == "" && activated:
			w.installs = append(w.installs, in)
			w.copied = append(w.copied, e.path)
		case in.python == "":
			whole = false
		}
	}
	return whole
}

// noLibrary reports whether a path of another stage is a program or a text, to which no library
// of CUDA's belongs.
func noLibrary(from, to string) bool {
	if slices.Contains([]string{".html", ".css", ".js", ".json", ".txt", ".sh", ".py", ".toml", ".yaml", ".yml", ".lock", ".md"}, path.Ext(from)) {
		return true
	}
	dir := path.Dir(path.Clean("/" + from))
	return path.Base(dir) == "bin" && !strings.HasSuffix(from, "/") && (path.Base(path.Dir(to)) == "bin" || path.Base(to) == "bin")
}

// other returns the walk of another stage.
func (w *walk) other(stage int) *walk {
	if o := w.made[stage]; o != nil {
		return o
	}
	quiet := &linter{Knowledge: w.Knowledge, file: new(File), lines: w.lines, parsed: w.parsed, context: w.context, predicted: w.predicted, nested: w.nested + 1, work: w.work, room: w.room}
	other := quiet.walk(stage)
	other.steps(stage)
	w.made[stage] = other
	return other
}

// maxStagesNested limits stages that copy from one another.
const maxStagesNested = 1

// mentioned reports whether an instruction of the file repairs or keeps the old path: it
// links or rewrites it.
func (w *walk) mentioned(p string) bool {
	return slices.ContainsFunc(w.lines, func(line string) bool {
		return strings.Contains(line, p) && (strings.Contains(line, "ln -s") || strings.Contains(line, "sed ")) || strings.Contains(line, "venv --upgrade")
	})
}

// withoutEffect judges a RUN whose commands all end with its shell.
func (w *walk) withoutEffect(st *dockerfile.Step, list []command, whole bool) {
	if !whole || len(list) == 0 || strings.Contains(strings.Join(st.Words, " "), ">") {
		return
	}
	clause, names := "", []string{}
	for _, c := range list {
		args, _ := c.args()
		switch name := c.name(); {
		case name == "export" && len(args) > 0:
			clause = "export"
			for _, a := range args {
				n, _, _ := strings.Cut(a, "=")
				names = append(names, n)
			}
		case (name == "source" || name == ".") && len(args) == 1 && strings.HasSuffix(args[0], "/activate"), name == "conda" && len(args) > 0 && args[0] == "activate":
			if clause == "" {
				clause = "activate"
			}
		case name == "cd" && len(args) == 1:
			if clause == "" {
				clause, names = "cd", []string{args[0]}
			}
		default:
			return
		}
	}
	w.say("run-without-effect", clause, st.Line, values{"names": strings.Join(names, ", ")})
}

// judge judges the target as a whole.
func (w *walk) judge() {
	w.devel()
	w.pythons()
	w.pythonsBehind()
	w.environmentsMoved()
	w.judgeStart()
	w.absentPackages()
	w.onPython()
	w.shells()
	w.indexes()
	w.unpinned()
	w.removals()
	w.fits()
	w.mixes()
	w.newerMKL()
	w.condaOnCPU()
	w.exclusives()
	w.predict()
	w.releases()
	w.needs()
	w.fitsSystem()
	w.refuses()
	w.replacesTorch()
	w.offPath()
	w.stubs()
	w.capabilities()
	w.absentBase()
	w.unreleased()
	w.onMachines()
	w.inherited()
}

var develTag = regexp.MustCompile(`^((?:docker\.io/|nvcr\.io/)?(?:nvidia/cuda|pytorch/pytorch):.*)-devel(-.*)?$`)

// devel judges a -devel image below a target of a file of several stages or one.
func (w *walk) devel() {
	if m := develTag.FindStringSubmatch(w.from.Ref); m != nil {
		w.say("devel-base", "devel", w.from.Line, values{"base": w.from.Ref, "runtime": m[1] + "-runtime" + m[2]})
	}
}

// pythons judges installs that name two releases of Python themselves.
func (w *walk) pythons() {
	by := map[string][]*install{}
	var order []string
	for _, in := range w.installs {
		if in.elsewhere || in.maybe || !minorOf.MatchString(in.python) || in.python != minorOf.FindString(in.python) || in.first(w) == "" {
			continue
		}
		if by[in.python] == nil {
			order = append(order, in.python)
		}
		by[in.python] = append(by[in.python], in)
	}
	if len(order) != 2 {
		return // more are meant
	}
	a, b := by[order[0]], by[order[1]]
	for _, x := range a {
		for _, y := range b {
			if slices.ContainsFunc(x.wheels, func(m wheel) bool {
				return slices.ContainsFunc(y.wheels, func(n wheel) bool { return m.name == n.name && !slices.Contains(w.Tools, m.name) })
			}) {
				return // the same for both
			}
		}
	}
	in := b[0]
	w.say("two-pythons", "two", in.line, values{"package": in.first(w), "python": order[1], "other": a[0].first(w), "of": order[0], "before": strconv.Itoa(a[0].line)})
}

// first returns the first distribution that is no tool, or "".
func (in *install) first(w *walk) string {
	for _, x := range in.wheels {
		if !slices.Contains(w.Tools, x.name) {
			return x.name
		}
	}
	return ""
}

// torchIndex matches the index of PyTorch for a CUDA, and that of the builds which are tested
// before a release: it has the same builds of each release.
var torchIndex = regexp.MustCompile(`^https?://download\.pytorch\.org/whl/(?:test/)?(cu\d+)/?$`)

// indexes judges the indexes of PyTorch, and whether they have the release that is pinned.
func (w *walk) indexes() {
	for _, in := range w.installs {
		for _, url := range slices.Concat(in.index, in.extra) {
			if m := torchIndex.FindStringSubmatch(url); m != nil {
				w.judgeIndex(in, m[1], slices.Contains(in.index, url), in.lineOf(url))
			}
		}
	}
}

func (w *walk) judgeIndex(in *install, name string, only bool, line int) {
	var all []string
	for _, l := range w.Indexes {
		all = append(all, l.Names...)
	}
	newest := all[len(all)-1]
	v := values{"index": name, "newest": newest, "nearest": indexURL(all, name)}
	switch {
	case listed(w.Absent, name):
		w.absent(in, only, line, v)
		return
	case indexNumber(name) > indexNumber(newest):
		switch exists, known := w.asked(name); {
		case !known:
			w.say("index-absent", "newer", line, v)
		case !exists:
			w.absent(in, only, line, v)
		}
		return
	case !slices.Contains(all, name):
		w.unknown = append(w.unknown, Unknown{in.line, "whether PyTorch has an index " + name})
		return
	case !only || len(in.extra) > 0 || len(in.index) > 1 || w.hasTorch():
		return
	}
	for _, x := range in.wheels {
		if x.name != "torch" || x.version == "" || strings.Contains(x.version, "+") {
			continue
		}
		release := version.ParseRelease(x.version).First(2).String()
		if builds := w.builds(release); len(builds) > 0 && !slices.Contains(builds, name) {
			v["version"], v["release"], v["builds"], v["nearest"] = x.version, release, strings.Join(builds, ", "), indexURL(builds, name)
			w.say("index-absent", "build", in.line, v)
		}
	}
}

// absent reports an index that does not exist. pip passes over such a one beside another.
func (w *walk) absent(in *install, only bool, line int, v values) {
	clause := "absent"
	if !only || len(in.extra) > 0 || len(in.index) > 1 || w.hasTorch() {
		clause = "passed-over"
	}
	w.say("index-absent", clause, line, v)
}

// hasTorch reports whether the base image may have torch, so that pip may find nothing to do.
func (w *walk) hasTorch() bool {
	if w.base == nil {
		return strings.Contains(w.from.Ref, "torch") || strings.HasPrefix(w.from.Ref, "nvcr.io/") || w.from.Ref == ""
	}
	return w.base.Wheels["torch"] != ""
}

// asked reports whether PyTorch's server has an index, and whether that is known.
func (w *walk) asked(name string) (exists, known bool) {
	if w.index == nil {
		return false, false
	}
	return w.index("https://download.pytorch.org/whl/" + name)
}

func indexNumber(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "cu"))
	return n
}

// indexURL returns the address of the highest index of a list that is not above one, or of
// its lowest.
func indexURL(list []string, name string) string {
	best := list[0]
	for _, s := range list {
		if n := indexNumber(s); n <= indexNumber(name) && n > indexNumber(best) || indexNumber(best) > indexNumber(name) && n < indexNumber(best) {
			best = s
		}
	}
	return "https://download.pytorch.org/whl/" + best
}

// gpuPackage returns the first framework for GPUs that is installed before a line, or nil.
func (w *walk) gpuPackage(line int) *wheel {
	for _, in := range w.installs {
		for i := range in.wheels {
			x := &in.wheels[i]
			if (line == 0 || x.line <= line) && isFramework(w, x.name) {
				return x
			}
		}
	}
	return nil
}

// unpinned judges the cuDNN of apt-get. The newest libcudnn8 is built for CUDA 12, so that it
// is the right one for a base with that.
func (w *walk) unpinned() {
	for _, c := range w.cudnn {
		v, clause := values{"package": c.name}, "alone"
		if w.base != nil {
			major, _, _ := strings.Cut(w.value("CUDA_VERSION"), ".")
			if major == "" && len(w.base.CUDA) == 1 {
				major = w.base.CUDA[0]
			}
			switch n, err := strconv.Atoi(major); {
			case err != nil: // the base has no CUDA
			case n >= 12:
				continue
			default:
				if x := w.gpuPackage(0); x != nil {
					clause, v["framework"], v["before"], v["cuda"] = "beside", x.name, strconv.Itoa(x.line), major
				}
			}
		}
		w.say("cudnn-unpinned", clause, c.line, v)
	}
}

var (
	wheelDir   = regexp.MustCompile(`/(site|dist)-packages/nvidia(/[a-z0-9_*]+(/lib(/\*|/[^/]*\.so[^/]*)?)?)?/?$`)
	toolkitDir = regexp.MustCompile(`^/usr/local/cuda(-[0-9.]+|\*|-\*)?(/(targets(/[^/]+)?|lib64|lib64/\*|lib64/lib[^/]*\.so[^/]*))?/?$`)
)

// removals judges rm of directories with libraries.
func (w *walk) removals() {
	for _, r := range w.removed {
		x := w.gpuPackage(r.line)
		if x == nil {
			continue
		}
		v := values{"path": r.path, "package": x.name, "before": strconv.Itoa(x.line)}
		switch {
		case wheelDir.MatchString(r.path):
			w.say("removes-needed", "wheels", r.line, v)
		case toolkitDir.MatchString(r.path) && slices.ContainsFunc(w.Needs, func(n *Need) bool { return n.Package == x.name }):
			w.say("removes-needed", "toolkit", r.line, v)
		}
	}
}

// stubs judges a last LD_LIBRARY_PATH with the stubs of the toolkit.
func (w *walk) stubs() {
	s := w.lastPath
	if s.line == 0 {
		return
	}
	for dir := range strings.SplitSeq(s.value, ":") {
		if !stubDir.MatchString(dir) || w.withoutStubs(dir) {
			continue
		}
		f := w.finding("stubs-in-library-path", "env", s.line, values{"dir": dir})
		if w.target == "" && w.entry == nil && w.cmd == nil && w.chain[len(w.chain)-1] != len(w.parsed.Stages)-1 {
			f.Severity, f.Because = packs.Note, "a build makes this stage only if it names it, and it starts no program of its own"
		}
		w.add(f)
		return
	}
}

// bringsToolkit are commands, among those whose effect is not known, that may install the CUDA toolkit.
var bringsToolkit = append([]string{"sh", "bash", "dpkg", "a command"}, systemInstallers...)

// withoutStubs reports whether the image is known to have no directory of stubs: images of CUDA without
// its headers have none.
func (w *walk) withoutStubs(dir string) bool {
	if w.base != nil && (w.base.Libraries == nil || w.base.Libraries[path.Clean(dir)]) {
		return false
	}
	m := flavorTag.FindStringSubmatch(w.from.Ref)
	if w.base == nil && (m == nil || m[2] == "devel") {
		return false
	}
	return !w.copiesTo("/usr/local/cuda") && !slices.ContainsFunc(w.adds, func(a systemPackage) bool {
		return packs.MatchAny([]string{"*cuda*-dev*", "*cuda-toolkit*", "cuda-[0-9]*", "cuda", "cuda-compiler*", "*$*"}, a.name)
	}) && !slices.ContainsFunc(w.unknown, func(u Unknown) bool {
		return slices.ContainsFunc(bringsToolkit, func(name string) bool { return u.Why == "the effect of "+name })
	})
}

var stubDir = regexp.MustCompile(`^/usr/local/cuda[^/:]*(/targets/[^/]+)?/lib(64)?/stubs/?$`)

// capabilities judges what of the driver is not mounted and the file's packages or program need.
func (w *walk) capabilities() {
	needs, line, column := "", 0, 0
	for _, in := range w.installs {
		for i := range in.wheels {
			if x := &in.wheels[i]; !x.maybe && listed(w.VideoPackages, x.name) {
				needs, line, column = x.name, x.line, x.column
			}
		}
	}
	for _, st := range []*dockerfile.Step{w.cmd, w.entry} {
		if st == nil {
			continue
		}
		if m := videoWords.FindString(strings.Join(st.Words, " ")); m != "" {
			needs, line = "`"+m+"`", st.Line
		}
	}
	if needs == "" {
		return
	}
	value, known := w.scope.Get("NVIDIA_DRIVER_CAPABILITIES")
	set := 0
	for _, s := range w.variables {
		if s.value == "NVIDIA_DRIVER_CAPABILITIES" {
			set = s.line
		}
	}
	words := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	if !known || slices.Contains(words, "all") || slices.Contains(words, "video") || len(words) == 0 {
		return
	}
	v := values{"needs": needs, "value": value, "line": strconv.Itoa(line)}
	if set == 0 {
		v["base"] = w.from.Ref
		f := w.finding("driver-part-missing", "base", line, v)
		f.Column = column
		w.add(f)
		return
	}
	w.say("driver-part-missing", "env", set, v)
}

var videoWords = regexp.MustCompile(`\b(?:h264_nvenc|hevc_nvenc|av1_nvenc|h264_cuvid|hevc_cuvid)\b`)
