package packs

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Folder is a directory of which a program in Python imports each module, by the file of the
// module, and goes on without one that fails.
type Folder struct {
	ID    string `yaml:"id"`
	Title string `yaml:"title"` // of the program
	// Beside are the paths of files, from the directory of the program's file, that tell the
	// program. All must exist.
	Beside []string `yaml:"beside"`
	Dir    string   `yaml:"dir"`  // from the directory of the program's file
	What   string   `yaml:"what"` // what the program calls one module of the directory
	// Skip are patterns of the names in the directory that the program leaves out.
	Skip []string `yaml:"skip"`
	// Unless are options of the program with which it takes another directory, or none.
	Unless []string `yaml:"unless"`
	// First is a file of each directory in it that the program executes before all modules, or "".
	First string `yaml:"first"`
	// Installers are patterns of the names of programs that may install what a module lacks: a
	// failure is in doubt if the module, or the image's start, runs one.
	Installers []string `yaml:"installers"`
	// Effect is what a user meets. {name} is the name in the directory.
	Effect  string   `yaml:"effect"`
	Sources []string `yaml:"sources"`
}

// Opens reports whether a program with these arguments, whose file lies beside the files of
// [Folder.Beside], imports the directory.
func (f *Folder) Opens(args []string) bool {
	return !slices.ContainsFunc(args, func(a string) bool {
		option, _, _ := strings.Cut(a, "=")
		return slices.Contains(f.Unless, option)
	})
}

// Installs reports whether a program, by its arguments, may install what a module lacks.
func (f *Folder) Installs(argv []string) bool {
	return slices.ContainsFunc(argv, func(a string) bool { return MatchAny(f.Installers, path.Base(a)) })
}

// Takes reports whether the program imports what has a name in the directory.
func (f *Folder) Takes(name string) bool { return !MatchAny(f.Skip, name) }

func (f *Folder) validate() error {
	if f.ID == "" || f.Title == "" || len(f.Beside) == 0 || f.Dir == "" || f.What == "" || f.Effect == "" || len(f.Sources) == 0 {
		return fmt.Errorf("folders %q: needs an id, a title, files beside the program (beside), a dir, what its modules are, an effect, and sources", f.ID)
	}
	for _, p := range append(f.Beside[:len(f.Beside):len(f.Beside)], f.Dir) {
		if path.IsAbs(p) || strings.HasPrefix(path.Clean(p), "..") {
			return fmt.Errorf("folders %q: %q is not below the directory of the program", f.ID, p)
		}
	}
	return checkPatterns("folders "+f.ID, slices.Concat(f.Skip, f.Installers))
}
