package pyimport

import (
	"cmp"
	"slices"
	"strings"
)

// Of click and typer, the evaluator knows the commands of a program and their functions, and which
// of these the first words of the command line name (click/core.py, Group.resolve_command;
// typer/main.py, get_command), and what it gives for the options and arguments of click. A group of
// a class of the program may find its commands itself.

func init() {
	table := map[string]func(*Run, *args) value{
		"command": func(r *Run, a *args) value { return r.commandDecorator(nil, "", a, false) },
		"group":   func(r *Run, a *args) value { return r.commandDecorator(nil, "", a, true) },
	}
	for name, flag := range map[string]string{"option": "", "argument": "", "version_option": "--version", "help_option": "--help", "confirmation_option": "--yes", "password_option": "--password"} {
		table[name] = func(_ *Run, a *args) value {
			p := clickParam(a, name, flag)
			return &builtin{"click.decorators.decorator", func(r *Run, b *args) value {
				f, _ := b.get(0, "f")
				r.declareParam(f, p)
				return f
			}}
		}
	}
	for _, name := range []string{"pass_context", "pass_obj"} {
		table[name] = identity
	}
	functions("click.decorators", table)
	classModel("typer.main", "Typer", func(r *Run, _ *class, a *args) value {
		c := &command{mark: r.born(), group: true, commands: r.newNames(), commandState: commandState{loose: "options of typer"}, typer: true}
		c.configure(r, a)
		if f, ok := a.get(-1, "callback"); ok {
			c.callback = f
		}
		return c
	})
	functions("typer.main", map[string]func(*Run, *args) value{
		"run":         func(r *Run, a *args) value { f, _ := a.get(0, "function"); return r.call(f, &args{open: true}) },
		"get_command": identity, "get_group": identity,
	})
}

// command is a command of click, or a group of commands: a typer.Typer is one, too.
type command struct {
	mark
	commandState
	group    bool
	typer    bool
	commands *names
	self     *instance // of a class of the program, or nil
}

// commandState holds all that changes of a command.
type commandState struct {
	name     string
	callback value // its function; nil for none
	alone    bool  // runs its function also without a command
	called   bool  // of typer: it has a function of its own
	params   []*param
	loose    string // why there may be other parameters, or ""
}

func (*command) typeName() string { return "click.Command" }

func (c *command) snapshot() any { return c.commandState }

func (c *command) restore(s any) { c.commandState = s.(commandState) }

func (c *command) join(r *Run, a, b any, why *unknown) {
	x, y := a.(commandState), b.(commandState)
	c.commandState = x
	if x.name != y.name {
		c.name = ""
	}
	if !r.same(x.callback, y.callback) {
		c.callback = why
	}
	if !slices.Equal(x.params, y.params) {
		c.loose = why.why
	}
	c.alone, c.called = x.alone && y.alone, x.called || y.called
}

// configure takes what the arguments of its decorator say.
func (c *command) configure(r *Run, a *args) {
	r.change(c)
	v, _ := a.get(-1, "invoke_without_command")
	if is, known := truth(v); known {
		c.alone = c.alone || is
	}
	if name, ok := a.text(-1, "name"); ok {
		c.name = name
	}
	for _, name := range []string{"params", "context_settings", "add_help_option", "chain"} {
		if _, ok := a.get(-1, name); ok {
			c.loose = "settings of the command"
		}
	}
}

func (c *command) attr(_ *Run, name string) (value, bool) {
	var fn func(*Run, *args) value
	switch name {
	case "command", "group":
		fn = func(r *Run, a *args) value { return r.commandDecorator(c, "", a, name == "group") }
	case "callback":
		if !c.typer {
			return c.callback, true
		}
		fn = c.setCallback
	case "result_callback", "resultcallback":
		fn = func(*Run, *args) value { return &builtin{"decorator", identity} }
	case "add_command", "add_typer":
		fn = c.addCommand
	case "main":
		fn = c.call
	case "name":
		if c.name != "" {
			return c.name, true
		}
		return nil, false
	default:
		return nil, false
	}
	return &builtin{"click.Command." + name, fn}, true
}

