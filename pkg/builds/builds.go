// Package builds reads which Dockerfiles other files build, and how: the services of Compose
// files, the targets of docker buildx bake in HCL and JSON, and devcontainer.json.
//
// It opens no files itself: [OfFiles] asks its caller for those that a Compose file includes,
// extends or overrides. A value that a variable or a function decides which the file does not know is in
// [Build.Why].
package builds

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/depth"
	"github.com/imgcheck/imgcheck/internal/document"
	"github.com/imgcheck/imgcheck/internal/variables"
)

// Limits of a file: its bytes, its builds, the arguments of one, and how deeply values nest.
const (
	maxSize   = 1 << 20
	maxBuilds = 500
	maxArgs   = 500
	maxNested = 100
)

// Build is one build of a Dockerfile.
type Build struct {
	Name string // of the service or the target
	// File and Line say where it stands: in the file that was asked about, or in one that it
	// includes or extends.
	File string
	Line int
	// Context is the directory of the build context, and Dockerfile the file's path, both
	// relative to the directory of the file that was asked about.
	Context, Dockerfile string
	// Inline is the text of a Dockerfile in File itself, whose first line is InlineLine.
	Inline     string
	InlineLine int
	Target     string // "" for the last stage
	Args       map[string]string
	// Features are those that a devcontainer.json lays over the image, by their addresses.
	Features []string
	// Why says why the build is not known, or is empty.
	Why string
}

var (
	compose = regexp.MustCompile(`(?i)(^|/)(docker-)?compose([._-][^/]*)?\.ya?ml$`)
	bake    = regexp.MustCompile(`(?i)(^|/)docker-bake([._-][^/]*)?\.(json|hcl)$`)
	dev     = regexp.MustCompile(`(^|/)\.?devcontainer\.json$`)
)

// Named reports whether a file of a repository may have builds, by its path.
func Named(file string) bool {
	return compose.MatchString(file) || bake.MatchString(file) || dev.MatchString(file)
}

// Of returns the builds of a file, in their order. Those that other files decide are not known.
func Of(file string, text []byte) ([]Build, error) { return OfFiles(file, text, nil) }

// OfFiles returns the builds of a file and of the files that it includes or extends, which it
// asks open for. A Compose file that overrides another one beside it (compose.override.yaml) has
// that one's builds with its changes.
func OfFiles(file string, text []byte, open Open) ([]Build, error) {
	return OfValues(file, text, open, nil)
}

// OfValues is [OfFiles] with the values of variables that Compose takes from elsewhere: its .env.
func OfValues(file string, text []byte, open Open, values map[string]string) ([]Build, error) {
	root, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	switch {
	case dev.MatchString(file):
		r.devcontainer(root)
	case bake.MatchString(file):
		r.bake(root)
	default:
		r.values = values
		r.compose(file, root, open)
	}
	if len(r.list) >= maxBuilds {
		return nil, fmt.Errorf("it has %d or more builds", maxBuilds)
	}
	for i := range r.list {
		if r.list[i].File == "" {
			r.list[i].File = file
		}
	}
	return r.list, nil
}

// parse returns the root of a file's values.
func parse(file string, text []byte) (*yaml.Node, error) {
	if len(text) > maxSize {
		return nil, fmt.Errorf("it is larger than %d KiB", maxSize>>10)
	}
	doc, err := document.Read(file, text) // YAML if it is none of its formats
	switch {
	case err != nil:
		return nil, err
	case doc != nil:
	case depth.Exceeds(text, maxNested):
		return nil, errors.New("its values nest too deeply")
	default:
		doc = &yaml.Node{}
		if err := yaml.Unmarshal(text, doc); err != nil {
			return nil, errors.New("it is no YAML")
		}
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("it is empty")
	}
	return doc.Content[0], nil
}

type reader struct {
	list   []Build
	values map[string]string
}

