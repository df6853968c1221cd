package provide

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/glob"
	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/rules"
)

// Library is a library with its sub-libraries, as in rules/provide.
type Library struct {
	ID    string   `yaml:"id"`
	Title string   `yaml:"title"`
	Match []string `yaml:"match"` // patterns on a file name or SONAME
	// Wheels are the distributions that have it, {cuda} and {cu} not filled in.
	Wheels []string `yaml:"wheels"`
	// Dirs are its directories in them, below the directory of Python's packages.
	Dirs    []string          `yaml:"dirs"`
	Redist  Redist            `yaml:"redist"`
	CUDA    map[string]string `yaml:"cuda"` // number after ".so." → CUDA major
	License string            `yaml:"license"`
	// SonameMajor is set if the version in a SONAME is the beginning of the release:
	// libcudnn.so.9 belongs to cuDNN 9. Frozen lists the SONAME versions of which only
	// the first number counts: all releases of CUDA 11 have libcudart.so.11.0.
	SonameMajor bool     `yaml:"soname_major"`
	Frozen      []string `yaml:"frozen"`
	// OtherNumbers is set if the numbers in its file names are not those of the
	// release: CUPTI of CUDA 12.4 is libcupti.so.2024.1.1.
	OtherNumbers bool `yaml:"other_numbers"`
	// Needs are the files of other libraries that a file, named up to ".so", needs, by the
	// major version of CUDA.
	Needs map[string]map[string][]string `yaml:"needs"`
	// With are the files of the library that one of its files needs or opens; {number} and
	// {release} are not filled in.
	With    map[string][]string `yaml:"with"`
	Sources []string            `yaml:"sources"`

	license *licenseFact
}

// Redist is the place of a library among NVIDIA's archives.
type Redist struct {
	Product   string `yaml:"product"`   // the part of the URL before /redist/
	Component string `yaml:"component"` // the key in redistrib_*.json
	Label     string `yaml:"label"`     // "cuda" when the files are named for releases of CUDA
}

type licenseFact struct {
	ID      string   `yaml:"id"`
	Name    string   `yaml:"name"`
	URL     string   `yaml:"url"`
	Accept  bool     `yaml:"accept"`
	Terms   string   `yaml:"terms"`
	Sources []string `yaml:"sources"`
}

// facts is the content of rules/provide.
type facts struct {
	Licenses  []*licenseFact `yaml:"licenses"`
	Libraries []*Library     `yaml:"libraries"`
	Releases  []*release     `yaml:"releases"`
	Images    []*BaseImage   `yaml:"images"`
}

// release is a redistrib_*.json whose hash is known.
type release struct {
	Product string   `yaml:"product"`
	Label   string   `yaml:"label"` // between redistrib_ and .json
	SHA256  string   `yaml:"sha256"`
	Sources []string `yaml:"sources"`
}

// known is the content of rules/provide, checked. It is embedded, so that tests find its
// errors.
var known = sync.OnceValue(func() *facts {
	f, err := loadFacts(rules.FS)
	if err != nil {
		panic("rules/provide: " + err.Error())
	}
	return f
})

func loadFacts(fsys fs.FS) (*facts, error) {
	names, err := fs.Glob(fsys, "provide/*.yaml")
	if err != nil {
		return nil, err
	}
	all := new(facts)
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		var one facts
		d := yaml.NewDecoder(bytes.NewReader(b))
		d.KnownFields(true)
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all.Licenses = append(all.Licenses, one.Licenses...)
		all.Libraries = append(all.Libraries, one.Libraries...)
		all.Releases = append(all.Releases, one.Releases...)
		all.Images = append(all.Images, one.Images...)
	}
	return all, all.validate()
}

func (f *facts) validate() error {
	licenses := map[string]*licenseFact{}
	for _, l := range f.Licenses {
		if l.ID == "" || l.Name == "" || l.URL == "" || l.Terms == "" || len(l.Sources) == 0 {
			return fmt.Errorf("licence %q: needs an id, a name, a url, terms and sources", l.ID)
		}
		licenses[l.ID] = l
	}
	seen := map[string]bool{}
	for _, l := range f.Libraries {
		if l.ID == "" || seen[l.ID] || l.Title == "" || len(l.Match) == 0 || len(l.Sources) == 0 {
			return fmt.Errorf("library %q: needs an id of its own, a title, names to match and sources", l.ID)
		}
		seen[l.ID] = true
		for _, m := range l.Match {
			if err := glob.Check(m); err != nil {
				return fmt.Errorf("library %s: %q %w", l.ID, m, err)
			}
		}
		for _, d := range l.Dirs {
			if !fs.ValidPath(d) || d == "." {
				return fmt.Errorf("library %s: %q is no directory below Python's packages", l.ID, d)
			}
		}
		if (len(l.Wheels) > 0) != (len(l.Dirs) > 0) {
			return fmt.Errorf("library %s: wheels go with the directories that have it in them", l.ID)
		}
		if l.license = licenses[l.License]; l.license == nil {
			return fmt.Errorf("library %s: there is no licence %q", l.ID, l.License)
		}
	}
	for _, b := range f.Images {
		if err := b.validate(seen); err != nil {
			return err
		}
	}
	for _, r := range f.Releases {
		if r.Product == "" || r.Label == "" || len(r.SHA256) != 64 || len(r.Sources) == 0 {
			return fmt.Errorf("release %s %s: needs a product, a label, a sha256 and sources", r.Product, r.Label)
		}
	}
	return nil
}

