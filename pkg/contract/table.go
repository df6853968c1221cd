package contract

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// maxReasons limits the files of a row that Markdown shows.
const maxReasons = 3

// Markdown writes the verdicts as a table for a pull request.
func (img *Image) Markdown(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "## GPUs for %s\n\n", code(img.Ref))
	if len(img.Rows) == 0 {
		b.WriteString("No library or program of the image carries GPU code.\n")
	} else {
		b.WriteString("| GPU | | verdict | from driver | because |\n|---|---|---|---|---|\n")
	}
	sign := map[string]string{fails: "❌ ", string(targets.FitsPartly): "⚠️ ", string(targets.Unsure): "⚠️ "}
	for _, l := range targets.Lines(img.Rows) {
		driver := cell(l.Driver)
		if l.Why != "" {
			driver += " (" + cell(l.Why) + ")"
		}
		var because []string
		for i, r := range l.Because {
			if i == maxReasons {
				because = append(because, fmt.Sprintf("and %d more", len(l.Because)-maxReasons))
				break
			}
			because = append(because, sentence(path.Base(r.Path), r.Says))
		}
		fmt.Fprintf(&b, "| %s | %s | %s%s | %s | %s |\n", l.Arch, cell(l.GPUs), sign[l.Verdict], l.Says, driver, strings.Join(because, "<br>"))
	}
	if img.Compat != "" {
		fmt.Fprintf(&b, "\nOlder drivers may serve: the image has a compatibility driver in %s.\n", code(img.Compat))
	}
	_, err := plain.NewWriter(w, false).Write(b.Bytes())
	return err
}

// sentence returns a reason with its file's name, once.
func sentence(base, says string) string {
	if rest, ok := strings.CutPrefix(says, base); ok {
		return code(base) + cell(rest)
	}
	return code(base) + ": " + cell(says)
}

// cell returns text for a cell of a table, without marks.
func cell(s string) string { return plain.Markdown(plain.Line(s)) }

// code returns text as a code span, also in a cell: a bar ends a cell even in a span, and a
// backtick the span.
func code(s string) string {
	s = strings.NewReplacer("|", "¦", "`", "'").Replace(plain.Line(s))
	if strings.TrimSpace(s) == "" {
		s = " "
	}
	return "`" + s + "`"
}
