package pyimport

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestHostileNames checks that the work for names of modules counts: long ones, ones that are
// looked for in very many directories, and very many that no directory has.
func TestHostileNames(t *testing.T) {
	try := func(statement string) string {
		return "L = [str(i) for i in range(100)]\nfor a in L:\n  for b in L:\n    try:\n      " + statement + "\n    except ImportError: pass\n"
	}
	for name, test := range map[string]struct {
		source string
		nodes  int // at most
		note   string
	}{
		"many parts": {"__import__('a.' * 30000 + 'b')\n", 0, "250 parts"},
		"long":       {"__import__('a' * 5000)\n", 0, "4096 bytes"},
		"absent":     {try("__import__('m' + a + '_' + b)"), 20_000/absentSteps + 1, ""},
		"many directories": {"import sys\nsys.path = ['/opt/' + str(i) for i in range(8000)]\n" +
			try("__import__('m' + a + '_' + b)"), 20_000/(8000/4) + 1, ""},
	} {
		r := testRun(t, &txtar.Archive{Files: []txtar.File{{Name: "main.py", Data: []byte(test.source)}}})
		main := r.Import("main").Nodes[0]
		if len(main.Nodes) > test.nodes {
			t.Errorf("%s: %d modules were looked for, more than %d", name, len(main.Nodes), test.nodes)
		}
		if !strings.Contains(fmt.Sprint(main.Unknown), test.note) {
			t.Errorf("%s: not known is %q", name, main.Unknown)
		}
	}
}
