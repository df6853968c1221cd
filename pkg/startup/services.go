package startup

import (
	"bufio"
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
)

// service starts a command of a supervisor, which runs it beside others.
func (st *started) service(argv []string, p proc, l Link) {
	v := st.v.then(l)
	v.main, v.service, v.scripts, v.shell, v.unsure = false, true, 0, false, st.doubted // a file has the command
	st.exec(p, argv, v)
}

// section is a section of an INI file, with the line of each key.
type section struct {
	name string
	keys map[string]string
	line map[string]int
}

// sections reads an INI file as Python's configparser does, as far as supervisord's files
// need it: continuation lines, comments.
func sections(text string) []section {
	var list []section
	key := ""
	sc := bufio.NewScanner(strings.NewReader(text))
	for n := 1; sc.Scan() && len(list) < 1000; n++ {
		line, _, _ := strings.Cut(" "+sc.Text(), " ;")
		indented := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, " \t")
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			list = append(list, section{strings.TrimSpace(line[1 : len(line)-1]), map[string]string{}, map[string]int{}})
			key = ""
		case len(list) == 0:
		case indented && key != "":
			list[len(list)-1].keys[key] += "\n" + line
		default:
			i := strings.IndexAny(line, "=:")
			if i < 0 {
				continue
			}
			key = strings.ToLower(strings.TrimSpace(line[:i]))
			s := list[len(list)-1]
			s.keys[key], s.line[key] = strings.TrimSpace(line[i+1:]), n
		}
	}
	return list
}

// supervisorProgram is a [program:x] of supervisord.
type supervisorProgram struct {
	file     string
	section  section
	priority int
}

// supervisord starts the programs of its configuration, in the order of their priority
// (http://supervisord.org/configuration.html).
func (st *started) supervisord() {
	file := ""
	for _, value := range st.values([]string{"-c", "--configuration"}) {
		file = value
	}
	if file == "" {
		file = st.firstFile("supervisord.conf", "etc/supervisord.conf", "/etc/supervisord.conf", "/etc/supervisor/supervisord.conf")
	}
	var list []supervisorProgram
	st.supervisorFile(file, &list, 0)
	slices.SortStableFunc(list, func(a, b supervisorProgram) int { return cmp.Compare(a.priority, b.priority) })
	for _, p := range list {
		st.supervised(p)
	}
}

// firstFile returns the first of some files that the image has, or "".
func (st *started) firstFile(names ...string) string {
	for _, name := range names {
		if _, _, ok := st.fs.Lookup(absolute(name, st.p.dir)); ok {
			return name
		}
	}
	return ""
}

// supervisorFile reads a configuration and the files that it includes.
func (st *started) supervisorFile(name string, list *[]supervisorProgram, depth int) {
	at, line := st.v.at()
	if name == "" || !Known(name) || depth > 4 {
		st.unknown(at, line, "the configuration of supervisord is not known")
		return
	}
	file := absolute(name, st.p.dir)
	text, why := content(st.fs, file)
	if why != "" {
		st.unknown(at, line, file+": "+why)
		return
	}
	for _, s := range sections(text) {
		switch {
		case s.name == "include":
			for _, pattern := range strings.Fields(s.keys["files"]) {
				files, _ := glob(st.fs, absolute(strings.ReplaceAll(pattern, "%(here)s", path.Dir(file)), path.Dir(file)))
				for _, f := range files {
					st.supervisorFile(f, list, depth+1)
				}
			}
		case strings.HasPrefix(s.name, "program:"):
			n, err := strconv.Atoi(s.keys["priority"])
			if err != nil {
				n = 999
			}
			*list = append(*list, supervisorProgram{file, s, n})
		}
		if len(*list) > maxPrograms {
			return
		}
	}
}

// supervised starts one program of supervisord.
func (st *started) supervised(p supervisorProgram) {
	keys := p.section.keys
	if strings.EqualFold(keys["autostart"], "false") {
		return
	}
	expand := func(s string) string { return st.supervisorValue(s, p) }
	pr := st.p
	if dir := keys["directory"]; dir != "" {
		pr.dir = absolute(expand(dir), pr.dir)
	}
	for _, pair := range splitEnv(strings.ReplaceAll(keys["environment"], ",", " "), nil) {
		if name, value, ok := strings.Cut(pair, "="); ok {
			pr = pr.with(name, expand(value))
		}
	}
	argv := splitEnv(expand(keys["command"]), nil)
	if len(argv) == 0 {
		return
	}
	st.v.says = "can't find command '" + argv[0] + "'" // supervisor/options.py, get_execv_args
	st.service(argv, pr, Link{What: short("command=" + keys["command"]), File: p.file, Line: p.section.line["command"]})
}

