// Package gpu holds what real GPU processes did against what imgcheck says.
//
// testdata/machine.txtar is one machine; each fault was made on it, and the real
// program was run on its GPU: import torch, a convolution, an LSTM, an SVD, an
// FFT and a kernel that is compiled at run time.
package gpu

import (
	"archive/tar"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/rules"
)

const (
	site   = "/opt/torch/.venv/lib/python3.12/site-packages/"
	system = "/usr/lib/x86_64-linux-gnu/"
)

// faults are what was done to the machine, and what its GPU process did then.
var faults = []struct {
	name    string
	remove  []string          // shell patterns
	replace map[string]string // path → text of the image form
	runpath string            // a file whose RPATH is made a RUNPATH
	env     string            // LD_LIBRARY_PATH
	real    string            // how the process ended; empty: it worked
	// says must be in one finding of at least a warning: in its message, its
	// effects or their errors. Empty: there must be none.
	says []string
}{
	{name: "as it is"},
	{
		name: "no cuDNN at all", remove: []string{site + "nvidia/cudnn/lib/*", system + "libcudnn*"},
		real: "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
		says: []string{"`import torch` fails", "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"},
	},
	{
		name:   "no libcudnn_cnn, which torch does not use",
		remove: []string{site + "nvidia/cudnn/lib/libcudnn_cnn.so.9", system + "libcudnn*"},
	},
	{
		name:   "no libcudnn_engines_precompiled",
		remove: []string{site + "nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9", system + "libcudnn*"},
		real:   "RuntimeError: GET was unable to find an engine to execute this computation",
		says:   []string{"libcudnn_engines_precompiled.so.9", "GET was unable to find an engine to execute this computation"},
	},
	{
		name:   "no NVRTC",
		remove: []string{site + "nvidia/cu13/lib/libnvrtc*", "/usr/local/cuda-13.0/targets/x86_64-linux/lib/libnvrtc*"},
		real:   "RuntimeError: Error in dlopen for library libnvrtc.so.13and libnvrtc-a49e67e8.so.13",
		says:   []string{"libnvrtc.so.13"},
	},
	{
		name:   "none of the wheels' CUDA, but the system's",
		remove: []string{site + "nvidia/cu13/**"},
	},
	{
		name: "the system's cuDNN before the wheel's", runpath: site + "torch/lib/libtorch_cuda.so", env: "/usr/lib/x86_64-linux-gnu",
		real: "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 19, 0) but found runtime version (9, 14, 0)",
		says: []string{"cuDNN version incompatibility"},
	},
}

func TestFaults(t *testing.T) {
	packs, err := lint.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/machine.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| what was done | what the real process did | what imgcheck says |\n|---|---|---|\n")
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			m, err := imagetest.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if f.env != "" {
				m.Config.Env = append(slices.DeleteFunc(m.Config.Env, func(v string) bool { return strings.HasPrefix(v, "LD_LIBRARY_PATH=") }), "LD_LIBRARY_PATH="+f.env)
			}
			removed := 0
			files := &m.Layers[0].Files
			*files = slices.DeleteFunc(*files, func(file imagetest.File) bool {
				gone := slices.ContainsFunc(f.remove, func(pattern string) bool { return matches(pattern, "/"+file.Name) })
				if gone {
					removed++
				}
				return gone
			})
			if len(f.remove) > removed {
				t.Fatalf("%d files fit %d patterns", removed, len(f.remove))
			}
			if f.runpath != "" {
				i := slices.IndexFunc(*files, func(file imagetest.File) bool { return "/"+file.Name == f.runpath })
				e := (*files)[i].ELF
				e.Runpath, e.Rpath = e.Rpath, nil
			}
			res, err := lint.Run(t.Context(), &lint.Image{FS: merge(t, m), Config: &v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: m.Config}}, packs)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			defer func() { table.WriteString(row(f.name, f.real, res)) }()
			for _, finding := range res.Findings {
				if !finding.Severity.AtLeast(lint.Warning) {
					continue
				}
				all := finding.Message
				for _, e := range finding.Effects {
					all += "\n" + e.Text + "\n" + e.Error
				}
				if len(f.says) == 0 {
					t.Errorf("the real process works, and imgcheck says: %s %s: %s", finding.Severity, finding.Rule, all)
				}
				found = found || !slices.ContainsFunc(f.says, func(s string) bool { return !strings.Contains(all, s) })
			}
			if len(f.says) > 0 && !found {
				t.Errorf("the real process ends with %q, and no finding says %q:", f.real, f.says)
				for _, finding := range res.Findings {
					if finding.Severity.AtLeast(lint.Warning) {
						t.Logf("%s %s: %s %+v", finding.Severity, finding.Rule, finding.Message, finding.Effects)
					}
				}
			}
		})
	}
	document(t, "faults", table.String())
}

// row is what imgcheck says first of a fault, beside what the real process did.
func row(name, real string, res *lint.Result) string {
	says := "nothing"
	for _, f := range res.Findings {
		if !f.Severity.AtLeast(lint.Warning) {
			continue
		}
		says = fmt.Sprintf("%s `%s`: %s", f.Severity, f.Rule, f.Message)
		if len(f.Effects) > 0 {
			says += "; " + f.Effects[0].Text
			if e := f.Effects[0].Error; e != "" {
				says += ": `" + e + "`"
			}
		}
		break
	}
	return fmt.Sprintf("| %s | %s | %s |\n", name, cmp.Or(real, "everything works"), strings.ReplaceAll(says, "|", `\|`))
}

var update = flag.Bool("update", false, "write the tables of docs/gpu.md")

// document holds a table of docs/gpu.md, between its marks, against what it is.
func document(t *testing.T, name, table string) {
	t.Helper()
	const file = "../../docs/gpu.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(b), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks of %s", file, name)
	}
	if old == table {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the test finds: go test ./test/gpu -update", file)
	}
	if err := os.WriteFile(file, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// matches is path.Match, and "/**" for all that is below.
func matches(pattern, name string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/**"); ok {
		return strings.HasPrefix(name, dir+"/")
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// merge is the machine's file system, with the ld.so.cache that its ldconfig
// would write.
func merge(t *testing.T, m *imagetest.Image) *layers.FS {
	t.Helper()
	index := func() *layers.FS {
		var buf bytes.Buffer
		if err := m.LayerTar(0, &buf); err != nil {
			t.Fatal(err)
		}
		l, err := layers.ReadLayer(&buf, func(name string, size int64) bool {
			return strings.HasPrefix(name, "etc/ld.so") || inventory.Wants(name, size)
		})
		if err != nil {
			t.Fatal(err)
		}
		return layers.Merge(l)
	}
	f := index()
	loader, err := elfdeps.NewLoader(f, "/lib64/ld-linux-x86-64.so.2", elfdeps.Env{})
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := elfdeps.Ldconfig(directories{f}, loader)
	if len(entries) < 50 {
		t.Fatalf("ldconfig finds %d libraries", len(entries))
	}
	cache := string(elfdeps.WriteCache(entries))
	m.Layers[0].Files = append(m.Layers[0].Files, imagetest.File{Name: "etc/ld.so.cache", Type: tar.TypeReg, Data: cache, Size: int64(len(cache)), Mode: 0o644})
	return index()
}

type directories struct{ *layers.FS }

func (d directories) List(dir string) ([]string, error) {
	e, _, ok := d.Lookup(dir)
	if !ok {
		return nil, fs.ErrNotExist
	}
	list, err := fs.ReadDir(d.FS, e.Path)
	var names []string
	for _, one := range list {
		names = append(names, one.Name())
	}
	return names, err
}
