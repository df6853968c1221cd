package dockerlint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Images are patterns of references with what is known of their images.
type Images struct {
	Images  []string `yaml:"images"`
	Instead string   `yaml:"instead"` // what to take in place of one that does not exist
	Sources []string `yaml:"sources"`
}

// Unfit says what some releases of packages ask of the system below them.
type Unfit struct {
	Packages []string `yaml:"packages"` // patterns
	Versions string   `yaml:"versions"` // PEP 440 specifiers; "" for all
	// Newest is set if the newest release is one of them, which pip takes where none is named.
	Newest bool `yaml:"newest"`
	// Libraries are those that a package of the system brings, and Fix what brings them.
	Libraries []string `yaml:"libraries"`
	Fix       string   `yaml:"fix"`
	Brings    []string `yaml:"brings"` // patterns of packages that do
	Sources   []string `yaml:"sources"`
}

// Compiled is a package that is built from source where it is installed.
type Compiled struct {
	Packages   []string `yaml:"packages"`   // normalised names
	Repository string   `yaml:"repository"` // or the address of its source, without the scheme
	// When are texts of which the Dockerfile has one if it needs nvcc; none: it always does. Unless
	// are texts with which it does not.
	When    []string `yaml:"when"`
	Unless  []string `yaml:"unless"`
	Sources []string `yaml:"sources"`
}

// matchImage reports whether a reference is in a list.
func matchImage(list []*Images, ref string) *Images {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "library/")
	if strings.Contains(ref, "@") {
		return nil
	}
	for _, l := range list {
		if packs.MatchAny(l.Images, ref) {
			return l
		}
	}
	return nil
}

// row returns the first row of a list that holds for a wheel, or nil.
func row(list []*Unfit, x *wheel) *Unfit {
	for _, r := range list {
		if !packs.MatchAny(r.Packages, x.name) {
			continue
		}
		if r.Versions == "" || r.Newest && x.spec == "" {
			return r
		}
		if ok, err := version.Satisfies(x.version, r.Versions); x.version != "" && err == nil && ok {
			return r
		}
	}
	return nil
}

// fitsSystem judges packages against the C library and the libraries of the system.
func (w *walk) fitsSystem() {
	for _, in := range w.installs {
		if in.elsewhere || in.maybe || strings.HasPrefix(in.python, "conda:") {
			continue
		}
		for i := range in.wheels {
			x := &in.wheels[i]
			if x.maybe || x.name == "" || slices.ContainsFunc(w.uninstalls, func(r removed) bool { return r.path == x.name }) {
				continue
			}
			w.onMusl(x)
			w.executableStack(x)
			w.runtimeCompiler(x)
			if !w.judged[x] {
				w.systemLibraries(in, x)
			}
		}
	}
}

// unfit reports a package that the system below does not fit. by names what may change that.
func (w *walk) unfit(clause string, x *wheel, v values, by string) {
	v["package"], v["version"], v["base"], v["from"] = x.name, x.version, w.from.Ref, strconv.Itoa(w.from.Line)
	v["named"] = strings.TrimSpace(x.name + " " + x.version)
	f := w.finding("package-unfit-for-system", clause, x.line, v)
	f.Column = x.column
	if w.base == nil && w.why != "" && f.Severity == packs.Error {
		f.Severity, f.Because = packs.Warning, "the base was not read ("+w.why+")"
	}
	if by != "" {
		f.Severity, f.Because = packs.Note, by
	}
	w.add(f)
}

// onMusl judges a package without wheels for musl.
func (w *walk) onMusl(x *wheel) {
	r := row(w.GlibcOnly, x)
	if r == nil || w.base != nil && !w.base.musl() || w.base == nil && matchImage(w.MuslImages, w.from.Ref) == nil {
		return
	}
	by := ""
	for i, line := range w.lines {
		if glibcWord.MatchString(line) {
			by = fmt.Sprintf("line %d may bring glibc", i+1)
		}
	}
	w.unfit("musl", x, values{}, by)
}

// glibcWord matches what brings glibc, or a part of it, to an image with musl.
var glibcWord = regexp.MustCompile(`(?i)glibc|gcompat|libc6-compat|conda|mamba|nix`)

// musl reports whether musl is the only C library of an image.
func (b *Base) musl() bool {
	musl := false
	for name := range b.Files {
		if strings.HasPrefix(name, "ld-linux") {
			return false
		}
		musl = musl || strings.HasPrefix(name, "ld-musl-")
	}
	return musl
}

// executableStack judges a package whose libraries ask for an executable stack, which glibc 2.41
// and later refuse.
func (w *walk) executableStack(x *wheel) {
	if row(w.ExecutableStacks, x) == nil || matchImage(w.Glibc241, w.from.Ref) == nil {
		return
	}
	by := ""
	for i, line := range w.lines {
		if stackWord.MatchString(line) {
			by = fmt.Sprintf("line %d may clear the flag", i+1)
		}
	}
	w.unfit("stack", x, values{}, by)
}

