package fix

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// candidate is a change that may make a finding go away.
type candidate struct {
	text  string // the change in short, without its result
	steps []Step
}

// kinds are the changes that a rule may name, and what each comes to for a
// finding, the best first.
var kinds = map[string]func(*planner, *lint.Finding) []candidate{
	"link":   (*planner).links,
	"path":   (*planner).paths,
	"drop":   (*planner).drops,
	"remove": (*planner).removals,
}

// maxOfKind bounds what one kind offers for one finding.
const maxOfKind = 6

// candidates are what is tried for a finding, in order.
func (p *planner) candidates(f *lint.Finding) []candidate {
	r := p.packs.Rule(f.Rule)
	if r == nil {
		return nil
	}
	var list []candidate
	for _, m := range r.Mend {
		if of := kinds[m]; of != nil {
			some := of(p, f)
			list = append(list, some[:min(maxOfKind, len(some))]...)
		}
	}
	return list
}

const libraryPath = "LD_LIBRARY_PATH"

// elements of the search path that the image sets.
func (p *planner) elements() []string {
	var list []string
	for _, e := range strings.Split(getVar(environment(p.now.img), libraryPath), ":") {
		if e != "" {
			list = append(list, e)
		}
	}
	return list
}

// paths append the directories that have the library to LD_LIBRARY_PATH: behind
// what is there, so that nothing that is found now is found elsewhere.
func (p *planner) paths(f *lint.Finding) []candidate {
	var list []candidate
	for _, dir := range p.directories(f) {
		list = append(list, candidate{"LD_LIBRARY_PATH with " + dir, []Step{appendPath(dir)}})
	}
	return list
}

func appendPath(dir string) Step {
	return Step{
		Kind: "path", Text: fmt.Sprintf("append %s to LD_LIBRARY_PATH", dir), Path: dir,
		Variable: libraryPath, edit: edit{"append", ":", dir},
	}
}

