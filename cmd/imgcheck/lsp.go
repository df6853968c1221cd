package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/lsp"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyindex"
)

func lspCommand() *cli.Command {
	return &cli.Command{
		Name:      "lsp",
		Usage:     "show the findings of lint in an editor",
		UsageText: "imgcheck lsp [options]",
		Description: "lsp is a language server: an editor starts it for Dockerfiles, writes to its standard input and reads\n" +
			"its standard output. It shows the findings of `imgcheck lint` at their lines, the rule's page, and\n" +
			"changes of the file that help. Base images are read when a file is opened or saved.\n\n" +
			"Examples:\n" +
			"   imgcheck lsp\n" +
			"   imgcheck lsp --offline",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "context", Usage: "the `DIRECTORY` of the build context, from which requirements files are read", DefaultText: "that of the Dockerfile"},
			&cli.StringFlag{Name: "index", Value: pyindex.PyPI, Usage: "the `URL` of the package index that is asked what a package requires, or none"},
			askIndexFlag(),
			&cli.BoolFlag{Name: "offline", Usage: "read no base images and package indexes, and predict nothing that depends on them"},
			rulesFlag(), configFlag(),
		}, imageFlags())),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return fmt.Errorf("lsp takes no arguments: the editor names the files")
			}
			l, err := newLinting(c)
			if err != nil {
				return err
			}
			l.progress.done() // the editor shows nothing of it
			set, err := l.decided.rules.Packs()
			if err != nil {
				return err
			}
			rules := map[string]*packs.Rule{}
			for _, r := range slices.Concat(set.Rules, l.known.Rules()) {
				rules[r.ID] = r
			}
			return lsp.Serve(c.Context, c.App.Reader, unclosed{c.App.Writer}, lsp.Options{Lint: l.document, Rule: func(id string) *packs.Rule { return rules[id] }, Version: version()})
		},
	}
}

// unclosed is a writer that is not closed with a server.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// document lints the text of an editor, which weighs as in imgcheck lint. If ask is set, base
// images that could not be read are asked for again.
func (l *linting) document(ctx context.Context, path string, text []byte, ask bool) *dockerlint.File {
	if l.typed = !ask; ask {
		maps.DeleteFunc(l.bases, func(_ [2]string, b lintBase) bool { return b.Base == nil })
	}
	file := l.one(ctx, lintJob{path: path, text: text})
	l.weigh([]*dockerlint.File{file})
	return file
}
