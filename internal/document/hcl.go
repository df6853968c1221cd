package document

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"gopkg.in/yaml.v3"
)

// maxValue limits the text of a value of HCL in bytes, and maxHeredoc that of a here-document.
const (
	maxValue   = 4096
	maxHeredoc = 64 << 10
)

// maxControls limits the %{if}, %{for} and splats ([*]) of a document in HCL, each of which the
// parser goes through once for each that it is in. A * between numbers counts as well.
const maxControls = 1000

// maxParts limits the parts of a text in HCL: its lines, and each % and $ that is not the beginning of
// something. The parser goes through those that it has for each that comes next.
const maxParts = 4000

// chained reports whether a text in HCL has more than maxNested signs (! or -) in front of one
// another, more than maxControls controls of templates and splats, or a text of more than maxParts parts.
func chained(text []byte, file string) bool {
	tokens, _ := hclsyntax.LexConfig(text, file, hcl.InitialPos)
	signs, controls := 0, 0
	parts := []int{0} // of the texts that are open
	for _, t := range tokens {
		last := &parts[len(parts)-1]
		switch t.Type {
		case hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			parts = append(parts, 0)
		case hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			if len(parts) > 1 {
				parts = parts[:len(parts)-1]
			}
		case hclsyntax.TokenStringLit, hclsyntax.TokenQuotedLit, hclsyntax.TokenTemplateInterp:
			*last++
		}
		switch t.Type {
		case hclsyntax.TokenBang, hclsyntax.TokenMinus:
			signs++
		case hclsyntax.TokenComment, hclsyntax.TokenNewline:
		case hclsyntax.TokenTemplateControl, hclsyntax.TokenStar:
			controls++
			signs = 0
		default:
			signs = 0
		}
		if signs > maxNested || controls > maxControls || *last > maxParts {
			return true
		}
	}
	return false
}

// readHCL reads HCL's native syntax. The blocks of a type are a sequence; each is its body, in
// a mapping for each label. Variables with a default, of bake (`NAME`) and Terraform
// (`var.NAME`), and Terraform's locals have these values.
func readHCL(file string, text []byte) (*yaml.Node, error) {
	if chained(text, file) {
		return nil, errors.New("its values nest too deeply, or have too many parts")
	}
	f, found := hclsyntax.ParseConfig(text, file, hcl.InitialPos)
	if found.HasErrors() {
		line := 1
		if s := found[0].Subject; s != nil {
			line = s.Start.Line
		}
		return nil, fmt.Errorf("line %d: it is no HCL", line)
	}
	body, ok := f.Body.(*hclsyntax.Body)
	if !ok {
		return nil, fmt.Errorf("it is no HCL")
	}
	h := &hclReader{text: text, values: map[string]string{}}
	for _, b := range body.Blocks {
		if b.Type == "variable" && len(b.Labels) == 1 && b.Body.Attributes["default"] != nil {
			if v, ok := h.constant(b.Body.Attributes["default"].Expr); ok {
				h.values[b.Labels[0]], h.values["var."+b.Labels[0]] = v, v
			}
		}
	}
	for _, b := range body.Blocks {
		if b.Type != "locals" {
			continue
		}
		for _, a := range attributes(b.Body) {
			if v, ok := h.constant(a.Expr); ok {
				h.values["local."+a.Name] = v
			}
		}
	}
	return &yaml.Node{Kind: yaml.DocumentNode, Line: 1, Content: []*yaml.Node{h.body(body, 1)}}, nil
}

type hclReader struct {
	text   []byte
	values map[string]string
}

// attributes returns the attributes of a body in the order of the file.
func attributes(b *hclsyntax.Body) []*hclsyntax.Attribute {
	var list []*hclsyntax.Attribute
	for _, a := range b.Attributes {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *hclsyntax.Attribute) int { return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte })
	return list
}

func (h *hclReader) body(b *hclsyntax.Body, line int) *yaml.Node {
	n := mapping(line)
	for _, a := range attributes(b) {
		put(n, scalar(a.Name, a.SrcRange.Start.Line), h.value(a.Expr))
	}
	types := map[string]*yaml.Node{}
	for _, block := range b.Blocks {
		at := block.TypeRange.Start.Line
		list := types[block.Type]
		if list == nil {
			list = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: at}
			types[block.Type] = list
			put(n, scalar(block.Type, at), list)
		}
		value := h.body(block.Body, at)
		for _, label := range slices.Backward(block.Labels) {
			outer := mapping(at)
			put(outer, scalar(label, at), value)
			value = outer
		}
		list.Content = append(list.Content, value)
	}
	return n
}

