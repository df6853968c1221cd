package main

import (
	"bytes"
	"testing"
)

// TestLLBOnTerminal: LLB is not written to a terminal, which is said before the image is read.
func TestLLBOnTerminal(t *testing.T) {
	_, terminal := pty(t)
	var errs bytes.Buffer
	status := run(t.Context(), []string{"imgcheck", "patch", "127.0.0.1:1/none", "--emit", "llb"}, terminal, &errs)
	want := "imgcheck: --emit llb writes no text, and the standard output is a terminal: redirect it, imgcheck patch … --emit llb > FILE\n"
	if got := errs.String(); status != exitFailed || got != want {
		t.Errorf("exit status %d: %s", status, got)
	}
}