// directories are those where a library is present, those of the one who asks
// first: its site-packages, its prefix.
func (p *planner) directories(f *lint.Finding) []string {
	var list []string
	for _, file := range f.Present {
		if dir := path.Dir(file.Path); offered(file.Path) && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	near := ""
	if len(f.NeededBy) > 0 {
		near = f.NeededBy[0].Path
	}
	slices.SortStableFunc(list, func(a, b string) int { return common(b, near) - common(a, near) })
	return list
}

// common is how many directories two paths share from the root.
func common(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < len(as) && n < len(bs) && as[n] == bs[n] {
		n++
	}
	return n
}

// hashed is a library that auditwheel has given a name of its own.
var hashed = regexp.MustCompile(`-[0-9a-f]{8}\.so`)

// offered reports whether a file may be made use of by others. A stub is there
// to link with and fails when it is called; what a wheel has vendored belongs to
// it alone; what the driver's mounts will cover is gone when the image runs.
func offered(file string) bool {
	for _, dir := range strings.Split(path.Dir(file), "/") {
		if dir == "stubs" || dir == "compat" || strings.HasSuffix(dir, ".libs") {
			return false
		}
	}
	return !hashed.MatchString(path.Base(file)) && !strings.HasPrefix(file, "/usr/local/nvidia/")
}

// links make the name that is asked for beside the file that is the library
// under another name, and those of its sub-libraries. Where the loader does not
// come by, the link is put where the asking file looks, or the path leads there.
func (p *planner) links(f *lint.Finding) []candidate {
	var list []candidate
	if f.Library == "" || path.Base(f.Library) != f.Library {
		return nil
	}
	for _, file := range f.Present {
		if !offered(file.Path) {
			continue
		}
		dir := path.Dir(file.Path)
		if base := path.Base(file.Path); base != f.Library {
			steps := append([]Step{link(dir, f.Library, base)}, p.siblings(dir, f.Library)...)
			text := fmt.Sprintf("the link %s/%s", dir, f.Library)
			list = append(list, candidate{text, steps})
			if !slices.ContainsFunc(p.elements(), func(e string) bool { return sameDir(e, dir) }) {
				list = append(list, candidate{text + " and LD_LIBRARY_PATH with " + dir, append(slices.Clone(steps), appendPath(dir))})
			}
		}
		for _, own := range p.ownDirs(f) {
			if own != dir {
				steps := append([]Step{link(own, f.Library, file.Path)}, p.siblingsIn(own, dir, f.Library)...)
				list = append(list, candidate{fmt.Sprintf("links in %s to %s", own, dir), steps})
			}
		}
	}
	return list
}

func link(dir, name, target string) Step {
	p := path.Join(dir, name)
	return Step{
		Kind: "link", Text: fmt.Sprintf("link %s -> %s", p, target), Path: p, Link: target,
		files: []file{linkFile(p, target)},
	}
}

// siblings are links for the sub-libraries beside a library that have no file of
// their SONAME either.
func (p *planner) siblings(dir, name string) []Step {
	var list []Step
	for e := range p.now.img.FS.Below(dir) {
		if e.Object == nil || e.Object.Soname == "" || path.Dir("/"+e.Path) != dir || !together(name, e.Object.Soname) {
			continue
		}
		if _, err := p.now.img.FS.Find(dir + "/" + e.Object.Soname); err != nil && goodName(e.Object.Soname) && e.Object.Soname != name {
			list = append(list, link(dir, e.Object.Soname, path.Base(e.Path)))
		}
	}
	return slices.CompactFunc(list, func(a, b Step) bool { return a.Path == b.Path })
}

// siblingsIn are links in one directory to the sub-libraries in another: a
// library that is found by a link looks for them where the link is.
func (p *planner) siblingsIn(own, dir, name string) []Step {
	var list []Step
	seen := map[string]bool{name: true}
	for e := range p.now.img.FS.Below(dir) {
		if path.Dir("/"+e.Path) != dir {
			continue
		}
		file, err := p.now.img.FS.Find("/" + e.Path)
		if err != nil || file.Object == nil || !together(name, file.Object.Soname) || seen[file.Object.Soname] || !goodName(file.Object.Soname) {
			continue
		}
		seen[file.Object.Soname] = true
		list = append(list, link(own, file.Object.Soname, "/"+e.Path))
	}
	return list
}

// together reports whether two SONAMEs are of libraries that come together:
// libcudnn.so.9 and libcudnn_ops.so.9, of the same major version.
func together(a, b string) bool {
	stem := func(s string) (string, string) {
		name, version, _ := strings.Cut(s, ".so")
		name, _, _ = strings.Cut(name, "_")
		return name, version
	}
	an, av := stem(a)
	bn, bv := stem(b)
	return an == bn && (av == bv || av == "" || bv == "")
}

func goodName(n string) bool {
	return n != "" && n != "." && n != ".." && len(n) <= 255 && n == path.Base(n) && !strings.ContainsRune(n, 0)
}

// notes that lint puts behind a place where the loader looked.
var note = regexp.MustCompile(` \([^()]*\)$`)

// ownDirs are the directories that the RPATH or RUNPATH of the asking file names
// and that are its own: its directory, or one of its wheel's for the library.
func (p *planner) ownDirs(f *lint.Finding) []string {
	var wheel, own []string
	for _, s := range f.Searched {
		if !strings.Contains(s.Source, "RPATH") && !strings.Contains(s.Source, "RUNPATH") {
			continue
		}
		for _, place := range s.Places {
			dir := path.Clean(note.ReplaceAllString(place, ""))
			switch {
			case !strings.HasPrefix(dir, "/") || !offered(dir+"/x") || isSystem(dir) || slices.Contains(slices.Concat(wheel, own), dir):
			case isWheelOf(dir, f.Library):
				wheel = append(wheel, dir)
			case slices.ContainsFunc(f.NeededBy, func(n lint.File) bool { return path.Dir(n.Path) == p.real(dir) }):
				own = append(own, dir)
			}
		}
	}
	return append(wheel, own...)
}

// isSystem reports whether a directory is one that the distribution's packages
// own.
func isSystem(dir string) bool {
	rest, ok := strings.CutPrefix(dir, "/usr")
	if !ok {
		rest = dir
	}
	return rest == "" || dir == "/" || strings.HasPrefix(rest+"/", "/lib/") || strings.HasPrefix(rest+"/", "/lib64/") || strings.HasPrefix(rest+"/", "/bin/") || strings.HasPrefix(rest+"/", "/sbin/") || dir == "/usr/local/lib" || dir == "/usr/local/bin"
}

// wheelDirs are the directories below site-packages/nvidia for libraries whose
// name does not tell it.
var wheelDirs = map[string]string{
	"libcudart": "cuda_runtime", "libnvrtc": "cuda_nvrtc", "libnvrtc-builtins": "cuda_nvrtc", "libcupti": "cuda_cupti", "libnvToolsExt": "nvtx",
	"libcublasLt": "cublas", "libnvblas": "cublas", "libcusparseLt": "cusparselt", "libnvshmem_host": "nvshmem", "libcufftw": "cufft",
	"libcusolverMg": "cusolver", "libnvJitLink": "nvjitlink", "libcufile_rdma": "cufile",
}

// isWheelOf reports whether a directory is that of NVIDIA's wheel which has the
// library: nvidia/cudnn/lib, or nvidia/cu13/lib for the toolkit from CUDA 13 on.
func isWheelOf(dir, library string) bool {
	name, _, _ := strings.Cut(library, ".so")
	want := wheelDirs[name]
	if want == "" {
		want = strings.TrimPrefix(name, "lib")
		want, _, _ = strings.Cut(want, "_")
	}
	up := path.Dir(dir)
	return path.Base(dir) == "lib" && path.Base(up) == want && (path.Base(path.Dir(up)) == "nvidia" || want == "cusparselt")
}

// drops let another copy be found: an element of LD_LIBRARY_PATH is moved behind
// the others, or taken out.
func (p *planner) drops(f *lint.Finding) []candidate {
	elements := p.elements()
	guilty := p.guilty(f)
	slices.SortStableFunc(elements, func(a, b string) int { return order(guilty[p.real(b)], guilty[p.real(a)]) })
	var list []candidate
	for _, e := range elements {
		if len(elements) > 1 && !sameDir(e, p.elements()[len(elements)-1]) {
			list = append(list, candidate{fmt.Sprintf("LD_LIBRARY_PATH with %s last", e), []Step{{
				Kind: "drop", Text: fmt.Sprintf("move %s to the end of LD_LIBRARY_PATH", e), Path: e, Variable: libraryPath, edit: edit{"last", ":", e},
			}}})
		}
		list = append(list, candidate{fmt.Sprintf("LD_LIBRARY_PATH without %s", e), []Step{{
			Kind: "drop", Text: fmt.Sprintf("take %s out of LD_LIBRARY_PATH", e), Path: e, Variable: libraryPath, edit: edit{"drop", ":", e},
		}}})
	}
	return list
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// guilty are the real directories of the files that a finding is about.
func (p *planner) guilty(f *lint.Finding) map[string]bool {
	dirs := map[string]bool{}
	for _, s := range p.subjects(f) {
		dirs[p.real(path.Dir(s))] = true
		dirs[path.Dir(p.real(s))] = true
	}
	return dirs
}

// real is where a path leads, or would when it were there.
func (p *planner) real(s string) string {
	if e, _, ok := p.now.img.FS.Lookup(s); ok {
		return "/" + e.Path
	}
	return realPath(p.now.img.FS, s)
}

// subjects are the files that a finding is about: the one that the loader's
// message names first, and those that are present.
func (p *planner) subjects(f *lint.Finding) []string {
	var list []string
	if file, _, ok := strings.Cut(f.Message, ": "); ok && strings.HasPrefix(file, "/") {
		list = append(list, file)
	}
	for _, file := range f.Present {
		if !slices.Contains(list, file.Path) {
			list = append(list, file.Path)
		}
	}
	return list
}

// removals take a file away that stands before a good one. The file is left in
// its layer: a whiteout hides it.
func (p *planner) removals(f *lint.Finding) []candidate {
	var list []candidate
	for _, s := range p.subjects(f) {
		real := realPath(p.now.img.FS, s)
		e, _, ok := p.now.img.FS.Lstat(real)
		if !ok || e.IsDir() || e.Type == layers.Other {
			continue
		}
		list = append(list, candidate{"without " + real, []Step{{
			Kind: "remove", Text: "remove " + real, Path: real, files: []file{removedFile(real)},
		}}})
	}
	return list
}
