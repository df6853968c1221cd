package lint

import (
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Soname says which major versions of CUDA have a library under a name. Many
// libraries count by themselves (CUDA 12 has libcufft.so.11), and some names are in
// several releases (libcurand.so.10).
type Soname struct {
	Libraries []string `yaml:"libraries"` // patterns of the name before ".so"
	// Numbers maps what follows ".so.", or the first numbers of it, to majors of CUDA.
	Numbers map[string][]string `yaml:"numbers"`
	Sources []string            `yaml:"sources"`
}

func (s *Soname) validate() error {
	if len(s.Libraries) == 0 || len(s.Numbers) == 0 || len(s.Sources) == 0 {
		return errors.New("sonames: needs libraries, numbers and sources")
	}
	return patterns("sonames", s.Libraries)
}

// majors are the majors of CUDA for a number: those of the longest entry that it
// begins with, component by component.
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

// hashOfName is what auditwheel puts into a name: libcudart-9335f6a2.so.12,
// libcudart.faf08d9a.so.13.
var hashOfName = regexp.MustCompile(`[-.][0-9a-f]{8}$`)

// cudaOf are the major versions of CUDA that have a library of a name. Empty is that
// the packs do not know: it may be any.
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

// cudaOfAll are the major versions of CUDA that have a library of each of some names:
// libcusolver.so.11 and libcusparse.so.12 are of CUDA 12. Empty is that any may, or
// that the names are of different ones.
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

// wantedCUDA is the major version of CUDA that a finding's library is wanted of;
// empty when nothing tells. It is one that has the library: the only one; else what
// the rest of the image tells, the nearest first: the other libraries that the asking
// files name, the process, the package, the variable of NVIDIA's images, the CUDA that
// is installed.
func (w *world) wantedCUDA(f *Finding, process string) string {
	has := w.packs.cudaOf(f.Library)
	if len(has) == 1 {
		return has[0]
	}
	fits := func(major string) bool { return major != "" && (len(has) == 0 || slices.Contains(has, major)) }
	told := append(w.cudaAsked(f), process, w.cudaWanted(f), w.cudaVariable())
	if i := slices.IndexFunc(told, fits); i >= 0 {
		return told[i]
	}
	if installed := w.cudaInstalled(); fits(installed) {
		return installed
	}
	return ""
}

// cudaAsked are the major versions of CUDA that the files that ask for a library
// tell by all that they name.
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

// cudaOfWheel is the major version of CUDA in the name of one of NVIDIA's wheels:
// nvidia-cudnn-cu12==9.1.0.70.
var cudaOfWheel = regexp.MustCompile(`^nvidia[-_][a-z0-9_-]+[-_]cu(\d{2})\b`)

// cudaWanted is the major version of CUDA that the package of the first file that
// asks is built for: by its build, by what the packs know of it, by what it requires.
// Empty when none tells.
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
		if m := cudaOfWheel.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}

// cudaVariable is the major version of CUDA of NVIDIA's base images.
func (w *world) cudaVariable() string {
	value, _ := w.getenv(w.packs.carrier("cuda").variable())
	return parseRelease(value).First(1).String()
}

// cudaInstalled is the major version of CUDA whose libraries the image has; empty
// when it has none, or those of several.
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

// withCUDA puts a major version of CUDA into fixes. Where it is not known they say N,
// and the first one what that is.
func withCUDA(fixes []string, cuda string, values ...string) []string {
	ending := wheelEnding(cuda)
	note := ""
	if cuda == "" {
		cuda, ending = "N", "-cuN"
		note = "; N is the major version of CUDA that the program was built for"
	}
	var list []string
	for _, text := range fixes {
		names := strings.Contains(text, "{cuda}") || strings.Contains(text, "{-cu}")
		if strings.Contains(text, "{-cu}") && note != "" {
			note += ", and from 13 on the wheel is without -cuN"
		}
		text = expand(text, append([]string{"{cuda}", cuda, "{-cu}", ending}, values...)...)
		if names {
			text, note = text+note, ""
		}
		list = append(list, text)
	}
	return list
}

// forCUDA returns templates of fixes and their values for the major version of CUDA
// v["cuda"], where there is one: {cuda} stands for it and {-cu} for how NVIDIA's wheels end.
// Where it is not known, {cuda} is N, and the first fix that names it says what N is.
func (p *Packs) forCUDA(templates []string, v values) ([]string, values) {
	cuda, ok := v["cuda"]
	if !ok {
		return templates, v
	}
	v, templates = maps.Clone(v), slices.Clone(templates)
	v["-cu"] = wheelEnding(cuda)
	if cuda != "" {
		return templates, v
	}
	v["cuda"], v["-cu"] = "N", "-cuN"
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
