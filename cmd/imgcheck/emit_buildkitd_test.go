//go:build buildkitd

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// patchTo runs imgcheck patch and returns its exit status and standard error.
func patchTo(ref string, args ...string) (status int, errs string) {
	var out, e bytes.Buffer
	status = run(context.Background(), append([]string{"imgcheck", "patch", ref, "--accept-nvidia-license"}, args...), &out, &e)
	return status, e.String()
}

// buildContext lets buildkitd build a context and push the image.
func buildContext(t *testing.T, addr, dir, ref string) {
	t.Helper()
	out, err := tooltest.Buildctl(t, addr, "build", "--frontend", "dockerfile.v0", "--local", "context="+dir, "--local", "dockerfile="+dir,
		"--opt", "attest:provenance=disabled=true", "--output", "type=image,name="+ref+",push=true,registry.insecure=true")
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(dir, "Dockerfile"))
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
}

// content returns all that an image contains: a line for each file with its owner, mode
// and content or target, and the environment of its programs, without empty variables.
func content(t *testing.T, ref string) string {
	t.Helper()
	img, err := layers.Open(t.Context(), ref, layers.Options{Keep: func(string, int64) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	fsys, err := img.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for e := range fsys.All() {
		fmt.Fprintf(&b, "%v %v %d:%d %s", e.Type, e.Mode, e.UID, e.GID, e.Path)
		if e.Type == layers.Regular {
			fmt.Fprintf(&b, " %d %x %v", e.Size, sha256.Sum256(e.Content), e.Object != nil)
		}
		fmt.Fprintf(&b, " %s\n", e.Link)
	}
	c := img.Config.Config
	const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" // BuildKit sets it if the image does not
	if !slices.ContainsFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		c.Env = append(c.Env, path)
	}
	// A Dockerfile can set a variable to "", but cannot unset it.
	c.Env = slices.DeleteFunc(slices.Sorted(slices.Values(c.Env)), func(v string) bool { return strings.HasSuffix(v, "=") })
	fmt.Fprintf(&b, "%s/%s %v %v %v %q %q %q\n", img.Config.OS, img.Config.Architecture, c.Entrypoint, c.Cmd, c.Env, c.User, c.WorkingDir, c.Volumes)
	return b.String()
}

// TestEmittedIsWhatPatchPublishes builds the context of every text image that can be
// patched, and compares the result with the image that patch publishes. A removal is a command,
// which is not run, or an error with nothing written.
func TestEmittedIsWhatPatchPublishes(t *testing.T) {
	addr := tooltest.Buildkitd(t)
	built, refused := 0, 0
	for _, name := range texts(t) {
		t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) {
			parsed, ref := shelfText(t, name)
			then, ok := foretold(parsed)
			if !ok {
				return
			}
			var from []string
			for _, dir := range sourcesOf(t, parsed) {
				from = append(from, "--from", "dir:"+dir)
			}
			machines := machinesIn(t, parsed)
			for _, m := range machines {
				from = append(from, "--gpu", m.Text())
			}
			if status, errs := patchTo(ref, append(from, "-t", ref+"-fixed")...); status != exitOK {
				t.Fatalf("exit status %d: %s", status, errs)
			}
			dir := filepath.Join(t.TempDir(), "fix")
			status, errs := patchTo(ref, append(from, "--emit", "dockerfile="+dir)...)
			if strings.Contains(parsed.Sections["want-patched"], "remove /") {
				refused++
				if text, err := os.ReadFile(filepath.Join(dir, "Dockerfile")); err == nil && status == exitOK {
					if !strings.Contains(string(text), "\nRUN ") || !strings.Contains(string(text), "rm -f /") { // which is not run
						t.Errorf("removes nothing:\n%s", text)
					}
					return
				}
				if status != exitFailed || !strings.Contains(errs, "a Dockerfile cannot remove a file of its base") {
					t.Errorf("exit status %d: %s", status, errs)
				}
				if _, err := os.Stat(dir); err == nil {
					t.Error("it is there")
				}
				return
			}
			if status != exitOK {
				t.Fatalf("exit status %d: %s", status, errs)
			}
			built++
			buildContext(t, addr, dir, ref+"-built")
			if diff := cmp.Diff(content(t, ref+"-fixed"), content(t, ref+"-built")); diff != "" {
				t.Errorf("(-patched +built):\n%s", diff)
			}
			doc, err := scan.Image(t.Context(), ref+"-built", scan.Options{Machines: machines})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(then, briefly(doc.Findings)); diff != "" {
				t.Errorf("the built image is not what was planned (-want +got):\n%s", diff)
			}
		})
	}
	if built < 30 || refused == 0 {
		t.Errorf("%d were built, and %d refused", built, refused)
	}
}

