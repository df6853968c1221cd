package main

import (
	"archive/tar"
	"cmp"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
	"mvdan.cc/sh/v3/syntax"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	pep440 "github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// builder builds a Dockerfile on a text image: the instructions of snippets, each as a
// layer or a change of the config, as the reference of Dockerfiles says. It knows nothing
// of plans. Packages and libraries of other images are empty libraries with the names,
// SONAMEs and needed libraries of the real ones.
type builder struct {
	t       *testing.T
	server  *imagetest.Server
	image   *imagetest.Image
	name    string // of the image
	user    string // of the next RUN
	updated bool   // the package lists are there, in this RUN
	lists   bool   // a RUN left them
	fs      *layers.FS
	layer   *imagetest.Layer // of the instruction
	python  string           // the interpreter that wheels are installed for
	stages  map[string]map[string]imagetest.File
	has     map[string]bool // packages that the lines have installed
	index   string          // the last part of the address of pip's index
	mamba   bool            // micromamba is mounted
	renew   bool            // pip installs another build of a release
	made    string          // the directory that mkdir -p has made in this RUN
	staying []string        // directories of packages that pip installs other packages for
}

// build builds lines on an image, and returns the reference of the result.
func build(t *testing.T, server *imagetest.Server, img *imagetest.Image, name string, lines []string) (string, error) {
	return buildFrom(t, server, img, name, lines, nil)
}

// buildFrom is build for lines that copy from stages, whose files it gets by their paths.
func buildFrom(t *testing.T, server *imagetest.Server, img *imagetest.Image, name string, lines []string, stages map[string]map[string]imagetest.File) (string, error) {
	parsed, err := parser.Parse(strings.NewReader("FROM base\n" + strings.Join(lines, "\n") + "\n"))
	if err != nil {
		return "", err
	}
	if n := len(parsed.AST.Children) - 1; n != len(lines) {
		return "", fmt.Errorf("%d lines are %d instructions", len(lines), n)
	}
	b := &builder{t: t, server: server, image: img, name: name, user: img.Config.User, stages: stages}
	ref := b.push()
	for _, n := range parsed.AST.Children[1:] {
		b.layer = &imagetest.Layer{CreatedBy: n.Original}
		if err := b.do(n); err != nil {
			return "", fmt.Errorf("%s: %w", n.Original, err)
		}
		b.image.Config.User = b.user
		if len(b.layer.Files) > 0 {
			b.image.Layers = append(b.image.Layers, *b.layer)
		}
		ref = b.push()
	}
	return ref, nil
}

// rebase builds an image on another variant of its base: the libraries that the variant has more
// lie in a layer above the last one that NVIDIA's variables made. It returns the reference of the
// result.
func rebase(t *testing.T, server *imagetest.Server, img *imagetest.Image, name, to string) (string, error) {
	from := cudaImage(to, img.Platform.Architecture)
	at := -1
	for i, l := range img.Layers {
		if strings.Contains(l.CreatedBy, "${NV_") {
			at = i
		}
	}
	if from == nil || at < 0 {
		return "", fmt.Errorf("there is no %s, or the image is not built on such an image", to)
	}
	b := &builder{t: t, server: server, image: img, name: name, layer: &imagetest.Layer{CreatedBy: "RUN apt-get install ${NV_CUDNN_PACKAGE}"}}
	b.push()
	for _, p := range slices.Sorted(maps.Keys(from)) {
		if _, _, ok := b.fs.Lookup(p); !ok {
			b.put(p, imagetest.File{ELF: b.library(from[p])})
		}
	}
	img.Layers = slices.Insert(img.Layers, at+1, *b.layer)
	return b.push(), nil
}

// push makes the image of the instructions so far.
func (b *builder) push() string {
	b.t.Helper()
	img, err := b.image.V1()
	if err != nil {
		b.t.Fatal(err)
	}
	ref, err := b.server.Push("built/"+b.name+":latest", img)
	if err != nil {
		b.t.Fatal(err)
	}
	x, err := layers.Open(b.t.Context(), ref, layers.Options{Platform: &b.image.Platform})
	if err != nil {
		b.t.Fatal(err)
	}
	defer x.Close()
	if b.fs, err = x.Index(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return ref
}

func (b *builder) do(n *parser.Node) error {
	var words []string
	for w := n.Next; w != nil; w = w.Next {
		words = append(words, w.Value)
	}
	switch strings.ToUpper(n.Value) {
	case "ENV":
		return b.env(words)
	case "ENTRYPOINT":
		if !n.Attributes["json"] {
			return fmt.Errorf("want a list")
		}
		b.image.Config.Entrypoint, b.image.Config.Cmd = words, nil
		return nil
	case "CMD":
		if !n.Attributes["json"] {
			return fmt.Errorf("want a list")
		}
		b.image.Config.Cmd = words
		return nil
	case "USER":
		b.user = words[0]
		return nil
	case "COPY":
		return b.copy(n.Flags, words)
	case "RUN":
		return b.runs(n.Flags, words, n.Attributes["json"])
	}
	return fmt.Errorf("%s is none of the instructions of a snippet", n.Value)
}

// env sets variables: three nodes each, the name, the value and the separator. All values
// of an instruction see the variables before it.
func (b *builder) env(words []string) error {
	lex, before := shell.NewLex('\\'), shell.EnvsFromSlice(slices.Clone(b.image.Config.Env))
	for ; len(words) >= 3; words = words[3:] {
		value, _, err := lex.ProcessWord(words[1], before)
		if err != nil {
			return err
		}
		list, set := b.image.Config.Env, words[0]+"="+value
		is := func(v string) bool { return strings.HasPrefix(v, words[0]+"=") }
		if i := slices.IndexFunc(list, is); i >= 0 {
			list = slices.Insert(slices.DeleteFunc(list, is), i, set) // a text may set it twice
		} else {
			list = append(list, set)
		}
		b.image.Config.Env = list
	}
	return nil
}

// copy copies files of one of NVIDIA's images to a directory. A link is copied as the file
// that it leads to, as BuildKit does.
func (b *builder) copy(flags, words []string) error {
	if len(flags) != 1 || !strings.HasPrefix(flags[0], "--from=") || len(words) < 2 {
		return fmt.Errorf("want --from, files and a directory")
	}
	if files, ok := b.stages[strings.TrimPrefix(flags[0], "--from=")]; ok {
		return b.copyStage(files, words)
	}
	from := cudaImage(strings.TrimPrefix(flags[0], "--from="), b.image.Platform.Architecture)
	dir, ok := strings.CutSuffix(words[len(words)-1], "/")
	if from == nil || !ok {
		return fmt.Errorf("there is no such image, or the target is not a directory")
	}
	seen := map[string]bool{}
	for _, source := range words[:len(words)-1] {
		found := false
		for _, p := range slices.Sorted(maps.Keys(from)) {
			if m, err := path.Match(source, p); err != nil || !m {
				continue
			}
			if found = true; seen[p] {
				return fmt.Errorf("%s is copied twice", p)
			}
			seen[p] = true
			b.put(path.Join(dir, path.Base(p)), imagetest.File{ELF: b.library(from[p])})
		}
		if !found {
			return fmt.Errorf("the image has no %s", source)
		}
	}
	return nil
}

// copyStage copies the content of a directory of a stage to a directory.
func (b *builder) copyStage(files map[string]imagetest.File, words []string) error {
	if len(words) != 2 || !strings.HasSuffix(words[0], "/") || !strings.HasSuffix(words[1], "/") {
		return fmt.Errorf("want two directories")
	}
	n := 0
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if path.Dir(p)+"/" == words[0] {
			b.put(path.Join(words[1], path.Base(p)), files[p])
			n++
		}
	}
	if n == 0 {
		return fmt.Errorf("the stage has nothing in %s", words[0])
	}
	return nil
}

// library returns an empty shared object of the image's machine: its SONAME, and the
// libraries that it needs.
func (b *builder) library(names []string) *imagetest.ELF {
	e := &imagetest.ELF{Soname: names[0], Needed: names[1:]}
	if origin := "$ORIGIN"; ofOrigin.MatchString(names[0]) {
		e.Runpath = &origin
	}
	e.Symbols = b.wanted(names[0])
	for _, s := range e.Symbols {
		if s.Version != "" && len(e.VerDefs) == 0 {
			e.VerDefs = []string{names[0]}
		}
		if s.Version != "" && !slices.Contains(e.VerDefs[1:], s.Version) {
			e.VerDefs = append(e.VerDefs, s.Version)
		}
	}
	if b.image.Platform.Architecture == "arm64" {
		e.Machine = elf.EM_AARCH64
	}
	return e
}

// inWheel is library for one of NVIDIA's wheels, where NVRTC finds its other part beside itself.
func (b *builder) inWheel(names []string) *imagetest.ELF {
	e := b.library(names)
	if origin := "$ORIGIN"; strings.HasPrefix(names[0], "libnvrtc.") {
		e.Runpath = &origin
	}
	return e
}

// wanted returns the symbols that the image's files need of a library by their versions:
// the real library defines them.
func (b *builder) wanted(soname string) (list []imagetest.Symbol) {
	seen := map[string]bool{}
	for _, l := range b.image.Layers {
		for _, f := range l.Files {
			if f.ELF == nil {
				continue
			}
			if slices.Contains(f.ELF.Needed, soname) && strings.HasPrefix(soname, "libnccl.") { // without versions
				for _, s := range f.ELF.Symbols {
					if !s.Defined && strings.HasPrefix(s.Name, "nccl") && !seen[s.Name] {
						seen[s.Name] = true
						list = append(list, imagetest.Symbol{Name: s.Name, Defined: true, Type: s.Type})
					}
				}
			}
			for _, need := range f.ELF.VerNeeds {
				for _, s := range f.ELF.Symbols {
					versioned := slices.ContainsFunc(need.Versions, func(v imagetest.Version) bool { return v.Name == s.Version })
					if need.File != soname || s.Defined || !versioned || seen[s.Name+"@"+s.Version] {
						continue
					}
					seen[s.Name+"@"+s.Version] = true
					list = append(list, imagetest.Symbol{Name: s.Name, Version: s.Version, Defined: true, Type: s.Type})
				}
			}
		}
	}
	return list
}

// ofOrigin matches the libraries of NVIDIA's that have the RUNPATH $ORIGIN.
var ofOrigin = regexp.MustCompile(`^lib(cudnn|cublas|cufft|curand|cusolver|cusparse)`)

// put adds a file to the layer, at the place to which links among its directories lead.
func (b *builder) put(p string, f imagetest.File) {
	if f.ELF != nil {
		f.Size = max(f.Size, f.ELF.Size())
	}
	f.Name = strings.TrimPrefix(b.real(p), "/")
	if f.Type == 0 {
		f.Type = tar.TypeReg
	}
	if f.Mode == 0 {
		f.Mode = 0o644
	}
	b.layer.Files = append(b.layer.Files, f)
}

// real returns p with the links among its directories followed, as far as they exist.
func (b *builder) real(p string) string {
	dir, base := path.Split(path.Clean(p))
	if dir == "/" || dir == "" {
		return "/" + base
	}
	if e, _, ok := b.fs.Lookup(path.Clean(dir)); ok {
		return path.Join("/", e.Path, base)
	}
	return path.Join(b.real(path.Clean(dir)), base)
}

// mounts are the directories of images that a RUN may mount, and the static programs in them.
var mounts = map[string][]string{
	"from=busybox:musl,source=/bin":            {"sh", "ln", "rm", "printf", "chmod", "sed"},
	"from=debian:stable-slim,source=/usr/sbin": {"ldconfig"},
}

// runs runs an instruction: a line in the image's shell, or in the shell of a mounted directory.
func (b *builder) runs(flags, words []string, list bool) error {
	if at := slices.IndexFunc(flags, func(f string) bool { return f == "--mount=from=ghcr.io/astral-sh/uv,source=/uv,target=/.uv" }); at >= 0 {
		b.put("/usr/local/bin/uv", imagetest.File{})
		b.layer.Files = nil // the mount is not part of the layer
		if list {
			return b.command(append([]string{"/usr/local/bin/uv"}, words[1:]...), "")
		}
		return b.run(strings.ReplaceAll(words[0], "/.uv ", "/usr/local/bin/uv "))
	}
	if slices.Equal(flags, []string{"--mount=from=mambaorg/micromamba,source=/bin/micromamba,target=/.micromamba"}) && !list {
		b.mamba = true
		defer func() { b.mamba = false }()
		flags = nil
	}
	if !list && len(flags) == 0 {
		if _, _, ok := b.fs.Lookup("/bin/sh"); !ok && !slices.ContainsFunc(b.image.Layers, func(l imagetest.Layer) bool {
			return strings.HasPrefix(l.CreatedBy, "RUN ") || strings.HasPrefix(l.CreatedBy, "# debian.sh ")
		}) {
			return fmt.Errorf("the image has no shell")
		}
		return b.run(words[0])
	}
	there := map[string][]string{} // programs, by directory
	for _, f := range flags {
		from, dir, ok := strings.Cut(strings.TrimPrefix(f, "--mount="), ",target=")
		if !ok || mounts[from] == nil {
			return fmt.Errorf("%s mounts nothing that is known", f)
		}
		there[dir] = mounts[from]
	}
	if len(words) != 3 || words[1] != "-c" || !slices.Contains(there[path.Dir(words[0])], path.Base(words[0])) {
		return fmt.Errorf("%q is no program of a mounted directory", words)
	}
	search, line, ok := strings.Cut(strings.TrimPrefix(words[2], "PATH="), "; ")
	if !ok {
		return fmt.Errorf("%q sets no PATH", words[2])
	}
	for _, command := range strings.Split(line, " && ") {
		program, _, _ := strings.Cut(command, " ")
		if !slices.ContainsFunc(strings.Split(search, ":"), func(dir string) bool { return slices.Contains(there[dir], program) }) {
			return fmt.Errorf("%s is in no mounted directory", program)
		}
	}
	return b.run(line)
}

// run runs a command line in bash's and in BuildKit's words: commands joined by &&.
func (b *builder) run(line string) error {
	if out, err := exec.Command("bash", "-n", "-c", line).CombinedOutput(); err != nil {
		return fmt.Errorf("bash: %s %w", out, err)
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		return err
	}
	if u := b.user; u != "" && u != "root" && u != "0" {
		return fmt.Errorf("it runs as %s, who may not write there", u)
	}
	b.updated = b.lists
	defer func() { b.lists = b.updated }()
	for _, s := range file.Stmts {
		if err := b.statement(s); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) statement(s *syntax.Stmt) error {
	switch cmd := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if cmd.Op != syntax.AndStmt {
			return fmt.Errorf("%s: only && joins commands", cmd.Op)
		}
		if err := b.statement(cmd.X); err != nil {
			return err
		}
		return b.statement(cmd.Y)
	case *syntax.CallExpr:
		words, err := literal(cmd.Args)
		if err != nil {
			return err
		}
		to := ""
		for _, r := range s.Redirs {
			w, err := literal([]*syntax.Word{r.Word})
			if err != nil || r.Op != syntax.RdrOut {
				return fmt.Errorf("%s: only > redirects", r.Op)
			}
			to = w[0]
		}
		return b.command(words, to)
	}
	return fmt.Errorf("%T is no command of a snippet", s.Cmd)
}

// literal returns words without their quotes.
func literal(args []*syntax.Word) ([]string, error) {
	var words []string
	for _, a := range args {
		text := ""
		for _, p := range a.Parts {
			switch p := p.(type) {
			case *syntax.Lit:
				text += p.Value
			case *syntax.SglQuoted:
				text += p.Value
			default:
				return nil, fmt.Errorf("%T in a word", p)
			}
		}
		words = append(words, text)
	}
	return words, nil
}

func (b *builder) command(words []string, to string) error {
	command := strings.Join(words, " ")
	switch {
	case words[0] == "ln" && len(words) == 4 && words[1] == "-sf":
		return b.link(words[2], words[3])
	case words[0] == "ln" && len(words) == 4 && words[1] == "-s":
		if _, _, ok := b.fs.Lstat(words[3]); ok {
			return fmt.Errorf("ln: %s exists", words[3])
		}
		return b.link(words[2], words[3])
	case command == "chmod +x "+words[len(words)-1], command == `sed -i s/\r$// `+words[len(words)-1]:
		p := words[len(words)-1]
		e, _, ok := b.fs.Lookup(p)
		if !ok || e.Object != nil || int64(len(e.Content)) != e.Size {
			return fmt.Errorf("%s: %s is no text", words[0], p)
		}
		text, mode := b.text(p), int64(e.Mode.Perm())
		if words[0] == "chmod" {
			mode |= 0o111
		} else {
			text = strings.ReplaceAll(text, "\r\n", "\n")
		}
		b.put(p, imagetest.File{Data: text, Size: int64(len(text)), Mode: mode})
		return nil
	case len(words) == 4 && words[0] == "sed" && words[1] == "-i" && strings.HasPrefix(words[2], `\|^/`) && strings.HasSuffix(words[2], "$|d"):
		p := words[3]
		if e, _, ok := b.fs.Lookup(p); !ok || int64(len(e.Content)) != e.Size {
			return fmt.Errorf("sed: %s is no text", p)
		}
		deleted := regexp.MustCompile("(?m)" + words[2][len(`\|`):len(words[2])-len("|d")] + `\n?`)
		text := deleted.ReplaceAllString(b.text(p), "")
		b.put(p, imagetest.File{Data: text, Size: int64(len(text)), Mode: 0o644})
		return nil
	case command == "rm -rf /var/lib/apt/lists/*":
		b.updated = false
		return nil
	case command == "rm -rf /tmp/micromamba" && b.mamba:
		return nil
	case len(words) > 4 && words[1] == "install" && (path.Base(words[0]) == "conda" || words[0] == "/.micromamba" && b.mamba):
		return b.conda(words[0], words[2:])
	case path.Base(words[0]) == "conda" && strings.HasSuffix(command, "conda clean -afy"):
		return nil
	case words[0] == "rm" && words[1] == "-f":
		for _, p := range words[2:] {
			if e, _, ok := b.fs.Lstat(b.real(p)); ok && e.IsDir() {
				return fmt.Errorf("rm: %s is a directory", p)
			} else if ok {
				dir, base := path.Split(p)
				b.put(dir+".wh."+base, imagetest.File{})
			}
		}
		return nil
	case words[0] == "printf" && len(words) > 2 && words[1] == `%s\n` && to != "":
		if e, _, ok := b.fs.Lookup(path.Dir(to)); !ok || !e.IsDir() {
			return fmt.Errorf("sh: there is no directory %s", path.Dir(to))
		}
		text := strings.Join(words[2:], "\n") + "\n"
		b.put(to, imagetest.File{Data: text, Size: int64(len(text))})
		return nil
	case words[0] == "patchelf" && words[1] == "--clear-execstack" && b.has["patchelf"]:
		for _, p := range words[2:] {
			if err := b.clearStack(p); err != nil {
				return err
			}
		}
		return nil
	case command == "ldconfig":
		return b.ldconfig()
	case command == "apt-get update":
		b.updated = true
		return nil
	case strings.HasPrefix(command, "apt-get install -y --no-install-recommends "):
		if !b.updated {
			return fmt.Errorf("apt-get: there are no lists of packages")
		}
		return b.install("apt", words[4:])
	case strings.HasPrefix(command, "apk add --no-cache "):
		return b.install("apk", words[3:])
	case strings.HasPrefix(command, "dnf install -y "), strings.HasPrefix(command, "microdnf install -y "):
		_, _, full := b.fs.Lookup("/usr/bin/dnf")
		if _, _, minimal := b.fs.Lookup("/usr/bin/microdnf"); minimal && !full && words[0] == "dnf" {
			return fmt.Errorf("sh: dnf: not found")
		}
		return b.install("dnf", words[3:])
	case command == "dnf clean all", command == "microdnf clean all":
		return nil
	case len(words) == 3 && strings.HasPrefix(command, "mkdir -p /"):
		b.made = words[2]
		return nil
	case len(words) > 4 && words[1] == "-m" && words[2] == "pip":
		return b.pip(words[0], words[3:])
	case len(words) > 5 && path.Base(words[0]) == "uv" && words[1] == "pip" && slices.Contains(words, "--python"):
		at := slices.Index(words, "--python")
		return b.pip(words[at+1], slices.Concat(words[2:at], words[at+2:]))
	}
	return fmt.Errorf("%s is no command of a snippet", command)
}

// clearStack clears the mark of a library for an executable stack.
func (b *builder) clearStack(p string) error {
	for _, l := range slices.Backward(b.image.Layers) {
		for _, f := range l.Files {
			if "/"+f.Name == b.real(p) && f.ELF != nil {
				e := *f.ELF
				e.ExecStack = false
				f.ELF = &e
				b.put(p, f)
				return nil
			}
		}
	}
	return fmt.Errorf("patchelf: there is no %s", p)
}

// link does ln -sf: into the directory that at names, else in place of at.
func (b *builder) link(target, at string) error {
	if e, _, ok := b.fs.Lookup(at); ok && e.IsDir() {
		at = path.Join(at, path.Base(target))
	} else if e, _, ok := b.fs.Lookup(path.Dir(at)); path.Dir(at) != b.made && (!ok || !e.IsDir()) {
		return fmt.Errorf("ln: there is no directory %s", path.Dir(at))
	}
	b.put(at, imagetest.File{Type: tar.TypeSymlink, Link: target, Mode: 0o777})
	return nil
}

// ldconfig writes the cache of the image as the layers before this RUN and its own files
// have it.
func (b *builder) ldconfig() error {
	b.image.Layers = append(b.image.Layers, *b.layer)
	b.layer = &imagetest.Layer{CreatedBy: b.layer.CreatedBy}
	b.push()
	for _, interp := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"} {
		l, err := elfdeps.NewLoader(b.fs, interp, elfdeps.Env{})
		if err != nil {
			continue
		}
		entries, links := elfdeps.Ldconfig(listing{b.fs}, l)
		for at, target := range links {
			b.put(at, imagetest.File{Type: tar.TypeSymlink, Link: target, Mode: 0o777})
		}
		cache := string(elfdeps.WriteCache(entries))
		b.put("/etc/ld.so.cache", imagetest.File{Data: cache, Size: int64(len(cache))})
		return nil
	}
	return fmt.Errorf("ldconfig: the image has no loader of glibc")
}

