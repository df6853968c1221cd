package pyimport

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

func init() {
	functions("json", map[string]func(*Run, *args) value{
		"loads": func(r *Run, a *args) value {
			s, ok := a.document(0, "s")
			if !ok || len(a.pos) > 1 || len(a.kw) > 1 {
				return unknownf("a value in JSON")
			}
			return r.jsonOf(s)
		},
		"load": func(r *Run, a *args) value {
			s, ok := a.document(0, "fp")
			if !ok || len(a.pos) > 1 || len(a.kw) > 1 {
				return unknownf("a value in JSON")
			}
			return r.jsonOf(s)
		},
	})
}

// document returns an argument that is a text, or an open file whose text is known.
func (a *args) document(i int, name string) (string, bool) {
	v, _ := a.get(i, name)
	if f, ok := v.(*fileObject); ok {
		v = f.text
	}
	if t, ok := v.(*settingsText); ok {
		return t.text, true
	}
	s, ok := v.(string)
	return s, ok
}

// jsonOf returns the value of a text in JSON.
func (r *Run) jsonOf(s string) value {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	v, err := r.fromJSON(d, 0)
	if _, end := d.Token(); err != nil || !errors.Is(end, io.EOF) {
		return unknownf("a value in JSON")
	}
	return v
}

// maxJSON limits the depth of a value in JSON.
const maxJSON = 32

var errJSON = errors.New("is not known")

// fromJSON returns the next value of a decoder as json.loads does. A number that is no 64-bit
// integer is not known.
func (r *Run) fromJSON(d *json.Decoder, depth int) (value, error) {
	r.spend(1)
	t, err := d.Token()
	if err != nil || depth > maxJSON || r.stop != "" {
		return nil, errors.Join(err, errJSON)
	}
	switch t := t.(type) {
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n, nil
		}
		return unknownf("a number"), nil
	case json.Delim:
		if t == '{' {
			return r.dictFromJSON(d, depth)
		}
		l := &list{}
		for d.More() {
			v, err := r.fromJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			l.items = append(l.items, v)
		}
		_, err := d.Token()
		return r.own(l), err
	}
	if t == pyenv.LeftOut {
		return unknownf("a text of settings"), nil
	}
	return t, nil // a text, true, false or null
}

func (r *Run) dictFromJSON(d *json.Decoder, depth int) (value, error) {
	dict := r.newDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := r.fromJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		if key == pyenv.LeftOut {
			dict.open = true
			continue
		}
		r.setKey(dict, key, v)
	}
	_, err := d.Token()
	return dict, err
}
