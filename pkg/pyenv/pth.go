package pyenv

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// Bounds of all .pth files of an interpreter.
const (
	maxPthLines   = 1 << 16
	maxPthImports = 1 << 10
)

// addPth is site.addpackage.
func (s *siteRun) addPth(dir, name string) {
	file := dir + "/" + name
	text, there, kept := s.read(file)
	if !there {
		return // a link that leads nowhere
	}
	if !kept {
		s.unknown("%s was not read, so that sys.path may have more directories", plain.Name(file))
		return
	}
	for _, line := range pthLines(text, s.Minor >= 13) {
		if s.pthLines++; s.pthLines > maxPthLines {
			s.unknown("%s and later .pth files have more than %d lines", plain.Name(file), maxPthLines)
			return
		}
		switch {
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		case len(line) > maxPthLine:
			s.unknown("%s has a line of more than %d bytes", plain.Name(file), maxPthLine)
		case strings.HasPrefix(line, "import ") || strings.HasPrefix(line, "import\t"):
			s.pthImport(dir, file, line)
		default:
			s.pthDir(dir, file, strings.TrimRight(line, " \t\r\n\v\f"))
		}
	}
}

const maxPthLine = 64 << 10 // the lines of nspkg.pth files have some hundred bytes

// pthLines splits a .pth file. A byte order mark is ignored from 3.13 on.
func pthLines(b []byte, bom bool) []string {
	text := string(b[:min(len(b), maxText)])
	if bom {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	return strings.Split(text, "\n")
}

// pthDir adds the directory that a line of a .pth file names.
func (s *siteRun) pthDir(dir, file, line string) {
	if len(line) > maxLine || strings.ContainsRune(line, 0) {
		return
	}
	p := abs(dir, line)
	if !s.exists(p) {
		if why := s.skipped(p); why != "" {
			s.unknown("whether %s adds %s to sys.path: %s", plain.Name(file), plain.Name(p), why)
		}
		return
	}
	s.append(p)
}

// pthImport keeps an import line of a .pth file. It applies the effects of lines that
// installers write.
func (s *siteRun) pthImport(dir, file, line string) {
	if len(s.PthImports) == maxPthImports {
		s.unknown("%s and later .pth files have more than %d import lines", plain.Name(file), maxPthImports)
	}
	if len(s.PthImports) >= maxPthImports {
		return
	}
	known := s.eggLine(line) || s.namespaceLine(dir, line) || s.editableLine(dir, line) || s.distutilsLine(line) || s.pathLine(line) ||
		strings.TrimSpace(line) == "import _virtualenv" // virtualenv's: patches distutils, finds nothing
	s.PthImports = append(s.PthImports, PthImport{File: file, Line: strings.TrimRight(line, " \t\r"), Known: known})
	if !known && s.mayHook(line) {
		s.hooks.unknown = append(s.hooks.unknown, file)
	}
}

// eggState holds the variables that the lines of easy-install.pth keep in sys.
type eggState struct{ start, insert int }

// eggLine applies the first and the last line of setuptools' easy-install.pth: the
// directories between them go to the front of sys.path.
func (s *siteRun) eggLine(line string) bool {
	switch strings.TrimSpace(line) {
	case "import sys; sys.__plen = len(sys.path)":
		s.egg.start = len(s.path)
	case "import sys; new=sys.path[sys.__plen:]; del sys.path[sys.__plen:]; p=getattr(sys,'__egginsert',0); sys.path[p:p]=new; sys.__egginsert = p+len(new)",
		"import sys; new = sys.path[sys.__plen:]; del sys.path[sys.__plen:]; p = getattr(sys, '__egginsert', 0); sys.path[p:p] = new; sys.__egginsert = p + len(new)":
		start, at := min(s.egg.start, len(s.path)), min(s.egg.insert, len(s.path))
		added := slices.Clone(s.path[start:])
		s.path = slices.Insert(s.path[:start:start], min(at, start), added...)
		s.egg.insert = at + len(added)
	default:
		return false
	}
	return true
}

// namespaceStart begins each line that setuptools writes for namespace_packages
// (setuptools/namespaces.py); a quoted part is one of the package's name.
var (
	namespaceLine  = regexp.MustCompile(`^import sys, ?types, ?os;.*\['sitedir'\], \*\(((?:'\w+',? ?)+)\)\);.*sys\.modules\.setdefault\('([\w.]+)'`)
	namespacePart  = regexp.MustCompile(`'(\w+)'`)
	editableImport = regexp.MustCompile(`^import (\w+); ?(\w+)\.install\(\)\s*;?\s*$`)
	plainImport    = regexp.MustCompile(`^import (\w+)\s*;?\s*$`)
	distutilsHack  = regexp.MustCompile(`^import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, '(\w+)'\) == 'local'; enabled and __import__\('_distutils_hack'\)`)
)

// namespaceLine applies a line of a -nspkg.pth file: it puts a package into sys.modules and
// its directory on the package's __path__.
func (s *siteRun) namespaceLine(dir, line string) bool {
	m := namespaceLine.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	p := dir
	for _, part := range namespacePart.FindAllStringSubmatch(m[1], -1) {
		p += "/" + part[1]
	}
	// The package in the directory itself is loaded lazily if there is one: the module is
	// made from its spec, and its code is not run.
	if old, ok := s.hooks.preset[m[2]]; !ok || !slices.Contains(old, p) {
		s.hooks.preset[m[2]] = append(old, p)
	}
	return true
}

// distutilsLine applies setuptools' distutils-precedence.pth.
func (s *siteRun) distutilsLine(line string) bool {
	m := distutilsHack.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	v, set := s.o.Env["SETUPTOOLS_USE_DISTUTILS"]
	s.hooks.distutils = set && v == "local" || !set && m[1] == "local"
	return true
}

// editableLine applies the line of an editable install by setuptools or editables
// (hatchling).
func (s *siteRun) editableLine(dir, line string) bool {
	var file string
	if m := editableImport.FindStringSubmatch(line); m != nil && m[1] == m[2] {
		file = dir + "/" + m[1] + ".py"
	} else if m := plainImport.FindStringSubmatch(line); m != nil {
		file = dir + "/" + m[1] + ".py"
	} else {
		return false
	}
	text, there, kept := s.read(file)
	if !there || !kept {
		return false
	}
	e := parseEditable(text)
	if e == nil {
		return false
	}
	s.hooks.editable = append(s.hooks.editable, e)
	if len(e.namespaces) > 0 && e.placeholder != "" && !slices.Contains(s.path, e.placeholder) && len(s.path) < maxEntries {
		s.path = append(s.path, e.placeholder)
	}
	return true
}

// pthModules are modules whose import in a .pth file does not change how others are found.
var pthModules = []string{"sys", "os", "types", "site", "importlib", "pathlib", "re"}

var importedName = regexp.MustCompile(`(?:^|[;\s'"])(?:import|from|__import__\(['"])\s*([\w.]+)`)

// mayHook reports whether a line of a .pth file may install a finder: its text or that of
// a module that it imports names sys.meta_path or sys.path_hooks, or is not known.
func (s *siteRun) mayHook(line string) bool {
	if s.namesHooks(line) {
		return true
	}
	return slices.ContainsFunc(importedName.FindAllStringSubmatch(line, maxImported), func(m []string) bool {
		top, _, _ := strings.Cut(m[1], ".")
		return !slices.Contains(pthModules, top) && s.moduleHooks(top)
	})
}

const maxImported = 64 // names of a line

func (s *siteRun) namesHooks(text string) bool {
	byPath := strings.Contains(text, "path_hooks")
	s.hooks.byPath = s.hooks.byPath || byPath
	return byPath || strings.Contains(text, "meta_path")
}

// moduleHooks reports whether the source of a top-level module names the lists of finders,
// or is not known. The standard library installs none.
func (s *siteRun) moduleHooks(top string) bool {
	for _, dir := range s.path {
		for _, file := range []string{dir + "/" + top + "/__init__.py", dir + "/" + top + ".py"} {
			if text, there, kept := s.read(file); there {
				return dir != s.StdLib && (!kept || s.namesHooks(string(text)))
			}
		}
	}
	return false
}

// hooks are the finders beside importlib's own that .pth files install.
type hooks struct {
	preset    map[string][]string // packages in sys.modules, with their __path__
	editable  []*editable
	distutils bool     // _distutils_hack
	unknown   []string // files whose lines may install others
	byPath    bool     // by sys.path_hooks
}

// editable is the finder of an editable install.
type editable struct {
	mapping     map[string]string   // module → directory, or file without its suffix
	namespaces  map[string][]string // package → directories
	placeholder string              // the entry of sys.path for namespaces
}

var mapModule = regexp.MustCompile(`(?m)^F\.map_module\(('[^'\n]*'|"[^"\n]*"), ('[^'\n]*'|"[^"\n]*")\)`)

// parseEditable reads the module of an editable install: the tables MAPPING and
// NAMESPACES of setuptools (setuptools/command/editable_wheel.py), or the calls of
// editables. It returns nil for others.
func parseEditable(text []byte) *editable {
	text = text[:min(len(text), maxText)]
	e := &editable{mapping: map[string]string{}, namespaces: map[string][]string{}}
	for _, m := range mapModule.FindAllSubmatch(text, maxEntries) {
		name, rest1, ok1 := quoted(string(m[1]))
		file, rest2, ok2 := quoted(string(m[2]))
		if ok1 && ok2 && rest1 == "" && rest2 == "" {
			e.mapping[name] = file
		}
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := assignment(line)
		if !ok {
			continue
		}
		switch name {
		case "MAPPING":
			d, ok := dictOf(value, quoted)
			if !ok {
				return nil
			}
			e.mapping = d
		case "NAMESPACES":
			d, ok := dictOf(value, listOf)
			if !ok {
				return nil
			}
			e.namespaces = d
		case "PATH_PLACEHOLDER":
			if name, rest, ok := quoted(value); ok && rest == ` + ".__path_hook__"` {
				e.placeholder = name + ".__path_hook__"
			}
		}
	}
	if len(e.mapping)+len(e.namespaces) == 0 {
		return nil
	}
	return e
}

// assignment splits `NAME: type = value` at the beginning of a line.
func assignment(line string) (name, value string, ok bool) {
	left, value, ok := strings.Cut(line, "=")
	name, _, _ = strings.Cut(left, ":")
	name = strings.TrimRight(name, " ")
	return name, strings.TrimSpace(value), ok && name != "" && name == strings.TrimSpace(name)
}

// quoted reads a string literal as repr writes it, and returns what follows.
func quoted(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '\'' && s[0] != '"' {
		return "", s, false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return b.String(), s[i+1:], true
		case s[i] == '\\':
			if i++; i == len(s) || !strings.ContainsRune(`\'"`, rune(s[i])) {
				return "", s, false
			}
		}
		b.WriteByte(s[i])
	}
	return "", s, false
}

