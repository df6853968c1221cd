package replay

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// preload is a [Preload] with the files that the image has for it.
type preload struct {
	packs.Preload
	files []preloadFile
}

// preloadFile is what one pattern of a preload comes to.
type preloadFile struct {
	pattern  string
	paths    []string // none: the image does not have it
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

// isNamed reports whether the text of an error names one of the libraries, as torch
// looks for them: `lib.split(".")[0] in err.args[0]`.
func (p *preload) isNamed(text string) bool {
	return slices.ContainsFunc(p.files, func(f preloadFile) bool {
		library, _, _ := strings.Cut(path.Base(f.pattern), ".")
		return strings.Contains(text, library)
	})
}

// preloadAt returns the framework's preload of a time in its version, or nil. Where the
// version is not known, it is the last one listed, and nothing of it is required.
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

// findPreload looks for the files of a preload.
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

// onSearchPath returns the first file that a FOLDER/NAME of a preload leads to: of the
// first directory of search that has it, in the first of dirs.
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

// openPreload opens what a preload finds. What cannot be loaded is passed over: its
// misses are not the framework's. What is cut off is told, since no process goes on
// after it.
func (re *replayer) openPreload(p *elfdeps.Process, pre *preload) (cut []*elfdeps.Error) {
	if pre == nil {
		return nil
	}
	for _, f := range pre.paths() {
		cut = append(cut, cutIn(re.loaders.OpenPath(p, f))...)
	}
	return cut
}

// openEager opens a preload that comes after the first step has succeeded, where what it
// asks for is mapped. Its first file that is not there or cannot be loaded ends it,
// unless it is optional, and the framework goes on.
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

// rescue opens a preload that comes when the first step has failed, and after which that
// step is tried once more. It returns the first file that is not there or cannot be
// loaded, which ends the import, or nil. The others are opened all the same, so that what
// they would have brought is not missed as well.
func (re *replayer) rescue(p *elfdeps.Process, in *Install, told func(s packs.Step, file string, err error)) (first *Failure) {
	pre := in.preloads["after-miss"]
	for _, f := range pre.files {
		if len(f.paths) == 0 && !f.optional && pre.Missing != "" && first == nil {
			first = re.notFound(in, pre, path.Base(f.pattern))
		}
		for _, file := range f.paths {
			misses, err := re.loaders.openPathBound(p, file, elfdeps.Now)
			if told != nil && symbolError(err) != nil {
				told(in.steps()[0], file, err)
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

// notFound is the failure of a preload that has no file of a name: as far as they tell,
// of what the steps miss without it.
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

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
