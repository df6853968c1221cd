package packs

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
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
	return checkPatterns("sonames", s.Libraries)
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

// CudaOf returns the major versions of CUDA that have a library of a name, or nil if the
// packs do not know them: it may be any.
func (p *Packs) CudaOf(name string) []string {
	base, number, ok := strings.Cut(path.Base(name), ".so.")
	if !ok {
		return nil
	}
	s := sonameOf(p, hashOfName.ReplaceAllString(base, ""))
	if s == nil {
		return nil
	}
	return s.majors(number)
}

// sonameOf returns the row of a library, by its name before `.so.`, or nil.
func sonameOf(p *Packs, base string) *Soname {
	if s, ok := p.sonames.Load(base); ok {
		return s.(*Soname)
	}
	var found *Soname
	for _, s := range p.Sonames {
		if MatchAny(s.Libraries, base) {
			found = s
			break
		}
	}
	p.sonames.Store(base, found)
	return found
}

// CudaOfAll returns the major versions of CUDA that have all libraries of a list: CUDA 12
// for libcusolver.so.11 and libcusparse.so.12. It is empty if any may, or if no version has
// them all.
func (p *Packs) CudaOfAll(names []string) []string {
	var all []string
	for _, name := range names {
		has := p.CudaOf(name)
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

// MajorOf returns the number after `.so.` in a SONAME, or "".
func MajorOf(soname string) string {
	_, after, ok := strings.Cut(soname, ".so.")
	if !ok {
		return ""
	}
	major, _, _ := strings.Cut(after, ".")
	return major
}

// Stem returns a SONAME without its version: libcublas.so.
func Stem(soname string) string {
	before, _, ok := strings.Cut(soname, ".so.")
	if !ok {
		return soname
	}
	return before + ".so"
}

// Toolkit has the numbers after `.so.` in the names of the libraries of one major version
// of CUDA. The names of an [Open] may contain them: {cufft}.
type Toolkit struct {
	CUDA     string   `yaml:"cuda"`
	Cudart   string   `yaml:"cudart"`
	Cublas   string   `yaml:"cublas"`
	Nvrtc    string   `yaml:"nvrtc"`
	Cufft    string   `yaml:"cufft"`
	Cusolver string   `yaml:"cusolver"`
	Cusparse string   `yaml:"cusparse"`
	Sources  []string `yaml:"sources"`
}

func (t *Toolkit) validate() error {
	if t.CUDA == "" || len(t.Sources) == 0 {
		return errors.New("toolkits: needs the major version (cuda) and sources")
	}
	return nil
}