// value returns the tree of an expression.
func (h *hclReader) value(e hclsyntax.Expression) *yaml.Node {
	line := e.StartRange().Start.Line
	switch e := e.(type) {
	case *hclsyntax.ObjectConsExpr:
		n := mapping(line)
		for _, item := range e.Items {
			key, ok := h.key(item.KeyExpr)
			if !ok {
				key = h.source(item.KeyExpr)
			}
			put(n, scalar(key, item.KeyExpr.StartRange().Start.Line), h.value(item.ValueExpr))
		}
		return n
	case *hclsyntax.TupleConsExpr:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: line}
		for _, item := range e.Exprs {
			n.Content = append(n.Content, h.value(item))
		}
		return n
	case *hclsyntax.ParenthesesExpr:
		return h.value(e.Expression)
	case *hclsyntax.TemplateExpr:
		if r := e.Range(); bytes.HasPrefix(h.text[min(r.Start.Byte, len(h.text)):], []byte("<<")) {
			return h.hereDocument(e)
		}
	case *hclsyntax.FunctionCallExpr:
		if n := h.call(e, line); n != nil {
			return n
		}
	}
	if v, ok := h.constant(e); ok {
		n := scalar(v, line)
		if l, is := e.(*hclsyntax.LiteralValueExpr); is && l.Val.IsNull() {
			n.Tag = "!!null"
		}
		return n
	}
	return scalar("${"+h.source(e)+"}", line)
}

// call returns the tree of a call of Terraform's functions that make one document of their
// arguments, or nil.
func (h *hclReader) call(e *hclsyntax.FunctionCallExpr, line int) *yaml.Node {
	switch {
	case slices.Contains([]string{"jsonencode", "yamlencode", "tolist", "flatten"}, e.Name) && len(e.Args) == 1: // container_definitions
		return h.value(e.Args[0])
	case e.Name == "concat":
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: line}
		for _, a := range e.Args {
			n.Content = append(n.Content, h.value(a)) // lists in a list, which is the same to those who look for keys
		}
		return n
	case e.Name == "merge":
		n := mapping(line)
		for _, a := range e.Args {
			if m := h.value(a); m.Kind == yaml.MappingNode {
				for i := 0; i+1 < len(m.Content); i += 2 {
					put(n, m.Content[i], m.Content[i+1])
				}
			}
		}
		return n
	}
	return nil
}

// hereDocument returns a here-document as YAML has a block of lines. Parts that are not known remain
// as they are written.
func (h *hclReader) hereDocument(e *hclsyntax.TemplateExpr) *yaml.Node {
	var b strings.Builder
	for _, part := range e.Parts {
		v, ok := h.literal(part)
		if !ok {
			v = "${" + h.source(part) + "}"
		}
		if b.Len()+len(v) > maxHeredoc {
			break
		}
		b.WriteString(v)
	}
	n := scalar(b.String(), e.Range().Start.Line)
	n.Style = yaml.LiteralStyle
	return n
}

// literal returns the text of a part of a here-document, which may be longer than a value.
func (h *hclReader) literal(e hclsyntax.Expression) (string, bool) {
	if l, ok := e.(*hclsyntax.LiteralValueExpr); ok && l.Val.Type() == cty.String && l.Val.IsKnown() && !l.Val.IsNull() {
		return l.Val.AsString(), true
	}
	return h.constant(e)
}

// key returns the key of an object: a name stands for itself.
func (h *hclReader) key(e hclsyntax.Expression) (string, bool) {
	if k, ok := e.(*hclsyntax.ObjectConsKeyExpr); ok {
		if name := hcl.ExprAsKeyword(k.Wrapped); name != "" && !k.ForceNonLiteral {
			return name, true
		}
		e = k.Wrapped
	}
	return h.constant(e)
}

// constant returns the text of a literal, of a variable with a known value, or of a template
// of such.
func (h *hclReader) constant(e hclsyntax.Expression) (string, bool) {
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		if e.Val.IsNull() {
			return "", true
		}
		v, err := convert.Convert(e.Val, cty.String)
		if err != nil || !v.IsKnown() || len(v.AsString()) > maxValue {
			return "", false
		}
		return v.AsString(), true
	case *hclsyntax.TemplateWrapExpr:
		return h.constant(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return h.constant(e.Expression)
	case *hclsyntax.ScopeTraversalExpr:
		var names []string
		for _, step := range e.Traversal {
			switch s := step.(type) {
			case hcl.TraverseRoot:
				names = append(names, s.Name)
			case hcl.TraverseAttr:
				names = append(names, s.Name)
			default:
				return "", false
			}
		}
		v, ok := h.values[strings.Join(names, ".")]
		return v, ok
	case *hclsyntax.TemplateExpr:
		var b strings.Builder
		for _, part := range e.Parts {
			v, ok := h.constant(part)
			if !ok || b.Len()+len(v) > maxValue {
				return "", false
			}
			b.WriteString(v)
		}
		return b.String(), true
	}
	return "", false
}

// source returns the text of an expression in one line, cut short.
func (h *hclReader) source(e hclsyntax.Expression) string {
	r := e.Range()
	text := strings.Join(strings.Fields(string(h.text[min(r.Start.Byte, len(h.text)):min(r.End.Byte, len(h.text))])), " ")
	if len(text) > 100 {
		text = strings.ToValidUTF8(text[:100], "") + "…"
	}
	return text
}
