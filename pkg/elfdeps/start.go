package elfdeps

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// startUp loads and binds what the program needs before it runs.
func (p *Process) startUp(main *Module) error {
	err := p.model.load(main)
	if err == nil {
		return nil // a nil *Error in an error would not be nil
	}
	p.fatal = err
	return err
}

// load is the part of dl_main (elf/rtld.c) that follows the mapping of the
// program.
func (p glibc) load(main *Module) *Error {
	if err := p.stackTunable(main); err != nil {
		return err
	}
	if err := p.follow(p.withPreloads(main), false); err != nil {
		return err
	}
	if err := p.check(false); err != nil || p.trace {
		return err
	}
	return p.binder.bind(main, 0)
}

// withPreloads returns the program and the preloads, whose dependencies are loaded breadth
// first.
func (p *Process) withPreloads(main *Module) []*Module {
	list := []*Module{main}
	for _, pre := range p.model.preloads() {
		m := p.model.preload(pre, main)
		if m == nil {
			continue
		}
		if m.How != "interpreter" {
			m.How = pre.from
		}
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// preload is a name to preload and the source that gave it: "LD_PRELOAD",
// "--preload" or "/etc/ld.so.preload".
type preload struct{ name, from string }

// IgnoredPreload is a preload that the loader cannot use and goes on without.
type IgnoredPreload struct {
	Name string
	From string // "LD_PRELOAD", "--preload" or "/etc/ld.so.preload"
	Err  *Error
}

// String returns the line that the loader prints.
func (i IgnoredPreload) String() string {
	return fmt.Sprintf("ERROR: ld.so: object '%s' from %s cannot be preloaded (%s): ignored.", i.Name, i.From, i.Err.Message)
}

// preload is map_doit (elf/rtld.c): the program is the requester. It returns
// nil, after a warning, for a file that cannot be used.
func (p glibc) preload(pre preload, main *Module) *Module {
	p.preloading = true
	defer func() { p.preloading = false }()
	m, err := p.request(pre.name, main, false)
	if err != nil {
		ignored := IgnoredPreload{pre.name, pre.from, err}
		p.Ignored, p.Warnings = append(p.Ignored, ignored), append(p.Warnings, ignored.String())
		return nil
	}
	return m
}

// preloads returns the names in LD_PRELOAD, then those of --preload, then
// those in /etc/ld.so.preload. Secure mode drops names of the first two that have
// a slash or more than 255 bytes (dso_name_valid_for_suid, elf/rtld.c).
func (p glibc) preloads() []preload {
	l := p.Loader
	list := append(split(l.env.get("LD_PRELOAD"), ": ", "LD_PRELOAD"), l.preload...)
	if p.secure {
		list = slices.DeleteFunc(list, func(pre preload) bool { return strings.Contains(pre.name, "/") || len(pre.name) > 255 })
	}
	return append(list, l.preloadFile...)
}

// withoutComments replaces the comments in ld.so.preload by blanks, as dl_main
// (elf/rtld.c) does. It keeps a fault of dl_main: each search for a # starts at the
// beginning of the file, but its length is that of the rest behind the last
// comment, so that later comments can be missed.
func withoutComments(content []byte) string {
	b := slices.Clone(content)
	for rest := len(b); rest > 0; {
		i := bytes.IndexByte(b[:rest], '#')
		if i < 0 {
			break
		}
		rest -= i
		for {
			b[i] = ' '
			rest--
			i++
			if rest <= 0 || b[i] == '\n' {
				break
			}
		}
	}
	return string(b)
}

// split splits s at any of the separators; from names the source of s.
func split(s, separators, from string) []preload {
	var list []preload
	for _, n := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		list = append(list, preload{n, from})
	}
	return list
}
