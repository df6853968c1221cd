package fleet

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write deploy/base/cronjob.yaml")

// TestDeploy holds the CronJob of deploy/base, whose list and name kustomize makes, to what a
// fleet of four shards is written in.
func TestDeploy(t *testing.T) {
	f := small(4)
	f.Shards, f.Schedule, f.Imgcheck = 4, "0 3 * * 1", "imgcheck"
	var b bytes.Buffer
	if err := f.Write(&b, "cronjob"); err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(b.String(), "\n---\n")
	if !ok {
		t.Fatal("there is no second document")
	}
	want := "# Written by `go test ./pkg/fleet -run TestDeploy -update`.\n" + strings.ReplaceAll(text, f.Run(), "imgcheck")
	name := filepath.Join("..", "..", "deploy", "base", "cronjob.yaml")
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what imgcheck fleet writes (%v): go test ./pkg/fleet -run TestDeploy -update", name, err)
	}
}
