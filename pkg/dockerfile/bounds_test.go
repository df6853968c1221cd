package dockerfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// Read refuses a small text whose variables grow, and makes no value: the 632 bytes of ARG
// A=$A$A took 4.4 GB.
func TestGrowth(t *testing.T) {
	doubling := "ARG A=0123456789abcdef\n" + strings.Repeat("ARG A=$A$A\n", 50) + "FROM $A\n"
	for name, x := range map[string]struct{ text, want string }{
		"doubled ARG":         {doubling, "its variables make it longer than 16 MiB"},
		"doubled ENV":         {"FROM a\nENV A=aaaa\n" + strings.Repeat("ENV A=${A}${A}\n", 50), "its variables make it longer"},
		"doubled in a flag":   {"ARG A=aaaa\n" + strings.Repeat("ARG A=$A$A\n", 20) + "FROM --platform=$A$A$A$A b\n", "its variables make it longer"},
		"two in turn":         {"ARG A=aa\nARG B=bb\n" + strings.Repeat("ARG A=$A$B\nARG B=$B$A\n", 40) + "FROM $A\n", "its variables make it longer"},
		"replaced parts":      {"ARG A=" + strings.Repeat("a", 50_000) + "\nFROM ${A//a/" + strings.Repeat("b", 1000) + "}\n", "its variables make it longer"},
		"many ARGs":           {manyLines("ARG A%d=v\n", 5001) + "FROM a\n", "more than 5000 variables"},
		"many ARGs in a line": {"ARG" + manyLines(" A%d=v", 6000) + "\nFROM a\n", "more than 5000 variables"},
		"many stages":         {manyLines("FROM a AS b%d\n", 9000), "it has 9000 stages, more than the limit of 1000"},
		"many instructions":   {"FROM a\n" + strings.Repeat("RUN x\n", 20_000), "it has 20001 instructions"},
		"nested":              {"FROM " + strings.Repeat("${A:-", 10_000) + "a" + strings.Repeat("}", 10_000) + "\n", "more than 50 variables in one another"},
	} {
		parsed, err := parser.Parse(strings.NewReader(x.text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g := &growth{lengths: map[string]int64{}}
		err = g.file(parsed)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s", name, err, x.want)
		}
		if g.bytes > maxGrown || g.work > strings.Count(x.text, "\n")*2+6000 {
			t.Errorf("%s: %d words of %d bytes were measured", name, g.work, g.bytes)
		}
		if _, err := Bases(strings.NewReader(x.text)); err == nil {
			t.Errorf("%s: Bases accepts it", name)
		}
	}
}

// Paths of real images are within the limits: a slash behind $NAME is no operator.
func TestGrowthOfPaths(t *testing.T) {
	text := "FROM a\nENV A=/opt/rocm-6.0.0\n" + strings.Repeat("ENV PATH=\"$A/bin:$A/hip/bin:${PATH}:${A}/lib\"\nRUN $A/bin/x\n", 200)
	if err := Within([]byte(text), []string{"PATH=/bin"}); err != nil {
		t.Error(err)
	}
}

// The bound is above the length that BuildKit's lexer makes, so that a text within the
// limits has no longer words.
func TestGrowthIsAbove(t *testing.T) {
	text := "ARG A=abc\nARG B=${A}-$A\nARG C=${B//a/xyz}\nARG D=${C:-$A}$B\nFROM $D\n"
	bases, err := Bases(strings.NewReader(text))
	if err != nil || len(bases) != 1 {
		t.Fatal(bases, err)
	}
	parsed, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	g := &growth{lengths: map[string]int64{}}
	if err := g.file(parsed); err != nil {
		t.Fatal(err)
	}
	if got := int64(len(bases[0].Ref)); got == 0 || g.lengths["D"] < got {
		t.Errorf("the bound of %q is %d", bases[0].Ref, g.lengths["D"])
	}
}

// The environment of the base counts: its values are as hostile as the file's.
func TestGrowthOfEnvironment(t *testing.T) {
	text := "FROM a\n" + strings.Repeat("ENV A=$A$A\n", 12) + "RUN true\n"
	env := []string{"A=" + strings.Repeat("x", 1<<20)}
	if err := Within([]byte(text), nil); err != nil {
		t.Error(err)
	}
	if err := Within([]byte(text), env); err == nil {
		t.Error("it is accepted with the environment")
	}
	f := read(t, text)
	s := f.Scope(env, true)
	for i := range f.Stages[0].Steps {
		s.Set(&f.Stages[0].Steps[i])
	}
	if v, _ := s.Get("A"); len(v) > maxGrown || s.growth.bytes > maxGrown {
		t.Errorf("the value has %d bytes", len(v))
	}
}

func manyLines(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
