package size

import (
	"cmp"
	"context"
	"debug/elf"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// This file finds the packages of dpkg of which each file is a library of CUDA or the like, and that the image does not
// use: no process maps one of the libraries, no other file needs or names one, and no package that stays depends on the package. Packages without
// files, such as cuda-libraries-12-4, go with what they require.

// debPackage is the Kind of a [Package] of dpkg.
const debPackage = "deb"

// deb is an installed package of dpkg.
type deb struct {
	name, version string
	requires      [][]string // its clauses, each with the names of alternatives
	held          bool
	stays         bool // it has other files than libraries, or dpkg does not remove it
	files         []*layers.Entry
	layers        []int // of each
	bytes         int64
}

// debs are the installed packages of dpkg, and what leads to those of libraries.
type debs struct {
	f      *finder
	all    []*deb
	byName map[string][]int // also by the names that they provide
	needs  [][]int          // the packages that each requires, all alternatives of each clause
	owner  map[string]int   // of libraries and links to them, by their paths without leading slashes
	byFile map[string][]int // by the base names of these and their SONAMEs
	leads  leads            // from ownText, or from one package of libraries to another
	opaque string           // the file that may open what its text does not say, or ""
}

// findUnused returns the packages that nothing uses, of Python and of dpkg, and the files of the image's own that may use any. It keeps
// the files of the packages.
func (f *finder) findUnused(ctx context.Context) (list []Package, by []string, err error) {
	f.unused = map[string]int{}
	add := func(files map[string]int, more []Package, file string, err error) error {
		for p, i := range files {
			f.unused[p] = len(list) + i
		}
		if list = append(list, more...); file != "" && !slices.Contains(by, file) {
			by = append(by, file)
		}
		return err
	}
	if f.parts != nil {
		err = add(f.parts.unusedPackages(ctx))
	}
	if f.debs != nil && err == nil {
		err = add(f.debs.unusedDebs(ctx))
	}
	return list, by, err
}

// unusedDebs returns the paths without leading slashes of the files that go, each with the number of its package, and the
// packages. If something may use any of them, it returns that alone.
func (d *debs) unusedDebs(ctx context.Context) (files map[string]int, list []Package, by string, err error) {
	if !d.could() {
		return nil, nil, "", nil
	}
	if err := d.read(ctx); err != nil || d.opaque != "" {
		return nil, nil, d.opaque, err
	}
	files, list = d.unused()
	return files, list, "", nil
}

// findDebs returns the packages of dpkg, or nil if the image's program is not known whole, or none of them could go.
func (f *finder) findDebs(ctx context.Context, class *Class) (*debs, error) {
	var hosts []string // libraries that open plug-ins of users
	for _, u := range class.Users {
		hosts = append(hosts, u.Libraries...)
	}
	if f.Read == nil || !f.isFollowed(hosts) {
		return nil, nil
	}
	idle := false // there is a library that no process maps
	for _, o := range f.Evidence.Files.Objects {
		idle = idle || !f.used[o.Path] && environmentOf(o.Path) == "" && f.Packs.Family(cmp.Or(o.ELF.Soname, path.Base(o.Path))) != nil
	}
	if !idle {
		return nil, nil
	}
	d := &debs{f: f, byName: map[string][]int{}, owner: map[string]int{}, byFile: map[string][]int{}, leads: leads{}}
	lists := map[string]string{}
	whole := true
	status := ""
	err := f.readAll(ctx, func(e *layers.Entry) bool { return e.Path == dpkgStatus || isDpkgList(e.Path) }, func(e *layers.Entry, r io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(r, maxDpkg+1))
		whole = whole && len(text) <= maxDpkg
		if e.Path == dpkgStatus {
			status = string(text)
		} else {
			lists[strings.TrimSuffix(path.Base(e.Path), ".list")] = string(text)
		}
		return err
	})
	if err != nil || !whole {
		return nil, err
	}
	owners := map[string]int{} // of all files that lists name; shared for several
	for block := range strings.SplitSeq(status, "\n\n") {
		d.add(block, lists, owners)
	}
	d.keepOthers(owners)
	libraries := 0
	for _, one := range d.all {
		if len(one.files) > 0 {
			libraries++
		}
	}
	if libraries == 0 || libraries > maxLibraryDebs || !d.require() {
		return nil, nil
	}
	if d.own(); len(d.byFile) > maxLibraryNames {
		return nil, nil
	}
	return d, nil
}

// Limits of an image's packages with libraries, of the names of these, and of the requirements of all packages.
const (
	maxLibraryDebs  = 1 << 10
	maxLibraryNames = 1 << 12
	maxDebRequires  = 1 << 20
)

