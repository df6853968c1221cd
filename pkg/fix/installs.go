package fix

import (
	"context"
	"debug/elf"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// install is a package to install, for one missing library, or wheels, for one finding.
type install struct {
	manager  string // apt, apk, dnf; pip; conda; run
	packages []string
	step     Step     // empty libraries in the place of those of the package
	key      string   // the finding, by its cause
	wheels   *wheels  // of pip
	command  string   // of run and conda
	lines    []string // other instructions
}

// Limits of the libraries that the distribution brings, and of the replays with them.
const (
	maxInstalls      = 32
	maxInstallRounds = 4
	maxSingles       = 8 // tried by themselves in a round
)

// installed returns the packages of the distribution that resolve findings which the plan
// leaves, and the state with them. The plan's own steps install the wheels.
func (p *planner) installed(ctx context.Context, own []*wheels) ([]install, state, error) {
	var list, taken, planned []install
	for _, w := range own {
		planned = append(planned, install{wheels: w})
	}
	now, best := p.now, p.now
	tried := map[string]bool{}
	for range maxInstallRounds { // a package may bring what misses another library to light
		var more []install
		for _, k := range now.ledger.order {
			f := now.ledger.trouble[k].finding
			if tried[k] || len(taken)+len(more) >= maxInstalls {
				continue
			}
			tried[k] = true
			if i := p.maker.installFor(now.img, f, slices.Concat(planned, taken, more), tried); i != nil {
				i.key = k
				more = append(more, *i)
			}
		}
		if len(more) == 0 {
			break
		}
		next, kept, err := p.withInstalls(ctx, taken, more)
		if err != nil {
			return nil, now, err
		}
		taken, now = append(taken, kept...), next
		if next.better(&best) == nil {
			list, best = slices.Clone(taken), next
		}
	}
	return p.withMore(ctx, list, taken, best)
}

// installFor returns what resolves a finding of an image beside the installs of a list, or nil: the
// wheels and changes that its first fix names, then a wheel's own files, packages of conda, and those
// of the distribution, each of whose libraries is tried once.
func (m *maker) installFor(now *replay.Image, f *lint.Finding, list []install, tried map[string]bool) *install {
	if f.Decide != "" {
		return nil
	}
	for _, of := range []func(*replay.Image, *lint.Finding) *install{m.otherBuild, m.newPackage, m.extensionBuild, m.repair, m.asRequired, m.newerWheel, m.newerCopy, m.change} {
		if i := of(now, f); i != nil && !i.wheels.conflicts(list) && !i.setsAgain(list) {
			return i
		}
	}
	if i := m.reinstall(f); i != nil && !i.wheels.conflicts(list) {
		return i
	}
	if i := m.condaFor(now, f); i != nil {
		return i
	}
	if i := m.packagesFor(f); i != nil {
		return i
	}
	if f.Library != "" && tried[f.Library] {
		return nil
	}
	i := m.packageFor(f)
	tried[f.Library] = i != nil
	return i
}

// setsAgain reports whether an installation puts a directory on a variable that one of the list puts
// it on.
func (i *install) setsAgain(list []install) bool {
	v := i.step.Variable
	return v != "" && slices.ContainsFunc(list, func(o install) bool { return o.step.Variable == v && o.step.edit.Value == i.step.edit.Value })
}

// withMore returns the packages of a list, and those of taken that make the image better by
// themselves, with the state that they lead to: all of taken together do not.
func (p *planner) withMore(ctx context.Context, list, taken []install, best state) ([]install, state, error) {
	for _, i := range taken[len(list):min(len(taken), len(list)+maxSingles)] {
		with := append(slices.Clone(list), i)
		next, err := p.simulateInstalls(ctx, with)
		if err != nil {
			return nil, best, err
		}
		if next.better(&best) == nil {
			list, best = with, next
		}
	}
	return list, best, nil
}

// withInstalls returns the state with those of more, beside taken, that resolve their findings. If
// all together make a file fail, it tries each by itself.
func (p *planner) withInstalls(ctx context.Context, taken, more []install) (state, []install, error) {
	before, err := p.simulateInstalls(ctx, taken)
	if err != nil {
		return before, nil, err
	}
	after, err := p.simulateInstalls(ctx, slices.Concat(taken, more))
	if err != nil {
		return before, nil, err
	}
	breaks := func(s state) bool {
		f, _ := worse(before.ledger, s.ledger, before.img.FS, false)
		return f != nil
	}
	var kept []install
	broken := breaks(after)
	for n, i := range more {
		switch {
		case broken && n >= maxSingles:
		case broken && len(more) > 1:
			one, err := p.simulateInstalls(ctx, append(slices.Clone(taken), i))
			if err != nil {
				return before, nil, err
			}
			if !breaks(one) && one.ledger.trouble[i.key] == nil {
				kept = append(kept, i)
			}
		case after.ledger.trouble[i.key] == nil:
			kept = append(kept, i)
		}
	}
	if len(kept) < len(more) {
		after, err = p.simulateInstalls(ctx, slices.Concat(taken, kept))
	}
	return after, kept, err
}

// simulateInstalls returns the state of the plan with packages.
func (p *planner) simulateInstalls(ctx context.Context, list []install) (state, error) {
	if len(list) == 0 {
		return p.now, nil
	}
	g := group{text: "packages"}
	for _, i := range list {
		g.steps = append(g.steps, i.step)
	}
	return p.simulate(ctx, append(slices.Clone(p.groups), g))
}

// packageFor returns the package of the image's distribution that has the library of a
// finding, or nil if it is not known.
func (m *maker) packageFor(f *lint.Finding) *install {
	asker := m.asker(f)
	if f.Kind != packs.Missing || asker == nil || !m.hasShell() {
		return nil
	}
	manager, dir := m.manager(asker)
	s := Step{Kind: "install", Library: f.Library, Path: dir, StandIn: true}
	var list []string
	for _, name := range m.lacks(f) {
		lib := packs.SystemLibraryNamed(m.packs.System, name)
		if lib == nil || !lib.Has(m.inventory.Distribution) || !goodName(name) {
			continue
		}
		names := m.packagesWith(lib, manager)
		if len(names) == 0 {
			continue
		}
		list = addNew(list, names...)
		o := &elfdeps.Object{Ident: asker.Ident, Type: elf.ET_DYN, Machine: asker.Machine, Version: asker.Version, Dynamic: true, Soname: name, Stack: elfdeps.StackNoExec}
		s.Files = append(s.Files, name)
		s.files = append(s.files, file{File: patch.File{Path: path.Join(dir, name), Mode: 0o644, Size: 4096}, object: o})
	}
	if len(list) == 0 {
		return nil
	}
	return &install{manager: manager, packages: list, step: s}
}

// lacks returns the names of the libraries that a finding is about: its own if no file of the image
// has it, or for files of which any one would be enough those that they need and that only some
// releases of a distribution have.
func (m *maker) lacks(f *lint.Finding) (list []string) {
	if f.Library != "" {
		if slices.ContainsFunc(f.Present, func(p replay.File) bool { return path.Base(p.Path) == f.Library }) {
			return nil
		}
		return []string{f.Library}
	}
	for _, n := range f.NeededBy[:min(len(f.NeededBy), maxSiblings)] {
		if o := m.objectOf(n.Path); o != nil {
			for _, name := range o.Needed {
				if lib := packs.SystemLibraryNamed(m.packs.System, name); lib != nil && len(lib.In) > 0 && len(list) < maxSiblings {
					list = addNew(list, name)
				}
			}
		}
	}
	return list
}

// packagesWith returns the packages of a manager that have a library, or none.
func (m *maker) packagesWith(lib *packs.SystemLibrary, manager string) []string {
	switch manager {
	case "apt":
		if lib.AptTime64 != "" && m.time64() {
			return strings.Fields(strings.TrimPrefix(lib.AptTime64, "-"))
		}
		return strings.Fields(lib.Apt)
	case "apk":
		return strings.Fields(lib.Apk)
	case "dnf", "microdnf":
		return strings.Fields(lib.Dnf)
	}
	return nil
}

// packagesFor returns the packages that the first fix of a finding names as data, or nil.
func (m *maker) packagesFor(f *lint.Finding) *install {
	if len(f.Advice) == 0 || f.Advice[0].Packages == nil || !m.hasShell() {
		return nil
	}
	list := f.Advice[0].Packages
	machine := elf.EM_X86_64
	if c := m.base.Config; c != nil && c.Architecture == "arm64" {
		machine = elf.EM_AARCH64
	}
	manager, dir := m.manager(&elfdeps.Object{Machine: machine})
	names := map[string]string{"apt": list.Apt, "apk": list.Apk, "dnf": list.Dnf, "microdnf": list.Dnf}[manager]
	if names == "" {
		return nil
	}
	s := Step{Kind: "install", Path: dir, StandIn: true}
	for _, p := range list.Brings {
		program := textFile(p, "")
		program.Mode = 0o755
		s.files = append(s.files, program)
	}
	return &install{manager: manager, packages: strings.Fields(names), step: s}
}

// manager returns the package manager of the image's distribution, and the directory of its
// libraries. Without os-release, the layout of the directories tells them apart.
func (m *maker) manager(like *elfdeps.Object) (name, dir string) {
	multiarch := map[elf.Machine]string{elf.EM_X86_64: "/usr/lib/x86_64-linux-gnu", elf.EM_AARCH64: "/usr/lib/aarch64-linux-gnu"}[like.Machine]
	d := m.inventory.Distribution
	isDir := func(p string) bool { e, _, ok := m.base.FS.Lookup(p); return ok && e.IsDir() }
	switch {
	case d.Is("debian"), d.Is("ubuntu"), d == nil && multiarch != "" && isDir(multiarch):
		return "apt", multiarch
	case d.Is("alpine"):
		return "apk", "/usr/lib"
	case d.Is("rhel"), d.Is("fedora"), d.Is("centos"):
		_, _, full := m.base.FS.Lookup("/usr/bin/dnf")
		if _, _, ok := m.base.FS.Lookup("/usr/bin/microdnf"); ok && !full {
			return "microdnf", "/usr/lib64" // UBI minimal has no other
		}
		return "dnf", "/usr/lib64"
	}
	return "", ""
}

// time64 reports whether Debian or Ubuntu is of the releases whose libraries were renamed for
// 64-bit times: https://wiki.debian.org/ReleaseGoals/64bit-time
func (m *maker) time64() bool {
	d := m.inventory.Distribution
	if d == nil {
		return false
	}
	first := map[string]string{"debian": "13", "ubuntu": "24.04"}[d.ID]
	return first != "" && packs.ParseRelease(d.Version).Compare(packs.ParseRelease(first)) >= 0
}

// installCommand returns the command that installs packages, or "" if there are none.
func installCommand(installs []install) string {
	var names []string
	manager := ""
	for _, i := range installs {
		if len(i.packages) == 0 || i.wheels != nil || i.manager == "conda" {
			continue
		}
		manager = i.manager
		for _, n := range i.packages {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	list := strings.Join(names, " ")
	switch manager {
	case "apk":
		return "apk add --no-cache " + list
	case "dnf", "microdnf":
		return manager + " install -y " + list + " && " + manager + " clean all"
	}
	return "apt-get update && apt-get install -y --no-install-recommends " + list + " && rm -rf /var/lib/apt/lists/*"
}