var stackWord = regexp.MustCompile(`execstack|--clear-execstack`)

// systemLibraries judges a package that needs libraries of the system that small images do not
// have.
func (w *walk) systemLibraries(in *install, x *wheel) {
	r := row(w.SystemNeeds, x)
	if r == nil || w.base == nil && matchImage(w.SmallImages, w.from.Ref) == nil || w.base != nil && len(w.base.Files) == 0 {
		return
	}
	if w.base != nil && !slices.ContainsFunc(r.Libraries, func(name string) bool { return !w.base.Files[name] }) {
		return
	}
	if slices.ContainsFunc(w.adds, func(a systemPackage) bool { return packs.MatchAny(r.Brings, a.name) }) {
		return
	}
	for _, o := range w.installs { // of the two, the one that is installed last is left
		if slices.ContainsFunc(o.wheels, func(h wheel) bool {
			return strings.HasPrefix(h.name, "opencv-") && strings.HasSuffix(h.name, "-headless")
		}) {
			return
		}
	}
	by := w.mayBringFile(&Predicted{Libraries: r.Libraries})
	if in.others() {
		by = "another index may have another build"
	}
	w.unfit("library", x, values{"libraries": strings.Join(r.Libraries, ", "), "advice": packs.Fill(r.Fix, values{"package": x.name})}, by)
}

// compiles keeps what an install builds from source with nvcc, if nothing before has brought it.
func (w *walk) compiles(in *install) {
	if in.maybe || in.locked || strings.HasPrefix(in.python, "conda:") {
		return
	}
	for _, c := range w.CUDASources {
		for i := range in.wheels {
			if x := &in.wheels[i]; !x.binary && !x.ofProject() && slices.Contains(c.Packages, x.name) && !x.maybe && !in.others() && x.index == "" {
				w.withoutNVCC(c, x.name, x.line, x.column)
			}
		}
		for _, s := range in.sources {
			if c.Repository != "" && strings.Contains(strings.ToLower(s.name), c.Repository) {
				w.withoutNVCC(c, s.name, s.line, s.column)
			}
		}
	}
}

// ofProject reports whether a project's file names a package: what it says elsewhere may decide where
// it comes from ([tool.uv.sources]).
func (x *wheel) ofProject() bool {
	file, _, _ := strings.Cut(x.where, ":")
	return slices.Contains([]string{".toml", ".lock", ".yml", ".yaml"}, path.Ext(file))
}

// withoutNVCC reports a build with nvcc in an image that is known to lack it.
func (w *walk) withoutNVCC(c *Compiled, name string, line, column int) {
	i := slices.IndexFunc(w.CUDAParts, func(p *Part) bool { return p.Part == "nvcc" })
	if i < 0 || w.says(c.Unless) || len(c.When) > 0 && !w.says(c.When) {
		return
	}
	have := w.partsByTag(w.from.Ref)
	if w.base == nil && have == nil || slices.Contains(have, "nvcc") || w.base != nil && len(w.base.Files) == 0 || w.hasPart(w.CUDAParts[i]) {
		return
	}
	f := w.finding("build-needs-compiler", "nvcc", line, values{"package": name, "base": w.from.Ref, "from": w.fromLine(), "advice": w.develOf()})
	f.Column = column
	if w.base == nil {
		f.Severity, f.Because = packs.Warning, "the base was not read ("+w.why+")"
	}
	if by := w.mayBringFile(&Predicted{GPU: true}); by != "" {
		f.Severity, f.Because = packs.Note, by
	}
	for _, in := range w.installs {
		for _, x := range in.wheels {
			if packs.MatchAny([]string{"nvidia-cuda-nvcc*", "nvidia-nvcc*"}, x.name) {
				f.Severity, f.Because = packs.Note, x.name+" has nvcc"
			}
		}
	}
	w.add(f)
}

func (w *walk) develOf() string {
	if m := flavorTag.FindStringSubmatch(w.from.Ref); m != nil {
		return "build it in a stage from " + m[1] + "-devel" + m[3]
	}
	return "build it in a stage from an nvidia/cuda:…-devel-… image"
}

// runtimeCompiler judges a package that runs a C compiler when it is used.
func (w *walk) runtimeCompiler(x *wheel) {
	if row(w.RuntimeCompilers, x) == nil {
		return
	}
	if w.base != nil {
		if len(w.base.Files) == 0 || slices.ContainsFunc([]string{"gcc", "cc", "clang"}, func(name string) bool { return w.base.Files[name] }) {
			return
		}
	} else if m := flavorTag.FindStringSubmatch(w.from.Ref); (m == nil || m[2] == "devel") && matchImage(w.SmallImages, w.from.Ref) == nil {
		return
	}
	for _, a := range w.adds {
		if a.recommends && (a.name == "python3-pip" || a.name == "pip") || packs.MatchAny(w.CompilerPackages, a.name) {
			return
		}
	}
	w.unfit("compiler", x, values{}, w.mayBringFile(&Predicted{GPU: true}))
}

