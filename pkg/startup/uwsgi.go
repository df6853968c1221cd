package startup

import (
	"path"
	"strings"
)

// uwsgiOptions are the options of uWSGI that matter here, by the names that it has for them
// (plugins/python/python_plugin.c, core/uwsgi.c).
var uwsgiOptions = map[string]string{
	"module": "module", "wsgi": "module", "w": "module", "wsgi-file": "file", "file": "file",
	"chdir": "chdir", "pythonpath": "path", "python-path": "path", "pp": "path",
	"home": "home", "virtualenv": "home", "venv": "home", "pyhome": "home", "H": "home",
	"need-app": "need", "ini": "ini", "import": "import", "pyimport": "import", "py-import": "import", "python-import": "import",
	"shared-import": "import", "shared-pyimport": "import", "shared-py-import": "import", "shared-python-import": "import",
	"mount": "mount", "pyargv": "", "if": "unknown", "paste": "unknown", "ini-paste": "unknown", "pecan": "unknown", "emperor": "unknown",
}

// uwsgiOption is an option with its value, from the command line or a file.
type uwsgiOption struct {
	name, value string
	link        Link
}

// uwsgi imports the application of uWSGI in the interpreter that it holds. Without the application, the
// server goes on, unless its options say that it needs one.
func (st *started) uwsgi() {
	var list []uwsgiOption
	for _, o := range st.opts {
		list = st.uwsgiOption(list, strings.TrimLeft(o.name, "-"), o.value, st.link(short(o.name+" "+o.value)), 0)
	}
	for _, o := range st.operands {
		if file, _, _ := strings.Cut(o, ":"); strings.HasSuffix(file, ".ini") {
			list = st.uwsgiOption(list, "ini", o, st.link(o), 0)
		}
	}
	binary := st.res.Programs[st.index].Path
	python, dir, need := "", st.p.dir, false
	var dirs []string
	for _, o := range list {
		switch {
		case o.name == "unknown" || o.name != "" && !Known(o.value):
			return
		case o.name == "home":
			binary = absolute(path.Join(o.value, "bin/python"), st.p.dir)
		case o.name == "chdir":
			dir = absolute(o.value, st.p.dir)
		case o.name == "path":
			dirs = append(dirs, o.value)
		case o.name == "need":
			need = true
		}
	}
	if real, _, ok := st.fs.Lookup(binary); ok && path.Base(binary) == "uwsgi" {
		binary = "/" + real.Path // a link to it lies elsewhere
	}
	for _, name := range []string{path.Base(binary), "python3", "python"} {
		if file := path.Join(path.Dir(binary), name); python == "" && pythonName.MatchString(name) {
			if e, _, ok := st.fs.Lookup(file); ok && e.Object != nil {
				python = file
			}
		}
	}
	if python == "" || !Known(dir) || st.hole {
		return
	}
	for i := range dirs {
		dirs[i] = absolute(dirs[i], dir)
	}
	st.p.dir = dir
	v := st.v
	v.unsure = st.doubted
	if !need {
		v.main, v.service = false, true
	}
	for _, o := range list {
		im := Import{Link: o.link}
		switch o.name {
		case "module", "import":
			im.Module, _, _ = strings.Cut(o.value, ":")
		case "mount":
			_, im.Module, _ = strings.Cut(o.value, "=")
			im.Module, _, _ = strings.Cut(im.Module, ":")
		case "file":
			im.File = absolute(o.value, dir)
		default:
			continue
		}
		if o.name == "mount" && (strings.HasSuffix(im.Module, ".py") || strings.HasSuffix(im.Module, ".wsgi")) {
			im.Module, im.File = "", absolute(im.Module, dir)
		}
		if _, _, ok := st.fs.Lookup(im.File); im.File != "" && !ok || im.File+im.Module == "" {
			continue
		}
		st.embed(python, append([]string{dir}, dirs...), []string{"uwsgi"}, v, im)
	}
}

// uwsgiOption adds an option, and the options of a file that it names.
func (st *started) uwsgiOption(list []uwsgiOption, name, value string, link Link, nested int) []uwsgiOption {
	name = uwsgiOptions[strings.ReplaceAll(name, "_", "-")]
	if name != "ini" || len(list) > maxArgs {
		return append(list, uwsgiOption{name, value, link})
	}
	value, section, _ := strings.Cut(value, ":")
	file := absolute(value, st.p.dir)
	text, why := content(st.fs, file)
	if why != "" || nested > 4 || !Known(value) {
		return append(list, uwsgiOption{"unknown", value, link})
	}
	if section == "" {
		section = "uwsgi"
	}
	in := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			in = strings.Trim(line, "[]")
			continue
		}
		key, v, _ := strings.Cut(line, "=")
		key, v = strings.TrimSpace(key), strings.TrimSpace(v)
		if in != section {
			continue
		}
		v = strings.NewReplacer("%d", path.Dir(file)+"/", "%p", file, "%%", "%").Replace(v)
		if strings.ContainsAny(v, "%$") {
			v = Hole
		}
		if strings.HasPrefix(key, "if-") || key == "for" {
			key = "if" // what follows depends on it
		}
		list = st.uwsgiOption(list, key, v, Link{What: short(line), File: file, Line: n}, nested+1)
	}
	return list
}
