package source

import (
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// Builders write the build arguments of an instruction into its history, with their values:
// "RUN |2 PIP_INDEX_URL=https://ci:secret@host/simple A=b /bin/sh -c pip install x"
// (BuildKit's withShell and dispatchRun, and the classic builder's prependEnvOnCmd).
var (
	argumentsOf = regexp.MustCompile(`^(RUN )?\|[0-9]+ `)
	shellOf     = regexp.MustCompile(` (/\S+|cmd|powershell)( \S+){0,4}? (-\S*c|/S /C|-Command) `)
)

// withoutArguments returns an entry of a config's history without the values of build
// arguments and without logins in URLs: a report does not need them.
func withoutArguments(by string) string {
	if m := argumentsOf.FindString(by); m != "" {
		rest := by[len(m)-1:]
		run, _, _ := strings.Cut(m, "|")
		if at := shellOf.FindStringIndex(rest); at != nil {
			by = run + rest[at[0]+1:]
		} else {
			by = run + "…" // where the arguments end is not known
		}
	}
	if name, _, ok := strings.Cut(strings.TrimPrefix(by, "/bin/sh -c #(nop)  "), "="); ok && strings.HasPrefix(name, "ARG ") {
		by = name + "=…"
	}
	return plain.Masked(by)
}
