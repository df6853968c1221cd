package size

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// used returns the real paths of the files that the image's programs use, as far as they were
// followed: programs and scripts, modules of Python, and all that is mapped.
func used(ev *replay.Evidence) map[string]bool {
	set := mapped(ev)
	if ev.Started != nil {
		set[ev.Started.Path] = true
		for _, p := range ev.Started.Programs {
			set[p.Path], set[p.File] = true, true
		}
	}
	var tree func(n *pyimport.Node)
	tree = func(n *pyimport.Node) {
		set[n.File] = true
		for _, below := range n.Nodes {
			tree(below)
		}
	}
	for _, s := range ev.Starts {
		if set[s.Python] = true; s.Tree != nil {
			tree(s.Tree)
		}
	}
	return set
}

// living are the parts of classes that are in use.
type living struct {
	trees map[string]bool // of one class each
	dirs  []string        // all that is below them, with a slash at their ends
}

// has reports whether a file of a class is in use.
func (l *living) has(c *Class, p string) bool {
	return l.trees[c.tree(p)] || slices.ContainsFunc(l.dirs, func(dir string) bool { return strings.HasPrefix(p, dir) })
}

// inUse returns the trees of classes in which a program of the image uses a file, which a script,
// a variable, a link or an own file of the image names, or which have an environment of Python (PEP 405:
// pyvenv.cfg): the rest of such a tree may be needed, too.
func (f *finder) inUse(classes []*Class) living {
	l := living{trees: map[string]bool{}}
	add := func(p string) {
		for _, c := range classes {
			if c.has(p) {
				l.trees[c.tree(p)] = true
			}
		}
	}
	// mention does the same for a path in a text. If whole is set, the path of a directory stands for all in it.
	mention := func(p string, whole bool) {
		for _, p := range f.expand(p) {
			add(p)
			if whole && slices.ContainsFunc(classes, func(c *Class) bool { return c.isRoot(p) }) {
				l.dirs = append(l.dirs, p+"/")
			}
		}
	}
	for p := range f.used {
		add(strings.TrimPrefix(p, "/"))
	}
	reached := f.scripts()
	for e := range f.FS.All() {
		switch {
		case path.Base(e.Path) == "pyvenv.cfg":
			add(e.Path)
		case e.Type == layers.Symlink:
			if to, _, ok := f.FS.Lookup("/" + e.Path); ok && to.IsDir() && !isOwnLink(e.Path) {
				mention("/"+to.Path, true)
			}
		case path.Ext(e.Path) == ".pth":
			for _, p := range paths.FindAllString(string(e.Content), -1) {
				mention(p, true)
			}
		case isScript(e):
			own := reached["/"+e.Path] || isOwn(e)
			for _, p := range pathsIn(e.Content, nil) {
				mention(p, own)
			}
		}
	}
	for _, v := range f.Evidence.Config.Env().Vars {
		for _, p := range paths.FindAllString(v, -1) {
			mention(p, false)
		}
	}
	for _, p := range slices.Concat(f.own.paths, f.Evidence.Config.Volumes()) {
		mention(p, true)
	}
	f.installed(classes, add)
	return l
}

// expand returns the paths, without leading slashes, that a text may mean which begins in a home directory or ends in a pattern.
func (f *finder) expand(p string) []string {
	if i := strings.IndexAny(p, "*?[{$"); i >= 0 {
		p = path.Dir(p[:i] + "x")
	}
	rest, home := strings.CutPrefix(p, "~/")
	if !home {
		return []string{strings.TrimPrefix(path.Clean(p), "/")}
	}
	list := []string{path.Join("root", rest)}
	for e := range f.FS.Below("home") {
		if e.IsDir() && path.Dir(e.Path) == "home" {
			list = append(list, path.Join(e.Path, rest))
		}
	}
	return list
}

// isScript reports whether an entry is a script whose text was kept.
func isScript(e *layers.Entry) bool { return e.Shebang != "" || path.Ext(e.Path) == ".sh" }

