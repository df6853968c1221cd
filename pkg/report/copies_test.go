package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// TestCopies shows libraries with the processes that get each copy, only with All.
func TestCopies(t *testing.T) {
	d := document(lint.Finding{Rule: "mixed-releases", Severity: packs.Warning, Message: "m"})
	d.Copies = []lint.Copies{
		{Family: "cuda", Library: "libcublas.so.12", Files: []lint.Copy{{File: replay.File{Path: "/only"}, Size: 5}}},
		{Family: "cudnn", Library: "libcudnn.so.9", Files: []lint.Copy{
			{File: replay.File{Path: "/a\x1b[1m"}, Size: 3e6, Version: "9.19.0", UsedBy: []lint.User{{Process: "PyTorch at /t", How: "RPATH of /t/lib"}}},
			{File: replay.File{Path: "/b", Layer: &replay.LayerRef{Index: 2}}, Size: 5e9},
		}},
	}
	want := "\n  libcudnn.so.9\n    /a�[1m  9.19.0, 3.0 MB\n      → PyTorch at /t  (RPATH of /t/lib)\n    /b  5.0 GB, layer 2\n\n"
	for _, all := range []bool{false, true} {
		var b bytes.Buffer
		if err := Text(&b, d, Options{All: all}); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if strings.Contains(got, want) != all {
			t.Errorf("no\n%s\nin:\n%s", want, got)
		}
		if strings.Contains(got, "/only") != all {
			t.Errorf("all %v: a library that is there once:\n%s", all, got)
		}
	}
}
