//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/scan"
)

// A command whose --timeout is over ends, and says what it was doing. The registry never
// answers, so that the outcome is the same however long the test takes.
func TestTimeout(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/app:1"
	for _, command := range [][]string{
		{"scan", ref}, {"ldd", ref, "/bin/sh"}, {"imports", ref}, {"gpus", ref}, {"why", ref}, {"patch", ref, "--dry-run"}, {"explain", "--image", ref, "libcudnn.so.9: cannot open shared object file"},
	} {
		var out, errs bytes.Buffer
		got := run(t.Context(), append([]string{"imgcheck", command[0], "--no-cache", "--timeout", "20ms"}, command[1:]...), &out, &errs)
		if got != exitFailed || !strings.Contains(errs.String(), "imgcheck: gave up after 20ms (--timeout, IMGCHECK_TIMEOUT)") || !strings.Contains(errs.String(), ref) {
			t.Errorf("%q: status %d, %q", command, got, errs.String())
		}
	}
	var errs bytes.Buffer
	if got := run(t.Context(), []string{"imgcheck", "scan", "--timeout", "soon", ref}, io.Discard, &errs); got != exitFailed || !strings.Contains(errs.String(), `--timeout "soon": write it like 90s or 5m`) {
		t.Errorf("status %d, %q", got, errs.String())
	}
}

// Every command has --timeout.
func TestEveryTimeout(t *testing.T) {
	for _, cmd := range newApp(io.Discard, io.Discard).Commands {
		if !takesValue(cmd, "--timeout") {
			t.Errorf("%s has no --timeout", cmd.Name)
		}
	}
}

// An action that does not end after its time makes the process end, with what it was doing.
func TestForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line string
		end := func(s string) { line = s }
		forced.Store(&end)
		defer forced.Store(nil)
		app := &cli.App{Writer: io.Discard, ErrWriter: io.Discard}
		app.Commands = []*cli.Command{{Name: "stuck", Action: func(c *cli.Context) error {
			a := activityOf(c.Context)
			a.begins(scan.Judging)
			a.waiting("waiting for example.com: it has sent nothing for 10s")
			<-c.Context.Done()
			time.Sleep(time.Hour) // as a call that does not look at the context
			return errors.New("late")
		}}}
		limitAll(app.Commands)
		err := app.RunContext(t.Context(), []string{"imgcheck", "stuck", "--timeout", "5m"})
		const want = "gave up after 5m0s (--timeout, IMGCHECK_TIMEOUT), while judging, last waiting for example.com: it has sent nothing for 10s"
		if line != want || err == nil || err.Error() != want {
			t.Errorf("the process ends with %q, the action with %v", line, err)
		}
	})
}

// A signal ends a command that waits for the writer of a FIFO, wherever it was named.
func TestSignalAtFIFO(t *testing.T) {
	program, err := exec.LookPath("imgcheck")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"scan", "--config", "FIFO", "x"},
		{"scan", "--baseline", "FIFO", "x"},
		{"scan", "docker-archive:FIFO"},
		{"convert", "FIFO", "-f", "sarif"},
		{"convert", "--template", "FIFO", "x"},
		{"diff", "FIFO", "FIFO"},
		{"comment", "FIFO", "--dry-run"},
		{"scan", "-i", "FIFO"},
		{"scan", "--index-from", "referrers", "--index-key", "FIFO", "x"},
		{"fleet", "-i", "FIFO", "--image", "x:1"},
		{"fleet", "merge", "FIFO"},
		{"size", "--config", "FIFO", "x"},
		{"index", "docker-archive:FIFO"},
	} {
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		for i, a := range args {
			args[i] = strings.ReplaceAll(a, "FIFO", fifo)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, program, args...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		cmd.Env = append(os.Environ(), "IMGCHECK_CACHE="+t.TempDir())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // returns when the program has it open
		if err == nil {
			err = cmd.Process.Signal(syscall.SIGTERM)
		}
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		w.Close()
		cancel()
		if cmd.ProcessState.ExitCode() != exitFailed || !strings.HasSuffix(errs.String(), "imgcheck: interrupted\n") {
			t.Errorf("%q: %v: %s", args, cmd.ProcessState, errs.String())
		}
	}
}
