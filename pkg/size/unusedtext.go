package size

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// This file reads the texts of an image for the names of distributions of Python.

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

func isStdlib(p string) bool { return stdlib.MatchString(p) && environmentOf("/"+p) == "" }

// notRun are patterns of modules of Python itself that no program imports.
var notRun = []string{"**/lib{,64}/python*/{test,idlelib,lib2to3,turtledemo,ensurepip}/**"}

// isText reports whether a file may name a module.
func (p *packages) isText(e *layers.Entry) bool {
	switch owner := p.ownerOf(e.Path); {
	case e.Size == 0 || packs.MatchAny(noText, e.Path) || owner >= 0 && packs.MatchAny(noTextOf, e.Path):
		return false
	case owner < 0 && strings.HasSuffix(e.Path, "customize.py"):
		return true // Python imports sitecustomize and usercustomize
	case path.Ext(e.Path) == ".pyc":
		return !p.f.hasSource(e.Path)
	case isStdlib(e.Path):
		return owner >= 0 || path.Ext(e.Path) == ".py" && !packs.MatchAny(notRun, e.Path)
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
		if isPython(e) && mine && !isStdlib(e.Path) {
			if why := opaqueIn(text); why != "" {
				p.opaque = fmt.Sprintf("/%s (%s)", e.Path, why)
				return nil
			}
		}
		switch {
		case from < 0 && isStdlib(e.Path) && !strings.HasSuffix(e.Path, "customize.py"):
			for _, m := range mentionsIn(text, func(w string) bool { return p.names[w] != nil }) {
				for _, to := range p.names[m.name] {
					p.lead(ownText, to) // the database of time zones is such a package
				}
			}
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
	had := map[string]bool{}
	lead := func(w []byte) {
		if list := p.names[string(w)]; list != nil && !had[string(w)] {
			had[string(w)] = true
			for _, i := range list {
				p.lead(from, i)
			}
		}
	}
	return eachWord(r, func(w []byte) {
		if lead(w); pickled && w[0] == 'c' {
			lead(w[1:])
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
		for _, j := range p.byName[inventory.Normalize(string(m[1]))] {
			if p.parts[j].asked == "" {
				p.parts[j].asked = lineOf(e.Path, i+1)
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
