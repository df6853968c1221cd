package pyimport

import (
	"cmp"
	"maps"
	"slices"
)

// Branches that may or may not run are evaluated one after the other from the same state,
// and then joined. A branch keeps the first snapshot of each mutable value that it changes;
// values that were made in the branch need none.

// mark is the part of a mutable value that says which branches have kept it.
type mark struct {
	born int // the latest branch or recorder when it was made
	kept int
	call int // of the statement of a module that made it (basis)
}

func (m *mark) marks() *mark { return m }

// mutable is a value with state: names of a scope, a list, a dict, a set.
type mutable interface {
	marks() *mark
	snapshot() any
	restore(any)
	// join keeps the values that are the same in both snapshots; others become unknown.
	join(r *Run, a, b any, why *unknown)
}

// branch is a run of statements that may not happen.
type branch struct {
	id    int
	why   string // the condition
	outer *branch
	level int // 1 without an outer one
	kept  []kept
}

// depth returns the number of branches within one another.
func (b *branch) depth() int {
	if b == nil {
		return 0
	}
	return b.level
}

type kept struct {
	of  mutable
	old any
}

// outcome is the state after a branch.
type outcome struct {
	flow   flow
	result value
	exc    *exception
	states []kept // new states, in the order of the first change
}

// born returns the mark of a new mutable value.
func (r *Run) born() mark {
	return mark{born: r.branches, call: r.basis.call}
}

// change must be called before a mutable value is changed.
func (r *Run) change(m mutable) {
	b, k := r.branch, m.marks()
	r.keep(m)
	if b == nil || k.born >= b.id || k.kept == b.id {
		return
	}
	r.spend(copySteps(m))
	b.kept = append(b.kept, kept{m, m.snapshot()})
	k.kept = b.id
}

// copySteps returns the steps for the copy that the first change after a snapshot makes.
func copySteps(m mutable) int {
	switch m := m.(type) {
	case *names:
		return len(m.order) / 4
	case *dict:
		return len(m.pairs) / 4
	}
	return 0
}

// recorder keeps the values that the body of a try statement changes, as they were before it. A handler of an exception
// that a branch of the body may raise finds them as they were at that moment (exception.at).
type recorder struct {
	id    int
	outer *recorder
	kept  []kept
	seen  map[mutable]bool
}

// record begins to keep the values that change, until the recorder is taken off.
func (r *Run) record() *recorder {
	r.branches++
	r.recorder = &recorder{id: r.branches, outer: r.recorder}
	return r.recorder
}

// keep keeps a value that is about to change. Modules that are loaded stay loaded, and with them the importers that they
// have added: an import that may fail would else make all later ones uncertain.
func (r *Run) keep(m mutable) {
	if n, ok := m.(*names); ok && n.modules || m == mutable(r.metaPath) {
		return
	}
	for c := r.recorder; c != nil && m.marks().born < c.id && !c.seen[m]; c = c.outer {
		r.spend(copySteps(m))
		if c.seen == nil {
			c.seen = map[mutable]bool{}
		}
		c.seen[m] = true
		c.kept = append(c.kept, kept{m, m.snapshot()})
	}
}

// possibly notes that a branch raises an exception, after the state that the branch has left.
func (r *Run) possibly(e *exception, states []kept) {
	r.possible = append(r.possible, e)
	if r.recorder == nil || r.stop != "" {
		return
	}
	e.at = map[mutable]any{}
	for c := r.recorder; c != nil; c = c.outer {
		r.spend(1 + len(c.kept))
		for _, k := range c.kept {
			e.at[k.of] = k.of.snapshot()
		}
	}
	for _, s := range states {
		e.at[s.of] = s.old
	}
}

// when returns the value of what a recorder has kept at the moment of an exception.
func (k kept) when(e *exception) any {
	if v, ok := e.at[k.of]; ok {
		return v
	}
	return k.old // it was changed later
}

// rewind sets what has changed since a recorder began to the values at the moment of an exception.
func (r *Run) rewind(c *recorder, e *exception) {
	r.spend(len(c.kept))
	for _, k := range c.kept {
		r.change(k.of)
		k.of.restore(k.when(e))
	}
}

