package pyimport

import "slices"

// Programs written for `optparse` read their options by OptionParser.parse_args. Which options there are is
// not known, but an option --help ends the program, and so do the methods error and exit
// (Lib/optparse.py).

func init() {
	classModel("optparse", "OptionParser", func(_ *Run, c *class, a *args) value {
		if c.def != nil {
			return unknownf("a parser of the program's own class")
		}
		_, own := a.kw["add_help_option"]
		_, resolves := a.kw["conflict_handler"]
		return &optParser{helps: !own && !resolves && !a.open && len(a.pos) < 4 && !slices.ContainsFunc(a.pos, isUnknown)}
	})
}

// optParser is an optparse.OptionParser.
type optParser struct {
	helps bool // --help ends the program
}

func (*optParser) typeName() string { return "optparse.OptionParser" }

func (p *optParser) attr(_ *Run, name string) (value, bool) {
	var fn func(*Run, *args) value
	switch name {
	case "parse_args":
		fn = p.parseArgs
	case "error":
		fn = func(r *Run, _ *args) value { r.raise("SystemExit", "2"); return nil }
	case "exit":
		fn = func(r *Run, _ *args) value { r.raise("SystemExit", ""); return nil }
	default:
		return nil, false
	}
	return &builtin{"OptionParser." + name, fn}, true
}

// parseArgs returns the options and the other arguments, which are not known.
func (p *optParser) parseArgs(r *Run, a *args) value {
	argv, known := r.commandLine(a)
	if known && len(argv) > 0 && (argv[0] == "--help" || argv[0] == "-h") && p.helps {
		r.raise("SystemExit", "0") // after it has written its help
	}
	return &tuple{items: []value{unknownf("the options of the program"), unknownf("the arguments of the program")}}
}
