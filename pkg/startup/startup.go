// Package startup follows the entrypoint and command of an image to the programs that
// run: through shell scripts, `#!` lines, and starters such as tini, env, gosu, torchrun,
// conda run and supervisord. Nothing is executed.
//
// It knows how Docker combines ENTRYPOINT and CMD, the shell's words and variables as far
// as they are known (mvdan.cc/sh), and the options of starters (rules/starters.yaml). It
// does not know what a program does once it runs: for Python that is pkg/pyimport. What
// cannot be known (a variable without a value, a command that computes another) is
// listed, and never guessed.
package startup

// Program is a program that the image's start reaches, in the order of the start.
type Program struct {
	Path string            // the ELF file, with links not followed; "" if it was not found
	Args []string          // argv, with argv[0]
	Env  map[string]string // with what scripts have exported
	Dir  string            // working directory
	// Kind is how the program is known: "python", "node", "java", "" for others.
	Kind string
	// Main is the container's own process: its end is the container's end. Helpers that a
	// script runs and waits for are not.
	Main bool
	// Caught reports that the script goes on if the program fails (`|| true`, `if`, `&`).
	Caught bool
	// Maybe is the condition that is not known under which it runs, or "".
	Maybe string
	// Chain says how the start gets here, first step first.
	Chain []Link
}

// Link is one step of a chain.
type Link struct {
	What string // as in a command line: `ENTRYPOINT ["/entrypoint.sh"]`, `exec "$@"`
	File string // the script that has it; "" for the config
	Line int    // 0 for the config
}

// Unknown is a part of the start that could not be followed.
type Unknown struct {
	File string
	Line int
	Why  string
}
