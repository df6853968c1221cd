package size

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// This file finds the distributions of Python that nothing of an image uses. It takes each text of the image that is of
// none of them, and each distribution that such a text names; then what these name, need or require; and so on. The
// rest is unused. There is none in an image whose program is not known whole.

// Package is an installed distribution that nothing of the image uses.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Dir     string `json:"dir"`   // of packages that has it
	Layer   int    `json:"layer"` // that has most of it, from 0
	Bytes   int64  `json:"bytes"` // unpacked
	Pull    int64  `json:"pull"`  // estimated
	// For is the one of the group that requires it, directly or not, or "" for one that no other of them requires.
	For string `json:"for,omitempty"`
	// Asked is the line of a file of the image that asks for it, "/app/requirements.txt:3", or "".
	Asked string `json:"asked,omitempty"`
}

// minUnused is the least number of unpacked bytes that a distribution has, with those that only it requires, to be
// worth a line.
const minUnused = 1 << 20

// ownText stands for all texts that are of no distribution.
const ownText = -1

// part is a distribution of an environment of the image's program.
type part struct {
	pkg      *inventory.Package
	files    []*layers.Entry // that only it has
	layers   []int           // of each
	requires []int
	stays    bool // its files cannot go
	groups   []string
	bytes    int64
	asked    string
}

// packages are the distributions of the environments of the image's program, and what leads from one to another.
type packages struct {
	f      *finder
	class  *Class
	parts  []*part
	sites  []string
	owner  map[string]int   // of files that RECORDs list, without leading slashes; shared for several
	trees  map[string]int   // of directories and modules of those without a RECORD
	names  map[string][]int // as mentions have them
	leads  map[int]map[int]bool
	may    []condition
	main   map[int]bool // the distributions that have a program of the start
	opaque string       // the file of the image's own that may import what its text does not say, or ""
}

// shared is the owner of a file that several RECORDs list.
const shared = -2

// condition is a way from a text to a distribution that is one only if a reached text has a needle.
type condition struct {
	from, to int
	needle   needle
}

// needle is a function of a source that somebody has to name so that it runs, a variable with texts of which somebody has to
// use other than for comparisons, or a group of entry points.
type needle struct{ kind, file, text string }