// wheelIndex serves a package index with one wheel of cuDNN 9, made from a text in
// testdata/images/from.
func wheelIndex(t *testing.T) string {
	t.Helper()
	dir := unpacked(t, "cudnn9")
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, data []byte) {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	libs, err := filepath.Glob(filepath.Join(dir, "lib", "*.so.9.1.0"))
	if err != nil || len(libs) == 0 {
		t.Fatal(err)
	}
	for _, lib := range libs {
		data, err := os.ReadFile(lib)
		if err != nil {
			t.Fatal(err)
		}
		add("nvidia/cudnn/lib/"+strings.TrimSuffix(filepath.Base(lib), ".1.0"), data)
	}
	add("nvidia_cudnn_cu12-9.1.0.70.dist-info/License.txt", []byte("the licence of the wheel"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const wheel = "nvidia_cudnn_cu12-9.1.0.70-py3-none-manylinux2014_x86_64.whl"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/simple/nvidia-cudnn-cu12/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<!DOCTYPE html><html><body><a href=\"/%s#sha256=%x\">%s</a></body></html>", wheel, sha256.Sum256(b.Bytes()), wheel)
		case "/" + wheel:
			w.Write(b.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/simple"
}

// unpacked unpacks a text of testdata/images/from and returns the directory.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	return sourcesOf(t, &imagetest.Image{Sections: map[string]string{"from": name}})[0]
}

// pushImage pushes a text image.
func pushImage(t *testing.T, server *imagetest.Server, ref, text string) string {
	t.Helper()
	img := imagetest.V1(t, text)
	name, err := server.Push(ref, img)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// alpine is an image with musl whose NCCL has lost its links.
const alpine = `entrypoint ["/app/infer"]
layer 0 ADD alpine-minirootfs-3.20 /
layer 1 COPY app /
-- 0/lib/ld-musl-x86_64.so.1 --
elf x86_64 soname=libc.musl-x86_64.so.1
rodata "musl libc (x86_64)\nVersion %s\nDynamic Program Loader\x001.2.5\x00"
-- 0/lib/libc.musl-x86_64.so.1 --
symlink ld-musl-x86_64.so.1
-- 0/bin/busybox --
elf x86_64 interp=/lib/ld-musl-x86_64.so.1
needed libc.musl-x86_64.so.1
flags1 pie
-- 0/bin/sh --
symlink busybox
-- 1/usr/lib/libnccl.so.2.20.5 --
elf x86_64 soname=libnccl.so.2
needed libc.musl-x86_64.so.1
-- 1/app/infer --
elf x86_64 interp=/lib/ld-musl-x86_64.so.1
needed libnccl.so.2
needed libc.musl-x86_64.so.1
flags1 pie
`

// TestEmittedBuilds builds contexts for images of each kind with files from each kind of
// source. Only Alpine's image has a shell, and its user may not write files: RUN would
// fail in all of them.
func TestEmittedBuilds(t *testing.T) {
	addr, server := tooltest.Buildkitd(t), imagetest.Serve(t)
	data, err := images.Text("ort-no-cudnn.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(data), "-- want --")
	// As in Jupyter's images, where a group may write to /opt/conda and below.
	const home = "-- 9/opt/venv --\ndir mode=2775 uid=1000 gid=100\n-- 9/opt/venv/lib --\ndir mode=2775 uid=1000 gid=100\n" +
		"-- 9/opt/venv/lib/python3.10/site-packages/onnxruntime/capi --\ndir mode=555 uid=7 gid=8\n"
	source, err := os.ReadFile(filepath.Join(unpacked(t, "cudnn9"), "lib", "libcudnn.so.9.1.0"))
	if err != nil || len(source) == 0 {
		t.Fatal(err)
	}
	cudnn, err := images.Text("from/cudnn9.txtar")
	if err != nil {
		t.Fatal(err)
	}
	image := pushImage(t, server, "cudnn:9", strings.ReplaceAll(string(cudnn), "-- 0/lib/", "-- 0/usr/lib/x86_64-linux-gnu/"))
	for _, tt := range []struct{ name, text, from string }{
		{"root", text, "dir:" + unpacked(t, "cudnn9")},
		{"another user", "user 1000:100\n" + text, "dir:" + unpacked(t, "cudnn9")},
		{"distroless", "user 65532\n" + text, "image:" + image},
		{"others' directories", "user 1000\n" + text + home, "image:" + image},
		{"others' directories, from an index", "user 1000\n" + text + home, "pypi:" + wheelIndex(t)},
		{"root again, from an index", text, "pypi:" + wheelIndex(t)},
		{"Alpine", "user nobody\n" + alpine, "dir:" + t.TempDir()},
		{"Alpine for another machine", "platform linux/arm64\n" + strings.ReplaceAll(alpine, "x86_64", "aarch64"), "dir:" + t.TempDir()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ref := pushImage(t, server, "app:"+strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' {
					return r
				}
				return '-'
			}, "x"+strings.ToLower(tt.name)), tt.text)
			dir := t.TempDir()
			if status, errs := patchTo(ref, "--from", tt.from, "-t", ref+"-fixed"); status != exitOK {
				t.Fatalf("exit status %d: %s", status, errs)
			}
			if status, errs := patchTo(ref, "--from", tt.from, "--emit", "dockerfile="+dir); status != exitOK {
				t.Fatalf("exit status %d: %s", status, errs)
			}
			made, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
			if err != nil {
				t.Fatal(err)
			}
			if from := strings.Contains(string(made), "--from="); from != strings.HasPrefix(tt.from, "image:") || strings.Contains(string(made), "RUN") {
				t.Errorf("of %s:\n%s", tt.from, made)
			}
			buildContext(t, addr, dir, ref+"-built")
			if diff := cmp.Diff(content(t, ref+"-fixed"), content(t, ref+"-built")); diff != "" {
				t.Errorf("%s(-patched +built):\n%s", made, diff)
			}
			doc, err := scan.Image(t.Context(), ref+"-built", scan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if worst := briefly(doc.Findings); strings.Contains(worst, "error ") || strings.Contains(worst, "warning ") {
				t.Errorf("it still has\n%s", worst)
			}
		})
	}
}

