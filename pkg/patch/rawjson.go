package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Documents are edited as bytes: everything but the edit stays, with its spaces, its order
// and its unknown fields. Each function below returns a new document that differs from the
// old one in one place.
//
// An object that is edited, or that contains one, must not have a key twice. Readers use the
// first or the last value, and Go's readers accept Layers as layers: a tool could check
// another image than the one that runs.

// member is a key of an object, with the position of its value in the document.
type member struct {
	key        string
	start, end int // of the value
	from       int // of the key
}

// errNoObject and errNoArray are the errors of a value of another type than is edited.
var (
	errNoObject = errors.New("is no JSON object")
	errNoArray  = errors.New("is no JSON array")
)

// members returns the members of the object doc[start:end].
func members(doc []byte, start, end int) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(doc[start:end]))
	if t, err := dec.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, errNoObject
	}
	var list []member
	for {
		m := member{from: skipComma(doc, start+int(dec.InputOffset()))}
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return list, nil // the closing brace
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		m.key, m.end = key, start+int(dec.InputOffset())
		m.start = m.end - len(value)
		list = append(list, m)
	}
}

// elements returns the elements of the array doc[start:end], as members without keys.
func elements(doc []byte, start, end int) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(doc[start:end]))
	if t, err := dec.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('[') {
		return nil, errNoArray
	}
	var list []member
	for dec.More() {
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		m := member{end: start + int(dec.InputOffset())}
		m.start = m.end - len(value)
		m.from = m.start
		list = append(list, m)
	}
	_, err := dec.Token()
	return list, err
}

func skipComma(doc []byte, i int) int {
	for i < len(doc) && strings.IndexByte(" \t\r\n,", doc[i]) >= 0 {
		i++
	}
	return i
}

// lookup returns the member with a key. It returns an error if the key occurs twice, or in
// other letters.
func lookup(list []member, key string) (m member, ok bool, err error) {
	for _, x := range list {
		switch {
		case !strings.EqualFold(x.key, key):
		case ok:
			return m, false, fmt.Errorf("has %q twice", key)
		default:
			m, ok = x, true
		}
	}
	if ok && m.key != key {
		return m, false, fmt.Errorf("has %q where %q is meant", m.key, key)
	}
	return m, ok, nil
}

// splice returns the document with doc[start:end] replaced.
func splice(doc []byte, start, end int, by ...string) []byte {
	out := make([]byte, 0, len(doc)+64)
	out = append(out, doc[:start]...)
	for _, s := range by {
		out = append(out, s...)
	}
	return append(out, doc[end:]...)
}

// bounds returns the position of the document's value.
func bounds(doc []byte) (start, end int, err error) {
	if !json.Valid(doc) {
		return 0, 0, errors.New("is no JSON")
	}
	start = len(doc) - len(bytes.TrimLeft(doc, " \t\r\n"))
	return start, len(bytes.TrimRight(doc, " \t\r\n")), nil
}

func isNull(doc []byte, m member) bool { return string(doc[m.start:m.end]) == "null" }

// at finds the value at a path of keys; depth is then len(path). Otherwise list is the
// object that lacks path[depth]. If a value on the way is null, m is that value.
func at(doc []byte, path []string) (m member, depth int, list []member, err error) {
	m.start, m.end, err = bounds(doc)
	if err != nil {
		return m, 0, nil, err
	}
	for i, key := range path {
		object := m
		if list, err = members(doc, m.start, m.end); err == nil {
			var ok bool
			if m, ok, err = lookup(list, key); err == nil && !ok {
				return object, i, list, nil
			}
		}
		if err != nil {
			return m, i, nil, inPath(path[:i], err)
		}
		if isNull(doc, m) && i < len(path)-1 {
			return m, i + 1, nil, nil
		}
	}
	return m, len(path), nil, nil
}

func inPath(path []string, err error) error {
	if len(path) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(path, "."), err)
}