// unusedPackages returns the files of distributions that nothing uses, without leading slashes and with the number of
// each one's distribution, and the distributions: those that no other requires first, the largest first, each followed by
// those that it requires. If something may use any of them, it returns that alone.
func (p *packages) unusedPackages(ctx context.Context) (files map[string]int, list []Package, by string, err error) {
	p.know()
	if !p.forget() {
		return nil, nil, "", nil
	}
	if err := p.read(ctx); err != nil || p.opaque != "" {
		return nil, nil, p.opaque, err
	}
	hits, err := p.readNeedles(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	files, list = p.unused(hits)
	return files, list, "", nil
}

// sums returns distributions with the bytes of their files.
func (f *finder) sums(list []Package, files []File) []Package {
	for _, file := range files {
		one := &list[f.unused[strings.TrimPrefix(file.Path, "/")]]
		one.Bytes, one.Pull = one.Bytes+file.Bytes, one.Pull+file.Pull
	}
	return list
}

// rest returns the empty files and the links of the distributions that go.
func (f *finder) rest() (list []File) {
	for e, layer := range f.FS.All() {
		if _, ok := f.unused[e.Path]; ok && (e.Type == layers.Symlink || e.Size == 0) {
			list = append(list, File{Path: "/" + e.Path, Layer: layer})
		}
	}
	slices.SortStableFunc(list, func(a, b File) int { return cmp.Compare(a.Layer, b.Layer) })
	return list
}

// Runs reports whether a process is the import of a framework that is among the group's packages, or runs a program of one:
// without them there is no such process.
func (g *Group) Runs(p *replay.Process) bool {
	if g == nil || g.Class == nil || g.ID != UnusedPackages {
		return false
	}
	return slices.ContainsFunc(g.Files, func(f File) bool {
		return f.Path == p.Program || p.In != nil && strings.HasPrefix(f.Path, p.In.Home+"/")
	})
}

// findParts returns the distributions of the environments of the image's program, or nil if the program is not
// known whole, or there are none that could go.
func (f *finder) findParts(class *Class) *packages {
	if f.Read == nil || !f.isWhole() {
		return nil
	}
	inv := f.Evidence.Packages.Inventory()
	p := &packages{f: f, class: class, owner: map[string]int{}, trees: map[string]int{}, names: map[string][]int{}, leads: map[int]map[int]bool{}, main: map[int]bool{}}
	for _, py := range inv.Pythons {
		if slices.ContainsFunc(f.Evidence.Starts, func(s *replay.Start) bool { return isOfStart(s) && path.Dir(s.Python) == path.Join(py.Prefix, "bin") }) {
			p.sites = append(p.sites, py.Sites...)
		}
	}
	for _, pkg := range inv.Packages {
		if pkg.Kind == inventory.Wheel && slices.Contains(p.sites, pkg.Dir) {
			p.parts = append(p.parts, &part{pkg: pkg})
		}
	}
	if len(p.parts) == 0 || len(inv.Unread) > 0 {
		return nil
	}
	p.own()
	p.nameAll()
	if !slices.ContainsFunc(p.parts, func(one *part) bool { return !one.stays && one.bytes > 0 }) {
		return nil
	}
	return p
}

// isOfStart reports whether a program of Python is one of the image's start.
func isOfStart(s *replay.Start) bool { return !s.Node && s.Package == "" && s.Folder == nil }

// isWhole reports whether the programs of the image's start were followed to their ends, and one of them is a
// program of Python.
func (f *finder) isWhole() bool {
	s := f.Evidence.Started
	if s == nil || s.Problem != nil || s.Absent != nil || s.AbsentScript != nil || len(s.Unknown) > 0 || len(f.FS.Skipped) > 0 {
		return false
	}
	starts, programs := 0, 0
	for _, st := range f.Evidence.Starts {
		switch {
		case st.Folder != nil:
			return false // of modules that users add
		case isOfStart(st):
			starts++
			if st.Broken != "" || st.Tree == nil || st.Killed || slices.ContainsFunc(st.Failures, func(fail replay.StartFailure) bool { return fail.Ends || fail.Caught == "" }) {
				return false // what it lacks may be mounted, and import others
			}
		}
	}
	for i := range s.Programs {
		p := &s.Programs[i]
		for _, a := range append(slices.Clone(p.Args), p.Path, p.File, p.Dir) {
			if !startup.Known(a) {
				return false
			}
		}
		dirs := append(strings.Split(p.Env["PYTHONPATH"], ":"), p.Dir)
		if p.Python != nil && p.Python.File != "" {
			dirs = append(dirs, path.Dir(p.Python.File))
		}
		for _, dir := range dirs {
			if _, _, ok := f.FS.Lookup(path.Clean("/" + dir)); dir != "" && (!ok || f.Evidence.Config.IsMount(dir)) {
				return false // modules of users
			}
		}
		switch p.Kind {
		case startup.KindShell:
			if p.File == "" {
				return false
			}
		case startup.KindJava:
			return false
		case startup.KindPython:
			programs++
			if py := p.Python; py == nil || py.Stdin || py.File == "" && py.Module == "" && py.Code == "" && len(py.Imports) == 0 {
				return false
			}
		}
	}
	return starts > 0 && programs > 0 && starts >= programs
}

// own finds the files of each distribution.
func (p *packages) own() {
	for i, one := range p.parts {
		record, _, ok := p.f.FS.Lookup(path.Join(path.Dir(one.pkg.Path), "RECORD"))
		if !ok || len(record.Content) == 0 {
			one.stays = true
			for _, m := range one.pkg.Modules() {
				p.take(p.trees, path.Join(one.pkg.Dir, m)[1:], i)
				p.take(p.trees, path.Join(one.pkg.Dir, m)[1:]+".py", i)
			}
			p.take(p.trees, path.Dir(one.pkg.Path)[1:], i)
			continue
		}
		r := csv.NewReader(bytes.NewReader(record.Content))
		r.FieldsPerRecord, r.ReuseRecord = -1, true
		for {
			row, err := r.Read()
			if err != nil {
				one.stays = one.stays || err != io.EOF
				break
			}
			file := row[0]
			if !path.IsAbs(file) {
				file = path.Join(one.pkg.Dir, file)
			}
			if file = strings.TrimPrefix(path.Clean(file), "/"); file != "" {
				p.take(p.owner, file, i)
			}
		}
		installer, _, ok := p.f.FS.Lookup(path.Join(path.Dir(one.pkg.Path), "INSTALLER"))
		if ok && slices.Contains(otherInstallers, strings.TrimSpace(string(installer.Content))) || strings.HasPrefix(one.pkg.Dir, "/usr/lib/python3/") {
			one.stays = true
		}
	}
	for e, layer := range p.f.FS.All() {
		i := p.ownerOf(e.Path)
		if i < 0 && e.Type == layers.Symlink {
			if to, _, ok := p.f.FS.Lookup("/" + e.Path); ok {
				p.stay(to)
			}
		}
		if i < 0 || e.IsDir() {
			continue
		}
		one := p.parts[i]
		one.files, one.layers = append(one.files, e), append(one.layers, layer)
		one.bytes += e.Size
		one.stays = one.stays || p.f.isLinked(e.Path) || e.Fault != "" || packs.MatchAny(p.class.Except, e.Path) || path.Ext(e.Path) == ".pth" || path.Base(e.Path) == "sitecustomize.py"
	}
}

// stay keeps the distributions that have a file, or all files in a directory below one of packages.
func (p *packages) stay(e *layers.Entry) {
	if i := p.ownerOf(e.Path); i >= 0 {
		p.parts[i].stays = true
	}
	if !e.IsDir() || environmentOf("/"+e.Path+"/") == "/"+e.Path+"/" {
		return
	}
	for file, i := range p.owner {
		if i >= 0 && strings.HasPrefix(file, e.Path+"/") && environmentOf("/"+e.Path) != "" {
			p.parts[i].stays = true
		}
	}
}

// otherInstallers have packages of their own for distributions.
var otherInstallers = []string{"conda", "rpm", "debian", "dpkg", "apk"}

func (p *packages) take(of map[string]int, file string, i int) {
	if old, ok := of[file]; ok && old != i {
		i = shared
	}
	of[file] = i
}

// ownerOf returns the distribution that has a file, without its leading slash, or ownText.
func (p *packages) ownerOf(file string) int {
	if i, ok := p.owner[file]; ok {
		return max(i, ownText)
	}
	if !slices.ContainsFunc(p.sites, func(site string) bool { return strings.HasPrefix(file, site[1:]+"/") }) {
		return ownText
	}
	if dir, base := path.Split(file); path.Base(dir) == "__pycache__" {
		module, _, _ := strings.Cut(base, ".")
		if i, ok := p.owner[path.Join(path.Dir(path.Clean(dir)), module+".py")]; ok {
			return max(i, ownText)
		}
	}
	for at := file; at != "."; at = path.Dir(at) {
		if i, ok := p.trees[at]; ok {
			return max(i, ownText)
		}
	}
	return ownText
}

// isLinked reports whether a link leads to a path, or to a directory above it.
func (f *finder) isLinked(p string) bool {
	for ; p != "."; p = path.Dir(p) {
		if f.hard[p] || f.kept[p] {
			return true
		}
	}
	return false
}

// nameAll finds the names by which texts may mean a distribution: its own, its modules, the parts of its namespaces that only it
// has, its programs and its libraries.
func (p *packages) nameAll() {
	only := map[string]int{} // of the first parts of paths in a directory of packages
	for i, one := range p.parts {
		for _, e := range one.files {
			rest, ok := strings.CutPrefix(e.Path, one.pkg.Dir[1:]+"/")
			for at := 0; ok && at < len(rest); {
				next := strings.IndexByte(rest[at:], '/')
				if next < 0 {
					next = len(rest) - at
				}
				at += next
				p.take(only, rest[:at], i)
				at++
			}
		}
	}
	byFile := map[string][]int{}
	for i, one := range p.parts {
		p.name(i, one.pkg.Name)
		for _, m := range one.pkg.Modules() {
			if only[m] == i || only[m+".py"] == i {
				p.name(i, m)
			}
		}
		for _, e := range one.files {
			base := path.Base(e.Path)
			if e.Object != nil {
				byFile[base] = append(byFile[base], i)
				if s := e.Object.Soname; s != "" && s != base {
					byFile[s] = append(byFile[s], i)
				}
				if strings.HasPrefix(base, "lib") {
					p.name(i, stemOf(base))
				}
			}
			rest, ok := strings.CutPrefix(e.Path, one.pkg.Dir[1:]+"/")
			if !ok {
				p.name(i, base) // a program
				continue
			}
			for at := 0; at < len(rest); at++ {
				next := strings.IndexByte(rest[at:], '/')
				if next < 0 {
					next = len(rest) - at
				}
				if only[rest[:at+next]] == i {
					name, _, _ := strings.Cut(rest[at:at+next], ".")
					if !strings.Contains(rest[at:at+next], ".dist-info") && !strings.HasPrefix(name, "__") {
						p.name(i, name)
					}
					break
				}
				at += next
			}
		}
	}
	for i, one := range p.parts {
		for _, line := range one.pkg.Requires {
			name, _, _ := strings.Cut(line, " ")
			if r, err := inventory.ParseRequirement(line); err == nil {
				name = r.Name
			}
			for j, other := range p.parts {
				if other.pkg.Name == inventory.Normalize(strings.TrimRight(name, ";")) && i != j {
					one.requires = append(one.requires, j)
				}
			}
		}
	}
	for _, o := range p.f.Evidence.Files.Objects {
		from := p.ownerOf(strings.TrimPrefix(o.Path, "/"))
		lists := [][]string{o.ELF.Needed, o.ELF.Auxiliary, o.ELF.Filter}
		if o.ELF.Named != nil {
			lists = append(lists, o.ELF.Named.Names)
		}
		for _, n := range o.ELF.Dlopen {
			lists = append(lists, n.Soname)
		}
		for _, list := range lists {
			for _, name := range list {
				for _, to := range byFile[path.Base(name)] {
					p.lead(from, to)
				}
			}
		}
	}
}

// name notes a name of a distribution, and its beginning up to each "_", which a text may go on from.
func (p *packages) name(i int, name string) {
	note := func(w string) {
		if len(w) > 1 && !slices.Contains(p.names[w], i) {
			p.names[w] = append(p.names[w], i)
		}
	}
	var whole string
	for w := range wordsOf(name) {
		if len(w) > len(whole) {
			whole = w
		}
	}
	note(whole)
	for at, c := range whole {
		if c == '_' && at >= 3 {
			note(whole[:at+1])
		}
	}
}

// lead notes that a text leads to a distribution.
func (p *packages) lead(from, to int) {
	if from == to {
		return
	}
	if p.leads[from] == nil {
		p.leads[from] = map[int]bool{}
	}
	p.leads[from][to] = true
}

// know notes what the replay and the config know: which distribution's files the start uses, and which those that
// the import of a distribution uses.
func (p *packages) know() {
	to := func(from int, file string) {
		if i := p.ownerOf(strings.TrimPrefix(file, "/")); i >= 0 {
			p.lead(from, i)
		}
	}
	ev := p.f.Evidence
	for _, s := range ev.Starts {
		from := ownText
		if s.Package != "" {
			for i, one := range p.parts {
				if one.pkg.Name == s.Package {
					from = i
				}
			}
		}
		for _, file := range append(filesOf(s), s.Mapped...) {
			to(from, file)
		}
	}
	for _, pr := range ev.Processes {
		from := p.ownerOf(strings.TrimPrefix(pr.Program, "/"))
		if pr.In != nil {
			if from = p.inHome(pr.In.Home); from == ownText {
				continue // no program of the start
			}
		}
		for _, m := range pr.Loaded {
			to(from, m.Real())
		}
	}
	texts := slices.Concat(ev.Config.Env().Vars, ev.Config.Healthcheck(), ev.Config.Volumes(), []string{ev.Started.Path})
	for i := range ev.Started.Programs {
		s := &ev.Started.Programs[i]
		texts = slices.Concat(texts, s.Args, []string{s.Path, s.File, s.Dir})
		for _, v := range s.Env {
			texts = append(texts, v)
		}
		for _, l := range s.Chain {
			texts = append(texts, l.What)
		}
		if py := s.Python; py != nil {
			texts = append(texts, py.Code, py.Module)
			texts = append(texts, py.Path...)
			for _, im := range py.Imports {
				texts = append(texts, im.Module, im.File)
			}
			if len(py.Imports) == 0 {
				p.main[p.ownerOf(strings.TrimPrefix(cmp.Or(py.File, s.File), "/"))] = true
				for _, i := range p.names[strings.SplitN(strings.ToLower(py.Module), ".", 2)[0]] {
					p.main[i] = true
				}
			}
		}
		to(ownText, s.Path)
		to(ownText, s.File)
	}
	delete(p.main, ownText)
	for _, t := range texts {
		for w := range wordsOf(t) {
			for _, i := range p.names[w] {
				p.lead(ownText, i)
			}
		}
	}
	for i := range p.main {
		p.lead(ownText, i)
	}
}

// forget drops the names of the distributions that are known to be reached, and reports whether others could go.
func (p *packages) forget() bool {
	reached := p.reach(nil)
	for name, list := range p.names {
		if list = slices.DeleteFunc(list, func(i int) bool { return reached[i] }); len(list) == 0 {
			delete(p.names, name)
		} else {
			p.names[name] = list
		}
	}
	var bytes int64
	for i, one := range p.parts {
		if !reached[i] {
			bytes += one.bytes
		}
	}
	return bytes >= minUnused
}

// inHome returns the distribution that has a framework.
func (p *packages) inHome(home string) int {
	for i, one := range p.parts {
		if slices.ContainsFunc(one.files, func(e *layers.Entry) bool { return strings.HasPrefix("/"+e.Path, home+"/") }) {
			return i
		}
	}
	return ownText
}

// filesOf returns the files of a program's imports.
func filesOf(s *replay.Start) (list []string) {
	if s.Tree == nil {
		return nil
	}
	nodes := append(s.Tree.Nodes[:0:0], s.Tree)
	for len(nodes) > 0 {
		n := nodes[len(nodes)-1]
		nodes = append(nodes[:len(nodes)-1], n.Nodes...)
		list = append(list, n.File)
	}
	return list
}

// noText are patterns of files in which no program finds the name of a module: lists of files and packages, what only people and
// compilers read, and data.
var noText = []string{
	"{proc,sys,dev,boot}/**", "var/{lib/dpkg,lib/apt,cache,log}/**", "usr/share/{doc,man,info,locale,zoneinfo,icons,fonts,licenses,terminfo,perl*,bash-completion,lintian}/**", "usr{,/local}/include/**",
	"etc/{ssl,fonts,terminfo,apt}/**", "**/.cache/{pip,uv,pypoetry}/**", "**/conda-meta/**", "opt/{conda,miniconda3}/pkgs/**", "**/.git/**",
	"**/{Dockerfile,Containerfile,LICENSE,LICENCE,NOTICE,AUTHORS,README,CHANGELOG,.dockerignore,.gitignore}*", "**/{docker-compose,compose}*.{yml,yaml}",
	"**/*.{md,rst,lock,dockerfile,csv,tsv,svg,css,html,map,png,jpg,jpeg,gif,ico,webp,ttf,otf,woff,woff2,pdf,whl,deb,rpm,pc,cmake,safetensors,gguf,npy,npz,parquet,arrow,wav,mp3,flac,mp4,mo,a,o,h,hpp,cuh,cu,pyi}",
	"**/{libpython*.so*,python[23].[0-9]*}",
	"**/*.dist-info/{METADATA,RECORD,WHEEL,INSTALLER,REQUESTED,top_level.txt,direct_url.json,licenses/**}", "**/*.egg-info/{PKG-INFO,SOURCES.txt,requires.txt,top_level.txt,dependency_links.txt}",
}

// noTextOf are those of files of distributions: tests, which only their developers run, and sources of what is compiled.
var noTextOf = []string{"**/{tests,test}/**/{test_*,conftest}.py", "**/*.{pyx,pxd}"}

// asks are patterns of files that ask for distributions.
var asks = []string{"**/{requirements,constraints,environment}*.{txt,in,yml,yaml}", "**/requirements/*.txt", "**/{pyproject.toml,setup.py,setup.cfg,Pipfile}"}

// stdlib matches the modules of Python itself.
var stdlib = regexp.MustCompile(`(^|/)lib(64)?/python[23]\.\d+/`)

// isText reports whether a file may name a module.
func (p *packages) isText(e *layers.Entry) bool {
	switch owner := p.ownerOf(e.Path); {
	case e.Size == 0 || packs.MatchAny(noText, e.Path) || owner >= 0 && packs.MatchAny(noTextOf, e.Path):
		return false
	case strings.HasSuffix(e.Path, "customize.py"):
		return true // Python imports sitecustomize and usercustomize
	case path.Ext(e.Path) == ".pyc":
		return !p.f.hasSource(e.Path)
	case stdlib.MatchString(e.Path) && environmentOf("/"+e.Path) == "":
		return owner >= 0
	case e.Object != nil:
		return e.Object.Modules != nil || replay.IsProgram(e.Object)
	case owner < 0:
		return true
	default:
		return e.Size <= maxPartText
	}
}

// maxPartText limits a text of a distribution that is read, in bytes: larger ones are data.
const maxPartText = 8 << 20

// read finds what the texts of the image lead to, and whether one of its own may lead anywhere.
func (p *packages) read(ctx context.Context) error {
	return p.f.readAll(ctx, p.isText, func(e *layers.Entry, r io.Reader) error {
		from := p.ownerOf(e.Path)
		mine := from < 0 && isOwn(e) || p.main[from]
		switch {
		case p.opaque != "":
			return nil
		case from < 0 && packs.MatchAny(asks, e.Path):
			return p.readAsked(e, r)
		case from < 0 && (packs.MatchAny(packed, e.Path) && isPlaceOfOwn(e.Path) || path.Ext(e.Path) == ".egg"):
			p.opaque = "/" + e.Path // its names are compressed
			return nil
		case path.Ext(e.Path) == ".pyc" && (p.main[from] || from < 0 && isPlaceOfOwn(e.Path)):
			p.opaque = "/" + e.Path // it may import what its constants do not name
			return nil
		case from < 0 && e.Object != nil && isPlaceOfOwn(e.Path):
			return p.readProgram(e, r)
		case e.Object != nil || !mine && path.Ext(e.Path) != ".py" && path.Base(e.Path) != "entry_points.txt":
			return p.readWords(from, r, e.Object == nil)
		}
		text, err := io.ReadAll(io.LimitReader(r, maxPartText))
		if err != nil {
			return err
		}
		if isPython(e) && mine {
			if why := opaqueIn(text); why != "" {
				p.opaque = fmt.Sprintf("/%s (%s)", e.Path, why)
				return nil
			}
		}
		switch {
		case from < 0 || path.Ext(e.Path) != ".py":
			if path.Base(e.Path) == "entry_points.txt" && from >= 0 {
				p.parts[from].groups = groupsOf(text)
				p.leadGroups(from)
				return nil
			}
			if err := p.readWords(from, bytes.NewReader(text), true); err != nil {
				return err
			}
			return p.readWords(from, r, true) // what is left
		case p.anyName(text):
			for _, m := range mentionsIn(text, func(w string) bool { return p.names[w] != nil }) {
				for _, to := range p.names[m.name] {
					p.mention(from, to, e.Path, m)
				}
			}
		}
		return nil
	})
}

// compiled are words of programs and extension modules that may import what they do not name.
var compiled = []string{"import_module", "importlib", "pickle", "entry_points", "exec_module", "_meipass"}

// readProgram does as readWords with a program or extension module of the image's own.
func (p *packages) readProgram(e *layers.Entry, r io.Reader) error {
	return eachWord(r, func(w []byte) {
		if slices.Contains(compiled, string(w)) {
			p.opaque = fmt.Sprintf("/%s (%s)", e.Path, w)
		}
		for _, i := range p.names[string(w)] {
			p.lead(ownText, i)
		}
	})
}

// anyName reports whether a text has a name of a distribution.
func (p *packages) anyName(text []byte) (has bool) {
	_ = eachWord(bytes.NewReader(text), func(w []byte) { has = has || p.names[string(w)] != nil })
	return has
}

// isPython reports whether a file is a source of Python.
func isPython(e *layers.Entry) bool {
	return path.Ext(e.Path) == ".py" || path.Ext(e.Path) == ".ipynb" || strings.Contains(e.Shebang, "python")
}

// mention notes what a name in a source of a distribution leads to.
func (p *packages) mention(from, to int, file string, m mention) {
	switch {
	case from == to:
	case m.list != "":
		p.may = append(p.may, condition{from, to, needle{"list", file, m.list}})
	case m.under != "":
		p.may = append(p.may, condition{from, to, needle{"function", file, m.under}})
	default:
		p.lead(from, to)
	}
}

// leadGroups notes that a distribution whose name begins the name of a group of entry points may load them: spacy_factories.
func (p *packages) leadGroups(of int) {
	for _, g := range p.parts[of].groups {
		first := strings.FieldsFunc(strings.ToLower(g), func(r rune) bool { return strings.ContainsRune("._-:", r) })
		for i, one := range p.parts {
			if len(first) > 0 && (inventory.Normalize(one.pkg.Name) == first[0] || slices.Contains(one.pkg.Modules(), first[0])) {
				p.lead(i, of)
			}
		}
	}
}

// readWords notes the distributions that any word of a file names. In a pickle the letter c precedes the name of a module.
func (p *packages) readWords(from int, r io.Reader, pickled bool) error {
	return eachWord(r, func(w []byte) {
		for _, i := range p.names[string(w)] {
			p.lead(from, i)
		}
		if pickled && w[0] == 'c' {
			for _, i := range p.names[string(w[1:])] {
				p.lead(from, i)
			}
		}
	})
}

func eachWord(r io.Reader, found func(word []byte)) error {
	w := wordReader{found: found}
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		w.add(buf[:n])
		if err == io.EOF {
			w.end()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readAsked notes the lines of a file that asks for distributions.
func (p *packages) readAsked(e *layers.Entry, r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxOwn))
	if err != nil {
		return err
	}
	if yaml := path.Ext(e.Path); (yaml == ".yml" || yaml == ".yaml") && !bytes.Contains(text, []byte("dependencies:")) {
		return p.readWords(ownText, bytes.NewReader(text), false) // settings
	}
	table := ""
	for i, line := range bytes.Split(text, []byte("\n")) {
		if m := tomlTable.FindSubmatch(line); m != nil {
			table = string(m[1])
		}
		if path.Base(e.Path) == "pyproject.toml" && !asking.MatchString(table) {
			if err := p.readWords(ownText, bytes.NewReader(line), false); err != nil {
				return err
			}
			continue
		}
		m := askedLine.FindSubmatch(line)
		if m == nil {
			continue
		}
		for _, one := range p.parts {
			if one.asked == "" && one.pkg.Name == inventory.Normalize(string(m[1])) {
				one.asked = lineOf(e.Path, i+1)
			}
		}
	}
	return nil
}

// tomlTable matches the beginning of a table of pyproject.toml, and asking the names of those that installers, builders and developers
// read.
var (
	tomlTable = regexp.MustCompile(`^\s*\[+\s*([\w."' -]+?)\s*\]+`)
	asking    = regexp.MustCompile(`^(?:$|project|build-system|dependency-groups|tool\.(?:poetry|pdm|uv|hatch|setuptools|pixi|rye|flit|ruff|mypy|black|isort|pyright|basedpyright|coverage|pytest|pylint|flake8|bumpversion|commitizen|semantic_release|cibuildwheel|tox)\b)`)
)

// askedLine matches a line that asks for a distribution.
var askedLine = regexp.MustCompile(`^\s*(?:-\s+)?["']?([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?:[=<>~!;#,"'@]|$)`)

// groupsOf returns the groups of entry points of a distribution by which others may load it.
func groupsOf(text []byte) (list []string) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 2 && line[0] == '[' && line[len(line)-1] == ']' {
			if g := string(line[1 : len(line)-1]); g != "console_scripts" && g != "gui_scripts" {
				list = append(list, g)
			}
		}
	}
	return list
}

