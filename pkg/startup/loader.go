package startup

import (
	"regexp"
	"strings"
)

// loaderName matches the names of glibc's and musl's dynamic loaders, and of copies that a
// program brings with it.
var loaderName = regexp.MustCompile(`^ld(64|-linux[-a-z0-9_]*|-musl-[-a-z0-9_]+)?\.so(\.[0-9]+)?$`)

// loader follows a dynamic loader that is called by hand: `ld.so [OPTION]... PROGRAM
// [ARGUMENT]...` (dl_main, elf/rtld.c; __dls3, ldso/dynlink.c).
func (w *walk) loader(p proc, pr Program, v via) {
	w.add(pr)
	args := pr.Args[1:]
	for ; len(args) > 0 && strings.HasPrefix(args[0], "--"); args = args[1:] {
		name, value, joined := strings.Cut(args[0], "=")
		switch name {
		case "--list", "--verify", "--help", "--version", "--list-diagnostics", "--list-tunables":
			return
		case "--inhibit-cache":
			continue
		}
		if !joined && len(args) > 1 {
			value, args = args[1], args[1:]
		}
		switch name {
		case "--library-path":
			p = p.with("LD_LIBRARY_PATH", value)
		case "--preload":
			p = p.with("LD_PRELOAD", value)
		}
	}
	if len(args) == 0 || !Known(args[0]) {
		file, line := v.at()
		w.unknown(file, line, "the program of the loader is not known: "+strings.Join(pr.Args, " "))
		return
	}
	v.loader = pr.Path
	w.exec(p, args, v)
}
