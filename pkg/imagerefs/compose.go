package imagerefs

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/variables"
)

// maxIncludes limits the files that a Compose file includes or extends.
const maxIncludes = 100

// IsEnv reports whether a file of a repository may have the variables of a Compose file beside
// it.
func IsEnv(file string) bool {
	return slices.ContainsFunc(formats, func(f *format) bool { return f.Env != "" && f.Env == path.Base(file) })
}

// Includes returns the paths in the repository of the files that a Compose file includes, or
// whose services it extends, each once. A path that is not known or not in the repository is
// left out. https://docs.docker.com/reference/compose-file/include/ and
// https://docs.docker.com/reference/compose-file/services/#extends
func Includes(file string, content []byte, values map[string]string) []string {
	if len(content) > maxSize || !bytes.Contains(content, []byte("include")) && !bytes.Contains(content, []byte("extends")) {
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil || len(doc.Content) == 0 {
		return nil
	}
	f := &finder{}
	var paths []string
	add := func(n *yaml.Node) {
		s := text(n)
		if s == "" || strings.Contains(s, "://") || path.IsAbs(s) || len(s) > maxRef || len(paths) >= maxIncludes {
			return
		}
		s, missing := variables.Expand(s, values)
		p := path.Join(path.Dir(file), s)
		if missing == "" && p != ".." && !strings.HasPrefix(p, "../") && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	root := doc.Content[0]
	for _, in := range items(f.get(root, "include")) {
		if resolve(in).Kind == yaml.MappingNode {
			for _, p := range items(f.get(in, "path")) {
				add(p)
			}
			continue
		}
		add(in)
	}
	for _, service := range f.pairs(f.get(root, "services")) {
		add(f.get(f.get(service, "extends"), "file"))
	}
	return paths
}

// items returns the elements of a list, or a value alone.
func items(n *yaml.Node) []*yaml.Node {
	switch n = resolve(n); {
	case n == nil:
		return nil
	case n.Kind == yaml.SequenceNode:
		return n.Content
	}
	return []*yaml.Node{n}
}
