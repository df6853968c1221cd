package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/imgcheck/imgcheck/internal/outfile"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// outputFlags are those of every command that writes a report.
func outputFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the report: " + oneOf(report.Names)},
		&cli.StringSliceFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the report to `[FORMAT=]FILE`; FORMAT=FILE may be repeated, and adds to what --format writes"},
		&cli.StringFlag{Name: "category", Usage: "tell this scan from others of one commit by `NAME`, in SARIF and for GitLab", DefaultText: "the image without its digest, and the platform"},
	}
}

// output is one report to write.
type output struct {
	format report.Format
	file   string // empty: the standard output
}

type outputs []output

// parseOutputs reads --format and every --output. FILE alone takes the place of
// the standard output, FORMAT=FILE stands beside it.
func parseOutputs(format string, list []string) (outputs, error) {
	main, err := formatNamed(cmp.Or(format, "text"))
	if err != nil {
		return nil, err
	}
	first := output{format: main}
	var more outputs
	for _, s := range list {
		name, file, ok := strings.Cut(s, "=")
		if !ok || strings.ContainsAny(name, "/.") {
			if first.file != "" {
				return nil, fmt.Errorf("--output %s: the report in --format goes to %s already: say --output FORMAT=%s for another", s, first.file, s)
			}
			first.file = s
			continue
		}
		f, err := formatNamed(name)
		if err != nil {
			return nil, fmt.Errorf("--output %s: %w (for a file of that name, say ./%s)", s, err, s)
		}
		if file == "" {
			return nil, fmt.Errorf("--output %s: needs a file after the =", s)
		}
		more = append(more, output{f, file})
	}
	if slices.ContainsFunc(more, output.toStdout) && first.toStdout() {
		first.file = os.DevNull // FORMAT=- is instead of --format
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
		if err := outfile.Check(o.file); err != nil { // told before the image is read
			return nil, unwritten(o.file, err)
		}
		all = append(all, o)
	}
	return all, nil
}

func (o output) toStdout() bool { return o.file == "" || o.file == "-" }

func formatNamed(name string) (report.Format, error) {
	f, ok := report.Formats[name]
	if !ok {
		return nil, fmt.Errorf("there is no format %q: say %s", name, oneOf(report.Names))
	}
	return f, nil
}

// oneOf is a list in words: a, b or c.
func oneOf(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// write writes every report, those to files first: each appears whole or not
// at all, and what is on the standard output does not stand there beside a
// failure to write another.
func (all outputs) write(c *cli.Context, doc *report.Document, o report.Options) error {
	o.Version, o.Category = version(), c.String("category")
	for _, out := range all {
		if out.file == "" {
			continue
		}
		if err := writeFile(out.file, func(w io.Writer) error { return out.format(w, doc, o) }); err != nil {
			return err
		}
	}
	o = fitted(c.App.Writer, o)
	for _, out := range all {
		if out.file == "" {
			return out.format(c.App.Writer, doc, o)
		}
	}
	return nil
}

// fitted are a report's options with what the writer can show.
func fitted(w io.Writer, o report.Options) report.Options {
	o.Color, o.Width = colored(w), columns(w)
	return o
}

// columns is the width of a terminal; 0 for what is none, or too narrow to break
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

// colored reports whether w is a terminal that shows colours, and nobody has said
// that there shall be none (https://no-color.org).
func colored(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// writeFile writes a file that a user named; an error says which.
func writeFile(name string, write func(io.Writer) error) error {
	if err := outfile.Write(name, 0o644, write); err != nil {
		return unwritten(name, err)
	}
	return nil
}

// unwritten is an error of writing a file, which names it and not the one
// that was to become it.
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
