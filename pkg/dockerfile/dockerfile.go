// Package dockerfile says which images a Dockerfile builds on, and what it changes
// in them.
//
// It is the only importer of BuildKit's parser, which knows line continuations,
// escape directives, here-documents and the expansion of variables. It knows no
// registry, and does not read what a Dockerfile copies.
package dockerfile

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// Bounds of a Dockerfile: bytes, stages, and ENVs of a target that are told of.
const (
	maxSize   = 1 << 20
	maxStages = 1000
	maxEnvs   = 100
)

// Base is an image that a FROM names.
type Base struct {
	Ref      string // with the arguments' default values; empty when Why is not
	Platform string // of --platform, or empty
	Line     int    // of the FROM
	Why      string // why the reference is not known, empty when it is
	// Targets are the targets that are built on it, each as what changes it after
	// the FROM, through all stages: the first instruction of each name, and the ENVs.
	// It is empty where the base is shipped as it is.
	Targets [][]Instruction
}

// Instruction is one that changes the files, the variables or the program of an
// image: RUN, COPY, ADD, ENV, CMD or ENTRYPOINT. What others change (LABEL, EXPOSE,
// USER, …) decides of no library.
type Instruction struct {
	Name      string // in upper case
	Line      int
	Variables []string // those that an ENV sets
}

// stage is one FROM and what follows it.
type stage struct {
	Base
	name string
	on   int          // the stage that it is built on, -1 for an image
	uses map[int]bool // stages that it copies from
	does []Instruction
}

// Bases are the images on which the targets of a Dockerfile are built: those
// stages that no other builds on or copies from. What a stage of the build is
// made of, a compiler's image say, is no part of what is shipped.
func Bases(r io.Reader) ([]Base, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("is larger than %d KiB", maxSize>>10)
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	stages := stagesOf(parsed)
	if len(stages) > maxStages {
		return nil, fmt.Errorf("has %d stages, more than the %d that are looked at", len(stages), maxStages)
	}
	used := map[int]bool{}
	for _, s := range stages {
		used[s.on] = true
		for i := range s.uses {
			used[i] = true
		}
	}
	var bases []Base
	for i, s := range stages {
		if used[i] {
			continue
		}
		chain := []*stage{s}
		for s.on >= 0 {
			s = stages[s.on]
			chain = append(chain, s)
		}
		if s.Ref != "scratch" {
			slices.Reverse(chain)
			bases = addTarget(bases, s.Base, changes(chain))
		}
	}
	return bases, nil
}

// changes are the instructions of stages that build on one another, the first of each
// name and the ENVs.
func changes(chain []*stage) (list []Instruction) {
	seen := map[string]int{}
	for _, s := range chain {
		for _, in := range s.does {
			if seen[in.Name]++; seen[in.Name] == 1 || in.Name == "ENV" && seen[in.Name] <= maxEnvs {
				list = append(list, in)
			}
		}
	}
	return list
}

// addTarget notes that a target is built on a base.
func addTarget(bases []Base, b Base, does []Instruction) []Base {
	for i, o := range bases {
		if o.Ref == b.Ref && o.Platform == b.Platform && o.Line == b.Line {
			bases[i].Targets = append(o.Targets, does)
			return bases
		}
	}
	b.Targets = [][]Instruction{does}
	return append(bases, b)
}

func stagesOf(parsed *parser.Result) []*stage {
	lex := shell.NewLex(parsed.EscapeToken)
	args := map[string]string{}
	maps.Copy(args, platformArgs)
	var stages []*stage
	for _, n := range parsed.AST.Children {
		switch name := strings.ToLower(n.Value); name {
		case "arg":
			if len(stages) > 0 {
				continue // of a stage; FROM does not see it
			}
			for w := n.Next; w != nil; w = w.Next {
				name, value, ok := strings.Cut(w.Value, "=")
				if v, _, err := lex.ProcessWord(value, env(args)); err == nil && ok {
					args[name] = v
				}
			}
		case "from":
			stages = append(stages, from(n, lex, args, stages))
		case "copy", "add", "run", "env", "cmd", "entrypoint":
			if len(stages) > 0 {
				s := stages[len(stages)-1]
				s.does = append(s.does, instruction(name, n))
				for _, f := range n.Flags {
					if i := indexOf(stages[:len(stages)-1], fromOf(f)); i >= 0 {
						s.uses[i] = true
					}
				}
			}
		}
	}
	return stages
}

