// Package document reads JSON with comments, TOML and HCL as the trees that gopkg.in/yaml.v3
// has for YAML: mappings, sequences and scalars with their lines.
//
// It knows the formats, and nothing of what files in them mean. It evaluates no functions and
// no conditions of HCL: such a value is a text in ${}.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/depth"
)

// Limits of a document: its bytes, those of one in HCL, whose parser calls itself for each
// operator, and how deeply its brackets nest.
const (
	MaxSize   = 1 << 20
	maxHCL    = 128 << 10
	maxNested = 100
)

// Read reads a document by the end of its file's name. It returns nil for a name of none of the
// formats, and a document node whose Content is empty for an empty document.
func Read(file string, text []byte) (*yaml.Node, error) {
	var read func(string, []byte) (*yaml.Node, error)
	most := MaxSize
	switch strings.ToLower(path.Ext(file)) {
	case ".json":
		read = readJSON
	case ".toml":
		read = readTOML
	case ".hcl", ".tf", ".nomad":
		read, most = readHCL, maxHCL
	default:
		return nil, nil
	}
	if len(text) > most {
		return nil, fmt.Errorf("it is larger than %d KiB", most>>10)
	}
	if depth.Exceeds(bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("("), []byte("[")), []byte(")"), []byte("]")), maxNested) {
		return nil, errors.New("its values nest too deeply")
	}
	return read(file, text)
}

// asYAML replaces the characters of JSON that mean something else in YAML: tabs, and what ends a
// line there but not in JSON. Between values, white space is white space; a string of JSON has no
// tab and no carriage return, and may have its other characters as escapes.
var asYAML = strings.NewReplacer("\t", " ", "\r", " ", "\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// readJSON reads JSON with comments and commas at the end of lists, as editors write it.
func readJSON(_ string, text []byte) (*yaml.Node, error) {
	text, err := hujson.Standardize(bytes.Clone(text))
	if err != nil {
		return nil, errors.New("it is no JSON")
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(asYAML.Replace(string(text))), &doc); err != nil {
		return nil, errors.New("it is no JSON that can be read")
	}
	return &doc, nil
}

func readTOML(_ string, text []byte) (*yaml.Node, error) {
	if depth.DottedExceeds(text, depth.MaxDotted) {
		return nil, errors.New("its values nest too deeply")
	}
	var values map[string]any
	if _, err := toml.Decode(string(text), &values); err != nil {
		var at toml.ParseError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("line %d: it is no TOML", at.Position.Line)
		}
		return nil, errors.New("it is no TOML")
	}
	t := &tomlLines{lines: map[string]int{}}
	for i, line := range bytes.Split(text, []byte("\n")) {
		for _, quote := range []byte{'"', '\''} {
			if first, last := bytes.IndexByte(line, quote), bytes.LastIndexByte(line, quote); first < last {
				if s := string(line[first+1 : last]); t.lines[s] == 0 {
					t.lines[s] = i + 1
				}
			}
		}
	}
	return &yaml.Node{Kind: yaml.DocumentNode, Line: 1, Content: []*yaml.Node{t.node(values)}}, nil
}

// tomlLines has the first line of each string in quotes: the decoder tells no lines.
type tomlLines struct{ lines map[string]int }

func (t *tomlLines) node(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := mapping(1)
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			put(n, scalar(k, 1), t.node(v[k]))
		}
		return n
	case []map[string]any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: 1}
		for _, e := range v {
			n.Content = append(n.Content, t.node(e))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: 1}
		for _, e := range v {
			n.Content = append(n.Content, t.node(e))
		}
		return n
	case string:
		return scalar(v, max(t.lines[v], 1))
	}
	n := scalar(fmt.Sprint(value), 1)
	n.Tag = "!!" + strconv.Quote("toml")
	return n
}

func mapping(line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: line}
}

func scalar(text string, line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: line}
}

func put(n, key, value *yaml.Node) { n.Content = append(n.Content, key, value) }
