package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// defaultTimeout bounds the time of a command. CI systems end a job after an hour.
const defaultTimeout = "50m"

// grace bounds the time in which a command that was interrupted, or whose time is over, ends
// itself: it closes its files and removes unfinished ones. Then the process ends.
const grace = 800 * time.Millisecond

// forced ends the process. It is nil in tests, which end by themselves.
var forced atomic.Pointer[func(line string)]

// endSoon ends the process after grace, unless it ends before.
func endSoon(line func() string) {
	if end := forced.Load(); end != nil {
		time.AfterFunc(grace, func() { (*end)(line()) })
	}
}

// lateError is the error of a command whose --timeout is over.
type lateError struct {
	limit time.Duration
	doing string // "": not known
	at    string // the error without its reason, which names an image or a host
}

func (e *lateError) Error() string {
	text := fmt.Sprintf("gave up after %s (--timeout, IMGCHECK_TIMEOUT)", e.limit)
	if e.doing != "" {
		text += ", " + e.doing
	} else if e.at != "" {
		text += ": " + e.at
	}
	return text
}

// limitAll gives every command --timeout, except the hook, which has one of its own.
func limitAll(commands []*cli.Command) {
	for _, cmd := range commands {
		if slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "timeout") }) {
			continue
		}
		value := defaultTimeout
		if slices.Contains([]string{"explain", "lsp", "serve"}, cmd.Name) { // which may wait for a program or a person for days
			value = "0"
		}
		cmd.Flags = append(cmd.Flags, fromEnvironment([]cli.Flag{&cli.StringFlag{Name: "timeout", Value: value, Usage: "give up after this `TIME` (90s, 5m); 0 sets no limit"}})...)
		cmd.Action = limited(cmd.Action)
	}
}

// limited returns an action that ends with a lateError once --timeout is over, and that says
// on the standard error for whom it waits.
func limited(do cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		limit, err := time.ParseDuration(c.String("timeout"))
		if err != nil || limit < 0 {
			return fmt.Errorf("--timeout %q: write it like 90s or 5m; 0 sets no limit", c.String("timeout"))
		}
		state := &activity{w: c.App.ErrWriter}
		c.Context = source.WithNotice(context.WithValue(c.Context, activityKey{}, state), state.waiting)
		if limit == 0 {
			return do(c)
		}
		ctx, cancel := context.WithTimeoutCause(c.Context, limit, errTimeout)
		defer cancel()
		c.Context = ctx
		late := func() *lateError { return &lateError{limit: limit, doing: state.text()} }
		stop := context.AfterFunc(ctx, func() {
			if errors.Is(context.Cause(ctx), errTimeout) {
				endSoon(func() string { return late().Error() })
			}
		})
		defer stop()
		if err = do(c); err == nil || !errors.Is(context.Cause(ctx), errTimeout) || errors.Is(err, errFindings) {
			return err
		}
		e := late()
		e.at = strings.TrimSuffix(strings.TrimSuffix(err.Error(), context.DeadlineExceeded.Error()), ": ")
		return e
	}
}

// activity keeps the words for the work that a command does at the moment, for people.
type activity struct {
	w io.Writer

	mu       sync.Mutex
	stage    scan.Stage
	progress *progress
	waits    string // for which host and why, "" before
}

type activityKey struct{}

// activityOf returns the activity of a command, or nil.
func activityOf(ctx context.Context) *activity {
	a, _ := ctx.Value(activityKey{}).(*activity)
	return a
}

// shows sets who knows the layers that are being read.
func (a *activity) shows(p *progress) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress = p
}

// begins sets the stage of a scan.
func (a *activity) begins(s scan.Stage) {
	pacing(s)
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stage = s
}

// waiting says for which host the command waits, and why.
func (a *activity) waiting(text string) {
	a.mu.Lock()
	a.waits = text
	p := a.progress
	a.mu.Unlock()
	if p != nil {
		p.note(-1, text)
		return
	}
	fmt.Fprintln(a.w, "imgcheck: "+oneLine(text))
}

// text says what the command does: its stage, the layers that it reads, the host for which
// it has waited last.
func (a *activity) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var parts []string
	if a.stage != "" {
		parts = append(parts, "while "+string(a.stage))
	}
	if a.progress != nil && (a.stage == "" || a.stage == scan.Reading) {
		if at := a.progress.at(); at != "" {
			parts = append(parts, at)
		}
	}
	if a.waits != "" {
		parts = append(parts, "last "+a.waits)
	}
	return strings.Join(parts, ", ")
}

// endOnSignal ends the process soon after ctx is done.
func endOnSignal(ctx context.Context) {
	end := func(line string) {
		fmt.Fprintln(os.Stderr, "imgcheck: "+oneLine(line))
		os.Exit(exitFailed)
	}
	forced.Store(&end)
	context.AfterFunc(ctx, func() { endSoon(func() string { return "interrupted" }) })
}