// devcontainer reads build, or dockerFile and context of older files:
// https://containers.dev/implementors/json_reference/
func (r *reader) devcontainer(root *yaml.Node) {
	if b := get(root, "build"); b != nil {
		r.add("devcontainer", b, "dockerfile")
	} else if f := get(root, "dockerFile"); f != nil {
		r.add("devcontainer", root, "dockerFile")
	}
	for i := range r.list {
		each(get(root, "features"), func(name string, _ *yaml.Node) {
			if len(r.list[i].Features) < maxArgs {
				r.list[i].Features = append(r.list[i].Features, name)
			}
		})
	}
}

// bake reads the targets of a bake file, with what they inherit:
// https://docs.docker.com/build/bake/reference/#targetinherits
func (r *reader) bake(root *yaml.Node) {
	t := &targets{nodes: map[string]*yaml.Node{}, whole: map[string]*yaml.Node{}}
	var names []string
	add := func(name string, n *yaml.Node) {
		if t.nodes[name] == nil {
			names = append(names, name)
		}
		t.nodes[name] = n
	}
	if list := get(root, "target"); list != nil && list.Kind == yaml.SequenceNode { // HCL's blocks
		for _, n := range list.Content {
			each(n, add)
		}
	} else {
		each(list, add)
	}
	for _, name := range names {
		n := t.nodes[name]
		switch whole := t.inherited(name, 0); {
		case whole == nil:
			r.unknown(name, n.Line, "what it inherits is not known")
		case get(n, "matrix") != nil:
			r.matrix(name, n, whole)
		default:
			r.add(name, whole, "")
		}
	}
}

// maxInherited limits in how many steps a target may inherit, and from how many.
const maxInherited = 10

// targets are the targets of a bake file by name: as they are written, and with what they
// inherit, which is nil if that is not known.
type targets struct{ nodes, whole map[string]*yaml.Node }

// inherited returns a target with the keys of those that it inherits from, of which the later
// ones count, and then its own; or nil if not all are known.
func (t *targets) inherited(name string, depth int) *yaml.Node {
	n := t.nodes[name]
	from := get(n, "inherits")
	if n == nil || from == nil {
		return n
	}
	if whole, ok := t.whole[name]; ok {
		return whole
	}
	t.whole[name] = nil // also while it is asked for: a target that inherits from itself
	if depth == maxInherited || from.Kind != yaml.SequenceNode || len(from.Content) > maxInherited {
		return nil
	}
	whole := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
	for _, f := range from.Content {
		parent := t.inherited(f.Value, depth+1)
		if parent == nil {
			return nil
		}
		override(whole, parent)
	}
	override(whole, n)
	t.whole[name] = whole
	return whole
}

// override sets the keys of a mapping to those of another; arguments are set one by one, the
// first maxArgs of each.
func override(n, by *yaml.Node) {
	each(by, func(key string, value *yaml.Node) {
		old := plain(n, key)
		if key == "args" && len(value.Content) > 2*maxArgs {
			value = &yaml.Node{Kind: value.Kind, Line: value.Line, Content: value.Content[:2*maxArgs]}
		}
		switch {
		case old == nil:
			if key == "args" && value.Kind == yaml.MappingNode {
				value = &yaml.Node{Kind: yaml.MappingNode, Line: value.Line, Content: slices.Clone(value.Content)}
			}
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
		case key == "args" && old.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			override(old, value)
		default:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == key {
					n.Content[i+1] = value
				}
			}
		}
	})
}

// unknown adds a build of which the file does not say enough.
func (r *reader) unknown(name string, line int, why string) {
	if len(r.list) < maxBuilds {
		r.list = append(r.list, Build{Name: name, Line: line, Why: why})
	}
}

