package provide

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// installed returns the release of the wheel that has installed a directory of libraries,
// and its .dist-info directory: site-packages/nvidia/cudnn/lib is of
// site-packages/nvidia_cudnn_cu12-9.1.0.70.dist-info. The names of its libraries do not
// hold the release.
func (l *Library) installed(fsys fs.FS, dir string) (release, info string) {
	names := l.allWheelNames()
	for range 3 { // tensorrt_libs/ is one below site-packages, nvidia/cu13/lib three
		if dir == "." {
			break
		}
		dir = path.Dir(dir)
		list, _ := fs.ReadDir(fsys, dir)
		for _, e := range list {
			stem, ok := strings.CutSuffix(e.Name(), ".dist-info")
			name, v, _ := strings.Cut(stem, "-")
			if !ok || !slices.Contains(names, normalize(name)) {
				continue
			}
			if _, err := version.Parse(v); err != nil {
				continue
			}
			if release != "" && release != v {
				return "", "" // it is not known which of them has written the files last
			}
			release, info = v, path.Join(dir, e.Name())
		}
		if release != "" {
			break
		}
	}
	return release, info
}

// allWheelNames returns the distributions of all majors of CUDA.
func (l *Library) allWheelNames() []string {
	var all []string
	for _, cuda := range []string{"11", "12", "13", "14"} {
		all = append(all, l.WheelNames(cuda)...)
	}
	return all
}

// place sets the release of sets that have none to that of their wheel. at is the
// directory in fsys to which their directories are relative.
func (r *request) place(fsys fs.FS, at string, all []*set) {
	for _, s := range all {
		if s.version == "" && r.lib != nil {
			s.version, s.info = r.lib.installed(fsys, path.Join(at, s.dir))
		}
	}
}

// wheelLicences returns the licences of the wheel of a set.
func (s *set) wheelLicences(fsys fs.FS) []string {
	if s.info == "" {
		return nil
	}
	return append(licencesIn(fsys, s.info), licencesIn(fsys, path.Join(s.info, "licenses"))...)
}

// licences returns the licences beside a set and in the directories above it, where
// unpacked archives have them, and at the root, the nearest first.
func (s *set) licences(fsys fs.FS) []string {
	files := licencesIn(fsys, s.dir)
	for dir, steps := s.dir, 0; dir != "." && steps < 2; steps++ {
		dir = path.Dir(dir)
		files = append(files, licencesIn(fsys, dir)...)
	}
	return append(files, licencesIn(fsys, ".")...)
}

func licencesIn(fsys fs.FS, dir string) []string {
	var files []string
	list, _ := fs.ReadDir(fsys, dir)
	for _, e := range list {
		if isLicence(e.Name()) && e.Type().IsRegular() {
			files = append(files, path.Join(dir, e.Name()))
		}
	}
	return files
}