// hasLoader reports whether the image has glibc's loader: not all texts do.
func (b *builder) hasLoader() bool {
	for _, interp := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"} {
		if _, err := elfdeps.NewLoader(b.fs, interp, elfdeps.Env{}); err == nil {
			return true
		}
	}
	return false
}

// install installs the libraries of packages.
func (b *builder) install(manager string, names []string) error {
	dir := "/usr/lib"
	switch {
	case manager == "dnf":
		dir = "/usr/lib64"
	case manager == "apt" && b.image.Platform.Architecture == "arm64":
		dir = "/usr/lib/aarch64-linux-gnu"
	case manager == "apt":
		dir = "/usr/lib/x86_64-linux-gnu"
	}
	for _, n := range names {
		sonames, programs := packageLibraries[n], packagePrograms[n]
		if b.has == nil {
			b.has = map[string]bool{}
		}
		b.has[n] = true
		for _, p := range programs {
			b.put(p, imagetest.File{Mode: 0o755})
		}
		if len(sonames)+len(programs) == 0 {
			return fmt.Errorf("%s: unknown package %s", manager, n)
		}
		for _, s := range sonames {
			b.put(path.Join(dir, s), imagetest.File{ELF: b.library([]string{s})})
		}
	}
	if manager == "apt" && b.hasLoader() { // libc-bin, which is essential, has a trigger
		if _, _, ok := b.fs.Lookup("/sbin/ldconfig"); !ok {
			b.put("/sbin/ldconfig", imagetest.File{ELF: &imagetest.ELF{Type: elf.ET_EXEC}, Mode: 0o755})
		}
		return b.ldconfig()
	}
	return nil
}

