package startup

import (
	"encoding/json"
	"path"
	"slices"
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
	name, rest := "start", []string(nil)
	if len(st.operands) > 0 {
		name, rest = st.operands[0], st.operands[1:]
		switch {
		case (name == "run" || name == "run-script") && len(rest) > 0:
			name, rest = rest[0], rest[1:]
		case name == "exec" || name == "x" || name == "dlx":
			st.operands = rest
			st.npx()
			return
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
	p := st.withBin()
	if pkg.Scripts[name] == "" && name != "start" { // `yarn NAME` runs a program, too
		if found, known := st.find(name, p); found != "" && known && slices.Contains(st.row.Names, "yarn") {
			st.npxOf(append([]string{name}, rest...))
		}
		return
	}
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

// withBin returns the process with node_modules/.bin in front of PATH.
func (st *started) withBin() proc {
	return st.p.with("PATH", absolute("node_modules/.bin", st.p.dir)+":"+st.p.env["PATH"])
}

// npx runs a program of node_modules/.bin, or of PATH
// (https://docs.npmjs.com/cli/commands/npx). One that the image lacks is fetched.
func (st *started) npx() {
	for _, o := range st.opts {
		if o.name == "-c" || o.name == "--call" {
			st.exec(st.withBin(), []string{"/bin/sh", "-c", o.value}, st.v)
			return
		}
	}
	st.npxOf(st.operands)
}

func (st *started) npxOf(argv []string) {
	if len(argv) == 0 {
		return
	}
	p := st.withBin()
	at, line := st.v.at()
	if found, known := st.find(argv[0], p); found == "" || !known {
		st.unknown(at, line, argv[0]+" is not among the installed packages of Node")
		return
	}
	st.v.scripts = 0
	st.exec(p, argv, st.v)
}

// nodeScript starts the operand as a program of Node.
func (st *started) nodeScript() {
	argv := st.operands[min(st.row.Skip, len(st.operands)):]
	if len(argv) == 0 {
		return
	}
	switch path.Ext(argv[0]) {
	case ".js", ".cjs", ".mjs":
		st.exec(st.p, append([]string{"node"}, argv...), st.v)
	default:
		at, line := st.v.at()
		st.unknown(at, line, argv[0]+" is not a file of JavaScript")
	}
}
