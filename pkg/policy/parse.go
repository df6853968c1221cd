package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/glob"
	"github.com/imgcheck/imgcheck/internal/nearest"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// maxFile limits the file, in bytes.
const maxFile = 1 << 20

// maxTargets limits the GPUs of the file, or of an image of it.
const maxTargets = 1000

func read(name string, r io.Reader) (*Policy, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	return Parse(name, b)
}

// Parse reads the text of a file. An error begins with name and the line, and suggests
// the key that was probably meant.
func Parse(name string, text []byte) (*Policy, error) {
	p := &Policy{File: name}
	if err := p.parse(text); err != nil {
		return nil, err
	}
	return p, nil
}

// parse reads the text of the policy's file.
func (p *Policy) parse(text []byte) error {
	name := p.File
	if len(text) > maxFile {
		return fmt.Errorf("%s: larger than %d KiB", name, maxFile>>10)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return yamlError(name, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one document", name)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	if root.Kind == yaml.ScalarNode { // a file that extends names may be a secret: its text is not shown
		return fmt.Errorf("%s:%d: the file: want keys and values, not a text", name, root.Line)
	}
	if err := p.top(root); err != nil {
		var at *lineError
		if errors.As(err, &at) {
			return fmt.Errorf("%s:%d: %s", name, at.line, at.text)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// yamlError moves the line number of "yaml: line 3: …" to where other errors have it.
func yamlError(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, what, ok := strings.Cut(rest, ": "); ok {
			if _, err := strconv.Atoi(line); err == nil {
				return fmt.Errorf("%s:%s: %s", name, line, what)
			}
		}
	}
	return fmt.Errorf("%s: %s", name, text)
}

type lineError struct {
	line int
	text string
}

func (e *lineError) Error() string { return e.text }

func bad(n *yaml.Node, format string, args ...any) error {
	return &lineError{n.Line, fmt.Sprintf(format, args...)}
}

// key is a key of a mapping and the function that reads its value.
type key struct {
	name string
	read func(*yaml.Node) error
}

func (p *Policy) top(root *yaml.Node) error {
	dir := filepath.Dir(p.File)
	return mapping(root, "the file", []key{
		{"extends", func(n *yaml.Node) error {
			if n.Kind == yaml.ScalarNode {
				return p.addExtended(n)
			}
			return each(n, "extends", p.addExtended)
		}},
		{"images", func(n *yaml.Node) error { return each(n, "images", p.image) }},
		{"targets", func(n *yaml.Node) error { return machines(n, &p.Targets) }},
		{"fail-on", func(n *yaml.Node) error {
			return severity(n, &p.FailOn, append(slices.Clone(packs.Severities), report.Never))
		}},
		{"severities", p.severities},
		{"rules", func(n *yaml.Node) error { return cmp.Or(p.beside(n, "rules"), relative(n, dir, &p.Rules)) }},
		{"ignore", func(n *yaml.Node) error { return each(n, "ignore", p.addIgnore) }},
		{"from", func(n *yaml.Node) error {
			return each(n, "from", func(n *yaml.Node) error {
				var s string
				err := text(n, &s)
				at, ok := strings.CutPrefix(s, "dir:")
				if ok && err == nil {
					err = p.beside(n, "from "+s)
				}
				if ok && !filepath.IsAbs(at) {
					s = "dir:" + filepath.Join(dir, at)
				}
				p.From = append(p.From, s)
				return err
			})
		}},
		{"indexes", func(n *yaml.Node) error { return p.readIndexes(n, &p.Indexes) }},
		{"baseline", func(n *yaml.Node) error { return cmp.Or(p.beside(n, "baseline"), relative(n, dir, &p.Baseline)) }},
	})
}

func (p *Policy) image(n *yaml.Node) error {
	var im Image
	if n.Kind == yaml.ScalarNode {
		err := text(n, &im.Ref)
		p.Images = append(p.Images, im)
		return err
	}
	err := mapping(n, "an image", []key{
		{"ref", func(n *yaml.Node) error { return text(n, &im.Ref) }},
		{"platform", func(n *yaml.Node) error { return text(n, &im.Platform) }},
		{"targets", func(n *yaml.Node) error { return machines(n, &im.Targets) }},
		{"dockerfile", func(n *yaml.Node) error {
			return cmp.Or(p.beside(n, "dockerfile"), relative(n, filepath.Dir(p.File), &im.Dockerfile))
		}},
		{"indexes", func(n *yaml.Node) error { return p.readIndexes(n, &im.Indexes) }},
	})
	if err == nil && im.Ref == "" {
		err = bad(n, "an image needs a ref")
	}
	p.Images = append(p.Images, im)
	return err
}

// readIndexes reads where indexes of layers come from, and the keys of those who may sign them.
func (p *Policy) readIndexes(n *yaml.Node, to *Indexes) error {
	err := mapping(n, "indexes", []key{
		{"from", func(n *yaml.Node) error {
			err := text(n, &to.From)
			if err == nil && to.From != "referrers" && to.From != NoIndexes && !strings.Contains(to.From, "/") {
				err = bad(n, "indexes: from %q: say referrers, a repository with its registry, like ghcr.io/org/indexes, or none", to.From)
			}
			return err
		}},
		{"keys", func(n *yaml.Node) error {
			return each(n, "keys", func(n *yaml.Node) error {
				k := Key{File: p.File, Line: n.Line}
				err := text(n, &k.Text)
				if err == nil && !strings.Contains(k.Text, "-----BEGIN") {
					k.Text = ""
					err = cmp.Or(p.beside(n, "keys"), relative(n, filepath.Dir(p.File), &k.Path))
				}
				to.Keys = append(to.Keys, k)
				return err
			})
		}},
	})
	if err == nil && to.From == "" && len(to.Keys) == 0 {
		err = bad(n, "indexes: want from, keys or both")
	}
	return err
}

// machines reads targets: GPU, GPU@DRIVER or @DRIVER each.
func machines(n *yaml.Node, to *[]targets.Machine) error {
	return each(n, "targets", func(n *yaml.Node) error {
		var s string
		if err := text(n, &s); err != nil {
			return err
		}
		if len(*to) == maxTargets {
			return bad(n, "there are more than %d targets: each finding names those that it concerns", maxTargets)
		}
		m, err := targets.Known().ParseMachine(s)
		if err != nil {
			return bad(n, "%v", err)
		}
		*to = append(*to, m)
		return nil
	})
}

func (p *Policy) severities(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return bad(n, "severities: want rules with their severities, like \"missing-interpreter: error\"")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		s := Severity{File: p.File, Line: n.Content[i].Line}
		if err := text(n.Content[i], &s.Rule); err != nil {
			return err
		}
		if seen[s.Rule] {
			return bad(n.Content[i], "the rule %q is listed twice", s.Rule)
		}
		seen[s.Rule] = true
		if err := severity(n.Content[i+1], &s.Severity, packs.Severities); err != nil {
			return err
		}
		p.Severities = append(p.Severities, s)
	}
	return nil
}

func (p *Policy) addIgnore(n *yaml.Node) error {
	g := Ignore{File: p.File, Line: n.Line}
	err := mapping(n, "an ignore", []key{
		{"id", func(n *yaml.Node) error { return text(n, &g.Rule) }},
		{"path", func(n *yaml.Node) error { return pattern(n, &g.Path) }},
		{"image", func(n *yaml.Node) error { return pattern(n, &g.Image) }},
		{"library", func(n *yaml.Node) error { return pattern(n, &g.Library) }},
		{"reason", func(n *yaml.Node) error { return text(n, &g.Reason) }},
		{"expires", func(n *yaml.Node) error { return date(n, &g.Expires) }},
	})
	switch {
	case err != nil:
		return err
	case g.Rule == "":
		return bad(n, "an ignore needs an id: the rule ID that a report shows in brackets")
	case g.Reason == "":
		return bad(n, "the ignore of %s needs a reason", g.Rule)
	}
	p.Ignores = append(p.Ignores, g)
	return nil
}

// named matches keys as a policy might have them.
var named = regexp.MustCompile(`^[A-Za-z_-]{0,24}$`)

// mapping reads the keys of a mapping.
func mapping(n *yaml.Node, what string, keys []key) error {
	if n.Kind != yaml.MappingNode {
		return bad(n, "%s: want keys and values, not %s", what, kind(n))
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		at := slices.Index(names, name)
		switch {
		case at < 0:
			hint := nearest.Hint(name, names)
			if hint == "" {
				hint = ": there are " + strings.Join(names, ", ")
			}
			if !named.MatchString(name) { // of a file that is no policy, but a secret
				return bad(n.Content[i], "%s has an unknown key, which is not shown here%s", what, hint)
			}
			return bad(n.Content[i], "%s has no key %q%s", what, name, hint)
		case seen[name]:
			return bad(n.Content[i], "%s is set twice", name)
		}
		seen[name] = true
		if n.Content[i+1].Tag == "!!null" {
			continue // "images:" with nothing below it
		}
		if err := keys[at].read(n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func each(n *yaml.Node, what string, read func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return bad(n, "%s: want a list, not %s", what, kind(n))
	}
	for _, c := range n.Content {
		if err := read(c); err != nil {
			return err
		}
	}
	return nil
}

func text(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "" {
		return bad(n, "want text, not %s", kind(n))
	}
	*to = n.Value
	return nil
}

func relative(n *yaml.Node, dir string, to *string) error {
	if err := text(n, to); err != nil {
		return err
	}
	if !filepath.IsAbs(*to) {
		*to = filepath.Join(dir, *to)
	}
	return nil
}

func pattern(n *yaml.Node, to *string) error {
	if err := text(n, to); err != nil {
		return err
	}
	if err := glob.Check(*to); err != nil {
		return bad(n, "%q %v", *to, err)
	}
	return nil
}

func severity(n *yaml.Node, to *packs.Severity, of []packs.Severity) error {
	var s string
	if err := text(n, &s); err != nil {
		return err
	}
	if !slices.Contains(of, packs.Severity(s)) {
		names := make([]string, len(of))
		for i, o := range of {
			names[i] = string(o)
		}
		last := len(names) - 1
		return bad(n, "there is no severity %q: say %s or %s", s, strings.Join(names[:last], ", "), names[last])
	}
	*to = packs.Severity(s)
	return nil
}

func date(n *yaml.Node, to *string) error {
	if err := text(n, to); err != nil {
		return err
	}
	if _, err := time.Parse(time.DateOnly, *to); err != nil {
		return bad(n, "%q is not a date: write it like 2026-12-31", *to)
	}
	return nil
}

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if strings.TrimSpace(n.Value) == "" {
		return "nothing"
	}
	return strconv.Quote(n.Value)
}
