// Command imgcheck reports, without running a container image and without a GPU, why the
// machine-learning software in it will not find its GPU libraries.
//
// Package scan is the program: it opens an image, indexes its layers, replays what the
// image's loader and frameworks would do, and plans fixes. This package has flags, exit
// status and terminal, one file a command.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/nearest"
	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

// Exit statuses, the same for every command and format.
const (
	exitOK       = 0
	exitFindings = 1 // findings at or above --fail-on
	exitFailed   = 2 // the question could not be answered
)

func main() {
	paced()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	endOnSignal(ctx)
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}

// The garbage collector runs when the heap has grown by a quarter, and by room bytes at
// least: roomToRead while layers are read, roomToJudge while they are judged. Reading
// keeps most of what it allocates, and decompression takes its time, so that less room
// does not slow it down. Judging goes through all of it many times and keeps little.
const (
	roomToRead  = 8 << 20
	roomToJudge = 48 << 20
	roomToBegin = 32 << 20
	roomBeside  = 24 << 20 // for stacks, the runtime, and what lies between objects
)

var (
	room     atomic.Int64 // 0 before paced
	spared   atomic.Int64 // the heap is not collected below it
	borrowed atomic.Bool  // no layer was read since borrowing
)

// pacing gives the heap roomToJudge once the layers are read, and roomToRead while they are
// read again to be written anew. If layers were read and have left more than roomToJudge, that is collected first.
// If none was, the judging begins with a heap that is in use, and builds up as much again (see [scan.Memory]): half of
// that, and roomToBegin at most, need not be looked at before it is there. A process that is not paced, of a test, is left alone.
func pacing(s scan.Stage) {
	if s != scan.Judging && s != scan.Rewriting || room.Load() == 0 {
		return
	}
	to, heap := int64(roomToJudge), heapSize()
	if s == scan.Rewriting {
		to = roomToRead
	}
	spared.Store(0)
	switch {
	case borrowed.Swap(false):
		spared.Store(heap + min(heap/2, roomToBegin) + to)
	case heap > roomToJudge:
		runtime.GC()
	}
	room.Store(to)
	pace()
}

// heapSize returns the bytes of the objects in the heap, with those that no longer count.
func heapSize() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// borrowing gives the heap roomToJudge where indexes of others may stand for the layers: nothing is decompressed
// then, whose time would hide the collector's. The first layer that is read all the same ends that: see layerRead.
func borrowing() {
	if room.CompareAndSwap(roomToRead, roomToJudge) {
		borrowed.Store(true)
		pace()
	}
}

// layerRead notes that bytes of a layer were read.
func layerRead() {
	if borrowed.Load() && borrowed.CompareAndSwap(true, false) {
		room.Store(roomToRead)
		pace()
	}
}

// paced sets the pace of the garbage collector now and after each collection.
func paced() {
	room.CompareAndSwap(0, roomToRead)
	pace()
	runtime.AddCleanup(new([64]byte), func(struct{}) { paced() }, struct{}{})
}

// pace sets by how many percent of the live heap the heap may grow, and gives freed memory
// back to the system that is beyond that and roomBeside, unless GOGC or GOMEMLIMIT is set.
func pace() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	live := int64(sample[0].Value.Uint64())
	percent := max(25, min(400, max(room.Load(), spared.Load()-live)*100/max(1, live)))
	debug.SetGCPercent(int(percent))
	debug.SetMemoryLimit(live + live*percent/100 + roomBeside)
}

// errFindings is returned by a command that worked and found something.
var errFindings = errors.New("findings")

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if !isTerminal(stderr) { // progress bars need its escape sequences
		stderr = plain.NewWriter(stderr, false)
	}
	app := newApp(stdout, stderr)
	unknownVariables(app, os.Environ(), stderr)
	err := app.RunContext(ctx, reorder(app, otherwise(args)))
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(ctx.Err(), context.Canceled):
		fmt.Fprintln(stderr, "imgcheck: interrupted")
		return exitFailed
	}
	fmt.Fprintln(stderr, "imgcheck: "+bounded(oneLine(err.Error())))
	if errors.As(err, new(errRefused)) {
		return exitFindings
	}
	return exitFailed
}

// oneLine returns s on one line, without characters that control a terminal: errors
// quote images and registries.
func oneLine(s string) string { return plain.Line(s) }

// longWord matches a word that is longer than a path or an address of ordinary use.
var longWord = regexp.MustCompile(`[^ ]{600,}`)

// bounded cuts off long texts, and the middle of long words: an error may quote a hostile file of
// a megabyte, or a number of a million digits.
func bounded(s string) string {
	const most, head, tail = 8000, 200, 100
	s = longWord.ReplaceAllStringFunc(s, func(word string) string {
		return strings.ToValidUTF8(word[:head], "") + "…" + strings.ToValidUTF8(word[len(word)-tail:], "")
	})
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func newApp(stdout, stderr io.Writer) *cli.App {
	commands := []*cli.Command{
		scanCommand(), patchCommand(), explainCommand(), rulesCommand(), convertCommand(), diffCommand(), serveCommand(), commentCommand(), initCommand(), hookCommand(), lintCommand(), lspCommand(), importsCommand(), whyCommand(), lddCommand(), gpusCommand(), sizeCommand(), fleetCommand(), attestCommand(), slimCommand(),
		cacheCommand(), indexCommand(), demoCommand(), completionCommand(), manCommand(), versionCommand(),
	}
	tellIndexes(commands)
	limitAll(commands)
	for _, cmd := range commands {
		cmd.OnUsageError, cmd.CustomHelpTemplate = usageError, helpOf(cmd)
	}
	return &cli.App{
		Name:      "imgcheck",
		Usage:     "find out without a GPU why a GPU image will fail",
		UsageText: "imgcheck COMMAND [options] [arguments]",
		Description: "imgcheck reads a container image layer by layer, replays what its dynamic\n" +
			"loader and frameworks would do, and reports what will fail, why, since which\n" +
			"layer, and how to fix it.\n\n" +
			"Examples:\n" +
			"   imgcheck demo\n" +
			"   imgcheck scan ghcr.io/org/app:1.0\n" +
			"   imgcheck explain 'ImportError: libcudnn.so.9: cannot open shared object file'\n\n" +
			"imgcheck COMMAND --help says more.",
		Version:         version(),
		HideVersion:     true,
		HideHelpCommand: true,
		Writer:          stdout,
		ErrWriter:       stderr,
		Suggest:         true,
		// --env LD_LIBRARY_PATH=/a,/b is one value
		DisableSliceFlagSeparator: true,
		Commands:                  commands,
		ExitErrHandler:            func(*cli.Context, error) {}, // run handles the error
		OnUsageError:              usageError,
		CommandNotFound:           nil,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand(c)
			}
			return cli.ShowAppHelp(c)
		},
	}
}