// supervisorValue replaces %(ENV_X)s, %(here)s and the like.
func (st *started) supervisorValue(s string, p supervisorProgram) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "%(")
		b.WriteString(before)
		name, after, closed := strings.Cut(rest, ")s")
		if !ok || !closed || b.Len() > maxValue {
			return b.String() + strings.TrimPrefix(rest, "")
		}
		value := Hole
		if env, ok := strings.CutPrefix(name, "ENV_"); ok {
			if v, ok := st.p.env[env]; ok {
				value = v
			}
		} else if name == "here" {
			value = path.Dir(p.file)
		} else if name == "program_name" || name == "group_name" {
			value = strings.TrimPrefix(p.section.name, "program:")
		}
		b.WriteString(value)
		s = after
	}
}

// s6 starts the services of s6-overlay: the scripts of cont-init.d, the run files, then
// the operands as the container's program
// (https://github.com/just-containers/s6-overlay#usage).
func (st *started) s6() {
	if _, _, ok := st.fs.Lookup("/command"); ok { // of version 3, which puts it into PATH
		st.p = st.p.with("PATH", "/command:"+st.p.env["PATH"])
	}
	for _, pattern := range []string{
		"/etc/cont-init.d/*", "/etc/s6-overlay/s6-rc.d/*/up", "/etc/s6-overlay/s6-rc.d/*/run", "/etc/services.d/*/run",
	} {
		st.runFiles(pattern)
	}
	st.operands = st.operands[min(st.row.Skip, len(st.operands)):]
	st.program()
}

// runFiles starts the files that match a pattern. A file without execute permission is
// not a program: s6-rc's up files are lines of execline.
func (st *started) runFiles(pattern string) {
	files, _ := glob(st.fs, pattern)
	for _, f := range files {
		e, _, ok := st.fs.Lookup(f)
		if !ok || e.IsDir() {
			continue
		}
		p := st.p
		p.dir = path.Dir(f)
		l := Link{What: path.Base(path.Dir(f)) + "/" + path.Base(f), File: f}
		if e.Mode&0o111 != 0 && path.Base(f) != "up" {
			st.service([]string{f}, p, l)
		} else if e.Shebang != "" && path.Base(f) != "up" { // s6-rc-compile makes it executable
			interpreter, arg := cutBlank(e.Shebang)
			argv := []string{interpreter}
			if arg != "" {
				argv = append(argv, arg)
			}
			st.service(append(argv, f), p, l)
		} else if text, why := content(st.fs, f); why == "" {
			if argv := splitEnv(strings.TrimSpace(text), nil); len(argv) > 0 {
				st.service(argv, p, l)
			}
		}
	}
}

// runit starts the run files of the directory that is the operand (runsvdir, runsv,
// s6-svscan).
func (st *started) runit() {
	if len(st.operands) == 0 || !Known(st.operands[0]) {
		return
	}
	dir := absolute(st.operands[0], st.p.dir)
	st.runFiles(dir + "/*/run")
	st.runFiles(dir + "/run")
}

// procfile starts the lines NAME: COMMAND of a Procfile.
func (st *started) procfile() {
	file := "Procfile"
	for _, value := range st.values([]string{"-f", "--procfile"}) {
		file = value
	}
	file = absolute(file, st.p.dir)
	text, why := content(st.fs, file)
	if why != "" {
		at, line := st.v.at()
		st.unknown(at, line, file+": "+why)
		return
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		name, command, ok := strings.Cut(strings.TrimSpace(line), ":")
		wanted := len(st.operands) == 0 || slices.Contains(st.operands, name)
		if !ok || strings.HasPrefix(name, "#") || !wanted {
			continue
		}
		st.service([]string{"/bin/sh", "-c", strings.TrimSpace(command)}, st.p, Link{What: short(line), File: file, Line: n})
	}
}
