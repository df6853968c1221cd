package dockerlint

import (
	"path"
	"regexp"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

var (
	cudnnFile = regexp.MustCompile(`^libcudnn\.so\.(\d+)$`)
	cudaFile  = regexp.MustCompile(`^lib(?:cublas|cudart)\.so\.(\d+)(?:\.|$)`)
	distInfo  = regexp.MustCompile(`^([A-Za-z0-9_.]+)-([^-/]+)\.dist-info$`)
	sharedLib = regexp.MustCompile(`\.so(\.|$)`)
)

// NewBase returns what is known of an image with files and an environment.
func NewBase(fsys *layers.FS, env []string, dir string) *Base {
	b := &Base{Env: env, Dir: dir, Wheels: map[string]string{}, Libraries: map[string]bool{}, Files: map[string]bool{}}
	for e := range fsys.All() {
		p := "/" + e.Path
		name := path.Base(p)
		b.keepFile(p)
		switch {
		case sharedLib.MatchString(name):
			b.Libraries[path.Dir(p)] = true
			if m := cudnnFile.FindStringSubmatch(name); m != nil {
				b.CUDNN = append(b.CUDNN, m[1])
			}
			if m := cudaFile.FindStringSubmatch(name); m != nil {
				b.CUDA = append(b.CUDA, m[1])
			}
		case name == "METADATA":
			if m := distInfo.FindStringSubmatch(path.Base(path.Dir(p))); m != nil {
				b.Wheels[inventory.Normalize(m[1])] = m[2]
			}
		}
	}
	slices.Sort(b.CUDNN)
	slices.Sort(b.CUDA)
	b.CUDNN, b.CUDA = slices.Compact(b.CUDNN), slices.Compact(b.CUDA)
	return b
}
