package startup

import (
	"path"
	"strings"
)

// compute returns the output and the status of a program whose work is a function of its
// arguments and of the image's files. ok is false for all others.
func (s *shell) compute(argv []string) (out string, st status, ok bool) {
	f := computed[baseName(argv[0])]
	if f == nil {
		return "", eitherWay, false
	}
	var operands []string
	options := ""
	for i, a := range argv[1:] {
		switch {
		case a == "--":
			operands = append(operands, argv[i+2:]...)
			return f(s, options, operands)
		case strings.HasPrefix(a, "-") && len(a) > 1:
			options += strings.TrimLeft(a, "-")
		default:
			operands = append(operands, a)
		}
	}
	return f(s, options, operands)
}

// computed are the programs that [shell.compute] knows: those of coreutils that scripts
// use to find their own files, and which.
var computed = map[string]func(s *shell, options string, args []string) (string, status, bool){
	"true":     func(*shell, string, []string) (string, status, bool) { return "", succeeded, true },
	"false":    func(*shell, string, []string) (string, status, bool) { return "", failed, true },
	"sleep":    func(*shell, string, []string) (string, status, bool) { return "", succeeded, true },
	"dirname":  dirname,
	"basename": basename,
	"readlink": realpath,
	"realpath": realpath,
	"which":    which,
	"cat":      cat,
	"id":       id,
	"whoami":   func(s *shell, _ string, _ []string) (string, status, bool) { return id(s, "un", nil) },
	"uname":    uname,
	"mkdir":    mkdir,
}

func dirname(_ *shell, options string, args []string) (string, status, bool) {
	if len(args) != 1 || options != "" || !Known(args[0]) {
		return "", eitherWay, false
	}
	p := strings.TrimRight(args[0], "/")
	i := strings.LastIndexByte(p, '/')
	switch {
	case p == "":
		return "/\n", succeeded, true
	case i < 0:
		return ".\n", succeeded, true
	}
	if p = strings.TrimRight(p[:i], "/"); p == "" {
		p = "/"
	}
	return p + "\n", succeeded, true
}

func basename(_ *shell, options string, args []string) (string, status, bool) {
	if len(args) == 0 || len(args) > 2 || options != "" || !Known(args[0]) {
		return "", eitherWay, false
	}
	base := path.Base(args[0])
	if len(args) == 2 && base != args[1] {
		base = strings.TrimSuffix(base, args[1])
	}
	return base + "\n", succeeded, true
}

// realpath is realpath and readlink -f.
func realpath(s *shell, options string, args []string) (string, status, bool) {
	if len(args) != 1 || strings.Trim(options, "femq") != "" || !Known(args[0]) || !Known(s.dir) {
		return "", eitherWay, false
	}
	e, known := s.lookup(absolute(args[0], s.dir))
	if e == nil || !known {
		return "", eitherWay, false
	}
	return "/" + e.Path + "\n", succeeded, true
}

func which(s *shell, _ string, args []string) (string, status, bool) {
	out, st := "", succeeded
	for _, name := range args {
		found, known := s.w.find(name, s.proc())
		switch {
		case found != "":
			out += found + "\n"
		case !known || s.w.starters.injected(name):
			return "", eitherWay, false
		default:
			st = failed
		}
	}
	return out, st, true
}

func cat(s *shell, _ string, args []string) (string, status, bool) {
	if len(args) == 0 {
		if s.stdin == nil {
			return "", eitherWay, false
		}
		return *s.stdin, succeeded, true
	}
	out := ""
	for _, name := range args {
		if !Known(name) || !Known(s.dir) || len(out) > maxValue {
			return "", eitherWay, false
		}
		file := absolute(name, s.dir)
		if _, known := s.lookup(file); !known {
			return "", eitherWay, false
		}
		src, why := s.read(file)
		if why == "there is no such file" {
			return out, failed, true
		}
		if why != "" {
			return "", eitherWay, false
		}
		out += src
	}
	return out, succeeded, true
}

func id(s *shell, options string, args []string) (string, status, bool) {
	switch {
	case len(args) > 0:
	case options == "u" || options == "g" && s.user.uid == 0:
		return s.uid() + "\n", succeeded, true
	case (options == "un" || options == "nu") && s.user.name != "":
		return s.user.name + "\n", succeeded, true
	}
	return "", eitherWay, false
}

// uname knows that an image of Linux runs on Linux.
func uname(_ *shell, options string, args []string) (string, status, bool) {
	if options == "" || options == "s" {
		return "Linux\n", succeeded, true
	}
	return "", eitherWay, false
}

// mkdir succeeds with -p.
func mkdir(_ *shell, options string, _ []string) (string, status, bool) {
	return "", succeeded, strings.Contains(options, "p")
}
