//go:build unix

// Package load runs many processes of imgcheck at once, with one cache and one registry, and
// kills processes at random requests and bytes: reports and patches stay right.
//
// LOAD=SCANS,KILLS sets how many there are (`make load`). The random numbers have a fixed seed;
// a kill comes at the n-th request of a process or after the n-th byte of an answer, so that
// no time decides. It does not know how a cache is laid out.
package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

const (
	imageCount = 20
	atOnce     = 16
	maxMemory  = 256 << 20 // resident bytes of a process
)

var texts = []string{"ort-no-cudnn", "torch-healthy", "soname-link-missing", "jax-no-cudnn", "deleted-by-layer"}

// killer is a registry that kills a process at one request, before the answer or within it.
type killer struct {
	registry http.Handler

	mu      sync.Mutex
	left    int // requests before the kill; negative: no kill
	bytes   int // of the answer that are sent before it
	process *os.Process
	killed  bool
}

func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	now := k.left == 0
	k.left--
	k.mu.Unlock()
	if now {
		w = &cut{ResponseWriter: w, k: k, left: k.bytes}
	}
	k.registry.ServeHTTP(w, r)
	if now {
		k.kill() // of an answer without so many bytes
	}
}

// kill ends the process, and the answer with it.
func (k *killer) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.process.Kill(); err == nil {
		k.killed = true
	}
}

type cut struct {
	http.ResponseWriter
	k    *killer
	left int
}

func (c *cut) Write(b []byte) (int, error) {
	if len(b) <= c.left {
		c.left -= len(b)
		return c.ResponseWriter.Write(b)
	}
	c.ResponseWriter.Write(b[:c.left])
	c.ResponseWriter.(http.Flusher).Flush()
	c.k.kill()
	panic(http.ErrAbortHandler)
}

// world is the program, the registry and the images of a test.
type world struct {
	t       *testing.T
	program string
	host    string
	refs    []string
	reports []string // of each image, by a process that is alone and has no cache
	k       *killer
	tmp     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, program: filepath.Join(t.TempDir(), "imgcheck"), tmp: t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", w.program, "../../cmd/imgcheck").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.k = &killer{registry: registry.New(registry.Logger(log.New(io.Discard, "", 0))), left: -1}
	server := httptest.NewUnstartedServer(w.k)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	w.host = strings.TrimPrefix(server.URL, "http://")
	for i := range imageCount {
		text, err := images.Text(texts[i%len(texts)] + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		// the lower layers are those of all images of this text
		text = fmt.Appendf(text, "-- 9/srv/app%d --\ntext\napp %d\n", i, i)
		ref := fmt.Sprintf("%s/team/app%d:1", w.host, i)
		parsed, err := name.ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(parsed, imagetest.V1(t, string(text))); err != nil {
			t.Fatal(err)
		}
		report, _ := w.run(w.scan(i, "--no-cache"))
		w.refs, w.reports = append(w.refs, ref), append(w.reports, report)
	}
	return w
}

// scan returns the command that scans an image.
func (w *world) scan(i int, cache ...string) *exec.Cmd {
	args := append([]string{"scan", "--config", "none", "--no-fixes", "-f", "json"}, cache...)
	return w.command(append(args, fmt.Sprintf("%s/team/app%d:1", w.host, i))...)
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+w.tmp, "DOCKER_CONFIG="+w.tmp, "REGISTRY_AUTH_FILE="+filepath.Join(w.tmp, "none"))
	return cmd
}

// run runs a command that must not fail, and returns its exit status and output, and its
// largest memory.
func (w *world) run(cmd *exec.Cmd) (string, int64) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		w.t.Errorf("%v: %v: %s", cmd.Args, err, errs.String())
	}
	memory := int64(0)
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		memory = usage.Maxrss
		if runtime.GOOS == "linux" {
			memory <<= 10
		}
	}
	return fmt.Sprintf("%d\n%s", cmd.ProcessState.ExitCode(), out.String()), memory
}

// right checks a report of an image.
func (w *world) right(when string, i int, report string) {
	w.t.Helper()
	if report != w.reports[i] {
		w.t.Errorf("%s: %s: %d bytes, want %d: %.300s", when, w.refs[i], len(report), len(w.reports[i]), report)
	}
}

func sizes(t *testing.T) (scans, kills int) {
	t.Helper()
	scans, kills = 32, 24
	if s := os.Getenv("LOAD"); s != "" {
		if n, err := fmt.Sscanf(s, "%d,%d", &scans, &kills); n != 2 {
			t.Fatalf("LOAD=%s: %v", s, err)
		}
	}
	return scans, kills
}

