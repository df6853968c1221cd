package dockerfile

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// Limits of a Dockerfile. Real ones stay far below them: the largest known have some
// hundred instructions. Without them, thirty lines of ARG A=$A$A are gigabytes.
const (
	maxSize         = 1 << 20 // bytes
	maxStages       = 1000
	maxInstructions = 10_000
	maxVariables    = 5000     // that ARG and ENV set
	maxNesting      = 50       // of ${…} in ${…}
	maxGrown        = 16 << 20 // bytes of all words with their variables replaced
	maxEnvs         = 100      // of a target, in a report
)

// Parse reads a Dockerfile. It returns an error for a text that exceeds a limit, before
// anything replaces variables in it: BuildKit's own code has no limits.
func Parse(r io.Reader) (*parser.Result, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSize {
		return nil, &LimitError{fmt.Errorf("it is larger than %d KiB", maxSize>>10)}
	}
	parsed, err := parser.Parse(bytes.NewReader(Characters(text)))
	if err != nil {
		return nil, err
	}
	if err := (&growth{lengths: map[string]int64{}}).file(parsed); err != nil {
		return nil, &LimitError{err}
	}
	return parsed, nil
}

// Characters returns a text with U+FFFD in place of bytes that are no UTF-8, and of NUL. BuildKit's
// shell writes a line to the standard error for each of them.
func Characters(text []byte) []byte {
	const replacement = "\uFFFD"
	return bytes.ReplaceAll(bytes.ToValidUTF8(text, []byte(replacement)), []byte{0}, []byte(replacement))
}

// LimitError is the error of a text that exceeds a limit.
type LimitError struct{ err error }

func (e *LimitError) Error() string { return e.err.Error() }

// Within returns an error if a Dockerfile exceeds a limit when the image that it builds on
// has an environment.
func Within(text []byte, env []string) error {
	parsed, err := parser.Parse(bytes.NewReader(Characters(text)))
	if err != nil {
		return err
	}
	g := growth{lengths: map[string]int64{}}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		g.lengths[name] = int64(len(value))
	}
	return g.file(parsed)
}

// growth bounds the length of the words of a file with their variables replaced, from
// above: a variable is as long as the longest value that any instruction before gives it.
type growth struct {
	lengths map[string]int64
	stages  int
	bytes   int64 // of all words
	work    int   // words that were measured
}

func (g *growth) file(parsed *parser.Result) error {
	if n := len(parsed.AST.Children); n > maxInstructions {
		return fmt.Errorf("it has %d instructions, more than the limit of %d", n, maxInstructions)
	}
	for _, n := range parsed.AST.Children {
		if strings.EqualFold(n.Value, "from") {
			g.stages++
		}
	}
	if g.stages > maxStages {
		return fmt.Errorf("it has %d stages, more than the limit of %d", g.stages, maxStages)
	}
	for _, n := range parsed.AST.Children {
		if err := g.instruction(n); err != nil {
			return fmt.Errorf("line %d: %w", n.StartLine, err)
		}
	}
	return nil
}

// instruction measures the words and the flags of an instruction, and keeps the lengths
// of the variables that it sets.
func (g *growth) instruction(n *parser.Node) error {
	for _, flag := range n.Flags {
		if _, err := g.word(flag); err != nil {
			return err
		}
	}
	var words []string
	for w := n.Next; w != nil; w = w.Next {
		words = append(words, w.Value)
	}
	set := func(name, value string) error {
		size, err := g.word(value)
		if g.lengths[name] = max(g.lengths[name], size); len(g.lengths) > maxVariables && err == nil {
			err = fmt.Errorf("it sets more than %d variables", maxVariables)
		}
		return err
	}
	switch strings.ToLower(n.Value) {
	case "env": // each is three nodes: name, value, separator
		for i := 0; i+1 < len(words); i += 3 {
			if err := set(words[i], words[i+1]); err != nil {
				return err
			}
		}
	case "arg":
		for _, w := range words {
			name, value, _ := strings.Cut(w, "=")
			if err := set(name, value); err != nil {
				return err
			}
		}
	default:
		for _, w := range words {
			if _, err := g.word(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// reference matches a variable in a word: with braces the first group, with the operator
// that replaces parts of its value, without them the third.
var reference = regexp.MustCompile(`\$(?:\{([A-Za-z0-9_]+)(/?)|([A-Za-z0-9_]+))`)

// word returns an upper bound of the length of a word with its variables replaced.
func (g *growth) word(word string) (int64, error) {
	g.work++
	if err := nesting(word); err != nil {
		return 0, err
	}
	size, factor := int64(len(word)), int64(1)
	for _, m := range reference.FindAllStringSubmatch(word, -1) {
		size += g.lengths[m[1]+m[3]]
		if m[2] != "" { // ${NAME/PATTERN/TEXT} has TEXT once for each character, at most
			factor = max(factor, g.lengths[m[1]]+1)
		}
		if size > maxGrown {
			break
		}
	}
	if factor > maxGrown || size*factor > maxGrown || g.bytes+size*factor > maxGrown {
		return 0, fmt.Errorf("its variables make it longer than %d MiB", maxGrown>>20)
	}
	g.bytes += size * factor
	return size * factor, nil
}

func nesting(word string) error {
	depth := 0
	for i := 0; i < len(word); i++ {
		switch {
		case strings.HasPrefix(word[i:], "${"):
			depth++
		case word[i] == '}':
			depth = max(depth-1, 0)
		}
		if depth > maxNesting {
			return fmt.Errorf("it has more than %d variables in one another", maxNesting)
		}
	}
	return nil
}

// variables are the values of arguments, for BuildKit's lexer.
type variables map[string]string

func (v variables) Get(name string) (string, bool) { value, ok := v[name]; return value, ok }

func (v variables) Keys() []string {
	var names []string
	for name := range v {
		names = append(names, name)
	}
	return names
}
