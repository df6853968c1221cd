package startup

import (
	"encoding/json"
	"path"
	"strings"
)

// node adds Node with the file that it runs, and follows npm and its kin, which are
// scripts of Node.
func (w *walk) node(p proc, pr Program, v via) {
	pr.File = nodeFile(pr.Args[1:], p.dir)
	i := w.add(pr)
	if i >= 0 && pr.File != "" && path.Ext(pr.File) == "" {
		at := len(pr.Args)
		for j, a := range pr.Args {
			if j > 0 && !strings.HasPrefix(a, "-") {
				at = j
				break
			}
		}
		w.starter(p, i, path.Base(pr.File), pr.Args[min(at+1, len(pr.Args)):], v)
	}
}

// nodeValues are the options of Node that take a value
// (https://nodejs.org/api/cli.html).
var nodeValues = set("-r", "--require", "--import", "-C", "--conditions", "--loader", "--experimental-loader", "--env-file", "--title", "--inspect-port")

// nodeFile returns the file that Node runs, or "" if there is none or it is not known.
func nodeFile(args []string, dir string) string {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case !Known(a), a == "-e", a == "--eval", a == "-p", a == "--print", a == "-":
			return ""
		case nodeValues[a]:
			i++
		case a == "--" && i+1 < len(args):
			return absolute(args[i+1], dir)
		case !strings.HasPrefix(a, "-"):
			return absolute(a, dir)
		}
	}
	return ""
}

// Preloads returns the modules that Node loads before its program: those of -r, --require
// and --import among its arguments and in NODE_OPTIONS.
func (p *Program) Preloads() []string {
	var list []string
	args := append(strings.Fields(p.Env["NODE_OPTIONS"]), p.Args[min(1, len(p.Args)):]...)
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(args[i], "=")
		switch {
		case !strings.HasPrefix(name, "-"):
			if i >= len(strings.Fields(p.Env["NODE_OPTIONS"])) {
				return list
			}
		case nodeValues[name]:
			if !has && i+1 < len(args) {
				i++
				value = args[i]
			}
			if (name == "-r" || name == "--require" || name == "--import") && Known(value) {
				list = append(list, value)
			}
		}
	}
	return list
}

// npm runs a script of package.json with node_modules/.bin in front of PATH
// (https://docs.npmjs.com/cli/commands/npm-run).
func (st *started) npm() {
	name := "start"
	if len(st.operands) > 0 {
		name = st.operands[0]
		if (name == "run" || name == "run-script") && len(st.operands) > 1 {
			name = st.operands[1]
		}
	}
	file := absolute("package.json", st.p.dir)
	at, line := st.v.at()
	text, why := content(st.fs, file)
	if why != "" {
		st.unknown(at, line, file+": "+why)
		return
	}
	var pkg struct {
		Scripts map[string]string `json:"scripts"`
	}
	if err := json.Unmarshal([]byte(text), &pkg); err != nil {
		st.unknown(at, line, file+": it is not JSON")
		return
	}
	p := st.p.with("PATH", absolute("node_modules/.bin", st.p.dir)+":"+st.p.env["PATH"])
	for _, part := range []string{"pre" + name, name, "post" + name} {
		command := pkg.Scripts[part]
		if command == "" && part == "start" {
			command = "node server.js"
		}
		if command == "" {
			continue
		}
		v := st.v.then(Link{What: short(part + ": " + command), File: file})
		v.scripts = 0
		st.exec(p, []string{"/bin/sh", "-c", withoutHoles(command)}, v)
	}
}