// require finds the packages that each requires. It reports false if they are too many.
func (d *debs) require() bool {
	n := 0
	d.needs = make([][]int, len(d.all))
	for i, one := range d.all {
		for _, clause := range one.requires {
			for _, name := range clause {
				if n += len(d.byName[name]); n > maxDebRequires {
					return false
				}
				d.needs[i] = append(d.needs[i], d.byName[name]...)
			}
		}
	}
	return true
}

// The files of dpkg, and a bound of one, in bytes.
const (
	dpkgStatus = "var/lib/dpkg/status"
	maxDpkg    = 16 << 20
)

func isDpkgList(p string) bool {
	return path.Dir(p) == "var/lib/dpkg/info" && path.Ext(p) == ".list"
}

// interpreters are programs that run what somebody types if they have no other arguments.
var interpreters = []string{"irb", "ruby*", "R", "Rscript", "julia", "php*", "perl*", "lua*", "luajit*", "tclsh*", "wish*", "octave*", "gdb*", "ipython*", "ghci", "scala", "ocaml", "erl", "iex", "node", "deno", "bun"}

// isFollowed reports whether the programs of the image's start are known, whatever they are written in, and load none of
// some libraries.
func (f *finder) isFollowed(hosts []string) bool {
	s := f.Evidence.Started
	if s == nil || len(s.Programs) == 0 || !f.isKnown() || len(f.Evidence.Packages.Inventory().Unread) > 0 {
		return false
	}
	for _, st := range f.Evidence.Starts {
		if st.Node && st.Package == "" && (st.Broken != "" || st.Killed || slices.ContainsFunc(st.Failures, func(fail replay.StartFailure) bool { return fail.Ends })) {
			return false
		}
	}
	own := false
	for i := range s.Programs {
		switch p := &s.Programs[i]; p.Kind {
		case startup.KindShell:
		case startup.KindPython:
			own = true
			if py := p.Python; py.File == "" || environmentOf(py.File) != "" || !isPlaceOfOwn(py.File[1:]) || len(py.Imports) > 0 {
				return false // a program of a package may run any code
			}
		case startup.KindNode:
			own = true
			if p.File == "" {
				return false
			}
		default:
			if p.Path == "" || packs.MatchAny(interpreters, path.Base(p.Path)) || f.isOpen(p.Path, hosts) {
				return false // it runs what users type, or needs what they bring
			}
			own = own || f.isForGPU(p.Path)
		}
	}
	return own
}

// isForGPU reports whether a program is one of the image's own, or needs a GPU library: an image whose programs are all others is not for
// what they do.
func (f *finder) isForGPU(program string) bool {
	e, _, ok := f.FS.Lookup(program)
	i := slices.IndexFunc(f.Evidence.Files.Objects, func(o *replay.Object) bool { return ok && o.Path == "/"+e.Path })
	if i < 0 || isPlaceOfOwn(e.Path) {
		return i >= 0
	}
	proc := f.process(f.Evidence.Files.Objects[i])
	return proc != nil && slices.ContainsFunc(proc.Objects, func(m *elfdeps.Module) bool {
		return m.Object != nil && f.Packs.Family(m.Object.Soname) != nil
	})
}

// isOpen reports whether a program loads what its users bring: it lacks a library that is none of the driver's, opens libraries but
// names none, or loads one of hosts.
func (f *finder) isOpen(program string, hosts []string) bool {
	e, _, ok := f.FS.Lookup(program)
	i := slices.IndexFunc(f.Evidence.Files.Objects, func(o *replay.Object) bool { return ok && o.Path == "/"+e.Path })
	if i < 0 {
		return true
	}
	o := f.Evidence.Files.Objects[i]
	if n := o.ELF.Named; n != nil && len(n.Names) == 0 || slices.ContainsFunc(o.Misses, func(m *elfdeps.Error) bool { return !f.Packs.FromDriver(m.Name) }) {
		return true
	}
	proc := f.process(o)
	return proc == nil || slices.ContainsFunc(proc.Objects, func(m *elfdeps.Module) bool {
		return m.Object != nil && packs.MatchAny(hosts, m.Object.Soname)
	})
}

