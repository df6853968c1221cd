package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/plain/plaintest"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestHostileImage runs the commands that print texts of an image. The image has
// commands for terminals and CI systems in its config, history, variables, labels,
// paths, libraries and packages; no stream may contain them.
func TestHostileImage(t *testing.T) {
	server := imagetest.Serve(t)
	cache := t.TempDir()
	for i, s := range plaintest.Poison {
		ref, err := server.Push(fmt.Sprintf("test/hostile:%d", i), hostileImage(t, s))
		if err != nil {
			t.Fatal(err)
		}
		commands := [][]string{
			{"ldd", "--all", "--symbols", "--names", ref},
			{"ldd", "--all", "--format", "json", ref},
			{"ldd", ref, "/no/such" + s},
			{"ldd", "--exe", "/usr/bin/python3", "--arg", "dlopen=N:" + s, "--search", ref},
			{"explain", "--image", ref, "libcudnn.so.9: cannot open shared object file: No such file or directory" + s},
			{"patch", "--dry-run", ref},
			{"patch", "--emit", "dockerfile", ref},
			{"patch", ref, "-t", "layer:" + t.TempDir() + "/x"},
			{"scan", "--verbose", ref, "--platform", "linux/amd64/" + s},
			{"scan", ref + s},
			{"scan", "dir:/no/such" + s},
			{"scan", "--format", s, ref},
		}
		for _, format := range report.Names {
			commands = append(commands, []string{"scan", "--all", "--verbose", "--format", format, ref})
		}
		for _, args := range commands {
			var out, errs bytes.Buffer
			if strings.Contains(strings.Join(args, ""), "\x00") {
				continue // an argument cannot have it
			}
			run(context.Background(), append([]string{"imgcheck", args[0], "--cache-dir", cache}, args[1:]...), &out, &errs)
			if out.Len()+errs.Len() == 0 {
				t.Errorf("%q printed nothing", args)
			}
			plaintest.Obeyed(t, fmt.Sprintf("%q, on the standard error", args), errs.String(), false)
			if args[0] == "scan" && args[len(args)-2] == "github" {
				onlyAnnotations(t, out.String())
				continue
			}
			plaintest.Obeyed(t, fmt.Sprintf("%q", args), out.String(), false)
		}
	}
}

// onlyAnnotations checks that each line is one of the two commands of a report.
func onlyAnnotations(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "::error title=imgcheck") && !strings.HasPrefix(line, "::warning title=imgcheck") {
			t.Errorf("an annotation is %q", line)
		}
		plaintest.Obeyed(t, "an annotation", strings.TrimLeft(line, ":"), false)
	}
}

// hostileImage returns the image with the most frequent fault, with s in every text that
// an image can have.
func hostileImage(t *testing.T, s string) v1.Image {
	t.Helper()
	s = strings.ReplaceAll(s, "\x00", "")
	data, err := images.Text("ort-no-cudnn.txtar")
	if err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	last := &im.Layers[len(im.Layers)-1]
	last.CreatedBy = s
	for _, name := range []string{"opt/x" + s + "/lib" + s + "x.so", "opt/venv/lib/python3.10/site-packages/" + s + "x.so"} {
		file := &imagetest.ELF{Soname: s, Needed: []string{"libcudnn.so.8", "libcublas.so.11" + s, s + "libcudart.so.9"}, Runpath: &s}
		last.Files = append(last.Files, imagetest.File{Name: name, Type: '0', Mode: 0o755, ELF: file, Size: file.Size()})
	}
	info := "Metadata-Version: 2.1\nName: torch\nVersion: " + s + "\nRequires-Dist: " + s + "\n"
	last.Files = append(last.Files, imagetest.File{Name: "opt/venv/lib/python3.10/site-packages/torch-" + s + "x.dist-info/METADATA", Type: '0', Mode: 0o644, Data: info, Size: int64(len(info))})
	im.Config.Env = append(im.Config.Env, "LD_LIBRARY_PATH=/usr/local/cuda/lib64:/opt/x"+s, "NVIDIA_REQUIRE_CUDA="+s, "LD_PRELOAD="+s, s+"=1")
	im.Config.Labels = map[string]string{s: s}
	made, err := im.V1()
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Variant, config.OSVersion, config.Author = s, s, s
	if made, err = mutate.ConfigFile(made, config); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestHostileValue: a patch has to keep a value that must not be printed as it is.
// Printing it for scripts is an error; writing it to an image is not.
func TestHostileValue(t *testing.T) {
	server := imagetest.Serve(t)
	data, err := images.Text("ort-wheels-off-path.txtar")
	if err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	im.Config.Env = append(im.Config.Env, "LD_LIBRARY_PATH=/opt/##[error]x")
	img, err := im.V1()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := server.Push("test/value:1", img)
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]struct {
		status int
		errs   string
	}{
		"--emit=dockerfile":                 {exitFailed, "would obey"},
		"--tag=layer:" + t.TempDir() + "/x": {exitFailed, "the value of LD_LIBRARY_PATH"},
		"--tag=" + ref + "-fixed":           {exitOK, ""},
		"--emit=dockerfile=" + t.TempDir():  {exitOK, ""},
	} {
		var out, errs bytes.Buffer
		if got := run(context.Background(), []string{"imgcheck", "patch", "--no-cache", target, ref}, &out, &errs); got != want.status || !strings.Contains(errs.String(), want.errs) {
			t.Errorf("%s: status %d, want %d\n%s", target, got, want.status, errs.String())
		}
		plaintest.Obeyed(t, target, out.String()+errs.String(), false)
	}
}

