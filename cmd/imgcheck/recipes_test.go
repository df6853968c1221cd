package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"
)

// recipe has the parts of a file of ci/ that a CI system runs.
type recipe struct {
	shell   string
	script  string
	env     map[string]string
	reports []string // files that it publishes afterwards
}

// runRecipe FILE [NAME=VALUE]... runs the script of a recipe for Jenkins, Azure or Tekton in
// the working directory, with these parameters.
func runRecipe(ts *testscript.TestScript, neg bool, args []string) {
	text, err := os.ReadFile(filepath.Join(root, "ci", args[0]))
	ts.Check(err)
	given := map[string]string{}
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a, "=")
		given[name] = value
	}
	var r recipe
	switch args[0] {
	case "azure-pipelines.yml":
		r = azure(ts, text, given)
	case "tekton.yaml":
		r = tekton(ts, text, given)
	case "Jenkinsfile":
		r = jenkins(ts, string(text), given)
	default:
		ts.Fatalf("no form of %s", args[0])
	}
	if len(given) > 0 {
		ts.Fatalf("%s has no parameters %v", args[0], slices.Sorted(maps.Keys(given)))
	}
	if regexp.MustCompile(`\$\(\w+\.|\$\{\{`).MatchString(r.script) || r.script == "" {
		ts.Fatalf("%s: an expression in the script:\n%s", args[0], r.script)
	}
	for name, value := range r.env {
		ts.Setenv(name, value)
	}
	ts.Check(os.WriteFile(ts.MkAbs("recipe.sh"), []byte(r.script), 0o644))
	if failed := ts.Exec(r.shell, ts.MkAbs("recipe.sh")) != nil; failed != neg {
		ts.Fatalf("the job failed: %v", failed)
	}
	for _, file := range r.reports {
		if _, err := os.Stat(ts.MkAbs(file)); err != nil {
			ts.Fatalf("%s publishes %s: %v", args[0], file, err)
		}
	}
}

// take returns a parameter that was given, or its default, and counts it as known.
func take(given map[string]string, name, value string) string {
	if v, ok := given[name]; ok {
		value = v
	}
	delete(given, name)
	return value
}

// filled replaces the expressions in the variables of a script.
func filled(ts *testscript.TestScript, env map[string]string, expression string, values map[string]string) map[string]string {
	e := regexp.MustCompile(expression)
	out := map[string]string{}
	for name, value := range env {
		out[name] = e.ReplaceAllStringFunc(value, func(s string) string {
			v, ok := values[e.FindStringSubmatch(s)[1]]
			if !ok {
				ts.Fatalf("nothing sets %s", s)
			}
			return v
		})
	}
	return out
}

func azure(ts *testscript.TestScript, text []byte, given map[string]string) (r recipe) {
	var file struct {
		Parameters []struct{ Name, Type, Default string }
		Steps      []struct {
			Bash, Task, Publish, Condition string
			Env, Inputs                    map[string]string
		}
	}
	ts.Check(yaml.Unmarshal(text, &file))
	values := map[string]string{}
	for _, p := range file.Parameters {
		values["parameters."+p.Name] = take(given, p.Name, p.Default)
	}
	r.shell = "bash"
	for _, s := range file.Steps {
		switch {
		case s.Bash != "" && r.script == "":
			r.script, r.env = s.Bash, filled(ts, s.Env, `\$\{\{ ([a-z.]+) \}\}`, values)
		case s.Condition != "succeededOrFailed()":
			ts.Fatalf("reports are not published after findings")
		case s.Task == "PublishTestResults@2" && s.Inputs["testResultsFormat"] == "JUnit":
			r.reports = append(r.reports, s.Inputs["testResultsFiles"])
		case s.Publish != "":
			r.reports = append(r.reports, s.Publish)
		default:
			ts.Fatalf("what does %+v do?", s)
		}
	}
	return r
}

func tekton(ts *testscript.TestScript, text []byte, given map[string]string) (r recipe) {
	var file struct {
		Kind string
		Spec struct {
			Params              []struct{ Name, Default string }
			Workspaces, Results []struct{ Name string }
			Steps               []struct {
				Script string
				Dir    string `yaml:"workingDir"`
				Env    []struct{ Name, Value string }
			}
		}
	}
	ts.Check(yaml.Unmarshal(text, &file))
	values := map[string]string{}
	for _, p := range file.Spec.Params {
		values["params."+p.Name] = take(given, p.Name, p.Default)
	}
	for _, w := range file.Spec.Workspaces {
		values["workspaces."+w.Name+".path"] = "" // of an optional one that a run does not bind
	}
	for _, x := range file.Spec.Results {
		values["results."+x.Name+".path"] = ts.MkAbs("result-" + x.Name)
	}
	if len(file.Spec.Steps) != 1 || file.Kind != "Task" || file.Spec.Steps[0].Dir != "$(workspaces.source.path)" {
		ts.Fatalf("%+v", file)
	}
	env := map[string]string{}
	for _, e := range file.Spec.Steps[0].Env {
		env[e.Name] = e.Value
	}
	return recipe{"sh", file.Spec.Steps[0].Script, filled(ts, env, `\$\(([a-z.]+)\)`, values), nil}
}

// jenkins reads the parts of a Jenkinsfile that it needs, in the form that ours has: Groovy
// itself does not run here.
func jenkins(ts *testscript.TestScript, text string, given map[string]string) (r recipe) {
	if strings.Count(text, "{") != strings.Count(text, "}") {
		ts.Fatalf("the braces of the Jenkinsfile do not match")
	}
	r.shell, r.env = "sh", map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +string\(name: '(\w+)', defaultValue: '([^']*)', description: '[^']*'\)$`).FindAllStringSubmatch(text, -1) {
		r.env[m[1]] = take(given, m[1], m[2])
	}
	for _, m := range regexp.MustCompile(`(?m)^    (IMGCHECK_\w+) = (?:'([^']*)'|"\$\{WORKSPACE\}([^"$]*)")$`).FindAllStringSubmatch(text, -1) {
		r.env[m[1]] = m[2]
		if m[3] != "" {
			r.env[m[1]] = ts.Getenv("WORK") + m[3]
		}
	}
	_, script, ok := strings.Cut(text, "sh '''\n")
	script, after, ok2 := strings.Cut(script, "'''")
	if !ok || !ok2 || strings.Contains(script, `\`) || !strings.Contains(after, "always {") {
		ts.Fatalf("the Jenkinsfile has no script that is taken as it stands")
	}
	r.script = script
	for _, m := range regexp.MustCompile(`(?:testResults|artifacts): '([^']+)'`).FindAllStringSubmatch(after, -1) {
		r.reports = append(r.reports, strings.Split(m[1], ", ")...)
	}
	return r
}