// add adds the package of a paragraph of dpkg's status (deb-control(5)) if it is installed.
func (d *debs) add(block string, lists map[string]string, owners map[string]int) {
	one := &deb{}
	arch, installed := "", false
	provides := ""
	for line := range strings.Lines(block) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "Package":
			one.name = value
		case "Version":
			one.version = value
		case "Architecture":
			arch = value
		case "Status":
			words := strings.Fields(value)
			installed = len(words) == 3 && words[2] == "installed"
			one.held = len(words) == 3 && words[0] == "hold"
		case "Essential", "Protected", "Important":
			one.stays = one.stays || value == "yes"
		case "Priority":
			one.stays = one.stays || value == "required" || value == "important"
		case "Provides":
			provides = value
		case "Depends", "Pre-Depends", "Recommends":
			for clause := range strings.SplitSeq(value, ",") {
				var names []string
				for name := range strings.SplitSeq(clause, "|") {
					names = append(names, debName(name))
				}
				one.requires = append(one.requires, names)
			}
		}
	}
	if one.name == "" || !installed {
		return
	}
	i := len(d.all)
	d.all = append(d.all, one)
	for name := range strings.SplitSeq(one.name+","+provides, ",") {
		d.byName[debName(name)] = append(d.byName[debName(name)], i)
	}
	list, ok := lists[one.name]
	if !ok {
		list, ok = lists[one.name+":"+arch]
	}
	one.stays = one.stays || !ok
	for line := range strings.Lines(list) {
		p := path.Clean(strings.TrimSpace(line))
		if p == "." || packs.MatchAny(documents, strings.TrimPrefix(p, "/")) {
			continue
		}
		e, layer, ok := d.f.FS.Lstat(p)
		if !ok {
			one.stays = true // its kind is not known
			continue
		}
		if e.IsDir() {
			continue
		}
		if old, ok := owners[e.Path]; ok && old != i {
			owners[e.Path], one.stays = shared, true
			if old >= 0 {
				d.all[old].stays = true
			}
			continue
		}
		owners[e.Path] = i
		one.files, one.layers = append(one.files, e), append(one.layers, layer)
	}
}

// documents are patterns of files of packages that no program reads.
var documents = []string{"usr/share/{doc,man,info,lintian,licenses,locale}/**"}