// commandDecorator returns the decorator that makes a command of a function, below a group if there
// is one; or the command, where the decorator is used without a call.
func (r *Run) commandDecorator(below *command, name string, a *args, group bool) value {
	if f, ok := a.get(0, "name"); ok {
		switch f := f.(type) {
		case *function, *command:
			return r.makeCommand(below, name, f, &args{}, group)
		case string:
			name = f
		}
	}
	return &builtin{"click.decorators.decorator", func(r *Run, b *args) value {
		f, _ := b.get(0, "f")
		return r.makeCommand(below, name, f, a, group)
	}}
}

// makeCommand makes a command of a function. Typer's decorators return the function.
func (r *Run) makeCommand(below *command, name string, f value, a *args, group bool) value {
	c := &command{mark: r.born(), commandState: commandState{name: name, callback: f}, group: group, commands: r.newNames()}
	c.configure(r, a)
	if fn, ok := f.(*function); ok {
		if c.name == "" {
			c.name = commandName(fn.name)
		}
		c.declared(fn)
	} else {
		c.loose = "a function that is not known"
	}
	if k, ok := a.kw["cls"].(*class); ok && k.def != nil {
		r.ofClass(c, k, a)
	}
	if below != nil {
		below.add(r, c.name, c)
		if below.typer {
			return f
		}
	}
	return c
}

// ofClass makes the object of a class of the program that a command is, if the class finds the commands
// of a group itself (get_command): those of a table are imported when the command line names one.
func (r *Run) ofClass(c *command, k *class, a *args) {
	get, ok := k.find("get_command")
	if f, own := get.(*function); !ok || !own || strings.HasPrefix(f.module.name, "click.") {
		return
	}
	b := &args{kw: map[string]value{"name": c.name, "callback": c.callback}, open: a.open}
	for name, v := range a.kw {
		if name != "cls" {
			b.kw[name] = v
		}
	}
	if i, ok := r.instantiate(k, b).(*instance); ok && r.raised == nil {
		c.self, c.group = i, true
	}
}

// commandName returns the name that click gives the command of a function.
func commandName(function string) string {
	return strings.ReplaceAll(strings.ToLower(function), "_", "-")
}

// add adds a command of a name. Since click 8.2, the ends _command, _cmd, _group and _grp of a
// function's name are left out: both names are taken.
func (c *command) add(r *Run, name string, of value) {
	if name == "" {
		r.openUp(c.commands, "a command whose name is not known")
		return
	}
	r.set(c.commands, name, of)
	for _, end := range []string{"-command", "-cmd", "-group", "-grp"} {
		if short, ok := strings.CutSuffix(name, end); ok && short != "" && !c.typer {
			r.set(c.commands, short, of)
		}
	}
}

// addCommand is Group.add_command and Typer.add_typer.
func (c *command) addCommand(r *Run, a *args) value {
	v, _ := a.get(0, "cmd")
	if t, ok := a.get(0, "typer_instance"); ok {
		v = t
	}
	name, _ := a.text(1, "name")
	if sub, ok := v.(*command); ok {
		if name == "" && sub.typer && sub.name == "" { // its commands become those of the group
			r.spend(4 * len(sub.commands.order))
			for _, n := range sub.commands.order {
				c.add(r, n, sub.commands.m[n])
			}
			return nil
		}
		if name == "" {
			name = sub.name
		}
	}
	c.add(r, name, v)
	return nil
}

// setCallback is Typer.callback.
func (c *command) setCallback(r *Run, a *args) value {
	c.configure(r, a)
	return &builtin{"typer.main.Typer.callback", func(r *Run, b *args) value {
		r.change(c)
		c.callback, _ = b.get(0, "f")
		c.called = true
		return c.callback
	}}
}

// call runs the command with the command line of the program.
func (c *command) call(r *Run, a *args) value {
	argv, known := r.commandLine(a)
	if !known {
		r.note("the command line is not known")
		return unknownf("the result of a command")
	}
	if !asksForHelp(argv) {
		r.runCommand(c, argv)
	}
	return unknownf("the result of a command")
}

