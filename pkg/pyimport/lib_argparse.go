package pyimport

import "strings"

// The command line of a program decides which of its commands runs. Of argparse, the evaluator
// knows the commands (add_subparsers), what they set (set_defaults), and a first argument that
// is no option. All else that a command line may set is not known. A command line that argparse
// refuses ends no program here: users give other arguments.

func init() {
	classModel("argparse", "ArgumentParser", func(r *Run, _ *class, _ *args) value { return r.newParser() })
}

// argParser is an argparse.ArgumentParser, or one of its groups.
type argParser struct {
	defaults *names // set_defaults
	commands *argCommands
	first    []value // of the arguments that are no options, in order: their names
}

func (r *Run) newParser() *argParser { return &argParser{defaults: r.newNames()} }

func (*argParser) typeName() string { return "argparse.ArgumentParser" }

func (p *argParser) attr(_ *Run, name string) (value, bool) {
	var fn func(*Run, *args) value
	switch name {
	case "add_argument":
		fn = p.addArgument
	case "add_argument_group", "add_mutually_exclusive_group":
		fn = func(*Run, *args) value { return p }
	case "set_defaults":
		fn = p.setDefaults
	case "add_subparsers":
		fn = p.addCommands
	case "parse_args":
		fn = func(r *Run, a *args) value { return r.parseArgs(p, a) }
	case "parse_known_args":
		fn = func(r *Run, a *args) value {
			return &tuple{items: []value{r.parseArgs(p, a), unknownf("the other arguments")}}
		}
	default:
		return nil, false
	}
	return &builtin{"ArgumentParser." + name, fn}, true
}

// addArgument notes an argument that is no option.
func (p *argParser) addArgument(r *Run, a *args) value {
	name, ok := a.text(0, "dest")
	_, some := a.get(-1, "nargs")
	_, converts := a.get(-1, "type")
	switch {
	case ok && strings.HasPrefix(name, "-"):
	case ok && !some && !converts && r.certain() && !a.open:
		p.first = append(p.first, name)
	default:
		p.first = append(p.first, unknownf("an argument"))
	}
	return unknownf("an argument")
}

func (p *argParser) setDefaults(r *Run, a *args) value {
	for _, name := range sortedKeys(a.kw) {
		r.set(p.defaults, name, a.kw[name])
	}
	if a.open {
		r.openUp(p.defaults, "defaults that are not known")
	}
	return nil
}

func (p *argParser) addCommands(r *Run, a *args) value {
	if p.commands == nil {
		dest, _ := a.get(-1, "dest")
		p.commands = &argCommands{dest: dest, parsers: r.newNames()}
	}
	return p.commands
}

// argCommands is the result of add_subparsers.
type argCommands struct {
	dest    value
	parsers *names // by their names
}

func (*argCommands) typeName() string { return "argparse._SubParsersAction" }

func (c *argCommands) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "add_parser":
		return &builtin{name, c.add}, true
	case "choices", "_name_parser_map":
		return unknownf("the names of commands"), true
	case "dest":
		return c.dest, true
	}
	return nil, false
}

func (c *argCommands) add(r *Run, a *args) value {
	p := r.newParser()
	name, ok := a.text(0, "name")
	if !ok {
		r.openUp(c.parsers, "a command whose name is not known")
		return p
	}
	r.set(c.parsers, name, p)
	if v, ok := a.get(-1, "aliases"); ok {
		items, more := r.iterate(v)
		for _, item := range items {
			if alias, ok := item.(string); ok {
				r.set(c.parsers, alias, p)
			}
		}
		if more != "" {
			r.openUp(c.parsers, more)
		}
	}
	return p
}

// parseArgs is ArgumentParser.parse_args.
func (r *Run) parseArgs(p *argParser, a *args) value {
	c := r.classes["argparse.Namespace"]
	if c == nil {
		c = r.newClass("Namespace", "argparse", nil)
		c.opaque = "the command line"
		r.classes["argparse.Namespace"] = c
	}
	ns := &instance{of: c, attrs: r.newNames()}
	r.openUp(ns.attrs, "the command line")
	if given, ok := a.get(1, "namespace"); ok && given != nil {
		return unknownf("the arguments of the program")
	}
	argv, known := r.commandLine(a)
	if known && !asksForHelp(argv) {
		r.fill(ns, p, argv)
	}
	return ns
}

// commandLine returns the arguments of the program, or those that are given; known is false if they are
// not known whole.
func (r *Run) commandLine(a *args) (argv []string, known bool) {
	v, ok := a.get(0, "args")
	if !ok || v == nil {
		if v, _ = r.sys.names.get("argv"); v == nil {
			return nil, false
		}
		items, more := r.iterate(v)
		if more != "" || len(items) == 0 {
			return nil, false
		}
		v = &list{items: items[1:]}
	}
	items, more := r.iterate(v)
	if more != "" {
		return nil, false
	}
	for _, item := range items {
		text, ok := item.(string)
		if !ok || strings.Contains(text, UnknownArgs) {
			return nil, false
		}
		argv = append(argv, text)
	}
	return argv, true
}

// asksForHelp reports whether arguments end a program after it has written a text.
func asksForHelp(argv []string) bool {
	for _, a := range argv {
		switch a {
		case "--":
			return false
		case "--help", "-h", "--version":
			return true
		}
	}
	return false
}

// fill sets the attributes that are known of the result of a parser.
func (r *Run) fill(ns *instance, p *argParser, argv []string) {
	r.spend(len(argv) + len(p.defaults.order))
	for _, name := range p.defaults.order {
		ns.attrs.put(name, p.defaults.m[name])
	}
	if p.commands == nil {
		if len(p.first) > 0 && len(argv) > 0 && !strings.HasPrefix(argv[0], "-") {
			if name, ok := p.first[0].(string); ok {
				ns.attrs.put(strings.ReplaceAll(name, "-", "_"), argv[0])
			}
		}
		return
	}
	dest, _ := p.commands.dest.(string)
	forget := func() { // a command may set it
		for _, name := range p.defaults.order {
			ns.attrs.put(name, unknownf("what a command sets"))
		}
	}
	switch {
	case len(argv) == 0:
		if dest != "" && len(p.first) == 0 {
			ns.attrs.put(dest, nil)
		}
	case len(p.first) > 0 || strings.HasPrefix(argv[0], "-"):
		forget()
	default:
		v, ok := p.commands.parsers.get(argv[0])
		if !ok {
			forget()
			return
		}
		if dest != "" {
			ns.attrs.put(dest, argv[0])
		}
		if sub, ok := v.(*argParser); ok {
			r.fill(ns, sub, argv[1:])
			return
		}
		forget()
	}
}
