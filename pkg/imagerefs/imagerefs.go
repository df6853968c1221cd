// Package imagerefs finds the images that files name: Compose files, Kubernetes manifests, the
// values of Helm charts, pipelines of CI systems, Terraform, scripts for Slurm and more.
//
// formats.yaml lists the formats: the files, and where in them images stand. Of recognizes a file
// by its name and content, and ignores others. It does not render templates. If a reference
// depends on a variable without a default, it says so.
package imagerefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/google/go-containerregistry/pkg/name"
	"gopkg.in/yaml.v3"

	nested "github.com/imgcheck/imgcheck/internal/depth"
	"github.com/imgcheck/imgcheck/internal/document"
	"github.com/imgcheck/imgcheck/internal/variables"
)

// Limits of a file: its bytes, the depth and number of its values, the bytes of a key, its
// images, and the bytes of a reference.
const (
	maxSize   = 1 << 20
	maxDepth  = 100
	maxValues = 200_000
	maxKey    = 200
	maxRefs   = 1000
	maxRef    = 4096
)

// Ref is one image that a file names.
type Ref struct {
	Image    string // a reference, or "" if Why is set
	Line     int
	Why      string // why the reference is not known, or ""
	Platform string // OS/ARCH that the file asks for, or ""
}

// Of returns the images that a file names, each once, in the order of the file. file is its path
// in the repository, and values are those of variables that Compose takes from elsewhere: its
// .env. It returns none for a file of another kind, and an error for one that exceeds a limit.
func Of(file string, text []byte, values map[string]string) ([]Ref, error) {
	if len(text) > maxSize {
		return nil, fmt.Errorf("it is larger than %d KiB", maxSize>>10)
	}
	f := &finder{values: values}
	f.choose(strings.ToLower(file), text)
	if len(f.formats) == 0 && len(f.scripts) == 0 {
		return nil, nil
	}
	f.scan(text)
	if len(f.formats) > 0 {
		if err := f.read(file, text); err != nil {
			return nil, err
		}
	}
	if f.seen >= maxValues || len(f.refs) == maxRefs {
		return nil, fmt.Errorf("it has %d or more values, or names %d or more images", maxValues, maxRefs)
	}
	return f.refs, nil
}

// read reads the documents of a file.
func (f *finder) read(file string, text []byte) error {
	doc, err := document.Read(file, text)
	if err != nil {
		return err
	}
	if doc != nil {
		f.document(doc)
		return nil
	}
	err = f.stream(text)
	if err == nil || !bytes.Contains(text, []byte("{{")) {
		return err
	}
	f.refs, f.seen = nil, 0
	return f.templates(text)
}

// stream reads the documents of a YAML stream.
func (f *finder) stream(text []byte) error {
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
		f.document(&doc)
	}
}

// templates reads the documents of a stream one by one and skips those that are templates
// and not YAML; the chart's values name their images. A line that begins with "---"
// always separates two documents (https://yaml.org/spec/1.2.2/#912-document-markers).
func (f *finder) templates(text []byte) error {
	start, line := 0, 0
	for at, next := 0, 0; at < len(text) && f.seen < maxValues; at = next {
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		} else {
			next = len(text)
		}
		line++
		if rest, ok := bytes.CutPrefix(text[at:next], []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			if err := f.part(text[start:at]); err != nil {
				return err
			}
			start, f.before = at, line-1
			f.seen++
		}
	}
	return f.part(text[start:])
}

// part reads one document of a stream. It ignores directives, which precede a document and
// begin with "%".
func (f *finder) part(text []byte) error {
	err := f.stream(text)
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
	formats []*format
	scripts []*script
	values  map[string]string // of variables
	refs    []Ref
	seen    int
	before  int // lines of the file before the current stream
}

// add adds a reference, unless it was added before.
func (f *finder) add(r Ref) {
	r.Line = max(r.Line, 1) + f.before
	if len(r.Image) > maxRef || len(r.Why) > 2*maxRef {
		r = Ref{Line: r.Line, Why: fmt.Sprintf("the reference has more than %d bytes", maxRef)}
	}
	if r.Why == "" && !Valid(r.Image) {
		r = Ref{Line: r.Line, Why: fmt.Sprintf("%q is not a reference", r.Image)}
	}
	same := func(o Ref) bool { return o.Image == r.Image && o.Why == r.Why && o.Platform == r.Platform }
	if len(f.refs) < maxRefs && !slices.ContainsFunc(f.refs, same) {
		f.refs = append(f.refs, r)
	}
}

