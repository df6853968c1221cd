package fix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/imgcheck/imgcheck/internal/envline"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// writer writes the steps of a planner as instructions.
type writer struct {
	m      *maker
	steps  []Step
	env    []patch.EnvEdit
	stages []string // for before the last FROM
	copies []string // COPY instructions
	first  []string // commands before them
	last   []string // commands behind them: links to what they copy
	pip    []*wheels
	tools  []install // packages with programs that the commands run
}

// newWriter returns the writer of the steps that a maker's state has. It leaves out those that no
// instruction can make.
func newWriter(m *maker) *writer {
	d := newDraft(m.base, stepsOf(m.groups))
	w := &writer{m: m, steps: d.steps, env: d.env}
	var links, removed, conf, marked []string
	for i := range w.steps {
		s := &w.steps[i]
		switch {
		case w.cannot(s) != "":
		case s.Kind == "link":
			links = append(links, "ln -sf "+Shell(s.Link)+" "+Shell(s.Path))
		case s.Kind == "remove":
			for _, f := range s.files {
				removed = append(removed, Shell(f.Path))
			}
		case s.Kind == "ldconf":
			conf = append(conf, Shell(s.Path))
		case s.Kind == "execstack":
			marked = append(marked, Shell(s.Path))
		case s.Library != "":
			w.bring(s)
		}
	}
	if len(links) > 0 {
		w.first = append(w.first, strings.Join(links, " && "))
	}
	if len(removed) > 0 {
		w.first = append(w.first, "rm -f "+strings.Join(removed, " "))
	}
	if len(marked) > 0 {
		w.tools = []install{{manager: "apt", packages: []string{"patchelf"}}}
		w.first = append(w.first, "patchelf --clear-execstack "+strings.Join(marked, " "))
	}
	if len(conf) > 0 {
		w.first = append(w.first, fmt.Sprintf("printf '%%s\\n' %s > %s && ldconfig", strings.Join(conf, " "), dropIn))
	}
	return w
}

// cannot says why no instruction can make a step, or returns "".
func (w *writer) cannot(s *Step) string {
	switch s.Kind {
	case "execstack":
		if why := w.m.noPatchelf(s); why != "" {
			return why
		}
		fallthrough
	case "link", "remove", "ldconf":
		if slices.ContainsFunc(append(s.texts(), s.Link), func(t string) bool { return strings.ContainsFunc(t, unicode.IsControl) }) {
			return "a Dockerfile cannot state the path " + s.Path
		}
		return ""
	case "add", "replace", "newer":
		return w.cannotBring(s)
	}
	if s.Variable == "" {
		return "no instruction can " + s.Text
	}
	if _, err := envline.Of(s.Variable, s.Value); err != nil {
		return err.Error()
	}
	return ""
}

// texts returns the paths of a step.
func (s *Step) texts() []string {
	list := []string{s.Path}
	for _, f := range s.files {
		list = append(list, f.Path)
	}
	return list
}

// cannotBring says why no instruction can bring the libraries of a step, or returns "".
func (w *writer) cannotBring(s *Step) string {
	if slices.ContainsFunc(append(s.texts(), s.Files...), func(t string) bool { return !plainWord(t) }) {
		return "a Dockerfile cannot state the path " + s.Path
	}
	switch f := s.found; {
	case w.m.Find == nil:
		if from, _ := w.public(s); from == "" && w.m.wheelOf(s) == nil && w.m.freeWheel(s) == nil {
			return "no public image is known to have " + s.Library + " in a release that fits"
		}
	case f == nil: // all its files are there
	case f.Image != nil:
		if source.InRegistry(f.Image.Ref) != f.Image.Ref || f.Image.Digest == "" || !plainWord(f.Image.Ref+f.Image.Dir) {
			return "a Dockerfile cannot copy from " + f.Image.Ref
		}
	case f.Archive == nil:
		return s.Library + " comes from this machine, or from a server that wants a login"
	case w.m.wheelOf(s) == nil && unpacks(f.Archive, s) == "":
		return "a Dockerfile cannot unpack " + f.Archive.URL
	}
	return ""
}

