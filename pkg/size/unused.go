package size

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"io"
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

// This file finds the distributions of Python that nothing of an image uses. It begins with the texts of the image that
// belong to no distribution. A distribution that one of these texts names is used. So is each one that a used distribution
// names, needs or requires. The others are unused. The file finds none in an image if it does not know a part of the program.

// Package is an installed package that nothing of the image uses.
type Package struct {
	Kind    string `json:"kind,omitempty"` // "deb" for one of dpkg, "" for a distribution of Python
	Name    string `json:"name"`
	Version string `json:"version"`
	Dir     string `json:"dir"`   // of packages that has it; of one of dpkg that of its largest file
	Layer   int    `json:"layer"` // that has most of it, from 0
	Bytes   int64  `json:"bytes"` // unpacked
	Pull    int64  `json:"pull"`  // estimated
	// For is the one of the group that requires it, directly or not, or "" for one that no other of them requires.
	For string `json:"for,omitempty"`
	// Asked is the line of a file of the image that asks for it, "/app/requirements.txt:3", or "".
	Asked string `json:"asked,omitempty"`
	// Keeps are the packages of libraries that one of dpkg requires and that stay, and Held says that apt removes it only if told
	// so (apt-mark hold).
	Keeps []string `json:"keeps,omitempty"`
	Held  bool     `json:"held,omitempty"`
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
	byName map[string][]int // by their own names
	owner  map[string]int   // of files that RECORDs list, without leading slashes; shared for several
	trees  map[string]int   // of directories and modules of those without a RECORD
	names  map[string][]int // as mentions have them
	leads  leads
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
		return f.Path == p.Program || p.In != nil && environmentOf(f.Path) != "" && strings.HasPrefix(f.Path, p.In.Home+"/")
	})
}

// findParts returns the distributions of the environments of the image's program, or nil if the program is not
// known whole, or there are none that could go.
func (f *finder) findParts(class *Class) *packages {
	if f.Read == nil || !f.isWhole() {
		return nil
	}
	inv := f.Evidence.Packages.Inventory()
	p := &packages{f: f, class: class, owner: map[string]int{}, trees: map[string]int{}, names: map[string][]int{}, leads: leads{}, main: map[int]bool{}}
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
	p.byName = map[string][]int{}
	for i, one := range p.parts {
		p.byName[one.pkg.Name] = append(p.byName[one.pkg.Name], i)
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

// idlers are programs that only keep a container alive, or start what others have configured.
var idlers = []string{"sleep", "tail", "cat", "true", "pause", "watch", "top", "tmux", "screen", "systemd", "init", "runsvdir", "s6-svscan", "catatonit"}

// isWhole reports whether the programs of the image's start were followed to their ends, and one of them is a
// program of Python.
func (f *finder) isWhole() bool {
	s := f.Evidence.Started
	return s != nil && f.isKnown() && slices.ContainsFunc(s.Programs, func(p startup.Program) bool { return p.Kind == startup.KindPython })
}

// isKnown reports whether each program of the image's start is known with its arguments, and those of Python were followed to
// their ends.
func (f *finder) isKnown() bool {
	s := f.Evidence.Started
	if s.Problem != nil || s.Absent != nil || s.AbsentScript != nil || len(s.Unknown) > 0 || len(f.FS.Skipped) > 0 {
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
		if packs.MatchAny(idlers, path.Base(p.Path)) && (p.Main || slices.ContainsFunc(p.Args, func(a string) bool { return a == "infinity" || a == "inf" || a == "-f" || a == "-F" })) {
			return false // people run programs in the container by hand
		}
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
	return starts >= programs
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
	led := map[string]bool{} // paths to which links of no distribution lead
	for e := range p.f.FS.All() {
		if e.Type == layers.Symlink && p.ownerOf(e.Path) < 0 {
			if to, _, ok := p.f.FS.Lookup("/" + e.Path); ok {
				led[to.Path] = true
			}
		}
	}
	for e, layer := range p.f.FS.All() {
		i := p.ownerOf(e.Path)
		if i < 0 || e.IsDir() {
			continue
		}
		one := p.parts[i]
		one.files, one.layers = append(one.files, e), append(one.layers, layer)
		one.bytes += e.Size
		one.stays = one.stays || p.f.isLinked(e.Path) || p.isLed(e.Path, led) || e.Fault != "" || packs.MatchAny(p.class.Except, e.Path) || path.Ext(e.Path) == ".pth" || path.Base(e.Path) == "sitecustomize.py"
	}
}

// isLed reports whether a path, or a directory above it below one of packages, is in a set.
func (p *packages) isLed(file string, set map[string]bool) bool {
	for ; file != "." && environmentOf("/"+file) != ""; file = path.Dir(file) {
		if set[file] {
			return true
		}
	}
	return false
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
			name := requiredName.FindString(line)
			for _, j := range p.byName[inventory.Normalize(name)] {
				if i != j {
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

// requiredName matches the name in a requirement, also in one with a URL.
var requiredName = regexp.MustCompile(`^[\w.-]+`)

// name notes a name of a distribution, those with lower numbers before others, and its beginning up to each "_", which a text may go on from.
func (p *packages) name(i int, name string) {
	note := func(w string) {
		if list := p.names[w]; len(w) > 1 && (len(list) == 0 || list[len(list)-1] != i) {
			p.names[w] = append(list, i)
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
func (p *packages) lead(from, to int) { p.leads.add(from, to) }

// leads has of each package, or of [ownText], the packages that it leads to, by their numbers.
type leads map[int]map[int]bool

func (l leads) add(from, to int) {
	if from == to {
		return
	}
	if l[from] == nil {
		l[from] = map[int]bool{}
	}
	l[from][to] = true
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
			if len(p.byName[s.Package]) == 0 {
				continue // of another environment
			}
			from = p.byName[s.Package][0]
		}
		for _, file := range append(filesOf(s), s.Mapped...) {
			to(from, file)
		}
	}
	for _, pr := range ev.Processes {
		from := p.ownerOf(strings.TrimPrefix(pr.Program, "/"))
		if pr.In != nil {
			if from = p.ownerOf(path.Join(pr.In.Home, "__init__.py")[1:]); from == ownText {
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