// add adds a build: a mapping, or a text that is the context. key is the key of the
// Dockerfile if it is not "dockerfile". In devcontainer.json paths are relative to that file.
func (r *reader) add(name string, n *yaml.Node, key string) {
	if len(r.list) >= maxBuilds {
		return
	}
	b := Build{Name: name, Line: n.Line, Context: ".", Args: map[string]string{}}
	file := "Dockerfile"
	if n.Kind == yaml.ScalarNode {
		b.text(r.values, n, &b.Context, "context")
	} else {
		b.text(r.values, get(n, "context"), &b.Context, "context")
		b.text(r.values, get(n, "dockerfile"), &file, "dockerfile")
		if key == "dockerFile" {
			b.text(r.values, get(n, "dockerFile"), &file, "dockerFile")
		}
		b.text(r.values, get(n, "target"), &b.Target, "target")
		b.args(r.values, get(n, "args"))
		for _, inline := range []*yaml.Node{get(n, "dockerfile_inline"), get(n, "dockerfile-inline")} {
			b.inline(inline)
		}
	}
	switch {
	case strings.Contains(b.Context, "://") || strings.HasPrefix(b.Context, "git@") || strings.HasPrefix(b.Context, "target:"):
		b.Why = "its context is " + b.Context
	case b.Why != "":
	case key != "" || path.IsAbs(file):
		b.Dockerfile = path.Clean(file)
	default:
		b.Dockerfile = path.Join(b.Context, file)
	}
	r.list = append(r.list, b)
}

// text reads a text with its variables.
func (b *Build) text(values map[string]string, n *yaml.Node, to *string, what string) {
	switch {
	case n == nil:
		return
	case n.Kind != yaml.ScalarNode:
		b.Why = "its " + what + " is no text"
		return
	}
	value, known := expand(n.Value, values)
	if *to = value; !known {
		b.Why = "its " + what + " is " + n.Value
	}
}

// args reads build arguments: a mapping, or a list of NAME=VALUE. One whose value is not known
// is left out.
func (b *Build) args(values map[string]string, n *yaml.Node) {
	set := func(name, value string) {
		if v, known := expand(value, values); known && len(b.Args) < maxArgs {
			b.Args[name] = v
		}
	}
	switch {
	case n == nil:
	case n.Kind == yaml.SequenceNode:
		for _, e := range n.Content {
			if name, value, ok := strings.Cut(e.Value, "="); ok {
				set(name, value)
			}
		}
	default:
		each(n, func(name string, v *yaml.Node) {
			if v.Kind == yaml.ScalarNode && v.Tag != "!!null" {
				set(name, v.Value)
			}
		})
	}
}

// inline reads the text of a Dockerfile; only a block of lines has its lines where they are.
func (b *Build) inline(n *yaml.Node) {
	switch {
	case n == nil:
	case n.Style&yaml.LiteralStyle == 0 || strings.Contains(n.Value, "$$"):
		b.Why = "its Dockerfile is not a block of lines"
	default:
		b.Inline, b.InlineLine = n.Value, n.Line+1
	}
}

// expand returns a text with the values or the defaults of its variables. One without either is not
// known.
func expand(s string, values map[string]string) (value string, known bool) {
	value, missing := variables.Expand(s, values)
	if missing != "" {
		return s, false
	}
	return value, true
}

// each calls f for the pairs of a mapping.
func each(n *yaml.Node, f func(key string, value *yaml.Node)) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f(n.Content[i].Value, resolve(n.Content[i+1]))
	}
}

// get returns the value of a key, also of one that `<<` merges in, or nil.
func get(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var merged *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k := n.Content[i]; {
		case k.Value == key:
			return resolve(n.Content[i+1])
		case k.Tag == "!!merge":
			for _, m := range slices.Concat([]*yaml.Node{resolve(n.Content[i+1])}, resolve(n.Content[i+1]).Content) {
				if m = resolve(m); m.Kind == yaml.MappingNode && merged == nil {
					merged = plain(m, key)
				}
			}
		}
	}
	return merged
}

func plain(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}

// resolve returns what an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}