// debName returns the name in a relation: "libcublas-12-4 (>= 12.4.5.8)", "libc6:any".
func debName(relation string) string {
	name, _, _ := strings.Cut(strings.TrimSpace(relation), " ")
	name, _, _ = strings.Cut(name, "(")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// keepOthers keeps the packages that have other files than GPU libraries and links to them. Those of other processors stay as well:
// code of theirs may have a text in parts that are no bytes.
func (d *debs) keepOthers(owners map[string]int) {
	f := d.f
	for i, one := range d.all {
		for _, e := range one.files {
			at, _, ok := f.FS.Lookup("/" + e.Path)
			is := ok && at.Type == layers.Regular && at.Fault == "" && at.Object != nil && at.Object.Machine == elf.EM_X86_64 && f.family(at) != "" && !f.Packs.FromDriver(path.Base(at.Path)) && !replay.IsProgram(at.Object)
			one.stays = one.stays || !is || owners[at.Path] != i
		}
		if one.stays {
			one.files, one.layers = nil, nil
		}
	}
}

// own finds the libraries of packages, and what leads to them besides texts.
func (d *debs) own() {
	f := d.f
	for i, one := range d.all {
		for _, e := range one.files {
			d.owner[e.Path] = i
			one.bytes += e.Size
			names := []string{path.Base(e.Path)}
			if e.Object != nil && e.Object.Soname != "" && e.Object.Soname != names[0] {
				names = append(names, e.Object.Soname)
			}
			for _, name := range names {
				d.byFile[name] = append(d.byFile[name], i)
			}
		}
	}
	for p, i := range d.owner {
		if f.used["/"+p] || f.isLinked(p) {
			d.lead(ownText, i)
		}
	}
	for e := range f.FS.All() {
		if _, ok := d.owner[e.Path]; ok || e.Type != layers.Symlink {
			continue
		}
		if to, _, ok := f.FS.Lookup("/" + e.Path); ok {
			if i, ok := d.owner[to.Path]; ok {
				d.lead(ownText, i) // a name that only this link has, such as one of update-alternatives
			}
		}
	}
	for _, o := range f.Evidence.Files.Objects {
		from := d.ownerOf(strings.TrimPrefix(o.Path, "/"))
		lists := [][]string{o.ELF.Needed, o.ELF.Auxiliary, o.ELF.Filter}
		if o.ELF.Named != nil {
			lists = append(lists, o.ELF.Named.Names)
		}
		for _, n := range o.ELF.Dlopen {
			lists = append(lists, n.Soname)
		}
		for _, name := range slices.Concat(lists...) {
			for _, to := range d.byFile[path.Base(name)] {
				d.lead(from, to)
			}
		}
	}
}

// ownerOf returns the package of libraries that has a file, without its leading slash, or ownText.
func (d *debs) ownerOf(p string) int {
	if i, ok := d.owner[p]; ok {
		return i
	}
	return ownText
}

func (d *debs) lead(from, to int) { d.leads.add(from, to) }

// could reports whether packages of enough bytes are not reached yet.
func (d *debs) could() bool {
	var bytes int64
	reached := d.reach()
	for i, one := range d.all {
		if !reached[i] {
			bytes += one.bytes
		}
	}
	return bytes >= minUnused
}

// reach returns the packages that stay, and those that they lead to.
func (d *debs) reach() map[int]bool {
	reached := map[int]bool{ownText: true}
	next := []int{ownText}
	add := func(i int) {
		if !reached[i] {
			reached[i], next = true, append(next, i)
		}
	}
	for i, one := range d.all {
		if one.stays {
			add(i)
		}
	}
	for len(next) > 0 {
		i := next[len(next)-1]
		next = next[:len(next)-1]
		for to := range d.leads[i] {
			add(to)
		}
		if i >= 0 {
			for _, to := range d.needs[i] {
				add(to)
			}
		}
	}
	return reached
}

// unused returns the packages that are not reached, and their files: each that no other of them requires before those that it
// requires.
func (d *debs) unused() (map[string]int, []Package) {
	reached := d.reach()
	goes := d.without(reached)
	of, bytes := d.roots(goes)
	order := slices.Sorted(maps.Keys(goes))
	slices.SortStableFunc(order, func(a, b int) int {
		last := func(i int) int { return map[bool]int{true: 0, false: 1}[of[i] == i] }
		return cmp.Or(cmp.Compare(bytes[of[b]], bytes[of[a]]), cmp.Compare(d.all[of[a]].name, d.all[of[b]].name), cmp.Compare(last(a), last(b)), cmp.Compare(d.all[b].bytes, d.all[a].bytes))
	})
	files := map[string]int{}
	var list []Package
	for n, i := range order {
		one := d.all[i]
		q := Package{Kind: debPackage, Name: one.name, Version: one.version, Held: one.held}
		if of[i] != i {
			q.For = d.all[of[i]].name
		}
		for _, j := range d.needs[i] {
			if name := d.all[j].name; d.all[j].bytes > 0 && reached[j] && !slices.Contains(q.Keeps, name) {
				q.Keeps = append(q.Keeps, name)
			}
		}
		slices.Sort(q.Keeps)
		largest := int64(-1)
		for j, e := range one.files {
			files[e.Path] = n
			if e.Size > largest {
				largest, q.Layer, q.Dir = e.Size, one.layers[j], "/"+path.Dir(e.Path)
			}
		}
		list = append(list, q)
	}
	for n := range list { // a package without files is in the layer of what it requires
		if list[n].Dir == "" && n+1 < len(list) {
			list[n].Layer = list[n+1].Layer
		}
	}
	return files, list
}

// without returns the packages that go: those with libraries that are not reached, and those without files that require one.
func (d *debs) without(reached map[int]bool) map[int]bool {
	requiredBy := map[int][]int{}
	var next []int
	for i, one := range d.all {
		if reached[i] {
			continue
		}
		for _, j := range d.needs[i] {
			requiredBy[j] = append(requiredBy[j], i)
		}
		if one.bytes > 0 {
			next = append(next, i)
		}
	}
	goes := map[int]bool{}
	for ; len(next) > 0; next = next[1:] {
		if i := next[0]; !goes[i] {
			goes[i] = true
			next = append(next, requiredBy[i]...)
		}
	}
	return goes
}

// roots returns of each package that goes the one for which it is there, itself if no other requires it, and the bytes of
// all of one.
func (d *debs) roots(goes map[int]bool) (of map[int]int, bytes map[int]int64) {
	required := map[int]bool{}
	for i := range goes {
		for _, j := range d.needs[i] {
			required[j] = required[j] || i != j
		}
	}
	of, bytes = map[int]int{}, map[int]int64{}
	take := func(root int) {
		for next := []int{root}; len(next) > 0; next = next[1:] {
			i := next[0]
			if _, ok := of[i]; ok || !goes[i] {
				continue
			}
			of[i] = root
			bytes[root] += d.all[i].bytes
			next = append(next, d.needs[i]...)
		}
	}
	list := slices.Sorted(maps.Keys(goes))
	for _, i := range list {
		if !required[i] {
			take(i)
		}
	}
	for _, i := range list {
		take(i) // those that require each other
	}
	return of, bytes
}