// LibraryOf returns the library that a SONAME or file name belongs to, or nil if none in
// rules/provide does.
func LibraryOf(name string) *Library {
	for _, l := range known().Libraries {
		if l.has(name) {
			return l
		}
	}
	return nil
}

// NeededBy returns the files of other libraries that a library for a major version of CUDA needs,
// as far as rules/provide says.
func NeededBy(name, cuda string) []string {
	lib := LibraryOf(name)
	if lib == nil {
		return nil
	}
	stem, _, _ := strings.Cut(name, ".so")
	return lib.Needs[cuda][stem]
}

// InWheel reports whether a directory is one that has the library in a wheel.
func (l *Library) InWheel(dir string) bool {
	return l != nil && slices.ContainsFunc(l.Dirs, func(d string) bool { return strings.HasSuffix(dir, "/"+d) })
}

func (l *licenseFact) license() *License {
	return &License{Name: l.Name, URL: l.URL, NeedsAcceptance: l.Accept, Terms: l.Terms}
}

func libraryByID(id string) *Library {
	for _, l := range known().Libraries {
		if l.ID == id {
			return l
		}
	}
	return nil
}

func (l *Library) has(name string) bool {
	return slices.ContainsFunc(l.Match, func(m string) bool { return doublestar.MatchUnvalidated(m, path.Base(name)) })
}

// newRequest checks a Want.
func newRequest(w Want) (*request, error) {
	r := &request{Want: w}
	for _, n := range w.Names {
		if !goodName(n) {
			return nil, fmt.Errorf("looking for %q: it is no file name", n)
		}
	}
	switch {
	case w.Library != "":
		if r.lib = libraryByID(w.Library); r.lib == nil {
			return nil, fmt.Errorf("looking for %s: no such library is known: say one of %s", w.Library, strings.Join(libraryIDs(), ", "))
		}
	case len(w.Names) == 0:
		return nil, errors.New("looking for a library: neither a name nor a library is said")
	default:
		r.lib = LibraryOf(w.Names[0])
	}
	if r.Arch == "" {
		r.Arch = "amd64"
	}
	if machines[r.Arch].elf == 0 {
		return nil, fmt.Errorf("looking for %s: libraries for %q cannot be looked for, only for amd64 and arm64", r.title(), r.Arch)
	}
	var err error
	if r.spec, err = parseSpecifiers(w); err != nil {
		return nil, fmt.Errorf("looking for %s: %w", r.title(), err)
	}
	if r.CUDA == "" {
		r.CUDA = CUDAOf(r.Names)
	}
	if _, err := version.Parse(r.Glibc); err != nil {
		r.Glibc = "" // not known
	}
	return r, nil
}

func libraryIDs() []string {
	var ids []string
	for _, l := range known().Libraries {
		ids = append(ids, l.ID)
	}
	slices.Sort(ids)
	return ids
}

// CUDAOf returns the CUDA major in one of the names, such as 12 in libcublas.so.12, or "".
func CUDAOf(names []string) string {
	for _, n := range names {
		lib := LibraryOf(n)
		if lib == nil {
			continue
		}
		_, number, _ := strings.Cut(n, ".so.")
		major, _, _ := strings.Cut(number, ".")
		if cuda := lib.CUDA[major]; cuda != "" {
			return cuda
		}
	}
	return ""
}

// takes reports whether a file may fit the request, by its name.
func (r *request) takes(name string) bool {
	if r.lib != nil {
		return r.lib.has(name)
	}
	return slices.ContainsFunc(r.Names, func(n string) bool { return sameLibrary(n, name) })
}

// sameLibrary reports whether a file may be the library with a name, by their names up to
// ".so": libfoo.so.1.2 may have the SONAME libfoo.so.1.
func sameLibrary(asked, file string) bool {
	a, _, ok := strings.Cut(asked, ".so")
	f, _, fok := strings.Cut(file, ".so")
	return ok && fok && a == f || asked == file
}

// title names the request for messages, with the versions.
func (r *request) title() string {
	what := strings.Join(r.Names, ", ")
	if what == "" {
		what = r.Library
	}
	versions := slices.Clone(r.Versions)
	if r.Pin != "" {
		versions = append(versions, "=="+r.Pin)
	}
	if len(versions) > 0 {
		what += " (" + strings.Join(versions, ", ") + ")"
	}
	return what
}

// WheelNames returns the distributions that may have the library for a major version of
// CUDA. From 13 on, NVIDIA's names do not end with it.
func (l *Library) WheelNames(cuda string) []string {
	suffix := "-cu" + cuda
	if n, err := strconv.Atoi(cuda); err == nil && n >= 13 {
		suffix = ""
	}
	var list []string
	for _, w := range l.Wheels {
		list = append(list, strings.NewReplacer("{cuda}", cuda, "{cu}", suffix).Replace(w))
	}
	return list
}

// perCUDA reports whether there is a distribution for each major of CUDA.
func (l *Library) perCUDA() bool {
	return slices.ContainsFunc(l.Wheels, func(w string) bool { return strings.Contains(w, "{cu") })
}