// replacesTorch judges a torch that takes the place of NVIDIA's own, for which packages of the
// base are built.
func (w *walk) replacesTorch() {
	if !packs.Match("nvcr.io/nvidia/{pytorch,nemo}:*", w.from.Ref) {
		return
	}
	for _, in := range w.installs {
		for i := range in.wheels {
			x := &in.wheels[i]
			if x.name != "torch" || x.version == "" || in.elsewhere || in.maybe || x.maybe || in.python != "" && strings.Contains(in.python, "/") {
				continue
			}
			if w.base != nil && (w.base.Wheels["torch"] == "" || w.base.Wheels["torch"] == x.version) {
				continue
			}
			f := w.finding("wheels-do-not-fit", "base", x.line, values{"version": x.version, "base": w.from.Ref, "from": strconv.Itoa(w.from.Line)})
			f.Column = x.column
			w.add(f)
			return
		}
	}
}

// offPath judges libraries of CUDA's in wheels, which a package that does not know them needs, and
// that no variable of the file names.
func (w *walk) offPath() {
	if w.judged != nil || w.says([]string{"LD_LIBRARY_PATH", "ld.so.conf", "ldconfig", "LD_PRELOAD", "preload_dlls"}) {
		return
	}
	var x, of *wheel
	for _, in := range w.installs {
		for i := range in.wheels {
			switch y := &in.wheels[i]; {
			case in.elsewhere || y.maybe:
			case slices.ContainsFunc(w.ByPath, func(l *Listed) bool { return slices.Contains(l.Packages, y.name) }):
				x = y
			case packs.Match("nvidia-{cudnn,cublas}-cu1[1-3]", y.name):
				of = y
			case packs.MatchAny([]string{"torch", "tensorflow", "jax", "jaxlib", "paddlepaddle-gpu", "vllm"}, y.name):
				return // it loads them, or brings its own
			}
		}
	}
	if x == nil || of == nil || w.libraries() != nil && len(w.libraries().CUDNN) > 0 {
		return
	}
	f := w.finding("wheel-needs-library", "off-path", x.line, values{"package": x.name, "of": of.name})
	f.Column = x.column
	w.add(f)
}

// ownPython are texts of a file that may install into another Python than the distribution's, or
// take its mark away.
var ownPython = []string{"break-system-packages", "BREAK_SYSTEM_PACKAGES", "EXTERNALLY-MANAGED", "externally-managed", "break_system", "get-pip", "conda", "mamba", "pyenv", "virtualenv", "activate", "pipx", "altinstall", "deadsnakes", "PIP_TARGET", "PIP_PREFIX", "VIRTUAL_ENV", "pip.conf", "rye", "hatch", "PYTHONUSERBASE", "pip config", "asdf", "mise"}

// refuses judges an install by the pip of a distribution that keeps its Python for itself.
func (w *walk) refuses() {
	ref := strings.TrimPrefix(strings.TrimPrefix(w.from.Ref, "docker.io/"), "library/")
	if w.programs != "" || !packs.MatchAny(w.PythonElsewhere, ref) || w.says(ownPython) || w.systemPythons() == nil || len(w.brought) > 0 || w.uvPython {
		return
	}
	i := slices.IndexFunc(w.SystemPythons, func(s *SystemPython) bool { return s.Managed && s.named(ref) })
	if i < 0 {
		return
	}
	for _, in := range w.installs {
		if in.elsewhere || in.maybe || in.env != "" || in.python != "" && in.python != w.SystemPythons[i].Python || !pipName.MatchString(in.command.name()) && !pythonName.MatchString(in.command.name()) {
			continue
		}
		x := wheel{name: "its packages", line: in.line, column: in.column}
		if len(in.wheels) > 0 {
			x = in.wheels[0]
		}
		f := w.finding("pip-refuses", "managed", x.line, values{"package": x.name, "base": w.from.Ref, "from": strconv.Itoa(w.from.Line)})
		if f.Column = x.column; w.base == nil {
			f.Severity, f.Because = packs.Warning, "the base was not read ("+w.why+")"
		}
		w.add(f)
		return
	}
}

// says reports whether a line of the file that is no comment has one of some texts.
func (w *walk) says(texts []string) bool {
	return slices.ContainsFunc(w.lines, func(line string) bool {
		return !strings.HasPrefix(strings.TrimSpace(line), "#") && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(line, t) })
	})
}

