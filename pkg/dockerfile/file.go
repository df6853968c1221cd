package dockerfile

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// File is a Dockerfile as its stages and their instructions.
type File struct {
	Lines  []string // of the text, without line ends; Lines[0] is line 1
	Stages []Stage
	// Required are the arguments before the first FROM that have no default, and without
	// which a FROM names no image.
	Required []string
	// Arguments are the names of all arguments before the first FROM.
	Arguments []string
	escape    rune
	global    map[string]string // ARGs before the first FROM
}

// Stage is a FROM and the instructions that follow it.
type Stage struct {
	Name     string // as in AS, or ""
	Ref      string // the image, or "" if On is a stage or Why is set
	Platform string
	Why      string // why the image is not known
	On       int    // the stage that it builds on, or -1
	Line     int    // of the FROM
	Steps    []Step
	// Used reports whether another stage builds on it, copies from it or mounts it.
	Used bool
}

// Step is an instruction.
type Step struct {
	Name          string // in upper case
	Line, EndLine int    // the first and the last of its lines
	Flags         []string
	// Words are the instruction's words, variables not replaced; a command in the shell form
	// is one word.
	Words    []string
	JSON     bool       // the words are of a JSON array
	Settings []Setting  // of ENV and ARG
	Heredocs []Document // here-documents
	From     int        // the stage of COPY --from, or -1
	FromRef  string     // the image or the context of COPY --from, or "" if it is a stage or absent
}

// Setting is a variable that ENV or ARG sets.
type Setting struct {
	Name, Value string
	None        bool // ARG NAME without a value
}

// Document is a here-document.
type Document struct {
	Name, Content string
	Expand        bool // variables in it are replaced
}

// Read reads a Dockerfile, within the limits of [Parse].
func Read(r io.Reader) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	parsed, err := Parse(strings.NewReader(string(text)))
	if err != nil {
		return nil, err
	}
	stages := stagesOf(parsed)
	f := &File{Lines: strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), escape: parsed.EscapeToken, global: globals(parsed)}
	for _, s := range stages {
		f.Stages = append(f.Stages, Stage{Name: s.name, Ref: s.Ref, Platform: s.Platform, Why: s.Why, On: s.on, Line: s.Line})
	}
	for _, s := range stages {
		if s.on >= 0 {
			f.Stages[s.on].Used = true
		}
		for i := range s.uses {
			f.Stages[i].Used = true
		}
	}
	f.steps(parsed)
	f.Required = required(parsed, f)
	f.Arguments = arguments(parsed)
	return f, nil
}

// steps adds the instructions to their stages.
func (f *File) steps(parsed *parser.Result) {
	at, before := -1, names{}
	for _, n := range parsed.AST.Children {
		if strings.EqualFold(n.Value, "from") {
			if at >= 0 {
				before.add(&stage{name: f.Stages[at].Name}, at)
			}
			at++
			continue
		}
		if at >= 0 {
			f.Stages[at].Steps = append(f.Stages[at].Steps, stepOf(n, before))
		}
	}
}

func stepOf(n *parser.Node, before names) Step {
	s := Step{Name: strings.ToUpper(n.Value), Line: n.StartLine, EndLine: n.EndLine, Flags: n.Flags, JSON: n.Attributes["json"], From: -1}
	for w := n.Next; w != nil; w = w.Next {
		s.Words = append(s.Words, w.Value)
	}
	for _, h := range n.Heredocs {
		s.Heredocs = append(s.Heredocs, Document{h.Name, h.Content, h.Expand})
	}
	switch s.Name {
	case "ENV":
		for i := 0; i+1 < len(s.Words); i += 3 {
			s.Settings = append(s.Settings, Setting{Name: s.Words[i], Value: s.Words[i+1]})
		}
	case "ARG":
		for _, w := range s.Words {
			name, value, ok := strings.Cut(w, "=")
			s.Settings = append(s.Settings, Setting{name, value, !ok})
		}
	case "COPY", "ADD":
		for _, flag := range s.Flags {
			if from := fromOf(flag); from != "" && strings.HasPrefix(flag, "--from=") {
				if s.From = before.of(from); s.From < 0 {
					s.FromRef = from
				}
			}
		}
	}
	return s
}

// globals returns the values of the arguments before the first FROM.
func globals(parsed *parser.Result) map[string]string {
	lex, args := shell.NewLex(parsed.EscapeToken), variables{}
	for _, n := range parsed.AST.Children {
		if strings.EqualFold(n.Value, "from") {
			break
		}
		for w := n.Next; w != nil && strings.EqualFold(n.Value, "arg"); w = w.Next {
			if name, value, ok := strings.Cut(w.Value, "="); ok {
				if v, _, err := lex.ProcessWord(value, args); err == nil {
					args[name] = v
				}
			}
		}
	}
	return args
}

