package pyimport

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// statements makes random blocks of the statements in testdata/statements.txt, in whose lines <block> is another block.
type statements struct {
	grammar
	*rand.Rand
	names int
}

// block returns some statements, each line after the indent. loop says that they are in a loop.
func (s *statements) block(indent string, depth int, loop bool) string {
	var b strings.Builder
	for range 1 + s.IntN(3) {
		kind := "simple"
		if depth > 0 && s.IntN(2) == 0 {
			kind = "compound"
		} else if loop && s.IntN(5) == 0 {
			kind = "leave"
		}
		list := s.grammar[kind]
		text := strings.ReplaceAll(list[s.IntN(len(list))], "/", "\n")
		s.names++
		text = strings.ReplaceAll(text, "#", fmt.Sprint(s.names))
		within := (loop && !strings.HasPrefix(text, "def h")) || strings.HasPrefix(text, "for ") || strings.HasPrefix(text, "while ") || strings.Contains(text, "\nwhile ") || strings.Contains(text, "\nfor ")
		for line := range strings.Lines(text + "\n") {
			switch line {
			case "else:\n": // of a loop, or of what is in one
				within = loop
			case "finally:\n": // leaving a loop there passes over an exception, which no program means
				within = false
			}
			own := indent + line[:len(line)-len(strings.TrimLeft(line, " "))]
			if strings.TrimSpace(line) == "<block>" {
				b.WriteString(s.block(own, depth-1, within))
				continue
			}
			line = anyOf.ReplaceAllStringFunc(line, func(part string) string {
				return s.grammar.expression(s.Rand, strings.Trim(part, "<>"), 2)
			})
			b.WriteString(indent + line)
		}
	}
	return b.String()
}

// TestStatements compares the results of random functions with those of Python. A result is known if it is the same
// on each way that a function may take: some conditions are not known, as in real programs.
func TestStatements(t *testing.T) {
	const n = 1500
	g, text := readGrammar(t, "testdata/statements.txt")
	s := &statements{g, rand.New(rand.NewPCG(seedOf(3), 4)), 0}
	var program strings.Builder
	program.WriteString(text)
	list := make([]string, n)
	for i := range list {
		body := s.block("    ", 1+i%3, false)
		list[i] = fmt.Sprintf("def p%d():\n    a, b, c, x = 1, 'x', [1], 0\n%s    return a, b, c\n", i, body)
		fmt.Fprintf(&program, "%stry:\n    r%d = repr(p%d())\nexcept Exception as e:\n    r%d = 'raised ' + type(e).__name__\n", list[i], i, i, i)
	}
	compareAll(t, list, program.String(), 4)
}

// seedOf returns the seed of random programs: the environment's SEED, to try others, or n.
func seedOf(n uint64) uint64 {
	if s := os.Getenv("SEED"); s != "" {
		fmt.Sscan(s, &n)
	}
	return n
}
