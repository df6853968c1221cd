//go:build managers

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// TestHookManagers installs the hook beside husky and lefthook, from npm, and beside
// pre-commit, and runs the recipes of ci/ for husky and lefthook. `make real` runs it.
func TestHookManagers(t *testing.T) {
	for _, name := range []string{"npm", "node", "pre-commit"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%s is not installed (Debian: %s)", name, strings.Replace(name, "node", "nodejs", 1))
		}
	}
	modules := t.TempDir()
	npm := exec.Command("npm", "install", "--prefix", modules, "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "husky@9.1.7", "husky8@npm:husky@8.0.3", "lefthook@2.2.2")
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	server := imagetest.Serve(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "managers"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("REGISTRY", server.Host)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("REPO", root)
			e.Setenv("MODULES", filepath.Join(modules, "node_modules"))
			for name, value := range map[string]string{"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.com", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.com", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"} {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"image": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(makeImage(ts, server, args)) },
			"envsubst": func(ts *testscript.TestScript, _ bool, args []string) {
				text := strings.ReplaceAll(ts.ReadFile(args[0]), "$REGISTRY", server.Host)
				ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
			},
		},
		RequireExplicitExec: true,
	})
}
