package pyimport

import (
	"slices"
	"strings"
)

// argparse and click read a command line by the parameters that a program declares. A value that the
// command line gives is known as far as all parameters before it are; the value of one that it does
// not give is not known: users of an image give others.

// param is a parameter of a command line: an option, or an argument that is none.
type param struct {
	name     string   // of its value; "" if that is not handed on
	flags    []string // of an option: "-p", "--port"
	off      []string // of a switch of click: "--no-cache"
	takes    int      // the number of arguments; anyNumber, or oneOrNone
	list     bool     // its value is a list
	multiple bool     // each use adds to a list
	given    value    // the value of a switch, or of oneOrNone without an argument
	convert  func(r *Run, text string) value
}

// Numbers of arguments that are no number.
const (
	anyNumber = -1
	oneOrNone = -2
)

// matching says how arguments are read.
type matching struct {
	commands bool // the first argument that no parameter takes is a command, which gets the rest
	passes   bool // options that are not known are passed over
	interim  bool // an option takes the next argument, whatever it begins with
	loose    bool // there may be parameters that are not known
}

// matched holds the values that arguments give.
type matched struct {
	run    *Run
	params []*param
	how    matching
	values map[string]value
	rest   []string // the command with its arguments
}

// match assigns arguments to parameters. ok is false if they do not fit, or if that is not known.
func (r *Run) match(params []*param, argv []string, how matching) (m *matched, ok bool) {
	m = &matched{run: r, params: params, how: how, values: map[string]value{}}
	var places []*param
	for _, p := range params {
		if len(p.flags) == 0 {
			places = append(places, p)
		}
	}
	var operands []string
	passed := false
	for len(argv) > 0 {
		r.spend(1)
		a := argv[0]
		switch {
		case a == "--":
			if how.commands || passed {
				return nil, false
			}
			operands, argv = append(operands, argv[1:]...), nil
			continue
		case isOption(a):
			used, known, fits := m.option(a, argv[1:])
			switch {
			case known && !fits || !known && (!how.passes || how.commands):
				return nil, false
			case !known:
				passed = true
			}
			argv = argv[1+used:]
			continue
		case how.commands && len(operands) >= len(places):
			if how.loose {
				return nil, false
			}
			m.rest = argv
			return m, m.place(places, operands, false)
		case !passed:
			operands = append(operands, a)
		}
		argv = argv[1:]
	}
	if how.loose {
		return m, true
	}
	return m, m.place(places, operands, passed)
}

// isOption reports whether an argument is an option, and no negative number.
func isOption(a string) bool {
	return len(a) > 1 && a[0] == '-' && strings.Trim(a[1:], "0123456789.") != ""
}

// find returns the parameter of an option, and whether the option switches it off.
func (m *matched) find(flag string) (p *param, off bool) {
	for _, p := range m.params {
		if slices.Contains(p.flags, flag) {
			return p, false
		}
		if slices.Contains(p.off, flag) {
			return p, true
		}
	}
	return nil, false
}

// option takes an option with its arguments, and returns how many of next these are. known is false
// if no parameter is known for it, fits if its arguments do not fit.
func (m *matched) option(a string, next []string) (used int, known, fits bool) {
	p, off := m.find(a)
	value, has := "", false
	if p == nil {
		name := a
		if strings.HasPrefix(a, "--") {
			name, value, has = strings.Cut(a, "=")
		} else {
			name, value, has = a[:2], a[2:], true
		}
		if p, off = m.find(name); p == nil {
			return 0, false, false
		}
		if !strings.HasPrefix(a, "--") && p.takes == 0 {
			m.take(p, m.switched(p, off))
			return m.option("-"+value, next)
		}
		if !strings.HasPrefix(a, "--") && strings.HasPrefix(value, "=") {
			return 0, true, false // argparse leaves the sign out, click does not
		}
	}
	switch {
	case p.takes == 0:
		m.take(p, m.switched(p, off))
		return 0, true, !has
	case has && p.takes != 1 && p.takes != oneOrNone:
		return 0, true, false
	case has:
		m.take(p, m.value(p, value))
		return 0, true, true
	}
	for used < len(next) && (p.takes == anyNumber || used < max(p.takes, 1)) && (m.how.interim || !isOption(next[used]) && next[used] != "--") {
		used++
	}
	switch {
	case p.takes == oneOrNone && used == 0:
		m.take(p, p.given)
	case p.takes > 0 && used < p.takes:
		return used, true, false
	case p.list:
		m.take(p, m.valuesOf(p, next[:used]))
	default:
		m.take(p, m.value(p, next[0]))
	}
	return used, true, true
}

// switched returns the value of a switch.
func (m *matched) switched(p *param, off bool) value {
	if off {
		return false
	}
	return p.given
}

// value converts an argument.
func (m *matched) value(p *param, text string) value {
	if p.convert == nil {
		return text
	}
	return p.convert(m.run, text)
}

// valuesOf converts arguments to a list.
func (m *matched) valuesOf(p *param, texts []string) value {
	l := &list{}
	for _, text := range texts {
		l.items = append(l.items, m.value(p, text))
	}
	return m.run.own(l)
}

// take sets the value of a parameter, or adds it to its list.
func (m *matched) take(p *param, v value) {
	if p.name == "" {
		return
	}
	if p.multiple {
		l, _ := m.values[p.name].(*list)
		if l == nil {
			l = m.run.own(&list{})
		}
		l.items = append(l.items, v)
		v = l
	}
	m.values[p.name] = v
}

// place assigns the arguments that are no options. With some, there are others behind them whose
// place is not known.
func (m *matched) place(places []*param, operands []string, some bool) bool {
	need := 0
	for _, p := range places {
		need += max(p.takes, 0)
	}
	spare := len(operands) - need
	if spare < 0 && !some || spare > 0 && !some && !m.how.passes && !slices.ContainsFunc(places, func(p *param) bool { return p.takes < 0 }) {
		return false
	}
	for _, p := range places {
		n := p.takes
		switch n {
		case oneOrNone:
			n = min(1, max(spare, 0))
			spare -= n
		case anyNumber:
			n = max(spare, 0)
			spare = 0
		}
		if n > len(operands) || p.takes < 0 && some {
			return some
		}
		if p.list {
			m.take(p, m.valuesOf(p, operands[:n]))
		} else if n > 0 {
			m.take(p, m.value(p, operands[0]))
		}
		operands = operands[n:]
	}
	return true
}

// converted calls a type of this package for the text of an argument: int, str, pathlib.Path.
func (r *Run) converted(kind value, text string) value {
	switch kind := kind.(type) {
	case nil:
		return text
	case *class:
		if kind.def != nil {
			return unknownf("an argument")
		}
	case *builtin:
	default:
		return unknownf("an argument")
	}
	before := r.raised
	v := r.call(kind, &args{pos: []value{text}})
	if r.raised != before {
		r.raised = before
		return unknownf("an argument")
	}
	return v
}
