package plain

import (
	"bytes"
	"unicode"
)

// line finds in a line what a CI system takes for a command:
//
//   - "::", where only white space stands before it. GitHub's runner trims the line
//     first (ActionCommand.TryParseV2 in actions/runner).
//   - "##[" anywhere, which that runner (ActionCommand.TryParse) and Azure's agent
//     obey, and "##vso[", which Azure's agent obeys (Command.TryParse in
//     microsoft/azure-pipelines-agent). "##teamcity[" is TeamCity's.
//
// A blank inside keeps either from being one, and people can still read it.
type line struct {
	begun bool // something but white space was seen
	colon bool // and it is one colon
	hash  int  // what the line ends with: see below
}

// What a line ends with.
const (
	noHash = iota
	oneHash
	twoHashes
	hashesWord // two and letters
)

// commands reports whether r would complete the beginning of a command, and takes
// it in.
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

// after returns what the line ends with behind r.
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

// ordinary reports whether a whole line is of printable ASCII and holds no command:
// most are, and nothing has to be looked at character by character.
func ordinary(line []byte) bool {
	for i, c := range line {
		if c < ' ' || c >= '\x7f' || c == '#' && i > 0 && line[i-1] == '#' {
			return false
		}
	}
	return !bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("::"))
}

// blank reports whether a character before a command is passed over: white space, or
// what has no width.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }
