package fix

import (
	"context"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestConda checks the lines that install another release of libstdc++ in an environment of conda:
// with the image's conda, else with a mounted micromamba, as root; and not where conda has not
// installed it, or no release has the version.
func TestConda(t *testing.T) {
	data, err := images.Text("flash-attn-glibc.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const meta, program = "/opt/conda/conda-meta/libstdcxx-ng-11.2.0-h1234567_1.json", "/opt/conda/bin/conda --"
	for _, tt := range []struct{ name, old, new, user, want string }{
		{"conda", "-- want", "-- want", "", "RUN /opt/conda/bin/conda install -y -p /opt/conda -c conda-forge 'libstdcxx-ng>=12.1' && /opt/conda/bin/conda clean -afy\n"},
		{"micromamba", program, "/usr/local/bin/micromamba --", "", "RUN /usr/local/bin/micromamba install -y -p /opt/conda -c conda-forge 'libstdcxx-ng>=12.1' && /usr/local/bin/micromamba clean -afy\n"},
		{"neither, and a user", program, "/opt/conda/bin/other --", "app", "USER root\nRUN --mount=from=mambaorg/micromamba,source=/bin/micromamba,target=/.micromamba /.micromamba install -r /tmp/micromamba -y -p /opt/conda -c conda-forge 'libstdcxx-ng>=12.1' && rm -rf /tmp/micromamba\nUSER app\n"},
		{"another installer", meta, "/opt/conda/notes.json", "", ""},
		{"an unknown version", "GLIBCXX_3.4.30", "GLIBCXX_3.4.99", "", ""},
	} {
		img, _ := read(t, strings.ReplaceAll(string(data), tt.old, tt.new))
		img.FS.Layers[0] = source.Layer{CreatedBy: "RUN true"} // there is a shell
		img.Config.Config.User = tt.user
		res, err := lint.Run(context.Background(), img, embedded(t))
		if err != nil {
			t.Fatal(err)
		}
		p, err := Find(context.Background(), img, embedded(t), res, Options{})
		if err != nil {
			t.Fatal(err)
		}
		lines := ""
		if p.Snippet != nil {
			lines = strings.Join(p.Snippet.Lines, "\n") + "\n"
		}
		if !strings.Contains(lines, tt.want) || tt.want == "" && strings.Contains(lines, "RUN") {
			t.Errorf("%s: %s\nwant %s", tt.name, lines, tt.want)
		}
	}
}
