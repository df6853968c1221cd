package lint

import (
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// Soname maps names of libraries to the major versions of CUDA that have them. Many
// libraries have numbers of their own (CUDA 12 has libcufft.so.11), and some names are in
// several releases (libcurand.so.10).
type Soname struct {
	Libraries []string `yaml:"libraries"` // patterns of the name before ".so"
	// Numbers maps the numbers after ".so.", or the first of them, to majors of CUDA.
	Numbers map[string][]string `yaml:"numbers"`
	Sources []string            `yaml:"sources"`
}

func (s *Soname) validate() error {
	if len(s.Libraries) == 0 || len(s.Numbers) == 0 || len(s.Sources) == 0 {
		return errors.New("sonames: needs libraries, numbers and sources")
	}
	return patterns("sonames", s.Libraries)
}

// majors returns the majors of CUDA for a number: those of the longest entry whose
// components the number begins with.
func (s *Soname) majors(number string) []string {
	for {
		if list, ok := s.Numbers[number]; ok {
			return list
		}
		i := strings.LastIndexByte(number, '.')
		if i < 0 {
			return nil
		}
		number = number[:i]
	}
}

// hashOfName matches the hash that auditwheel adds to a name: libcudart-9335f6a2.so.12,
// libcudart.faf08d9a.so.13.
var hashOfName = regexp.MustCompile(`[-.][0-9a-f]{8}$`)

// cudaOf returns the major versions of CUDA that have a library of a name, or nil if the
// packs do not know them: it may be any.
func (p *Packs) cudaOf(name string) []string {
	base, number, ok := strings.Cut(path.Base(name), ".so.")
	if !ok {
		return nil
	}
	base = hashOfName.ReplaceAllString(base, "")
	for _, s := range p.Sonames {
		if matchAny(s.Libraries, base) {
			return s.majors(number)
		}
	}
	return nil
}

// cudaOfAll returns the major versions of CUDA that have all libraries of a list: CUDA 12
// for libcusolver.so.11 and libcusparse.so.12. It is empty if any may, or if no version has
// them all.
func (p *Packs) cudaOfAll(names []string) []string {
	var all []string
	for _, name := range names {
		has := p.cudaOf(name)
		switch {
		case len(has) == 0:
		case all == nil:
			all = slices.Clone(has)
		default:
			all = slices.DeleteFunc(all, func(major string) bool { return !slices.Contains(has, major) })
		}
	}
	return all
}

// wantedCUDA returns the major version of CUDA that a finding's library is wanted from, or
// "" if it is not known. It is the only version that has the library, or the first such
// version of: the other libraries that the asking files name, the process, the package, the
// variable of NVIDIA's images, the CUDA that is installed.
func (w *world) wantedCUDA(f *Finding, process string) string {
	has := w.packs.cudaOf(f.Library)
	if len(has) == 1 {
		return has[0]
	}
	fits := func(major string) bool { return major != "" && (len(has) == 0 || slices.Contains(has, major)) }
	candidates := append(w.cudaAsked(f), process, w.cudaWanted(f), w.cudaVariable())
	if i := slices.IndexFunc(candidates, fits); i >= 0 {
		return candidates[i]
	}
	if installed := w.cudaInstalled(); fits(installed) {
		return installed
	}
	return ""
}

// cudaAsked returns the major version of CUDA of each file that asks for a finding's
// library, where the libraries that the file needs leave only one.
func (w *world) cudaAsked(f *Finding) []string {
	var list []string
	for _, n := range f.NeededBy {
		o := w.byPath[n.Path]
		if o == nil {
			continue
		}
		if all := w.packs.cudaOfAll(append([]string{f.Library}, o.elf.Needed...)); len(all) == 1 {
			list = append(list, all[0])
		}
	}
	return list
}

// cudaWanted returns the major version of CUDA that the package of the first asking file is
// built for, or "": by its build, by the tables of the packs, by the wheels that it requires.
func (w *world) cudaWanted(f *Finding) string {
	if len(f.NeededBy) == 0 {
		return ""
	}
	p, pkg, _ := w.ownerOf(f.NeededBy[0].Path)
	if pkg == nil {
		return ""
	}
	if major := numbers(w.cudaBuild(p, pkg), 1); major != "" {
		return major
	}
	if s, _ := w.stackOf(p, pkg); s != nil && s.CUDA != "" {
		return s.CUDA
	}
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if i := strings.LastIndex(r.Name, wheelCUDA); err == nil && i >= 0 && matchAny(w.packs.carrier("cuda").Wheels, r.Name) {
			return r.Name[i+len(wheelCUDA):]
		}
	}
	return ""
}

// cudaVariable returns the major version of CUDA in the variable of NVIDIA's images, or "".
func (w *world) cudaVariable() string {
	value, _ := w.getenv(w.packs.carrier("cuda").variable())
	return parseRelease(value).First(1).String()
}

// cudaInstalled returns the major version of CUDA whose libraries the image has, or "" if
// it has none or those of several.
func (w *world) cudaInstalled() string {
	var majors []string
	for _, o := range w.objects {
		if w.packs.family(o.elf.Soname) == nil || isStub(o.path) {
			continue
		}
		if has := w.packs.cudaOf(o.elf.Soname); len(has) == 1 && !slices.Contains(majors, has[0]) {
			majors = append(majors, has[0])
		}
	}
	if len(majors) != 1 {
		return ""
	}
	return majors[0]
}

// wheelCUDA stands before the major version of CUDA in the names of wheels:
// nvidia-cudnn-cu12.
const wheelCUDA = "-cu"

// forCUDA returns templates of fixes, and values with the ending of NVIDIA's wheels, {-cu},
// for the major version of CUDA v["cuda"]. If that is "", {cuda} becomes N, and the first
// template that uses it explains N. Without v["cuda"] it returns its arguments.
func (p *Packs) forCUDA(templates []string, v values) ([]string, values) {
	cuda, ok := v["cuda"]
	if !ok {
		return templates, v
	}
	v, templates = maps.Clone(v), slices.Clone(templates)
	v["-cu"] = p.carrier("cuda").wheelEnding(cuda)
	if cuda != "" {
		return templates, v
	}
	v["cuda"], v["-cu"] = "N", wheelCUDA+"N"
	for i, t := range templates {
		note := ""
		switch {
		case strings.Contains(t, "{-cu}"):
			note = "cuda-unknown-wheel"
		case strings.Contains(t, "{cuda}"):
			note = "cuda-unknown"
		}
		if c := p.Clauses[note]; c != nil {
			templates[i] += c.Message
			break
		}
	}
	return templates, v
}

// rows returns fixes of rows of the packs.
func (p *Packs) rows(templates []string, v values) []Advice {
	var list []Advice
	templates, v = p.forCUDA(templates, v)
	for _, t := range templates {
		list = append(list, row(t, v))
	}
	return list
}
