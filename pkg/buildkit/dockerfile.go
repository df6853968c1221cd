package buildkit

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// Dockerfile is the text of the context's Dockerfile. The error is about a variable
// that a Dockerfile has no way to write: its lines would be instructions.
func (c *Context) Dockerfile() (string, error) {
	lines := []string{"# The image below with what imgcheck patch lays over it:"}
	for _, n := range c.notes {
		lines = append(lines, "#   "+plain.Text(n))
	}
	lines = append(lines, "FROM "+c.from)
	for _, k := range c.copies {
		words := append([]string{fmt.Sprintf("COPY --link --from=%s --chown=%s --chmod=%04o", k.image, k.owner, k.mode)}, k.from...)
		lines = append(lines, strings.Join(append(words, strings.TrimSuffix(k.dir, "/")+"/"), " \\\n    "))
	}
	for _, t := range c.trees {
		flags := "--link"
		if t.given.owner != (owner{}) {
			flags += " --chown=" + t.given.owner.String()
		}
		if t.given.mode != 0 {
			flags += fmt.Sprintf(" --chmod=%04o", t.given.mode)
		}
		lines = append(lines, fmt.Sprintf("COPY %s %s/ /", flags, t.name))
	}
	for _, e := range c.env {
		if e.Unset {
			return "", fmt.Errorf("a Dockerfile cannot unset %s: %s", e.Name, instead)
		}
		line, err := envLine(e.Name, e.Value)
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

func (o owner) String() string { return fmt.Sprintf("%d:%d", o.uid, o.gid) }

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// envLine is an ENV instruction of one variable.
func envLine(name, value string) (string, error) {
	if !variable.MatchString(name) || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return "", fmt.Errorf("a Dockerfile cannot say %q: it has a line break, or what is no text: %s", name+"="+value, instead)
	}
	if value != "" && plainWord(value) {
		return "ENV " + name + "=" + value, nil
	}
	return "ENV " + name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value) + `"`, nil
}

// plainWord reports whether a Dockerfile reads a word as it stands: without
// quotes, variables and patterns.
func plainWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@=,+", r)
	})
}
