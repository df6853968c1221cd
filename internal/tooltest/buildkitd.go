package tooltest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Buildkitd starts the buildkitd that `make buildkit` has built, as root, and returns
// its address. $BUILDKIT is the directory of buildkitd and buildctl, and
// $BUILDKIT_SNAPSHOTTER the snapshotter that unpacks images.
func Buildkitd(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	addr := "unix://" + filepath.Join(dir, "sock")
	snapshotter := os.Getenv("BUILDKIT_SNAPSHOTTER")
	if snapshotter == "" {
		snapshotter = "native" // works in containers, where overlayfs cannot lie on overlayfs
	}
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(os.Getenv("BUILDKIT"), "buildkitd"), "--root", filepath.Join(dir, "root"), "--addr", addr,
		"--containerd-worker=false", "--oci-worker-binary=runc", "--oci-worker-snapshotter="+snapshotter)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run make buildkit, as root", err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		<-ended
		if t.Failed() {
			t.Logf("buildkitd said:\n%s", log.String())
		}
	})
	for {
		if _, err := Buildctl(t, addr, "debug", "workers"); err == nil {
			return addr
		}
		select {
		case <-ended:
			t.Fatalf("buildkitd has ended:\n%s", log.String())
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Buildctl runs the buildctl beside buildkitd and returns its output.
func Buildctl(t testing.TB, addr string, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("BUILDKIT"), "buildctl"), append([]string{"--addr", addr}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
