package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"
)

// commands returns all commands of the program.
func commands(t *testing.T) []*cli.Command {
	t.Helper()
	app := newApp(new(bytes.Buffer), new(bytes.Buffer))
	app.Setup()
	if len(app.VisibleCommands()) < 10 {
		t.Fatalf("only %d commands", len(app.VisibleCommands()))
	}
	return app.VisibleCommands()
}

// TestHelp checks that every command has a description, a usage, and two examples.
func TestHelp(t *testing.T) {
	for _, cmd := range commands(t) {
		var out, errs bytes.Buffer
		if status := run(context.Background(), []string{"imgcheck", cmd.Name, "--help"}, &out, &errs); status != exitOK || errs.Len() > 0 {
			t.Errorf("%s --help: status %d, %s", cmd.Name, status, &errs)
		}
		_, examples, _ := strings.Cut(out.String(), "Examples:\n")
		if n := len(regexp.MustCompile(`(?m)^ +.*\bimgcheck `+cmd.Name+`\b`).FindAllString(examples, -1)); n < 2 {
			t.Errorf("%s --help gives %d examples, not two:\n%s", cmd.Name, n, &out)
		}
		for line := range strings.Lines(out.String()) {
			if len([]rune(line)) > helpWidth+1 {
				t.Errorf("%s --help is wider than %d columns: %s", cmd.Name, helpWidth, line)
			}
		}
	}
}

// TestMisspelt checks that the error for a flag or command with two letters swapped
// names the right one.
func TestMisspelt(t *testing.T) {
	ask := func(args ...string) string {
		var out, errs bytes.Buffer
		if status := run(context.Background(), append([]string{"imgcheck"}, args...), &out, &errs); status != exitFailed || out.Len() > 0 {
			t.Errorf("%v: status %d, %s", args, status, &out)
		}
		return errs.String()
	}
	swap := func(s string) string { return s[:1] + s[2:3] + s[1:2] + s[3:] }
	for _, cmd := range commands(t) {
		if len(cmd.Name) > 3 && swap(cmd.Name) != cmd.Name {
			if got, want := ask(swap(cmd.Name)), "did you mean `imgcheck "+cmd.Name+"`?"; !strings.Contains(got, want) {
				t.Errorf("%s: %s", swap(cmd.Name), got)
			}
		}
		for _, f := range cmd.VisibleFlags() {
			name := f.Names()[0]
			if wrong := swap(name + "  "); len(name) > 3 && strings.TrimSpace(wrong) != name {
				if got := ask(cmd.Name, "--"+strings.TrimSpace(wrong)); !strings.Contains(got, "did you mean --") || !strings.Contains(got, "see `imgcheck "+cmd.Name+" --help`") {
					t.Errorf("%s --%s: %s", cmd.Name, wrong, got)
				}
			}
		}
	}
}

// TestCompletions lets each shell load its completions and complete with them.
func TestCompletions(t *testing.T) {
	script := func(shell string) string {
		var out, errs bytes.Buffer
		if status := run(context.Background(), []string{"imgcheck", "completion", shell}, &out, &errs); status != exitOK || errs.Len() > 0 {
			t.Fatalf("completion %s: status %d, %s", shell, status, &errs)
		}
		return out.String()
	}
	ask := func(shell, text string) string {
		t.Helper()
		cmd := exec.Command(shell, map[string][]string{"bash": {"--norc", "-s"}, "zsh": {"-f", "-s"}, "fish": {"--no-config"}}[shell]...)
		cmd.Stdin = strings.NewReader(text)
		cmd.Env = append(cmd.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s (Debian: %s): %v\n%s", shell, shell, err, out)
		}
		return string(out)
	}
	for words, want := range map[string]string{
		"imgcheck sc":                  "scan",
		"imgcheck scan --form":         "--format",
		"imgcheck scan --format sar":   "sarif",
		"imgcheck scan x --fail-on wa": "warning",
		"imgcheck hook uni":            "uninstall",
		"imgcheck convert --outp":      "--output",
		"imgcheck completion fi":       "fish",
	} {
		got := ask("bash", script("bash")+"\nCOMP_WORDS=("+words+")\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n_imgcheck\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n")
		if got != want+"\n" {
			t.Errorf("bash: %s: %q, want %q", words, got, want)
		}
	}
	zsh := "compdef() { :; }\n_files() { :; }\n_describe() { print -rl -- ${(P)2}; }\n" + script("zsh")
	for words, want := range map[string]string{"imgcheck ''": "scan:read an image", "imgcheck scan ''": "--format:FORMAT of the report", "imgcheck hook ''": "install:"} {
		if got := ask("zsh", zsh+"\nwords=("+words+")\nCURRENT=${#words}\n_imgcheck\n"); !strings.Contains(got, want) {
			t.Errorf("zsh: %s: no %q in %q", words, want, got)
		}
	}
	for words, want := range map[string]string{"imgcheck sc": "scan\t", "imgcheck scan --form": "--format\t"} {
		if got := ask("fish", script("fish")+"\ncomplete -C '"+words+"'\n"); !strings.Contains(got, want) {
			t.Errorf("fish: %s: no %q in %q", words, want, got)
		}
	}
}

// TestMan checks that groff accepts the manual page.
func TestMan(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"imgcheck", "man"}, &out, &errs); status != exitOK || errs.Len() > 0 {
		t.Fatalf("status %d, %s", status, &errs)
	}
	cmd := exec.Command("groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-P-cbou", "-")
	cmd.Stdin = &out
	var text, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		t.Errorf("groff (Debian: groff-base): %v\n%.2000s", err, &complaints)
	}
	for _, c := range commands(t) {
		if !strings.Contains(text.String(), "imgcheck "+c.Name) {
			t.Errorf("no %s in the manual", c.Name)
		}
	}
	for _, want := range []string{"--fail-on SEVERITY", "IMGCHECK_FAIL_ON", "EXIT STATUS"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in the manual:\n%.3000s", want, &text)
		}
	}
}

// TestPreCommit checks that the hook for pre-commit calls an existing command, at the
// stage where git lists the pushed refs.
func TestPreCommit(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".pre-commit-hooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID, Entry, Language string
		Stages              []string
		PassFilenames       *bool `yaml:"pass_filenames"`
		AlwaysRun           bool  `yaml:"always_run"`
	}
	if err := yaml.Unmarshal(text, &hooks); err != nil || len(hooks) != 2 {
		t.Fatalf("%v, %d hooks", err, len(hooks))
	}
	h := hooks[0]
	words := strings.Fields(h.Entry)
	cmd := newApp(new(bytes.Buffer), new(bytes.Buffer)).Command(words[1])
	if words[0] != "imgcheck" || cmd == nil || !slices.Contains(verbsOf(cmd), words[2]) {
		t.Errorf("%q is no command", h.Entry)
	}
	if h.ID != "imgcheck" || h.Language != "golang" || !slices.Equal(h.Stages, []string{"pre-push"}) || h.PassFilenames == nil || *h.PassFilenames || !h.AlwaysRun {
		t.Errorf("%+v", h)
	}
	// imgcheck lint gets the names of the files.
	if h := hooks[1]; h.ID != "imgcheck-lint" || h.Entry != "imgcheck lint" || h.PassFilenames != nil || h.AlwaysRun || h.Language != "golang" {
		t.Errorf("%+v", h)
	}
}

// Texts of images and registries are printed without characters that control a terminal.
func TestOneLine(t *testing.T) {
	if got, want := oneLine("a \x1b]0;b\x07\n\tc\u202e → “d”"), `a \x1b]0;b\a c\u202e → “d”`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