// blur joins the state with that at the moments of other exceptions.
func (r *Run) blur(c *recorder, list []*exception, why string) {
	u := &unknown{why: "depends on " + why}
	for _, e := range list {
		r.spend(len(c.kept))
		for _, k := range c.kept {
			now := k.of.snapshot()
			r.change(k.of)
			k.of.join(r, now, k.when(e), u)
		}
	}
}

// fork runs f as a branch, and then restores the state as it was.
func (r *Run) fork(why string, f func() flow) outcome {
	r.branches++
	b := &branch{id: r.branches, why: why, outer: r.branch, level: r.branch.depth() + 1}
	r.branch = b
	var o outcome
	o.flow = f()
	o.exc, r.raised = r.raised, nil
	if r.frame != nil {
		o.result = r.frame.result
	}
	r.branch = b.outer
	seen := map[mutable]bool{}
	for _, k := range b.kept {
		if !seen[k.of] {
			seen[k.of] = true
			o.states = append(o.states, kept{k.of, k.of.snapshot()})
		}
	}
	for _, k := range slices.Backward(b.kept) {
		k.of.restore(k.old)
	}
	return o
}

// apply sets the state to that after a branch.
func (r *Run) apply(o outcome) {
	for _, s := range o.states {
		r.change(s.of)
		s.of.restore(s.old)
	}
}

// either evaluates two branches, one of which runs, and joins their states.
func (r *Run) either(why string, a, b func() flow) flow {
	x := r.fork(why, a)
	y := r.fork("not ("+why+")", b)
	for _, o := range []outcome{x, y} {
		if o.exc != nil {
			r.possibly(o.exc, o.states)
		}
	}
	switch {
	case x.exc != nil && y.exc != nil:
		if r.raised == nil && r.stop == "" {
			r.raised = y.exc
		}
		return next
	case x.exc != nil:
		r.apply(y)
		r.setResult(y)
		return y.flow
	case y.exc != nil:
		r.apply(x)
		r.setResult(x)
		return x.flow
	}
	r.joinStates(why, x, y)
	return r.joinFlow(why, x, y)
}

func (r *Run) setResult(o outcome) {
	if r.frame != nil && o.flow == returns {
		r.frame.result = o.result
	}
}

// joinFlow returns where the statements go on after two branches. If they differ, the rest
// of the frame is run as possible.
func (r *Run) joinFlow(why string, x, y outcome) flow {
	if x.flow == y.flow {
		if x.flow == returns && r.frame != nil {
			r.frame.result = x.result
			if !r.same(x.result, y.result) {
				r.frame.result = unknownf("depends on %s", why)
			}
		}
		return x.flow
	}
	if r.frame != nil {
		r.frame.mayReturn = r.frame.mayReturn || x.flow == returns || y.flow == returns
		if r.frame.partial == "" {
			r.frame.partial = why
		}
	}
	return next
}

// joinStates keeps values that are the same after both branches; others become unknown.
func (r *Run) joinStates(why string, x, y outcome) {
	u := &unknown{why: "depends on " + why}
	after := map[mutable]any{}
	for _, s := range y.states {
		after[s.of] = s.old
	}
	done := map[mutable]bool{}
	for _, s := range x.states {
		done[s.of] = true
		other, ok := after[s.of]
		if !ok {
			other = s.of.snapshot()
		}
		r.change(s.of)
		s.of.join(r, s.old, other, u)
	}
	for _, s := range y.states {
		if !done[s.of] {
			before := s.of.snapshot()
			r.change(s.of)
			s.of.join(r, before, s.old, u)
		}
	}
}

// names are the names of a scope or the attributes of an object, in the order of their
// first assignment.
type names struct {
	mark
	m     map[string]value
	order []string
	// open says why there may be other names, or "".
	open string
	// stars are the modules whose names `from m import *` has brought, if no other reason opens
	// the scope.
	stars []*module
	// opens counts what opens the scope.
	opens int
	// modules is set for sys.modules, where a module that is loaded in one branch only
	// stays, as one that may be loaded.
	modules bool
	// changed are the variables of a module that may have another value than here, and why.
	changed map[string]change
	shared  bool // a snapshot has m, too
}

