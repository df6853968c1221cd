// Package envline writes a variable as an instruction of a Dockerfile.
package envline

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Of is the ENV instruction that sets a variable to a value, exactly. The error is
// about one that no Dockerfile can say: its lines would be instructions.
func Of(variable, value string) (string, error) {
	if !name.MatchString(variable) || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return "", fmt.Errorf("a Dockerfile cannot say %q: it has a line break, or what is no text", variable+"="+value)
	}
	if !Plain(value) {
		value = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value) + `"`
	}
	return "ENV " + variable + "=" + value, nil
}

// Plain reports whether a Dockerfile reads a text as it stands: one without blanks,
// quotes, variables and patterns.
func Plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@=,+", r)
	})
}
