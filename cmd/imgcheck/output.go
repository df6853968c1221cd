package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/imgcheck/imgcheck/internal/outfile"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/pkg/templates"
)

// outputFlags returns the flags of every command that writes a report.
func outputFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the report: " + oneOf(report.Names)},
		&cli.StringSliceFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the report to `[FORMAT=]FILE`, without --format in the format that .json, .sarif, .xml (JUnit), .md or .html tells; FORMAT=FILE adds a report to the one of --format, and may be repeated"},
		&cli.StringFlag{Name: "category", Usage: "distinguish this scan from others of the same commit by `NAME`, in SARIF and for GitLab", DefaultText: "the image without its digest, and the platform"},
	}
}

// templateFlag returns the flag of every command that writes a report of images by a template.
func templateFlag() cli.Flag {
	return &cli.StringFlag{Name: "template", Usage: "write the report by the Go template `FILE` or @NAME (@" + strings.Join(templates.Names(), ", @") + ") instead of --format"}
}

// output is a report to write.
type output struct {
	format string // its name
	file   string // empty: the standard output
	// template writes the report if format is byTemplate.
	template *templates.Template
}

// byTemplate is the format of the report of --template, in place of that of --format.
const byTemplate = "template"

// formats are those that a command knows.
type formats struct {
	names []string
	// suffixes are the formats that a file's name tells.
	suffixes map[string]string
}

// reports are the formats of a report.
var reports = formats{report.Names, map[string]string{".json": "json", ".sarif": "sarif", ".xml": "junit", ".md": "markdown", ".html": "html"}}

type outputs []output

// outputsOf returns the reports that the flags of a command ask for.
func outputsOf(c *cli.Context, known formats) (outputs, error) {
	format := ""
	if c.IsSet("format") {
		format = c.String("format")
	}
	name := c.String("template")
	if name == "" {
		return known.parse(format, c.StringSlice("output"))
	}
	if format != "" {
		return nil, errors.New("--format and --template are two forms of one report: say one of them, and -o FORMAT=FILE for another report")
	}
	t, err := templateNamed(name)
	if err != nil {
		return nil, fmt.Errorf("--template: %w", err)
	}
	known.names = append(slices.Clip(known.names), byTemplate)
	outs, err := known.parse(byTemplate, c.StringSlice("output"))
	for i := range outs {
		if outs[i].format == byTemplate {
			outs[i].template = t
		}
	}
	return outs, err
}

// have reports whether one of the reports has a format.
func (o outputs) have(format string) bool {
	return slices.ContainsFunc(o, func(out output) bool { return out.format == format })
}

// maxTemplate bounds a template, in bytes.
const maxTemplate = 1 << 20

// templateNamed reads and checks the template of --template.
func templateNamed(name string) (*templates.Template, error) {
	if own, ok := strings.CutPrefix(name, "@"); ok {
		text, err := templates.Example(own)
		if err != nil {
			return nil, err
		}
		return templates.Parse(name, text)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, source.PathError(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTemplate+1))
	if err != nil {
		return nil, source.PathError(err)
	}
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("%s is larger than %d KiB", name, maxTemplate>>10)
	}
	return templates.Parse(path.Base(name), string(text))
}

// writeBy writes a set by the template of these reports.
func (all outputs) writeBy(w io.Writer, set *report.Set) error {
	i := slices.IndexFunc(all, func(o output) bool { return o.template != nil })
	return all[i].template.Write(w, set)
}

// formatOf returns the format that the suffix of the first FILE tells, or text. A file of
// .sarif.json is SARIF.
func (known formats) formatOf(list []string) string {
	for _, s := range list {
		if _, ok := formatOfFile(s); ok {
			continue
		}
		if strings.HasSuffix(s, ".sarif.json") {
			return "sarif"
		}
		return cmp.Or(known.suffixes[path.Ext(s)], "text")
	}
	return "text"
}

// formatOfFile returns the FORMAT of FORMAT=FILE.
func formatOfFile(s string) (format string, ok bool) {
	name, _, ok := strings.Cut(s, "=")
	return name, ok && !strings.ContainsAny(name, "/.")
}