// found says in which texts a needle is, by [part] or ownText.
type found map[needle]map[int]bool

// readNeedles looks for the needles on which it hangs whether a distribution is reached.
func (p *packages) readNeedles(ctx context.Context) (found, error) {
	reached := p.reach(nil)
	hits := found{}
	byWord := map[string][]needle{}
	var groups []needle
	for i, one := range p.parts {
		for _, g := range one.groups {
			n := needle{"group", "", g}
			p.may = append(p.may, condition{ownText, i, n})
			if hits[n] == nil {
				groups, hits[n] = append(groups, n), map[int]bool{}
			}
		}
	}
	for _, c := range p.may {
		if w := strings.ToLower(c.needle.text); !reached[c.to] && hits[c.needle] == nil {
			byWord[w], hits[c.needle] = append(byWord[w], c.needle), map[int]bool{}
		}
	}
	if len(hits) == 0 {
		return hits, nil
	}
	return hits, p.f.readAll(ctx, p.isText, func(e *layers.Entry, r io.Reader) error {
		from := p.ownerOf(e.Path)
		if from < 0 && packs.MatchAny(asks, e.Path) {
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(r, maxPartText))
		if err != nil {
			return err
		}
		for _, n := range groups {
			if bytes.Contains(text, []byte(n.text)) && path.Base(e.Path) != "entry_points.txt" {
				hits[n][from] = true
			}
		}
		if from >= 0 && path.Ext(e.Path) == ".py" {
			any := computedName.Match(text)
			_ = eachWord(bytes.NewReader(text), func(w []byte) { any = any || byWord[string(w)] != nil })
			if !any {
				return nil
			}
			usesIn(e.Path, text, byWord, func(n needle) { hits[n][from] = true })
			return nil
		}
		return eachWord(io.MultiReader(bytes.NewReader(text), r), func(w []byte) {
			for _, n := range byWord[string(w)] {
				hits[n][from] = true
			}
		})
	})
}

