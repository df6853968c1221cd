package size

import (
	"bytes"
	"context"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// This file reads files of the image a second time, of which the index keeps nothing or only what imports
// need: the image's own sources and settings name caches, archives and copies that a
// function uses which nothing calls at the start.

// own are the facts of these files.
type own struct {
	lines [][]string      // command lines that a source may run
	paths []string        // absolute paths; a path in the home directory begins with ~
	led   map[string]bool // trees of copies (see abandoned) to which a path in two parts may lead
	had   map[string]bool
	many  bool // there are more than maxFacts: size then claims no file that these facts may lead to
}

// line adds a command line, and path a path.
func (o *own) line(words []string) {
	if o.first(strings.Join(words, " ")) {
		o.lines = append(o.lines, words)
	}
}

func (o *own) path(p string) {
	if o.first(p) {
		o.paths = append(o.paths, p)
	}
}

func (o *own) first(fact string) bool {
	o.many = o.many || len(o.had) >= maxFacts && !o.had[fact]
	if o.many || o.had[fact] {
		return false
	}
	o.had[fact] = true
	return true
}

// Bounds of the own files: bytes of one that is read, and facts that are kept of all.
const (
	maxOwn   = 1 << 20
	maxFacts = 20_000
)

// notOwn are patterns of files that packages have, that only a build reads, or that are no program's text.
var notOwn = []string{
	"usr/{lib,lib32,lib64,libexec,share,include,bin,sbin}/**", "usr/local/{cuda*,lib,lib64,share,include}/**", "{lib*,bin,sbin,boot,dev,proc,sys,run}/**",
	"var/{lib,cache,log}/**", "etc/{apt,alternatives,ssl,pam.d,dpkg,fonts,terminfo,ld.so.conf.d}/**", "etc/ld.so.*", "opt/{conda,nvidia,cuda*,miniconda3}/**",
	"**/{site-packages,dist-packages,node_modules,__pycache__,.git,.github,docs,doc,tests,test,examples,benchmarks}/**", "**/.cache/**", "**/.npm/**",
	"**/{Dockerfile,Containerfile,LICENSE,README,CHANGELOG,Makefile,.dockerignore,.gitignore,.travis.yml,setup.py,noxfile.py,tox.ini,pyproject.toml}*",
	"**/{requirements,constraints,environment}*.{txt,in,yml,yaml}", "**/{docker-compose,compose}*.{yml,yaml}", "**/.gitlab-ci.yml",
	"**/*.{md,rst,lock,dockerfile,csv,tsv,svg,css,html,htm,map,png,jpg,jpeg,gif,ico,webp,ttf,woff,woff2,pdf,gz,xz,bz2,zst,zip,whl,deb,rpm,pt,pth.tar,bin,onnx,safetensors,npy,npz,parquet,pyc,a,o,h,hpp,c,cc,cpp,cu}",
}

// services are patterns of files whose lines are commands: of cron, systemd and supervisors.
var services = []string{"etc/cron*/**", "etc/crontab", "var/spool/cron/**", "etc/systemd/**", "etc/supervisor*/**", "etc/supervisord.conf", "**/supervisord.conf", "**/Procfile"}

// isOwn reports whether an entry is a file of the image's own: no library, and of no package.
func isOwn(e *layers.Entry) bool {
	if e.Type != layers.Regular || e.Object != nil || e.Size == 0 || e.Size > maxOwn {
		return false
	}
	return packs.MatchAny(services, e.Path) || !packs.MatchAny(notOwn, e.Path)
}

// readOwn reads the image's own files, and the sources of packages of Python that bring a copy. It takes
// those off copies that they lead to. Without Read it does nothing.
func (f *finder) readOwn(ctx context.Context, classes []*Class) error {
	if f.Read == nil || len(f.copies) == 0 && f.parts == nil && f.debs == nil && !f.anyOf(classes) {
		return nil
	}
	makes, sourced := false, map[string]bool{}
	for p := range f.scripts() {
		sourced[strings.TrimPrefix(p, "/")] = true // also without `#!`
	}
	for _, line := range f.commands() {
		makes = makes || slices.ContainsFunc(line, func(w string) bool { return path.Base(w) == "make" })
		if i := slices.IndexFunc(line, func(w string) bool { return w == "." || w == "source" }); i >= 0 && i+1 < len(line) {
			sourced[strings.TrimPrefix(path.Clean(line[i+1]), "/")] = true
		}
	}
	byPackage := f.copiesByPackage()
	programs := programsOf(classes)
	return f.readAll(ctx, func(e *layers.Entry) bool {
		return isOwn(e) || makes && path.Base(e.Path) == "Makefile" || path.Ext(e.Path) == ".py" && byPackage[packageOf(e.Path)] != nil
	}, func(e *layers.Entry, r io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(r, maxOwn))
		if err != nil || bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			return err
		}
		if list := byPackage[packageOf(e.Path)]; list != nil {
			f.keepParts(list, text)
			return nil
		}
		f.keepLed(e, text)
		for _, p := range pathsIn(text, mayTell) {
			f.own.path(p)
		}
		if packs.MatchAny(services, e.Path) || path.Base(e.Path) == "Makefile" || sourced[e.Path] {
			for _, line := range linesOf(string(text)) {
				if runs(line, programs) {
					f.own.line(line)
				}
			}
		} else {
			commandsIn(text, programs, f.own.line)
		}
		for _, c := range classes {
			for _, u := range c.Users {
				for _, name := range u.Texts {
					if isSource(e.Path) && bytes.Contains(text, []byte(name)) {
						f.own.line([]string{name})
					}
				}
			}
		}
		return nil
	})
}

