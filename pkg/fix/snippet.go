package fix

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/envline"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Snippet holds instructions for the end of a Dockerfile that make the changes of a plan, and
// install packages of the image's distribution, which a plan cannot.
type Snippet struct {
	// Lines are whole instructions, in their order.
	Lines []string `json:"lines"`
	// Resolved has the causes of the findings that the replay no longer has with the changes
	// of all lines.
	Resolved []string `json:"resolved"`
	// Shows has the causes of warnings that the image has only with the lines: the resolved
	// findings hid them.
	Shows []string `json:"shows,omitempty"`
	// Packages are those of the distribution, and the wheels by their requirements, that the
	// lines install and no step of the plan has. The replay took empty libraries in the place
	// of theirs.
	Packages []string `json:"packages,omitempty"`
	// Assumed are those of Packages of which pip chooses the release: the replay took one that
	// meets the requirement.
	Assumed []string `json:"assumed,omitempty"`
	// Base is another base image that resolves the same, in place of all lines, or nil.
	Base *BaseChange `json:"base,omitempty"`
}

// snippet returns the plan as instructions, or nil if there is nothing to do, or a step that
// no instruction can do.
func (p *planner) snippet(ctx context.Context, plan *Plan) (*Snippet, error) {
	installs, after, err := p.installed(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{m: &p.maker, plan: plan}
	lines, ok := w.lines(installs)
	if !ok && len(plan.Steps) > 0 {
		plan.NoSnippet = w.why
	}
	if !ok || len(lines) == 0 {
		return nil, nil
	}
	s := &Snippet{Lines: lines, Resolved: []string{}}
	for _, i := range installs {
		s.Packages = addNew(s.Packages, i.packages...)
		if i.wheels != nil {
			s.Assumed = addNew(s.Assumed, i.wheels.open()...)
		}
	}
	for _, k := range p.first.order {
		if after.ledger.trouble[k] == nil {
			s.Resolved = append(s.Resolved, k)
		}
	}
	s.Shows = after.ledger.since(p.first)
	s.Base, err = p.baseChange(ctx, plan, s)
	return s, err
}

// addNew adds the texts that a list does not have.
func addNew(list []string, texts ...string) []string {
	for _, t := range texts {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}

// install is a package to install, for one missing library, or wheels, for one finding.
type install struct {
	manager  string // apt, apk, dnf; pip; run
	packages []string
	step     Step    // empty libraries in the place of those of the package
	key      string  // the finding, by its cause
	wheels   *wheels // of pip
	command  string  // of run
}

// Limits of the libraries that the distribution brings, and of the replays with them.
const (
	maxInstalls      = 32
	maxInstallRounds = 4
	maxSingles       = 8 // tried by themselves in a round
)

// installed returns the packages of the distribution that resolve findings which the plan
// leaves, and the state with them.
func (p *planner) installed(ctx context.Context) ([]install, state, error) {
	var list, taken []install
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
			if i := p.maker.repair(now.img, f); i != nil && !i.wheels.conflicts(slices.Concat(taken, more)) {
				i.key = k
				more = append(more, *i)
			} else if i := p.maker.change(now.img, f); i != nil {
				i.key = k
				more = append(more, *i)
			} else if i := p.maker.packageFor(f); i != nil && !tried[f.Library] {
				tried[f.Library] = true
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
	if f.Library == "" || f.Kind != packs.Missing || slices.ContainsFunc(f.Present, func(p replay.File) bool { return path.Base(p.Path) == f.Library }) {
		return nil
	}
	lib, asker := packs.SystemLibraryNamed(m.packs.System, f.Library), m.asker(f)
	if lib == nil || asker == nil || !goodName(f.Library) {
		return nil
	}
	manager, dir := m.manager(asker)
	names := ""
	switch manager {
	case "apt":
		if names = lib.Apt; lib.AptTime64 != "" && m.time64() {
			names = strings.TrimPrefix(lib.AptTime64, "-")
		}
	case "apk":
		names = lib.Apk
	case "dnf":
		names = lib.Dnf
	}
	if names == "" {
		return nil
	}
	o := &elfdeps.Object{Ident: asker.Ident, Type: elf.ET_DYN, Machine: asker.Machine, Version: asker.Version, Dynamic: true, Soname: f.Library, Stack: elfdeps.StackNoExec}
	s := Step{Kind: "install", Library: f.Library, Path: dir, Files: []string{f.Library}, StandIn: true}
	s.files = []file{{File: patch.File{Path: path.Join(dir, f.Library), Mode: 0o644, Size: 4096}, object: o}}
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

// writer writes the steps of a plan as instructions.
type writer struct {
	m    *maker
	plan *Plan
	runs []string // commands
	pip  []*wheels
	why  string // why there are no instructions
}

// lines returns the instructions; ok is false if a step has none.
func (w *writer) lines(installs []install) (lines []string, ok bool) {
	copies, ok := w.steps()
	for _, p := range w.pip {
		ok = ok && !p.conflicts(installs)
	}
	if !ok {
		return nil, false
	}
	if c := installCommand(installs); c != "" {
		w.runs = append([]string{c}, w.runs...)
	}
	for _, i := range installs {
		if i.wheels != nil {
			w.pip = addWheels(w.pip, i.wheels)
		}
		if i.command != "" {
			w.runs = append(w.runs, i.command)
		}
	}
	run := func(command string) string { return "RUN " + command }
	shell := w.hasShell()
	if !shell {
		if slices.ContainsFunc(installs, func(i install) bool { return i.wheels == nil && i.command == "" }) {
			w.why = "the image has no shell, and packages need its package manager"
			return nil, false
		}
		run = mounted
	}
	user, runs := w.user(), len(w.runs)+len(w.pip) > 0
	if user != "" && runs {
		lines = append(lines, "USER root")
	}
	for _, p := range w.pip { // they may replace files, which the other commands change
		lines = append(lines, w.m.instruction(p, shell))
	}
	for _, r := range w.runs {
		lines = append(lines, run(r))
	}
	if user != "" && runs {
		lines = append(lines, "USER "+user)
	}
	lines = append(lines, copies...)
	for _, e := range w.plan.draft.env {
		line, err := envline.Of(e.Name, e.Value)
		if err != nil {
			return nil, false
		}
		lines = append(lines, line)
	}
	return lines, true
}

// Directories of tools that a RUN mounts into an image that has none. The programs in both are
// static: those of busybox:musl all, and of Debian's /sbin ldconfig.
const (
	mountedTools  = "/.tools"
	mountedConfig = "/.ldconfig"
)

// mounted returns the instruction that runs a command in an image without a shell: with the
// programs of other images, which are not part of the result
// (https://docs.docker.com/reference/dockerfile/#run---mounttypebind).
func mounted(command string) string {
	mounts := "--mount=from=busybox:musl,source=/bin,target=" + mountedTools + " "
	paths := mountedTools
	if strings.HasSuffix(command, "&& ldconfig") {
		mounts += "--mount=from=debian:stable-slim,source=/usr/sbin,target=" + mountedConfig + " "
		paths = mountedConfig + ":" + paths
	}
	return "RUN " + mounts + list([]string{mountedTools + "/sh", "-c", "PATH=" + paths + "; " + command})
}

// list returns words as the JSON list of an instruction without a shell.
func list(words []string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(words); err != nil {
		panic(err) // strings are valid
	}
	return strings.TrimSpace(b.String())
}

// hasShell reports whether the image has the shell of RUN: its file, or a layer that RUN made.
func (w *writer) hasShell() bool {
	if _, _, ok := w.m.base.FS.Lookup("/bin/sh"); ok {
		return true
	}
	return slices.ContainsFunc(w.m.base.FS.Layers, func(l source.Layer) bool {
		return strings.HasPrefix(l.CreatedBy, "RUN ") || strings.HasPrefix(l.CreatedBy, "/bin/sh -c ") && !strings.Contains(l.CreatedBy, "#(nop)")
	})
}

// user returns the user of the image if that is not root, else "".
func (w *writer) user() string {
	if w.m.base.Config == nil {
		return ""
	}
	switch u := w.m.base.Config.Config.User; u {
	case "root", "0", "0:0", "root:root":
		return ""
	default:
		if !envline.Plain(u) {
			return ""
		}
		return u
	}
}

// steps adds the commands of the steps, and returns the COPY instructions.
func (w *writer) steps() (copies []string, ok bool) {
	var links, removed, conf []string
	for _, s := range w.plan.Steps {
		switch s.Kind {
		case "link":
			links = append(links, "ln -sf "+Shell(s.Link)+" "+Shell(s.Path))
		case "remove":
			for _, f := range s.files {
				removed = append(removed, Shell(f.Path))
			}
		case "ldconf":
			conf = append(conf, Shell(s.Path))
		case "add", "replace", "newer":
			if s.found == nil || s.found.Image == nil {
				if p := w.m.wheelOf(&s); p != nil {
					w.pip = addWheels(w.pip, p)
					continue
				}
			}
			from, sources := w.sources(&s)
			if from == "" {
				w.why = "no public image is known to have " + s.Library + " in a release that fits"
				return nil, false
			}
			if strings.ContainsAny(from+s.Path+strings.Join(sources, ""), "\n\"'\\$ ") {
				w.why = "a Dockerfile cannot state the path " + s.Path
				return nil, false
			}
			copies = addCopy(copies, "COPY --from="+from+" ", sources, " "+s.Path+"/")
		default:
			if s.Variable == "" {
				w.why = "no instruction can " + s.Text
				return nil, false
			}
		}
	}
	if len(links) > 0 {
		w.runs = append(w.runs, strings.Join(links, " && "))
	}
	if len(removed) > 0 {
		w.runs = append(w.runs, "rm -f "+strings.Join(removed, " "))
	}
	if len(conf) > 0 {
		w.runs = append(w.runs, fmt.Sprintf("printf '%%s\\n' %s > %s && ldconfig", strings.Join(conf, " "), dropIn))
	}
	return copies, true
}

// sources returns the image that has the libraries of a step, that of --from or one of
// NVIDIA's, and their paths in it. It returns "" if no image is known.
func (w *writer) sources(s *Step) (image string, paths []string) {
	if s.found != nil && s.found.Image != nil {
		for _, f := range s.Files {
			paths = append(paths, path.Join(s.found.Image.Dir, f))
		}
		return s.found.Image.Ref + "@" + s.found.Image.Digest, paths
	}
	cuda, versions := w.m.wanted(s)
	img := provide.ImageWith(s.Files, cuda, w.m.cudaRelease(), versions)
	if img == nil {
		return "", nil
	}
	triple := "x86_64-linux-gnu"
	if c := w.m.base.Config; c != nil && c.Architecture == "arm64" {
		triple = "aarch64-linux-gnu"
	}
	return img.Ref, img.Sources(s.Files, triple)
}

// cudaRelease returns the release of CUDA that the image is built on, or that its wheels
// have, or "".
func (m *maker) cudaRelease() string {
	if v := getVar(environment(m.base), "CUDA_VERSION"); v != "" || m.inventory == nil {
		return v
	}
	lib := provide.LibraryOf("libcudart.so")
	for _, pkg := range m.inventory.Packages {
		for _, cuda := range []string{"11", "12", "13"} {
			if pkg.Kind == inventory.Wheel && isWheelName(lib, cuda, pkg.Name) {
				return pkg.Version
			}
		}
	}
	return ""
}

// addCopy adds an instruction, or its sources to the instruction with the same image and
// directory.
func addCopy(list []string, before string, sources []string, behind string) []string {
	for i, l := range list {
		if strings.HasPrefix(l, before) && strings.HasSuffix(l, behind) {
			l = strings.TrimSuffix(l, behind)
			for _, s := range sources {
				if !slices.Contains(strings.Fields(l), s) {
					l += " " + s
				}
			}
			list[i] = l + behind
			return list
		}
	}
	return append(list, before+strings.Join(sources, " ")+behind)
}

// wanted returns the major version of CUDA that the library of a step belongs to, or "", and
// the specifiers that its release has to meet.
func (m *maker) wanted(s *Step) (cuda string, versions []string) {
	for _, g := range m.groups {
		if !slices.ContainsFunc(g.steps, func(o Step) bool { return o.Library == s.Library && o.Path == s.Path }) {
			continue
		}
		if f := g.finding; f != nil {
			cuda = m.cudaMajor(f)
			versions = m.versionsFor(f, provide.LibraryOf(s.Library), cuda)
		}
	}
	if of := provide.CUDAOf(s.Files); of != "" {
		cuda = of
	}
	return cuda, versions
}

// installCommand returns the command that installs packages, or "" if there are none.
func installCommand(installs []install) string {
	var names []string
	manager := ""
	for _, i := range installs {
		if len(i.packages) == 0 || i.wheels != nil {
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
	case "dnf":
		return "dnf install -y " + list + " && dnf clean all"
	}
	return "apt-get update && apt-get install -y --no-install-recommends " + list + " && rm -rf /var/lib/apt/lists/*"
}