// usesIn calls hit with the needles that a source uses: functions that it names outside of them, and variables that it uses
// other than for comparisons.
func usesIn(file string, text []byte, byWord map[string][]needle, hit func(n needle)) {
	byText, computed := hasAnyOf(text, importers), computedName.Match(text)
	walkSource(text, func(s *statement, under string) {
		t := s.tokens
		if t[0].text == "__all__" {
			return
		}
		if computed && slices.ContainsFunc(t, func(x token) bool { return x.kind == 'n' && x.text == "import" }) {
			for _, list := range byWord { // it may find a function of a module that it imports by a computed name
				for _, n := range list {
					if n.kind == "function" && slices.ContainsFunc(t, func(x token) bool { return x.text == moduleOf(n.file) }) {
						hit(n)
					}
				}
			}
		}
		for i, x := range t {
			if x.kind == 's' {
				if byWord[strings.ToLower(x.text)] == nil && strings.ContainsAny(x.text, " \n") {
					continue // a message
				}
				for w := range wordsOf(x.text) {
					for _, n := range byWord[w] {
						hit(n)
					}
				}
				continue
			}
			for _, n := range byWord[strings.ToLower(x.text)] {
				switch {
				case n.text != x.text:
				case n.kind == "list":
					if n.file == file && i == 0 && len(t) > 1 && (t[1].kind == '=' || t[1].kind == ':') || !byText && isTested(t, i) {
						continue
					}
					hit(n)
				case n.file != file || under != n.text && !(i > 0 && (t[i-1].text == "def" || t[i-1].text == "class")):
					hit(n)
				}
			}
		}
	})
}

