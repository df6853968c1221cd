package builds

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Limits of the matrix of a target: the builds that it makes, and the values that are written for
// all of them.
const (
	maxCombinations = 64
	maxFilled       = 20_000
)

// matrix adds the builds of a target with a matrix: one for each combination of its values, which
// the target names as ${key} or ${key.part}: https://docs.docker.com/build/bake/matrices/
func (r *reader) matrix(name string, n, whole *yaml.Node) {
	combinations := []map[string]string{{}}
	known := true
	each(get(n, "matrix"), func(key string, list *yaml.Node) {
		if list.Kind != yaml.SequenceNode || len(combinations)*len(list.Content) > maxCombinations {
			known = false
			return
		}
		var next []map[string]string
		for _, c := range combinations {
			for _, v := range list.Content {
				values := map[string]string{}
				for k, old := range c {
					values[k] = old
				}
				if v.Kind == yaml.ScalarNode {
					values[key] = v.Value
				} else {
					each(v, func(part string, p *yaml.Node) {
						if p.Kind == yaml.ScalarNode {
							values[key+"."+part] = p.Value
						}
					})
				}
				next = append(next, values)
			}
		}
		combinations = next
	})
	if !known || size(whole)*len(combinations) > maxFilled {
		r.unknown(name, n.Line, "its matrix has too many builds, or values that are not known")
		return
	}
	for _, c := range combinations {
		target := filled(whole, c)
		of := name
		if f := get(target, "name"); f != nil && !strings.Contains(f.Value, "$") {
			of = f.Value
		}
		r.add(of, target, "")
	}
}

// size returns how many values a tree has.
func size(n *yaml.Node) int {
	total := 1
	for _, c := range n.Content {
		total += size(c)
	}
	return total
}

var (
	matrixValue = regexp.MustCompile(`\$\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}`)
	// quotedTemplate matches a template whose parts are not all known, as HCL has it.
	quotedTemplate = regexp.MustCompile(`^\$\{"((?:[^"\\]|\$\{[^{}"]*\})*)"\}$`)
)

// filled returns a tree with the values of a combination.
func filled(n *yaml.Node, values map[string]string) *yaml.Node {
	out := *n
	if n.Kind == yaml.ScalarNode {
		text := n.Value
		if m := quotedTemplate.FindStringSubmatch(text); m != nil {
			text = m[1]
		}
		text = matrixValue.ReplaceAllStringFunc(text, func(s string) string {
			if v, ok := values[matrixValue.FindStringSubmatch(s)[1]]; ok {
				return v
			}
			return s
		})
		if text != n.Value && !strings.Contains(text, "${") {
			out.Value = text
		}
		return &out
	}
	out.Content = slices.Clone(n.Content)
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			out.Content[i] = filled(c, values)
		}
	}
	return &out
}