// TestScansAtOnce: scans at once, with one cache, give what each gives alone, within their
// memory, and leave a cache that gives the same.
func TestScansAtOnce(t *testing.T) {
	scans, _ := sizes(t)
	w := newWorld(t)
	cache := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	jobs := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var most int64
	for range atOnce {
		wg.Go(func() {
			for i := range jobs {
				report, memory := w.run(w.scan(i, "--cache-dir", cache))
				w.right("at once", i, report)
				mu.Lock()
				most = max(most, memory)
				mu.Unlock()
			}
		})
	}
	for range scans {
		jobs <- rng.IntN(imageCount)
	}
	close(jobs)
	wg.Wait()
	t.Logf("%d scans, %d at once: at most %d MiB each", scans, atOnce, most>>20)
	if most == 0 || most > maxMemory {
		t.Errorf("a process has %d bytes, more than %d", most, maxMemory)
	}
	w.noTemporary(cache)
	for i := range imageCount {
		report, _ := w.run(w.scan(i, "--cache-dir", cache))
		w.right("with the cache", i, report)
	}
}

// noTemporary checks that no file of the temporary directory or of the cache is unfinished.
func (w *world) noTemporary(cache string) {
	w.t.Helper()
	for _, dir := range []string{w.tmp, cache} {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (dir == w.tmp || strings.Contains(filepath.Base(p), "tmp")) {
				w.t.Errorf("left behind: %s", p)
			}
			return err
		})
		if err != nil {
			w.t.Error(err)
		}
	}
}

// TestKilled kills scans and patches. The next run with the same cache and target must be
// right, and a killed patch has named either nothing or the whole image.
func TestKilled(t *testing.T) {
	_, kills := sizes(t)
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(3, 4))
	patched := w.patch("wanted", "--no-cache")
	w.run(patched)
	want := w.digest("wanted")
	if want == "" {
		t.Fatal("the patch has no target")
	}
	cache, done, named, ended := t.TempDir(), 0, 0, 0
	for round := 0; done < kills; round++ {
		if round > 5*kills {
			t.Fatalf("only %d of %d processes were killed", done, round)
		}
		if rng.IntN(2) == 0 { // else the cache is that of the kill before
			cache = t.TempDir()
		}
		i, target := rng.IntN(imageCount), fmt.Sprintf("fixed%d", round)
		push := rng.IntN(2) == 0
		cmd, requests := w.scan(i, "--cache-dir", cache), 12
		if push {
			cmd, requests = w.patch(target, "--cache-dir", cache), 24
		}
		when := fmt.Sprintf("round %d, %v", round, cmd.Args)
		if !w.killed(cmd, rng.IntN(requests), rng.IntN(2)*rng.IntN(2000)) {
			ended++
			continue
		}
		done++
		if push {
			if got := w.digest(target); got != "" && got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			} else if got != "" {
				named++
			}
			w.run(w.patch(target, "--cache-dir", cache))
			if got := w.digest(target); got != want {
				t.Errorf("%s: the next patch has %s, want %s", when, got, want)
			}
		}
		report, _ := w.run(w.scan(i, "--cache-dir", cache))
		w.right(when, i, report)
	}
	t.Logf("%d killed, %d of them once the target was named; %d had ended before", done, named, ended)
}

// patch returns the command that patches an image to a tag.
func (w *world) patch(tag string, cache ...string) *exec.Cmd {
	return w.command(append([]string{"patch", w.host + "/team/app2:1", "-t", w.host + "/team/app2:" + tag}, cache...)...)
}

// killed runs a command until it is killed, and reports whether it was.
func (w *world) killed(cmd *exec.Cmd, requests, bytes int) bool {
	w.t.Helper()
	w.k.mu.Lock() // until the process is known
	w.k.left, w.k.bytes, w.k.killed = requests, bytes, false
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.k.process = cmd.Process
	w.k.mu.Unlock()
	cmd.Wait()
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	w.k.left = -1
	return w.k.killed
}

// digest returns the digest of a tag of the patched image, or "" if it is not there.
func (w *world) digest(tag string) string {
	ref, err := name.ParseReference(w.host + "/team/app2:" + tag)
	if err != nil {
		w.t.Fatal(err)
	}
	d, err := remote.Head(ref)
	if err != nil {
		return ""
	}
	return d.Digest.String()
}
