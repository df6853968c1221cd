package imagerefs

import (
	"bytes"
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

//go:embed formats.yaml
var formatsText []byte

// format is a kind of document that names images; formats.yaml explains the fields.
type format struct {
	Name      string            `yaml:"name"`
	Files     []string          `yaml:"files"`
	Has       map[string]string `yaml:"has"`
	Images    []string          `yaml:"images"`
	Parts     []string          `yaml:"parts"`
	Built     []string          `yaml:"built"`
	Texts     []string          `yaml:"texts"`
	Settings  []string          `yaml:"settings"`
	Prefix    string            `yaml:"prefix"`
	Renames   bool              `yaml:"renames"`
	Unless    string            `yaml:"unless"`
	Platform  string            `yaml:"platform"`
	Tags      []string          `yaml:"tags"`
	Variables string            `yaml:"variables"`
	Defaults  string            `yaml:"defaults"`
	Env       string            `yaml:"env"`
	Last      bool              `yaml:"last"`
	Sources   []string          `yaml:"sources"`

	has                                   map[string]*regexp.Regexp // of keys that must be there
	images, parts, built, texts, settings patterns
}

// script is a kind of text whose lines name images.
type script struct {
	Name       string   `yaml:"name"`
	Files      []string `yaml:"files"`
	Expression string   `yaml:"expression"`
	After      string   `yaml:"after"` // a line that must be there before
	Enroot     bool     `yaml:"enroot"`
	Sources    []string `yaml:"sources"`

	expression, after *regexp.Regexp
}

// patterns are patterns of keys, each with its last part, or "" if that has a wildcard.
type patterns []struct{ whole, last string }

func newPatterns(list []string) patterns {
	var p patterns
	for _, whole := range list {
		last := whole[strings.LastIndexByte(whole, '/')+1:]
		if strings.ContainsAny(last, "*{") {
			last = ""
		}
		p = append(p, struct{ whole, last string }{whole, last})
	}
	return p
}

// match reports whether one of the patterns fits keys, of which key is the last.
func (p patterns) match(at, key string) bool {
	for _, x := range p {
		if (x.last == "" || x.last == key) && matches(x.whole, at) {
			return true
		}
	}
	return false
}

// The table, and the patterns of all files in it.
var (
	formats []*format
	scripts []*script
	// Names are patterns of paths in a repository, in lower case, whose files may name images.
	Names []string
)

func init() {
	var table struct {
		Formats []*format `yaml:"formats"`
		Lines   []*script `yaml:"lines"`
	}
	d := yaml.NewDecoder(bytes.NewReader(formatsText))
	d.KnownFields(true)
	if err := d.Decode(&table); err != nil {
		panic(fmt.Sprintf("imagerefs: formats.yaml: %v", err)) // a test reads it
	}
	for _, f := range table.Formats {
		f.has = map[string]*regexp.Regexp{}
		for key, value := range f.Has {
			if value != "-" {
				f.has[key] = regexp.MustCompile(value)
			}
		}
		f.images, f.parts, f.built, f.texts = newPatterns(f.Images), newPatterns(f.Parts), newPatterns(f.Built), newPatterns(f.Texts)
		f.settings = newPatterns(f.Settings)
		Names = append(Names, f.Files...)
	}
	for _, s := range table.Lines {
		s.expression = regexp.MustCompile(s.Expression)
		if s.After != "" {
			s.after = regexp.MustCompile(s.After)
		}
		Names = append(Names, s.Files...)
	}
	slices.Sort(Names)
	Names = slices.Compact(Names)
	formats, scripts = table.Formats, table.Lines
}

// Certain reports whether a file has the name of a format, and not only an end that many other
// files have.
func Certain(file string) bool {
	file = strings.ToLower(file)
	return slices.ContainsFunc(formats, func(f *format) bool {
		return !strings.HasPrefix(f.Files[0], "**/*.") && fitsAny(f.Files, file)
	})
}

// EnvFile returns the path of the file that has the values of a file's variables, or "".
func EnvFile(file string) string {
	for _, f := range formats {
		if f.Env != "" && fitsAny(f.Files, strings.ToLower(file)) {
			return path.Join(path.Dir(file), f.Env)
		}
	}
	return ""
}

func fitsAny(patterns []string, file string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, file) })
}

// choose chooses the formats that may fit a file, by its path in lower case and the words that
// it must have.
func (f *finder) choose(file string, text []byte) {
	for _, x := range formats {
		if fitsAny(x.Files, file) && x.mayFit(text) {
			f.formats = append(f.formats, x)
		}
	}
	for _, x := range scripts {
		if fitsAny(x.Files, file) {
			f.scripts = append(f.scripts, x)
		}
	}
}

func (x *format) mayFit(text []byte) bool {
	for key := range x.has {
		if !bytes.Contains(text, []byte(key)) {
			return false
		}
	}
	return true
}

// fits reports whether the top of a document has the keys of a format.
func (x *format) fits(root *yaml.Node) bool {
	f := &finder{}
	for key, value := range x.has {
		if n := f.get(root, key); n == nil || value.String() != "" && !value.MatchString(text(n)) {
			return false
		}
	}
	for key, value := range x.Has {
		if value == "-" && f.get(root, key) != nil {
			return false
		}
	}
	return true
}

// scan finds the images that lines of a script name.
func (f *finder) scan(text []byte) {
	for _, x := range f.scripts {
		after := x.after == nil
		n := 0
		for line := range bytes.Lines(text) {
			n++
			line = bytes.TrimRight(line, "\r\n")
			if !after {
				after = x.after.Match(line)
				continue
			}
			m := x.expression.FindSubmatch(line)
			if m == nil {
				continue
			}
			ref := string(m[1])
			if x.Enroot {
				if strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, ".") || strings.HasSuffix(ref, ".sqsh") {
					continue
				}
				ref = ofEnroot(ref)
			}
			r := Ref{Image: ref, Line: n}
			if strings.HasPrefix(ref, "dockerd://") || strings.HasPrefix(ref, "podman://") {
				r.Image, r.Why = "", ref+" is in no registry"
			} else if strings.Contains(ref, "$") || strings.Contains(ref, "{{") {
				r.Image, r.Why = "", ref+" depends on a variable"
			}
			f.add(r)
		}
	}
}

// ofEnroot returns the reference in an address that Enroot imports, docker://[USER@][REGISTRY#]IMAGE:
// https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md. An @ before a digest stays.
func ofEnroot(address string) string {
	ref := strings.TrimPrefix(address, "docker://")
	if user, rest, ok := strings.Cut(ref, "@"); ok && !strings.ContainsAny(user, "#/:") && !strings.HasPrefix(rest, "sha256:") {
		ref = rest
	}
	return strings.Replace(ref, "#", "/", 1)
}
