package dockerlint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Unfit says what some releases of packages ask of the system below them.
type Unfit struct {
	Packages []string `yaml:"packages"` // patterns
	Versions string   `yaml:"versions"` // PEP 440 specifiers; "" for all
	// Newest is set if the newest release is one of them, which pip takes where none is named.
	Newest bool `yaml:"newest"`
	// Libraries are those that a package of the system brings, and Fix what brings them.
	Libraries []string `yaml:"libraries"`
	Any       []string `yaml:"any"` // patterns of files of which one is enough, in place of Libraries
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
			w.unfitForMachine(in, x)
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
	if row(w.ExecutableStacks, x) == nil || !w.refusesStacks() {
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

// refusesStacks reports whether the image's glibc is one that refuses executable stacks: by the
// files of the base, or, if they do not tell its release, by its tag.
func (w *walk) refusesStacks() bool {
	if w.base != nil && w.base.Glibc != "" {
		return !version.ParseRelease(w.base.Glibc).Before(version.ParseRelease("2.41"))
	}
	return matchImage(w.Glibc241, w.from.Ref) != nil
}

var stackWord = regexp.MustCompile(`execstack|--clear-execstack`)

// systemLibraries judges a package that needs libraries of the system that small images do not
// have.
func (w *walk) systemLibraries(in *install, x *wheel) {
	r := row(w.SystemNeeds, x)
	if r == nil || w.base == nil && matchImage(w.SmallImages, w.from.Ref) == nil || w.base != nil && len(w.base.Files) == 0 {
		return
	}
	if w.base != nil && w.base.hasNeeded(r) {
		return
	}
	if slices.ContainsFunc(w.adds, func(a systemPackage) bool { return packs.MatchAny(r.Brings, a.name) }) {
		return
	}
	for _, o := range w.installs { // of the two, the one that is installed last is left
		if slices.Contains(r.Libraries, "libGL.so.1") && slices.ContainsFunc(o.wheels, func(h wheel) bool {
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

// hasNeeded reports whether a base has the libraries that a row names.
func (b *Base) hasNeeded(r *Unfit) bool {
	for name := range b.Files {
		if packs.MatchAny(r.Any, name) {
			return true
		}
	}
	return len(r.Any) == 0 && !slices.ContainsFunc(r.Libraries, func(name string) bool { return !b.Files[name] })
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

// ofProject reports whether a project's file names a package. Such a file may say in another place where the
// package comes from ([tool.uv.sources]).
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
	w.byTag(&f)
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

// saysHere is [walk.says] of the stages that the target is built on.
func (w *walk) saysHere(texts []string) bool {
	lines := w.lines
	defer func() { w.lines = lines }()
	w.lines = nil
	for i := range w.parsed.Stages {
		if st := &w.parsed.Stages[i]; slices.Contains(w.chain, i) {
			end := len(lines)
			if i+1 < len(w.parsed.Stages) {
				end = w.parsed.Stages[i+1].Line - 1
			}
			w.lines = append(w.lines, lines[min(st.Line-1, end):end]...)
		}
	}
	return w.says(texts)
}

// says reports whether a line of the file that is no comment has one of some texts.
func (w *walk) says(texts []string) bool {
	return slices.ContainsFunc(w.lines, func(line string) bool {
		return !strings.HasPrefix(strings.TrimSpace(line), "#") && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(line, t) })
	})
}
