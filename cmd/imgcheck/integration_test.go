package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"
)

// root is the repository's.
var root = func() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}()

// ciStep is a step of action.yml, as much of it as a runner's shell needs.
type ciStep struct {
	ID, Shell, Run, Uses string
	Env                  map[string]string
}

var expression = regexp.MustCompile(`\$\{\{ *([a-z_.A-Z-]+) *\}\}`)

// runAction does what a GitHub runner does with the shell steps of action.yml,
// the inputs being given as NAME=VALUE. What they print is in action.log.
func runAction(ts *testscript.TestScript, neg bool, args []string) {
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct{ Steps []ciStep }
	}
	text, err := os.ReadFile(filepath.Join(root, "action.yml"))
	ts.Check(err)
	ts.Check(yaml.Unmarshal(text, &action))
	values := map[string]string{"github.action_path": root}
	for name, in := range action.Inputs {
		values["inputs."+name] = in.Default
	}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		if _, ok := action.Inputs[name]; !ok {
			ts.Fatalf("action.yml has no input %s", name)
		}
		values["inputs."+name] = value
	}
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"} {
		file := ts.MkAbs(strings.ToLower(name))
		ts.Check(os.WriteFile(file, nil, 0o644))
		ts.Setenv(name, file)
	}
	ts.Setenv("RUNNER_TEMP", ts.MkAbs("runner-temp"))
	failed, output := false, ""
	for _, step := range action.Runs.Steps {
		if step.Run == "" || failed {
			continue
		}
		if step.Shell != "bash" || expression.MatchString(step.Run) {
			ts.Fatalf("step %s: wants a shell, and no expression in its script", step.ID)
		}
		for name, value := range step.Env {
			ts.Setenv(name, expression.ReplaceAllStringFunc(value, func(e string) string {
				key := expression.FindStringSubmatch(e)[1]
				v, ok := values[key]
				if !ok {
					ts.Fatalf("step %s: nothing sets %s", step.ID, key)
				}
				return v
			}))
		}
		ts.Check(os.WriteFile(ts.MkAbs("step.sh"), []byte(step.Run), 0o644))
		failed = ts.Exec("bash", "--noprofile", "--norc", "-eo", "pipefail", ts.MkAbs("step.sh")) != nil
		output += ts.ReadFile("stdout") + ts.ReadFile("stderr")
		for line := range strings.Lines(ts.ReadFile("github_output")) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			values["steps."+step.ID+".outputs."+name] = value
		}
		for line := range strings.Lines(ts.ReadFile("github_path")) {
			ts.Setenv("PATH", strings.TrimSpace(line)+string(os.PathListSeparator)+ts.Getenv("PATH"))
		}
		ts.Check(os.WriteFile(ts.MkAbs("github_path"), nil, 0o644))
	}
	ts.Check(os.WriteFile(ts.MkAbs("action.log"), []byte(output), 0o644))
	if failed != neg {
		ts.Fatalf("the action failed: %v", failed)
	}
}

// runGitLab does what a GitLab runner does with the job of the template, the
// variables being given as NAME=VALUE.
func runGitLab(ts *testscript.TestScript, neg bool, args []string) {
	var file map[string]struct {
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
	}
	text, err := os.ReadFile(filepath.Join(root, "ci", "imgcheck.gitlab-ci.yml"))
	ts.Check(err)
	ts.Check(yaml.Unmarshal(text, &file))
	job, ok := file["imgcheck"]
	if !ok || len(job.Script) == 0 {
		ts.Fatalf("the template has no job")
	}
	ts.Setenv("CI_PROJECT_DIR", ts.Getenv("WORK"))
	for name, value := range job.Variables {
		ts.Setenv(name, os.Expand(value, ts.Getenv))
	}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		ts.Setenv(name, value)
	}
	script := fmt.Sprintf("set -eu\n%s\n%s\n", strings.Join(job.BeforeScript, "\n"), strings.Join(job.Script, "\n"))
	ts.Check(os.WriteFile(ts.MkAbs("job.sh"), []byte(script), 0o644))
	if failed := ts.Exec("sh", ts.MkAbs("job.sh")) != nil; failed != neg {
		ts.Fatalf("the job failed: %v", failed)
	}
}

// readme writes the shell commands of a section of the README to steps.sh: with
// this repository for GitHub, the script's registry for ghcr.io, and a check of
// the exit status where the text tells one.
func readme(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	ts.Check(err)
	_, section, ok := strings.Cut(string(text), "\n## "+args[0]+"\n")
	_, block, ok2 := strings.Cut(section, "```sh\n")
	block, _, ok3 := strings.Cut(block, "```\n")
	if !ok || !ok2 || !ok3 {
		ts.Fatalf("the README has no commands in %q", args[0])
	}
	block = strings.NewReplacer("https://raw.githubusercontent.com/imgcheck/imgcheck/main/", "file://"+root+"/", "ghcr.io/", ts.Getenv("REGISTRY")+"/").Replace(block)
	block = regexp.MustCompile(`(?m)^(imgcheck .*?) +# exits with ([0-9])`).ReplaceAllString(block, "status=0; $1 || status=$$?; [ $$status = $2 ] #")
	ts.Check(os.WriteFile(ts.MkAbs("steps.sh"), []byte(block), 0o644))
}