// installed calls add with the packages and archives that the image's start may install: those that
// a word of it names, or that are in a directory which a word or a variable of an installer names.
func (f *finder) installed(classes []*Class, add func(p string)) {
	var below []string
	name := func(word string) {
		at := strings.IndexByte(word, '/')
		if at < 0 || at > 0 && word[at-1] != '=' {
			return
		}
		p := strings.TrimPrefix(path.Clean(word[at:]), "/")
		add(p)
		if i := strings.IndexAny(p, "*?[{$\x00"); i >= 0 {
			p = path.Dir(p[:i] + "x")
		}
		if p != "" && p != "." {
			below = append(below, p+"/")
		}
	}
	for _, line := range append(f.commands(), f.own.lines...) {
		if slices.ContainsFunc(line[:min(3, len(line))], func(w string) bool { return path.Base(w) == "rm" }) {
			continue
		}
		for _, w := range line {
			name(w)
		}
	}
	if dir := f.Evidence.Config.Env().Cwd; strings.HasPrefix(dir, "/tmp") || strings.HasPrefix(dir, "/var/tmp") {
		name(dir) // programs may open its files by their names alone
	}
	for _, v := range f.Evidence.Config.Env().Vars {
		if strings.HasPrefix(v, "PIP_") || strings.HasPrefix(v, "UV_") {
			for _, w := range strings.Fields(v) {
				name(w)
			}
		}
	}
	i := slices.IndexFunc(classes, func(c *Class) bool { return c.ID == Installers })
	if i < 0 || len(below) == 0 {
		return
	}
	for e := range f.FS.All() {
		if classes[i].has(e.Path) && slices.ContainsFunc(below, func(dir string) bool { return strings.HasPrefix(e.Path, dir) }) {
			add(e.Path)
		}
	}
}

// paths matches absolute paths in scripts and variables.
var paths = regexp.MustCompile(`/[\w.@%+/-]+`)

// mapped returns the real paths of the files that the replayed processes have mapped.
func mapped(ev *replay.Evidence) map[string]bool {
	set := map[string]bool{}
	for _, p := range ev.Processes {
		set[p.Program] = true
		for _, m := range p.Loaded {
			set[m.Real()] = true
		}
	}
	for _, s := range ev.Starts {
		for _, real := range s.Mapped {
			set[real] = true
		}
	}
	return set
}

// unreached returns the GPU libraries that nothing of the image gets, although a process has
// mapped another file of their SONAME: the path of each without its leading slash, with that
// of the other. It also adds to used the libraries in a class that another file of the image
// gets. A file gets a library if it needs it, names it in .note.dlopen, or has its name
// among its data and imports dlopen, wherever the loader would look from there. The error is
// that of ctx, or that the image takes too much work.
func (f *finder) unreached(ctx context.Context, classes []*Class) (map[string]string, error) {
	inUse := mapped(f.Evidence)
	copies := map[string]string{}
	wanted := map[string]bool{}    // SONAMEs of candidates
	candidate := map[string]bool{} // paths of copies, and of ELF files in a class
	of := map[string]string{}      // the first path in use, by SONAME
	for _, o := range f.Evidence.Files.Objects {
		if s := o.ELF.Soname; inUse[o.Path] && of[s] == "" {
			of[s] = o.Path
		}
	}
	for _, o := range f.Evidence.Files.Objects {
		s, p := o.ELF.Soname, strings.TrimPrefix(o.Path, "/")
		switch {
		case inUse[o.Path]:
			continue
		case s != "" && of[s] != "" && f.Packs.Family(s) != nil && !replay.IsProgram(o.ELF):
			copies[p] = of[s]
		case !slices.ContainsFunc(classes, func(c *Class) bool { return c.has(p) }):
			continue
		}
		candidate[o.Path], wanted[s], wanted[path.Base(p)] = true, true, true
	}
	if len(candidate) == 0 {
		return copies, nil
	}
	f.keepNamed(copies)
	f.keepOthers(copies)
	for _, o := range f.Evidence.Files.Objects {
		if err := cmp.Or(ctx.Err(), f.Evidence.Config.Spent()); err != nil {
			return nil, err
		}
		if candidate[o.Path] {
			continue
		}
		for _, real := range f.gets(o, wanted) {
			if candidate[real] {
				delete(copies, strings.TrimPrefix(real, "/"))
				f.used[real] = true
			}
		}
	}
	return copies, nil
}

// keepOthers keeps the copies that other processors get (glibc-hwcaps), and those in environments of Python of which no
// program was replayed, but a library of which needs them: it may be found by the sources of that environment.
func (f *finder) keepOthers(copies map[string]string) {
	idle := map[string]bool{} // environments with a copy
	for p, other := range copies {
		if strings.Contains(other, "/glibc-hwcaps/") || strings.Contains(p, "/glibc-hwcaps/") {
			delete(copies, p)
		} else if env := environmentOf("/" + p); env != "" {
			idle[env] = true
		}
	}
	for p := range f.used {
		delete(idle, environmentOf(p))
	}
	needed := map[string]bool{} // environment and SONAME
	for _, o := range f.Evidence.Files.Objects {
		if env := environmentOf(o.Path); idle[env] {
			names := slices.Clone(o.ELF.Needed)
			if o.ELF.Named != nil {
				names = append(names, o.ELF.Named.Names...)
			}
			for _, n := range names {
				needed[env+path.Base(n)] = true
			}
		}
	}
	for _, o := range f.Evidence.Files.Objects {
		if needed[environmentOf(o.Path)+o.ELF.Soname] {
			delete(copies, strings.TrimPrefix(o.Path, "/"))
		}
	}
}

