package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/forgetest"
)

// root is the directory of the repository.
var root = func() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}()

// ciStep has the fields of a step in action.yml that a runner needs.
type ciStep struct {
	ID, If, Shell, Run, Uses string
	Env, With                map[string]string
}

// ciRun is the state of a GitHub runner while it runs the steps of action.yml.
type ciRun struct {
	ts     *testscript.TestScript
	values map[string]string // of expressions, by name
	failed bool
	output string // of all steps
	uses   string // a line for each action that was run
}

var expression = regexp.MustCompile(`\$\{\{ *([a-z_.A-Z-]+) *\}\}`)

// runAction runs action.yml as a GitHub runner does, with the inputs NAME=VALUE, of
// which `\n` ends a line. It
// writes the output of the steps to action.log, the commands in it that the runner obeys
// to obeyed.log, the actions of others that it would run to uses.log, and the keys of
// saved caches to the file caches.
func runAction(ts *testscript.TestScript, neg bool, args []string) {
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct{ Steps []ciStep }
	}
	text, err := os.ReadFile(filepath.Join(root, "action.yml"))
	ts.Check(err)
	ts.Check(yaml.Unmarshal(text, &action))
	r := &ciRun{ts: ts, values: map[string]string{"github.action_path": root, "runner.os": "Linux", "github.token": forgetest.App}}
	for name, in := range action.Inputs {
		r.values["inputs."+name] = in.Default
	}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		if _, ok := action.Inputs[name]; !ok {
			ts.Fatalf("action.yml has no input %s", name)
		}
		r.values["inputs."+name] = strings.ReplaceAll(value, `\n`, "\n")
	}
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"} {
		file := ts.MkAbs(strings.ToLower(name))
		ts.Check(os.WriteFile(file, nil, 0o644))
		ts.Setenv(name, file)
	}
	ts.Setenv("RUNNER_TEMP", ts.MkAbs("runner-temp"))
	ts.Setenv("RUNNER_OS", "Linux")
	for _, step := range action.Runs.Steps {
		switch {
		case !r.holds(step.If):
		case step.Run != "":
			r.shell(step)
		default:
			r.use(step)
		}
	}
	for name, text := range map[string]string{"action.log": r.output, "obeyed.log": obeyedBy(r.output), "uses.log": r.uses} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
	if r.failed != neg {
		ts.Fatalf("the action failed: %v", r.failed)
	}
}

// shell runs a script step.
func (r *ciRun) shell(step ciStep) {
	ts := r.ts
	if step.Shell != "bash" || strings.Contains(step.Run, "${{") {
		ts.Fatalf("step %s: wants a shell, and no expression in its script", step.ID)
	}
	for name, value := range step.Env {
		ts.Setenv(name, r.expand(value))
	}
	ts.Check(os.WriteFile(ts.MkAbs("step.sh"), []byte(step.Run), 0o644))
	if ts.Exec("bash", "--noprofile", "--norc", "-eo", "pipefail", ts.MkAbs("step.sh")) != nil {
		r.failed = true
	}
	r.output += ts.ReadFile("stdout") + ts.ReadFile("stderr")
	for line := range strings.Lines(ts.ReadFile("github_output")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		r.values["steps."+step.ID+".outputs."+name] = value
	}
	for line := range strings.Lines(ts.ReadFile("github_path")) {
		ts.Setenv("PATH", strings.TrimSpace(line)+string(os.PathListSeparator)+ts.Getenv("PATH"))
	}
	ts.Check(os.WriteFile(ts.MkAbs("github_path"), nil, 0o644))
}

// use records an action of others and its inputs. It models saving and restoring caches.
func (r *ciRun) use(step ciStep) {
	r.uses += step.Uses
	with := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(step.With)) {
		with[name] = strings.Join(strings.Fields(r.expand(step.With[name])), ",")
		r.uses += fmt.Sprintf(" %s=%s", name, with[name])
	}
	r.uses += "\n"
	file := r.ts.MkAbs("caches")
	saved, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		r.ts.Check(err)
	}
	switch name, _, _ := strings.Cut(step.Uses, "@"); name {
	case "actions/cache/save":
		r.ts.Check(os.WriteFile(file, append(saved, with["key"]+"\n"...), 0o644))
	case "actions/cache/restore":
		r.values["steps."+step.ID+".outputs.cache-matched-key"] = matched(strings.Fields(string(saved)), strings.Split(with["key"]+","+with["restore-keys"], ","))
	}
}

