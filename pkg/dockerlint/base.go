package dockerlint

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

var (
	cudnnFile = regexp.MustCompile(`^libcudnn\.so\.(\d+)$`)
	cudaFile  = regexp.MustCompile(`^lib(?:cublas|cudart)\.so\.(\d+)(?:\.|$)`)
	distInfo  = regexp.MustCompile(`^([A-Za-z0-9_.]+)-([^-/]+)\.dist-info$`)
	sharedLib = regexp.MustCompile(`\.so(\.|$)`)
)

// NewBase returns what is known of an image with files and an environment.
func NewBase(fsys *layers.FS, env []string, dir string) *Base {
	b := &Base{Env: env, Dir: dir, Wheels: map[string]string{}, Libraries: map[string]bool{}, Files: map[string]bool{}, Programs: map[string]bool{}}
	for e := range fsys.All() {
		p := "/" + e.Path
		name := path.Base(p)
		b.keepFile(p)
		if o := e.Object; o != nil && o.Libc != nil && !o.Libc.Musl && (strings.HasPrefix(name, "ld-linux") || name == "libc.so.6") {
			b.Glibc = cmp.Or(b.Glibc, o.Libc.Release)
		}
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

// Images are patterns of references with what is known of their images.
type Images struct {
	Images  []string `yaml:"images"`
	Instead string   `yaml:"instead"` // what to take in place of one that does not exist
	Sources []string `yaml:"sources"`
}

// matchImage returns the images of a list of which a reference names one, or nil.
func matchImage(list []*Images, ref string) *Images {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "library/")
	if strings.Contains(ref, "@") {
		return nil
	}
	for _, l := range list {
		if packs.MatchAny(l.Images, ref) {
			return l
		}
	}
	return nil
}

// absentBase judges a FROM of an image that is no longer published.
func (w *walk) absentBase() {
	if w.base != nil || w.from.Why != "" {
		return
	}
	r := matchImage(w.AbsentImages, w.from.Ref)
	v := values{"base": w.from.Ref, "instead": "a tag of its registry", "why": cmp.Or(w.why, "no instruction depends on it")}
	if r != nil {
		v["instead"] = r.Instead
	}
	switch {
	case w.noImage != nil && w.noImage(w.from.Ref, w.from.Platform) && (r != nil || matchImage(w.Published, w.from.Ref) != nil):
		w.say("base-absent", "asked", w.from.Line, v)
	case r != nil:
		w.say("base-absent", "listed", w.from.Line, v)
	}
}