// runCommand runs a command with its arguments. Which of several commands runs is certain if
// its name comes first, or behind options that are known.
func (r *Run) runCommand(c *command, argv []string) {
	r.spend(len(argv))
	m, fits := r.match(c.params, argv, matching{commands: c.group, interim: true, loose: c.loose != ""})
	if !fits {
		m = &matched{}
	}
	switch {
	case r.stop != "":
		return
	case !c.group:
		r.runCallback(c, m)
		return
	case c.typer && !c.called && c.callback == nil && c.commands.open == "" && len(c.commands.order) == 1:
		if sub, ok := c.commands.m[c.commands.order[0]].(*command); ok && !sub.group {
			r.runCallback(sub, m) // typer gives a program of one command no name for it
			return
		}
	case fits && len(m.rest) == 0, len(argv) == 0:
		if c.alone {
			r.runCallback(c, m)
		}
		return
	}
	if fits {
		argv = m.rest
	}
	if v, ok := r.commandOf(c, argv[0]); ok && r.raised == nil {
		r.runCallback(c, m)
		if sub, ok := v.(*command); ok && r.raised == nil {
			r.runCommand(sub, argv[1:])
		}
		return
	}
	at := slices.IndexFunc(argv, func(a string) bool { _, ok := c.commands.get(a); return ok })
	if at < 0 || !strings.HasPrefix(argv[0], "-") || r.raised != nil {
		return
	}
	r.either("the command "+argv[at], func() flow {
		r.runCommand(c, argv[at:])
		return next
	}, func() flow { return next })
}

// commandOf returns the command of a group that a name leads to.
func (r *Run) commandOf(c *command, name string) (v value, ok bool) {
	if c.self != nil && !strings.HasPrefix(name, "-") {
		get, _ := c.self.of.find("get_command")
		v := r.call(&method{self: c.self, fn: get}, &args{pos: []value{unknownf("a context"), name}})
		if _, ok := v.(*command); ok || r.raised != nil {
			return v, true
		}
	}
	return c.commands.get(name)
}

// runCallback calls the function of a command. Of its arguments those are known that the command line
// gives.
func (r *Run) runCallback(c *command, m *matched) {
	if c.callback != nil && r.raised == nil {
		r.call(c.callback, &args{kw: m.values, open: true})
	}
}

// clickParams is the attribute of a function that has the parameters of its command.
const clickParams = "__click_params__"

// paramList is the value of [clickParams]. The decorator next to the function comes first.
type paramList struct {
	params []*param
	loose  string
}

func (*paramList) typeName() string { return "list" }

func (*paramList) attr(*Run, string) (value, bool) { return nil, false }

// declareParam adds a parameter to those of a function, or of the command made of it. A parameter that is
// nil is not known.
func (r *Run) declareParam(f value, p *param) {
	switch f := f.(type) {
	case *function:
		list := &paramList{}
		if old, ok := f.attrs.get(clickParams); ok {
			if l, ok := old.(*paramList); ok {
				*list = *l
			} else {
				list.loose = "parameters that are not known"
			}
		}
		if p == nil {
			list.loose = "a parameter that is not known"
		} else {
			list.params = append(slices.Clip(list.params), p)
		}
		r.set(f.attrs, clickParams, list)
	case *command:
		r.change(f)
		if p == nil {
			f.loose = "a parameter that is not known"
			return
		}
		f.params = append(slices.Clip(f.params), p)
	}
}

// declared takes the parameters of a function, in the order of its decorators.
func (c *command) declared(f *function) {
	v, ok := f.attrs.get(clickParams)
	if !ok {
		return
	}
	list, ok := v.(*paramList)
	if !ok {
		c.loose = "parameters that are not known"
		return
	}
	c.loose = cmp.Or(c.loose, list.loose)
	c.params = slices.Clone(list.params)
	slices.Reverse(c.params)
}