// computedName matches a read of an attribute whose name is computed.
var computedName = regexp.MustCompile(`\bgetattr\(\s*[\w.]+\s*,\s*(?:[^"'\s]|[fF]["']|["'][^"'\n]*["']\s*[+%.])`)

// moduleOf returns the name of the module that a file is, without its package.
func moduleOf(file string) string {
	if dir, base := path.Split(file); base == "__init__.py" {
		return path.Base(dir)
	}
	return strings.TrimSuffix(path.Base(file), ".py")
}

// isTested reports whether a variable is only what `in` searches: x in self.NAME.
func isTested(t []token, i int) bool {
	for i >= 2 && t[i-1].kind == '.' && t[i-2].kind == 'n' {
		i -= 2
	}
	return i > 0 && t[i-1].text == "in" && !slices.ContainsFunc(t, func(x token) bool { return x.text == "for" })
}

// reach returns the distributions that the image's own texts lead to, and those that stay. Without hits, no condition
// holds.
func (p *packages) reach(hits found, stay ...int) map[int]bool {
	reached := map[int]bool{ownText: true}
	next := []int{ownText}
	add := func(i int) {
		if !reached[i] {
			reached[i], next = true, append(next, i)
		}
	}
	for i, one := range p.parts {
		if one.stays {
			add(i)
		}
	}
	for _, i := range stay {
		add(i)
	}
	for len(next) > 0 {
		for len(next) > 0 {
			i := next[len(next)-1]
			next = next[:len(next)-1]
			for to := range p.leads[i] {
				add(to)
			}
			if i >= 0 {
				for _, to := range p.parts[i].requires {
					add(to)
				}
			}
		}
		for _, c := range p.may {
			if !reached[c.from] || reached[c.to] {
				continue
			}
			for in := range hits[c.needle] {
				if reached[in] && !(c.needle.kind == "group" && in == c.to) {
					add(c.to)
				}
			}
		}
	}
	return reached
}

