package fix

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// ours is the directory for libraries that have no place of their own.
const ours = "/opt/imgcheck/lib"

// adds bring a library that is not there to where the asking file looks already,
// else to a directory of ours at the end of LD_LIBRARY_PATH. That the path alone
// does not help is tried, not taken for granted.
func (p *planner) adds(ctx context.Context, f *lint.Finding) ([]candidate, error) {
	names := p.missingWith(f)
	if len(names) == 0 {
		return nil, nil
	}
	if p.removed(f.Library) {
		return nil, nil
	}
	if why := p.notChosen(f); why != "" {
		p.unfound[f.Library] = why
		return nil, nil
	}
	bring, err := p.bring(ctx, f, names)
	if bring == nil || err != nil {
		return nil, err
	}
	list := []candidate{{text: "a search path alone", steps: []Step{appendPath(ours)}}}
	for _, dir := range p.homes(f) {
		list = append(list, bring(dir))
	}
	list = append(list, bring(ours).and(" and in LD_LIBRARY_PATH", appendPath(ours)))
	if p.hasCache() {
		list = append(list, bring(ours).and(" and in ld.so.cache", cached(ours)))
	}
	return list, nil
}

// removed reports whether a step has removed a library: to add it is to have another
// release in its place, which is a kind of its own (newer), and of a stand-in
// nobody knows what it has.
func (p *planner) removed(name string) bool {
	return slices.ContainsFunc(stepsOf(p.groups), func(s Step) bool { return s.Kind == "remove" && stem(s.Path) == stem(name) })
}

// notChosen says why it would not help to bring a library: who asks is one of
// several builds of which one is chosen, by the CUDA that there is, and that is
// another than the one that it is built for. Where a variable chooses, it is what
// somebody wanted.
func (p *planner) notChosen(f *lint.Finding) string {
	why := ""
	for _, c := range p.packs.Choices {
		if getVar(environment(p.now.img), c.Override) != "" {
			return ""
		}
	}
	for _, n := range f.NeededBy {
		if why = p.packs.OneOf(n.Path); why == "" {
			return ""
		}
	}
	if why == "" || len(f.Others) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, and the image has %s: that it could be loaded would not have it chosen", why, path.Base(f.Others[0].Path))
}

// homes are the directories where a library belongs: those that the asking file
// names, and for a part of a library the one where the asking part lies.
func (p *planner) homes(f *lint.Finding) []string {
	list := p.ownDirs(f)
	for _, n := range f.NeededBy {
		dir := path.Dir(n.Path)
		if lib := provide.LibraryOf(plainName(n.Path)); lib != nil && lib == provide.LibraryOf(f.Library) && !covered(dir) && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}

// and is the candidate with one more step.
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

// missingWith are the names that are missing with that of a finding, of
// libraries that come together with it; none when it cannot be added.
func (p *planner) missingWith(f *lint.Finding) []string {
	if !goodName(f.Library) || !strings.Contains(f.Library, ".so") {
		return nil
	}
	names := []string{f.Library}
	for _, k := range p.now.ledger.order {
		o := p.now.ledger.trouble[k].finding
		if o.Kind == packs.Missing && o.Rule == f.Rule && goodName(o.Library) && comeTogether(f.Library, o.Library) && !slices.Contains(names, o.Library) {
			names = append(names, o.Library)
		}
	}
	return names
}

// comeTogether reports whether two names are of one release of a library.
func comeTogether(a, b string) bool {
	la, lb := provide.LibraryOf(a), provide.LibraryOf(b)
	return la != nil && la == lb && together(a, b)
}

// bring finds a library and tells how it is put into a directory; nil when there
// is none.
func (p *planner) bring(ctx context.Context, f *lint.Finding, names []string) (func(dir string) candidate, error) {
	asker := p.asker(f)
	if p.Find == nil {
		// Only what is known to be had somewhere is stood in for, and not where
		// it would not run: NVIDIA builds for glibc.
		if provide.LibraryOf(f.Library) == nil || asker == nil || p.glibc(asker) == "" {
			return nil, nil
		}
		return func(dir string) candidate { return p.standIn(dir, names, asker) }, nil
	}
	found, err := p.find(ctx, f, names)
	if found == nil || err != nil {
		return nil, err
	}
	objects, err := p.objects(found)
	if err != nil {
		return nil, err
	}
	return func(dir string) candidate { return p.put(dir, f.Library, found, objects) }, nil
}

// asker is the ELF file that asks for a finding's library, nil when it is not
// known.
func (p *planner) asker(f *lint.Finding) *elfdeps.Object {
	for _, n := range f.NeededBy {
		if e, _, ok := p.now.img.FS.Lookup(n.Path); ok && e.Object != nil {
			return e.Object
		}
	}
	return nil
}

// standIn puts libraries of those names that need nothing into a directory. What
// they turn out to open themselves comes along when the trial shows it.
func (p *planner) standIn(dir string, names []string, like *elfdeps.Object) candidate {
	s := Step{Kind: "add", Library: names[0], Path: dir, StandIn: true}
	origin := "$ORIGIN" // as NVIDIA's libraries that are several files have it
	for _, n := range names {
		s.Files = append(s.Files, n)
		o := &elfdeps.Object{Runpath: &origin, Ident: like.Ident, Type: elf.ET_DYN, Machine: like.Machine, Version: like.Version, Dynamic: true, Soname: n, Stack: elfdeps.StackNoExec}
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
		c := p.standIn(dir, more, like)
		return &c
	}}
}