// listOf reads a list of string literals.
func listOf(s string) (values []string, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, "[")
	for n := 0; ok && n < maxEntries; n++ {
		s = strings.TrimLeft(s, ", ")
		if rest, end := strings.CutPrefix(s, "]"); end {
			return values, rest, true
		}
		var v string
		if v, s, ok = quoted(s); ok {
			values = append(values, v)
		}
	}
	return nil, s, false
}

// dictOf reads a dict whose keys are string literals.
func dictOf[V any](s string, value func(string) (V, string, bool)) (map[string]V, bool) {
	d := map[string]V{}
	s, ok := strings.CutPrefix(s, "{")
	for n := 0; ok && n < maxEntries; n++ {
		s = strings.TrimLeft(s, ", ")
		if strings.HasPrefix(s, "}") {
			return d, true
		}
		var key string
		if key, s, ok = quoted(s); !ok {
			break
		}
		if s, ok = strings.CutPrefix(s, ":"); !ok {
			break
		}
		var v V
		if v, s, ok = value(strings.TrimLeft(s, " ")); ok {
			d[key] = v
		}
	}
	return nil, false
}

// find returns the file of a module that the finder maps (_EditableFinder._find_spec), or
// "".
func (e *editable) find(f *finder, name string) string {
	p, ok := e.mapping[name]
	if !ok {
		return ""
	}
	if f.isFile(p) {
		return p
	}
	candidates := []string{p + "/__init__.py"}
	for _, l := range f.loaders {
		candidates = append(candidates, strings.TrimSuffix(p, path.Ext(p))+l.suffix)
	}
	for _, c := range candidates {
		if f.isFile(c) {
			return c
		}
	}
	return ""
}
