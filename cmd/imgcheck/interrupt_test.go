//go:build !windows

package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// signalling is a registry that sends its client an interrupt at one request, and does
// not answer that request.
type signalling struct {
	registry http.Handler

	mu      sync.Mutex
	n, at   int
	process *os.Process
	signals string // the request with the interrupt
	named   bool   // the target was named before it
}

func (s *signalling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.n++
	now := s.n == s.at
	if now {
		s.signals = r.Method + " " + r.URL.Path
	} else if s.at > 0 && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/fixed") {
		s.named = true
	}
	s.mu.Unlock()
	if !now {
		s.registry.ServeHTTP(w, r)
		return
	}
	io.Copy(io.Discard, r.Body) // else the server does not notice that the client has gone
	if err := s.process.Signal(os.Interrupt); err != nil {
		panic(err)
	}
	<-r.Context().Done()
}

// A patch that is interrupted at any of its requests says so at once and leaves nothing
// behind: no temporary file, no incomplete file in the cache, no name.
func TestInterruptedPatch(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	s := &signalling{registry: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	server := httptest.NewServer(s)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for repo, text := range map[string]string{"app:1": "deleted-by-layer.txtar", "cudnn:9": "from/cudnn9.txtar"} {
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
	target, err := name.ParseReference(host + "/app:fixed")
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("imgcheck")
	if err != nil {
		t.Fatal(err)
	}
	for at := 1; ; at++ {
		tmp, cache := t.TempDir(), t.TempDir()
		cmd := exec.Command(program, "patch", host+"/app:1", "-t", target.Name(), "--from", "image:"+host+"/cudnn:9", "--accept-nvidia-license", "--cache-dir", cache)
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		s.mu.Lock() // until the process is known
		s.n, s.at, s.signals, s.named = 0, at, "", false
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.process = cmd.Process
		s.mu.Unlock()
		err := cmd.Wait()
		if s.signals == "" {
			if err != nil || at < 10 {
				t.Fatalf("%d requests, error %v: %s", at-1, err, errs.String())
			}
			return
		}
		var status *exec.ExitError
		if !errors.As(err, &status) || status.ExitCode() != exitFailed || !strings.HasSuffix(errs.String(), "imgcheck: interrupted\n") || strings.Contains(errs.String(), "goroutine") {
			t.Errorf("%s (request %d): %v: %s", s.signals, at, err, errs.String())
		}
		if _, err := remote.Head(target); err == nil {
			if !s.named {
				t.Errorf("%s (request %d): the name is there", s.signals, at)
			}
			if err := remote.Delete(target); err != nil {
				t.Fatal(err)
			}
		}
		for _, dir := range []string{tmp, cache} {
			err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() && (dir == tmp || strings.Contains(filepath.Base(p), "tmp")) {
					t.Errorf("%s (request %d): left behind: %s", s.signals, at, p)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}
