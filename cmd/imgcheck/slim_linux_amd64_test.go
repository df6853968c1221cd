package main

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
)

// TestSlimLoads slims an image with this machine's loader and C library, and a program with
// GPU code that gcc has linked: skopeo and umoci accept the result, `imgcheck ldd --all` and the
// real loader say the same of each file as before, and the program runs. test/real/slim.sh does
// so with large images.
func TestSlimLoads(t *testing.T) {
	fatbin, err := imagetest.ParseFatbin("count=50 sm_75 sm_80 sm_89 compute_90")
	if err != nil {
		t.Fatal(err)
	}
	gcc, dir := tooltest.Need(t, "gcc", "gcc"), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"code":    string(fatbin.Bytes()),
		"ops.c":   `__asm__(".section .nv_fatbin,\"a\"\n.balign 8\n.incbin \"` + at("code") + `\"\n.text"); int ops(void) { return 42; }`,
		"infer.c": `#include <stdio.h>` + "\n" + `int ops(void); int main(void) { printf("%d\n", ops()); return 0; }`,
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tooltest.Output(t, gcc, "-shared", "-fPIC", "-Wl,-soname,libops.so.1", "-o", at("libops.so.1"), at("ops.c"))
	tooltest.Output(t, gcc, "-Wl,-rpath,/app/lib", "-o", at("infer"), at("infer.c"), at("libops.so.1"))
	layersOf := []map[string]string{
		{
			"lib64/ld-linux-x86-64.so.2":        fileText(t, "/lib64/ld-linux-x86-64.so.2"),
			"lib/x86_64-linux-gnu/libc.so.6":    fileText(t, "/lib/x86_64-linux-gnu/libc.so.6"),
			"root/.cache/pip/http-v2/libc.so.6": fileText(t, "/lib/x86_64-linux-gnu/libc.so.6"),
			"app/lib/libops.so.1":               "the library before it was made again",
		},
		{"app/infer": fileText(t, at("infer")), "app/lib/libops.so.1": fileText(t, at("libops.so.1"))},
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, "application/vnd.oci.image.manifest.v1+json"), "application/vnd.oci.image.config.v1+json")
	for _, files := range layersOf {
		if img, err = mutate.AppendLayers(img, layerOf(t, files)); err != nil {
			t.Fatal(err)
		}
	}
	img, err = mutate.Config(img, v1.Config{Entrypoint: []string{"/app/infer"}})
	if err == nil {
		img, err = withPlatform(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	ref, err := imagetest.Serve(t).Push("app:1", img)
	if err != nil {
		t.Fatal(err)
	}
	const gone = "/root/.cache/pip/http-v2/libc.so.6"
	before, old := answers(t, ref)
	if !strings.Contains(before, gone) {
		t.Fatalf("no answer about the cache:\n%s", before)
	}
	slim := strings.TrimSuffix(ref, ":1") + ":slim"
	said := command(t, "slim", ref, "-t", slim, "--gpu", "L4", "--no-cache")
	for _, want := range []string{"replaced         1 file", "package-cache    1 file", "gpu-code         1 file"} {
		if !strings.Contains(said, want) {
			t.Errorf("slim does not say %q:\n%s", want, said)
		}
	}
	after, root := answers(t, slim)
	var kept []string
	for _, block := range strings.Split(strings.TrimSpace(before), "\n\n") {
		if !strings.Contains(block, gone) {
			kept = append(kept, block)
		}
	}
	if want := strings.Join(kept, "\n\n"); strings.TrimSpace(after) != want {
		t.Errorf("imgcheck ldd --all says\n%s\nand before\n%s", after, want)
	}
	for _, file := range []string{"/app/infer", "/app/lib/libops.so.1", "/lib/x86_64-linux-gnu/libc.so.6"} {
		if a, b := loads(t, old, file), loads(t, root, file); a != b {
			t.Errorf("the loader says of %s\n%s\nand before\n%s", file, b, a)
		}
	}
	stripped, whole := fileText(t, filepath.Join(root, "app/lib/libops.so.1")), fileText(t, at("libops.so.1"))
	if stripped == whole || len(stripped) != len(whole) {
		t.Error("the library is as it was, or has another length")
	}
	if out := tooltest.Output(t, filepath.Join(root, "lib64/ld-linux-x86-64.so.2"), "--library-path", root+"/lib/x86_64-linux-gnu:"+root+"/app/lib", filepath.Join(root, "app/infer")); out != "42\n" {
		t.Errorf("the program prints %q", out)
	}
}

// answers returns what imgcheck ldd --all says of an image, and the root that umoci unpacks from
// skopeo's copy of it.
func answers(t *testing.T, ref string) (text, root string) {
	t.Helper()
	dir := t.TempDir()
	skopeo, umoci := tooltest.Need(t, "skopeo", "skopeo"), tooltest.Need(t, "umoci", "umoci")
	tooltest.Output(t, skopeo, "copy", "--quiet", "--src-tls-verify=false", "docker://"+ref, "oci:"+dir+"/copy:1")
	tooltest.Output(t, umoci, "unpack", "--rootless", "--image", dir+"/copy:1", dir+"/bundle")
	return command(t, "ldd", "--all", ref, "--no-cache"), dir + "/bundle/rootfs"
}

// loads returns what the loader of an unpacked root says of one of its files.
func loads(t *testing.T, root, file string) string {
	t.Helper()
	out := tooltest.Output(t, root+"/lib64/ld-linux-x86-64.so.2", "--library-path", root+"/lib/x86_64-linux-gnu:"+root+"/app/lib", "--list", root+file)
	var lines []string
	for _, line := range strings.Split(strings.ReplaceAll(out, root, ""), "\n") {
		name, _, _ := strings.Cut(line, " (0x") // addresses change
		lines = append(lines, name)
	}
	return strings.Join(lines, "\n")
}

// command runs imgcheck and returns all that it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if status := run(context.Background(), append([]string{"imgcheck"}, args...), &out, &out); status != exitOK {
		t.Fatalf("%q: exit status %d\n%s", args, status, out.String())
	}
	return out.String()
}

func fileText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func layerOf(t *testing.T, files map[string]string) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	dirs := map[string]bool{".": true}
	for name, text := range files {
		var above []string
		for d := filepath.Dir(name); !dirs[d]; d = filepath.Dir(d) {
			above, dirs[d] = append([]string{d}, above...), true
		}
		for _, d := range above {
			if err := tw.WriteHeader(&tar.Header{Name: d + "/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
				t.Fatal(err)
			}
		}
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType("application/vnd.oci.image.layer.v1.tar+gzip"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// withPlatform says in an image's config that it is for Linux on amd64.
func withPlatform(img v1.Image) (v1.Image, error) {
	c, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", "amd64"
	return mutate.ConfigFile(img, c)
}
