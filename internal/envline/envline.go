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

// Of returns the ENV instruction that sets a variable to exactly this value. It fails for
// a value that no instruction can hold, because its lines would be instructions
// themselves.
func Of(variable, value string) (string, error) {
	if !name.MatchString(variable) || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return "", fmt.Errorf("a Dockerfile cannot set %q: it has a line break or is not text", variable+"="+value)
	}
	if !Plain(value) {
		value = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value) + `"`
	}
	return "ENV " + variable + "=" + value, nil
}

// Plain reports whether a Dockerfile reads s unchanged: s has no blanks, quotes,
// variables or patterns.
func Plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@=,+", r)
	})
}
