package pyimport

import (
	"slices"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// An application of ASGI has functions that run when its server starts (starlette/routing.py): the one that it gets as
// `lifespan`, up to its yield, or without one those that `on_event("startup")` registers. A server ends if they raise.

func init() {
	functions("contextlib", map[string]func(*Run, *args) value{"asynccontextmanager": func(r *Run, a *args) value {
		u := &unknown{why: "the result of asynccontextmanager"}
		if v, _ := a.get(0, "func"); v != nil {
			if f, ok := v.(*function); ok && f.lazy == aGenerator {
				if r.contexts == nil {
					r.contexts = map[*unknown]*function{}
				}
				r.contexts[u] = f
			}
		}
		return u
	}})
	functions("asyncio asyncio.threads", map[string]func(*Run, *args) value{"to_thread": func(r *Run, a *args) value {
		if len(a.pos) == 0 {
			return unknownf("the result of to_thread")
		}
		b := *a
		b.pos = a.pos[1:]
		return r.call(a.pos[0], &b)
	}})
}

// lifespan holds the functions of an application that a server runs when it starts.
type lifespan struct {
	span   *function
	given  bool // a lifespan, which may not be known
	events []*function
}

// noteLifespan notes the lifespan that an application has got when it was made.
func (r *Run) noteLifespan(app, v value) {
	if v == nil || !isObject(app) || !r.certain() {
		return
	}
	f, _ := v.(*function)
	if u, ok := v.(*unknown); ok {
		f = r.contexts[u]
	}
	s := r.startupOf(app)
	s.given = true
	if f != nil && f.lazy == aGenerator {
		s.span = f
	}
}

// noteStartup notes a function if its decorator is `APP.on_event("startup")`.
func (r *Run) noteStartup(v value, decorator pysource.Expr) {
	c, ok := decorator.(*pysource.Call)
	if !ok || len(c.Args) != 1 || !r.certain() {
		return
	}
	m, ok := c.Func.(*pysource.Attr)
	if !ok || m.Name != "on_event" {
		return
	}
	name, ok := m.Value.(*pysource.Name)
	f, isFunction := v.(*function)
	if !ok || !isFunction || f.lazy == aGenerator {
		return
	}
	if event, ok := c.Args[0].Value.(*pysource.Const); !ok || event.Value != "startup" {
		return
	}
	if app := r.look(name); isObject(app) && r.raised == nil {
		s := r.startupOf(app)
		s.events = append(s.events, f)
	}
}

// isObject reports whether a value may be an application: an object, also one of a class that is not known.
func isObject(v value) bool {
	u, ok := v.(*unknown)
	if _, is := v.(*instance); is {
		return true
	}
	return ok && u.object
}

func (r *Run) startupOf(app value) *lifespan {
	if r.startups == nil {
		r.startups = map[value]*lifespan{}
	}
	s := r.startups[app]
	if s == nil {
		s = &lifespan{}
		r.startups[app] = s
	}
	return s
}

// startUp runs what a server runs of an application when it starts.
func (r *Run) startUp(app value) {
	if r.raised != nil || !isObject(app) {
		return
	}
	s := r.startups[app]
	if s == nil {
		return
	}
	if s.given {
		if s.span != nil {
			r.callFunction(untilYield(s.span), &args{pos: []value{app}}, nil)
		}
		return
	}
	for _, f := range s.events {
		if r.raised != nil {
			return
		}
		now := *f
		now.lazy = ""
		r.callFunction(&now, &args{}, nil)
	}
}

// Serve imports the module of an application that a command names, and starts the application. Of a module with several
// none is started: one may be mounted in another, whose start does not run its functions.
func (r *Run) Serve(name string) *Node {
	return r.program(name, "", func() {
		r.importModule(name)
		m := r.moduleOf(name, "")
		if m == nil || r.raised != nil {
			return
		}
		var app value
		for _, n := range m.names.order {
			v := m.names.m[n]
			if !isObject(v) || r.startups[v] == nil || v == app {
				continue
			}
			if app != nil {
				return
			}
			app = v
		}
		r.startUp(app)
	})
}

// untilYield returns a generator function as one that ends where it yields first.
func untilYield(f *function) *function {
	now := *f
	now.lazy = ""
	now.body, _ = cutAtYield(f.body)
	return &now
}

// cutAtYield returns statements up to the first that yields, and of that one what comes before.
func cutAtYield(body []pysource.Stmt) (before []pysource.Stmt, yields bool) {
	for i, s := range body {
		var cut pysource.Stmt
		switch s := s.(type) {
		case *pysource.ExprStmt:
			yields = isYield(s.Value)
		case *pysource.Assign:
			yields = isYield(s.Value)
		case *pysource.With:
			now := *s
			if now.Body, yields = cutAtYield(s.Body); yields {
				cut = &now
			}
		case *pysource.Try:
			now := *s
			if now.Body, yields = cutAtYield(s.Body); yields {
				now.Else, now.Finally = nil, nil
				cut = &now
			}
		case *pysource.If:
			now, other := *s, false
			now.Body, yields = cutAtYield(s.Body)
			if now.Else, other = cutAtYield(s.Else); yields || other {
				yields, cut = true, &now
			}
		}
		if yields {
			before = append(slices.Clone(body[:i]), cut)
			if cut == nil {
				before = before[:i]
			}
			return before, true
		}
	}
	return body, false
}

func isYield(x pysource.Expr) bool {
	a, ok := x.(*pysource.Await)
	return ok && a.Yield
}