// environmentOf returns the directory of Python's packages that a path is in, or "".
func environmentOf(p string) string {
	for _, dir := range []string{"/site-packages/", "/dist-packages/"} {
		if i := strings.Index(p, dir); i >= 0 {
			return p[:i+len(dir)]
		}
	}
	return ""
}

// keepNamed takes the copies off copies which a kept text names by their paths, or a source of Python
// or Node, a script that is no part of the start or a variable by their directories: a function that nothing
// calls when the program starts may open them.
func (f *finder) keepNamed(copies map[string]string) {
	reached := f.scripts()
	for e := range f.FS.All() {
		if len(e.Content) > 0 {
			f.keepText(copies, e.Content, isSource(e.Path) || path.Ext(e.Path) == ".pth" || isScript(e) && !reached["/"+e.Path])
		}
		if e.Type == layers.Symlink && !isOwnLink(e.Path) {
			f.keepLinked(copies, e)
		}
	}
	f.keepText(copies, []byte(strings.Join(f.Evidence.Config.Healthcheck(), " ")), true)
	for _, v := range f.Evidence.Config.Volumes() {
		for p := range copies {
			if replay.IsIn("/"+p, path.Clean(v)) {
				delete(copies, p)
			}
		}
	}
	for _, v := range f.Evidence.Config.Env().Vars {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(searchPaths, name) {
			continue // which the replay knows
		}
		for p := range copies {
			if to, _, ok := f.FS.Lookup(path.Clean(value)); ok && strings.HasPrefix(value, "/") && (to.Path == p || to.Path == path.Dir(p) || strings.HasPrefix(p, to.Path+"/") && !packs.MatchAny(homes, to.Path)) {
				delete(copies, p)
			}
		}
	}
}

// keepLinked takes the copies off copies that are below a directory to which a symbolic link from elsewhere leads: a
// program may have that path. The directories of the system have second names, too.
func (f *finder) keepLinked(copies map[string]string, e *layers.Entry) {
	to, _, ok := f.FS.Lookup("/" + e.Path)
	if !ok || !to.IsDir() || packs.MatchAny(homes, to.Path) {
		return
	}
	for p := range copies {
		if strings.HasPrefix(p, to.Path+"/") && !strings.HasPrefix(e.Path, to.Path+"/") {
			delete(copies, p)
		}
	}
}

