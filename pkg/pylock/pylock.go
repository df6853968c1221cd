// Package pylock reads which distributions the lock files and environment files of Python
// projects install: uv.lock, poetry.lock, pdm.lock, pylock.toml, Pipfile.lock, pixi.lock, conda's
// environment.yml, and the requirements of a pyproject.toml.
//
// It resolves nothing. A package that a condition decides about which is not known here, such
// as the release of Python, is in the list as [Package.Maybe], and a part of a file that says
// nothing to it is in [List.Unknown]; neither is passed over. It opens no files and asks no
// index.
package pylock

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/depth"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// MaxSize is the largest file that is read, in bytes. The lock of a large project has 3 MB.
const MaxSize = 16 << 20

// Limits of a file: its packages, its values, how often a walk over what they require may look
// at a package, how deeply its values nest, and the parts of a key.
const (
	maxPackages = 50_000
	maxValues   = 1 << 20
	maxSteps    = 1 << 22
	maxNested   = 200
	maxDots     = 100
)

// List has the packages that a file installs.
type List struct {
	Packages []Package
	// Requirements are lines of a requirements file that the file has: those of a
	// pyproject.toml, and conda's pip section.
	Requirements []string
	// Exact is set if nothing else is installed: the file is a lock.
	Exact bool
	// Unknown says which parts of the file are not known here.
	Unknown []string
	// Channels are conda's, in their order.
	Channels []string
}

// add adds a package with the names and sizes of its files: no sizes are unknown ones. It is the i-th of
// the file, whose packages begin at lines.
func (l *List) add(p Package, files []string, sizes []int64, lines []int, i int) {
	if sizes == nil {
		sizes = make([]int64, len(files))
	}
	p.Small = small(files, sizes)
	if i < len(lines) {
		p.Line = lines[i]
	}
	l.Packages = append(l.Packages, p)
}

// elsewhere says that the files of a package are from no index.
func (l *List) elsewhere(name string) {
	l.Unknown = append(l.Unknown, "the files of "+name+", which are not from an index")
}