// usageError adds the likely flag and the command for help to an error of the flag
// package.
func usageError(c *cli.Context, err error, _ bool) error {
	name := "imgcheck"
	var flags []cli.Flag
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != name {
		name += " " + c.Command.Name
		flags = c.Command.Flags
	}
	text := err.Error()
	if flag, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		flag = strings.TrimLeft(flag, "-")
		var known []string
		for _, f := range flags {
			known = append(known, f.Names()...)
		}
		text = "there is no flag --" + flag
		if n := nearest.Of(flag, known); n != "" {
			text += " (did you mean " + dashes(n) + "?)"
		}
	}
	if flag, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		text = dashes(strings.TrimLeft(flag, "-")) + " needs a value"
	}
	return fmt.Errorf("%s: see `%s --help`", text, name)
}

func unknownCommand(c *cli.Context) error {
	name := c.Args().First()
	var known []string
	for _, cmd := range c.App.VisibleCommands() {
		known = append(known, cmd.Names()...)
	}
	if n := nearest.Of(name, known); n != "" {
		return fmt.Errorf("there is no command %q: did you mean `imgcheck %s`?", name, n)
	}
	if !strings.ContainsAny(name, ":/.") {
		return fmt.Errorf("there is no command %q: `imgcheck --help` lists them; to scan an image, say `imgcheck scan %s`", name, name)
	}
	return fmt.Errorf("there is no command %q: to scan an image, say `imgcheck scan %s`", name, name)
}

// otherwise translates what other programs understand: help COMMAND, --version and -v. Behind
// a command -v is --verbose.
func otherwise(args []string) []string {
	switch {
	case len(args) > 1 && args[1] == "help":
		return slices.Concat(args[:1], args[2:], []string{"--help"})
	case len(args) > 1 && (args[1] == "--version" || args[1] == "-v"):
		return slices.Concat(args[:1], []string{"version"}, args[2:])
	}
	return args
}

// reorder moves a command's flags before its arguments: cli/v2 would ignore the flag in
// `scan IMAGE --format json`. Arguments after "--" stay where they are.
func reorder(app *cli.App, args []string) []string {
	i := slices.IndexFunc(args[min(1, len(args)):], func(a string) bool { return !strings.HasPrefix(a, "-") }) + 1
	if i == 0 {
		return args
	}
	cmd := app.Command(args[i])
	if cmd == nil {
		return args
	}
	args = slices.Concat(args[:i+1], separate(cmd, args[i+1:]))
	var flags, rest []string
	for k := i + 1; k < len(args); k++ {
		a := args[k]
		switch {
		case a == "--":
			rest = append(rest, args[k:]...)
			k = len(args)
		case len(a) < 2 || a[0] != '-':
			rest = append(rest, a)
		case a == "--help" || a == "-h":
			return slices.Concat(args[:i+1], []string{"--help"}) // `hook install --help` is the help of hook
		default:
			flags = append(flags, a)
			if !takesValue(cmd, a) {
				continue
			}
			if k++; k == len(args) {
				return slices.Concat(args[:i+1], flags) // cli reports the missing value
			}
			flags = append(flags, args[k])
		}
	}
	return slices.Concat(args[:i+1], flags, rest)
}

// separate returns the arguments of a command with -qa as -q -a, and -qf FORMAT as -q -f
// FORMAT: all are flags of one letter, and only the last takes a value.
func separate(cmd *cli.Command, args []string) []string {
	var out []string
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		if i > 0 && takesValue(cmd, args[i-1]) && strings.HasPrefix(args[i-1], "-") || !combined(cmd, a) {
			out = append(out, a)
			continue
		}
		for _, letter := range a[1:] {
			out = append(out, "-"+string(letter))
		}
	}
	return out
}

// combined reports whether an argument is several flags of one letter.
func combined(cmd *cli.Command, arg string) bool {
	if len(arg) < 3 || arg[0] != '-' || arg[1] == '-' {
		return false
	}
	known := func(name string) bool {
		return name == "h" || slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	}
	if known(arg[1:]) {
		return false
	}
	for i, letter := range arg[1:] {
		if !known(string(letter)) || i < len(arg)-2 && takesValue(cmd, "-"+string(letter)) {
			return false
		}
	}
	return true
}

// takesValue reports whether a value follows a flag.
func takesValue(cmd *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range cmd.Flags {
		if slices.Contains(f.Names(), name) {
			_, isBool := f.(*cli.BoolFlag)
			return !isBool
		}
	}
	return false
}
