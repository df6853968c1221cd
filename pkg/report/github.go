package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// githubAnnotations is GitHub's limit for the annotations of a kind in a step:
// https://github.com/orgs/community/discussions/26680
const githubAnnotations = 10

// GitHub writes the errors and warnings as workflow commands, which the runner shows as
// annotations, at the line of the Dockerfile if that is known. It writes at most ten of a
// kind; if there are more, the tenth counts the rest.
func GitHub(w io.Writer, d *Document, o Options) error {
	return annotate(w, []*Document{d}, clean(d.Image.Ref))
}

// annotate writes the annotations of documents, the gravest first.
func annotate(w io.Writer, docs []*Document, in string) error {
	type cause struct {
		*Document
		*lint.Finding
	}
	var causes []cause
	for _, s := range packs.Severities[:2] {
		for _, d := range docs {
			for i := range d.Findings {
				if d.Findings[i].Severity == s {
					causes = append(causes, cause{d, &d.Findings[i]})
				}
			}
		}
	}
	b := bufio.NewWriter(w)
	for i, c := range causes {
		d, f := c.Document, c.Finding
		if rest := len(causes) - i; i == githubAnnotations-1 && rest > 1 {
			fmt.Fprintf(b, "::%s title=%s::%s\n", f.Severity, property("imgcheck"), data(fmt.Sprintf("%s more in %s: see the whole report", count(rest), in)))
			break
		}
		text := shortenLines(sentences(d, f), sarifMessage) + "\nImage: " + clean(d.Image.Ref)
		at := ""
		if line := d.lineOf(f); line != nil {
			at = fmt.Sprintf("file=%s,line=%d,endLine=%d,", property(clean(line.File)), line.Line, line.EndLine)
		}
		fmt.Fprintf(b, "::%s %stitle=%s::%s\n", f.Severity, at, property("imgcheck "+f.Rule), data(text))
	}
	return b.Flush()
}

// data and property escape the text and the properties of a workflow command as the
// runner decodes them:
// https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}
