package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

var (
	uses = regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.*)$`)
	// pinned is an action of a repository at a commit, with the version that the commit has.
	pinned = regexp.MustCompile(`^[\w.-]+/[\w.-]+(/[\w./-]+)?@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

// workflows returns the text of action.yml and of each workflow, by path from the root.
func workflows(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../.github/workflows/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	texts := map[string]string{}
	for _, path := range append(paths, "../../action.yml") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = string(text)
	}
	return texts
}

// TestActionsArePinned checks that actions are named by their commit, since the owner of an
// action can move its tag, and everything that it can do then runs with our rights.
func TestActionsArePinned(t *testing.T) {
	for path, text := range workflows(t) {
		lines := uses.FindAllStringSubmatch(text, -1)
		if n := strings.Count(text, "uses:"); n != len(lines) || n == 0 {
			t.Errorf("%s: %d of %d actions were read: write each on a line of its own", path, len(lines), n)
		}
		for _, line := range lines {
			if !pinned.MatchString(line[1]) {
				t.Errorf("%s: %s: name the commit, and its version as a comment: OWNER/NAME@COMMIT # v1.2.3", path, line[1])
			}
		}
	}
	for _, loose := range []string{"actions/checkout@v4", "actions/checkout@main # v4.0.0", "a/b@27d5ce7f107fe9357f9df03efb73ab90386fccae"} {
		if pinned.MatchString(loose) {
			t.Errorf("%s counts as pinned", loose)
		}
	}
}

// workflow is the part of a workflow that the tests of its rights read.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Steps       []struct{ Uses, Run string }
	}
}

// TestWorkflowRights checks that no job that builds can write, and that those that can run no
// code of the repository or of its dependencies; that a release is signed and has its
// provenance; and that `make vuln` runs for changes and before a release.
func TestWorkflowRights(t *testing.T) {
	found := map[string]string{}
	for path, text := range workflows(t) {
		if path == "action.yml" {
			continue
		}
		var w workflow
		if err := yaml.Unmarshal([]byte(text), &w); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if w.Permissions == nil {
			t.Errorf("%s: without permissions, jobs have those of the repository's settings", path)
		}
		for name, job := range w.Jobs {
			writes := false
			for _, rights := range []map[string]string{w.Permissions, job.Permissions} {
				for _, right := range rights {
					writes = writes || right == "write"
				}
			}
			for _, step := range job.Steps {
				found[path] += step.Uses + "\n" + step.Run + "\n"
				if writes && (strings.HasPrefix(step.Uses, "actions/checkout@") || strings.Contains(step.Run, "make ")) {
					t.Errorf("%s: job %s may write, and takes or runs the source: %s%s", path, name, step.Uses, step.Run)
				}
			}
		}
	}
	for path, needs := range map[string][]string{
		".github/workflows/release.yml": {"make vuln", "make release", "cosign sign-blob", "actions/attest-build-provenance@"},
		".github/workflows/vuln.yml":    {"make vuln"},
	} {
		for _, step := range needs {
			if !strings.Contains(found[path], step) {
				t.Errorf("%s has no step with %s", path, step)
			}
		}
	}
}

// TestNamesAreNoOptions: the recipes give lint the names of files after `--`. A commit may have a file that
// is named --output=Makefile.dockerfile.
func TestNamesAreNoOptions(t *testing.T) {
	for file, line := range map[string]string{
		"ci/husky/pre-commit":    "imgcheck lint --\n",
		"ci/lefthook.yml":        "imgcheck lint -- {staged_files}\n",
		".pre-commit-hooks.yaml": "entry: imgcheck lint\n  args: [--]",
		"action.yml":             "-- $FILES",
	} {
		b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), line) {
			t.Errorf("%s has no %q", file, line)
		}
	}
}
