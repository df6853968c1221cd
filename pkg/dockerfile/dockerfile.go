// Package dockerfile finds the images that a Dockerfile builds on, and the instructions
// that change them.
//
// It is the only importer of BuildKit's parser, which handles line continuations, escape
// directives, here-documents and the expansion of variables. It knows no registry, and
// does not read the files that a Dockerfile copies.
package dockerfile

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// Base is an image that a FROM names.
type Base struct {
	Ref      string // with the arguments' default values, or "" if Why is set
	Platform string // the value of --platform, or ""
	Line     int    // of the FROM
	Why      string // why the reference is not known, or ""
	// Targets has an entry for each target that is built on the base: the instructions
	// after the FROM that change it, through all stages. It lists the first instruction
	// of each name and all ENVs. An entry is empty if the target is the unchanged base.
	Targets [][]Instruction
}

// Instruction is one that changes the files, the variables or the program of an image:
// RUN, COPY, ADD, ENV, CMD or ENTRYPOINT. The others (LABEL, EXPOSE, USER, …) do not
// affect libraries.
type Instruction struct {
	Name      string // in upper case
	Line      int
	Variables []string // the variables that an ENV sets
}

// stage is a FROM and the instructions that follow it.
type stage struct {
	Base
	name string
	on   int          // the stage that it builds on, -1 for an image
	uses map[int]bool // stages that it copies from
	does []Instruction
}

// Bases returns the images that the targets of a Dockerfile are built on. A target is a
// stage that no other stage builds on or copies from. Images of other stages, such as a
// compiler's, are not shipped.
func Bases(r io.Reader) ([]Base, error) {
	parsed, err := Parse(r)
	if err != nil {
		return nil, err
	}
	stages := stagesOf(parsed)
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

// changes returns the instructions of a chain of stages: the first of each name, and all
// ENVs.
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

// addTarget adds a target to its base.
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
	before := names{} // those that are complete
	for _, n := range parsed.AST.Children {
		switch name := strings.ToLower(n.Value); name {
		case "arg":
			if len(stages) > 0 {
				continue // an ARG of a stage, which FROM does not see
			}
			for w := n.Next; w != nil; w = w.Next {
				name, value, ok := strings.Cut(w.Value, "=")
				if v, _, err := lex.ProcessWord(value, variables(args)); err == nil && ok {
					args[name] = v
				}
			}
		case "from":
			if i := len(stages) - 1; i >= 0 {
				before.add(stages[i], i)
			}
			stages = append(stages, from(n, lex, args, before))
		case "copy", "add", "run", "env", "cmd", "entrypoint":
			if len(stages) > 0 {
				s := stages[len(stages)-1]
				s.does = append(s.does, instruction(name, n))
				for _, f := range n.Flags {
					if i := before.of(fromOf(f)); i >= 0 {
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

// platformArgs are the arguments that BuildKit sets itself, for the platform that is
// scanned by default:
// https://docs.docker.com/reference/dockerfile/#automatic-platform-args-in-the-global-scope
var platformArgs = map[string]string{
	"TARGETPLATFORM": "linux/amd64", "TARGETOS": "linux", "TARGETARCH": "amd64", "TARGETVARIANT": "",
	"BUILDPLATFORM": "linux/amd64", "BUILDOS": "linux", "BUILDARCH": "amd64", "BUILDVARIANT": "",
}

func from(n *parser.Node, lex *shell.Lex, args map[string]string, before names) *stage {
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
	if s.on = before.of(ref); s.on < 0 {
		s.Ref = ref
	}
	return s
}

// expand replaces the arguments in a word, or says which has no value.
func expand(word string, lex *shell.Lex, args map[string]string) (value, why string) {
	r, err := lex.ProcessWordWithMatches(word, variables(args))
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

// fromOf returns the stage or image of --from=X, or of from=X in --mount.
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

// names are the stages by their names, in lower case, and by their numbers. A later one of
// the same name has precedence.
type names map[string]int

func (m names) add(s *stage, i int) {
	m[fmt.Sprint(i)] = i
	if s.name != "" {
		m[strings.ToLower(s.name)] = i
	}
}

// of returns the stage with a name or number, or -1.
func (m names) of(name string) int {
	if i, ok := m[strings.ToLower(name)]; ok {
		return i
	}
	return -1
}
