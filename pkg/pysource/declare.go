package pysource

import "bytes"

// declares reports whether a line declares a parameter of a command line, or a command: a call of
// add_argument, or a decorator of click; or the modules of tasks of an application of Celery.
func declares(l *logical, text []byte) bool {
	n := bytes.IndexByte(text, '(')
	if n < 0 || l.flags&block != 0 {
		return false
	}
	name := bytes.TrimSpace(text[:n])
	dot := bytes.LastIndexByte(name, '.')
	switch string(lastWord(name)) {
	case "add_argument":
		return l.kind == other && dot > 0 && l.flags&assigns == 0
	case "option", "argument", "command", "group":
		return l.kind == decorator
	case "Celery":
		return l.kind == other && l.flags&assigns != 0
	case "autodiscover_tasks":
		return l.kind == other && dot > 0
	case "update":
		return l.kind == other && l.flags&assigns == 0 && bytes.HasSuffix(name, []byte(".conf.update"))
	}
	return false
}

// lastWord returns the name at the end of a text.
func lastWord(text []byte) []byte {
	n := len(text)
	for n > 0 && parts[text[n-1]] {
		n--
	}
	return text[n:]
}

// idleArguments are the arguments of a declaration that decide nothing of what a command line gives.
var idleArguments = newWordSet(`help short_help epilog metavar options_metavar envvar show_default show_envvar show_choices prompt prompt_required
hidden deprecated hide_input confirmation_prompt autocompletion shell_complete version rich_help_panel`)

// idleInArgparse are further ones of add_argument.
var idleInArgparse = newWordSet(`default choices required`)

// ofCelery are the only named arguments that name modules, of an application of Celery and its settings.
var ofCelery = newWordSet(`include imports config_source packages related_name force namespace CELERY_IMPORTS CELERY_INCLUDE`)

// maxDeclared limits an argument of a declaration, in bytes.
const maxDeclared = 600

// declaration writes a declaration without the arguments that decide nothing.
func (w *writer) declaration() {
	text := w.src
	open := bytes.IndexByte(text, '(')
	end := bracketEnd(text, open)
	callee := string(lastWord(bytes.TrimSpace(text[:open])))
	w.copy(0, open)
	w.token(text[open:open+1], false)
	w.value = false
	w.brackets, w.strings = max(w.brackets, maxDeclared), max(w.strings, maxDeclared)
	some := false
	for i := open + 1; i < end-1; {
		stop := argumentEnd(text[:end-1], i)
		name := argumentName(text[i:stop])
		idle := len(name) > 0 && idleArguments.has(name)
		switch {
		case len(name) == 0:
		case callee == "add_argument":
			idle = idle || idleInArgparse.has(name)
		case callee == "Celery", callee == "update", callee == "autodiscover_tasks":
			idle = !ofCelery.has(name)
		}
		if !idle && !isBlank(text[i:stop]) {
			if some {
				w.token([]byte(","), false)
				w.value = false
			}
			some = true
			w.copy(i, stop)
		}
		i = stop + 1
	}
	w.copy(end-1, len(text))
}

// argumentEnd returns the index of the comma after the argument that begins at i, or the end of the text.
func argumentEnd(text []byte, i int) int {
	for i < len(text) {
		switch c := text[i]; {
		case c == ',':
			return i
		case classes[c] == clOpen:
			i = bracketEnd(text, i)
			continue
		case classes[c] == clQuote:
			i = stringAfter(text, i)
			continue
		case classes[c] == clComment:
			n := bytes.IndexByte(text[i:], '\n')
			if n < 0 {
				return len(text)
			}
			i += n
		case c == 'l' && bytes.HasPrefix(text[i:], []byte("lambda")):
			return len(text)
		}
		i++
	}
	return i
}

// argumentName returns the name of an argument NAME=VALUE, or nil.
func argumentName(text []byte) []byte {
	for {
		text = bytes.TrimLeft(text, " \t\r\n\f\\")
		if len(text) == 0 || text[0] != '#' {
			break
		}
		n := bytes.IndexByte(text, '\n')
		if n < 0 {
			return nil
		}
		text = text[n:]
	}
	n := 0
	for n < len(text) && parts[text[n]] {
		n++
	}
	rest := bytes.TrimLeft(text[n:], " \t\r\n")
	if len(rest) < 2 || rest[0] != '=' || rest[1] == '=' {
		return nil
	}
	return text[:n]
}

// isBlank reports whether a text consists of blanks and comments.
func isBlank(text []byte) bool {
	w := writer{src: text, brackets: maxKept, strings: maxKept}
	w.copy(0, len(text))
	return len(bytes.TrimSpace(w.out)) == 0
}