// bring adds the instructions that bring the libraries of a step: with pip, from an image, or from
// an archive.
func (w *writer) bring(s *Step) {
	from, sources := "", []string{}
	switch f := s.found; {
	case f == nil && w.m.Find != nil:
		return
	case f == nil, f.Image == nil:
		if p := w.m.wheelOf(s); p != nil {
			w.pip = addWheels(w.pip, p)
			return
		}
		if f != nil {
			w.copies = append(w.copies, "COPY --from="+w.stage(s)+" "+s.Path+"/")
			return
		}
		if from, sources = w.public(s); from == "" {
			w.pip = addWheels(w.pip, w.m.freeWheel(s))
			return
		}
	default:
		from = f.Image.Ref + "@" + f.Image.Digest
		for _, name := range s.Files {
			sources = append(sources, path.Join(f.Image.Dir, name))
		}
		if links := linksOf(s, s.Path+"/"); len(links) > 0 {
			w.last = append(w.last, strings.Join(links, " && "))
		}
	}
	w.copies = addCopy(w.copies, "COPY --from="+from+" ", sources, " "+s.Path+"/")
}

// linksOf returns the commands that make the links of a step, in a directory.
func linksOf(s *Step, dir string) (list []string) {
	for _, f := range s.files {
		if f.Link != "" {
			list = append(list, "ln -sf "+f.Link+" "+dir+path.Base(f.Path))
		}
	}
	return list
}

// unpackers are the images with the programs that unpack an archive, by the ends of its name: how
// to take files out into the working directory, and how to print one.
var unpackers = map[string]struct{ files, text string }{
	".whl":    {"unzip -qj %s %s", "unzip -p %s %s"},
	".zip":    {"unzip -qj %s %s", "unzip -p %s %s"},
	".tar.xz": {"tar -xJf %s --strip-components=%d %s", "tar -xJOf %s %s"},
	".tar.gz": {"tar -xzf %s --strip-components=%d %s", "tar -xzOf %s %s"},
}

// unpacks returns the command that takes the files of a step out of an archive into the working
// directory, with their links and their licence, or "" if there is none.
func unpacks(a *provide.Archive, s *Step) string {
	at := "/tmp/" + path.Base(a.URL)
	how := unpackers[path.Ext(at)]
	if stem := strings.TrimSuffix(at, path.Ext(at)); path.Ext(stem) == ".tar" {
		how = unpackers[".tar"+path.Ext(at)]
	}
	if how.files == "" || !plainWord(a.URL+a.Dir) {
		return ""
	}
	var names []string
	for _, name := range s.Files {
		names = append(names, path.Join(a.Dir, name))
	}
	words := []any{at, strings.Join(names, " ")}
	if strings.Contains(how.files, "%d") {
		words = []any{at, strings.Count(path.Clean(a.Dir+"/x"), "/"), strings.Join(names, " ")}
	}
	commands := append([]string{fmt.Sprintf(how.files, words...)}, linksOf(s, "")...)
	for _, f := range s.files {
		if base := path.Base(f.Path); strings.HasPrefix(base, "LICENSE.") && s.found.License.Text != "" && plainWord(a.License) {
			commands = append(commands, fmt.Sprintf(how.text, at, a.License)+" > "+base)
		}
	}
	return strings.Join(append(commands, "chmod 644 *"), " && ")
}

// stage returns the stage that has the files of a step, and their directory in it. BuildKit checks
// the archive's hash (https://docs.docker.com/reference/dockerfile/#add---checksum).
func (w *writer) stage(s *Step) string {
	a, run := s.found.Archive, "RUN "+unpacks(s.found.Archive, s)
	name := s.found.Library
	if name == "" {
		name = "libraries"
	}
	for n, base := 2, name; ; n++ {
		lines := []string{
			"FROM busybox:musl AS " + name,
			"ADD --checksum=sha256:" + a.SHA256 + " " + a.URL + " /tmp/",
			"WORKDIR /" + name,
			run,
		}
		at := slices.Index(w.stages, lines[0])
		if at < 0 {
			w.stages = append(w.stages, lines...)
		}
		if at < 0 || slices.Equal(w.stages[at:at+len(lines)], lines) {
			return name + " /" + name + "/"
		}
		name = fmt.Sprintf("%s%d", base, n)
	}
}

