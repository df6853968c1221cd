// Package wrap breaks text into lines for people.
package wrap

import (
	"strings"
	"unicode/utf8"
)

// Words breaks a text between its words into lines of at most width characters. A longer
// word gets a line of its own. A width of 0 or less breaks nothing.
func Words(text string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(text) <= width && !strings.Contains(text, "\n") {
		return []string{text}
	}
	var lines []string
	length := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if len(lines) == 0 || length+1+n > width {
			lines, length = append(lines, word), n
			continue
		}
		lines[len(lines)-1] += " " + word
		length += 1 + n
	}
	return lines
}