// TestEmittedVariables lets buildkitd read variables with quotes, backslashes and
// dollars, which are hard to quote.
func TestEmittedVariables(t *testing.T) {
	addr, server := tooltest.Buildkitd(t), imagetest.Serve(t)
	data, err := images.Text("ort-wheels-off-path.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(data), "-- want --")
	for i, odd := range []string{`/a b`, `/it's`, `/"x"`, `/$ORIGIN/${A}`, `/back\slash\`, `/#no,comment`, "/\u00e4\u2028x", "/`x`", `/<<EOF`} {
		ref := pushImage(t, server, fmt.Sprintf("odd:%d", i), "env LD_LIBRARY_PATH="+odd+"\n"+text)
		dir := t.TempDir()
		if status, errs := patchTo(ref, "-t", ref+"-fixed"); status != exitOK {
			t.Fatalf("%s: exit status %d: %s", odd, status, errs)
		}
		if status, errs := patchTo(ref, "--emit", "dockerfile="+dir); status != exitOK {
			t.Fatalf("%s: exit status %d: %s", odd, status, errs)
		}
		buildContext(t, addr, dir, ref+"-built")
		want := content(t, ref+"-fixed")
		if !strings.Contains(want, odd) {
			t.Errorf("%s is not in the patched image's variables", odd)
		}
		if diff := cmp.Diff(want, content(t, ref+"-built")); diff != "" {
			t.Errorf("%s (-patched +built):\n%s", odd, diff)
		}
	}
}