// lines returns the instructions for the end of a Dockerfile, with those of installs.
func (w *writer) lines(installs []install) (lines []string) {
	first, pip := w.first, w.pip
	if c := installCommand(append(slices.Clone(installs), w.tools...)); c != "" {
		first = append([]string{c}, first...)
	}
	for _, i := range installs {
		if i.wheels != nil {
			pip = addWheels(pip, i.wheels)
		}
		if i.command != "" {
			first = append(first, i.command)
		}
	}
	shell := w.m.hasShell()
	run := func(command string) string { return "RUN " + command }
	if !shell {
		run = mounted
	}
	var before, behind []string
	for _, p := range pip { // they may replace files, which the other commands change
		before = append(before, w.m.instruction(p, shell))
	}
	for _, r := range first {
		before = append(before, run(r))
	}
	for _, r := range w.last {
		behind = append(behind, run(r))
	}
	lines = slices.Concat(w.asRoot(before), w.copies, w.asRoot(behind))
	for _, e := range w.env {
		if line, err := envline.Of(e.Name, e.Value); err == nil {
			lines = append(lines, line)
		}
	}
	lines = append(lines, w.m.pathLines(installs)...)
	for _, i := range installs {
		lines = addNew(lines, i.lines...)
	}
	return lines
}

// asRoot returns instructions between those that change the user to root and back, if the image
// has another one.
func (w *writer) asRoot(lines []string) []string {
	if user := w.user(); user != "" && len(lines) > 0 {
		return slices.Concat([]string{"USER root"}, lines, []string{"USER " + user})
	}
	return lines
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

// hasShell reports whether the image has the shell of RUN: its file, or a layer that RUN made, or
// the layer of a Debian (https://github.com/debuerreotype/docker-debian-artifacts).
func (m *maker) hasShell() bool {
	if _, _, ok := m.base.FS.Lookup("/bin/sh"); ok {
		return true
	}
	return slices.ContainsFunc(m.base.FS.Layers, func(l source.Layer) bool {
		return strings.HasPrefix(l.CreatedBy, "RUN ") || strings.HasPrefix(l.CreatedBy, "# debian.sh ") || strings.HasPrefix(l.CreatedBy, "/bin/sh -c ") && !strings.Contains(l.CreatedBy, "#(nop)")
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

// public returns the public image of NVIDIA's that has the libraries of a step, and their paths in
// it. It returns "" if no image is known.
func (w *writer) public(s *Step) (image string, paths []string) {
	cuda, versions := w.m.wanted(s)
	img := provide.ImageWith(s.Files, cuda, w.m.cudaRelease(), versions)
	if later := laterReleases(versions); img == nil && later != nil && !w.m.isPart(s) {
		img = provide.ImageWith(s.Files, cuda, w.m.cudaRelease(), later)
	}
	if img == nil {
		return "", nil
	}
	triple := "x86_64-linux-gnu"
	if c := w.m.base.Config; c != nil && c.Architecture == "arm64" {
		triple = "aarch64-linux-gnu"
	}
	return img.Ref, img.Sources(s.Files, triple)
}

// laterReleases returns the specifiers of the later releases of the same major version, for those of
// single releases, or nil. A program that is built with a release of cuDNN or of CUDA's libraries runs
// with later ones of its major version
// (https://docs.nvidia.com/deeplearning/cudnn/latest/developer/forward-compatibility.html).
func laterReleases(versions []string) (list []string) {
	for _, v := range versions {
		if !exact.MatchString(v) {
			return nil
		}
		release := strings.TrimPrefix(v, "==")
		major, _, _ := strings.Cut(release, ".")
		list = append(list, ">="+release, "=="+major+".*")
	}
	return list
}

// isPart reports whether the library of a step joins other parts of it that are there, which all have
// to be of one release.
func (m *maker) isPart(s *Step) bool {
	lib := provide.LibraryOf(s.Library)
	for _, g := range m.groups {
		if f := g.finding; f != nil && slices.ContainsFunc(g.steps, func(o Step) bool { return o.Library == s.Library && o.Path == s.Path }) {
			return slices.ContainsFunc(f.NeededBy, func(n replay.File) bool { return provide.LibraryOf(plainName(n.Path)) == lib })
		}
	}
	return true
}

// cudaRelease returns the release of CUDA that the image is built on, or that its wheels
// have, or "".
func (m *maker) cudaRelease() string {
	if v := getVar(environment(m.base), "CUDA_VERSION"); v != "" || m.inventory == nil {
		return v
	}
	lib := provide.LibraryOf("libcudart.so")
	for _, pkg := range m.inventory.Packages {
		for _, cuda := range wheelCUDA {
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
