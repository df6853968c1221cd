package dockerfile

import (
	"regexp"
	"strings"
)

var (
	argument  = regexp.MustCompile(`^(\s*(?i:ARG)\s+)([A-Za-z_][A-Za-z0-9_]*)(=\S*)?\s*$`)
	plainText = regexp.MustCompile(`^[A-Za-z0-9_.:/@+,=-]*$`)
)

// WithArguments returns a Dockerfile in which build arguments have the values of a build, in
// the same lines. An ARG of several variables or lines, and a value that needs quotes, are
// left as they are.
func WithArguments(text []byte, args map[string]string) []byte {
	if len(args) == 0 {
		return text
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if i > 0 && strings.HasSuffix(strings.TrimRight(lines[i-1], " \t\r"), `\\`) {
			continue // of another instruction
		}
		m := argument.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if value, ok := args[m[2]]; ok && plainText.MatchString(value) {
			lines[i] = m[1] + m[2] + "=" + value
		}
	}
	return []byte(strings.Join(lines, "\n"))
}