// readAll reads the files that containers have and want chooses, layer by layer.
func (f *finder) readAll(ctx context.Context, want func(e *layers.Entry) bool, take func(e *layers.Entry, r io.Reader) error) error {
	byLayer := map[int][]*layers.Entry{}
	had := map[inode]bool{}
	for e, layer := range f.FS.All() {
		if id := (inode{layer, e.Inode}); e.Type == layers.Regular && !had[id] && want(e) {
			had[id] = true
			byLayer[layer] = append(byLayer[layer], e)
		}
	}
	for layer := range f.Layers {
		if list := byLayer[layer]; len(list) > 0 {
			if err := f.Read(ctx, layer, list, take); err != nil {
				return err
			}
		}
	}
	return nil
}

// anyOf reports whether containers have a file of a class that programs may read without being followed.
func (f *finder) anyOf(classes []*Class) bool {
	for e := range f.FS.All() {
		if e.Type == layers.Regular && slices.ContainsFunc(classes, func(c *Class) bool { return (len(c.Users) > 0 || c.ID == Installers) && c.has(e.Path) }) {
			return true
		}
	}
	return false
}

// packageOf returns the directory of the package of Python that a file is in, but not one of nvidia, whose
// directories have libraries for others, or "".
func packageOf(p string) string {
	for _, dir := range []string{"site-packages/", "dist-packages/"} {
		if i := strings.LastIndex(p, "/"+dir); i >= 0 {
			at := i + 1 + len(dir)
			name, _, ok := strings.Cut(p[at:], "/")
			if ok && name != "nvidia" && !strings.HasSuffix(name, ".libs") {
				return p[:at] + name
			}
		}
	}
	return ""
}

// copiesByPackage returns the copies that packages of Python bring, by their packages.
func (f *finder) copiesByPackage() map[string][]string {
	list := map[string][]string{}
	for p := range f.copies {
		if dir := packageOf(p); dir != "" {
			list[dir] = append(list[dir], p)
		}
	}
	return list
}

// keepParts takes those off copies whose name, or the last part of whose directory, a source has: it makes the path of
// its package's own library from parts.
func (f *finder) keepParts(list []string, text []byte) {
	for _, p := range list {
		if bytes.Contains(text, []byte(stemOf(p))) || hasPart(text, path.Base(path.Dir(p))) {
			delete(f.copies, p)
		}
	}
}