// searchPaths are variables with directories of the loader, of linkers, shells and CUDA.
var searchPaths = []string{"LD_LIBRARY_PATH", "LIBRARY_PATH", "PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "LD_PRELOAD"}

// keepText takes the copies off copies that a text names by their paths, or, if it is a source, by their directories.
func (f *finder) keepText(copies map[string]string, text []byte, source bool) {
	if bytes.Contains(text, []byte(".so")) {
		for _, name := range libraryPaths.FindAll(text, -1) {
			if to, _, ok := f.FS.Lookup(string(name)); ok { // through links such as /usr/local/cuda
				delete(copies, to.Path)
			}
		}
	}
	if !source {
		return
	}
	for p := range copies {
		if ends(text, "/"+path.Dir(p)) {
			delete(copies, p)
		}
	}
}

// libraryPaths matches absolute paths of libraries.
var libraryPaths = regexp.MustCompile(`/[\w.@%+/-]*\.so[.\d]*`)

// isSource reports whether a file is a source of Python or Node.
func isSource(p string) bool {
	switch path.Ext(p) {
	case ".py", ".js", ".cjs", ".mjs":
		return true
	}
	return false
}

// ends reports whether a text has a path that ends with dir, perhaps with a slash, or goes on from there with an unknown
// name, which an expression adds.
func ends(text []byte, dir string) bool {
	for {
		i := bytes.Index(text, []byte(dir))
		if i < 0 {
			return false
		}
		text = text[i+len(dir):]
		if len(text) == 0 || strings.IndexByte("\"'`:,;) \n\x00", text[0]) >= 0 {
			return true
		}
		if text[0] == '/' && (len(text) == 1 || strings.IndexByte("\"'`:,;) \n\x00%{$*?[", text[1]) >= 0) {
			return true
		}
	}
}

// gets returns the real paths of the files that a process has mapped which starts or opens an
// object, after it has also opened each of the wanted names that stand in the data of its
// objects.
func (f *finder) gets(o *replay.Object, wanted map[string]bool) []string {
	proc := f.process(o)
	if proc == nil {
		return nil
	}
	for i := 0; i < len(proc.Objects); i++ {
		m := proc.Objects[i]
		if m.Object == nil {
			continue
		}
		var names []string
		if m.Object.Named != nil {
			names = slices.Clone(m.Object.Named.Names)
		}
		for _, n := range m.Object.Dlopen {
			names = append(names, n.Soname...)
		}
		for _, name := range names {
			if wanted[path.Base(name)] {
				_, _ = proc.Dlopen(m, name) // a miss maps nothing
			}
		}
	}
	var list []string
	for _, m := range proc.Objects {
		list = append(list, m.Real())
	}
	return list
}

// process returns a process that starts or opens an object, or nil if no loader of the image
// can.
func (f *finder) process(o *replay.Object) *elfdeps.Process {
	l := o.Loader
	if l == nil {
		if l = f.Evidence.Loaders.Primary; l == nil {
			return nil
		}
	}
	if replay.IsProgram(o.ELF) {
		if proc, err := l.Trace(o.Path); err == nil {
			return proc
		}
		return nil
	}
	proc := f.Evidence.Loaders.ProgramFor(o.Path, l)
	_, _ = proc.Dlopen(nil, o.Path)
	return proc
}

// unusable returns the bytes of GPU code in a file that no GPU of the image takes, as slim
// overwrites them.
func (f *finder) unusable(e *layers.Entry) int64 {
	if len(f.GPUs) == 0 {
		return 0
	}
	return e.GPU().Spare(func(entries []gpucode.Entry) []bool { return f.tables.Needed(entries, f.GPUs) })
}

// unneededResources returns the files with kernels of TensorRT's builder that no GPU of the image
// needs. Of a directory stay those for each GPU, or where there is none all that may serve it, and
// all of them if that is none either: PTX serves every GPU.
func (f *finder) unneededResources() map[string]bool {
	byDir := map[string][]string{}
	for e := range f.FS.All() {
		if e.Type == layers.Regular && len(f.GPUs) > 0 && gpucode.Resource(path.Base(e.Path)) != "" {
			byDir[path.Dir(e.Path)] = append(byDir[path.Dir(e.Path)], e.Path)
		}
	}
	unneeded := map[string]bool{}
	for _, files := range byDir {
		needed := map[string]bool{}
		for _, arch := range f.GPUs {
			for _, p := range neededResources(files, arch) {
				needed[p] = true
			}
		}
		for _, p := range files {
			unneeded[p] = !needed[p] && gpucode.Resource(path.Base(p)) != "ptx"
		}
	}
	return unneeded
}

// neededResources returns those of a directory's files with kernels that one GPU needs.
func neededResources(files []string, arch uint32) []string {
	for _, needs := range []func(resource string) bool{
		func(r string) bool { return strings.TrimRight(r, "af") == fmt.Sprint(arch) },
		func(r string) bool { return r != "ptx" && targets.ServesBuilder(r, arch) },
	} {
		list := slices.DeleteFunc(slices.Clone(files), func(p string) bool { return !needs(gpucode.Resource(path.Base(p))) })
		if len(list) > 0 {
			return list
		}
	}
	return files
}

// hardLinked returns the paths that hard links of other layers lead to, in whichever layer they are.
func hardLinked(read []*layers.Layer) map[string]bool {
	kept := map[string]bool{}
	for _, l := range read {
		for _, e := range l.Entries {
			if e.Type == layers.HardLink {
				kept[e.Link] = true
			}
		}
	}
	return kept
}

// linked returns the paths to which the image's symbolic links from other directories lead.
// CUDA's own links, which go with its files or name its directory, do not make them needed,
// nor does a second name of a directory that is not all in a class, such as /lib for /usr/lib.
func linked(fsys *layers.FS, classes []*Class) map[string]bool {
	kept := map[string]bool{}
	for e := range fsys.All() {
		if e.Type != layers.Symlink || isOwnLink(e.Path) {
			continue
		}
		to, _, ok := fsys.Lookup("/" + e.Path)
		if !ok || to.Path == "" || path.Dir(to.Path) == path.Dir(e.Path) {
			continue
		}
		if !to.IsDir() || slices.ContainsFunc(classes, func(c *Class) bool { return c.has(to.Path) }) {
			kept[to.Path] = true
		}
	}
	return kept
}

// ownLinks are the beginnings of CUDA's links, and of those of update-alternatives.
var ownLinks = []string{"usr/local/cuda", "etc/alternatives/"}

func isOwnLink(p string) bool {
	return slices.ContainsFunc(ownLinks, func(own string) bool { return strings.HasPrefix(p, own) })
}
