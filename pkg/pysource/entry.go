package pysource

import "bytes"

// findEntries keeps the functions by which programs start, as far as a call runs them: a script
// in another file calls main, and the command line decides which other one main calls. They are
// those of the names that console scripts mostly have, those that read a command line, and those
// that a decorator makes a command (click, typer), how a group of click finds its commands, and what a server runs when it starts.
func (r *reducer) findEntries() {
	done := map[int32]bool{} // classes that keepCommand has read
	for _, i := range r.sorted.defined {
		l := &r.lines[i]
		switch {
		case l.kind == classLine:
			if r.isServer(r.bytesOf(l)) {
				r.keepServer(i)
			}
		case l.flags&block == 0:
		case l.deco >= 0 && r.startsUp(l.deco, i):
			r.live(i, full)
			if l.fn >= 0 { // it makes the application
				r.live(l.fn, full)
			}
		case l.fn < 0 && l.flags&inClass == 0:
			if entryNames.has(definedName(r.bytesOf(l))) || l.deco >= 0 && r.isCommand(l.deco, i) {
				r.live(i, full)
			}
		case l.flags&inClass != 0 && l.parent >= 0 && string(definedName(r.bytesOf(l))) == "get_command" && isGroup(r.bytesOf(&r.lines[l.parent])):
			r.keepCalled(l.parent, i)
			r.keepInit(l.parent)
		}
	}
	for _, i := range r.sorted.parses {
		r.live(r.lines[i].fn, full)
		r.keepCommand(r.lines[i].fn, done)
	}
}

// entryNames are the names of functions that console scripts mostly call.
var entryNames = newWordSet(`main cli run serve start app entrypoint entry_point _main main_cli cli_main run_main launch`)

// isCommand reports whether one of the decorators of a function makes a command of it.
func (r *reducer) isCommand(from, to int32) bool {
	for d := from; d < to; d++ {
		if r.lines[d].kind != decorator || r.lines[d].parent != r.lines[to].parent {
			continue
		}
		name := bytes.TrimSpace(r.bytesOf(&r.lines[d])[1:])
		if n := bytes.IndexByte(name, '('); n >= 0 {
			name = name[:n]
		}
		switch dot := bytes.LastIndexByte(name, '.'); string(bytes.TrimSpace(name[dot+1:])) {
		case "command", "group", "callback":
			return true
		}
	}
	return false
}

// startsUp reports whether a function is one that a server runs when it starts: the lifespan of an application,
// by its decorator and name, or what on_event registers.
func (r *reducer) startsUp(from, to int32) bool {
	name := definedName(r.bytesOf(&r.lines[to]))
	for d := from; d < to; d++ {
		if r.lines[d].kind != decorator || r.lines[d].parent != r.lines[to].parent {
			continue
		}
		text := bytes.TrimSpace(r.bytesOf(&r.lines[d])[1:])
		if bytes.HasSuffix(text, []byte("asynccontextmanager")) && bytes.Contains(name, []byte("lifespan")) || bytes.Contains(text, []byte(".on_event(")) && bytes.Contains(text, []byte("startup")) {
			return true
		}
	}
	return false
}

// isGroup reports whether a class is a group of commands of click, by the names of its bases.
func isGroup(class []byte) bool {
	bases := basesOf(class)
	return bytes.Contains(bases, []byte("Group")) || bytes.Contains(bases, []byte("MultiCommand"))
}

// isServer reports whether a class is an application of gunicorn, by the name of its base.
func (r *reducer) isServer(text []byte) bool {
	return bytes.Contains(text, []byte("BaseApplication)")) || bytes.Contains(text, []byte("WSGIApplication)"))
}

// keepServer keeps what the construction of an application of gunicorn sets, and its methods that
// load what it serves.
func (r *reducer) keepServer(class int32) {
	for i := class + 1; i < r.lines[class].after; i = max(i+1, r.lines[i].after) {
		l := &r.lines[i]
		if l.kind != defLine || l.flags&block == 0 {
			continue
		}
		switch string(definedName(r.bytesOf(l))) {
		case "__init__":
			r.keepAttributes(i)
		case "load", "load_config":
			r.live(i, full)
		}
	}
}

// keepCommand keeps of the class of a method that adds a command its short constants, by which the
// method names the command, and the functions that make its objects. It does so once for a class.
func (r *reducer) keepCommand(method int32, done map[int32]bool) {
	class := r.lines[method].parent
	if r.lines[method].flags&inClass == 0 || class < 0 || r.lines[class].kind != classLine || done[class] {
		return
	}
	done[class] = true
	for i := class + 1; i < r.lines[class].after; i = max(i+1, r.lines[i].after) {
		if l := &r.lines[i]; l.kind == other && l.flags&assigns != 0 && isShort(r.bytesOf(l), int(l.equal)) {
			r.keep(i, full)
		}
	}
	if id, ok := r.ids.find(definedName(r.bytesOf(&r.lines[class]))); ok {
		r.fresh = append(r.fresh, id)
	}
}