// matched returns the newest saved key that begins with the first wanted key for which
// there is one (actions/cache: Cache key matching).
func matched(saved, wanted []string) string {
	for _, want := range wanted {
		for _, key := range slices.Backward(saved) {
			if strings.HasPrefix(key, want) {
				return key
			}
		}
	}
	return ""
}

// expand replaces the expressions in a value.
func (r *ciRun) expand(value string) string {
	return expression.ReplaceAllStringFunc(value, func(e string) string { return r.value(expression.FindStringSubmatch(e)[1]) })
}

// value returns the value of an expression. Outputs of steps that did not run are empty.
func (r *ciRun) value(name string) string {
	v, ok := r.values[name]
	if !ok && !strings.HasPrefix(name, "steps.") {
		r.ts.Fatalf("nothing sets %s", name)
	}
	return v
}

// holds reports whether a step runs. A condition is terms joined by &&; unless always()
// is one of them, no earlier step may have failed.
func (r *ciRun) holds(condition string) bool {
	always := false
	for term := range strings.SplitSeq(condition, " && ") {
		words := strings.Fields(term)
		switch {
		case term == "":
		case term == "always()":
			always = true
		case len(words) == 3 && (words[1] == "==" || words[1] == "!="):
			if (r.operand(words[0]) == r.operand(words[2])) != (words[1] == "==") {
				return false
			}
		default:
			r.ts.Fatalf("what does %q say?", term)
		}
	}
	return always || !r.failed
}

func (r *ciRun) operand(word string) string {
	if text, ok := strings.CutPrefix(word, "'"); ok {
		return strings.TrimSuffix(text, "'")
	}
	return r.value(word)
}

// obeyedBy returns the commands in an output that GitHub's runner obeys, a line each, as
// its ActionCommand.cs and ActionCommandManager.cs read them.
func obeyedBy(output string) string {
	known := []string{"stop-commands", "error", "warning", "notice", "debug", "group", "endgroup", "add-mask", "set-output", "set-env", "add-path", "save-state", "echo", "add-matcher", "remove-matcher"}
	obeyed, resume := "", ""
	for line := range strings.Lines(output) {
		name, rest, ok := ciCommand(strings.TrimRight(line, "\r\n"))
		switch {
		case !ok:
		case resume != "":
			if strings.EqualFold(name, resume) {
				resume = ""
			}
		case name == "stop-commands":
			resume = rest
		case slices.Contains(known, strings.ToLower(name)):
			obeyed += name + " " + rest + "\n"
		}
	}
	if resume != "" {
		obeyed += "stopped\n"
	}
	return obeyed
}

// ciCommand returns the name and the data of a command in a line.
func ciCommand(line string) (name, rest string, ok bool) {
	info, ok := strings.CutPrefix(strings.TrimSpace(line), "::")
	if ok {
		info, rest, ok = strings.Cut(info, "::")
	}
	if !ok {
		if _, info, ok = strings.Cut(line, "##["); ok {
			info, rest, ok = strings.Cut(info, "]")
		}
	}
	name, _, _ = strings.Cut(info, " ")
	return name, rest, ok
}

// TestActionIsPinned checks that actions of others are pinned to a commit, with the
// release in a comment, and that docs/ci.md names the same ones as action.yml.
func TestActionIsPinned(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`^ +(- )?uses: [a-z-]+/[a-z/-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+\n$`)
	count := 0
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "uses:") {
			if count++; !pinned.MatchString(line) {
				t.Errorf("not a commit and its release: %s", line)
			}
		}
	}
	docs, err := os.ReadFile(filepath.Join(root, "docs", "ci.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, uses := range regexp.MustCompile(`uses: .*@[0-9a-f]{40}.*`).FindAllString(string(docs), -1) {
		if count++; !strings.Contains(string(text), uses+"\n") {
			t.Errorf("docs/ci.md has another release than action.yml: %s", uses)
		}
	}
	if count < 4 {
		t.Errorf("only %d actions are used", count)
	}
}

// runGitLab runs the job of the template as a GitLab runner does, with the variables
// NAME=VALUE.
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

// transcript FILE COMMAND OUT writes the output that a document of the repository shows for
// a command, in a block of the language console.
func transcript(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(filepath.Join(root, args[0]))
	ts.Check(err)
	_, block, ok := strings.Cut(string(text), "```console\n$ "+args[1]+"\n")
	block, _, ok2 := strings.Cut(block, "```\n")
	if !ok || !ok2 {
		ts.Fatalf("%s has no transcript of %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(block), 0o644))
}

// readme writes the shell commands of a section of the README to steps.sh, with this
// repository instead of GitHub, the script's registry instead of ghcr.io, and a check of
// each exit status that the text states.
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
