package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// The patched image is the same for every form of a source's name, and does not contain
// directories of the user's machine.
func TestPublishedNamesNoPath(t *testing.T) {
	server := imagetest.Serve(t)
	parsed, ref := pushText(t, server, "deleted-by-layer.txtar")
	dir := sourcesOf(t, parsed)[0]
	data, err := images.Text("from/cudnn9.txtar")
	if err != nil {
		t.Fatal(err)
	}
	cudnn := imagetest.V1(t, string(data))
	oci := filepath.Join(t.TempDir(), "secret-layout")
	p, err := layout.Write(oci, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(cudnn); err != nil {
		t.Fatal(err)
	}
	pushed, err := server.Push("cudnn:9", cudnn)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := cudnn.Digest()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "secret-link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(dir))
	base := filepath.Base(dir)
	for what, froms := range map[string][]string{
		"a directory":        {"dir:" + base, "dir:./" + base, "dir:" + base + "/", "dir:../" + filepath.Base(filepath.Dir(dir)) + "/" + base, "dir:" + dir, "dir:" + link},
		"a layout":           {"image:oci:" + oci, "image:oci:" + oci + "/."},
		"an image by a name": {"image:" + pushed, "image:registry:" + pushed, "image:docker://" + pushed, "image:" + strings.TrimSuffix(pushed, ":9") + "@" + digest.String()},
	} {
		first := ""
		for _, from := range froms {
			var out, errs bytes.Buffer
			args := []string{"imgcheck", "patch", ref, "-t", ref + "-fixed", "--from", from, "--accept-nvidia-license"}
			if status := run(context.Background(), args, &out, &errs); status != exitOK {
				t.Fatalf("%s: exit status %d: %s", from, status, errs.String())
			}
			if first == "" {
				first = out.String()
			}
			if out.String() != first {
				t.Errorf("%s, as %s: %s is not %s", what, from, out.String(), first)
			}
			tag, err := name.ParseReference(ref + "-fixed")
			if err != nil {
				t.Fatal(err)
			}
			img, err := remote.Image(tag)
			if err != nil {
				t.Fatal(err)
			}
			config, err := img.RawConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			manifest, err := img.RawManifest()
			if err != nil {
				t.Fatal(err)
			}
			built := filepath.Join(t.TempDir(), "context")
			args = []string{"imgcheck", "patch", ref, "--emit", "dockerfile=" + built, "--from", from, "--accept-nvidia-license"}
			if status := run(context.Background(), args, &out, &errs); status != exitOK {
				t.Fatalf("%s: exit status %d: %s", from, status, errs.String())
			}
			dockerfile, err := os.ReadFile(filepath.Join(built, "Dockerfile"))
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"secret", filepath.Dir(dir), "dir:", "oci:"} {
				for _, doc := range [][]byte{config, manifest, dockerfile} {
					if bytes.Contains(doc, []byte(word)) {
						t.Errorf("%s: %q is named:\n%s", from, word, doc)
					}
				}
			}
		}
	}
}