// conda installs packages in an environment.
func (b *builder) conda(program string, args []string) error {
	if e, _, ok := b.fs.Lookup(program); !b.mamba && (!ok || e.IsDir()) {
		return fmt.Errorf("there is no %s", program)
	}
	prefix := ""
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-y":
			args = args[1:]
			continue
		case "-p":
			prefix = args[1]
		case "-c", "-r":
		default:
			return fmt.Errorf("conda: %s is not known", args[0])
		}
		args = args[2:]
	}
	if e, _, ok := b.fs.Lookup(prefix + "/conda-meta"); !ok || !e.IsDir() {
		return fmt.Errorf("conda: %s is no environment", prefix)
	}
	for _, spec := range args {
		at := strings.IndexAny(spec, "<>=")
		if at < 0 {
			return fmt.Errorf("conda: %s names no release", spec)
		}
		found := false
		for _, r := range slices.Backward(condaReleases[spec[:at]]) { // the newest first
			if ok, err := pep440.Satisfies(r.release, spec[at:]); err != nil || !ok {
				continue
			}
			for _, name := range r.libraries {
				e := b.library([]string{name})
				e.VerDefs = append([]string{name}, r.versions...)
				for _, symbol := range r.symbols {
					e.Symbols = append(e.Symbols, imagetest.Symbol{Name: symbol, Defined: true, Type: elf.STT_FUNC})
				}
				b.put(path.Join(prefix, "lib", name), imagetest.File{ELF: e})
			}
			found = true
			break
		}
		if !found {
			return fmt.Errorf("conda: there is no %s", spec)
		}
	}
	return nil
}

