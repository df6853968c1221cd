// Package imagerefs finds the images that YAML files name: Compose files, Kubernetes
// manifests and the values of Helm charts.
//
// It recognizes them by name and content, and ignores other files. It does not render
// templates. If a reference depends on a variable without a default, it says so.
package imagerefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/google/go-containerregistry/pkg/name"
	"gopkg.in/yaml.v3"
)

// Limits of a file: its bytes, the depth and number of its values, its images, and the
// bytes of a reference.
const (
	maxSize   = 1 << 20
	maxDepth  = 100
	maxValues = 200_000
	maxRefs   = 1000
	maxRef    = 4096
)

// Ref is one image that a file names.
type Ref struct {
	Image string // a reference, or "" if Why is set
	Line  int
	Why   string // why the reference is not known, or ""
}

// Names are patterns of paths in a repository whose files may name images.
var Names = []string{"**/*.yaml", "**/*.yml"}

// Of returns the images that a file names, each once, in the order of the file. It
// returns none for a file of another kind, and an error for one that exceeds a limit.
func Of(file string, text []byte) ([]Ref, error) {
	if len(text) > maxSize {
		return nil, fmt.Errorf("it is larger than %d KiB", maxSize>>10)
	}
	f := &finder{}
	err := f.stream(path.Base(file), text)
	if err != nil && bytes.Contains(text, []byte("{{")) {
		f = &finder{}
		err = f.templates(path.Base(file), text)
	}
	if err != nil {
		return nil, err
	}
	if f.seen >= maxValues || len(f.refs) == maxRefs {
		return nil, fmt.Errorf("it has %d or more values, or names %d or more images", maxValues, maxRefs)
	}
	return f.refs, nil
}

// stream reads the documents of a YAML stream.
func (f *finder) stream(base string, text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		root := doc.Content[0]
		switch {
		case get(root, "apiVersion") != nil && get(root, "kind") != nil:
			f.manifest(root, 0)
		case matches("{docker-,}compose{,.*,-*}.{yaml,yml}", base):
			f.compose(root)
		case matches("*values*.{yaml,yml}", base):
			f.values(root, 0)
		}
	}
}

// templates reads the documents of a stream one by one and skips those that are templates
// and not YAML; the chart's values name their images. A line that begins with "---"
// always separates two documents (https://yaml.org/spec/1.2.2/#912-document-markers).
func (f *finder) templates(base string, text []byte) error {
	start, line := 0, 0
	for at, next := 0, 0; at < len(text) && f.seen < maxValues; at = next {
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		} else {
			next = len(text)
		}
		line++
		if rest, ok := bytes.CutPrefix(text[at:next], []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			if err := f.document(base, text[start:at]); err != nil {
				return err
			}
			start, f.before = at, line-1
			f.seen++
		}
	}
	return f.document(base, text[start:])
}

// document reads one document of a stream. It ignores directives, which precede a
// document and begin with "%".
func (f *finder) document(base string, text []byte) error {
	err := f.stream(base, text)
	if bytes.Contains(text, []byte("{{")) || bytes.HasPrefix(bytes.TrimSpace(text), []byte("%")) {
		return nil
	}
	return err
}

func matches(pattern, name string) bool { return doublestar.MatchUnvalidated(pattern, name) }

// Valid reports whether ref names an image in a registry. dir:/etc does not: its host has
// a colon without a port.
func Valid(ref string) bool {
	r, err := name.ParseReference(ref)
	return err == nil && !strings.HasSuffix(r.Context().RegistryStr(), ":")
}

type finder struct {
	refs   []Ref
	seen   int
	before int // lines of the file before the current stream
}

// add adds a reference, unless it was added before.
func (f *finder) add(r Ref) {
	r.Line += f.before
	if len(r.Image) > maxRef || len(r.Why) > 2*maxRef {
		r = Ref{Line: r.Line, Why: fmt.Sprintf("the reference has more than %d bytes", maxRef)}
	}
	if r.Why == "" {
		if !Valid(r.Image) {
			r = Ref{Line: r.Line, Why: fmt.Sprintf("%q is not a reference", r.Image)}
		}
	}
	same := func(o Ref) bool { return o.Image == r.Image && o.Why == r.Why }
	if len(f.refs) < maxRefs && !slices.ContainsFunc(f.refs, same) {
		f.refs = append(f.refs, r)
	}
}

// manifest finds the containers of pods at any depth: of a CronJob, a List, a custom
// resource.
func (f *finder) manifest(n *yaml.Node, depth int) {
	if !f.enter(depth) {
		return
	}
	for key, value := range pairs(n) {
		if value.Kind == yaml.SequenceNode && (key == "containers" || key == "initContainers" || key == "ephemeralContainers") {
			for _, c := range value.Content {
				f.scalar(f.get(c, "image"), plain)
			}
		}
		f.manifest(value, depth+1)
	}
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			f.manifest(c, depth+1)
		}
	}
}