// stubs judges a last LD_LIBRARY_PATH with the stubs of the toolkit.
func (w *walk) stubs() {
	s := w.lastPath
	if s.line == 0 {
		return
	}
	for dir := range strings.SplitSeq(s.value, ":") {
		if stubDir.MatchString(dir) {
			w.say("stubs-in-library-path", "env", s.line, values{"dir": dir})
			return
		}
	}
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

// absentBase judges a FROM of an image that is no longer published.
func (w *walk) absentBase() {
	if w.base != nil || w.from.Why != "" {
		return
	}
	r := matchImage(w.AbsentImages, w.from.Ref)
	v := values{"base": w.from.Ref, "instead": "a tag of its registry", "why": cmpOr(w.why, "no instruction depends on it")}
	if r != nil {
		v["instead"] = r.Instead
	}
	switch {
	case w.noImage != nil && w.noImage(w.from.Ref, w.from.Platform) && (r != nil || matchImage(w.Published, w.from.Ref) != nil):
		w.say("base-absent", "asked", w.from.Line, v)
	case r != nil:
		w.say("base-absent", "listed", w.from.Line, v)
	}
}

// mixes judges packages that are built for one CUDA beside a torch that is built for another, or
// for none. A torch of an index stays where a later package of PyPI requires its release.
func (w *walk) mixes() {
	var seen []string
	for _, in := range w.installs {
		if slices.Contains(seen, in.python) {
			continue
		}
		seen = append(seen, in.python)
		list := w.pinned(in.python)
		torch := list["torch"]
		if torch == nil {
			continue
		}
		build := torchBuild(w.installs[torch.order], torch)
		if build == "" {
			continue
		}
		major := "none"
		if m := cudaBuild.FindStringSubmatch(build); m != nil {
			major = m[1]
		}
		for _, name := range sortedNames(list) {
			w.mix(list[name], torch, build, major)
		}
	}
}

// Built says for which CUDA PyPI's releases of packages are built.
type Built struct {
	Packages []string `yaml:"packages"`
	Versions string   `yaml:"versions"` // PEP 440 specifiers
	CUDA     string   `yaml:"cuda"`     // the major version
	// Torch is set if the versions are those of the torch that goes with it, by the packs' pairs.
	Torch   bool     `yaml:"torch"`
	Sources []string `yaml:"sources"`
}

func (w *walk) mix(x, torch *wheel, build, major string) {
	in := w.installs[x.order]
	if x.order <= torch.order || in.others() || x.index != "" || strings.Contains(x.version, "+") || x.binary || x.ofProject() {
		return
	}
	release, _, _ := strings.Cut(torch.version, "+")
	for _, r := range w.PyPIBuilds {
		if !slices.Contains(r.Packages, x.name) || r.CUDA == major {
			continue
		}
		of := x.version
		if r.Torch {
			of = release
			if !w.pairFits(x, release) {
				continue
			}
		}
		if ok, err := version.Satisfies(of, r.Versions); err != nil || !ok {
			continue
		}
		f := w.finding("wheels-do-not-fit", "build", x.line, values{"package": x.name, "version": x.version, "cuda": r.CUDA, "installed": torch.version, "build": build, "where": torch.place(x)})
		f.Column = x.column
		if by := w.changedBy(max(x.order, torch.order)); by != "" {
			f.Severity, f.Because = packs.Note, by
		} else if base := w.libraries(); !r.Torch && (base == nil || slices.Contains(base.CUDA, r.CUDA)) {
			f.Severity, f.Because = packs.Note, "the base may have the libraries of CUDA "+r.CUDA
		}
		w.add(f)
		return
	}
}

// pairFits reports whether a release goes with one of torch, so that pip leaves this as it is.
func (w *walk) pairFits(x *wheel, torch string) bool {
	for _, p := range w.Packs.Pairs {
		if p.Package == x.name && p.For == "torch" {
			return p.Versions[packs.Numbers(torch, 2)] == packs.Numbers(x.version, 2)
		}
	}
	return false
}

var anyTorchIndex = regexp.MustCompile(`^https?://download\.pytorch\.org/whl/(?:test/)?(cpu|cu\d+)/?$`)

// torchBuild returns the build of a torch, by its version or the only index of its install:
// "cpu", "cu118".
func torchBuild(in *install, x *wheel) string {
	if _, local, ok := strings.Cut(x.version, "+"); ok {
		if local == "cpu" || cudaBuild.MatchString(local) {
			return local
		}
		return ""
	}
	index := x.index
	if index == "" && len(in.index) == 1 && len(in.extra) == 0 {
		index = in.index[0]
	}
	if m := anyTorchIndex.FindStringSubmatch(index); m != nil && x.version != "" {
		return m[1]
	}
	return ""
}
