package pyenv

import (
	"bytes"
	"encoding/json"
	"io"
	"path"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxSettings limits a file of settings, in bytes.
const maxSettings = 64 << 10

// LeftOut stands in a reduced file of settings for a text that is not kept.
const LeftOut = "\x00"

// IsSettings reports whether the name of a file says that it has a program's settings, in a form that a
// program may read: a module that they name is imported. Those of packages and of the system do not count.
func IsSettings(name string) bool {
	dir, base := path.Split(strings.ToLower(name))
	switch path.Ext(base) {
	case ".json", ".yaml", ".yml":
	default:
		return false
	}
	if !strings.Contains(base, "conf") && !strings.Contains(base, "settings") {
		return false
	}
	for _, part := range []string{"-packages/", "node_modules/", "/share/", "/pkgs/", ".git/"} {
		if strings.Contains(dir, part) {
			return false
		}
	}
	return !strings.HasPrefix(dir, "usr/lib") && !strings.HasPrefix(dir, "etc/") && !strings.HasPrefix(dir, "usr/share/")
}

// mayName matches texts that may name a module, an object in one, or a choice. plainKey matches keys that are kept, and
// secretKey those whose values are not.
var (
	mayName   = regexp.MustCompile(`^[A-Za-z_]\w{0,80}(?:[.:][A-Za-z_]\w{0,80}){0,12}$`)
	plainKey  = regexp.MustCompile(`^[\w.-]{1,80}$`)
	secretKey = regexp.MustCompile(`(?i)pass|pwd|secret|token|key|credential|auth|login|user|salt|cert|private|dsn|pin`)
)

// reduceSettings returns a file of settings with its texts left out but for those that may name a module: an index is
// stored, and may be given to others, who need not see the image's passwords. A file that cannot be read has no text.
func reduceSettings(name string, text []byte) []byte {
	if path.Ext(strings.ToLower(name)) == ".json" {
		return reduceJSON(text)
	}
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Content) != 1 {
		return nil
	}
	reduceYAML(&doc, false, 0)
	out, err := yaml.Marshal(&doc)
	if err != nil {
		return nil
	}
	return out
}

// reduceYAML reduces a node. A secret one keeps no scalar.
func reduceYAML(n *yaml.Node, secret bool, depth int) {
	n.HeadComment, n.LineComment, n.FootComment, n.Anchor = "", "", "", ""
	if depth > 64 || n.Kind == yaml.AliasNode {
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: LeftOut, Style: yaml.DoubleQuotedStyle}
		return
	}
	if n.Kind == yaml.ScalarNode && (secret || n.Tag != "!!int" && n.Tag != "!!bool" && n.Tag != "!!null" && n.Tag != "!!merge" && !mayName.MatchString(n.Value)) {
		n.Tag, n.Value, n.Style = "!!str", LeftOut, yaml.DoubleQuotedStyle
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		n.Value = "null" // an empty one is written as a text
	}
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			reduceYAML(c, secret || n.Kind == yaml.MappingNode && secretKey.MatchString(n.Content[i-1].Value), depth+1)
			continue
		}
		was := c.Value
		if reduceYAML(c, secret, depth+1); c.Kind == yaml.ScalarNode && !secret && plainKey.MatchString(was) {
			c.Tag, c.Value = "", was
		}
	}
}

// reduceJSON reduces a text in JSON.
func reduceJSON(text []byte) []byte {
	type level struct{ object, key, secret bool }
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out []byte
	stack, secret, last := []level{{}}, false, 0
	for {
		t, err := d.Token()
		if err == io.EOF && len(stack) == 1 {
			return append(out, text[last:]...)
		}
		if err != nil || len(stack) > 64 {
			return nil
		}
		end, top := int(d.InputOffset()), &stack[len(stack)-1]
		between := bytes.IndexFunc(text[last:end], func(c rune) bool { return !strings.ContainsRune(" \t\r\n,:", c) })
		raw := text[last+between : end]
		out = append(out, text[last:last+between]...)
		last = end
		isKey := top.object && top.key
		top.key = !top.key
		switch t := t.(type) {
		case json.Delim:
			out = append(out, raw...)
			if t == '{' || t == '[' {
				stack = append(stack, level{object: t == '{', key: t == '{', secret: top.secret || secret})
			} else {
				stack = stack[:len(stack)-1]
			}
			secret = false
			continue
		case string:
			switch {
			case isKey:
				secret = secretKey.MatchString(t)
				if top.secret || !plainKey.MatchString(t) {
					raw = nil
				}
			case top.secret || secret || !mayName.MatchString(t):
				raw = nil
			}
		case json.Number:
			if top.secret || secret {
				raw = nil
			}
		}
		if raw == nil {
			raw = []byte(`"\u0000"`)
		}
		out = append(out, raw...)
		if !isKey {
			secret = false
		}
	}
}