// compose reads services:
// https://github.com/compose-spec/compose-spec/blob/main/05-services.md
func (f *finder) compose(root *yaml.Node) {
	services := f.get(root, "services")
	if services == nil {
		return
	}
	for _, s := range pairs(services) {
		if image := f.get(s, "image"); image != nil && f.get(s, "build") != nil {
			f.add(Ref{Line: image.Line, Why: fmt.Sprintf("%s is built here", image.Value)})
		} else {
			f.scalar(image, interpolate)
		}
	}
}

// values finds images by the conventions of charts: `image: name:tag`, or a mapping with
// repository and perhaps registry, tag and digest.
func (f *finder) values(n *yaml.Node, depth int) {
	if !f.enter(depth) {
		return
	}
	for key, value := range pairs(n) {
		if key == "image" || strings.HasSuffix(key, "Image") {
			f.scalar(value, plain)
		}
		f.values(value, depth+1)
	}
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			f.values(c, depth+1)
		}
	}
	repo := text(f.get(n, "repository"))
	if repo == "" {
		return
	}
	if tag, digest := text(f.get(n, "tag")), text(f.get(n, "digest")); tag != "" || digest != "" {
		ref := repo
		if registry := text(f.get(n, "registry")); registry != "" {
			ref = registry + "/" + ref
		}
		if tag != "" {
			ref += ":" + tag
		}
		if digest != "" {
			ref += "@" + digest
		}
		f.add(Ref{Image: ref, Line: f.get(n, "repository").Line})
	} else if f.get(n, "tag") != nil {
		f.add(Ref{Line: f.get(n, "repository").Line, Why: repo + " has no tag here: the chart's version gives it"})
	}
}

func (f *finder) enter(depth int) bool {
	f.seen++
	return depth < maxDepth && f.seen < maxValues
}

// get returns the value of a key as the function get does, and counts the cost: an alias
// may repeat a large mapping ten thousand times.
func (f *finder) get(n *yaml.Node, key string) *yaml.Node {
	if f.seen >= maxValues {
		return nil
	}
	v, cost := getCounted(n, key)
	f.seen += cost
	return v
}

// scalar adds the reference in a value.
func (f *finder) scalar(n *yaml.Node, expand func(string) (string, string)) {
	s := text(n)
	if s == "" || n.Kind == yaml.ScalarNode && n.Tag != "!!str" { // image: true
		return
	}
	if len(s) > maxRef {
		f.add(Ref{Image: s, Line: n.Line})
		return
	}
	image, why := expand(s)
	if why != "" {
		image = ""
	}
	f.add(Ref{Image: image, Line: n.Line, Why: why})
}

func plain(s string) (string, string) {
	if strings.Contains(s, "{{") || strings.Contains(s, "$(") || strings.Contains(s, "${") {
		return "", s + " comes from a template"
	}
	return s, ""
}

var variable = regexp.MustCompile(`\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+?])([^{}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))`)

// interpolate replaces variables by their defaults:
// https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md
func interpolate(s string) (out, why string) {
	out = variable.ReplaceAllStringFunc(s, func(v string) string {
		m := variable.FindStringSubmatch(v)
		if strings.HasSuffix(m[2], "-") {
			return m[3]
		}
		why = fmt.Sprintf("%s: the variable %s%s has no default", s, m[1], m[4])
		return ""
	})
	return out, why
}

// pairs yields the keys and values of a mapping.
func pairs(n *yaml.Node) func(func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, n.Content[i+1]) {
				return
			}
		}
	}
}

// get returns the value of a key of a mapping or of one that is merged into it (<<).
func get(n *yaml.Node, key string) *yaml.Node {
	v, _ := getCounted(n, key)
	return v
}

// getCounted does as get, and also returns about how many values it compared.
func getCounted(n *yaml.Node, key string) (value *yaml.Node, cost int) {
	if n == nil {
		return nil, 0
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	var merged []*yaml.Node
	for k, v := range pairs(n) {
		cost++
		switch k {
		case key:
			return v, cost / 8
		case "<<":
			if v.Kind == yaml.SequenceNode {
				merged = append(merged, v.Content...)
			} else {
				merged = append(merged, v)
			}
		}
	}
	for _, m := range merged {
		if m.Kind == yaml.AliasNode {
			m = m.Alias
		}
		cost++
		for k, v := range pairs(m) {
			cost++
			if k == key {
				return v, cost / 8
			}
		}
	}
	return nil, cost / 8
}

// text returns the text of a scalar, and "" for other nodes.
func text(n *yaml.Node) string {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return strings.TrimSpace(n.Value)
}
