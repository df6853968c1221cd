package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/explain"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/scan"
	knowledge "github.com/imgcheck/imgcheck/rules"
)

// maxLog limits the length of a log in bytes.
const maxLog = 64 << 20

func explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "explain an error text",
		UsageText: "imgcheck explain [options] TEXT | FILE | - | RULE-ID",
		Description: "TEXT is a line of an error. FILE, or - for the standard input, is a log, of which the first line\n" +
			"that has a cause of its own is explained. The answers are possible causes, the likeliest first, each with\n" +
			"a way to confirm it. --image scans the image that the text is from: causes that the scan finds\n" +
			"come first, with the file, the layer and the fix for this image. A rule's ID prints its page.\n\n" +
			"The exit status is 0 if there is an answer, 1 if the text is unknown, and 2 for an error.\n\n" +
			"Examples:\n" +
			"   imgcheck explain 'libcudnn.so.9: cannot open shared object file'\n" +
			"   docker logs app 2>&1 | imgcheck explain -\n" +
			"   imgcheck explain --image app:1.0 build.log",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "image", Usage: "scan `IMAGE`, where the text comes from, and name the file and the layer"},
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answers: text or json"},
		}, fromEnvironment(append(imageFlags(), rulesFlag()))...),
		Action: func(c *cli.Context) error {
			write, ok := explainFormats[c.String("format")]
			if !ok {
				return fmt.Errorf("there is no format %q: say text or json", c.String("format"))
			}
			if c.NArg() == 0 {
				return errors.New("explain needs a text, a rule's ID or -: see `imgcheck explain --help`")
			}
			rules, err := rulesIn(c.StringSlice("rules"))
			if err != nil {
				return err
			}
			set, err := rules.Packs()
			if err != nil {
				return err
			}
			x, err := explain.New(set)
			if err != nil {
				return fmt.Errorf("reading the rule packs: %w", err)
			}
			text := strings.Join(c.Args().Slice(), " ")
			if page := pageOf(set, x, text); page != "" {
				_, err := io.WriteString(plain.NewWriter(c.App.Writer, false), page)
				return err
			}
			if text, err = textOf(text); err != nil {
				return err
			}
			if strings.TrimSpace(text) == "" {
				return errors.New("there is no text to explain: give a line of the error, or - and a log on the standard input")
			}
			if err := x.ReadReports(knowledge.FS); err != nil {
				return fmt.Errorf("reading the known reports: %w", err)
			}
			r := x.Explain(text)
			if len(r.Answers) == 0 && strings.Contains(text, "-") && len(strings.Fields(text)) == 1 && nearRule(set, text) != "" {
				return noRule(set, text)
			}
			if ref := c.String("image"); ref != "" {
				if err := inImage(c, x, r, ref, rules); err != nil {
					return err
				}
			}
			if err := write(r, c.App.Writer); err != nil {
				return err
			}
			if len(r.Answers) == 0 {
				return errFindings // status 1 without another message
			}
			return nil
		},
	}
}

// pageOf returns the page of a rule or a case, or "" if id is neither.
func pageOf(set *packs.Packs, x *explain.Explainer, id string) string {
	if r, err := ruleNamed(set, id); err == nil {
		return r.Page()
	}
	return x.Page(id)
}

// inImage adds to the answers the findings of a scan of the image.
func inImage(c *cli.Context, x *explain.Explainer, r *explain.Result, ref string, rules *scan.Rules) error {
	o, err := imageOptions(c)
	if err != nil {
		return err
	}
	shown := watch(c, &o)
	doc, err := scanImage(c.Context, ref, scan.Options{Layers: o, Rules: rules, NoPlan: true})
	shown.done()
	if err != nil {
		return err
	}
	x.InImage(r, ref, doc.Findings)
	return nil
}

var explainFormats = map[string]func(*explain.Result, io.Writer) error{
	"text": func(r *explain.Result, w io.Writer) error { return r.Text(w, columns(w)) },
	"json": (*explain.Result).JSON,
}

// textOf returns the text to explain. It reads the standard input for "-" and the file for the
// name of one; any other argument is the text itself.
func textOf(arg string) (string, error) {
	if arg == "-" {
		return readLog(os.Stdin, "the standard input")
	}
	if info, err := os.Stat(arg); err != nil || !info.Mode().IsRegular() {
		return arg, nil // the argument is the text
	}
	f, err := os.Open(arg)
	if err != nil {
		return "", fmt.Errorf("reading the log: %w", err)
	}
	defer f.Close()
	return readLog(f, arg)
}

// readLog reads a log of at most maxLog bytes.
func readLog(r io.Reader, name string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxLog+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	if len(b) > maxLog {
		return "", fmt.Errorf("the log is longer than %d MB: give the part around the error", maxLog>>20)
	}
	return string(b), nil
}
