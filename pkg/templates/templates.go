// Package templates writes reports by templates of users: Go's text/template over the JSON of
// several images, docs/schema/reports-1.json, also for one.
//
// Beside Go's own functions a template has those of slim-sprig that give the same result for the
// same input, and one that quotes the fields of CSV. A field that no report has is an error when the template is read; one that
// a report leaves out is empty.
//
// The package knows neither images nor rules. A template is the user's own and is trusted; the
// texts of a report are not. The text of a template, its values and its steps are bounded.
package templates

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	sprig "github.com/go-task/slim-sprig/v3"

	"github.com/imgcheck/imgcheck/internal/nearest"
	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/report"
)

//go:embed examples/*.tmpl
var examples embed.FS

// Names returns the names of the templates that imgcheck brings.
func Names() []string {
	files, _ := examples.ReadDir("examples") // cannot fail: it is embedded
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".tmpl"))
	}
	return names
}

// Example returns the text of a template that imgcheck brings.
func Example(name string) (string, error) {
	text, err := examples.ReadFile(path.Join("examples", name+".tmpl"))
	if err != nil {
		return "", fmt.Errorf("there is no template @%s: imgcheck has @%s", name, strings.Join(Names(), ", @"))
	}
	return string(text), nil
}

// Template is a template that was checked.
type Template struct {
	t   *template.Template
	run *meter // of Write
}

// Parse reads a template. Its error is one line with the name and the line of the mistake.
func Parse(name, text string) (*Template, error) {
	p := &Template{}
	t, err := template.New(name).Funcs(bounded(functions(), p)).Parse(text)
	if err != nil {
		return nil, failed(err)
	}
	c := checker{known: fields, given: map[string]bool{}}
	for _, s := range quoted.FindAllString(text, -1) {
		c.given[strings.Trim(s, "\"`")] = true
	}
	for _, each := range t.Templates() {
		if each.Tree != nil {
			c.walk(each.Tree, each.Root)
			stepping(each.Root)
			step(each.Root)
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	p.t = t
	return p, nil
}

// quoted matches the texts in a template that may be keys of dictionaries that it makes.
var quoted = regexp.MustCompile("\"[^\"\\n]*\"|`[^`]*`")

// functions returns the functions of templates.
func functions() template.FuncMap {
	all := sprig.HermeticTxtFuncMap()
	for _, name := range []string{"ago", "must_date_modify", "mustDateModify", "randInt", "getHostByName"} {
		delete(all, name) // depend on the time, on chance or on the network
	}
	all["csv"] = cell
	return all
}

// cell returns a value as a field of CSV (RFC 4180). Spreadsheets take a text that begins with one
// of =+-@ for a formula, so that an apostrophe goes before it
// (https://owasp.org/www-community/attacks/CSV_Injection).
func cell(v any) string {
	s := fmt.Sprint(v)
	if v == nil {
		s = ""
	}
	if _, text := v.(string); text && strings.ContainsAny(s[:min(1, len(s))], "=+-@\t\r") {
		s = "'" + s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// Write writes the images of a set. An error is one line with the template's name and line. It
// must not be called twice at once.
func (t *Template) Write(w io.Writer, set *report.Set) error {
	var text bytes.Buffer
	if err := report.SetJSON(&text, set, report.Options{}); err != nil {
		return err
	}
	var values any
	d := json.NewDecoder(&text)
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		return err
	}
	t.run = &meter{}
	err := t.t.Execute(t.run, numbered(values))
	if at := (template.ExecError{}); err != nil && !errors.As(err, &at) { // of the writer: without the template's name
		err = fmt.Errorf("template: %s: %w", t.t.Name(), err)
	}
	if err != nil {
		return failed(err)
	}
	// text/template writes this for a field that is left out
	_, err = plain.NewWriter(w, false).Write(bytes.ReplaceAll(t.run.out.Bytes(), []byte("<no value>"), nil))
	return err
}

// numbered returns values with int64 or float64 in place of numbers, so that templates can
// compare them.
func numbered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbered(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbered(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// failed returns an error of text/template on one line.
func failed(err error) error {
	return fmt.Errorf("%s", strings.Join(strings.Fields(err.Error()), " "))
}

// checker looks for fields that no report has.
type checker struct {
	known []string        // sorted
	given map[string]bool // texts of the template
	err   error           // the first
}

func (c *checker) field(t *parse.Tree, n parse.Node, names []string) {
	for _, name := range names {
		if _, ok := slices.BinarySearch(c.known, name); ok || c.given[name] || c.err != nil {
			continue
		}
		at, _ := t.ErrorContext(n)
		c.err = fmt.Errorf("template: %s: reports have no field .%s%s", at, name, nearest.Hint(name, c.known))
	}
}

// walk checks a node and those below it. It does so by reflection: the types of nodes have no
// method for their parts.
func (c *checker) walk(t *parse.Tree, n parse.Node) {
	switch n := n.(type) {
	case *parse.FieldNode:
		c.field(t, n, n.Ident)
		return
	case *parse.VariableNode:
		c.field(t, n, n.Ident[1:])
		return
	case *parse.ChainNode:
		c.field(t, n, n.Field)
		c.walk(t, n.Node)
		return
	}
	v := reflect.ValueOf(n)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return
	}
	c.parts(t, v.Elem())
}

// parts walks the exported fields of a node that are nodes or lists of nodes.
func (c *checker) parts(t *parse.Tree, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case !v.Type().Field(i).IsExported():
		case f.Kind() == reflect.Struct:
			c.parts(t, f) // BranchNode
		case f.Kind() == reflect.Slice:
			for k := range f.Len() {
				if n, ok := f.Index(k).Interface().(parse.Node); ok {
					c.walk(t, n)
				}
			}
		case f.Kind() == reflect.Pointer || f.Kind() == reflect.Interface:
			if n, ok := f.Interface().(parse.Node); ok && !f.IsNil() {
				c.walk(t, n)
			}
		}
	}
}

// fields are the names of all fields of the JSON, sorted.
var fields = func() []string {
	names := map[string]bool{}
	collect(reflect.TypeFor[report.Set](), names, map[reflect.Type]bool{})
	var list []string
	for n := range names {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}()

// collect adds the names of the JSON of a type.
func collect(t reflect.Type, names map[string]bool, seen map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		collect(t.Elem(), names, seen)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() && !f.Anonymous || name == "-" {
				continue
			}
			if name != "" {
				names[name] = true
			} else if !f.Anonymous {
				names[f.Name] = true
			}
			collect(f.Type, names, seen)
		}
	}
}
