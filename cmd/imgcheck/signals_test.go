//go:build !windows

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestInterruptedCommands: each command that asks a registry ends by a signal at any of its
// requests, says so, and leaves no temporary file and no part of its output.
func TestInterruptedCommands(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	s := &signalling{registry: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	server := httptest.NewServer(s)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for repo, text := range map[string]string{"app:1": "deleted-by-layer.txtar", "app:2": "soname-link-missing.txtar"} {
		data, err := images.Text(text)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(host + "/" + repo)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, imagetest.V1(t, string(data))); err != nil {
			t.Fatal(err)
		}
	}
	program, err := exec.LookPath("imgcheck")
	if err != nil {
		t.Fatal(err)
	}
	one, two := host+"/app:1", host+"/app:2"
	for _, args := range [][]string{
		{"scan", "-o", "OUT/report.json", one, two},
		{"size", one},
		{"slim", one, "-t", host + "/app:slim"},
		{"slim", one, "-t", "oci:OUT/layout"},
		{"index", "--push", one},
		{"diff", "-o", "OUT/diff.json", one, two},
		{"gpus", one},
		{"attest", one},
	} {
		for at := 1; ; at++ {
			tmp, cache, out := t.TempDir(), t.TempDir(), t.TempDir()
			full := append([]string{args[0], "--cache-dir", cache}, args[1:]...)
			for i := range full {
				full[i] = strings.ReplaceAll(full[i], "OUT", out)
			}
			cmd := exec.Command(program, full...)
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			s.mu.Lock() // until the process is known
			s.n, s.at, s.signals = 0, at, ""
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			s.process = cmd.Process
			s.mu.Unlock()
			err := cmd.Wait()
			if s.signals == "" {
				if at < 4 {
					t.Errorf("%q: %d requests, %v: %s", args, at-1, err, errs.String())
				}
				break
			}
			when := fmt.Sprintf("%q at %s (request %d)", args, s.signals, at)
			var status *exec.ExitError
			if !errors.As(err, &status) || status.ExitCode() != exitFailed || !strings.HasSuffix(errs.String(), "imgcheck: interrupted\n") {
				t.Errorf("%s: %v: %s", when, err, errs.String())
			}
			leftBehind(t, when, tmp, "")
			leftBehind(t, when, out, "")
			leftBehind(t, when, cache, "tmp")
		}
	}
}

// leftBehind fails if a directory has files whose name has a part.
func leftBehind(t *testing.T, when, dir, part string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(filepath.Base(p), part) {
			t.Errorf("%s: left behind: %s", when, p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSignalToServers: what waits for an editor or a browser ends by the first signal.
func TestSignalToServers(t *testing.T) {
	program, err := exec.LookPath("imgcheck")
	if err != nil {
		t.Fatal(err)
	}
	reports := t.TempDir()
	_, ref := pushText(t, imagetest.Serve(t), "torch-healthy.txtar")
	if got := run(t.Context(), []string{"imgcheck", "scan", "--no-cache", "-o", filepath.Join(reports, "a.json"), ref}, io.Discard, io.Discard); got != exitOK {
		t.Fatal(got)
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
	for _, args := range [][]string{{"serve", "--open=false", reports}, {"lsp", "--offline"}} {
		for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
			tmp := t.TempDir()
			cmd := exec.Command(program, args...)
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "IMGCHECK_CACHE="+t.TempDir())
			var errs bytes.Buffer
			cmd.Stderr = &errs
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if args[0] == "lsp" {
				fmt.Fprintf(in, "Content-Length: %d\r\n\r\n%s", len(initialize), initialize)
			}
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it runs
				t.Error(err)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			want := map[string]int{"lsp": exitFailed, "serve": exitOK}[args[0]]
			if cmd.ProcessState.ExitCode() != want || errs.String() != "" && errs.String() != "imgcheck: interrupted\n" {
				t.Errorf("%q, %v: %v: %s", args, sig, cmd.ProcessState, errs.String())
			}
			leftBehind(t, args[0], tmp, "")
		}
	}
}
