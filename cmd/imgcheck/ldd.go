package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/ldd"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

func lddCommand() *cli.Command {
	return &cli.Command{
		Name:      "ldd",
		Usage:     "show which file the image's loader picks for each library, and by which rule",
		UsageText: "imgcheck ldd [options] IMAGE [FILE…]",
		Description: "For each FILE, or for the image's entrypoint, ldd draws what the image's own loader would load,\n" +
			"in load order, with the rule that finds each library; under a library that is not found, every\n" +
			"place that was searched. IMAGE is named as for scan.\n\n" +
			"With --exe it replays a process: the program starts, and each --arg is an action of it,\n" +
			"dlopen=FLAGS:FILE or from=LIB:FLAGS:FILE (opened by the loaded object LIB), FLAGS of N now,\n" +
			"L lazy, G global; or sym=SYMBOL, which looks a symbol up.\n\n" +
			"The exit status is 0 when the question could be answered, whatever the answer, and 2 otherwise.\n\n" +
			"Examples:\n" +
			"   imgcheck ldd ghcr.io/org/app:1.0 /usr/bin/python3\n" +
			"   imgcheck ldd --all --format json docker-archive:app.tar\n" +
			"   imgcheck ldd --exe /usr/bin/python3 --arg dlopen=N:libcudnn.so.9 --env LD_LIBRARY_PATH=/opt/lib dir:/mnt/root",
		OnUsageError: usageError,
		Flags: append(imageFlags(),
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answer: text, or json (one line for each file, or one process)"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "take every ELF file of the image"},
			&cli.BoolFlag{Name: "repeat", Usage: "draw a library under each that needs it, not only the first"},
			&cli.StringFlag{Name: "exe", Usage: "replay a process of the program at `PATH`; the answer is JSON"},
			&cli.StringSliceFlag{Name: "arg", Usage: "an `ACTION` of that program; may be repeated"},
			&cli.BoolFlag{Name: "search", Usage: "tell every search of that process, as LD_DEBUG=libs does"},
			&cli.BoolFlag{Name: "search-hwcaps", Usage: "with --search, tell the hardware directories (glibc-hwcaps/…) too"},
			&cli.StringSliceFlag{Name: "bindings", Usage: "tell who gets the `SYMBOL` from where in that process; may be repeated"},
			&cli.BoolFlag{Name: "symbols", Aliases: []string{"r"}, Usage: "tell the references that nothing defines, as ldd -r does"},
			&cli.BoolFlag{Name: "names", Usage: "tell the libraries whose names stand in the read-only data of a FILE that imports dlopen, and what dlopen would find"},
			&cli.StringSliceFlag{Name: "env", Usage: "set `NAME=VALUE` and nothing of the image's environment; may be repeated"},
			&cli.StringFlag{Name: "cwd", Usage: "the working `DIRECTORY`"},
			&cli.IntFlag{Name: "uid", Usage: "run as the user with this `NUMBER`"},
		),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return fmt.Errorf("ldd takes an image: see `imgcheck ldd --help`")
			}
			if f := c.String("format"); f != "text" && f != "json" {
				return fmt.Errorf("there is no format %q: say text or json", f)
			}
			o, err := imageOptions(c)
			if err != nil {
				return err
			}
			shown := watch(c, &o)
			img, fsys, err := open(c.Context, c.Args().First(), o)
			shown.done()
			if err != nil {
				return err
			}
			if c.IsSet("exe") {
				return lddProcess(c, img, fsys)
			}
			return lddFiles(c, img, fsys)
		},
	}
}

// lddEnv is the environment that is asked for: the image's, unless --env says
// otherwise.
func lddEnv(c *cli.Context, img *layers.Image) elfdeps.Env {
	env := elfdeps.Env{UID: c.Int("uid"), GID: c.Int("uid")}
	if img.Config != nil {
		env.Vars, env.Cwd = img.Config.Config.Env, img.Config.Config.WorkingDir
	}
	if c.IsSet("env") {
		env.Vars = c.StringSlice("env")
	}
	if c.IsSet("cwd") {
		env.Cwd = c.String("cwd")
	}
	return env
}

func lddProcess(c *cli.Context, img *layers.Image, fsys *layers.FS) error {
	run := ldd.Run{Exe: c.String("exe"), Args: c.StringSlice("arg"), Env: lddEnv(c, img), Search: c.Bool("search") || c.Bool("search-hwcaps"), Hwcaps: c.Bool("search-hwcaps"), Bindings: c.StringSlice("bindings")}
	p, err := ldd.Replay(fsys, run)
	if err != nil {
		return err
	}
	e := json.NewEncoder(c.App.Writer)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(p)
}

func lddFiles(c *cli.Context, img *layers.Image, fsys *layers.FS) error {
	paths := c.Args().Tail()
	switch {
	case c.Bool("all"):
		paths = dynamicFiles(fsys)
	case len(paths) == 0:
		p, err := lint.Entrypoint(&lint.Image{FS: fsys, Config: img.Config})
		if err != nil {
			return fmt.Errorf("%s: %w", img.Ref, err)
		}
		paths = []string{p}
	}
	files := ldd.Files{FS: fsys, Env: lddEnv(c, img), Symbols: c.Bool("symbols"), Names: c.Bool("names")}
	out := c.App.Writer
	for i, p := range paths {
		if !strings.HasPrefix(p, "/") {
			p = "/" + p
		}
		err := lddFile(c, &files, out, p, i > 0)
		switch {
		case err != nil && c.Bool("all"):
			fmt.Fprintln(c.App.ErrWriter, "imgcheck: "+oneLine(err.Error()))
		case err != nil:
			return err
		}
	}
	return nil
}

func lddFile(c *cli.Context, files *ldd.Files, out io.Writer, path string, more bool) error {
	if c.String("format") == "json" {
		f, err := files.Look(path)
		if err != nil {
			return err
		}
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return e.Encode(f)
	}
	p, err := files.Process(path)
	if err != nil {
		return err
	}
	if more {
		fmt.Fprintln(out)
	}
	if p == nil {
		_, err := fmt.Fprintf(out, "%s\n    statically linked\n", path)
		return err
	}
	return ldd.Tree(out, p, path, ldd.TreeOptions{All: c.Bool("repeat"), Symbols: files.Symbols, Names: files.Names, Color: isTerminal(out) && os.Getenv("NO_COLOR") == ""})
}

// dynamicFiles are the paths of the ELF files that a loader would take, sorted.
func dynamicFiles(fsys *layers.FS) []string {
	var list []string
	for e := range fsys.All() {
		if e.Object != nil && e.Object.Dynamic {
			list = append(list, "/"+e.Path)
		}
	}
	return list
}
