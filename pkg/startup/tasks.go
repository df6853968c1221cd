package startup

import (
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/imgcheck/imgcheck/internal/depth"
)

// Limits: tasks that start tasks, and how deeply the values of their file nest.
const (
	maxTasks  = 8
	maxNested = 100
)

// task runs the task of a project's file that the operand names, and reports whether there
// is one: a row of [Starter.Tasks] is a TOML file of the working directory and the path of a
// table, in which * stands for any name.
func (st *started) task(name string, args []string, nested int) bool {
	for _, row := range st.row.Tasks {
		file, table, _ := strings.Cut(row, " ")
		file = absolute(file, st.p.dir)
		text, why := content(st.fs, file)
		if why != "" {
			continue
		}
		var doc map[string]any
		if depth.Exceeds([]byte(text), maxNested) || depth.DottedExceeds([]byte(text), depth.MaxDotted) {
			at, line := st.v.at()
			st.unknown(at, line, file+": its values nest too deeply")
			continue
		}
		if _, err := toml.Decode(text, &doc); err != nil {
			at, line := st.v.at()
			st.unknown(at, line, file+": it is not TOML")
			continue
		}
		for _, t := range tablesAt(doc, strings.Split(table, ".")) {
			if v, ok := t[name]; ok {
				st.runTask(name, file, v, args, nested)
				return true
			}
		}
	}
	return false
}

// tablesAt returns the tables at a path, by the order of their names.
func tablesAt(doc map[string]any, path []string) []map[string]any {
	if len(path) == 0 {
		return []map[string]any{doc}
	}
	var list []map[string]any
	for _, name := range slices.Sorted(keys(doc)) {
		if inner, ok := doc[name].(map[string]any); ok && (path[0] == "*" || path[0] == name) {
			list = append(list, tablesAt(inner, path[1:])...)
		}
	}
	return list
}

func keys(m map[string]any) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// runTask runs the value of a task: a command, a list of commands, or a table with one.
func (st *started) runTask(name, file string, value any, args []string, depth int) {
	v, p := st.v, st.p
	defer func() { st.v, st.p = v, p }()
	link := Link{What: short("task " + name), File: file}
	switch value := value.(type) {
	case string:
		st.taskCommand(value, args, link)
	case []any: // the last goes on as the program
		for i, one := range value[:min(len(value), maxTasks)] {
			if command, ok := one.(string); ok {
				st.v = v
				st.v.main = v.main && i == len(value)-1
				st.taskCommand(command, args, link)
			}
		}
	case map[string]any:
		st.dependencies(value, depth)
		st.v = v
		if dir, ok := first(value, "cwd", "working_dir").(string); ok {
			st.p.dir = absolute(dir, st.p.dir)
		}
		if env, ok := value["env"].(map[string]any); ok {
			for _, k := range slices.Sorted(keys(env)) {
				if s, ok := env[k].(string); ok {
					st.p = st.p.with(k, withoutHoles(s))
				}
			}
		}
		switch command := first(value, "cmd", "shell").(type) {
		case string:
			st.taskCommand(command, args, link)
		case []any:
			var argv []string
			for _, word := range command {
				if s, ok := word.(string); ok {
					argv = append(argv, withoutHoles(s))
				}
			}
			if len(argv) > 0 {
				st.exec(st.p, append(argv, args...), st.v.then(link))
			}
		case nil:
			if call, ok := value["call"].(string); ok {
				st.unknown(file, 0, "a task that calls a function: "+call)
			}
		}
	}
}

// first returns the first value of some keys.
func first(m map[string]any, names ...string) any {
	for _, n := range names {
		if v, ok := m[n]; ok {
			return v
		}
	}
	return nil
}

// dependencies runs the tasks that a task depends on, before it.
func (st *started) dependencies(task map[string]any, depth int) {
	list, ok := first(task, "depends-on", "depends_on").([]any)
	if one, is := first(task, "depends-on", "depends_on").(string); is {
		list, ok = []any{one}, true
	}
	if !ok || depth >= maxTasks {
		return
	}
	st.v.main = false
	for _, d := range list[:min(len(list), maxTasks)] {
		if t, ok := d.(map[string]any); ok {
			d = t["task"]
		}
		if name, ok := d.(string); ok {
			st.task(name, nil, depth+1)
		}
	}
}

// taskCommand runs a command as a shell does.
func (st *started) taskCommand(command string, args []string, link Link) {
	argv := []string{"/bin/sh", "-c", withoutHoles(command)}
	if len(args) > 0 {
		argv = append(append(argv[:2:2], argv[2]+` "$@"`, "sh"), args...)
	}
	v := st.v.then(link)
	v.scripts = 0
	st.exec(st.p, argv, v)
}
