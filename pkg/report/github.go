package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// githubAnnotations is GitHub's limit for the annotations of a kind in a step:
// https://github.com/orgs/community/discussions/26680
const githubAnnotations = 10

// GitHub writes the errors and warnings as workflow commands, which the runner shows as
// annotations, at the line of the Dockerfile if that is known. It writes at most ten; if there are
// more, the tenth counts the rest.
func GitHub(w io.Writer, d *Document, o Options) error {
	return writeAnnotations(w, annotations([]*Document{d}, []string{clean(d.Image.Ref)}), clean(d.Image.Ref))
}

// annotation is one annotation of a workflow.
type annotation struct {
	level, at, title string
	text             func() string // of many, ten are shown
	images           []string      // that it is about
}

// annotations returns those of documents with their names, the gravest first. Problems
// that several images have in the same way, with the same lines to resolve them, are one annotation.
func annotations(docs []*Document, names []string) []*annotation {
	type key struct{ severity, rule, cause, effect, lines, at string }
	seen := map[key]*annotation{}
	var list []*annotation
	for _, severity := range packs.Severities[:2] {
		for n, d := range docs {
			for i := range d.Findings {
				f := &d.Findings[i]
				if f.Severity != severity {
					continue
				}
				at := ""
				if line := d.lineOf(f); line != nil {
					at = fmt.Sprintf("file=%s,line=%d,endLine=%d,", property(clean(line.File)), line.Line, line.EndLine)
				}
				k := key{string(severity), f.Rule, f.Cause + "\x00" + f.Message, "", snippetText(d, f), at}
				if e := mainEffect(f); e != nil {
					k.effect = e.Text
				}
				if a := seen[k]; a != nil && !slices.Contains(a.images, names[n]) {
					a.images = append(a.images, names[n])
					continue
				}
				text := func() string { return shortenLines(sentences(d, f), sarifMessage) }
				a := &annotation{string(severity), at, "imgcheck " + f.Rule, text, []string{names[n]}}
				seen[k] = a
				list = append(list, a)
			}
		}
	}
	return list
}

// writeAnnotations writes as many as GitHub shows. The last one counts those that it leaves out.
func writeAnnotations(w io.Writer, list []*annotation, in string) error {
	b := bufio.NewWriter(w)
	for i, a := range list {
		if rest := len(list) - i; i == githubAnnotations-1 && rest > 1 {
			fmt.Fprintf(b, "::%s title=%s::%s\n", a.level, property("imgcheck"), data(fmt.Sprintf("%s more in %s: see the whole report", count(rest), in)))
			break
		}
		text := a.text()
		switch n := len(a.images); {
		case n == 1:
			text += "\nImage: " + a.images[0]
		case n > 1:
			text += fmt.Sprintf("\n%s: %s", plural(n, "image"), some(a.images))
		}
		fmt.Fprintf(b, "::%s %stitle=%s::%s\n", a.level, a.at, property(a.title), data(text))
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