// clickParam returns the parameter of a decorator, or nil if it is not known. flag is the option that it
// declares without a name.
func clickParam(a *args, kind, flag string) *param {
	p := &param{takes: 1}
	longest := 0
	for _, v := range a.pos {
		text, ok := v.(string)
		if !ok || a.open {
			return nil
		}
		if kind == "version_option" && !strings.HasPrefix(text, "-") {
			continue // the version
		}
		on, off, _ := strings.Cut(text, "/")
		on, off = strings.TrimSpace(on), strings.TrimSpace(off)
		dashes := len(on) - len(strings.TrimLeft(on, "-"))
		if dashes == 0 {
			p.name, longest = on, 3
			continue
		}
		p.flags = append(p.flags, on)
		if off != "" {
			p.off, p.takes, p.given = append(p.off, off), 0, true
		}
		if dashes > longest {
			p.name, longest = strings.ToLower(strings.ReplaceAll(on[dashes:], "-", "_")), dashes
		}
	}
	if len(p.flags) == 0 && flag != "" {
		p.flags, p.name = []string{flag}, strings.TrimLeft(flag, "-")
	}
	switch kind {
	case "version_option", "help_option", "confirmation_option":
		p.takes, p.name = 0, ""
		return p
	case "argument":
		if len(p.flags) > 0 || p.name == "" {
			return nil
		}
		p.name = strings.ToLower(strings.ReplaceAll(p.name, "-", "_"))
	default:
		if len(p.flags) == 0 {
			return nil
		}
	}
	if a.open || !p.clickKind(a) {
		return nil
	}
	return p
}

// clickKind takes what the named arguments of a decorator say, and reports whether it is known.
func (p *param) clickKind(a *args) bool {
	if v, ok := a.kw["flag_value"]; ok {
		if _, says := a.kw["is_flag"]; says {
			return false
		}
		p.takes, p.given = 0, v
	}
	for _, name := range []string{"is_flag", "count"} {
		v, ok := a.kw[name]
		is, known := truth(v)
		switch {
		case !ok:
		case !known:
			return false
		case is:
			p.takes = 0
			if p.given == nil {
				p.given = true
			}
			if name == "count" {
				p.given = unknownf("an argument")
			}
		}
	}
	if v, ok := a.kw["multiple"]; ok {
		is, known := truth(v)
		if p.multiple = is; !known {
			return false
		}
	}
	if v, ok := a.kw["nargs"]; ok {
		n, ok := v.(int64)
		if !ok || n == 0 || n < -1 || n > 100 {
			return false
		}
		p.takes, p.list = int(n), n != 1
	}
	if v, ok := a.kw["required"]; ok && len(p.flags) == 0 && p.takes == 1 {
		if is, known := truth(v); !known || !is {
			p.takes = oneOrNone
		}
	} else if _, ok := a.kw["default"]; ok && len(p.flags) == 0 && p.takes == 1 {
		p.takes = oneOrNone
	}
	if v, ok := a.kw["expose_value"]; ok {
		if is, known := truth(v); !known || !is {
			p.name = ""
		}
	}
	kind := a.kw["type"]
	if kind == nil {
		switch a.kw["default"].(type) {
		case nil, string:
		default:
			kind = unknownf("a type")
		}
	}
	_, calls := a.kw["callback"]
	p.convert = func(r *Run, text string) value {
		if calls {
			return unknownf("an argument")
		}
		return r.clickValue(kind, text)
	}
	return true
}

// clickValue converts the text of an argument by a type of click (click/types.py).
func (r *Run) clickValue(kind value, text string) value {
	if i, ok := kind.(*instance); ok && i.of.module == "click.types" {
		switch i.of.name {
		case "StringParamType":
			return text
		case "Path":
			if v, ok := i.attrs.get("path_type"); !ok || v != nil {
				break
			}
			return text
		case "Choice":
			if v, ok := i.attrs.get("case_sensitive"); ok {
				if is, known := truth(v); known && is {
					return text
				}
			}
		}
		return unknownf("an argument")
	}
	return r.converted(kind, text)
}
