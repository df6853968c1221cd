package replay

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// preload is a [packs.Preload] with the files of the image.
type preload struct {
	packs.Preload
	files []preloadFile
}

// preloadFile is one pattern of a preload, with the files that it finds.
type preloadFile struct {
	pattern  string
	paths    []string // empty: the image has none
	optional bool
}

// paths returns the files that a preload opens, in order.
func (p *preload) paths() []string {
	var list []string
	for _, f := range p.files {
		list = append(list, f.paths...)
	}
	return list
}

// isNamed reports whether the text of an error names one of the libraries, as torch tests
// it: `lib.split(".")[0] in err.args[0]`.
func (p *preload) isNamed(text string) bool {
	return slices.ContainsFunc(p.files, func(f preloadFile) bool {
		library, _, _ := strings.Cut(path.Base(f.pattern), ".")
		return strings.Contains(text, library)
	})
}

// preloadAt returns the preload of a time for the framework's release, or nil. If the
// release is not known, it is the last one in the packs, with all files optional.
func (in *Install) preloadAt(when string) *packs.Preload {
	var guess *packs.Preload
	for i := range in.Preload {
		p := &in.Preload[i]
		if p.When != when {
			continue
		}
		fits, known := in.release.Within(p.Versions)
		if fits {
			return p
		}
		if !known {
			guess = p
		}
	}
	if guess == nil {
		return nil
	}
	return &packs.Preload{When: when, Dirs: guess.Dirs, Mapped: guess.Mapped, Optional: slices.Concat(guess.Files, guess.Optional)}
}

// findPreload returns a preload with its files.
func (re *replayer) findPreload(in *Install, pre packs.Preload) *preload {
	p := &preload{Preload: pre}
	var search []string
	if len(pre.Dirs) > 0 {
		search = re.packages.SearchPath(in.Site)
	}
	for i, pattern := range slices.Concat(pre.Files, pre.Optional) {
		f := preloadFile{pattern: pattern, optional: i >= len(pre.Files)}
		if len(pre.Dirs) > 0 {
			f.paths = re.onSearchPath(in, search, pre.Dirs, pattern)
		} else {
			f.paths = re.files.Glob(in.Site, pattern)
		}
		p.files = append(p.files, f)
	}
	return p
}

// onSearchPath returns the first file for the FOLDER/NAME of a preload: in the first
// directory of search that has it, in the first of dirs there.
func (re *replayer) onSearchPath(in *Install, search, dirs []string, file string) []string {
	folder, name := path.Split(file)
	cuda := cmp.Or(re.packages.cudaOfInstall(in), "[0-9]*")
	for _, site := range search {
		for _, dir := range dirs {
			dir = packs.Expand(dir, "{folder}", path.Clean(folder), "{cuda}", cuda)
			if found := re.files.Glob(site, path.Join(dir, name)); len(found) > 0 {
				return found[:1:1]
			}
		}
	}
	return nil
}

// openPreload opens the files of a preload, and ignores those that cannot be loaded. It
// returns the errors about truncated files, which kill the process. The preload may be
// nil.
func (re *replayer) openPreload(p *elfdeps.Process, pre *preload) (cut []*elfdeps.Error) {
	if pre == nil {
		return nil
	}
	for _, f := range pre.paths() {
		cut = append(cut, cutIn(re.loaders.OpenPath(p, f))...)
	}
	return cut
}

// openEager opens a preload after the first step has succeeded, if a file whose path
// contains its Mapped is mapped. It stops at the first required file that the image
// lacks, and at the first file that cannot be loaded; the framework continues. It returns
// the errors about truncated files. The preload may be nil.
func (re *replayer) openEager(p *elfdeps.Process, pre *preload) (cut []*elfdeps.Error) {
	if pre == nil || !slices.ContainsFunc(p.Objects, func(m *elfdeps.Module) bool { return strings.Contains(m.Real(), pre.Mapped) }) {
		return nil
	}
	for _, f := range pre.files {
		if len(f.paths) == 0 && !f.optional {
			return cut
		}
		for _, file := range f.paths {
			misses, err := re.loaders.openPathBound(p, file, elfdeps.Now)
			cut = append(cut, cutIn(misses)...)
			if len(misses) > 0 || symbolError(err) != nil {
				return cut
			}
		}
	}
	return cut
}

// rescue opens the preload that comes after the first step has failed, before that step
// is tried again. It returns the failure of the first file that is missing or cannot be
// loaded, which ends the import, or nil. It opens the other files nevertheless, so that
// their libraries are not reported as missing.
func (re *replayer) rescue(p *elfdeps.Process, in *Install, onOpen openFunc) (first *Failure) {
	pre := in.preloads["after-miss"]
	for _, f := range pre.files {
		if len(f.paths) == 0 && !f.optional && pre.Missing != "" && first == nil {
			first = re.notFound(in, pre, path.Base(f.pattern))
		}
		for _, file := range f.paths {
			misses, err := re.loaders.openPathBound(p, file, elfdeps.Now)
			if onOpen != nil && symbolError(err) != nil {
				onOpen(in.steps()[0], file, err)
			}
			if f.optional {
				misses = cutIn(misses)
			}
			if len(misses) > 0 && first == nil {
				first = &Failure{Step: in.steps()[0], Path: file, Misses: misses}
			}
		}
	}
	return first
}

// notFound returns the failure of a preload without a file called name. Its miss is the
// one of the steps that is about the same library, else the first.
func (re *replayer) notFound(in *Install, pre *preload, name string) *Failure {
	f := &Failure{Step: in.steps()[0], Path: firstOf(re.files.Glob(in.Home, in.steps()[0].Open)), Misses: in.rescued[:1]}
	f.Step.Error = strings.ReplaceAll(pre.Missing, "{name}", name)
	for i, e := range in.rescued {
		if packs.Stem(e.Name) == packs.Stem(name) {
			f.Misses = in.rescued[i : i+1]
			break
		}
	}
	return f
}

// firstOf returns the first element, or "".
func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
