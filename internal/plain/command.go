package plain

import (
	"bytes"
	"unicode"
)

// line finds commands of CI systems in a line:
//
//   - "::", if only white space precedes it. GitHub's runner trims the line first
//     (ActionCommand.TryParseV2 in actions/runner).
//   - "##[" anywhere, which that runner (ActionCommand.TryParse) and Azure's agent
//     obey, and "##vso[", which Azure's agent obeys (Command.TryParse in
//     microsoft/azure-pipelines-agent). "##teamcity[" is TeamCity's.
//
// A blank inside breaks a command, and people can still read it.
type line struct {
	begun bool // the line has more than white space
	colon bool // and that is one colon
	hash  int  // the state of its end: see below
}

// States of the end of a line.
const (
	noHash = iota
	oneHash
	twoHashes
	hashesWord // two hashes and letters
)

// commands reports whether r would complete the beginning of a command, and adds r to the
// line.
func (l *line) commands(r rune) bool {
	if r == '\n' {
		*l = line{}
		return false
	}
	found := r == ':' && l.colon || r == '[' && l.hash >= twoHashes
	l.colon = r == ':' && !l.begun
	l.begun = l.begun || !blank(r)
	l.hash = l.after(r)
	return found
}

// after returns the state of the line after r.
func (l *line) after(r rune) int {
	switch {
	case r == '#' && (l.hash == oneHash || l.hash == twoHashes):
		return twoHashes
	case r == '#':
		return oneHash
	case l.hash >= twoHashes && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'):
		return hashesWord
	}
	return noHash
}

// ordinary reports whether a whole line is printable ASCII and has no command. Most lines
// are, and need no check of each character.
func ordinary(line []byte) bool {
	for i, c := range line {
		if c < ' ' || c >= '\x7f' || c == '#' && i > 0 && line[i-1] == '#' {
			return false
		}
	}
	return !bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("::"))
}

// blank reports whether CI systems skip a character before a command: white space, or a
// character without width.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }
