package pyimport

import (
	"strconv"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"gopkg.in/yaml.v3"
)

// Programs read their settings with PyYAML, and some import the modules that these name.

func init() {
	table := map[string]func(*Run, *args) value{}
	for _, name := range []string{"safe_load", "load", "full_load", "unsafe_load"} {
		table[name] = func(r *Run, a *args) value {
			s, ok := a.document(0, "stream")
			if !ok {
				return unknownf("a value in YAML")
			}
			var doc yaml.Node
			if err := yaml.Unmarshal([]byte(s), &doc); err != nil || len(doc.Content) != 1 {
				return unknownf("a value in YAML")
			}
			return r.fromYAML(doc.Content[0], 0)
		}
	}
	functions("yaml", table)
}

// fromYAML returns the value of a node as PyYAML constructs it. A scalar that YAML 1.1 and 1.2 read in different ways
// is not known, nor are aliases and merged keys.
func (r *Run) fromYAML(n *yaml.Node, depth int) value {
	r.spend(1)
	if depth > maxJSON || r.stop != "" {
		return unknownf("a value in YAML")
	}
	switch n.Kind {
	case yaml.SequenceNode:
		l := &list{}
		for _, item := range n.Content {
			l.items = append(l.items, r.fromYAML(item, depth+1))
		}
		return r.own(l)
	case yaml.MappingNode:
		d := r.newDict()
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Tag == "!!merge" || n.Content[i].Value == pyenv.LeftOut {
				d.open = true
				continue
			}
			r.setKey(d, r.fromYAML(n.Content[i], depth+1), r.fromYAML(n.Content[i+1], depth+1))
		}
		return d
	case yaml.ScalarNode:
		if n.Value == pyenv.LeftOut {
			return unknownf("a text of settings")
		}
		return yamlScalar(n)
	}
	return unknownf("a value in YAML")
}

// yamlScalar returns the value of a scalar.
func yamlScalar(n *yaml.Node) value {
	plain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	switch n.Tag {
	case "!!str":
		switch n.Value {
		case "yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF", "y", "Y", "n", "N", "=":
			if plain {
				break
			}
			return n.Value
		default:
			return n.Value
		}
	case "!!null":
		return nil
	case "!!bool":
		switch n.Value {
		case "true", "True", "TRUE":
			return true
		case "false", "False", "FALSE":
			return false
		}
	case "!!int":
		if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil && n.Value[0] != '0' {
			return v
		}
		if n.Value == "0" {
			return int64(0)
		}
	}
	return unknownf("a value in YAML")
}
