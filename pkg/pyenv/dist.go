package pyenv

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// EntryPoint is an entry point of an installed distribution
// (packaging.python.org/specifications/entry-points).
type EntryPoint struct {
	Name   string
	Module string // dotted
	Attr   string // dotted, or ""
	Dist   string // name of the distribution as its directory spells it
	File   string // entry_points.txt
}

// Distribution is the metadata of an installed distribution.
type Distribution struct {
	Name    string // as its directory spells it
	Version string // as its directory spells it; "" if it does not
	Dir     string // the .dist-info or .egg-info directory
	// TopLevel are the names of the modules and packages that it brings, sorted, by
	// top_level.txt or RECORD; nil if neither is known.
	TopLevel []string
	// Requires are the normalized names of the distributions that it requires, apart from
	// those of extras, in the order of METADATA or requires.txt.
	Requires []string
}

// Distributions returns the distributions on sys.path, in the order of
// importlib.metadata.distributions; of a name that is there twice only the first. Those
// of one directory are in the order of their names: Python takes the order of the disk.
// Those in zip files are not known.
func (in *Interpreter) Distributions() []Distribution {
	f := in.find
	f.dists.Do(func() {
		seen := map[string]bool{}
		for _, dir := range f.sysPath {
			for _, d := range f.distributions(abs(f.cwd, dir)) {
				key := Normalized(d.Name)
				if seen[key] || len(f.installed) == maxDists {
					continue
				}
				seen[key] = true
				d.TopLevel, d.Requires = f.topLevel(d), f.requires(d)
				f.installed = append(f.installed, d)
			}
		}
	})
	return slices.Clone(f.installed)
}

// MayHaveMetadata reports whether a directory has metadata of a distribution, or may have some: it
// could not be read, or is a zip file.
func (in *Interpreter) MayHaveMetadata(dir, name string) bool {
	f := in.find
	dir = abs(f.cwd, dir)
	if e := f.entry(dir); e.zip != nil || e.doubt != "" {
		return true
	}
	return slices.ContainsFunc(f.distributions(dir), func(d Distribution) bool { return Normalized(d.Name) == Normalized(name) })
}

const maxDists = 1 << 16

var separators = regexp.MustCompile(`[-_.]+`)

// Normalized returns the form of a distribution's name that is compared:
// importlib.metadata.Prepared.normalize.
func Normalized(name string) string {
	return strings.ToLower(separators.ReplaceAllString(name, "_"))
}

// distributions returns the distributions of a directory, sorted by the names of their
// directories (importlib.metadata.FastPath).
func (f *finder) distributions(dir string) []Distribution {
	var found []Distribution
	e := f.entry(dir)
	egg := strings.HasSuffix(strings.ToLower(path.Base(dir)), ".egg")
	for file := range e.names {
		low := strings.ToLower(file)
		stem := file
		switch {
		case strings.HasSuffix(low, ".dist-info") || strings.HasSuffix(low, ".egg-info"):
			stem = file[:strings.LastIndexByte(file, '.')]
		case egg && low == "egg-info":
			stem = path.Base(dir)[:len(path.Base(dir))-len(".egg")]
		default:
			continue
		}
		name, version, _ := strings.Cut(stem, "-")
		if strings.HasSuffix(low, ".egg-info") || egg {
			version, _, _ = strings.Cut(version, "-") // -py3.11
		}
		found = append(found, Distribution{Name: name, Version: version, Dir: dir + "/" + file})
	}
	slices.SortFunc(found, func(a, b Distribution) int { return strings.Compare(a.Dir, b.Dir) })
	return found
}

// topLevel returns the top-level modules of a distribution.
func (f *finder) topLevel(d Distribution) []string {
	text, there, kept := f.read(d.Dir + "/top_level.txt")
	if there && kept {
		return topLevelNames(strings.Fields(string(text[:min(len(text), maxText)])))
	}
	text, there, kept = f.read(d.Dir + "/RECORD")
	if !there || !kept {
		return nil
	}
	var names []string
	for line := range strings.Lines(string(text[:min(len(text), maxRecord)])) {
		file, _, _ := strings.Cut(strings.TrimPrefix(line, `"`), ",")
		first, _, inside := strings.Cut(strings.TrimSuffix(file, `"`), "/")
		if !inside {
			first = f.moduleName(first)
		}
		if first != "" && (len(names) == 0 || names[len(names)-1] != first) {
			names = append(names, first)
		}
	}
	return topLevelNames(names)
}