// set sets the value at a path of keys. It makes the objects that are missing.
func set(doc []byte, value string, path ...string) ([]byte, error) {
	m, depth, list, err := at(doc, path)
	if err != nil {
		return nil, err
	}
	if depth == len(path) {
		return splice(doc, m.start, m.end, value), nil
	}
	for i := len(path) - 1; i > depth; i-- {
		value = "{" + quote(path[i]) + ":" + value + "}"
	}
	value = quote(path[depth]) + ":" + value
	switch {
	case isNull(doc, m):
		return splice(doc, m.start, m.end, "{", value, "}"), nil
	case len(list) == 0:
		return splice(doc, m.start+1, m.start+1, value), nil
	}
	last := list[len(list)-1].end
	return splice(doc, last, last, ",", value), nil
}

// add appends an element to the array at a path. It makes an array that is missing.
func add(doc []byte, value string, path ...string) ([]byte, error) {
	m, depth, _, err := at(doc, path)
	if err != nil {
		return nil, err
	}
	if depth < len(path) || isNull(doc, m) {
		return set(doc, "["+value+"]", path...)
	}
	list, err := elements(doc, m.start, m.end)
	if err != nil {
		return nil, inPath(path, err)
	}
	if len(list) == 0 {
		return splice(doc, m.start+1, m.start+1, value), nil
	}
	last := list[len(list)-1].end
	return splice(doc, last, last, ",", value), nil
}

// drop removes the value at a path, with its key, if there is one.
func drop(doc []byte, path ...string) ([]byte, error) {
	m, depth, _, err := at(doc, path)
	if err != nil || depth < len(path) {
		return doc, err
	}
	parent, _, _, err := at(doc, path[:len(path)-1])
	if err != nil {
		return nil, err
	}
	list, err := members(doc, parent.start, parent.end)
	if err != nil {
		return nil, err
	}
	return cut(doc, list, m), nil
}

// dropElement removes element i of the array at a path.
func dropElement(doc []byte, i int, path ...string) ([]byte, error) {
	m, depth, _, err := at(doc, path)
	if err != nil || depth < len(path) {
		return doc, err
	}
	list, err := elements(doc, m.start, m.end)
	if err != nil {
		return nil, inPath(path, err)
	}
	return cut(doc, list, list[i]), nil
}

// cut removes one member of a list, with the comma before it, or after it for the first.
func cut(doc []byte, list []member, m member) []byte {
	for i, x := range list {
		switch {
		case x.from != m.from:
		case i > 0:
			return splice(doc, list[i-1].end, m.end)
		case len(list) > 1:
			return splice(doc, m.from, list[1].from)
		}
	}
	return splice(doc, m.from, m.end)
}

// setElement replaces element i of the array at a path.
func setElement(doc []byte, i int, value string, path ...string) ([]byte, error) {
	m, _, _, err := at(doc, path)
	if err != nil {
		return nil, err
	}
	list, err := elements(doc, m.start, m.end)
	if err != nil {
		return nil, inPath(path, err)
	}
	return splice(doc, list[i].start, list[i].end, value), nil
}

// text returns the string at a path, or "" if there is none.
func text(doc []byte, path ...string) (string, error) {
	m, depth, _, err := at(doc, path)
	if err != nil || depth < len(path) || isNull(doc, m) {
		return "", err
	}
	var s string
	if err := json.Unmarshal(doc[m.start:m.end], &s); err != nil {
		return "", inPath(path, errors.New("is no JSON string"))
	}
	return s, nil
}

// array returns the raw elements of the array at a path, none if there is no array.
func array(doc []byte, path ...string) ([]json.RawMessage, error) {
	m, depth, _, err := at(doc, path)
	if err != nil || depth < len(path) || isNull(doc, m) {
		return nil, err
	}
	list, err := elements(doc, m.start, m.end)
	if err != nil {
		return nil, inPath(path, err)
	}
	out := make([]json.RawMessage, len(list))
	for i, x := range list {
		out[i] = doc[x.start:x.end]
	}
	return out, nil
}

// quote returns a string as JSON. Like registries' tools, and unlike encoding/json by
// default, it leaves <, > and & as they are.
func quote(s string) string { return encode(s) }

// encode returns v as compact JSON. It panics if v cannot be encoded.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings, numbers and structs of them
	}
	return strings.TrimSuffix(b.String(), "\n")
}
