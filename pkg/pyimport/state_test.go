package pyimport

import (
	"slices"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestSharedState checks that a change after a snapshot changes neither the snapshot nor what was restored from it,
// although they share their memory: two branches add to the same names and dict.
func TestSharedState(t *testing.T) {
	r := testRun(t, &txtar.Archive{Files: []txtar.File{{Name: "main.py"}}})
	n, d := r.newNames(), r.newDict()
	keys := func() (list []value) {
		for _, p := range d.pairs {
			list = append(list, p.key, p.value)
		}
		return list
	}
	check := func(when string, names []string, pairs ...value) {
		t.Helper()
		if !slices.Equal(n.order, names) || len(n.m) != len(names) || !slices.Equal(keys(), pairs) || len(d.index) != len(pairs)/2 {
			t.Errorf("%s: %v with %d values, %v with %d", when, n.order, len(n.m), keys(), len(d.index))
		}
		for _, name := range names {
			if _, ok := n.get(name); !ok {
				t.Errorf("%s: %s has no value", when, name)
			}
		}
	}
	for _, name := range []string{"a", "b", "c"} { // with room for more
		n.put(name, name)
		r.setKey(d, name, int64(1))
	}
	before := []kept{{n, n.snapshot()}, {d, d.snapshot()}}
	restore := func(list []kept) {
		for _, k := range list {
			k.of.restore(k.old)
		}
	}
	branch := func(name string) []kept {
		n.put(name, name)
		r.unset(n, "a")
		r.setKey(d, name, int64(1))
		r.setKey(d, "b", name)
		r.unsetKey(d, "a")
		after := []kept{{n, n.snapshot()}, {d, d.snapshot()}}
		restore(before)
		return after
	}
	x, y := branch("x"), branch("y")
	check("before", []string{"a", "b", "c"}, "a", int64(1), "b", int64(1), "c", int64(1))
	restore(x)
	check("the first branch", []string{"b", "c", "x"}, "b", "x", "c", int64(1), "x", int64(1))
	restore(y)
	check("the second branch", []string{"b", "c", "y"}, "b", "y", "c", int64(1), "y", int64(1))
	why := unknownf("it depends")
	n.join(r, x[0].old, y[0].old, why)
	d.join(r, x[1].old, y[1].old, why)
	if v, _ := n.get("x"); v != why {
		t.Errorf("a name of one branch is %v", v)
	}
	if v, _, known := d.get("b"); v != why || !known || !d.open {
		t.Errorf("a key of both branches is %v, known %v", v, known)
	}
	restore(x)
	check("the first branch after the join", []string{"b", "c", "x"}, "b", "x", "c", int64(1), "x", int64(1))
}

// TestSame checks that a value of any kind is the same as itself after two branches.
func TestSame(t *testing.T) {
	r := testRun(t, &txtar.Archive{Files: []txtar.File{{Name: "main.py"}}})
	for _, v := range []value{nil, true, int64(1), 1.5, "text", &list{}, &dict{}, &lazyTable{}, &unknown{}, &suppressor{}, &method{}} {
		if !r.same(v, v) {
			t.Errorf("%T is not the same as itself", v)
		}
	}
	if r.same(&lazyTable{}, &lazyTable{}) || r.same(int64(1), true) {
		t.Error("two values are the same")
	}
}