// condaRelease is a release of a package of conda, with what its libraries define.
type condaRelease struct {
	release                      string
	libraries, versions, symbols []string
}

// condaReleases are releases of packages of conda, ascending.
var condaReleases = map[string][]condaRelease{
	"libstdcxx-ng": {
		{"11.2.0", []string{"libstdc++.so.6"}, []string{"GLIBCXX_3.4", "GLIBCXX_3.4.29", "CXXABI_1.3.13"}, nil},
		{"12.4.0", []string{"libstdc++.so.6"}, []string{"GLIBCXX_3.4", "GLIBCXX_3.4.29", "GLIBCXX_3.4.30", "CXXABI_1.3.13"}, nil},
	},
	"mkl": {
		{"2024.0.0", []string{"libmkl_core.so.2"}, nil, []string{"iJIT_NotifyEvent", "iJIT_IsProfilingActive", "iJIT_GetNewMethodID"}},
		{"2024.1.0", []string{"libmkl_core.so.2"}, nil, nil},
	},
}

// pip installs and uninstalls wheels for a Python.
func (b *builder) pip(python string, args []string) error {
	if e, _, ok := b.fs.Lookup(python); !ok || e.IsDir() {
		return fmt.Errorf("there is no %s", python)
	}
	b.python = python
	again, noDeps := slices.Contains(args, "--force-reinstall") || slices.Contains(args, "--reinstall"), slices.Contains(args, "--no-deps")
	if tools := []string{"packaging", "setuptools", "wheel"}; slices.Equal(args[max(0, len(args)-len(tools)):], tools) {
		return nil // no scan asks for them
	}
	b.renew = slices.Contains(args, "--find-links") || slices.Contains(args, "--no-build-isolation")
	if b.renew && (!again || !noDeps || slices.Contains(args, "--find-links") != slices.Contains(args, "--only-binary")) {
		return fmt.Errorf("pip %q: want the build alone, from a page no source", args)
	}
	var names []string
	for i, a := range args[1:] {
		switch {
		case !strings.HasPrefix(a, "-") && !slices.Contains([]string{"--index-url", "--find-links", "--only-binary"}, args[i]):
			names = append(names, a)
		case !slices.Contains([]string{"--no-deps", "--no-cache", "--no-cache-dir", "--break-system-packages", "--force-reinstall", "--reinstall", "-y", "--index-url", "--find-links", "--only-binary", "--no-build-isolation"}, a) && strings.HasPrefix(a, "-"):
			return fmt.Errorf("pip: %s is not known", a)
		}
	}
	b.index = ""
	if at := slices.Index(args, "--index-url"); at >= 0 {
		b.index = path.Base(args[at+1])
	}
	build := func(name string) bool { return b.index != "" && strings.HasSuffix(name, "+"+b.index) }
	isNew := func(name string) bool { r, _ := inventory.ParseRequirement(name); return packageModules[r.Name] != "" }
	if args[0] == "install" && !noDeps {
		names = b.withDependencies(names)
	}
	if len(names) == 0 || args[0] == "install" && !noDeps && !slices.ContainsFunc(names, build) && !slices.ContainsFunc(names, isNew) && !slices.ContainsFunc(names, b.stays) {
		return fmt.Errorf("pip %q: want names, and install with --no-deps, but for other builds and new packages", args)
	}
	for _, name := range names {
		var err error
		switch args[0] {
		case "install":
			err = b.wheel(name, again)
		case "uninstall":
			err = b.uninstall(name)
		default:
			err = fmt.Errorf("pip %s is not known", args[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stays reports whether a requirement is met by the installed release of its package.
func (b *builder) stays(requirement string) bool {
	r, err := inventory.ParseRequirement(requirement)
	info, has, _ := b.installed(r.Name)
	ok, _ := pep440.Satisfies(has, r.Specifiers)
	return err == nil && info != "" && ok
}

// withDependencies adds to requirements those of the packages that stay, also by their extras, which
// the installed releases do not meet: pip installs what a package requires that it leaves alone.
func (b *builder) withDependencies(names []string) []string {
	for _, name := range names {
		r, err := inventory.ParseRequirement(name)
		info, _, _ := b.installed(r.Name)
		if err != nil || !b.stays(name) {
			continue
		}
		env := inventory.MarkerEnv{"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "x86_64"}
		if _, extra, ok := strings.Cut(name, "["); ok {
			env["extra"], _, _ = strings.Cut(extra, "]")
		}
		b.staying = append(b.staying, path.Join(path.Dir(info), strings.ReplaceAll(r.Name, "-", "_"))+"/")
		for line := range strings.Lines(b.text(info + "/METADATA")) {
			needs, err := inventory.ParseRequirement(strings.TrimPrefix(strings.TrimSpace(line), "Requires-Dist: "))
			if !strings.HasPrefix(line, "Requires-Dist: ") || err != nil {
				continue
			}
			there, _, _ := b.installed(needs.Name)
			if holds, _ := needs.Applies(env); holds && there != "" && !b.stays(needs.Name+needs.Specifiers) {
				names = append(slices.Clone(names), needs.Name+needs.Specifiers)
			}
		}
	}
	return names
}

// distInfo matches the directory of a wheel's metadata: the site, the name and the version.
var distInfo = regexp.MustCompile(`^(.*/(?:site|dist)-packages)/([^/]+)-([^/-]+)\.dist-info$`)

// installed returns the directory of a wheel's metadata and its release, or "", and the site that
// has most wheels.
func (b *builder) installed(name string) (info, release, site string) {
	sites := map[string]int{}
	for e := range b.fs.All() {
		m := distInfo.FindStringSubmatch(path.Dir("/" + e.Path))
		if base := path.Base(e.Path); m == nil || base != "METADATA" && base != "RECORD" || b.removed("/"+e.Path) || !b.ofPython(m[1]) {
			continue
		}
		sites[m[1]]++
		if inventory.Normalize(m[2]) == name {
			info, release = m[0], m[3]
		}
	}
	for s, n := range sites {
		if site == "" || n > sites[site] || n == sites[site] && s < site {
			site = s
		}
	}
	return info, release, site
}

// ofPython reports whether a site is one of the interpreter: below its prefix, for that of Debian
// also below /usr/local, and not in an environment there.
func (b *builder) ofPython(site string) bool {
	prefix := path.Dir(path.Dir(b.python))
	return strings.HasPrefix(site, prefix+"/lib") || prefix == "/usr" && strings.HasPrefix(site, "/usr/local/lib")
}

// removed reports whether this instruction has removed a file.
func (b *builder) removed(p string) bool {
	dir, base := path.Split(strings.TrimPrefix(p, "/"))
	return slices.ContainsFunc(b.layer.Files, func(f imagetest.File) bool { return f.Name == dir+".wh."+base })
}

// listed returns the files of a wheel's RECORD and their sizes.
func (b *builder) listed(info string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(b.text(info + "/RECORD")) {
		f := strings.Split(strings.TrimSpace(line), ",")
		n, _ := strconv.ParseInt(f[len(f)-1], 10, 64)
		out[path.Join(path.Dir(info), f[0])] = n
	}
	return out
}

// text returns the content of a text file of the image, or "".
func (b *builder) text(p string) string {
	for _, l := range slices.Backward(b.image.Layers) {
		for _, f := range l.Files {
			if "/"+f.Name == p {
				return f.Data
			}
		}
	}
	return ""
}

func (b *builder) uninstall(name string) error {
	info, _, _ := b.installed(name)
	if info == "" {
		return fmt.Errorf("pip: %s is not installed", name)
	}
	files := slices.Collect(maps.Keys(b.listed(info)))
	for _, p := range append(files, info+"/METADATA") {
		if e, _, ok := b.fs.Lookup(p); ok && !e.IsDir() && !b.removed(p) {
			dir, base := path.Split(p)
			b.put(dir+".wh."+base, imagetest.File{})
		}
	}
	return nil
}

// wheel installs a wheel: the libraries of NVIDIA's, and those that the RECORD of an installed
// release lists, as empty ones.
func (b *builder) wheel(requirement string, again bool) error {
	r, err := inventory.ParseRequirement(requirement)
	if err != nil {
		return err
	}
	release := ""
	for _, v := range append(wheelReleases[r.Name], strings.TrimPrefix(r.Specifiers, "==")) {
		if ok, err := pep440.Satisfies(v, r.Specifiers); err == nil && ok {
			release = v
		}
	}
	if release == "" {
		return fmt.Errorf("pip: no release of %s meets %s", r.Name, r.Specifiers)
	}
	info, has, site := b.installed(r.Name)
	if info != "" && has == release && !again {
		return nil // pip leaves it alone
	}
	put, record := 0, ""
	for at, names := range wheelLibraries(r.Name, release) {
		b.put(path.Join(site, at), imagetest.File{ELF: b.inWheel(names)})
		put++
		if info == "" {
			record += at + ",,\n"
		}
	}
	for _, at := range wheelFiles[r.Name] {
		f := imgFile(at)
		if f.ELF != nil {
			f.ELF = b.library([]string{path.Base(at)})
		}
		b.put(path.Join(site, at), f)
		put++
	}
	for _, dir := range []string{info, fmt.Sprintf("%s/%s-%s.dist-info", site, strings.ReplaceAll(r.Name, "-", "_"), release)} {
		put += b.restore(dir, has != release || b.renew)
	}
	if at := path.Join(site, packageModules[r.Name], "__init__.py"); packageModules[r.Name] != "" {
		const text = "def __getattr__(name):\n    return None\n" // it has what is asked for
		b.put(at, imagetest.File{Data: text, Size: int64(len(text))})
		put++
	}
	put += b.rebuild(site, r.Name)
	if at := path.Join(site, r.Name, "version.py"); has != release && b.index == "" {
		if m := versionLine.FindStringSubmatch(b.text(at)); m != nil {
			text := strings.Replace(b.text(at), m[0], "__version__ = '"+release+m[1]+"'", 1)
			b.put(at, imagetest.File{Data: text, Size: int64(len(text))})
		}
	}
	if cuda, ok := strings.CutPrefix(b.index, "cu"); ok && len(cuda) == 3 {
		text := fmt.Sprintf("__version__ = '%s+%s'\ncuda: Optional[str] = '%s.%s'\n", strings.TrimSuffix(release, "+"+b.index), b.index, cuda[:2], cuda[2:])
		b.put(path.Join(site, r.Name, "version.py"), imagetest.File{Data: text, Size: int64(len(text))})
		for _, at := range buildFiles[r.Name] {
			b.put(path.Join(site, at), imagetest.File{ELF: b.library([]string{path.Base(at)})})
		}
		put++
	}
	if put == 0 && wheelReleases[r.Name] == nil {
		return fmt.Errorf("pip: no wheel is known as %s", r.Name)
	}
	b.record(info)
	if info != "" && has != release {
		b.put(info+"/.wh.METADATA", imagetest.File{})
	}
	if info == "" || has != release {
		text := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", r.Name, release)
		dir := fmt.Sprintf("%s/%s-%s.dist-info", site, strings.ReplaceAll(r.Name, "-", "_"), release)
		b.put(dir+"/METADATA", imagetest.File{Data: text, Size: int64(len(text))})
		if record != "" {
			b.put(dir+"/RECORD", imagetest.File{Data: record, Size: int64(len(record))})
		}
	}
	return nil
}

// versionLine matches the line of a version.py that says the version, with its local part.
var versionLine = regexp.MustCompile(`__version__ = '[^'+]*(\+[^']*)?'`)

// record writes the RECORD of an installed release with the sizes of the files in this layer.
func (b *builder) record(info string) {
	old, text := b.text(info+"/RECORD"), ""
	if old == "" {
		return
	}
	for line := range strings.Lines(old) {
		f := strings.Split(strings.TrimSpace(line), ",")
		for _, put := range b.layer.Files {
			if "/"+put.Name == path.Join(path.Dir(info), f[0]) && len(f) == 3 {
				f[2] = strconv.FormatInt(put.Size, 10)
			}
		}
		text += strings.Join(f, ",") + "\n"
	}
	b.put(info+"/RECORD", imagetest.File{Data: text, Size: int64(len(text))})
}

// restore puts the libraries in place that a RECORD lists, if they are not as it says; all puts
// every one.
func (b *builder) restore(info string, all bool) int {
	n, files := 0, b.listed(info)
	if m := distInfo.FindStringSubmatch(info); all && len(files) == 0 && m != nil && (b.renew || len(b.staying) > 0) {
		for e := range b.fs.All() { // texts may leave RECORD out
			if at := "/" + e.Path; e.Object != nil && strings.HasPrefix(at, path.Join(m[1], m[2])+"/") {
				files[at] = e.Size
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if !strings.Contains(path.Base(p), ".so") || slices.ContainsFunc(b.layer.Files, func(f imagetest.File) bool { return "/"+f.Name == p }) {
			continue
		}
		e, _, there := b.fs.Lookup(p)
		there = there && !b.removed(p)
		machine := elf.EM_X86_64
		if b.image.Platform.Architecture == "arm64" {
			machine = elf.EM_AARCH64
		}
		if there && !all && e.Object != nil && e.Object.Machine == machine && e.Size == files[p] {
			continue
		}
		soname := path.Base(p)
		if there && e.Object != nil {
			soname = e.Object.Soname
		}
		l := b.library([]string{soname})
		if module, _, ok := strings.Cut(path.Base(p), ".cpython-"); ok {
			l.Symbols = append(l.Symbols, imagetest.Symbol{Name: "PyInit_" + module, Defined: true, Type: elf.STT_FUNC})
		} else if module, ok := strings.CutSuffix(path.Base(p), ".abi3.so"); ok {
			l.Symbols = append(l.Symbols, imagetest.Symbol{Name: "PyInit_" + module, Defined: true, Type: elf.STT_FUNC})
		}
		if old := b.elf(p); all && old != nil && (b.renew || len(b.staying) > 0) {
			l.Needed, l.Rpath, l.Runpath = old.Needed, old.Rpath, old.Runpath
			l.Symbols = append(l.Symbols, b.bound(soname)...)
		}
		b.put(p, imagetest.File{ELF: l})
		n++
	}
	return n
}

// elf returns the last ELF file that a layer has at a path, or nil.
func (b *builder) elf(p string) *imagetest.ELF {
	for _, l := range slices.Backward(b.image.Layers) {
		for _, f := range l.Files {
			if "/"+f.Name == p {
				return f.ELF
			}
		}
	}
	return nil
}

// bound returns the symbols without versions that the files of staying packages need, if they need a
// library: in the release that their packages require, it defines them.
func (b *builder) bound(soname string) (list []imagetest.Symbol) {
	for _, l := range b.image.Layers {
		for _, f := range l.Files {
			if f.ELF == nil || !slices.Contains(f.ELF.Needed, soname) || !slices.ContainsFunc(b.staying, func(dir string) bool { return strings.HasPrefix("/"+f.Name, dir) }) {
				continue
			}
			for _, s := range f.ELF.Symbols {
				if !s.Defined && s.Version == "" {
					list = append(list, imagetest.Symbol{Name: s.Name, Defined: true, Type: s.Type})
				}
			}
		}
	}
	return list
}

// otherPython matches the name of an extension module: its path without the tag, and the tag's end.
var otherPython = regexp.MustCompile(`^(.*)\.cpython-3\d+-(.*)$`)

// rebuild puts the extension modules for b.python in the place of those that a wheel's directory has
// for other releases of Python.
func (b *builder) rebuild(site, name string) (n int) {
	python, _, _ := b.fs.Lookup(b.python)
	release := strings.ReplaceAll(strings.TrimPrefix(path.Base(python.Path), "python"), ".", "")
	for e := range b.fs.All() {
		m := otherPython.FindStringSubmatch("/" + e.Path)
		if m == nil || e.Object == nil || !strings.HasPrefix(m[1], path.Join(site, name)+"/") {
			continue
		}
		if at := m[1] + ".cpython-" + release + "-" + m[2]; at != "/"+e.Path {
			b.put(at, imagetest.File{ELF: b.library([]string{""})})
			b.put(path.Join("/", path.Dir(e.Path), ".wh."+path.Base(e.Path)), imagetest.File{})
			n++
		}
	}
	return n
}

// wheelReleases are releases of wheels, the newest last.
var wheelReleases = map[string][]string{
	"einops":                 {"0.8.1"},
	"grpcio":                 {"1.81.0"},
	"huggingface-hub":        {"0.25.2"},
	"langchain":              {"0.3.27"},
	"marshmallow":            {"3.26.1"},
	"numpy":                  {"1.26.4", "2.2.6"},
	"pillow":                 {"9.5.0", "11.1.0"},
	"psutil":                 {"7.1.0"},
	"requests":               {"2.32.5"},
	"setuptools":             {"80.9.0", "82.0.0"},
	"transformers":           {"4.57.6"},
	"ctranslate2":            {"4.4.0", "4.6.0"},
	"jax-cuda12-plugin":      {"0.4.30", "0.4.35", "0.4.38"},
	"jaxlib":                 {"0.4.30", "0.4.35", "0.4.38"},
	"nvidia-cublas-cu12":     {"12.8.4.1"},
	"nvidia-cudnn-cu12":      {"8.9.7.29", "9.1.0.70", "9.10.2.21"},
	"onnxruntime-gpu":        {"1.19.2"},
	"opencv-contrib-python":  {"4.11.0.86"},
	"opencv-python-headless": {"4.11.0.86"},
	"nvidia-cuda-cupti":      {"13.0.85"},
	"nvidia-cuda-cupti-cu11": {"11.7.101", "11.8.87"},
	"nvidia-cuda-nvcc":       {"13.0.88"},
	"nvidia-cuda-runtime":    {"13.0.96"},
	"tensorflow":             {"2.18.1", "2.19.1"},
	"torch-scatter":          {"2.1.2+pt26cu124"},
	"torch":                  {"2.5.1", "2.6.0", "2.8.0"},
	"torchvision":            {"0.18.1", "0.21.0"},
	"torchaudio":             {"2.3.1", "2.6.0", "2.8.0"},
}

// wheelFiles are other files of wheels.
var wheelFiles = map[string][]string{
	"jax-cuda13-pjrt":        {"jax_plugins/xla_cuda13/xla_cuda_plugin.so"},
	"nvidia-cuda-cupti":      {"nvidia/cu13/lib/libcupti.so.13"},
	"nvidia-cuda-cupti-cu11": {"nvidia/cuda_cupti/lib/libcupti.so.11.8"},
	"nvidia-cuda-nvcc":       {"nvidia/cu13/bin/ptxas"},
	"nvidia-cuda-runtime":    {"nvidia/cu13/include/cuda_runtime.h"},
	"torchvision":            {"torchvision/_C.so"},
}

// packageModules are the modules of packages that images lack.
var packageModules = map[string]string{
	"einops":          "einops",
	"grpcio":          "grpc",
	"huggingface-hub": "huggingface_hub",
	"langchain":       "langchain/text_splitter",
	"marshmallow":     "marshmallow",
	"numpy":           "numpy",
	"pillow":          "PIL/Image",
	"psutil":          "psutil",
	"requests":        "requests",
	"setuptools":      "pkg_resources",
	"transformers":    "transformers",
}

// buildFiles are libraries of the builds of wheels for CUDA.
var buildFiles = map[string][]string{
	"torch": {"torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so"},
}

// imgFile returns an empty file: a library or a program.
func imgFile(at string) imagetest.File {
	if strings.Contains(at, ".so") {
		return imagetest.File{ELF: &imagetest.ELF{}}
	}
	return imagetest.File{Mode: 0o755}
}

// wheelLibraries returns the libraries of a wheel of NVIDIA's by their paths below the site: the
// SONAME and the needed libraries of each.
func wheelLibraries(name, version string) map[string][]string {
	major, _, _ := strings.Cut(version, ".")
	cuda, list := "13", cuda13
	if _, suffix, ok := strings.Cut(name, "-cu1"); ok {
		cuda, list = "1"+suffix, map[string]string{"1": cuda11, "2": cuda12, "3": cuda13}[suffix]
	}
	list += map[string]string{"2": "\nlibnccl.so.2", "8": cudnn8, "9": cudnn9}[major]
	out := map[string][]string{}
	for line := range strings.Lines(list) {
		names := strings.Fields(line)
		if len(names) == 0 || strings.HasPrefix(names[0], "libnvblas") { // the texts leave it out
			continue
		}
		lib := provide.LibraryOf(names[0])
		if lib == nil || !slices.Contains(lib.WheelNames(cuda), name) {
			continue
		}
		dir := lib.Dirs[0]
		for _, d := range lib.Dirs {
			if strings.Contains(d, "cu"+cuda) {
				dir = d
			}
		}
		out[path.Join(dir, names[0])] = names
		if r := pep440.ParseRelease(version); lib.ID == "nvrtc" && len(r) > 1 {
			builtins := "libnvrtc-builtins.so." + r.First(2).String()
			out[path.Join(dir, builtins)] = []string{builtins}
		}
	}
	return out
}

// packageLibraries are the libraries of packages of distributions, with those of the
// packages that they depend on.
var packageLibraries = map[string][]string{
	"libgomp":                        {"libgomp.so.1"},
	"libgomp1":                       {"libgomp.so.1"},
	"libblas3":                       {"libblas.so.3"},
	"liblapack3":                     {"liblapack.so.3", "libblas.so.3"},
	"libopenblas0":                   {"libopenblas.so.0"},
	"libopenmpi3":                    {"libmpi.so.40", "libmpi_cxx.so.40", "libopen-rte.so.40", "libopen-pal.so.40"},
	"libpng16-16":                    {"libpng16.so.16"},
	"libpq5":                         {"libpq.so.5"},
	"libssl3":                        {"libssl.so.3", "libcrypto.so.3"},
	"libtbb12":                       {"libtbb.so.12", "libtbbmalloc.so.2"},
	"libusb-1.0-0":                   {"libusb-1.0.so.0"},
	"libx11-6":                       {"libX11.so.6", "libxcb.so.1"},
	"libxcb1":                        {"libxcb.so.1", "libXau.so.6", "libXdmcp.so.6"},
	"libmkl-intel-thread":            {"libmkl_intel_thread.so", "libmkl_core.so"},
	"libomp-dev":                     {"libomp.so.5", "libiomp5.so"},
	"libibverbs1":                    {"libibverbs.so.1", "libnl-3.so.200", "libnl-route-3.so.200"},
	"ibverbs-providers":              {"libmlx5.so.1", "libibverbs.so.1"},
	"libxext6":                       {"libXext.so.6", "libX11.so.6", "libxcb.so.1"},
	"libnuma1":                       {"libnuma.so.1"},
	"libbz2-1.0":                     {"libbz2.so.1.0"},
	"zlib1g":                         {"libz.so.1"},
	"libportaudio2":                  {"libportaudio.so.2", "libasound.so.2", "libjack.so.0"},
	"libsndfile1":                    {"libsndfile.so.1", "libFLAC.so.12", "libvorbis.so.0", "libvorbisenc.so.2", "libopus.so.0", "libogg.so.0", "libmpg123.so.0", "libmp3lame.so.0"},
	"libgl1":                         {"libGL.so.1", "libGLdispatch.so.0", "libGLX.so.0", "libX11.so.6", "libxcb.so.1", "libXau.so.6", "libXdmcp.so.6"},
	"libsm6":                         {"libSM.so.6", "libICE.so.6"},
	"libice6":                        {"libICE.so.6"},
	"libxrender1":                    {"libXrender.so.1", "libX11.so.6", "libxcb.so.1"},
	"libqt5core5a":                   {"libQt5Core.so.5"},
	"libqt5gui5":                     {"libQt5Gui.so.5", "libQt5Core.so.5"},
	"libqt5widgets5":                 {"libQt5Widgets.so.5", "libQt5Gui.so.5", "libQt5Core.so.5"},
	"libqt5test5":                    {"libQt5Test.so.5", "libQt5Core.so.5"},
	"libcairo2":                      {"libcairo.so.2", "libX11.so.6", "libXext.so.6", "libXrender.so.1", "libxcb.so.1", "libfontconfig.so.1", "libfreetype.so.6", "libpixman-1.so.0", "libpng16.so.16"},
	"libgstreamer1.0-0":              {"libgstreamer-1.0.so.0"},
	"libgstreamer-plugins-base1.0-0": {"libgstapp-1.0.so.0", "libgstvideo-1.0.so.0", "libgstaudio-1.0.so.0", "libgstpbutils-1.0.so.0", "libgstriff-1.0.so.0"},
	"libglib2.0-0":                   {"libglib-2.0.so.0", "libgobject-2.0.so.0", "libgio-2.0.so.0", "libgmodule-2.0.so.0", "libgthread-2.0.so.0", "libffi.so.8", "libpcre2-8.so.0"},
	"ffmpeg":                         {"libavutil.so.57", "libavcodec.so.59", "libavformat.so.59", "libavfilter.so.8", "libavdevice.so.59", "libswscale.so.6", "libswresample.so.4"},
	"libmagic1":                      {"libmagic.so.1"},
	"libglib2.0-0t64":                {"libglib-2.0.so.0", "libgobject-2.0.so.0", "libgio-2.0.so.0", "libgmodule-2.0.so.0", "libgthread-2.0.so.0", "libffi.so.8", "libpcre2-8.so.0"},
}

// packagePrograms are the programs and headers of packages of distributions.
var packagePrograms = map[string][]string{
	"gcc":       {"/usr/bin/gcc"},
	"libc6-dev": {"/usr/include/stdio.h"},
	"patchelf":  {"/usr/bin/patchelf"},
	"ffmpeg":    {"/usr/bin/ffmpeg"},
	"git":       {"/usr/bin/git"},
}

// cudaImage returns the libraries of one of NVIDIA's runtime images, by their paths: the
// SONAME and the libraries that each needs, as readelf -d shows them; nil for another ref.
func cudaImage(ref, arch string) map[string][]string {
	release, ok := cudaReleases[ref]
	if !ok {
		return nil
	}
	triple := "x86_64-linux-gnu"
	if arch == "arm64" {
		triple = "aarch64-linux-gnu"
	}
	out := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(release), "\n") {
		f := strings.Fields(line)
		dir := "/usr/local/cuda/lib64"
		if strings.HasPrefix(f[0], "libcudnn") || strings.HasPrefix(f[0], "libnccl") {
			dir = "/usr/lib/" + triple
		}
		out[path.Join(dir, f[0])] = f
	}
	return out
}

const (
	cudnn8 = `
libcudnn.so.8
libcudnn_ops_infer.so.8 libz.so.1
libcudnn_ops_train.so.8 libcudnn_ops_infer.so.8
libcudnn_cnn_infer.so.8 libcudnn_ops_infer.so.8
libcudnn_cnn_train.so.8 libcudnn_ops_infer.so.8 libcudnn_ops_train.so.8 libcudnn_cnn_infer.so.8
libcudnn_adv_infer.so.8 libcudnn_ops_infer.so.8
libcudnn_adv_train.so.8 libcudnn_ops_infer.so.8 libcudnn_ops_train.so.8 libcudnn_adv_infer.so.8
libnccl.so.2`
	cudnn9 = `
libcudnn.so.9
libcudnn_graph.so.9
libcudnn_ops.so.9 libcudnn_graph.so.9
libcudnn_cnn.so.9 libcudnn_graph.so.9 libcudnn_ops.so.9
libcudnn_adv.so.9 libcudnn_graph.so.9 libcudnn_ops.so.9
libcudnn_heuristic.so.9 libcudnn_graph.so.9
libcudnn_engines_precompiled.so.9 libcudnn_graph.so.9
libcudnn_engines_runtime_compiled.so.9 libcudnn_graph.so.9
libnccl.so.2`
	cuda11 = `
libcudart.so.11.0
libnvrtc.so.11.2
libnvrtc-builtins.so.11.8
libcublas.so.11 libcublasLt.so.11
libcublasLt.so.11
libnvblas.so.11 libcublas.so.11
libcufft.so.10
libcufftw.so.10 libcufft.so.10
libcurand.so.10
libcusolver.so.11 libcublas.so.11 libcublasLt.so.11
libcusolverMg.so.11 libcublas.so.11 libcublasLt.so.11
libcusparse.so.11
libnppc.so.11
libnppicc.so.11 libnppc.so.11
libnppidei.so.11 libnppc.so.11
libnppig.so.11 libnppc.so.11
libnvjpeg.so.11`
	cuda12 = `
libcudart.so.12
libnvrtc.so.12
libcublas.so.12 libcublasLt.so.12
libcublasLt.so.12
libnvblas.so.12 libcublas.so.12
libcufft.so.11
libcufftw.so.11 libcufft.so.11
libcurand.so.10
libcusolver.so.11 libnvJitLink.so.12 libcusparse.so.12 libcublas.so.12 libcublasLt.so.12
libcusolverMg.so.11 libcusparse.so.12 libcublas.so.12 libcublasLt.so.12
libcusparse.so.12 libnvJitLink.so.12
libnvJitLink.so.12
libcufile.so.0
libnppc.so.12
libnppicc.so.12 libnppc.so.12
libnppidei.so.12 libnppc.so.12
libnppig.so.12 libnppc.so.12
libnvjpeg.so.12`
	cuda13 = `
libcudart.so.13
libnvrtc.so.13
libcublas.so.13 libcublasLt.so.13
libcublasLt.so.13
libnvblas.so.13 libcublas.so.13
libcufft.so.12
libcufftw.so.12 libcufft.so.12
libcurand.so.10
libcusolver.so.12 libnvJitLink.so.13 libcusparse.so.12 libcublas.so.13 libcublasLt.so.13
libcusolverMg.so.12 libcusparse.so.12 libcublas.so.13 libcublasLt.so.13
libcusparse.so.12 libnvJitLink.so.13
libnvJitLink.so.13
libcufile.so.0
libnppc.so.13
libnppicc.so.13 libnppc.so.13
libnppidei.so.13 libnppc.so.13
libnppig.so.13 libnppc.so.13
libnvjpeg.so.13`
)

var cudaReleases = map[string]string{
	"nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04": cuda11 + cudnn8,
	"nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04": cuda12 + "\nlibnvrtc-builtins.so.12.2" + cudnn8,
	"nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04":  cuda12 + "\nlibnvrtc-builtins.so.12.4" + cudnn9,
	"nvidia/cuda:12.6.3-cudnn-runtime-ubuntu22.04":  cuda12 + "\nlibnvrtc-builtins.so.12.6" + cudnn9,
	"nvidia/cuda:12.8.1-cudnn-runtime-ubuntu22.04":  cuda12 + "\nlibnvrtc-builtins.so.12.8" + cudnn9,
	"nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04":  cuda13 + "\nlibnvrtc-builtins.so.13.0" + cudnn9,
	"nvidia/cuda:13.1.1-cudnn-runtime-ubuntu24.04":  cuda13 + "\nlibnvrtc-builtins.so.13.1" + cudnn9,
}

// listing is an [elfdeps.DirFS].
type listing struct{ *layers.FS }

func (l listing) List(dir string) ([]string, error) {
	entries, err := fs.ReadDir(l.FS, cmp.Or(strings.Trim(dir, "/"), "."))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}
