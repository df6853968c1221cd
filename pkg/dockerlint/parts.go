package dockerlint

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Part is a part of the CUDA toolkit that NVIDIA's images have or lack.
type Part struct {
	Part string `yaml:"part"`
	Name string `yaml:"name"` // for people
	// Files are patterns of the names of its files, and Packages of the packages of a system that
	// bring it.
	Files    []string `yaml:"files"`
	Packages []string `yaml:"packages"`
	Sources  []string `yaml:"sources"`
}

// Flavor says which parts the images of a kind have.
type Flavor struct {
	Flavor  string   `yaml:"flavor"` // base, runtime or devel, as the tag says
	Parts   []string `yaml:"parts"`
	Sources []string `yaml:"sources"`
}

// PartsOf says which parts of the toolkit the releases of packages load from the system.
type PartsOf struct {
	Packages []string `yaml:"packages"` // patterns
	Versions string   `yaml:"versions"` // PEP 440 specifiers; "" for all
	Parts    []string `yaml:"parts"`
	Sources  []string `yaml:"sources"`
}

// partsByTag returns the parts that an image of NVIDIA's has by its tag, or nil if the tag does
// not say so.
func (k *Knowledge) partsByTag(ref string) []string {
	m := flavorTag.FindStringSubmatch(ref)
	if m == nil || strings.Contains(ref, "@") {
		return nil
	}
	for _, f := range k.CUDAFlavors {
		if f.Flavor == m[2] {
			return append([]string{"cudart"}, f.Parts...)
		}
	}
	return nil
}

var flavorTag = regexp.MustCompile(`^((?:docker\.io/|nvcr\.io/)?nvidia/cuda:\d+\.\d+(?:\.\d+)?(?:-cudnn\d*)?)-(base|runtime|devel)(-[^@]+)$`)

// lackedParts returns the parts that a package loads from the system and that neither the base
// nor a package of the system has. It is nil if they are not known: of a base whose tag does not
// say which parts it has, all of its files were read.
func (w *walk) lackedParts(x *wheel) (list []*Part) {
	have := w.partsByTag(w.from.Ref)
	if w.base == nil && have == nil {
		return nil
	}
	var needs []string
	for _, row := range w.CUDAPartsOf {
		if ok, err := version.Satisfies(x.release(), row.Versions); packs.MatchAny(row.Packages, x.name) && (row.Versions == "" || x.release() != "" && err == nil && ok) {
			needs = append(needs, row.Parts...)
		}
	}
	for _, p := range w.CUDAParts {
		if slices.Contains(needs, p.Part) && !slices.Contains(have, p.Part) && !w.hasPart(p) {
			list = append(list, p)
		}
	}
	return list
}

// hasPart reports whether a file of the base or a package of the system is of a part.
func (w *walk) hasPart(p *Part) bool {
	if w.base != nil {
		for name := range w.base.Files {
			if packs.MatchAny(p.Files, name) {
				return true
			}
		}
	}
	return slices.ContainsFunc(w.adds, func(a systemPackage) bool { return packs.MatchAny(p.Packages, a.name) })
}

// lacksParts reports the parts of the toolkit that a package needs and the image will not have.
func (w *walk) lacksParts(x *wheel, n *Need) {
	list := w.lackedParts(x)
	if len(list) == 0 {
		return
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	v := values{"package": x.name, "version": x.release(), "libraries": strings.Join(names, ", "), "base": w.from.Ref, "from": w.fromLine(), "advice": w.flavored(n)}
	if n.From != "" {
		v["version"] = "without a release"
	}
	if x.where != "" {
		v["version"] += " (" + x.where + ")"
	}
	f := w.finding("wheel-needs-library", "parts", x.line, v)
	f.Column = x.column
	w.byTag(&f)
	if by := w.mayAdd(x, "CUDA"); by != "" {
		f.Severity, f.Because = packs.Note, by
	}
	f.assume(x)
	w.add(f)
}

// flavored returns the image to take in place of the base: that with CUDA's libraries.
func (w *walk) flavored(n *Need) string {
	m := flavorTag.FindStringSubmatch(w.from.Ref)
	if m == nil {
		return w.advice("CUDA", n)
	}
	to := "-runtime"
	if m[2] == "runtime" {
		to = "-devel"
	}
	return "base the image on " + m[1] + to + m[3]
}

// keepFile keeps the name of a file of a base image that decides which parts it has.
func (b *Base) keepFile(p string) {
	name, dir := path.Base(p), path.Dir(p)
	if sharedLib.MatchString(name) && !strings.HasSuffix(dir, "/stubs") || path.Base(dir) == "bin" && slices.Contains(compilers, name) {
		b.Files[name] = true
	}
	if base := path.Base(dir); (base == "bin" || base == "sbin") && (pythonName.MatchString(name) || pipName.MatchString(name) || name == "git") {
		b.Programs[name] = true
	}
}

// compilers are the programs that [Base.Files] has.
var compilers = []string{"nvcc", "gcc", "cc", "g++", "clang"}
