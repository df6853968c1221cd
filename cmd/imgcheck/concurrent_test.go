package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// Processes that publish patches to one layout at the same time all succeed: the layout
// has each patch under its tag, and no lock is left behind.
func TestConcurrentPatches(t *testing.T) {
	data, err := images.Text("soname-link-missing.txtar")
	if err != nil {
		t.Fatal(err)
	}
	from := t.TempDir()
	p, err := layout.Write(from, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(imagetest.V1(t, string(data))); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("imgcheck")
	if err != nil {
		t.Fatal(err)
	}
	const processes = 8
	for round := range 3 {
		to := filepath.Join(t.TempDir(), "layout") // the processes create it
		cache := t.TempDir()
		var running []*exec.Cmd
		var errs [processes]bytes.Buffer
		for i := range processes {
			cmd := exec.Command(program, "patch", "oci:"+from, "-t", fmt.Sprintf("oci:%s:t%d", to, i), "--cache-dir", cache)
			cmd.Stderr = &errs[i]
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			running = append(running, cmd)
		}
		for i, cmd := range running {
			if err := cmd.Wait(); err != nil {
				t.Errorf("round %d, process %d: %v: %s", round, i, err, errs[i].String())
			}
		}
		p, err := layout.FromPath(to)
		if err != nil {
			t.Fatal(err)
		}
		index, err := p.ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		m, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		tags := map[string]bool{}
		for _, d := range m.Manifests {
			tags[d.Annotations["org.opencontainers.image.ref.name"]] = true
		}
		if len(tags) != processes || len(m.Manifests) != processes {
			t.Errorf("round %d: %d entries with %d tags, want %d", round, len(m.Manifests), len(tags), processes)
		}
		hidden, err := filepath.Glob(filepath.Join(to, ".*"))
		if err != nil || len(hidden) > 0 {
			t.Errorf("left behind: %v, %v", hidden, err)
		}
	}
}