// Recorded returns the dotted names of the modules that the RECORD of a distribution lists, whether
// they are there or not, in its order: its sources and its extension modules. It returns nothing if
// there is no RECORD, or its text is not known.
func (in *Interpreter) Recorded(d Distribution) (sources, extensions []string) {
	text, there, kept := in.find.read(d.Dir + "/RECORD")
	if !there || !kept {
		return nil, nil
	}
	for line := range strings.Lines(string(text[:min(len(text), maxRecord)])) {
		file, _, _ := strings.Cut(line, ",")
		dir, base := path.Split(file)
		if strings.Contains(dir, ".") {
			continue
		}
		pkg := strings.ReplaceAll(dir, "/", ".")
		switch name, suffix, _ := strings.Cut(base, "."); {
		case base == "__init__.py":
			sources = append(sources, strings.TrimSuffix(pkg, "."))
		case suffix == "py":
			sources = append(sources, pkg+name)
		case strings.HasSuffix("."+suffix, ".so") && !strings.HasPrefix(name, "lib"):
			extensions = append(extensions, pkg+name)
		}
	}
	return sources, extensions
}

// maxRequires limits the requirements of a distribution.
const maxRequires = 1 << 12

var requirement = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*`)

// requires returns the names of the distributions that a distribution requires.
func (f *finder) requires(d Distribution) []string {
	var list []string
	add := func(line string) {
		if name := requirement.FindString(line); name != "" && len(list) < maxRequires {
			list = append(list, Normalized(name))
		}
	}
	if text, there, kept := f.read(d.Dir + "/METADATA"); there && kept {
		for line := range strings.Lines(string(text[:min(len(text), maxText)])) {
			line = strings.TrimSpace(line)
			if line == "" {
				break
			}
			what, marker, _ := strings.Cut(line, ";")
			if value, ok := strings.CutPrefix(what, "Requires-Dist:"); ok && !strings.Contains(marker, "extra") {
				add(strings.TrimSpace(value))
			}
		}
		return list
	}
	text, _, _ := f.read(d.Dir + "/requires.txt")
	for line := range strings.Lines(string(text[:min(len(text), maxText)])) {
		if strings.HasPrefix(line, "[") {
			break // an extra, or a condition
		}
		add(line)
	}
	return list
}

const maxRecord = 64 << 20 // bytes

// topLevelNames returns the names that are identifiers, sorted. They are copies: names may be parts
// of a text of megabytes, which need not stay in memory for them.
func topLevelNames(names []string) []string {
	names = slices.DeleteFunc(names, func(s string) bool {
		return s == "" || s == "__pycache__" || len(s) > maxName || strings.ContainsAny(s, ".-/ \\")
	})
	slices.Sort(names)
	names = slices.Clone(slices.Compact(names))
	for i, name := range names {
		names[i] = strings.Clone(name)
	}
	return names
}

// EntryPoints returns the entry points of a group, as importlib.metadata.entry_points
// does: those of [Interpreter.Distributions] in their order. The group "console_scripts"
// has the scripts of bin. unknown names the files that were not read.
func (in *Interpreter) EntryPoints(group string) (points []EntryPoint, unknown []string) {
	for _, d := range in.Distributions() {
		file := d.Dir + "/entry_points.txt"
		text, there, kept := in.find.read(file)
		switch {
		case !there:
		case !kept:
			unknown = append(unknown, plain.Name(file))
		default:
			for _, p := range parseEntryPoints(text)[group] {
				p.Dist, p.File = d.Name, file
				points = append(points, p)
			}
		}
	}
	return points, unknown
}

// EntryPointsOf returns the entry points of one distribution by group, and whether they are known: false if its
// entry_points.txt is there and was not kept.
func (in *Interpreter) EntryPointsOf(d Distribution) (groups map[string][]EntryPoint, known bool) {
	file := d.Dir + "/entry_points.txt"
	text, there, kept := in.find.read(file)
	groups = parseEntryPoints(text)
	for _, points := range groups {
		for i := range points {
			points[i].Dist, points[i].File = d.Name, file
		}
	}
	return groups, !there || kept
}

var entryPoint = regexp.MustCompile(`^([\w.]+)\s*(?::\s*([\w.]+)\s*)?(?:\[.*\]\s*)?$`)

// parseEntryPoints reads an entry_points.txt, as importlib.metadata does from 3.10 on:
// the entry points by group. A line that is none is left out.
func parseEntryPoints(text []byte) map[string][]EntryPoint {
	groups := map[string][]EntryPoint{}
	group, n := "", 0
	for line := range strings.Lines(string(text[:min(len(text), maxText)])) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == '[' && line[len(line)-1] == ']':
			group = strings.Trim(line, "[]")
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		m := entryPoint.FindStringSubmatch(strings.TrimSpace(value))
		if !ok || m == nil || group == "" || n == maxEntries {
			continue
		}
		n++
		groups[group] = append(groups[group], EntryPoint{Name: strings.TrimSpace(name), Module: m[1], Attr: m[2]})
	}
	return groups
}
