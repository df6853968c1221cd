package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/plain/plaintest"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// FuzzHostile puts a text into every field of a document that an image, a registry or a
// rule pack may have written. It states that no format has a control character but line
// breaks and the report's own colours, a line that a CI system obeys but the report's own
// annotations, or a line that the text began.
func FuzzHostile(f *testing.F) {
	for _, s := range plaintest.Poison {
		f.Add(s, s)
	}
	f.Add("lib::x ::error:: y.so", "#")
	f.Add("lib`::x ::error:: y.so", "#") // a part in code
	f.Add(":", " ::add-mask::x")         // a message and the colon behind it make a command
	f.Fuzz(func(t *testing.T, a, b string) {
		if !plaintest.May(a) || !plaintest.May(b) {
			return
		}
		d := poisoned(a, b)
		for _, all := range []bool{false, true} {
			for _, color := range []bool{false, true} {
				o := report.Options{All: all, Color: color, Version: "1.2.3"}
				plaintest.Lawful(t, "text", string(render(t, "text", d, o)), color)
				wide := o
				wide.Width = 40
				plaintest.Obeyed(t, "text of 40 columns", string(render(t, "text", d, wide)), color)
				var plan bytes.Buffer
				if err := report.Plan(&plan, d, o); err != nil {
					t.Fatal(err)
				}
				plaintest.Lawful(t, "plan", plan.String(), color)
			}
		}
		for _, format := range report.Names {
			out := string(render(t, format, d, report.Options{All: true}))
			if format != "github" {
				plaintest.Lawful(t, format, out, false)
			}
			for _, s := range texts(t, format, out) {
				plaintest.Lawful(t, format+", decoded", s, false)
			}
		}
	})
}

// texts returns the texts that readers of a format show.
func texts(t *testing.T, format, out string) []string {
	switch format {
	case "github":
		return annotations(t, out)
	case "junit":
		return xmlTexts(t, out)
	case "html":
		return htmlTexts(t, out)
	case "text", "markdown", "json": // JSON keeps the texts of the image
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return jsonTexts(v)
}

// annotations returns the titles and messages of workflow commands as the runner decodes
// them. Each must be a line of its own.
func annotations(t *testing.T, out string) (list []string) {
	command := regexp.MustCompile(`^::(error|warning) (?:file=([^:,\r\n]*),line=\d+,endLine=\d+,)?title=([^:,\r\n]*)::(.*)$`)
	decode := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
	for line := range strings.Lines(out) {
		m := command.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Errorf("github: the runner does not take %q for an annotation", line)
			continue
		}
		plaintest.Obeyed(t, "github", m[4], false)
		list = append(list, decode.Replace(m[2]), decode.Replace(m[3]), decode.Replace(m[4]))
	}
	return list
}

func xmlTexts(t *testing.T, out string) (list []string) {
	d := xml.NewDecoder(strings.NewReader(out))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("junit: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			for _, a := range token.Attr {
				if list = append(list, a.Value); strings.Contains(a.Value, "\n") {
					t.Errorf("junit: %s has lines: %q", a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			list = append(list, string(token))
		}
	}
}

func jsonTexts(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			list = append(list, jsonTexts(x)...)
		}
	case map[string]any:
		for key, x := range v {
			if key != "rules" { // rules come from the packs, with lines of their own
				list = append(list, jsonTexts(x)...)
			}
		}
	}
	return list
}

// poisoned returns a document with a text in every field: a in those that the plan is
// matched by, and b after it elsewhere.
func poisoned(a, b string) *report.Document {
	d := new(report.Document)
	severities := slices.Clone(packs.Severities)
	var fill func(v reflect.Value, field string)
	fill = func(v reflect.Value, field string) {
		switch v.Kind() {
		case reflect.String:
			switch {
			case v.Type() == reflect.TypeFor[packs.Severity]():
				v.SetString(string(severities[0]))
				severities = append(severities[1:], severities[0])
			case field == "Rule" || field == "ID":
				v.SetString("a-rule") // the readers of packs and reports accept no other form
			case field == "Message":
				v.SetString(a)
			default:
				v.SetString(a + b)
			}
		case reflect.Uint32:
			v.SetUint(1)
		case reflect.Int, reflect.Int64:
			v.SetInt(1)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), field)
		case reflect.Slice:
			n := 2
			if v.Type() == reflect.TypeFor[[]lint.Finding]() {
				n = len(packs.Severities)
			}
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range v.Len() {
				fill(v.Index(i), field)
			}
		case reflect.Map:
			value := reflect.New(v.Type().Elem()).Elem()
			fill(value, field)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(a+b).Convert(v.Type().Key()), value)
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					fill(v.Field(i), v.Type().Field(i).Name)
				}
			}
		}
	}
	fill(reflect.ValueOf(d).Elem(), "")
	return d.With(d.Findings)
}

// TestPoisoned checks that poisoned fills every kind of field, because FuzzHostile does
// not look at the others.
func TestPoisoned(t *testing.T) {
	var empty func(v reflect.Value, at string)
	empty = func(v reflect.Value, at string) {
		switch v.Kind() {
		case reflect.Pointer:
			empty(v.Elem(), at)
		case reflect.Slice:
			empty(v.Index(0), at)
		case reflect.Map:
			if v.Len() == 0 {
				t.Errorf("%s is not filled", at)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() {
					empty(v.Field(i), at+"."+f.Name)
				}
			}
		default:
			if v.IsZero() && at != "Document.Problems.Findings" { // the first finding's index is 0
				t.Errorf("%s is not filled", at)
			}
		}
	}
	empty(reflect.ValueOf(poisoned("a", "b")), "Document")
}
