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

// line is a row of the table.
type line struct {
	Arch, GPUs string
	Verdict    string // of targets.Row
	Says       string // the verdict in words
	Driver     string
	Why        string // the fact behind the driver
	Because    []reason
}

// reason is a file behind a verdict.
type reason struct{ Path, Says string }

// words are the verdicts in words.
var words = map[string]string{
	string(targets.Fits): "runs", string(targets.FitsByJIT): "runs, compiles PTX at first use", string(targets.FitsPartly): "runs in part",
	string(targets.Unsure): "perhaps runs", fails: "fails",
}

// lines returns the rows of the table.
func (img *Image) lines() []line {
	var list []line
	for _, r := range img.Rows {
		l := line{Arch: r.Arch, GPUs: strings.Join(r.Products, ", "), Verdict: r.Verdict, Says: words[r.Verdict], Because: reasons(r)}
		if r.Verdict != fails {
			l.Driver, l.Why = r.Driver, r.Why
		}
		list = append(list, l)
	}
	return list
}

// reasons returns the files behind a verdict, and the effects that a process meets.
func reasons(r *targets.Row) []reason {
	var list []reason
	for _, f := range r.Failures {
		says := f.Error
		if len(f.Effects) > 0 { // the others are those of further processes
			says = f.Effects[0] + ": " + f.Texts[0]
		}
		list = append(list, reason{f.Path, says})
	}
	for _, s := range r.Partly {
		list = append(list, reason{s.Path, fmt.Sprintf("%d of %d containers have no code for this GPU", s.Containers, s.Of)})
	}
	for _, name := range r.Unsure {
		list = append(list, reason{name, "code that perhaps runs"})
	}
	if r.Verdict == string(targets.FitsByJIT) {
		for _, name := range r.Compiles {
			list = append(list, reason{name, "PTX, which the driver compiles"})
		}
	}
	return list
}

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
	for _, l := range img.lines() {
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

var escape = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "|", `\|`, "#", `\#`, "!", `\!`, "@", "&#64;", "~", `\~`, "`", "&#96;", "://", ":&#47;&#47;")

// cell returns text for a cell of a table, without marks.
func cell(s string) string { return escape.Replace(plain.Line(s)) }

// code returns text as a code span, also in a cell: a bar ends a cell even in a span, and a
// backtick the span.
func code(s string) string {
	s = strings.NewReplacer("|", "¦", "`", "'").Replace(plain.Line(s))
	if strings.TrimSpace(s) == "" {
		s = " "
	}
	return "`" + s + "`"
}
