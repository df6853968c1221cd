package size

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// This file keeps files of classes that the image's start reads, though no process maps them: a
// package manager that it runs installs from its cache, and a compiler reads headers.

// words splits a command line, or a step of the start, into its words.
var words = regexp.MustCompile(`[^\s;|&()"'` + "`" + `,\[\]]+`)

// commands returns the command lines of the image's start as words: of programs, of the steps that lead
// to them, and of its scripts, also those that run only if its user sets a variable.
func (f *finder) commands() [][]string {
	s := f.Evidence.Started
	if s == nil {
		return nil
	}
	var list [][]string
	for i := range s.Programs {
		p := &s.Programs[i]
		line := []string{p.Path, p.File}
		for _, a := range p.Args {
			line = append(line, words.FindAllString(a, -1)...)
		}
		if p.Python != nil {
			line = append(line, p.Python.Module, p.Python.File)
			line = append(line, p.Python.Args...)
		}
		list = append(list, line)
		for _, l := range p.Chain {
			list = append(list, words.FindAllString(l.What, -1))
		}
	}
	if line := f.Evidence.Config.Healthcheck(); line != nil {
		list = append(list, words.FindAllString(strings.Join(line, " "), -1))
	}
	for _, p := range slices.Sorted(maps.Keys(f.scripts())) {
		if e, _, ok := f.FS.Lookup(p); ok && isScript(e) {
			list = append(list, linesOf(string(e.Content))...)
		}
	}
	return list
}

// scripts returns the paths of the scripts of the image's start.
func (f *finder) scripts() map[string]bool {
	s := f.Evidence.Started
	if s == nil {
		return nil
	}
	scripts := map[string]bool{s.Path: true}
	for i := range s.Programs {
		p := &s.Programs[i]
		for _, l := range p.Chain {
			scripts[l.File] = true
		}
		scripts[p.File] = true
	}
	delete(scripts, "")
	return scripts
}

// linesOf returns the words of a script's lines, without comments.
func linesOf(text string) (list [][]string) {
	for _, line := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, words.FindAllString(line, -1))
		}
	}
	return list
}

// withoutUsed returns a class without the files that the image's start reads, nil if that is all of
// it, and what it keeps.
func (f *finder) withoutUsed(c *Class, commands [][]string) (*Class, []Kept) {
	var kept []Kept
	for _, u := range c.Users {
		by := f.uses(&u, commands)
		files := u.Paths
		if len(files) == 0 {
			files = c.Paths
		}
		switch {
		case by == "" || len(files) > 0 && !f.hasAny(files):
			continue
		case len(u.Paths) == 0:
			return nil, []Kept{{c.ID, c.Title, by}}
		}
		less := *c
		less.Except = slices.Concat(c.Except, u.Paths)
		c = &less
		kept = append(kept, Kept{c.ID, "files in " + strings.Trim(u.Paths[0], "/*"), by})
	}
	return c, kept
}

// hasAny reports whether containers have a file of some patterns.
func (f *finder) hasAny(patterns []string) bool {
	for e := range f.FS.All() {
		if !e.IsDir() && packs.MatchAny(patterns, e.Path) {
			return true
		}
	}
	return false
}

// uses returns which of a user's programs, modules and libraries the image's start has, or "".
func (f *finder) uses(u *User, commands [][]string) string {
	for _, line := range commands {
		at := slices.IndexFunc(line, func(w string) bool { return packs.MatchAny(u.Programs, path.Base(w)) })
		if at < 0 || slices.ContainsFunc(line, func(w string) bool { return slices.Contains(u.Without, w) }) {
			continue
		}
		is := func(w string) bool { return slices.Contains(u.Commands, w) }
		if len(u.Commands) == 0 {
			return path.Base(line[at])
		}
		if i := slices.IndexFunc(line[at+1:], is); i >= 0 {
			return path.Base(line[at]) + " " + line[at+1+i]
		}
	}
	for _, name := range u.Texts {
		if slices.ContainsFunc(commands, func(line []string) bool { return len(line) == 1 && line[0] == name }) {
			return name
		}
	}
	for _, m := range u.Modules {
		for p := range f.used {
			if strings.HasSuffix(p, "/"+m) {
				return m
			}
		}
	}
	for _, p := range f.Evidence.Processes {
		for _, m := range p.Loaded {
			if m.Object != nil && m.Object.Soname != "" && packs.MatchAny(u.Libraries, m.Object.Soname) {
				return m.Object.Soname
			}
		}
	}
	return ""
}