func instruction(name string, n *parser.Node) Instruction {
	in := Instruction{Name: strings.ToUpper(name), Line: n.StartLine}
	if name == "env" { // each is three nodes: name, value, separator
		for w := n.Next; w != nil && w.Next != nil && w.Next.Next != nil; w = w.Next.Next.Next {
			in.Variables = append(in.Variables, w.Value)
		}
	}
	return in
}

// platformArgs are what BuildKit sets by itself, on the platform that is scanned
// by default: https://docs.docker.com/reference/dockerfile/#automatic-platform-args-in-the-global-scope
var platformArgs = map[string]string{
	"TARGETPLATFORM": "linux/amd64", "TARGETOS": "linux", "TARGETARCH": "amd64", "TARGETVARIANT": "",
	"BUILDPLATFORM": "linux/amd64", "BUILDOS": "linux", "BUILDARCH": "amd64", "BUILDVARIANT": "",
}

func from(n *parser.Node, lex *shell.Lex, args map[string]string, before []*stage) *stage {
	s := &stage{Base: Base{Line: n.StartLine}, on: -1, uses: map[int]bool{}}
	var words []string
	for w := n.Next; w != nil; w = w.Next {
		words = append(words, w.Value)
	}
	if len(words) == 0 {
		s.Why = "FROM names no image"
		return s
	}
	if len(words) > 2 && strings.EqualFold(words[1], "as") {
		s.name = words[2]
	}
	for _, f := range n.Flags {
		if p, ok := strings.CutPrefix(f, "--platform="); ok {
			s.Platform, _ = expand(p, lex, args)
		}
	}
	ref, why := expand(words[0], lex, args)
	if why == "" && ref == "" {
		why = words[0] + " is empty without a build argument"
	}
	if why != "" {
		s.Why = why
		return s
	}
	if s.on = indexOf(before, ref); s.on < 0 {
		s.Ref = ref
	}
	return s
}

// expand puts arguments into a word, or says which has no value.
func expand(word string, lex *shell.Lex, args map[string]string) (value, why string) {
	r, err := lex.ProcessWordWithMatches(word, env(args))
	if err != nil {
		return "", fmt.Sprintf("%s: %v", word, err)
	}
	var unset []string
	for name := range r.Unmatched {
		if !slices.ContainsFunc([]string{":-", "-", ":+", "+"}, func(op string) bool { return strings.Contains(word, "${"+name+op) }) {
			unset = append(unset, name)
		}
	}
	if len(unset) > 0 {
		slices.Sort(unset)
		return "", fmt.Sprintf("%s: the build argument %s has no default", word, strings.Join(unset, ", "))
	}
	return r.Result, ""
}

func env(args map[string]string) shell.EnvGetter {
	var list []string
	for k, v := range args {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return shell.EnvsFromSlice(list)
}

// fromOf is the stage or image of --from=X, or of from=X in --mount.
func fromOf(flag string) string {
	if name, ok := strings.CutPrefix(flag, "--from="); ok {
		return name
	}
	if m, ok := strings.CutPrefix(flag, "--mount="); ok {
		for part := range strings.SplitSeq(m, ",") {
			if name, ok := strings.CutPrefix(part, "from="); ok {
				return name
			}
		}
	}
	return ""
}

// indexOf is the stage of a name or number, the last of that name, or -1.
func indexOf(stages []*stage, name string) int {
	if name == "" {
		return -1
	}
	for i := len(stages) - 1; i >= 0; i-- {
		if strings.EqualFold(stages[i].name, name) || fmt.Sprint(i) == name {
			return i
		}
	}
	return -1
}
