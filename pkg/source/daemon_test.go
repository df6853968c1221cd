package source

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// daemon serves the requests of a scan to Docker's API, on a socket that DOCKER_HOST
// names. It has the image app:1.
func daemon(t *testing.T, saved func(w http.ResponseWriter)) {
	t.Helper()
	daemonHandled(t, saved, never)
}

// daemonHandled starts a daemon that answers the requests that h does not.
func daemonHandled(t *testing.T, saved func(w http.ResponseWriter), h func(http.ResponseWriter, *http.Request) bool) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Ostype", "linux")
		w.Header().Set("Content-Type", "application/json")
		p := r.URL.Path
		if _, rest, ok := strings.Cut(p, "/images/"); ok {
			p = rest
		}
		switch {
		case h(w, r):
		case strings.HasSuffix(p, "_ping"):
			w.Write([]byte("OK"))
		case p == "app:1/json":
			fmt.Fprintf(w, `{"Id": "sha256:%d", "Os": "linux", "Architecture": "amd64"}`, moved.Load())
		case p == "app:1/get", p == "get" && r.URL.Query().Get("names") == "app:1":
			w.Header().Set("Content-Type", "application/x-tar")
			saved(w)
		case strings.HasSuffix(p, "/json"):
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte(`{"message": "No such image: ` + strings.TrimSuffix(p, "/json") + `"}`))
		default:
			t.Errorf("asked for %s", r.URL)
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	s := &http.Server{Handler: http.HandlerFunc(answer)}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+socket)
}

func TestDaemon(t *testing.T) {
	for _, old := range []bool{true, false} {
		daemon(t, func(w http.ResponseWriter) { w.Write(tarOf(t, savedFiles(t, appImage, old)...)) })
		wantApp(t, "docker:app:1", Options{})
		wantError(t, "docker:other:1", Options{}, "docker:other:1: the daemon has no such image: pull or build it, or leave `docker:` out to read it from its registry")
	}
}

// moved counts the rebuilds of app:1.
var moved atomic.Int32

// An ID is that of the image that was read.
func TestDaemonID(t *testing.T) {
	defer moved.Store(0)
	for _, move := range []int32{0, 1} {
		moved.Store(1)
		daemon(t, func(w http.ResponseWriter) {
			w.Write(tarOf(t, savedFiles(t, appImage, true)...))
			moved.Add(move)
		})
		img, err := Open(t.Context(), "docker:app:1", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer img.Close()
		if got, want := img.ID(), "daemon's sha256:1"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if _, err := read(t.Context(), img); err != nil {
			t.Fatal(err)
		}
		if got, want := img.ID(), []string{"daemon's sha256:1", ""}[move]; got != want {
			t.Errorf("moved %d times: got %q, want %q", move, got, want)
		}
	}
}

func TestDaemonErrors(t *testing.T) {
	half := tarOf(t, savedFiles(t, appImage, true)...)
	half = half[:bytes.Index(half, []byte("manifest.json"))+100]
	daemon(t, func(w http.ResponseWriter) { w.Write(half) })
	wantError(t, "docker:app:1", Options{}, "reading docker:app:1: ends too early: the archive is cut off")
	daemon(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		w.Write([]byte(`{"message": "disk on\nfire"}`))
	})
	wantError(t, "docker:app:1", Options{}, "reading docker:app:1: the daemon at unix://TMP/docker.sock: Error response from daemon: disk on fire")

	dir := t.TempDir()
	t.Setenv("DOCKER_HOST", "unix://"+dir+"/none.sock")
	wantError(t, "docker:app:1", Options{}, "docker:app:1: no daemon answers at unix://TMP/none.sock: start Docker or Podman's service, or set DOCKER_HOST")
	stale, err := net.Listen("unix", filepath.Join(dir, "stale.sock"))
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	t.Setenv("DOCKER_HOST", "unix://"+dir+"/stale.sock")
	wantError(t, "docker:app:1", Options{}, "docker:app:1: no daemon answers at unix://TMP/stale.sock: start Docker or Podman's service, or set DOCKER_HOST")
	t.Setenv("DOCKER_HOST", "nonsense")
	wantError(t, "docker:app:1", Options{}, "docker:app:1: DOCKER_HOST: unable to parse docker host `nonsense`: write it like unix:///var/run/docker.sock")
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	wantError(t, "docker:app:1", Options{}, "docker:app:1: no daemon answers at tcp://HOST: start Docker or Podman's service, or set DOCKER_HOST")
}

func TestDaemonHost(t *testing.T) {
	t.Setenv("DOCKER_HOST", "")
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := os.Mkdir(filepath.Join(dir, "podman"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "podman", "podman.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"/var/run/docker.sock", "/run/podman/podman.sock"} {
		if _, err := os.Stat(s); err == nil {
			return // this machine has a daemon of its own
		}
	}
	if got, want := daemonHost(), "unix://"+dir+"/podman/podman.sock"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
