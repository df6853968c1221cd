package provide

import (
	"fmt"
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
	// Libraries are the IDs of those of the toolkit, in /usr/local/cuda/lib64. Those of System
	// are in the distribution's directory.
	Libraries []string `yaml:"libraries"`
	System    []string `yaml:"system"`
	From      []string `yaml:"sources"`
}

// ImageWith returns the public image from which a Dockerfile can copy a library of NVIDIA's
// for a major version of CUDA: the one of release, if that is known, else the newest. The
// versions are specifiers that the library has to meet; only cuDNN's release is known. It
// returns nil if no image has the library.
func ImageWith(library, cuda, release string, versions []string) *BaseImage {
	lib := LibraryOf(library)
	if lib == nil {
		return nil
	}
	var best *BaseImage
	for _, b := range known().Images {
		major, _, _ := strings.Cut(b.CUDA, ".")
		switch {
		case cuda != "" && major != cuda:
		case !slices.Contains(b.Libraries, lib.ID) && !slices.Contains(b.System, lib.ID):
		case !b.meets(lib, library, versions):
		case b.CUDA == release:
			return b
		case best == nil || version.ParseRelease(b.CUDA).Compare(version.ParseRelease(best.CUDA)) > 0:
			best = b
		}
	}
	return best
}

// Sources returns the paths of a library's files in the image: for cuDNN, whose parts belong
// together, one pattern for all.
func (b *BaseImage) Sources(library string, files []string, triple string) []string {
	lib := LibraryOf(library)
	dir := "/usr/local/cuda/lib64"
	if slices.Contains(b.System, lib.ID) {
		dir = "/usr/lib/" + triple
	}
	if lib.ID == "cudnn" {
		major, _, _ := strings.Cut(b.CUDNN, ".")
		return []string{dir + "/libcudnn*.so." + major}
	}
	var list []string
	for _, f := range files {
		list = append(list, path.Join(dir, f))
	}
	return list
}

// meets reports whether the image's release of a library has the name, and meets versions.
func (b *BaseImage) meets(lib *Library, name string, versions []string) bool {
	if lib.ID != "cudnn" {
		return len(versions) == 0
	}
	major, _, _ := strings.Cut(b.CUDNN, ".")
	if !strings.Contains(name+".", ".so."+major+".") {
		return false
	}
	for _, v := range versions {
		if ok, err := version.Satisfies(b.CUDNN, v); err != nil || !ok {
			return false
		}
	}
	return true
}

func (b *BaseImage) validate() error {
	if b.Ref == "" || b.CUDA == "" || len(b.From) == 0 {
		return fmt.Errorf("image %q: needs a ref, cuda and sources", b.Ref)
	}
	return nil
}
