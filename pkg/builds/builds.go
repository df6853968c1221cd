// Package builds reads which Dockerfiles other files build, and how: the services of Compose
// files, the targets of docker buildx bake's JSON, and devcontainer.json.
//
// It opens no files. A value that a variable decides which the file does not know is in
// [Build.Why], and so are Compose's extends and include. Of bake's HCL [Of] returns an error.
package builds

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/depth"
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
	Line int    // where the file says it
	// Context is the directory of the build context, and Dockerfile the file's path, both
	// relative to the directory of the file that says it.
	Context, Dockerfile string
	// Inline is the text of a Dockerfile in the file itself, whose first line is InlineLine.
	Inline     string
	InlineLine int
	Target     string // "" for the last stage
	Args       map[string]string
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

// Of returns the builds of a file, in their order.
func Of(file string, text []byte) ([]Build, error) {
	if len(text) > maxSize {
		return nil, fmt.Errorf("it is larger than %d KiB", maxSize>>10)
	}
	if strings.HasSuffix(strings.ToLower(file), ".hcl") {
		return nil, errors.New("bake's HCL is not read: `docker buildx bake --print` writes it as JSON")
	}
	if depth.Exceeds(text, maxNested) {
		return nil, errors.New("its values nest too deeply")
	}
	if strings.HasSuffix(file, ".json") { // with comments; YAML reads the rest
		var err error
		if text, err = hujson.Standardize(text); err != nil {
			return nil, errors.New("it is no JSON")
		}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return nil, errors.New("it is no YAML")
	}
	r := &reader{}
	root := doc.Content[0]
	switch {
	case dev.MatchString(file):
		r.devcontainer(root)
	case bake.MatchString(file):
		each(get(root, "target"), func(name string, n *yaml.Node) { r.add(name, n, "") })
	default:
		each(get(root, "services"), func(name string, n *yaml.Node) {
			switch b := get(n, "build"); {
			case get(n, "extends") != nil:
				r.unknown(name, n.Line, "it extends another service, which is not read")
			case b != nil:
				r.add(name, b, "")
			}
		})
		if n := get(root, "include"); n != nil {
			r.unknown("include", n.Line, "the files that it includes are not read")
		}
	}
	if len(r.list) >= maxBuilds {
		return nil, fmt.Errorf("it has %d or more builds", maxBuilds)
	}
	return r.list, nil
}

type reader struct{ list []Build }

// devcontainer reads build, or dockerFile and context of older files:
// https://containers.dev/implementors/json_reference/
func (r *reader) devcontainer(root *yaml.Node) {
	if b := get(root, "build"); b != nil {
		r.add("devcontainer", b, "dockerfile")
	} else if f := get(root, "dockerFile"); f != nil {
		r.add("devcontainer", root, "dockerFile")
	}
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
		b.text(n, &b.Context, "context")
	} else {
		b.text(get(n, "context"), &b.Context, "context")
		b.text(get(n, "dockerfile"), &file, "dockerfile")
		if key == "dockerFile" {
			b.text(get(n, "dockerFile"), &file, "dockerFile")
		}
		b.text(get(n, "target"), &b.Target, "target")
		b.args(get(n, "args"))
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
func (b *Build) text(n *yaml.Node, to *string, what string) {
	switch {
	case n == nil:
		return
	case n.Kind != yaml.ScalarNode:
		b.Why = "its " + what + " is no text"
		return
	}
	value, known := expand(n.Value)
	if *to = value; !known {
		b.Why = "its " + what + " is " + n.Value
	}
}

// args reads build arguments: a mapping, or a list of NAME=VALUE. One whose value is not known
// is left out.
func (b *Build) args(n *yaml.Node) {
	set := func(name, value string) {
		if v, known := expand(value); known && len(b.Args) < maxArgs {
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

// variable matches ${NAME:-default} and ${NAME-default}:
// https://docs.docker.com/reference/compose-file/interpolation/
var variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*:?-([^${}]*)\}`)

// expand returns a text with the defaults of its variables. One without a default is not known.
func expand(s string) (value string, known bool) {
	s = variable.ReplaceAllString(s, "$1")
	return s, !strings.Contains(s, "$")
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