// keepLed takes those off copies to which an own file leads: by a path, by parts of it beside the name of the
// library, or because it searches for that name.
func (f *finder) keepLed(e *layers.Entry, text []byte) {
	f.keepText(f.copies, text, true)
	for p := range f.copies {
		if t := treeOf(p); leadsAbove(text, t) {
			f.own.led[t] = true
		}
		if !bytes.Contains(text, []byte(stemOf(p))) {
			continue
		}
		if treeOf(p) == treeOf(e.Path) || searches.Match(text) || slices.ContainsFunc(strings.Split(path.Dir(p), "/"), func(part string) bool {
			return !slices.Contains(commonParts, part) && hasPart(text, part)
		}) {
			delete(f.copies, p)
		}
	}
}

// commonParts are parts of paths that say nothing.
var commonParts = []string{"usr", "opt", "local", "lib", "lib64", "bin", "app", "x86_64-linux-gnu", "aarch64-linux-gnu"}

// stemOf returns the name of a library up to its version.
func stemOf(p string) string {
	stem, _, _ := strings.Cut(path.Base(p), ".so")
	return stem
}

// hasPart reports whether a text has a part of a path in quotes, or behind a slash.
func hasPart(text []byte, part string) bool {
	for {
		i := bytes.Index(text, []byte(part))
		if i < 0 {
			return false
		}
		end := i + len(part)
		if i > 0 && strings.IndexByte("\"'`/", text[i-1]) >= 0 && end < len(text) && strings.IndexByte("\"'`/", text[end]) >= 0 {
			return true
		}
		text = text[end:]
	}
}

// searches matches a search of the whole file system.
var searches = regexp.MustCompile(`\bfind\s+/(?:\s|opt\b)|(?:walk|glob|scandir|listdir|iterdir|readdir)\w*\(\s*[rf]?["'](?:/["'*]|/\*|/opt)|Path\(["']/(?:opt/?)?["']\)\.r?glob`)

// ownPaths matches absolute paths and those in a home directory.
var ownPaths = regexp.MustCompile(`(?:~|\$HOME|\$\{HOME\})?/[\w.@%+-][\w.@%+/*-]*`)

// homeParts matches a part of a path in a home directory.
var homeParts = regexp.MustCompile(`["'](\.(?:cache|npm)(?:/[\w./-]+)?)["'](?:\s*[,/]\s*["']([\w./-]+)["'])?`)

// removes matches a line that removes files.
var removes = regexp.MustCompile(`(?:^|[\s"';&|(])rm\s+-|["']rm["']|\brmtree\b|\bunlink\b|-delete\b|\brmSync\b`)

// pathsIn returns the paths that a text names in the lines that may, unless nil, chooses, but for those in comments and in
// lines that remove them.
func pathsIn(text []byte, may func(line []byte) bool) (list []string) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) < 4 || bytes.HasPrefix(line, []byte("#")) && !bytes.HasPrefix(line, []byte("#!")) || bytes.HasPrefix(line, []byte("//")) || may != nil && !may(line) || removes.Match(line) {
			continue
		}
		for _, p := range ownPaths.FindAllString(string(line), -1) {
			if _, rest, ok := strings.Cut(p, "/"); ok && !strings.HasPrefix(p, "/") {
				p = "~/" + rest
			}
			list = append(list, p)
		}
		for _, m := range homeParts.FindAllSubmatch(line, -1) {
			list = append(list, path.Join("~/"+string(m[1]), string(m[2])))
		}
	}
	return list
}

// mayTell reports whether a line may have a path of a cache or of a temporary directory.
func mayTell(line []byte) bool {
	for _, s := range []string{".cache", "cache/", "/tmp", "/pkgs", ".npm", "/var/", "/root", ".run", ".deb"} {
		if bytes.Contains(line, []byte(s)) {
			return true
		}
	}
	return false
}

