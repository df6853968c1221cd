package pyimport

import (
	"slices"
	"strings"
)

// Of click and typer, the evaluator knows the commands of a program and their functions, and which
// of these the first words of the command line name (click/core.py, Group.resolve_command;
// typer/main.py, get_command). The arguments of the functions are not known.

func init() {
	table := map[string]func(*Run, *args) value{
		"command": func(r *Run, a *args) value { return r.commandDecorator(nil, "", a, false) },
		"group":   func(r *Run, a *args) value { return r.commandDecorator(nil, "", a, true) },
	}
	for _, name := range []string{"option", "argument", "version_option", "help_option", "confirmation_option", "password_option"} {
		table[name] = func(*Run, *args) value { return &builtin{"click.decorators.decorator", identity} }
	}
	for _, name := range []string{"pass_context", "pass_obj"} {
		table[name] = identity
	}
	functions("click.decorators", table)
	classModel("typer.main", "Typer", func(r *Run, _ *class, a *args) value {
		c := &command{group: true, typer: true, commands: r.newNames()}
		c.configure(a)
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
	name     string
	callback value // its function; nil for none
	group    bool
	alone    bool // runs its function also without a command
	typer    bool
	called   bool // of typer: it has a function of its own
	commands *names
}

func (*command) typeName() string { return "click.Command" }

// configure takes what the arguments of its decorator say.
func (c *command) configure(a *args) {
	v, _ := a.get(-1, "invoke_without_command")
	if is, known := truth(v); known {
		c.alone = c.alone || is
	}
	if name, ok := a.text(-1, "name"); ok {
		c.name = name
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
	c := &command{name: name, callback: f, group: group, commands: r.newNames()}
	c.configure(a)
	if fn, ok := f.(*function); ok && c.name == "" {
		c.name = commandName(fn.name)
	}
	if below != nil {
		below.add(r, c.name, c)
		if below.typer {
			return f
		}
	}
	return c
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
func (c *command) setCallback(_ *Run, a *args) value {
	c.configure(a)
	return &builtin{"typer.main.Typer.callback", func(_ *Run, b *args) value {
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
// its name comes first.
func (r *Run) runCommand(c *command, argv []string) {
	r.spend(len(argv))
	switch {
	case r.stop != "":
		return
	case !c.group:
		r.runCallback(c)
		return
	case c.typer && !c.called && c.callback == nil && c.commands.open == "" && len(c.commands.order) == 1:
		if sub, ok := c.commands.m[c.commands.order[0]].(*command); ok && !sub.group {
			r.runCallback(sub) // typer gives a program of one command no name for it
			return
		}
	case len(argv) == 0:
		if c.alone {
			r.runCallback(c)
		}
		return
	}
	if v, ok := c.commands.get(argv[0]); ok {
		r.runCallback(c)
		if sub, ok := v.(*command); ok && r.raised == nil {
			r.runCommand(sub, argv[1:])
		}
		return
	}
	at := slices.IndexFunc(argv, func(a string) bool { _, ok := c.commands.get(a); return ok })
	if at < 0 || !strings.HasPrefix(argv[0], "-") {
		return
	}
	r.either("the command "+argv[at], func() flow {
		r.runCommand(c, argv[at:])
		return next
	}, func() flow { return next })
}

// runCallback calls the function of a command, whose arguments are not known.
func (r *Run) runCallback(c *command) {
	if c.callback != nil && r.raised == nil {
		r.call(c.callback, &args{open: true})
	}
}
