package pyimport

import (
	"fmt"
	"slices"
	"strings"
)

// bind assigns the arguments of a call to the parameters. It reports false if they do not fit; if a source has the call,
// it raises TypeError.
func (r *Run) bind(f *function, a *args, vars *names) bool {
	fit := fit{taken: map[string]bool{}}
	used := 0
	for i, p := range f.params {
		switch {
		case p.Star == "*":
			if p.Name != "" {
				vars.put(p.Name, r.restArgs(a, used))
				fit.rest = true
			}
			used = max(used, len(a.pos))
			continue
		case p.Star == "**":
			vars.put(p.Name, r.restNamed(a, fit.taken))
			fit.named = true
			continue
		}
		fit.taken[p.Name] = !p.PositionalOnly
		if !p.KeywordOnly {
			fit.positional++
		}
		if p.Default != nil && !p.KeywordOnly {
			fit.defaults++
		}
		if v, ok := a.kw[p.Name]; ok && !p.PositionalOnly {
			vars.put(p.Name, v)
			if p.KeywordOnly {
				fit.keywordOnly++
			}
			continue
		}
		switch {
		case used < len(a.pos) && !p.KeywordOnly:
			vars.put(p.Name, a.pos[used])
			used++
		case a.open:
			vars.put(p.Name, unknownf("an argument"))
		default:
			vars.put(p.Name, f.defaults[i])
			if p.Default == nil {
				fit.miss(p.Name, p.KeywordOnly)
			}
		}
	}
	special := f.of != nil && f.name != "__init__" && strings.HasPrefix(f.name, "__") // some of them are static or of the class
	if !a.written || a.open || special || f.replaced() || f.inherited(a) {
		return true
	}
	r.spend(len(a.kw))
	if text, vague := fit.refusal(a); text != "" {
		name, known := f.qualified(r)
		i := &instance{of: r.exceptionClass("TypeError"), attrs: r.newNames()}
		i.exc = &excText{text: name + "() " + text, vague: vague || !known}
		i.exc.args = []value{i.exc.text}
		r.raised = &exception{of: i, in: r.frame}
		return false
	}
	return true
}

// replaced reports whether the program has set the function's defaults or its code.
func (f *function) replaced() bool {
	for _, name := range []string{"__defaults__", "__kwdefaults__", "__code__"} {
		if _, ok := f.attrs.get(name); ok {
			return true
		}
	}
	return false
}

// qualified returns the name of a function as an exception has it, and whether it is known: since Python 3.10 with
// those of what it is defined in.
func (f *function) qualified(r *Run) (name string, known bool) {
	switch {
	case r.in.Major == 3 && r.in.Minor < 10:
		return f.name, true
	case f.of != nil:
		return f.of.name + "." + f.name, true
	}
	return f.name, f.outer == nil
}

// fit counts the arguments of a call against the parameters of a function.
type fit struct {
	taken                             map[string]bool // parameters, and whether a name can give them
	rest, named                       bool            // there is a *args, a **kwargs
	positional, defaults, keywordOnly int             // parameters by position, with defaults; keyword-only ones that are given
	missingPositional, missingKeyword []string
}

func (t *fit) miss(name string, keywordOnly bool) {
	if keywordOnly {
		t.missingKeyword = append(t.missingKeyword, name)
	} else {
		t.missingPositional = append(t.missingPositional, name)
	}
}

// refusal returns why the function refuses the arguments, or "" (Python/ceval.c: initialize_locals,
// too_many_positional, missing_arguments). vague reports that another argument may be named.
func (t *fit) refusal(a *args) (text string, vague bool) {
	others := slices.DeleteFunc(sortedKeys(a.kw), func(name string) bool { return t.taken[name] })
	given := len(a.pos)
	byPosition := slices.DeleteFunc(slices.Clone(others), func(name string) bool { _, is := t.taken[name]; return !is })
	switch {
	case len(byPosition) > 0 && !t.named:
		return "got some positional-only arguments passed as keyword arguments: '" + strings.Join(byPosition, ", ") + "'", true
	case len(others) > 0 && !t.named:
		return "got an unexpected keyword argument '" + others[0] + "'", len(others) > 1
	case given > t.positional && !t.rest:
		takes, many := fmt.Sprint(t.positional), t.positional != 1
		if t.defaults > 0 {
			takes, many = fmt.Sprintf("from %d to %d", t.positional-t.defaults, t.positional), true
		}
		were := "were"
		if given == 1 && t.keywordOnly == 0 {
			were = "was"
		}
		keyword := ""
		if t.keywordOnly > 0 {
			keyword = fmt.Sprintf(" positional argument%s (and %d keyword-only argument%s)", ending(given != 1), t.keywordOnly, ending(t.keywordOnly != 1))
		}
		return fmt.Sprintf("takes %s positional argument%s but %d%s %s given", takes, ending(many), given, keyword, were), false
	case len(t.missingPositional) > 0:
		return missing(t.missingPositional, "positional"), false
	case len(t.missingKeyword) > 0:
		return missing(t.missingKeyword, "keyword-only"), false
	}
	return "", false
}

func missing(names []string, kind string) string {
	list := "'" + strings.Join(names, "', '") + "'"
	if n := len(names); n > 1 {
		last := " and '"
		if n > 2 {
			last = ", and '"
		}
		list = "'" + strings.Join(names[:n-1], "', '") + "'" + last + names[n-1] + "'"
	}
	return fmt.Sprintf("missing %d required %s argument%s: %s", len(names), kind, ending(len(names) > 1), list)
}

// ending is the ending of the plural.
func ending(many bool) string {
	if many {
		return "s"
	}
	return ""
}

func (r *Run) restArgs(a *args, used int) value {
	if a.open {
		return unknownf("arguments")
	}
	t := &tuple{}
	if used < len(a.pos) {
		t.items = a.pos[used:]
	}
	return t
}

func (r *Run) restNamed(a *args, taken map[string]bool) value {
	d := r.newDict()
	d.open = a.open
	r.spend(2 * len(a.kw))
	for _, k := range sortedKeys(a.kw) {
		if !taken[k] {
			r.setKey(d, k, a.kw[k])
		}
	}
	return d
}
