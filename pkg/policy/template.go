package policy

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed template.yaml
var template string

// Template returns a file to start from. Every key is explained and commented out, except
// images if there are any.
func Template(images []string) string {
	if len(images) == 0 {
		return template
	}
	before, rest, _ := strings.Cut(template, "#images:\n")
	_, after, _ := strings.Cut(rest, "\n\n")
	var b strings.Builder
	b.WriteString(before + "images:\n")
	for _, im := range images {
		fmt.Fprintf(&b, "  - %q\n", im)
	}
	return b.String() + "\n" + after
}
