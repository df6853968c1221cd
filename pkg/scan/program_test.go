package scan

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

func TestRecordedBuild(t *testing.T) {
	for want, settings := range map[string][]debug.BuildSetting{
		"":                      {{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
		"x abc go1 linux/arm64": {{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}, {Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}},
	} {
		if got := recorded(&debug.BuildInfo{Path: "x", GoVersion: "go1", Settings: settings}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	deps := []*debug.Module{{Path: "a", Sum: "h1:x"}, {Path: "b", Replace: &debug.Module{Path: "../b"}}}
	info := &debug.BuildInfo{Main: debug.Module{Sum: "h1:y"}, Deps: deps[:1]}
	if got := recorded(info); got == "" {
		t.Error("a build of modules with checksums has no identity")
	}
	if info.Deps = deps; recorded(info) != "" {
		t.Error("a build with a module of a directory has an identity")
	}
	if got := recorded(nil); got != "" {
		t.Errorf("got %q of nothing", got)
	}
	if id, err := program(); id == "" || err != nil {
		t.Errorf("this program has no identity: %v", err)
	}
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if id := linked(name); !strings.HasPrefix(id, "linked ") || len(id) < 40 {
		t.Errorf("this program has the build ID %q", id)
	}
	if id := linked("verdict_test.go"); id != "" {
		t.Errorf("a text has the build ID %q", id)
	}
}
