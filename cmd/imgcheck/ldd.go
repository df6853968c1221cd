package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/ldd"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

func lddCommand() *cli.Command {
	return &cli.Command{
		Name:      "ldd",
		Usage:     "show which file the loader picks for each library, and why",
		UsageText: "imgcheck ldd [options] IMAGE [FILE…]",
		Description: "For each FILE, or for the image's entrypoint, ldd draws the files that the image's own loader would\n" +
			"load, in load order, each with the rule that finds it. Under a library that is not found it lists\n" +
			"every directory that was searched. IMAGE is a reference as for scan. A FILE without a slash that is\n" +
			"not in the root directory is looked up in the PATH of the image.\n\n" +
			"With --exe it replays a process: the program starts, and then does each --arg in turn.\n" +
			"dlopen=FLAGS:FILE opens a file, from=LIB:FLAGS:FILE opens it from the loaded object LIB; FLAGS are\n" +
			"N now, L lazy, G global. sym=SYMBOL looks a symbol up.\n\n" +
			"The exit status is 0 if the replay was possible, whatever it shows, and 2 otherwise.\n\n" +
			"Examples:\n" +
			"   imgcheck ldd ghcr.io/org/app:1.0 /usr/bin/python3\n" +
			"   imgcheck ldd --all --format json docker-archive:app.tar\n" +
			"   imgcheck ldd --exe /usr/bin/python3 --arg dlopen=N:libcudnn.so.9 \\\n" +
			"      --env LD_LIBRARY_PATH=/opt/lib dir:/mnt/root",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answer: text, or json (one line for each file, or one process)"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "take every ELF file of the image"},
			&cli.BoolFlag{Name: "repeat", Usage: "draw a library under each that needs it, not only the first"},
			&cli.StringFlag{Name: "exe", Usage: "replay a process of `PROGRAM`, a path or a name in PATH"},
			&cli.StringSliceFlag{Name: "arg", Usage: "an `ACTION` of that program; may be repeated"},
			&cli.BoolFlag{Name: "search", Usage: "show every search of that process, as LD_DEBUG=libs does"},
			&cli.BoolFlag{Name: "search-hwcaps", Usage: "with --search, show the hardware directories (glibc-hwcaps/…) too"},
			&cli.StringSliceFlag{Name: "bindings", Usage: "show which objects of that process get `SYMBOL`, and from where; may be repeated"},
			&cli.BoolFlag{Name: "symbols", Aliases: []string{"r"}, Usage: "show undefined symbols, as ldd -r does"},
			&cli.BoolFlag{Name: "names", Usage: "show the library names in the read-only data of each FILE that imports dlopen, and what dlopen would find"},
			&cli.StringSliceFlag{Name: "env", Usage: "set `NAME=VALUE` instead of the image's environment; may be repeated"},
			&cli.StringFlag{Name: "cwd", Usage: "the working `DIRECTORY`"},
			&cli.IntFlag{Name: "uid", Usage: "run as the user with this `NUMBER`"},
		}, fromEnvironment(imageFlags())...),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return fmt.Errorf("ldd needs an image: see `imgcheck ldd --help`")
			}
			if f := c.String("format"); f != "text" && f != "json" {
				return fmt.Errorf("there is no format %q: say text or json", f)
			}
			if err := lddQuestion(c); err != nil {
				return err
			}
			o, err := imageOptions(c)
			if err != nil {
				return err
			}
			shown := watch(c, &o)
			img, fsys, err := indexed(c.Context, c.Args().First(), o)
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

// indexed reads an image into a file system, without the small files that a scan keeps. The
// indexes of others are those of scans.
func indexed(ctx context.Context, ref string, o layers.Options) (*layers.Image, *layers.FS, error) {
	o.Indexes = nil
	img, err := layers.Open(ctx, ref, o)
	if err != nil {
		return nil, nil, err
	}
	defer img.Close()
	fsys, err := img.Index(ctx)
	return img, fsys, err
}

// lddQuestion returns an error for flags that exclude each other.
func lddQuestion(c *cli.Context) error {
	if c.IsSet("exe") {
		switch {
		case c.NArg() > 1:
			return fmt.Errorf("--exe takes no FILE: to open %s in that process, say --arg dlopen=N:%s", c.Args().Get(1), c.Args().Get(1))
		case c.Bool("all"):
			return fmt.Errorf("--all reads files, --exe replays one process: use one of them")
		case c.Bool("names"):
			return fmt.Errorf("--names reads files, --exe replays one process: use one of them")
		}
		for _, action := range c.StringSlice("arg") {
			if err := ldd.CheckAction(action); err != nil {
				return fmt.Errorf("--arg: %w", err)
			}
		}
		return nil
	}
	for _, name := range []string{"arg", "search", "search-hwcaps", "bindings"} {
		if c.IsSet(name) {
			return fmt.Errorf("--%s needs a process: name its program with --exe", name)
		}
	}
	return nil
}

