package ldd

import (
	"bytes"
	"strings"
	"testing"
)

// TestTreeIsSafe: names of files in an image have no effect on the terminal that shows them.
func TestTreeIsSafe(t *testing.T) {
	const evil = "lib\x1b[2J\u202e\n.so"
	var b bytes.Buffer
	tree := newTree(&b, TreeOptions{})
	tree.static(evil)
	tree.fault(evil)
	tree.ended(notStarted, evil)
	tree.searches([]Search{{evil, []string{evil}}})
	if err := tree.w.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.ContainsAny(got, "\x1b\u202e") || strings.Count(got, `lib�[2J\u202e .so`) != 5 {
		t.Errorf("got %q", got)
	}
}