func andMore(names []string) string {
	switch len(names) {
	case 1:
		return names[0]
	case 2:
		return names[0] + " and " + names[1]
	}
	return fmt.Sprintf("%s and %d libraries that come with it", names[0], len(names)-1)
}

// find asks the sources for the library of a finding. Nil is that none has it,
// and that is kept as the reason.
func (p *planner) find(ctx context.Context, f *lint.Finding, names []string) (*provide.Found, error) {
	w := provide.Want{Names: names, CUDA: p.cudaMajor(f), Arch: p.architecture(f)}
	if w.Arch != "amd64" && w.Arch != "arm64" {
		p.unfound[f.Library] = "there are libraries for amd64 and arm64 only"
		return nil, nil
	}
	if o := p.asker(f); o != nil {
		w.Glibc = strings.TrimSuffix(p.glibc(o), "?")
	}
	if lib := provide.LibraryOf(names[0]); lib != nil {
		if w.Pin = p.Pins[lib.ID]; w.Pin == "" {
			w.Versions = p.versionsFor(f, lib, w.CUDA)
		}
	}
	question := fmt.Sprint(w)
	if a, ok := p.answers[question]; ok {
		return a, nil
	}
	found, err := p.Find(ctx, w)
	var none *provide.NotFoundError
	if errors.As(err, &none) {
		p.unfound[f.Library] = err.Error()
		err = nil
	}
	if err != nil {
		return nil, err
	}
	p.answers[question] = found
	return found, nil
}

// architecture is the config's; where it says none, that of the file that asks.
func (p *planner) architecture(f *lint.Finding) string {
	if c := p.base.Config; c != nil && c.Architecture != "" {
		return c.Architecture
	}
	o := p.asker(f)
	switch {
	case o == nil || o.Machine == elf.EM_X86_64:
		return "amd64"
	case o.Machine == elf.EM_AARCH64:
		return "arm64"
	}
	return o.Machine.String()
}

// glibc is the release of the image's glibc ("2.36"), empty when it has none.
func (p *planner) glibc(o *elfdeps.Object) string {
	for _, interp := range elfdeps.Interpreters(o.Machine, o.Class()) {
		l, err := elfdeps.NewLoader(p.base.FS, interp, elfdeps.Env{})
		if err == nil && !l.Libc.Musl {
			return cmp.Or(l.Libc.Release, "?")
		}
	}
	return ""
}

// cudaMajor is the major version of CUDA that those who ask for a library are
// built for: that of CUDA's libraries that they name, else the image's.
func (p *planner) cudaMajor(f *lint.Finding) string {
	var needed []string
	for _, n := range f.NeededBy {
		if e, _, ok := p.now.img.FS.Lookup(n.Path); ok && e.Object != nil {
			needed = append(needed, e.Object.Needed...)
		}
	}
	if cuda := provide.CUDAOf(needed); cuda != "" {
		return cuda
	}
	major, _, _ := strings.Cut(getVar(environment(p.base), "CUDA_VERSION"), ".")
	return major
}

