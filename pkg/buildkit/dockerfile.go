package buildkit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/envline"
	"github.com/imgcheck/imgcheck/internal/plain"
)

// Dockerfile returns the text of the context's Dockerfile. It fails for a variable that
// a Dockerfile cannot express: its lines would be instructions.
func (c *Context) Dockerfile() (string, error) {
	lines := []string{"# The image below with what imgcheck patch lays over it:"}
	for _, n := range c.notes {
		lines = append(lines, "#   "+plain.Text(n))
	}
	if !c.Alone() {
		lines = append(lines, "# Its context is the directory of this file.")
	}
	lines = slices.Concat(lines, c.stages, []string{"FROM " + c.from}, c.lines)
	for _, k := range c.copies {
		words := append([]string{fmt.Sprintf("COPY --link --from=%s --chown=%s --chmod=%s", k.image, k.owner, octal(k.mode))}, k.from...)
		lines = append(lines, strings.Join(append(words, strings.TrimSuffix(k.dir, "/")+"/"), " \\\n    "))
	}
	for _, t := range c.trees {
		flags := "--link"
		if t.given.owner != (owner{}) {
			flags += " --chown=" + t.given.owner.String()
		}
		if t.given.chmod != "" {
			flags += " --chmod=" + t.given.chmod
		}
		lines = append(lines, fmt.Sprintf("COPY %s %s/ /", flags, t.name))
	}
	for _, e := range c.env {
		if e.Unset {
			return "", fmt.Errorf("a Dockerfile cannot unset %s: %s", e.Name, instead)
		}
		line, err := envline.Of(e.Name, e.Value)
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, instead)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

func (o owner) String() string { return fmt.Sprintf("%d:%d", o.uid, o.gid) }