// document finds the images of a document, or of each one in a list of documents.
func (f *finder) document(doc *yaml.Node) {
	if len(doc.Content) == 0 {
		return
	}
	root := doc.Content[0]
	if root.Kind != yaml.SequenceNode {
		f.root(root)
		return
	}
	for _, n := range root.Content {
		if f.seen++; f.seen >= maxValues {
			return
		}
		f.root(resolve(n))
	}
}

// root finds the images of a document by all formats that fit it.
func (f *finder) root(root *yaml.Node) {
	for _, format := range f.formats {
		if !format.fits(root) {
			continue
		}
		w := &walk{finder: f, format: format, values: f.values}
		w.takeDefaults(root)
		w.node(root, nil, "", "", 0)
		if format.Last {
			return
		}
	}
}

// walk is the search of one document for the images of one format.
type walk struct {
	*finder
	*format
	values map[string]string
}

// takeDefaults takes the values of the document's own variables: texts, or mappings with a
// value.
func (w *walk) takeDefaults(root *yaml.Node) {
	if w.Defaults == "" {
		return
	}
	w.values = maps.Clone(w.values)
	if w.values == nil {
		w.values = map[string]string{}
	}
	for key, value := range w.pairs(w.get(root, w.Defaults)) {
		if resolve(value).Kind == yaml.MappingNode {
			value = w.get(value, "value")
		}
		if s, ok := known(value); ok && len(s) <= maxRef {
			w.values[key] = s
		}
	}
}

// known returns the text of a scalar that has one.
func known(n *yaml.Node) (string, bool) {
	s := text(n)
	return s, s != "" || n != nil && n.Kind == yaml.ScalarNode && n.Tag == "!!str"
}

// node looks at a value and all that it has. at has the keys from the top, with slashes; the
// last is key, of the mapping in.
func (w *walk) node(n, in *yaml.Node, at, key string, depth int) {
	w.seen++
	if depth >= maxDepth || w.seen >= maxValues {
		return
	}
	n = resolve(n)
	switch n.Kind {
	case yaml.SequenceNode:
		if w.format.settings.match(at, key) {
			w.settings(n, in, at, depth)
			return
		}
		for _, c := range n.Content {
			w.node(c, in, at, key, depth+1)
		}
		return
	case yaml.MappingNode:
		if w.format.parts.match(at, key) || at != "" && w.format.images.match(at, key) {
			w.joined(n)
		}
		for k, v := range w.pairs(n) {
			if len(k) > maxKey {
				k = k[:maxKey]
			}
			k = strings.ReplaceAll(k, "/", "|")
			w.node(v, n, path.Join(at, k), k, depth+1)
		}
	case yaml.ScalarNode:
		switch {
		case w.format.texts.match(at, key):
			w.inText(n, in, at, key, depth)
		case w.format.built.match(at, key):
			if s := text(n); s != "" {
				w.add(Ref{Line: n.Line, Why: fmt.Sprintf("%s is built here", shorten(s))})
			}
		case w.format.images.match(at, key):
			w.scalar(n, in)
		}
	}
}

// maxSettings limits the settings of a list, and the parts of a name.
const (
	maxSettings = 1000
	maxParts    = 20
)

// settings reads a list of names and values (`image.tag`, `1.2`) as the values that they set, which
// stand beside it. A tag without a repository is one of the chart's images.
func (w *walk) settings(list, in *yaml.Node, at string, depth int) {
	root := &yaml.Node{Kind: yaml.MappingNode, Line: list.Line}
	for i, entry := range list.Content {
		entry = resolve(entry)
		name, value := text(w.get(entry, "name")), w.get(entry, "value")
		parts := strings.Split(strings.ReplaceAll(name, `\.`, "\x00"), ".")
		if i >= maxSettings || name == "" || len(name) > maxKey || len(parts) > maxParts || value == nil || resolve(value).Kind != yaml.ScalarNode {
			continue
		}
		value = resolve(value)
		leaf := *value
		leaf.Tag = "!!str"
		put(root, parts, &leaf)
	}
	w.node(root, in, path.Join(path.Dir(at), "values"), "values", depth+1)
	w.lone(root, "")
}