// required returns the arguments without which a FROM names no image.
func required(parsed *parser.Result, f *File) (names []string) {
	for _, n := range parsed.AST.Children {
		if strings.EqualFold(n.Value, "from") {
			break
		}
		for w := n.Next; w != nil && strings.EqualFold(n.Value, "arg"); w = w.Next {
			name, value, _ := strings.Cut(w.Value, "=")
			if value == "" && slices.ContainsFunc(f.Stages, func(s Stage) bool { return s.Why != "" && strings.Contains(s.Why, name) }) {
				names = append(names, name)
			}
		}
	}
	return names
}

// arguments returns the names of the arguments before the first FROM.
func arguments(parsed *parser.Result) (names []string) {
	for _, n := range parsed.AST.Children {
		if strings.EqualFold(n.Value, "from") {
			break
		}
		for w := n.Next; w != nil && strings.EqualFold(n.Value, "arg"); w = w.Next {
			name, _, _ := strings.Cut(w.Value, "=")
			names = append(names, name)
		}
	}
	return names
}

// Targets returns the stages that no other one uses, in their order. The last of a file is
// one of them.
func (f *File) Targets() (list []int) {
	for i := range f.Stages {
		if !f.Stages[i].Used {
			list = append(list, i)
		}
	}
	return list
}

// Chain returns a stage and those below it that it builds on, the lowest first.
func (f *File) Chain(i int) (list []int) {
	for ; i >= 0; i = f.Stages[i].On {
		list = append(list, i)
	}
	slices.Reverse(list)
	return list
}

// Scope has the variables at one place of a stage, for the words of its instructions.
type Scope struct {
	values  variables
	unknown map[string]bool
	closed  bool
	lex     *shell.Lex
	global  map[string]string
	args    []string // that the stage's ARGs have set
	growth  growth   // with the lengths of the values
}

// Scope returns the variables with which a chain of stages begins: those of the image's
// environment. known is false if that is not known: a variable that no instruction sets may
// then have any value.
func (f *File) Scope(env []string, known bool) *Scope {
	s := &Scope{values: variables{}, unknown: map[string]bool{}, closed: known, lex: shell.NewLex(f.escape), global: f.global, growth: growth{lengths: map[string]int64{}}}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		s.values[name], s.growth.lengths[name] = value, int64(len(value))
	}
	return s
}

// Set takes the variables of an ENV or ARG. An ARG does not change a variable that ENV has
// set, and one without a value is that of the same name before the first FROM.
func (s *Scope) Set(st *Step) {
	for _, v := range st.Settings {
		value, known := s.Expand(v.Value)
		if st.Name == "ARG" {
			if _, ok := s.values[v.Name]; ok {
				continue
			}
			if v.None {
				value, known = s.global[v.Name], s.global[v.Name] != ""
			}
			if p, ok := platformArgs[v.Name]; ok && v.None {
				value, known = p, true
			}
		}
		delete(s.values, v.Name)
		s.unknown[v.Name] = !known
		if known {
			s.values[v.Name], s.growth.lengths[v.Name] = value, int64(len(value))
		}
		if st.Name == "ARG" {
			s.args = append(s.args, v.Name)
		}
	}
}

// Next forgets the ARGs of a stage: one that builds on it has its ENVs alone.
func (s *Scope) Next() {
	for _, name := range s.args {
		delete(s.values, name)
		delete(s.unknown, name)
	}
	s.args = nil
}

// Get returns the value of a variable. It is not known if a build argument, an image that
// was not read or the shell decides it.
func (s *Scope) Get(name string) (value string, known bool) {
	value, ok := s.values[name]
	return value, ok || s.closed && !s.unknown[name]
}

// Declared reports whether an instruction, or the image's environment, sets a variable, also to a
// value that is not known.
func (s *Scope) Declared(name string) bool {
	_, set := s.values[name]
	_, unknown := s.unknown[name]
	return set || unknown
}

// Expand returns a word with its variables replaced, and reports whether they are all known.
func (s *Scope) Expand(word string) (value string, known bool) {
	if _, err := s.growth.word(word); err != nil {
		return word, false
	}
	r, err := s.lex.ProcessWordWithMatches(word, s.values)
	if err != nil {
		return word, false
	}
	known = true
	for name := range r.Unmatched {
		if _, ok := s.Get(name); !ok {
			known = false
		}
	}
	return r.Result, known
}

// String describes a stage for a message.
func (s *Stage) String() string {
	if s.Name != "" {
		return s.Name
	}
	return fmt.Sprintf("the stage of line %d", s.Line)
}
