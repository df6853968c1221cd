package fix

import (
	"testing"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// TestInstruction checks the command that installs a wheel, by what the image has: pip, uv or
// neither, a shell, and the mark of a Python that a distribution manages.
func TestInstruction(t *testing.T) {
	const site = "/opt/venv/lib/python3.12/site-packages"
	whole := []string{}
	for i := range wholeStdlib {
		whole = append(whole, "opt/venv/lib/python3.12/m"+string(rune('a'+i/26))+string(rune('a'+i%26))+".py")
	}
	pip := site[1:] + "/pip/__init__.py"
	for _, c := range []struct {
		name  string
		files []string
		by    string // the layer's instruction
		noSh  bool
		home  string
		want  string
	}{
		{"pip", []string{pip}, "COPY . .", false, "", "RUN /opt/venv/bin/python -m pip install --no-cache-dir --no-deps --force-reinstall x==1 'y!=2'"},
		{"no shell", []string{pip}, "COPY . .", true, "", `RUN --mount=from=ghcr.io/astral-sh/uv,source=/uv,target=/.uv ["/.uv","pip","install","--no-cache","--python","/opt/venv/bin/python","--no-deps","--reinstall","x==1","y!=2"]`},
		{"uv", []string{"usr/local/bin/uv"}, "COPY . .", false, "", "RUN /usr/local/bin/uv pip install --no-cache --python /opt/venv/bin/python --no-deps --reinstall x==1 'y!=2'"},
		{"neither", nil, "COPY . .", false, "", "RUN --mount=from=ghcr.io/astral-sh/uv,source=/uv,target=/.uv /.uv pip install --no-cache --python /opt/venv/bin/python --no-deps --reinstall x==1 'y!=2'"},
		{"a layer of pip's in a text", nil, "RUN apt-get update && pip3 install x # buildkit", false, "", "RUN /opt/venv/bin/python -m pip install --no-cache-dir --no-deps --force-reinstall x==1 'y!=2'"},
		{"pip was removed", whole, "RUN pip install x && pip uninstall pip", false, "", "RUN --mount=from=ghcr.io/astral-sh/uv,source=/uv,target=/.uv /.uv pip install --no-cache --python /opt/venv/bin/python --no-deps --reinstall x==1 'y!=2'"},
		{"a layer of uv's", nil, "RUN uv pip install x", false, "", "RUN --mount=from=ghcr.io/astral-sh/uv,source=/uv,target=/.uv /.uv pip install --no-cache --python /opt/venv/bin/python --no-deps --reinstall x==1 'y!=2'"},
		{"managed", []string{pip, "opt/venv/lib/python3.12/EXTERNALLY-MANAGED"}, "COPY . .", false, "", "RUN /opt/venv/bin/python -m pip install --no-cache-dir --no-deps --force-reinstall --break-system-packages x==1 'y!=2'"},
		{"a venv of a managed one", []string{pip, "opt/venv/lib/python3.12/EXTERNALLY-MANAGED"}, "COPY . .", false, "/usr/bin", "RUN /opt/venv/bin/python -m pip install --no-cache-dir --no-deps --force-reinstall x==1 'y!=2'"},
	} {
		info := site[1:] + "/x-1.dist-info/METADATA"
		var entries []layers.Entry
		for _, f := range append(c.files, info) {
			entries = append(entries, layers.Entry{Path: f})
		}
		python := &inventory.Python{Prefix: "/opt/venv", Version: "3.12", Interpreter: "/opt/venv/bin/python", Home: c.home, Sites: []string{site}}
		inv := &inventory.Inventory{Pythons: []*inventory.Python{python}, Packages: []*inventory.Package{{Kind: inventory.Wheel, Name: "x", Version: "1", Dir: site, Path: "/" + info}}}
		fs := layers.Merge(layers.NewLayer(entries))
		fs.Layers = []source.Layer{{CreatedBy: c.by}}
		m := &maker{base: &replay.Image{FS: fs}, inventory: inv}
		got := m.instruction(&wheels{python: python, requirements: []string{"y!=2", "x==1"}, again: true}, !c.noSh)
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