func (r *Run) newNames() *names { return &names{mark: r.born(), m: map[string]value{}} }

func (n *names) get(name string) (value, bool) {
	v, ok := n.m[name]
	return v, ok
}

// set sets a name.
func (r *Run) set(n *names, name string, v value) {
	r.change(n)
	n.put(name, v)
}

func (n *names) put(name string, v value) {
	n.own()
	if _, ok := n.m[name]; !ok {
		n.order = append(n.order, name)
	}
	n.m[name] = v
}

// own copies what snapshots share, before it is changed.
func (n *names) own() {
	if n.shared {
		n.m, n.shared = maps.Clone(n.m), false
	}
}

// unset deletes a name.
func (r *Run) unset(n *names, name string) {
	if _, ok := n.m[name]; !ok {
		return
	}
	r.change(n)
	n.own()
	delete(n.m, name)
	n.order = slices.DeleteFunc(slices.Clone(n.order), func(s string) bool { return s == name })
}

// openUp notes that a scope may have other names.
func (r *Run) openUp(n *names, why string) {
	n.opens++
	if n.open == "" || n.stars != nil {
		r.change(n)
		n.open, n.stars = cmp.Or(n.open, why), nil
	}
}

// openByStar notes that a scope may have other names, those of a module.
func (r *Run) openByStar(n *names, m *module) {
	if n.open != "" && n.stars == nil || slices.Contains(n.stars, m) {
		return
	}
	r.change(n)
	n.open, n.stars = cmp.Or(n.open, "names of "+m.name), append(slices.Clip(n.stars), m)
}

type namesState struct {
	m     map[string]value
	order []string
	open  string
	stars []*module
}

func (n *names) snapshot() any {
	n.shared, n.order = true, slices.Clip(n.order)
	return namesState{n.m, n.order, n.open, n.stars}
}

func (n *names) restore(s any) {
	t := s.(namesState)
	n.m, n.shared, n.order, n.open, n.stars = t.m, true, t.order, t.open, t.stars
}

func (n *names) join(r *Run, a, b any, why *unknown) {
	x, y := a.(namesState), b.(namesState)
	n.restore(a)
	n.joinOpen(y)
	for _, k := range y.order {
		if _, ok := x.m[k]; !ok {
			n.put(k, n.onlyOne(y.m[k], why))
		}
	}
	for _, k := range x.order {
		v, w := x.m[k], value(nil)
		w, ok := y.m[k]
		switch {
		case !ok:
			n.put(k, n.onlyOne(v, why))
		case !r.same(v, w):
			n.put(k, why)
		case isMaybe(v) && !isMaybe(w):
			n.put(k, w)
		}
	}
}

// joinOpen adds the reasons for other names that another state has.
func (n *names) joinOpen(s namesState) {
	switch {
	case s.open == "":
	case n.open == "":
		n.open, n.stars = s.open, s.stars
	case n.stars == nil || s.stars == nil:
		n.stars = nil
	default:
		n.stars = slices.Clip(n.stars)
		for _, m := range s.stars {
			if !slices.Contains(n.stars, m) {
				n.stars = append(n.stars, m)
			}
		}
	}
}

// onlyOne returns the value of a name that one of two branches has set.
func (n *names) onlyOne(v value, why *unknown) value {
	if m, ok := v.(*module); ok && n.modules {
		if m.maybe == "" {
			m.maybe = why.why
		}
		return m
	}
	return why
}

func isMaybe(v value) bool {
	m, ok := v.(*module)
	return ok && m.maybe != ""
}

type listState struct {
	items []value
	open  bool
}

func (l *list) snapshot() any { return listState{l.items, l.open} }
func (l *list) restore(s any) { t := s.(listState); l.items, l.open = t.items, t.open }
func (l *list) join(r *Run, a, b any, why *unknown) {
	x, y := a.(listState), b.(listState)
	if n := len(y.items) - len(x.items); l == r.path && !x.open && !y.open && n != 0 { // one of both has more at its front
		short, long := x.items, y.items
		if n < 0 {
			short, long = long, short
		}
		if n = len(long) - len(short); n <= maxFront && len(short) > 0 && r.sameAll(short, long[n:], 0) {
			front := slices.Repeat([]value{why}, n)
			l.items, l.open = append(front, short...), false
			return
		}
	}
	l.items, l.open = joinItems(r, x.items, y.items, why), x.open || y.open || len(x.items) != len(y.items)
}

