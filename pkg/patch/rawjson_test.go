package patch

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEdits(t *testing.T) {
	do := func(b []byte, err error) string {
		if err != nil {
			return "error: " + err.Error()
		}
		return string(b)
	}
	tests := []struct{ got, want string }{
		{do(set([]byte(`{"a": 1 , "b":[2]}`), "7", "a")), `{"a": 7 , "b":[2]}`},
		{do(set([]byte(` {} `), "7", "a", "b")), ` {"a":{"b":7}} `},
		{do(set([]byte(`{ }`), "7", "a")), `{"a":7 }`},
		{do(set([]byte("{\n \"a\": {\n  \"x\": 1\n }\n}\n"), "7", "a", "b")), "{\n \"a\": {\n  \"x\": 1,\"b\":7\n }\n}\n"},
		{do(set([]byte(`{"a":null}`), "7", "a", "b")), `{"a":{"b":7}}`},
		{do(set([]byte(`{"a":null}`), "7", "a")), `{"a":7}`},
		{do(set([]byte(`{"a":[]}`), "7", "a", "b")), "error: a: is no JSON object"},
		{do(set([]byte(`{"a":1,"a":2}`), "7", "a")), `error: has "a" twice`},
		{do(set([]byte(`{"a":1,"A":2}`), "7", "a")), `error: has "a" twice`},
		{do(set([]byte(`{"A":2}`), "7", "a")), `error: has "A" where "a" is meant`},
		{do(set([]byte(`{"x":{"b":1,"b":1},"a":1}`), "7", "a")), `{"x":{"b":1,"b":1},"a":7}`},
		{do(set([]byte(`{"a":1`), "7", "a")), "error: is no JSON"},
		{do(set([]byte(`[]`), "7", "a")), "error: is no JSON object"},
		{do(add([]byte(`{"a":[1, 2 ]}`), "7", "a")), `{"a":[1, 2,7 ]}`},
		{do(add([]byte(`{"a":[ ]}`), "7", "a")), `{"a":[7 ]}`},
		{do(add([]byte(`{"a":null}`), "7", "a")), `{"a":[7]}`},
		{do(add([]byte(`{}`), "7", "a")), `{"a":[7]}`},
		{do(add([]byte(`{"a":"s"}`), "7", "a")), "error: a: is no JSON array"},
		{do(drop([]byte(`{"a":1,"b":2}`), "a")), `{"b":2}`},
		{do(drop([]byte(`{"a":1 , "b":2}`), "b")), `{"a":1}`},
		{do(drop([]byte(`{"x": {"a":1} }`), "x", "a")), `{"x": {} }`},
		{do(drop([]byte(`{"x": {"a":1} }`), "x", "b")), `{"x": {"a":1} }`},
		{do(dropElement([]byte(`{"a":[1, 2, 3]}`), 1, "a")), `{"a":[1, 3]}`},
		{do(setElement([]byte(`{"a":[1, 2, 3]}`), 1, `"x"`, "a")), `{"a":[1, "x", 3]}`},
	}
	for i, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%d: got %s, want %s", i, tt.got, tt.want)
		}
	}
}

// same returns the number of bytes that two documents share at their ends.
func same(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	k := 0
	for k < len(a)-n && k < len(b)-n && a[len(a)-1-k] == b[len(b)-1-k] {
		k++
	}
	return n + k
}

func parsed(t *testing.T, doc []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return v
}

// An edit changes its value and no other byte, and what comes out means what
// went in but for the edit.
func FuzzEdit(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":{"b":[1,2]}}`, "{\n\t\"x\" : 1.50,\n\t\"a\" : { \"y\": \"\\u00e9<>\" , \"b\": [ ] }\n}", `{"a":null,"z":1}`,
		`{"a":{"b":null}}`, `{"A":1}`, `{"a":{"b":[{"b":1}],"c":2},"a ":3}`, `[]`, `{"a":"b"}`, `{"\u0061":{"b":[3]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if out, err := set(doc, `"new"`, "a", "b"); err == nil {
			check(t, doc, out, func(v map[string]any) {
				inner, _ := v["a"].(map[string]any)
				if inner == nil {
					inner = map[string]any{}
				}
				inner["b"] = "new"
				v["a"] = inner
			})
			again, err := set(out, `"new"`, "a", "b")
			if err != nil || !bytes.Equal(again, out) {
				t.Errorf("%s: again: %s, %v", doc, again, err)
			}
		}
		if out, err := add(doc, `"new"`, "a", "b"); err == nil {
			check(t, doc, out, func(v map[string]any) {
				inner, _ := v["a"].(map[string]any)
				if inner == nil {
					inner = map[string]any{}
				}
				list, _ := inner["b"].([]any)
				inner["b"] = append(list, "new")
				v["a"] = inner
			})
		}
		if out, err := drop(doc, "a", "b"); err == nil {
			check(t, doc, out, func(v map[string]any) {
				if inner, ok := v["a"].(map[string]any); ok {
					delete(inner, "b")
				}
			})
		}
		// A key that set has appended can be dropped again.
		if out, err := set(doc, "1", "a", "new key"); err == nil && !strings.Contains(strings.ToLower(string(doc)), "new") {
			back, err := drop(out, "a", "new key")
			if err != nil {
				t.Fatal(err)
			}
			if m, depth, _, _ := at(doc, []string{"a"}); depth == 1 && !isNull(doc, m) && !bytes.Equal(back, doc) {
				t.Errorf("%s: put in and taken out: %s", doc, back)
			}
		}
	})
}

func check(t *testing.T, doc, out []byte, edit func(map[string]any)) {
	t.Helper()
	old := 0
	if m, depth, _, err := at(doc, []string{"a", "b"}); err == nil && depth == 2 {
		old = m.end - m.from + 2 // with its comma and the spaces around it
		old += len(doc) - len(bytes.ReplaceAll(bytes.ReplaceAll(bytes.ReplaceAll(bytes.ReplaceAll(doc, []byte(" "), nil), []byte("\n"), nil), []byte("\t"), nil), []byte("\r"), nil))
	} else if err == nil && isNull(doc, m) {
		old = len("null")
	}
	if kept := same(doc, out); kept < len(doc)-old {
		t.Errorf("%q became %q: %d of %d bytes kept", doc, out, kept, len(doc))
	}
	want := parsed(t, doc)
	edit(want)
	if diff := cmp.Diff(want, parsed(t, out)); diff != "" {
		t.Errorf("%s became %s:\n%s", doc, out, diff)
	}
}
