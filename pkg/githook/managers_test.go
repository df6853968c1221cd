package githook

import (
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestShell(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "echo a": true, "#!/bin/sh\n": true, "#! /usr/bin/env bash\n": true, "#!/usr/bin/env -S zsh -e\n": true, "#!/bin/dash -e": true,
		"#!/usr/bin/python3\n": false, "#!/usr/bin/env node\n": false, "\x7fELF\x00": false, "#!/bin/sh\r\n": false, "#!\n": false, "#!/usr/bin/env\n": false, "#!/usr/bin/fish": false,
	} {
		if got := isShell(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestBlock(t *testing.T) {
	block := shellBlock(runsBelow, "/o'brien/imgcheck")
	if !strings.Contains(block, `'/o'\''brien/imgcheck'`) || strings.Contains(block, "@") && !strings.Contains(block, `"$@"`) {
		t.Error(block)
	}
	for text, want := range map[string]string{
		"":                "BLOCK",
		"echo a\n":        "BLOCKecho a\n",
		"#!/bin/sh\n":     "#!/bin/sh\nBLOCK",
		"#!/bin/sh\necho": "#!/bin/sh\nBLOCKecho",
		"#!/bin/sh\n. \"$(dirname -- \"$0\")/_/husky.sh\"\n\nnpm test\n": "#!/bin/sh\n. \"$(dirname -- \"$0\")/_/husky.sh\"\nBLOCK\nnpm test\n",
	} {
		got := withBlock(text, block)
		if want := strings.Replace(want, "BLOCK", block, 1); got != want {
			t.Errorf("%q: %q", text, got)
		}
		if rest, had := withoutBlock(got); !had || rest != text {
			t.Errorf("%q: without it %q", text, rest)
		}
	}
	if got, want := withBlock("#!/bin/sh", block), "#!/bin/sh\n"+block; got != want {
		t.Errorf("a line without an end becomes %q", got)
	}
	for _, text := range []string{"", "a\n", blockBegins + "\nwithout an end", blockEnds} {
		if rest, had := withoutBlock(text); had || rest != text {
			t.Errorf("%q becomes %q", text, rest)
		}
	}
}

func TestEntries(t *testing.T) {
	commit := func(text string) (string, error) { return withPreCommit(text, "pre-push") }
	for name, x := range map[string]struct {
		with func(string) (string, error)
		text string
		line string // before the block; empty at the end
		ok   bool
	}{
		"nothing":         {withLefthook, "", "", true},
		"no end":          {withLefthook, "pre-commit: {}", "pre-commit: {}", true},
		"another hook":    {withLefthook, "# a\n\npre-commit:\n  jobs: []\n", "  jobs: []", true},
		"jobs":            {withLefthook, "pre-push: # b\n    jobs:\n    - run: x\nz: 1\n", "pre-push: # b", true},
		"commands":        {withLefthook, "pre-push:\n  commands:\n\n      # c\n      a:\n        run: x\n", "  commands:", true},
		"flow":            {withLefthook, "pre-push: {commands: {a: {run: x}}}\n", "", false},
		"flow commands":   {withLefthook, "pre-push:\n  commands: {a: {run: x}}\n", "", false},
		"empty hook":      {withLefthook, "pre-push:\n", "", false},
		"an alias":        {withLefthook, "x: &x {a: {run: b}}\npre-push:\n  commands: *x\n", "", false},
		"its own":         {withLefthook, "pre-push:\n  commands:\n    imgcheck:\n      run: x\n", "", false},
		"no YAML":         {withLefthook, "a: b: c", "", false},
		"a list":          {withLefthook, "- a\n", "", false},
		"repos":           {commit, "repos:\n- repo: a\n  hooks: []\n", "repos:", true},
		"indented":        {commit, "x: 1\nrepos:\n  # d\n  -   repo: a\n      hooks: []\n", "repos:", true},
		"empty repos":     {commit, "repos: []\n", "", false},
		"no repos":        {commit, "x: 1\n", "", false},
		"repos of a flow": {commit, "repos: [{repo: a}]\n", "", false},
	} {
		got, err := x.with(x.text)
		if (err == nil) != x.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if rest, had := withoutBlock(got); !had || strings.TrimSuffix(rest, "\n") != strings.TrimSuffix(x.text, "\n") {
			t.Errorf("%s: without the block %q", name, rest)
		}
		if before, _, _ := strings.Cut(got, blockBegins); strings.TrimRight(before, " ") != "" && !strings.HasSuffix(strings.TrimRight(before, " "), x.line+"\n") {
			t.Errorf("%s: it does not stand behind %q:\n%s", name, x.line, got)
		}
		var v map[string]any
		if err := yaml.Unmarshal([]byte(got), &v); err != nil || !strings.Contains(got, "hook run") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// FuzzEntries: what was added can be removed again, and does not change the meaning of
// the rest.
func FuzzEntries(f *testing.F) {
	f.Add("pre-push:\n  commands:\n    a:\n      run: |\n        x\n")
	f.Add("#!/bin/sh\n. x/_/husky.sh")
	f.Add("repos:\n- repo: a\n  hooks: []\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, with := range []func(string) (string, error){withLefthook, func(s string) (string, error) { return withPreCommit(s, "push") }} {
			got, err := with(text)
			if err != nil {
				continue
			}
			if _, had := withoutBlock(text); had {
				continue
			}
			if rest, had := withoutBlock(got); !had || strings.TrimSuffix(rest, "\n") != strings.TrimSuffix(text, "\n") {
				t.Errorf("%q becomes %q", text, rest)
			}
		}
		if _, had := withoutBlock(text); had || strings.Contains(text, blockBegins) {
			return
		}
		if rest, had := withoutBlock(withBlock(text, shellBlock(runsBelow, "p"))); !had || strings.TrimSuffix(rest, "\n") != strings.TrimSuffix(text, "\n") {
			t.Errorf("the script %q becomes %q", text, rest)
		}
	})
}