// maxFront limits the items that sys.path may perhaps have more at its front, as after
// `if d not in sys.path: sys.path.insert(0, d)`.
const maxFront = 4

func (s *set) snapshot() any { return listState{s.items, s.open} }
func (s *set) restore(v any) { t := v.(listState); s.items, s.open = t.items, t.open }
func (s *set) join(r *Run, a, b any, _ *unknown) {
	x, y := a.(listState), b.(listState)
	s.items, s.open = x.items, true
	if r.sameAll(x.items, y.items, 0) {
		s.open = x.open || y.open
	}
}

// joinItems returns the common beginning of two lists.
func joinItems(r *Run, a, b []value, why *unknown) []value {
	var items []value
	for i := range min(len(a), len(b)) {
		if r.same(a[i], b[i]) {
			items = append(items, a[i])
		} else {
			items = append(items, why)
		}
	}
	return items
}

// dict is a dict with known hashable keys, in the order of insertion.
type dict struct {
	mark
	pairs  []pair
	index  map[string]int
	open   bool   // may have other keys
	of     *class // OrderedDict or the like, or nil
	absent value  // makes the value of a key that is not there: those of `defaultdict` and Counter have one
	shared bool   // a snapshot has pairs and index, too
}

type pair struct {
	hash       string
	key, value value
}

func (r *Run) newDict() *dict { return &dict{mark: r.born(), index: map[string]int{}} }

// get returns the value of a key. known is false if the dict may have another.
func (d *dict) get(key value) (v value, ok, known bool) {
	h, hashable := hashKey(key)
	if !hashable {
		return nil, false, false
	}
	if i, ok := d.index[h]; ok {
		return d.pairs[i].value, true, true
	}
	return nil, false, !d.open
}

// setKey sets a key of a dict. A key that is not known opens it.
func (r *Run) setKey(d *dict, key, v value) {
	r.change(d)
	h, ok := hashKey(key)
	if !ok || len(d.pairs) >= maxItems {
		d.open = true
		return
	}
	d.own()
	if i, ok := d.index[h]; ok {
		d.pairs[i].value = v
		return
	}
	d.index[h] = len(d.pairs)
	d.pairs = append(d.pairs, pair{h, key, v})
}

// unsetKey deletes a key of a dict.
func (r *Run) unsetKey(d *dict, key value) {
	r.change(d)
	h, ok := hashKey(key)
	if !ok {
		d.open = true
		return
	}
	d.own()
	d.pairs = slices.DeleteFunc(d.pairs, func(p pair) bool { return p.hash == h })
	d.reindex()
}

func (d *dict) reindex() {
	d.index = make(map[string]int, len(d.pairs))
	for i, p := range d.pairs {
		d.index[p.hash] = i
	}
}

// own copies what snapshots share, before it is changed.
func (d *dict) own() {
	if d.shared {
		d.pairs, d.index, d.shared = slices.Clone(d.pairs), maps.Clone(d.index), false
	}
}

type dictState struct {
	pairs []pair
	index map[string]int
	open  bool
}

func (d *dict) snapshot() any {
	d.shared = true
	return dictState{d.pairs, d.index, d.open}
}

func (d *dict) restore(s any) {
	t := s.(dictState)
	d.pairs, d.index, d.open, d.shared = t.pairs, t.index, t.open, true
}

func (d *dict) join(r *Run, a, b any, why *unknown) {
	x, y := a.(dictState), b.(dictState)
	d.restore(a)
	d.open = x.open || y.open
	both := 0
	for i, p := range x.pairs {
		k, ok := y.index[p.hash]
		if ok {
			both++
		}
		if !ok || !r.same(y.pairs[k].value, p.value) {
			d.own()
			d.pairs[i].value = why
			d.open = d.open || !ok
		}
	}
	if both < len(y.pairs) {
		d.open = true
	}
}
