package fix

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestLaterReleases checks the specifiers for an image whose libraries are newer than a pin, and that
// a part of cuDNN is only taken in the release of the others.
func TestLaterReleases(t *testing.T) {
	for _, tt := range []struct{ versions, want []string }{
		{[]string{"==8.9.4.25"}, []string{">=8.9.4.25", "==8.*"}},
		{[]string{"==8.1.0.*"}, nil},
		{[]string{">=8.9,<9"}, nil},
		{nil, nil},
	} {
		if diff := cmp.Diff(tt.want, laterReleases(tt.versions)); diff != "" {
			t.Errorf("%q: %s", tt.versions, diff)
		}
	}
	for name, want := range map[string]string{
		"report-tensorflow-torch.txtar":                  "COPY --from=nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04",
		"fresh/healthy-tf29-official.broken-cudnn.txtar": "",
	} {
		data, err := images.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		p, lines := plan(t, string(data), Options{}), ""
		if p.Snippet != nil {
			lines = strings.Join(p.Snippet.Lines, "\n")
		}
		if !strings.Contains(lines, want) || want == "" && strings.Contains(lines, "cudnn") {
			t.Errorf("%s: %q, want %q", name, lines, want)
		}
	}
}
