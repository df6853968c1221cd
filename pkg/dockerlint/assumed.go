package dockerlint

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// CUDAImage says which libraries NVIDIA's images of CUDA have by their tags.
type CUDAImage struct {
	Images  []string `yaml:"images"` // patterns of references
	CUDA    string   `yaml:"cuda"`   // the major version
	CUDNN   string   `yaml:"cudnn"`  // the major version, or "" for none
	Sources []string `yaml:"sources"`
}

// assumed returns the libraries that an image of NVIDIA's has by its tag, or nil if the table
// does not have it. It knows no files, environment or findings of the image. A reference with a
// digest may be another image than its tag, and is not known.
func (k *Knowledge) assumed(ref string) *Base {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "nvcr.io/")
	if strings.Contains(ref, "@") {
		return nil
	}
	if k.officialPython(ref) != "" || matchImage(k.WithoutCUDA, ref) != nil {
		return new(Base)
	}
	for _, row := range k.CUDAImages {
		if !slices.ContainsFunc(row.Images, func(p string) bool { return packs.Match(p, ref) }) {
			continue
		}
		b := &Base{CUDA: []string{row.CUDA}}
		if row.CUDNN != "" {
			b.CUDNN = []string{row.CUDNN}
		}
		return b
	}
	return nil
}