// parse parses --format and every --output. FILE replaces the standard output, and
// its suffix tells the format if there is no --format; FORMAT=FILE adds a report.
func (known formats) parse(format string, list []string) (outputs, error) {
	main, err := known.named(cmp.Or(format, known.formatOf(list)))
	if err != nil {
		return nil, err
	}
	first := output{format: main}
	var more outputs
	for _, s := range list {
		name, ok := formatOfFile(s)
		_, file, _ := strings.Cut(s, "=")
		if !ok {
			if first.file != "" {
				return nil, fmt.Errorf("--output %s: the report in --format goes to %s already: say --output FORMAT=%s for another", s, first.file, s)
			}
			first.file = s
			continue
		}
		f, err := known.named(name)
		if err == nil && f == byTemplate {
			err = errors.New("the report of --template goes to the FILE of -o FILE")
		}
		if err != nil {
			return nil, fmt.Errorf("--output %s: %w (for a file of that name, say ./%s)", s, err, s)
		}
		if file == "" {
			return nil, fmt.Errorf("--output %s: needs a file after the =", s)
		}
		more = append(more, output{format: f, file: file})
	}
	if slices.ContainsFunc(more, output.toStdout) && first.toStdout() {
		first.file = os.DevNull // FORMAT=- replaces --format
	}
	seen := map[string]bool{}
	var all outputs
	for _, o := range append(outputs{first}, more...) {
		if o.toStdout() {
			o.file = ""
		}
		if seen[o.file] {
			return nil, fmt.Errorf("--output: two reports would go to %s", cmp.Or(o.file, "the standard output"))
		}
		seen[o.file] = true
		if o.file == os.DevNull {
			continue
		}
		if err := outfile.Check(o.file); err != nil { // before the image is read
			return nil, unwritten(o.file, err)
		}
		all = append(all, o)
	}
	return all, nil
}

func (o output) toStdout() bool { return o.file == "" || o.file == "-" }

// named returns the name of a format, or an error if there is no such one.
func (known formats) named(name string) (string, error) {
	if !slices.Contains(known.names, name) {
		return "", fmt.Errorf("there is no format %q: say %s", name, oneOf(known.names))
	}
	return name, nil
}

// oneOf returns "a, b or c".
func oneOf(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// write writes a document in every report, files first.
func (all outputs) write(c *cli.Context, doc *report.Document, o report.Options) error {
	o.Version, o.Category = version(), c.String("category")
	return all.each(c.App.Writer, func(format string, w io.Writer) error {
		if w == c.App.Writer {
			o = fitted(w, o)
		}
		if format == byTemplate {
			return all.writeBy(w, report.NewSet(doc.Imgcheck, []report.Scanned{{Ref: doc.Image.Ref, Report: doc}}))
		}
		return report.Formats[format](w, doc, o)
	})
}

// writeSet writes several images in every report, files first.
func (all outputs) writeSet(c *cli.Context, set *report.Set, o report.Options) error {
	o.Version, o.Category = version(), c.String("category")
	return all.each(c.App.Writer, func(format string, w io.Writer) error {
		if w == c.App.Writer {
			o = fitted(w, o)
		}
		if format == byTemplate {
			return all.writeBy(w, set)
		}
		return report.SetFormats[format](w, set, o)
	})
}

// each calls a function for every report, files first. Each file is written whole or not at
// all, and the standard output only if all files were written.
func (all outputs) each(stdout io.Writer, write func(format string, w io.Writer) error) error {
	for _, out := range all {
		if out.file == "" {
			continue
		}
		if err := writeFile(out.file, func(w io.Writer) error { return write(out.format, w) }); err != nil {
			return err
		}
	}
	for _, out := range all {
		if out.file == "" {
			return write(out.format, stdout)
		}
	}
	return nil
}

// fitted returns a report's options with the colours and the width of the writer.
func fitted(w io.Writer, o report.Options) report.Options {
	o.Color, o.Width = colored(w), columns(w)
	return o
}

// columns returns the width of a terminal; 0 if w is none, or is too narrow to break
// lines for.
func columns(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil || width < 40 {
		return 0
	}
	return width
}

// colored reports whether w is a terminal for colours, or FORCE_COLOR asks for them
// (https://force-color.org), and NO_COLOR is not set (https://no-color.org).
func colored(w io.Writer) bool {
	if force := os.Getenv("FORCE_COLOR"); force != "" && force != "0" && os.Getenv("NO_COLOR") == "" {
		return true
	}
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// writeFile writes a file that a user named; the error has the name.
func writeFile(name string, write func(io.Writer) error) error {
	if err := outfile.Write(name, 0o644, write); err != nil {
		return unwritten(name, err)
	}
	return nil
}

// unwritten returns an error of writing a file with the user's name for it, not with the
// name of the temporary file.
func unwritten(name string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fmt.Errorf("writing %s: %w", name, err)
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
