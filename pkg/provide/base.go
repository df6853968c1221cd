package provide

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// BaseImage is a public image that has a release of NVIDIA's libraries.
type BaseImage struct {
	Ref   string `yaml:"ref"`
	CUDA  string `yaml:"cuda"`  // its release, "12.4.1"
	CUDNN string `yaml:"cudnn"` // its release, or empty if the image has none
	// Libraries are those of the toolkit, in /usr/local/cuda/lib64: the number of the SONAMEs
	// by the library's ID. Those of System are in the distribution's directory.
	Libraries map[string]string `yaml:"libraries"`
	System    map[string]string `yaml:"system"`
	// Releases are those of Libraries by the library's ID, as far as they are known.
	Releases map[string]string `yaml:"releases"`
	From     []string          `yaml:"sources"`
}

// ImageWith returns the public image from which a Dockerfile can copy files of one library
// of NVIDIA's, for a major version of CUDA: the image of release, if that is known, else the
// newest of the same minor release, else the newest. The versions are specifiers that the
// library has to meet; a library whose release is not known meets none. It returns nil if no image has all
// files.
func ImageWith(files []string, cuda, release string, versions []string) *BaseImage {
	if len(files) == 0 || LibraryOf(files[0]) == nil {
		return nil
	}
	lib := LibraryOf(files[0])
	var best *BaseImage
	for _, b := range known().Images {
		major, _, _ := strings.Cut(b.CUDA, ".")
		if cuda != "" && major != cuda || !b.meets(lib, files, versions) || !b.hasAll(lib, files) {
			continue
		}
		if best == nil || b.nearer(best, release) {
			best = b
		}
	}
	return best
}

// BaseImageNamed returns the public image that is known under a reference, or nil.
func BaseImageNamed(ref string) *BaseImage {
	for _, b := range known().Images {
		if b.Ref == ref {
			return b
		}
	}
	return nil
}

// nearer reports whether b is nearer to a release of CUDA than o, or as near and newer.
func (b *BaseImage) nearer(o *BaseImage, release string) bool {
	if is := b.CUDA == release; is != (o.CUDA == release) {
		return is
	}
	if is := minor(b.CUDA) == minor(release); is != (minor(o.CUDA) == minor(release)) {
		return is
	}
	return version.ParseRelease(b.CUDA).Compare(version.ParseRelease(o.CUDA)) > 0
}

// minor returns the first two numbers of a release.
func minor(release string) string {
	return version.ParseRelease(release).First(2).String()
}

// hasAll reports whether the image has all files of a library.
func (b *BaseImage) hasAll(lib *Library, files []string) bool {
	number := cmp.Or(b.Libraries[lib.ID], b.System[lib.ID])
	return number != "" && !slices.ContainsFunc(files, func(f string) bool {
		_, n, _ := strings.Cut(f, ".so.")
		return n != number && !slices.Contains(b.companions(lib), f)
	})
}

// companions returns the files of a library that others of it need.
func (b *BaseImage) companions(lib *Library) []string {
	var list []string
	for _, stem := range slices.Sorted(maps.Keys(lib.With)) {
		list = append(list, b.with(lib, stem)...)
	}
	return list
}

// with returns the files that a file of the library, named up to ".so", needs or opens.
func (b *BaseImage) with(lib *Library, stem string) []string {
	var list []string
	fill := strings.NewReplacer("{number}", cmp.Or(b.Libraries[lib.ID], b.System[lib.ID]), "{release}", minor(b.CUDA))
	for _, w := range lib.With[stem] {
		list = append(list, fill.Replace(w))
	}
	return list
}

// Sources returns the paths of a library's files in the image, with those that they need of
// the same library: for cuDNN, whose parts belong together, one pattern for all.
func (b *BaseImage) Sources(files []string, triple string) []string {
	lib := LibraryOf(files[0])
	dir := "/usr/local/cuda/lib64"
	if b.System[lib.ID] != "" {
		dir = "/usr/lib/" + triple
	}
	if lib.ID == "cudnn" {
		return []string{dir + "/libcudnn*.so." + b.System[lib.ID]}
	}
	var list []string
	for _, f := range files {
		stem, _, _ := strings.Cut(f, ".so")
		for _, name := range append([]string{f}, b.with(lib, stem)...) {
			if p := path.Join(dir, name); !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

// meets reports whether the image's release of a library meets versions, or is the one that
// the names of all files say.
func (b *BaseImage) meets(lib *Library, files, versions []string) bool {
	if len(versions) == 0 || !slices.ContainsFunc(files, func(f string) bool { return !strings.HasSuffix(f, ".so."+minor(b.CUDA)) }) {
		return true
	}
	release := b.Releases[lib.ID]
	if lib.ID == "cudnn" {
		release = b.CUDNN
	}
	return release != "" && !slices.ContainsFunc(versions, func(v string) bool {
		ok, err := version.Satisfies(release, v)
		return err != nil || !ok
	})
}

func (b *BaseImage) validate(ids map[string]bool) error {
	if b.Ref == "" || strings.Count(b.CUDA, ".") != 2 || len(b.From) == 0 {
		return fmt.Errorf("image %q: needs a ref, a whole release of CUDA and sources", b.Ref)
	}
	if b.System["cudnn"] != "" && strings.Count(b.CUDNN, ".") != 3 {
		return fmt.Errorf("image %q: needs the whole release of cuDNN", b.Ref)
	}
	for _, m := range []map[string]string{b.Libraries, b.System, b.Releases} {
		for id, number := range m {
			if !ids[id] || number == "" {
				return fmt.Errorf("image %q: there is no library %q, or it has no number", b.Ref, id)
			}
		}
	}
	return nil
}