// put sets a value below the keys of a mapping.
func put(n *yaml.Node, keys []string, value *yaml.Node) {
	key := strings.ReplaceAll(keys[0], "\x00", ".")
	var at *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			at = n.Content[i+1]
		}
	}
	switch {
	case at == nil:
		at = value
		if len(keys) > 1 {
			at = &yaml.Node{Kind: yaml.MappingNode, Line: value.Line}
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: value.Line}, at)
	case len(keys) == 1:
		*at = *value
	}
	if len(keys) > 1 && at.Kind == yaml.MappingNode {
		put(at, keys[1:], value)
	}
}

// lone adds the tags of images whose repository the settings do not name.
func (w *walk) lone(n *yaml.Node, key string) {
	if tag := text(w.get(n, "tag")); tag != "" && strings.HasSuffix(strings.ToLower(key), "image") && text(w.get(n, "repository")) == "" && text(w.get(n, "name")) == "" {
		w.add(Ref{Line: w.get(n, "tag").Line, Why: fmt.Sprintf("%s is the tag of an image that the chart names", shorten(tag))})
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i+1].Kind == yaml.MappingNode {
			w.lone(n.Content[i+1], n.Content[i].Value)
		}
	}
}

// template is a place in a text that is filled in later, as Terraform and Helm write it.
var template = regexp.MustCompile(`\$\{[^{}]*\}`)

// inText finds the images of a value that is JSON or YAML. A value that is filled in later is
// a text in it.
func (w *walk) inText(n, in *yaml.Node, at, key string, depth int) {
	if whole := template.FindString(n.Value); whole != "" && whole == strings.TrimSpace(n.Value) { // file("containers.json")
		w.add(Ref{Line: n.Line, Why: whole + " is not read"})
		return
	}
	value := template.ReplaceAllStringFunc(n.Value, func(s string) string {
		return "$(" + strings.Map(func(r rune) rune {
			if r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return -1
		}, s) + ")"
	})
	var doc yaml.Node
	err := errors.New("its values nest too deeply")
	if !nested.Exceeds([]byte(value), maxDepth) {
		err = yaml.Unmarshal([]byte(strings.ReplaceAll(value, "\t", " ")), &doc)
	}
	switch {
	case err != nil:
		w.add(Ref{Line: n.Line, Why: key + " was not understood: " + err.Error()})
	case len(doc.Content) > 0 && resolve(doc.Content[0]).Kind != yaml.ScalarNode:
		w.shift(&doc, n)
		w.node(doc.Content[0], in, at, key, depth+1)
	}
}

// shift gives the values of a text the lines that they have in the file: a block of lines
// begins below its key.
func (w *walk) shift(n, text *yaml.Node) {
	w.seen++
	if n.Line += text.Line; text.Style&yaml.LiteralStyle == 0 {
		n.Line = text.Line
	}
	for _, c := range n.Content {
		w.shift(c, text)
	}
}

func shorten(s string) string {
	if len(s) > maxRef {
		return s[:maxRef] + "…"
	}
	return s
}

// joined adds the image whose parts a mapping has: repository or newName, and tag or digest; a
// name counts beside a registry, a new tag or a digest.
func (w *walk) joined(n *yaml.Node) {
	one := func(keys ...string) (*yaml.Node, string) {
		for _, k := range keys {
			if v := w.get(n, k); text(v) != "" {
				return v, text(v)
			}
		}
		return nil, ""
	}
	_, registry := one("registry")
	_, tag := one("newTag", "tag", "imageTag")
	_, digest := one("digest")
	from, repo := one("repository", "newName")
	if _, newTag := one("newTag"); repo == "" && (registry != "" || newTag != "" || digest != "") {
		from, repo = one("name", "image")
	}
	switch {
	case repo == "" || strings.Contains(repo, "://"): // the address of a chart
		return
	case tag == "" && digest == "":
		if w.get(n, "tag") != nil {
			w.add(Ref{Line: from.Line, Why: repo + " has no tag here: the chart's version gives it"})
		} else if w.get(n, "newName") != nil {
			w.add(Ref{Line: from.Line, Why: repo + " has no tag here: the manifests give it"})
		}
		return
	}
	if registry != "" {
		repo = registry + "/" + repo
	}
	if tag != "" {
		repo += ":" + tag
	}
	if digest != "" {
		repo += "@" + digest
	}
	w.reference(repo, "", from.Line)
}