// objects reads what a loader reads of the files of a release, each once.
func (p *planner) objects(found *provide.Found) (map[string]*elfdeps.Object, error) {
	if o := p.read[found]; o != nil {
		return o, nil
	}
	out := map[string]*elfdeps.Object{}
	for i := range found.Files {
		f := &found.Files[i]
		o, err := readObject(f)
		if err != nil {
			return nil, fmt.Errorf("reading %s from %s: %w", f.Name, found.Source, err)
		}
		out[f.Name] = o
	}
	p.read[found] = out
	return out, nil
}

func readObject(f *provide.File) (*elfdeps.Object, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return elfdeps.ReadSymbols(r, f.Size)
}

// put lays the files of a release into a directory, with their links and their
// licence. Where some of the release are in the directory already, only the
// others come.
func (p *planner) put(dir, name string, found *provide.Found, objects map[string]*elfdeps.Object) candidate {
	title := strings.TrimSpace(cmp.Or(found.Library, name) + " " + found.Version)
	s := Step{Kind: "add", Library: name, Path: dir, Version: found.Version, Source: found.Source, Doubt: found.Doubt}
	for i := range found.Files {
		f := &found.Files[i]
		if p.there(dir, f) {
			continue
		}
		s.Files = append(s.Files, f.Name)
		s.files = append(s.files, file{File: patch.File{Path: path.Join(dir, f.Name), Mode: 0o644, Size: f.Size, Open: f.Open}, object: objects[f.Name]})
		for _, l := range f.Links {
			at := path.Join(dir, l)
			if e, _, ok := p.now.img.FS.Lstat(at); !ok || e.Link != f.Name {
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

// there reports whether a directory has a file of a release already, by its name
// and size.
func (p *planner) there(dir string, f *provide.File) bool {
	e, _, ok := p.now.img.FS.Lookup(path.Join(dir, f.Name))
	return ok && e.Object != nil && e.Size == f.Size && e.Object.Soname == f.Soname
}

// licenseText is the licence as it came with the files, or where it stands.
func licenseText(found *provide.Found) string {
	l := found.License
	if l.Text != "" {
		return l.Text
	}
	return fmt.Sprintf("%s\n%s\n\n%s\n", l.Name, l.URL, l.Terms)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// replacements put a whole copy in the place of a file that cannot be used.
func (p *planner) replacements(ctx context.Context, f *lint.Finding) ([]candidate, error) {
	if !goodName(f.Library) || provide.LibraryOf(f.Library) == nil {
		return nil, nil
	}
	bring, err := p.bring(ctx, f, []string{f.Library})
	if bring == nil || err != nil {
		return nil, err
	}
	var list []candidate
	for _, s := range p.subjects(f) {
		if dir := path.Dir(p.real(s)); offered(dir + "/x") {
			list = append(list, bring(dir))
		}
	}
	return list, nil
}

// newer puts a release that has what is missed where it is found first: in the
// place of the one that is found now, else in a directory of ours at the head of
// LD_LIBRARY_PATH.
func (p *planner) newer(ctx context.Context, f *lint.Finding) ([]candidate, error) {
	if p.Find == nil {
		return nil, nil
	}
	var list []candidate
	for _, name := range p.suspects(f) {
		bring, err := p.bring(ctx, f, []string{name})
		if err != nil {
			return nil, err
		}
		if bring == nil {
			continue
		}
		for _, dir := range p.whereIs(name) {
			list = append(list, bring(dir))
		}
		list = append(list, bring(ours).and(" and first in LD_LIBRARY_PATH", prependPath(ours)))
	}
	return list, nil
}

// suspects are the GPU libraries of which a finding may want another release.
func (p *planner) suspects(f *lint.Finding) []string {
	if f.Library != "" {
		if provide.LibraryOf(f.Library) == nil {
			return nil
		}
		return []string{f.Library}
	}
	var list []string
	if o := p.asker(f); o != nil {
		for _, n := range o.Needed {
			if provide.LibraryOf(n) != nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// whereIs are the directories that have a library and may be changed.
func (p *planner) whereIs(name string) []string {
	var list []string
	for e := range p.now.img.FS.All() {
		if path.Base(e.Path) != name || e.IsDir() {
			continue
		}
		if dir := path.Dir(p.real("/" + e.Path)); offered(dir+"/x") && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}