// unused returns the distributions that are not reached, and their files.
func (p *packages) unused(hits found) (map[string]int, []Package) {
	var stay []int
	for {
		reached := p.reach(hits, stay...)
		var roots []int
		for i := range p.parts {
			if !reached[i] && !slices.ContainsFunc(p.parts, func(one *part) bool {
				return !reached[p.indexOf(one)] && one != p.parts[i] && slices.Contains(one.requires, i)
			}) {
				roots = append(roots, i)
			}
		}
		of := map[int]int{} // the root of each
		take := func(root int) {
			for next := []int{root}; len(next) > 0; {
				i := next[0]
				next = next[1:]
				if _, ok := of[i]; ok || reached[i] {
					continue
				}
				of[i] = root
				next = append(next, p.parts[i].requires...)
			}
		}
		for _, r := range roots {
			take(r)
		}
		for i := range p.parts { // those that require each other
			if _, ok := of[i]; !ok && !reached[i] {
				take(i)
			}
		}
		bytes := map[int]int64{}
		for i, r := range of {
			bytes[r] += p.parts[i].bytes
		}
		small := len(stay)
		for _, r := range slices.Sorted(maps.Keys(bytes)) {
			if bytes[r] < minUnused {
				stay = append(stay, r)
			}
		}
		if len(stay) == small {
			return p.claims(of, bytes)
		}
	}
}

