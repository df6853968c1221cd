package pyimport

import (
	"slices"
	"strings"
)

// The command line of a program decides which of its commands runs. Of argparse, the evaluator
// knows the commands (add_subparsers), what they set (set_defaults), and what the command line
// gives. All else that a command line may set is not known. A command line that argparse refuses
// ends no program here: users give other arguments.

func init() {
	classModel("argparse", "ArgumentParser", func(r *Run, c *class, a *args) value {
		p := r.newParser()
		if help, ok := a.kw["add_help"]; r.in.Minor >= 8 && (!ok || help == true) && r.resolves("shutil") {
			r.importModule("shutil") // HelpFormatter does, with which add_argument tries the text of --help
		}
		for _, name := range []string{"fromfile_prefix_chars", "prefix_chars", "parents"} {
			if _, ok := a.get(-1, name); ok {
				p.loose = "arguments that are read in a way of their own"
			}
		}
		if c.def != nil {
			p.loose = "a class of the program"
		}
		_, own := a.kw["add_help"]
		_, resolves := a.kw["conflict_handler"]
		p.helps = !own && !resolves && !a.open && !slices.ContainsFunc(a.pos, isUnknown)
		return p
	})
}

// argParser is an argparse.ArgumentParser, or one of its groups.
type argParser struct {
	mark
	defaults *names // set_defaults
	commands *argCommands
	params   []*param
	loose    string // why there may be other parameters, or ""
	helps    bool   // --help ends the program
}

func (r *Run) newParser() *argParser { return &argParser{mark: r.born(), defaults: r.newNames()} }

func (*argParser) typeName() string { return "argparse.ArgumentParser" }

// parserState is the state of a parser that is no names.
type parserState struct {
	commands *argCommands
	params   []*param
	loose    string
}

func (p *argParser) snapshot() any { return parserState{p.commands, p.params, p.loose} }

func (p *argParser) restore(s any) {
	t := s.(parserState)
	p.commands, p.params, p.loose = t.commands, t.params, t.loose
}

func (p *argParser) join(_ *Run, a, b any, why *unknown) {
	x, y := a.(parserState), b.(parserState)
	p.restore(a)
	if p.commands == nil {
		p.commands = y.commands
	}
	if !slices.Equal(x.params, y.params) {
		p.loose = why.why
		if len(y.params) > len(x.params) {
			p.params = y.params
		}
	}
	if p.loose == "" {
		p.loose = y.loose
	}
}

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
		fn = func(r *Run, a *args) value { return r.parseArgs(p, a, false) }
	case "parse_known_args":
		fn = func(r *Run, a *args) value {
			return &tuple{items: []value{r.parseArgs(p, a, true), unknownf("the other arguments")}}
		}
	default:
		return nil, false
	}
	return &builtin{"ArgumentParser." + name, fn}, true
}

// addArgument adds a parameter.
func (p *argParser) addArgument(r *Run, a *args) value {
	r.change(p)
	added := argparseParam(a)
	if added == nil {
		added, p.loose = &param{}, "a parameter that is not known"
	}
	p.params = append(slices.Clip(p.params), added)
	return unknownf("an argument")
}

// argparseParam returns the parameter of a call of add_argument, or nil if it is not known.
func argparseParam(a *args) *param {
	p := &param{takes: 1}
	for _, v := range a.pos {
		name, ok := v.(string)
		switch {
		case !ok || name == "":
			return nil
		case name[0] == '-':
			p.flags = append(p.flags, name)
			if p.name == "" || strings.HasPrefix(name, "--") && !strings.HasPrefix(p.name, "--") {
				p.name = name
			}
		default:
			p.name = name
		}
	}
	if len(p.flags) > 0 {
		p.name = strings.ReplaceAll(strings.TrimLeft(p.name, "-"), "-", "_")
	}
	if v, ok := a.kw["dest"]; ok {
		if p.name, ok = v.(string); !ok {
			return nil
		}
	}
	if a.open || p.name == "" || !p.argparseNumber(a) || !p.argparseAction(a) {
		return nil
	}
	if kind, ok := a.kw["type"]; ok {
		p.convert = func(r *Run, text string) value { return r.converted(kind, text) }
	}
	return p
}

// argparseNumber sets the number of arguments, and reports whether it is known.
func (p *param) argparseNumber(a *args) bool {
	switch n := a.kw["nargs"].(type) {
	case nil:
		return true
	case int64:
		p.takes, p.list = int(n), true
		return n > 0 && n < 100
	case string:
		switch n {
		case "?":
			p.takes, p.given = oneOrNone, a.kw["const"]
			return true
		case "*", "+":
			p.takes, p.list = anyNumber, true
			return true
		}
	}
	return false
}

// argparseAction takes what the action says, and reports whether it is known.
func (p *param) argparseAction(a *args) bool {
	v, ok := a.kw["action"]
	if !ok {
		return true
	}
	action, _ := v.(string)
	switch action {
	case "store":
	case "append":
		p.multiple = true
	case "store_true", "store_false":
		p.takes, p.given = 0, action == "store_true"
	case "store_const":
		p.takes, p.given = 0, a.kw["const"]
	case "count", "append_const":
		p.takes, p.given = 0, unknownf("an argument")
	case "version", "help":
		p.takes, p.name = 0, ""
	default:
		return false
	}
	return true
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
		r.change(p)
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
	if _, ok := a.get(-1, "parents"); ok {
		p.loose = "parameters of other parsers"
	}
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

// parseArgs is ArgumentParser.parse_args, or parse_known_args, which passes over what it does not know.
func (r *Run) parseArgs(p *argParser, a *args, passes bool) value {
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
	switch {
	case known && len(argv) > 0 && (argv[0] == "--help" || argv[0] == "-h") && p.helps && p.loose == "":
		r.raise("SystemExit", "0") // after it has written its help
	case known && !asksForHelp(argv):
		r.fill(ns, p, argv, passes)
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
func (r *Run) fill(ns *instance, p *argParser, argv []string, passes bool) {
	r.spend(len(argv) + len(p.defaults.order))
	for _, name := range p.defaults.order {
		ns.attrs.put(name, p.defaults.m[name])
	}
	m, fits := r.match(p.params, argv, matching{commands: p.commands != nil, passes: passes, loose: p.loose != ""})
	if fits {
		for _, name := range sortedKeys(m.values) {
			ns.attrs.put(name, m.values[name])
		}
		argv = m.rest
	}
	if p.commands == nil {
		if first := p.first(); !fits && first != nil && first.takes == 1 && first.convert == nil && len(argv) > 0 && !strings.HasPrefix(argv[0], "-") {
			ns.attrs.put(first.name, argv[0])
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
		if dest != "" && p.first() == nil {
			ns.attrs.put(dest, nil)
		}
	case !fits && (p.first() != nil || strings.HasPrefix(argv[0], "-")):
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
			r.fill(ns, sub, argv[1:], passes)
			return
		}
		forget()
	}
}

// first returns the first parameter that is no option, or nil.
func (p *argParser) first() *param {
	for _, q := range p.params {
		if len(q.flags) == 0 {
			return q
		}
	}
	return nil
}
