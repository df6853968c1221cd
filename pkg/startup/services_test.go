package startup

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// TestRunFileMode follows the run file of a service of s6 that may not be executed:
// s6-rc-compile makes it executable.
func TestRunFileMode(t *testing.T) {
	fsys := testImage(t, []txtar.File{{Name: "/usr/bin/app", Data: []byte("elf")}, {Name: "/init", Data: []byte("#!/bin/sh\n")}})
	text := []byte("#!/bin/sh\nexec app x\n")
	run := []layers.Entry{
		{Path: "etc/s6-overlay", Type: layers.Dir},
		{Path: "etc/s6-overlay/s6-rc.d", Type: layers.Dir},
		{Path: "etc/s6-overlay/s6-rc.d/web", Type: layers.Dir},
		{Path: "etc/s6-overlay/s6-rc.d/web/run", Type: layers.Regular, Mode: 0o644, Size: int64(len(text)), Content: text, Shebang: "/bin/sh"},
	}
	r := Follow(fsys.With(layers.NewLayer(run), source.Layer{}), v1.Config{Entrypoint: []string{"/init"}}, testStarters(t))
	if got := lastStarted(r); got != "app x" {
		t.Errorf("starts %q; %v", got, r.Unknown)
	}
}