// lddEnv returns the environment of the processes: the image's, unless flags replace it.
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
	exe, err := programPath(img, fsys, c.String("exe"))
	if err != nil {
		return err
	}
	run := ldd.Run{Exe: exe, Args: c.StringSlice("arg"), Env: lddEnv(c, img), Search: c.Bool("search") || c.Bool("search-hwcaps"), Hwcaps: c.Bool("search-hwcaps"), Bindings: c.StringSlice("bindings")}
	if c.String("format") == "text" {
		return ldd.Draw(c.App.Writer, fsys, run, treeOptions(c))
	}
	p, err := ldd.Replay(fsys, run)
	if err != nil {
		return err
	}
	return plain.JSON(c.App.Writer, p, "  ")
}

func lddFiles(c *cli.Context, img *layers.Image, fsys *layers.FS) error {
	paths := c.Args().Tail()
	switch {
	case c.Bool("all"):
		paths = dynamicFiles(fsys)
	case len(paths) == 0:
		set, err := loadPacks(nil)
		if err != nil {
			return err
		}
		p, err := lint.Entrypoint(&replay.Image{FS: fsys, Config: img.Config}, set)
		if err != nil {
			return fmt.Errorf("%s: %w", img.Ref, err)
		}
		paths = []string{p}
	}
	files := ldd.Files{FS: fsys, Env: lddEnv(c, img), Symbols: c.Bool("symbols"), Names: c.Bool("names")}
	out := c.App.Writer
	failed := 0
	for i, p := range paths {
		p, err := programPath(img, fsys, p)
		if err == nil {
			err = lddFile(c, &files, out, p, i > 0)
		}
		switch {
		case err != nil && c.Bool("all"):
			failed++
			fmt.Fprintln(c.App.ErrWriter, "imgcheck: "+oneLine(err.Error()))
		case err != nil:
			return err
		}
	}
	switch {
	case len(paths) == 0: // with --all
		return fmt.Errorf("%s: it has no file that a dynamic loader takes", img.Ref)
	case failed == len(paths):
		return fmt.Errorf("%s: none of its %d files that a dynamic loader takes could be read", img.Ref, failed)
	}
	return nil
}

// programPath returns the path of a file that a user names: from the root directory or, for
// a name without a slash, else from the image's PATH.
func programPath(img *layers.Image, fsys *layers.FS, name string) (string, error) {
	p := "/" + strings.TrimPrefix(name, "/")
	if _, _, ok := fsys.Lookup(p); ok || strings.Contains(name, "/") || name == "" {
		return p, nil
	}
	set, err := loadPacks(nil)
	if err != nil {
		return "", err
	}
	found, ok := replay.NewConfig(&replay.Image{FS: fsys, Config: img.Config}, set).Executable(name)
	if !ok {
		return "", fmt.Errorf("%s: no such file in the root directory, and no program of that name in the image's PATH", name)
	}
	return found, nil
}

func lddFile(c *cli.Context, files *ldd.Files, out io.Writer, path string, more bool) error {
	if c.String("format") == "json" {
		f, err := files.Look(path)
		if err != nil {
			return err
		}
		return plain.JSON(out, f, "")
	}
	p, err := files.Process(path)
	if err != nil {
		return err
	}
	if more {
		fmt.Fprintln(out)
	}
	if p == nil {
		return ldd.Static(out, path)
	}
	return ldd.Tree(out, p, path, treeOptions(c))
}

// treeOptions returns the flags about the drawing.
func treeOptions(c *cli.Context) ldd.TreeOptions {
	return ldd.TreeOptions{All: c.Bool("repeat"), Symbols: c.Bool("symbols"), Names: c.Bool("names"), Color: colored(c.App.Writer)}
}

// dynamicFiles returns the sorted paths of the ELF files that a loader takes or, if they
// could not be read, may take.
func dynamicFiles(fsys *layers.FS) []string {
	var list []string
	for e := range fsys.All() {
		if o := e.Object; o != nil && (o.Dynamic || o.Unexamined() != "") {
			list = append(list, "/"+e.Path)
		}
	}
	return list
}
