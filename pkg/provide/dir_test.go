package provide

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// lib returns a library for a machine, with a SONAME; the same text gives the same bytes.
func lib(t *testing.T, text string) []byte {
	t.Helper()
	e, err := imagetest.ParseELF("elf " + text)
	if err != nil {
		t.Fatal(err)
	}
	return e.Bytes()
}

// tree writes files below a new directory; "-> x" is a link to x.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, p)
		} else {
			err = os.WriteFile(p, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// open opens sources with a cache of their own.
func open(t *testing.T, specs ...string) *Sources {
	t.Helper()
	s, err := Open(t.Context(), specs, Options{Cache: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	s.env.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	t.Cleanup(func() { s.Close() })
	return s
}

// shape returns the files of a Found in a form to compare: name (links).
func shape(f *Found) []string {
	var out []string
	for _, file := range f.Files {
		out = append(out, strings.Join(append([]string{file.Name}, file.Links...), " "))
	}
	return out
}

func read(t *testing.T, f *File) string {
	t.Helper()
	rc, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// cudnn makes two releases of cuDNN in an unpacked archive, beside files that must not be
// taken: stubs, another machine's, other libraries.
func cudnn(t *testing.T) string {
	x86 := func(soname string) string { return string(lib(t, "x86_64 soname="+soname)) }
	return tree(t, map[string]string{
		"lib/libcudnn.so":             "-> libcudnn.so.9",
		"lib/libcudnn.so.9":           "-> libcudnn.so.9.1.0",
		"lib/libcudnn.so.9.1.0":       x86("libcudnn.so.9"),
		"lib/libcudnn_ops.so.9.1.0":   x86("libcudnn_ops.so.9"),
		"lib/libcudnn_graph.so.9":     "-> libcudnn_graph.so.9.1.0",
		"lib/libcudnn_graph.so.9.1.0": x86("libcudnn_graph.so.9"),
		"lib/libcublas.so.12":         x86("libcublas.so.12"),
		"lib/stubs/libcudnn.so.9":     x86("libcudnn.so.9"),
		"old/libcudnn.so.8.9.7":       x86("libcudnn.so.8"),
		"old/libcudnn.so.8":           "-> libcudnn.so.8.9.7",
		"sbsa/libcudnn.so.9.5.1":      string(lib(t, "aarch64 soname=libcudnn.so.9")),
		"sbsa/libcudnn.so.9":          "-> libcudnn.so.9.5.1",
		"new/libcudnn.so.9.6.0":       "not an ELF file",
		"bad/libcudnn.so.\x1b[2J.9":   x86("libcudnn.so.9"),
		"LICENSE":                     "be nice",
	})
}

func TestDirGivesOneReleaseTogether(t *testing.T) {
	dir := cudnn(t)
	f, err := open(t, "dir:"+dir).Find(t.Context(), Want{Names: []string{"libcudnn_graph.so.9"}, Versions: []string{"==9.1.0.70"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"libcudnn.so.9.1.0 libcudnn.so libcudnn.so.9", "libcudnn_graph.so.9.1.0 libcudnn_graph.so.9", "libcudnn_ops.so.9.1.0 libcudnn_ops.so.9"}
	if diff := cmp.Diff(want, shape(f)); diff != "" {
		t.Error(diff)
	}
	if f.Version != "9.1.0" || f.Library != "cudnn" || f.License == nil || f.License.Text != "be nice" || !f.License.NeedsAcceptance || f.Doubt != "" {
		t.Errorf("got %+v, licence %+v", f, f.License)
	}
	if got := read(t, f.File("libcudnn_ops.so.9")); got != string(lib(t, "x86_64 soname=libcudnn_ops.so.9")) {
		t.Error("the file's bytes are others")
	}
	other := &Found{Library: "nvrtc", License: f.License}
	free := &Found{Library: "free", License: &License{Name: "MIT"}}
	asks := Ask([]*Found{f, other, f, free, {}})
	if len(asks) != 1 || !strings.HasPrefix(asks[0], "cudnn 9.1.0, nvrtc come under the ") || !strings.Contains(asks[0], "https://docs.nvidia.com/") || !strings.HasSuffix(asks[0], " Say --accept-nvidia-license when you accept it") {
		t.Errorf("Ask: %q", asks)
	}
}

func TestDirTakesWhatFits(t *testing.T) {
	dir := cudnn(t)
	tests := map[string]struct {
		want Want
		got  string // version, or the error
	}{
		"by SONAME":      {Want{Names: []string{"libcudnn.so.8"}}, "8.9.7"},
		"newest":         {Want{Library: "cudnn"}, "9.1.0"},
		"a bound":        {Want{Library: "cudnn", Versions: []string{"<9"}}, "8.9.7"},
		"other machine":  {Want{Library: "cudnn", Arch: "arm64"}, "9.5.1"},
		"pinned":         {Want{Library: "cudnn", Pin: "9.1.0.70"}, "9.1.0"},
		"none that fits": {Want{Library: "cudnn", Pin: "9.2.0.70"}, "no source has cudnn (==9.2.0.70): dir:DIR: 9.1.0 does not fit, 8.9.7 does not fit"},
		"not all":        {Want{Names: []string{"libcudnn.so.9", "libcudnn_adv.so.9"}}, "no source has libcudnn.so.9, libcudnn_adv.so.9: dir:DIR: 9.1.0 has no libcudnn_adv.so.9, 8.9.7 has no libcudnn.so.9, libcudnn_adv.so.9"},
		"of no family":   {Want{Names: []string{"libnone.so.1"}}, "no source has libnone.so.1: dir:DIR: has no such library for amd64"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := open(t, "dir:"+dir).Find(t.Context(), tt.want)
			if err != nil {
				var missing *NotFoundError
				if !errors.As(err, &missing) {
					t.Errorf("%v is no NotFoundError", err)
				}
				if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != tt.got {
					t.Errorf("got  %s\nwant %s", got, tt.got)
				}
				return
			}
			if f.Version != tt.got {
				t.Errorf("got %s, want %s", f.Version, tt.got)
			}
		})
	}
}

// The libraries of an installed wheel are of the release that its .dist-info
// says, also when only their directory is named; two of them say nothing.
func TestDirOfAnInstalledWheel(t *testing.T) {
	files := map[string]string{
		"site-packages/nvidia/cudnn/lib/libcudnn.so.9":                            string(lib(t, "x86_64 soname=libcudnn.so.9")),
		"site-packages/nvidia_cudnn_cu12-9.1.0.70.dist-info/licenses/License.txt": "the wheel's",
		"site-packages/other-1.0.dist-info/License.txt":                           "another's",
		"LICENSE": "another's",
	}
	for _, below := range []string{"", "site-packages", "site-packages/nvidia/cudnn/lib"} {
		dir := filepath.Join(tree(t, files), below)
		f, err := open(t, "dir:"+dir).Find(t.Context(), Want{Library: "cudnn", Pin: "9.1.0.70"})
		if err != nil || f.Version != "9.1.0.70" || f.License.Text != "the wheel's" {
			t.Errorf("%s: got %+v, %v", below, f, err)
		}
	}
	files["site-packages/nvidia_cudnn_cu13-9.2.0.1.dist-info/METADATA"] = ""
	dir := tree(t, files)
	f, err := open(t, "dir:"+dir).Find(t.Context(), Want{Library: "cudnn", Versions: []string{"==9.1.0.70"}})
	if err != nil || f.Version != "" || f.Doubt == "" {
		t.Errorf("got %+v, %v", f, err)
	}
	if _, err := open(t, "dir:"+dir).Find(t.Context(), Want{Library: "cudnn", Pin: "9.1.0.70"}); err == nil || !strings.Contains(err.Error(), "no version that could be made out") {
		t.Errorf("got %v", err)
	}
}