// programsOf returns the patterns of the programs that use files of classes.
func programsOf(classes []*Class) (list []string) {
	for _, c := range classes {
		for _, u := range c.Users {
			list = append(list, u.Programs...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// A source runs a program by a list of texts, or by one text of a call or of a variable.
var (
	listed   = regexp.MustCompile(`["']([\w./+-]{1,100})["']\s*,`)
	assigned = regexp.MustCompile(`=\s*[fr]?["']([^"'\n]{1,400})["']`)
	called   = regexp.MustCompile("(?:system|popen|Popen|run|call|check_call|check_output|getoutput|getstatusoutput|exec\\w*|spawn\\w*|shell|sh|split)\\(\\s*[fr]?[\"'`]{1,3}([^\"`]{1,400}?)[\"'`]")
)

// runs reports whether a line has one of some programs.
func runs(line, programs []string) bool {
	return slices.ContainsFunc(line, func(w string) bool { return packs.MatchAny(programs, path.Base(w)) })
}

// commandsIn calls add with the command lines that a source may run with some programs.
func commandsIn(text []byte, programs []string, add func(line []string)) {
	for _, m := range listed.FindAllSubmatchIndex(text, -1) {
		if packs.MatchAny(programs, path.Base(string(text[m[2]:m[3]]))) {
			add(words.FindAllString(string(text[m[2]:min(len(text), m[3]+300)]), 14))
		}
	}
	for _, m := range slices.Concat(called.FindAllSubmatch(text, -1), assigned.FindAllSubmatch(text, -1)) {
		if line := words.FindAllString(string(m[1]), -1); runs(line, programs) {
			add(line)
		}
	}
}

// search takes those off trees that a file outside names, whatever its kind: settings of a program, a source in
// another language, a program of any kind. It takes those off copies whose directory such a file names.
func (f *finder) search(ctx context.Context, trees map[string]bool) error {
	var needles [][]byte
	var of []string // the directory of each
	add := func(dir string) {
		if slices.Contains(of, dir) {
			return
		}
		ascii := []byte("/" + dir)
		wide := make([]byte, 0, 2*len(ascii)) // UTF-16, in programs of .NET
		for _, c := range ascii {
			wide = append(wide, c, 0)
		}
		needles, of = append(needles, ascii, wide, []byte("../"+path.Base(dir))), append(of, dir, dir, dir)
	}
	for t, alone := range trees {
		if alone {
			add(t)
		}
	}
	if len(needles) == 0 {
		return nil
	}
	for p := range f.copies {
		if trees[treeOf(p)] {
			add(path.Dir(p))
		}
	}
	return f.readAll(ctx, func(e *layers.Entry) bool {
		return e.Size > 0 && !trees[treeOf(e.Path)] && !packs.MatchAny(listsOfFiles, e.Path)
	}, func(e *layers.Entry, r io.Reader) error {
		if packs.MatchAny(packed, e.Path) && isPlaceOfOwn(e.Path) {
			clear(trees) // its names are compressed
		}
		return scanFor(r, append(needles, []byte("_MEIPASS")), func(i int) {
			if i == len(needles) { // a program of PyInstaller has its sources compressed
				clear(trees)
				return
			}
			trees[of[i]] = false
			for p := range f.copies {
				if path.Dir(p) == of[i] {
					delete(f.copies, p)
				}
			}
		})
	})
}

// listsOfFiles are patterns of files that name all files of packages, or that no program reads.
var listsOfFiles = []string{"var/lib/dpkg/**", "var/log/**", "**/*.dist-info/RECORD", "**/conda-meta/**", "usr/share/doc/**", "**/{README,LICENSE}*", "**/*.md"}

// packed are patterns of archives of programs.
var packed = []string{"**/*.{jar,war,ear,zip,pex,pyz,nupkg,asar}"}

// isPlaceOfOwn reports whether a path is none of a package's.
func isPlaceOfOwn(p string) bool {
	return !packs.MatchAny(notOwn[:4], path.Dir(p)+"/x") && packageOf(p) == ""
}

// scanFor reads a file and calls found with each needle that it has.
func scanFor(r io.Reader, needles [][]byte, found func(i int)) error {
	const size = 256 << 10
	most := 0
	for _, n := range needles {
		most = max(most, len(n))
	}
	buf := make([]byte, 0, size+most)
	for {
		n, err := io.ReadFull(r, buf[len(buf):len(buf)+size])
		buf = buf[:len(buf)+n]
		for i, needle := range needles {
			if bytes.Contains(buf, needle) {
				found(i)
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
		keep := copy(buf, buf[max(0, len(buf)-most):])
		buf = buf[:keep]
	}
}
