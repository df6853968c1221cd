package explain

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/imgcheck/imgcheck/internal/plain/plaintest"
)

// FuzzHostile puts a text into every field of a result that a log, an image or a rule
// pack may have written. No terminal and no CI system obeys the printed text or JSON.
func FuzzHostile(f *testing.F) {
	for _, s := range plaintest.Poison {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !plaintest.May(s) {
			return
		}
		r := new(Result)
		poison(reflect.ValueOf(r).Elem(), s)
		for _, answers := range [][]Answer{r.Answers, nil} {
			one := *r
			one.Answers = answers
			var b, narrow bytes.Buffer
			if err := one.Text(&b, 0); err != nil {
				t.Fatal(err)
			}
			if err := one.JSON(&b); err != nil {
				t.Fatal(err)
			}
			plaintest.Lawful(t, "explain", b.String(), false)
			if err := one.Text(&narrow, 40); err != nil {
				t.Fatal(err)
			}
			plaintest.Obeyed(t, "explain of 40 columns", narrow.String(), false)
		}
	})
}

// poison sets every field to s. Lists get two elements.
func poison(v reflect.Value, s string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		poison(v.Elem(), s)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			poison(v.Index(i), s)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(s), reflect.ValueOf(s))
	case reflect.Struct:
		for i := range v.NumField() {
			poison(v.Field(i), s)
		}
	}
}