// TestHostileRegistry checks that a registry's answers are printed without control
// characters.
func TestHostileRegistry(t *testing.T) {
	for _, s := range plaintest.Poison {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"errors": [{"code": "DENIED", "message": %q}]}`, s)
			}))
			var out, errs bytes.Buffer
			got := run(context.Background(), []string{"imgcheck", "scan", "--no-cache", strings.TrimPrefix(server.URL, "http://") + "/app:1"}, &out, &errs)
			server.Close()
			if got != exitFailed || errs.Len() == 0 {
				t.Errorf("status %d, and %q", got, errs.String())
			}
			plaintest.Lawful(t, fmt.Sprintf("a registry's %d", status), errs.String()+out.String(), false)
		}
	}
}

// TestHostilePack checks that control and bidirectional characters in the texts of a pack do not
// reach the terminal.
func TestHostilePack(t *testing.T) {
	dir := t.TempDir()
	pack := "rules:\n- {id: own, severity: note, title: \"t\\u202e\", doc: \"d\\e[31m\\u202e\\a\", sources: [\"s\\e\"]}\n"
	if err := os.WriteFile(filepath.Join(dir, "own.yaml"), []byte(pack), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"rules"}, {"rules", "own"}, {"explain", "own"}} {
		var out, errs bytes.Buffer
		args = append([]string{"imgcheck", args[0], "--rules", dir}, args[1:]...)
		if status := run(context.Background(), args, &out, &errs); status != exitOK || !strings.Contains(out.String(), "\\u202e") || strings.ContainsAny(out.String(), "\u202e\x1b\a") {
			t.Errorf("%q: %d, %q, %s", args, status, out.String(), errs.String())
		}
	}
}

// A number of a million digits in a report does not fill the error, which goes on behind it; a
// path of ordinary length is whole.
func TestLongWordInError(t *testing.T) {
	name := filepath.Join(t.TempDir(), strings.Repeat("d", 200)+".json")
	for what, text := range map[string]string{
		"a number": `{"schema":"imgcheck.report/1","stats":{"files":` + strings.Repeat("9", 1_000_000) + `}}`,
		"a schema": `{"schema":"` + strings.Repeat("é", 500_000) + `"}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		status := run(t.Context(), []string{"imgcheck", "convert", name}, io.Discard, &stderr)
		got := stderr.String()
		if status != exitFailed || len(got) > 1200 || !utf8.ValidString(got) || !strings.Contains(got, name) || !strings.Contains(got, "…") || strings.HasSuffix(got, "…\n") {
			t.Errorf("%s: status %d, %d bytes: %.1500s", what, status, len(got), got)
		}
	}
}