func (p *packages) indexOf(one *part) int { return slices.Index(p.parts, one) }

// claims returns the files and distributions that go, by the root of each.
func (p *packages) claims(of map[int]int, bytes map[int]int64) (map[string]int, []Package) {
	files := map[string]int{}
	list := slices.Collect(maps.Keys(of))
	slices.SortFunc(list, func(a, b int) int {
		isRoot := func(i int) int {
			if of[i] == i {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(bytes[of[b]], bytes[of[a]]), cmp.Compare(p.parts[of[a]].pkg.Name, p.parts[of[b]].pkg.Name), cmp.Compare(isRoot(a), isRoot(b)), cmp.Compare(p.parts[b].bytes, p.parts[a].bytes), cmp.Compare(a, b))
	})
	var packages []Package
	for _, i := range list {
		one := p.parts[i]
		q := Package{Name: one.pkg.Name, Version: one.pkg.Version, Dir: one.pkg.Dir, Asked: one.asked}
		if of[i] != i {
			q.For = p.parts[of[i]].pkg.Name
		}
		byLayer := map[int]int64{}
		for j, e := range one.files {
			files[e.Path] = len(packages)
			if byLayer[one.layers[j]] += e.Size; byLayer[one.layers[j]] > byLayer[q.Layer] {
				q.Layer = one.layers[j]
			}
		}
		packages = append(packages, q)
	}
	return files, packages
}
