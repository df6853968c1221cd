package pysource

import (
	"fmt"
	"strings"
	"testing"
)

// TestDecoratorsOfNothing checks that decorators which no function follows are read once:
// the work does not grow with their square. Each expression that is read is an allocation.
func TestDecoratorsOfNothing(t *testing.T) {
	allocs := func(n int) float64 {
		text := []byte(strings.Repeat("@a\n", n))
		return testing.AllocsPerRun(1, func() { Parse(text) })
	}
	if few, many := allocs(1000), allocs(8000); many > 12*few {
		t.Errorf("1,000 decorators take %v allocations, 8,000 take %v", few, many)
	}
}

// TestNestedFStrings checks that f-strings in one another are read in time that grows as their
// number does: 40,000 took minutes.
func TestNestedFStrings(t *testing.T) {
	for _, text := range []string{
		"import json\nx=" + strings.Repeat("f'{", 40_000) + "1" + strings.Repeat("}'", 40_000) + "\n",
		"import json\nx=" + strings.Repeat("f'{", 40_000) + "json" + strings.Repeat("}'", 40_000) + "\n",
		"import json\nx=f\"\"\"" + strings.Repeat("{f\"{f'{", 20_000) + "\"\"\"\n",
	} {
		if got := string(Reduce([]byte(text))); !strings.Contains(got, "import json") {
			t.Errorf("%.20q: the import is lost", text)
		}
		Parse([]byte(text))
	}
}

// TestManyTypesAndCommands checks that imports are counted once, and classes read once, however many
// types and methods look at them. They took minutes, as the square of the lines.
func TestManyTypesAndCommands(t *testing.T) {
	for _, text := range []string{
		"import int\nimport int\n" + strings.Repeat("a=int|None\n", 300_000),
		"import int\n" + strings.Repeat("import os\n", 100_000) + "import int\n" + strings.Repeat("a=int|None\n", 100_000),
		"import os\nclass C:\n" + strings.Repeat("  a='x'\n", 100_000) + "  def f(self):\n" + strings.Repeat("    p.parse_args()\n", 100_000),
		"import os\nclass C:\n" + strings.Repeat("  def f(self):\n    p.parse_args()\n", 60_000),
	} {
		if got := string(Reduce([]byte(text))); !strings.Contains(got, "import ") {
			t.Errorf("%.40q: the import is lost", text)
		}
	}
}

// TestManyImportsAndCalls checks that the names of imports are looked up, and the ends of a function kept once, however
// many lines ask for them. A file of this kind of 4 MiB took minutes.
func TestManyImportsAndCalls(t *testing.T) {
	var modules strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&modules, "import a%d\n", i)
	}
	for _, text := range []string{
		"def f():\n    import a\ndef g():\n" + strings.Repeat("    f()\n", 500_000),
		"import os\ndef g():\n    import z\n" + strings.Repeat("    a.b=1\n", 400_000),
		modules.String() + strings.Repeat("b0.c\n", 200_000),
	} {
		if got := string(Reduce([]byte(text))); !strings.Contains(got, "import ") {
			t.Errorf("%.40q: the import is lost", text)
		}
	}
}