// sorted sorts the packages by their lines and names.
func (l *List) sorted() *List {
	slices.SortFunc(l.Packages, func(a, b Package) int {
		return cmp.Or(a.Line-b.Line, cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return l
}

// Package is a package that a file installs.
type Package struct {
	Name    string // normalised for Python; conda's as it is written
	Version string // "" if the file does not pin it
	Conda   bool
	Channel string // of conda's CHANNEL::NAME, or ""
	Spec    string // what follows conda's NAME, as it is written
	// Index is the address of the package index that it comes from, or "".
	Index string
	// Small is set if its wheels are known to be too small for a library of CUDA's, cuBLAS
	// or cuDNN, which have hundreds of megabytes.
	Small bool
	// Maybe is set if a condition that is not known decides about it.
	Maybe bool
	Line  int // of the file, or 0
}

// Options say what a command installs from a file. Their names are those of uv's and poetry's
// options.
type Options struct {
	Extras, Groups       []string
	AllExtras, AllGroups bool
	NoDev                bool     // without the group dev
	Without              []string // poetry's --without
	Only                 []string // these groups, and no others
	Environment          string   // of pixi; "": default
	// Markers are the known values for conditions.
	Markers inventory.MarkerEnv
}

// Linux are the values for conditions on Linux and x86-64.
func Linux() inventory.MarkerEnv {
	return inventory.MarkerEnv{"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64", "implementation_name": "cpython", "platform_python_implementation": "CPython"}
}

// Small is the size in bytes up to which a wheel is small: those of cuBLAS and cuDNN have more
// than 300 MB.
const Small = 32 << 20

// applies returns whether a condition holds, and whether that is known.
func (o *Options) applies(marker string) (holds, known bool) {
	switch {
	case marker == "":
		return true, true
	case strings.Contains(marker, "extra"): // uv writes conflicting extras and groups so
		return true, false
	}
	r := inventory.Requirement{Marker: marker}
	return r.Applies(o.Markers)
}

var (
	errDeep    = errors.New("its values nest too deeply")
	errMany    = fmt.Errorf("it has more than %d values", maxValues)
	errSteps   = errors.New("its packages require one another too often")
	errUnnamed = errors.New("a package has no name")
)

// decodeTOML decodes a text within the limits: the decoder has none.
func decodeTOML(text []byte, to any) error {
	if len(text) > MaxSize {
		return fmt.Errorf("it is larger than %d MiB", MaxSize>>20)
	}
	if depth.ValuesExceed(text, maxValues) {
		return errMany
	}
	nested, dots := 0, 0
	for _, c := range text {
		switch {
		case c == '[' || c == '{':
			nested, dots = nested+1, 0
		case c == ']' || c == '}':
			nested, dots = max(nested-1, 0), 0
		case c == '.':
			dots++
		case c == '_', c == '-', c == '"', c == '\'', c == ' ', c == '\t', c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= 0x80:
		default:
			dots = 0
		}
		if nested > maxNested || dots > maxDots {
			return errDeep
		}
	}
	if depth.DottedExceeds(text, depth.MaxDotted) {
		return errDeep
	}
	var whole toml.Primitive
	var tree any
	md, err := toml.Decode(string(text), &whole)
	if err == nil {
		err = md.PrimitiveDecode(whole, &tree)
	}
	if err == nil {
		keepFields(tree, reflect.TypeOf(to)) // of whole, too: both have the same maps
		err = md.PrimitiveDecode(whole, to)
	}
	if err != nil {
		err = errors.New("it is no TOML of this form")
	}
	return err
}

// keepFields removes the keys from the tables of v that are not the names of fields of the type
// t. The decoder also takes a key whose letters differ in case, and of two such keys either one.
// Keys of TOML are case-sensitive, and the tools ignore those that they do not know.
func keepFields(v any, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		keepFields(v, t.Elem())
	case reflect.Slice:
		switch list := v.(type) {
		case []map[string]any:
			for _, m := range list {
				keepFields(m, t.Elem())
			}
		case []any:
			for _, x := range list {
				keepFields(x, t.Elem())
			}
		}
	case reflect.Map:
		if m, ok := v.(map[string]any); ok {
			for _, x := range m {
				keepFields(x, t.Elem())
			}
		}
	case reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		fields := map[string]reflect.Type{}
		for i := range t.NumField() {
			fields[t.Field(i).Tag.Get("toml")] = t.Field(i).Type
		}
		for key, x := range m {
			if field, ok := fields[key]; ok && key != "" {
				keepFields(x, field)
			} else {
				delete(m, key)
			}
		}
	}
}

// decodeYAML decodes a text within the limits. The decoder bounds aliases; mappings with very
// many keys would take it long.
func decodeYAML(text []byte, to any) error {
	if len(text) > MaxSize {
		return fmt.Errorf("it is larger than %d MiB", MaxSize>>20)
	}
	if depth.ValuesExceed(text, maxValues) {
		return errMany
	}
	if depth.Exceeds(text, maxNested) {
		return errDeep
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return errors.New("it is no YAML")
	}
	if err := bounded(&doc, 0); err != nil {
		return err
	}
	if err := doc.Decode(to); err != nil {
		return errors.New("it is no YAML of this form")
	}
	return nil
}

const maxKeys = 2000 // of a mapping

func bounded(n *yaml.Node, depth int) error {
	if depth > maxNested || n.Kind == yaml.AliasNode || n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys {
		return errDeep
	}
	for _, c := range n.Content {
		if err := bounded(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// linesOf returns the lines of a TOML lock that are one text: those that begin a package.
func linesOf(text []byte, begins string) (lines []int) {
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if strings.TrimSpace(line) == begins {
			lines = append(lines, n)
		}
	}
	return lines
}

var (
	wheelName = regexp.MustCompile(`^([A-Za-z0-9_.]+)-([^-]+)(?:-[^-]+)?-([^-]+)-([^-]+)-([^-]+)\.whl$`)
	sdistName = regexp.MustCompile(`^([A-Za-z0-9_.-]+)-([0-9][^-]*?)\.(?:tar\.gz|zip|tar\.bz2)$`)
	condaName = regexp.MustCompile(`^(.+)-([^-]+)-[^-]+\.(?:conda|tar\.bz2)$`)
)

// fileOf returns the distribution and version of a wheel or a source archive, by its address.
func fileOf(address string) (name, version string) {
	base, _, _ := strings.Cut(path.Base(address), "#")
	base = strings.ReplaceAll(base, "%2B", "+")
	if m := wheelName.FindStringSubmatch(base); m != nil {
		return inventory.Normalize(m[1]), m[2]
	}
	if m := sdistName.FindStringSubmatch(base); m != nil {
		return inventory.Normalize(m[1]), m[2]
	}
	return "", ""
}

// small reports whether the wheels of a package for Linux are known to be small. A size of 0 is
// not known; a wheel for any platform has no shared library of CUDA's.
func small(names []string, sizes []int64) bool {
	known := false
	for i, name := range names {
		m := wheelName.FindStringSubmatch(strings.ReplaceAll(path.Base(name), "%2B", "+"))
		switch {
		case m == nil || strings.HasPrefix(m[5], "win") || strings.HasPrefix(m[5], "macosx"):
			continue
		case m[5] == "any":
		case sizes[i] <= 0 || sizes[i] > Small:
			return false
		}
		known = true
	}
	return known
}

func has(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return inventory.Normalize(s) == inventory.Normalize(name) })
}