// scalar adds the reference in a value of the mapping in.
func (w *walk) scalar(n, in *yaml.Node) {
	s := text(n)
	if s == "" || n.Tag != "!!str" { // image: true
		return
	}
	if w.Prefix != "" {
		var ok bool
		if s, ok = strings.CutPrefix(s, w.Prefix); !ok {
			return
		}
	}
	if w.Renames {
		s = s[strings.LastIndexByte(s, '=')+1:]
		if tag := s[strings.LastIndexByte(s, '/')+1:]; strings.HasPrefix(s, "*") || !strings.ContainsAny(tag, ":@") {
			w.add(Ref{Line: n.Line, Why: fmt.Sprintf("%s is not known here: the manifests give the rest", shorten(text(n)))})
			return
		}
	}
	if w.Unless != "" && w.get(in, w.Unless) != nil {
		w.add(Ref{Line: n.Line, Why: fmt.Sprintf("%s is built here", shorten(s))})
		return
	}
	if tag := s[strings.LastIndexByte(s, '/')+1:]; !strings.ContainsAny(tag, ":@") {
		for _, k := range w.Tags {
			if t := text(w.get(in, k)); t != "" {
				s += ":" + t
				break
			}
		}
	}
	platform := ""
	if w.Platform != "" {
		platform = text(w.get(in, w.Platform))
	}
	w.reference(s, platform, n.Line)
}

// reference adds a reference with the values of its variables.
func (w *walk) reference(s, platform string, line int) {
	if len(s) > maxRef {
		w.add(Ref{Image: s, Line: line})
		return
	}
	r := Ref{Image: s, Line: line, Platform: platform}
	if w.Variables == "compose" {
		image, missing := variables.Expand(s, w.values)
		r.Image = image
		if missing != "" {
			r.Image, r.Why = "", fmt.Sprintf("%s: the variable %s has no default", s, missing)
		}
		r.Platform, missing = variables.Expand(platform, w.values)
		if missing != "" {
			r.Platform = ""
		}
	} else if strings.Contains(s, "{{") || strings.Contains(s, "$") {
		r.Image, r.Why = "", s+" comes from a template"
	}
	w.add(r)
}

// pairs yields the keys and values of a mapping, and of those that are merged into it (<<) the
// ones that it has not. It counts the cost: an alias may repeat a large mapping ten thousand
// times.
func (f *finder) pairs(n *yaml.Node) func(func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		n = resolve(n)
		if n == nil || n.Kind != yaml.MappingNode || f.seen >= maxValues {
			return
		}
		f.seen += len(n.Content) / 16
		var merged []*yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			switch {
			case k.Value != "<<":
				if !yield(k.Value, v) {
					return
				}
			case v.Kind == yaml.SequenceNode:
				merged = append(merged, v.Content...)
			default:
				merged = append(merged, v)
			}
		}
		if len(merged) == 0 {
			return
		}
		had := map[string]bool{"<<": true}
		for i := 0; i+1 < len(n.Content); i += 2 {
			had[n.Content[i].Value] = true
		}
		for _, m := range merged {
			if m = resolve(m); m.Kind != yaml.MappingNode || f.seen >= maxValues {
				continue
			}
			f.seen += 1 + len(m.Content)/2
			for i := 0; i+1 < len(m.Content); i += 2 {
				k := m.Content[i].Value
				if had[k] {
					continue
				}
				had[k] = true
				if !yield(k, m.Content[i+1]) {
					return
				}
			}
		}
	}
}

// get returns the value of a key of a mapping, or nil.
func (f *finder) get(n *yaml.Node, key string) *yaml.Node {
	for k, v := range f.pairs(n) {
		if k == key {
			return v
		}
	}
	return nil
}

// resolve returns the value that an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// text returns the text of a scalar, and "" for other nodes.
func text(n *yaml.Node) string {
	n = resolve(n)
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return strings.TrimSpace(n.Value)
}
