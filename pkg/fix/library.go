package fix

import (
	"cmp"
	"context"
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// ours is the directory for libraries that belong to no other directory.
const ours = "/opt/imgcheck/lib"

// adds offers to add a missing library to a directory that the asking file searches
// already, else to /opt/imgcheck/lib at the end of LD_LIBRARY_PATH. The first candidate is
// the search path alone, so that a trial shows that it does not help.
func (m *maker) adds(ctx context.Context, f *lint.Finding) ([]candidate, error) {
	names := m.missingWith(f)
	if len(names) == 0 {
		return nil, nil
	}
	if removed(m.groups, f.Library) {
		return nil, nil
	}
	if why := m.notChosen(f); why != "" {
		m.stock.why[f.Library] = why
		return nil, nil
	}
	bring, err := m.bring(ctx, f, names)
	if bring == nil || err != nil {
		return nil, err
	}
	list := []candidate{{text: "a search path alone", steps: []Step{appendPath(ours)}}}
	for _, dir := range m.homes(f) {
		list = append(list, bring(dir))
	}
	if dir := m.wheelHome(f, names); dir != "" {
		list = append(list, bring(dir).and(" and in LD_LIBRARY_PATH", appendPath(dir)))
	}
	list = append(list, bring(ours).and(" and in LD_LIBRARY_PATH", appendPath(ours)))
	if m.hasCache() {
		list = append(list, bring(ours).and(" and in ld.so.cache", cached(ours)))
	}
	return list, nil
}

// removed reports whether an earlier step removed the library. Adding it back would replace
// its release, which is the job of newer; a stand-in has no known release.
func removed(groups []group, name string) bool {
	return slices.ContainsFunc(stepsOf(groups), func(s Step) bool { return s.Kind == "remove" && stem(s.Path) == stem(name) })
}

// notChosen returns the reason why adding a library would not help, or "": the asking file
// is one of several builds, its package selects one by the image's CUDA, and the file is
// built for another CUDA. A variable that selects a build overrides this.
func (m *maker) notChosen(f *lint.Finding) string {
	why := ""
	for _, c := range m.packs.Choices {
		if getVar(environment(m.now.img), c.Override) != "" {
			return ""
		}
	}
	for _, n := range f.NeededBy {
		if why = m.packs.OneOf(n.Path); why == "" {
			return ""
		}
	}
	if why == "" || len(f.Others) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, and making it loadable would not make the package select it: the image has %s", why, path.Base(f.Others[0].Path))
}

// homes returns the directories where a library belongs: those in which a wheel has installed
// it, by its RECORD, those that the asking file names and owns, and for a part of a library
// the directory of the asking part.
func (m *maker) homes(f *lint.Finding) []string {
	list := m.recorded(f.Library)
	for _, dir := range m.ownDirs(f) {
		if !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	for _, n := range f.NeededBy {
		dir := path.Dir(n.Path)
		if lib := provide.LibraryOf(plainName(n.Path)); lib != nil && lib == provide.LibraryOf(f.Library) && !covered(dir) && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}

// wheelHome returns the directory in which the only wheel with a library installs it, for the Python
// whose packages ask for it, or "". It is for libraries that no public image has: CUPTI, which lies
// on no search path of a Python, so that it has to be named there.
func (m *maker) wheelHome(f *lint.Finding, names []string) string {
	lib, cuda := provide.LibraryOf(f.Library), cmp.Or(provide.CUDAOf(names), m.cudaMajor(f))
	if m.Find != nil || m.inventory == nil || otherCUDA(lib, f.Library) || !slices.Contains(wheelCUDA, cuda) || len(lib.WheelNames(cuda)) != 1 || len(lib.Dirs) == 0 {
		return ""
	}
	if provide.ImageWith(names, cuda, m.cudaRelease(), m.versionsFor(f, lib, cuda)) != nil {
		return ""
	}
	_, dir := m.neededIn(lib, cuda, f)
	return dir
}

// and returns the candidate with one more step.
func (c candidate) and(text string, s Step) candidate {
	grow := c.grow
	c.text += text
	c.steps = append(slices.Clone(c.steps), s)
	if grow != nil {
		c.grow = func(res *lint.Result) *candidate {
			if more := grow(res); more != nil {
				and := more.and(text, s)
				return &and
			}
			return nil
		}
	}
	return c
}

// missingWith returns the finding's library and those missing ones that belong to the same
// release; none if the library cannot be added.
func (m *maker) missingWith(f *lint.Finding) []string {
	if !goodName(f.Library) || !strings.Contains(f.Library, ".so") {
		return nil
	}
	names := []string{f.Library}
	for _, k := range m.now.ledger.order {
		o := m.now.ledger.trouble[k].finding
		if o.Kind == packs.Missing && o.Rule == f.Rule && goodName(o.Library) && comeTogether(f.Library, o.Library) && !slices.Contains(names, o.Library) {
			names = append(names, o.Library)
		}
	}
	return names
}

// comeTogether reports whether two names belong to one release of a library.
func comeTogether(a, b string) bool {
	la, lb := provide.LibraryOf(a), provide.LibraryOf(b)
	return la != nil && la == lb && together(a, b)
}

// bring finds a library, or makes a stand-in if there is no source. It returns a function
// that returns the candidate to add it to dir; nil if there is no such library.
func (m *maker) bring(ctx context.Context, f *lint.Finding, names []string) (func(dir string) candidate, error) {
	asker := m.asker(f)
	if m.Find == nil {
		// A stand-in only for a library that some source has, and that would run here:
		// NVIDIA builds for glibc.
		if provide.LibraryOf(f.Library) == nil || asker == nil || m.glibc(asker) == "" {
			return nil, nil
		}
		cuda := cmp.Or(provide.CUDAOf(names), m.cudaMajor(f))
		return func(dir string) candidate { return standIn(dir, names, asker, cuda) }, nil
	}
	found, err := m.find(ctx, f, names)
	if found == nil || err != nil {
		return nil, err
	}
	objects, err := m.stock.objects(found)
	if err != nil {
		return nil, err
	}
	return func(dir string) candidate { return m.put(dir, names[0], found, objects) }, nil
}

// asker returns the ELF file that needs a finding's library, or nil if it is not known.
func (m *maker) asker(f *lint.Finding) *elfdeps.Object {
	for _, n := range f.NeededBy {
		if e, _, ok := m.now.img.FS.Lookup(n.Path); ok && e.Object != nil {
			return e.Object
		}
	}
	return nil
}

// standIn returns the candidate to add stand-ins under those names to dir. It grows by the
// libraries that they turn out to open, once the trial shows them. They need the libraries that the
// real ones for a major version of CUDA need.
func standIn(dir string, names []string, like *elfdeps.Object, cuda string) candidate {
	s := Step{Kind: "add", Library: names[0], Path: dir, StandIn: true}
	origin := "$ORIGIN" // as in NVIDIA's libraries of several files
	for _, n := range names {
		s.Files = append(s.Files, n)
		o := &elfdeps.Object{Runpath: &origin, Ident: like.Ident, Type: elf.ET_DYN, Machine: like.Machine, Version: like.Version, Dynamic: true, Soname: n, Needed: provide.NeededBy(n, cuda), Stack: elfdeps.StackNoExec}
		s.files = append(s.files, file{File: patch.File{Path: path.Join(dir, n), Mode: 0o644, Size: 4096}, object: o})
	}
	slices.Sort(s.Files)
	s.Text = fmt.Sprintf("add %s to %s", andMore(names), dir)
	return candidate{text: andMore(names) + " in " + dir, steps: []Step{s}, grow: func(res *lint.Result) *candidate {
		more := slices.Clone(names)
		for i := range res.Findings {
			f := &res.Findings[i]
			if f.Severity != packs.Note && f.Kind == packs.Missing && comeTogether(names[0], f.Library) && !slices.Contains(more, f.Library) {
				more = append(more, f.Library)
			}
		}
		if len(more) == len(names) {
			return nil
		}
		c := standIn(dir, more, like, cuda)
		return &c
	}}
}

// andMore returns names in few words.
func andMore(names []string) string {
	switch len(names) {
	case 1:
		return names[0]
	case 2:
		return names[0] + " and " + names[1]
	}
	return fmt.Sprintf("%s and %d libraries that come with it", names[0], len(names)-1)
}

// find searches the sources for the library of a finding. It returns nil if none has it,
// and leaves the reason in stock.why.
func (m *maker) find(ctx context.Context, f *lint.Finding, names []string) (*provide.Found, error) {
	w := provide.Want{Names: names, CUDA: m.cudaMajor(f), Arch: m.architecture(f)}
	if w.Arch != "amd64" && w.Arch != "arm64" {
		m.stock.why[f.Library] = "there are libraries for amd64 and arm64 only"
		return nil, nil
	}
	if o := m.asker(f); o != nil {
		w.Glibc = strings.TrimSuffix(m.glibc(o), "?")
	}
	if lib := provide.LibraryOf(names[0]); lib != nil {
		if w.Pin = m.Pins[lib.ID]; w.Pin == "" {
			w.Versions = m.versionsFor(f, lib, w.CUDA)
		}
	}
	return m.stock.ask(ctx, f.Library, w)
}

// architecture returns the image's architecture by its config, else by the asking file.
func (m *maker) architecture(f *lint.Finding) string {
	if c := m.base.Config; c != nil && c.Architecture != "" {
		return c.Architecture
	}
	o := m.asker(f)
	switch {
	case o == nil || o.Machine == elf.EM_X86_64:
		return "amd64"
	case o.Machine == elf.EM_AARCH64:
		return "arm64"
	}
	return o.Machine.String()
}

// glibc returns the release of the image's glibc, such as "2.36"; "?" if it is unknown, ""
// if the image has no glibc.
func (m *maker) glibc(o *elfdeps.Object) string {
	for _, interp := range elfdeps.Interpreters(o.Machine, o.Class()) {
		l, err := elfdeps.NewLoader(m.base.FS, interp, elfdeps.Env{})
		if err == nil && !l.Libc.Musl {
			return cmp.Or(l.Libc.Release, "?")
		}
	}
	return ""
}

// cudaMajor returns the major version of CUDA that the asking files are built for: that of
// the CUDA libraries that they name, or that their wheel requires, else the image's.
func (m *maker) cudaMajor(f *lint.Finding) string {
	var needed []string
	for _, n := range f.NeededBy {
		if e, _, ok := m.now.img.FS.Lookup(n.Path); ok && e.Object != nil {
			needed = append(needed, e.Object.Needed...)
		}
	}
	if cuda := provide.CUDAOf(needed); cuda != "" {
		return cuda
	}
	if cuda := m.requiredCUDA(f); cuda != "" {
		return cuda
	}
	major, _, _ := strings.Cut(getVar(environment(m.base), "CUDA_VERSION"), ".")
	return major
}

// requiredCUDA returns the major version of CUDA of which the wheels of the asking files
// require a finding's library, or "".
func (m *maker) requiredCUDA(f *lint.Finding) string {
	lib := provide.LibraryOf(f.Library)
	if lib == nil {
		return ""
	}
	for _, n := range f.NeededBy {
		for _, pkg := range wheelsOf(m.inventory, n.Path) {
			for _, line := range pkg.Requires {
				r, err := inventory.ParseRequirement(line)
				if err != nil {
					continue
				}
				for _, cuda := range []string{"11", "12", "13"} {
					if isWheelName(lib, cuda, r.Name) {
						return cuda
					}
				}
			}
		}
	}
	return ""
}

// put returns the candidate to add the files of a release to dir, with their links and
// their licence, except those that dir has already.
func (m *maker) put(dir, name string, found *provide.Found, objects map[string]*elfdeps.Object) candidate {
	title := strings.TrimSpace(cmp.Or(found.Library, name) + " " + found.Version)
	s := Step{Kind: "add", Library: name, Path: dir, Version: found.Version, Source: found.Source, Doubt: found.Doubt}
	for i := range found.Files {
		f := &found.Files[i]
		if m.there(dir, f) {
			continue
		}
		s.Files = append(s.Files, f.Name)
		s.files = append(s.files, file{File: patch.File{Path: path.Join(dir, f.Name), Mode: 0o644, Size: f.Size, Open: f.Open}, object: objects[f.Name]})
		for _, l := range f.Links {
			at := path.Join(dir, l)
			if e, _, ok := m.now.img.FS.Lstat(at); !ok || e.Link != f.Name {
				s.files = append(s.files, linkFile(at, f.Name))
			}
		}
	}
	if len(s.files) > 0 {
		s.found = found
	}
	if l := found.License; l != nil && s.found != nil {
		s.License, s.LicenseURL = l.Name, l.URL
		s.files = append(s.files, textFile(path.Join(dir, "LICENSE."+cmp.Or(found.Library, name)+".txt"), licenseText(found)))
	}
	text := func(source string) string {
		return fmt.Sprintf("add %s (%s) from %s to %s", title, plural(len(s.Files), "file"), source, dir)
	}
	s.Text, s.public = text(found.Source), text(found.Public)
	return candidate{text: title + " in " + dir, steps: []Step{s}}
}

// there reports whether dir already has a file of a release, by its name, size and SONAME.
func (m *maker) there(dir string, f *provide.File) bool {
	e, _, ok := m.now.img.FS.Lookup(path.Join(dir, f.Name))
	return ok && e.Object != nil && e.Size == f.Size && e.Object.Soname == f.Soname
}

// licenseText returns the licence that came with the files, else its name and address.
func licenseText(found *provide.Found) string {
	l := found.License
	if l.Text != "" {
		return l.Text
	}
	return fmt.Sprintf("%s\n%s\n\n%s\n", l.Name, l.URL, l.Terms)
}

// plural returns a number and the word for what it counts.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// replacements offers a complete copy of a library in place of a file that cannot be used.
func (m *maker) replacements(ctx context.Context, f *lint.Finding) ([]candidate, error) {
	if !goodName(f.Library) || provide.LibraryOf(f.Library) == nil {
		return nil, nil
	}
	bring, err := m.bring(ctx, f, []string{f.Library})
	if bring == nil || err != nil {
		return nil, err
	}
	var list []candidate
	for _, s := range subjects(f) {
		if dir := path.Dir(m.real(s)); offered(dir + "/x") {
			list = append(list, bring(dir))
		}
	}
	return list, nil
}

// newer offers a release that has the missing version or symbol: in place of the one that
// is found now, else in /opt/imgcheck/lib at the head of LD_LIBRARY_PATH.
func (m *maker) newer(ctx context.Context, f *lint.Finding) ([]candidate, error) {
	if m.Find == nil {
		return nil, nil
	}
	var list []candidate
	for _, name := range m.suspects(f) {
		bring, err := m.bring(ctx, f, []string{name})
		if err != nil {
			return nil, err
		}
		if bring == nil {
			continue
		}
		for _, dir := range m.whereIs(name) {
			list = append(list, bring(dir))
		}
		list = append(list, bring(ours).and(" and first in LD_LIBRARY_PATH", prependPath(ours)))
	}
	return list, nil
}

// suspects returns the GPU libraries of which a finding may need another release.
func (m *maker) suspects(f *lint.Finding) []string {
	if f.Library != "" {
		if provide.LibraryOf(f.Library) == nil {
			return nil
		}
		return []string{f.Library}
	}
	var list []string
	if o := m.asker(f); o != nil {
		for _, n := range o.Needed {
			if provide.LibraryOf(n) != nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// whereIs returns the directories that have a library and may be changed.
func (m *maker) whereIs(name string) []string {
	var list []string
	for e := range m.now.img.FS.All() {
		if path.Base(e.Path) != name || e.IsDir() {
			continue
		}
		if dir := path.Dir(m.real("/" + e.Path)); offered(dir+"/x") && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}
