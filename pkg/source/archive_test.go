package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
)

// dockerTar returns text images as crane writes them: flat, each layer compressed.
func dockerTar(t testing.TB, texts ...string) []byte {
	t.Helper()
	images := map[name.Reference]v1.Image{}
	for i, text := range texts {
		ref, err := name.ParseReference(fmt.Sprintf("example.com/app:%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		images[ref] = imagetest.V1(t, text)
	}
	var b bytes.Buffer
	if err := tarball.MultiRefWrite(images, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// savedFiles returns the files that docker save writes for an image, in their order: of
// versions before 25 (ID/layer.tar), or since (blobs/sha256/HEX).
func savedFiles(t *testing.T, text string, old bool) []tarEntry {
	t.Helper()
	img := imagetest.V1(t, text)
	cfg, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	m := dockerManifest{RepoTags: []string{"app:1"}}
	var files []tarEntry
	add := func(name string, b []byte) {
		files = append(files, tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, string(b)})
	}
	for i, b := range layerTars(t, text) {
		h, _, err := v1.SHA256(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		p := "blobs/sha256/" + h.Hex
		if old {
			dir := fmt.Sprintf("%064d", i+1)
			add(dir+"/VERSION", []byte("1.0"))
			add(dir+"/json", []byte(`{"id": "x"}`))
			p = dir + "/layer.tar"
		}
		m.Layers = append(m.Layers, p)
		add(p, b)
	}
	h, _, err := v1.SHA256(bytes.NewReader(cfg))
	if err != nil {
		t.Fatal(err)
	}
	m.Config = "blobs/sha256/" + h.Hex
	if old {
		m.Config = h.Hex + ".json"
	}
	add(m.Config, cfg)
	list, err := json.Marshal([]dockerManifest{m})
	if err != nil {
		t.Fatal(err)
	}
	add("manifest.json", list)
	add("repositories", []byte(`{"app": {}}`))
	return files
}

func writeFile(t *testing.T, name string, b []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, err := z.Write(b)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zstded(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z, err := zstd.NewWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(b)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestDockerArchive(t *testing.T) {
	forms := map[string][]byte{
		"old":   tarOf(t, savedFiles(t, appImage, true)...),
		"new":   tarOf(t, savedFiles(t, appImage, false)...),
		"crane": dockerTar(t, appImage),
	}
	for form, b := range forms {
		t.Run(form, func(t *testing.T) {
			wantApp(t, "docker-archive:"+writeFile(t, "app.tar", b), Options{})
			wantApp(t, "docker-archive:"+writeFile(t, "app.tar.gz", gzipped(t, b)), Options{})
			wantApp(t, "docker-archive:"+writeFile(t, "app.tar.zst", zstded(t, b)), Options{})
			wantApp(t, "docker-archive:"+writeFile(t, "a:b", b), Options{})
		})
	}
}

// skopeo writes ID/layer.tar as a link to ../DIGEST.tar.
func TestSkopeoArchives(t *testing.T) {
	skopeo := tooltest.Need(t, "skopeo", "skopeo")
	from := "oci:" + writeLayout(t, appImage) + ":a"
	dir := t.TempDir()
	docker, oci := filepath.Join(dir, "docker.tar"), filepath.Join(dir, "oci.tar")
	for _, to := range []string{"docker-archive:" + docker + ":app:1", "oci-archive:" + oci + ":tag", "oci:" + dir + "/layout:tag"} {
		tooltest.Output(t, skopeo, "--insecure-policy", "copy", "-q", from, to)
	}
	wantApp(t, "docker-archive:"+docker, Options{})
	wantApp(t, "docker-archive:"+docker+":app:1", Options{})
	b, err := os.ReadFile(docker)
	if err != nil {
		t.Fatal(err)
	}
	wantApp(t, "docker-archive:"+writeFile(t, "app.tar.gz", gzipped(t, b)), Options{})
	wantApp(t, "oci-archive:"+oci, Options{})
	wantApp(t, "oci-archive:"+oci+":tag", Options{})
	wantApp(t, "oci:"+dir+"/layout", Options{})
	wantApp(t, "oci:"+dir+"/layout:tag", Options{})
	wantError(t, "docker-archive:"+oci, Options{}, "docker-archive:TMP/oci.tar: is an OCI archive: say oci-archive:FILE")
	wantError(t, "oci-archive:"+docker, Options{}, "oci-archive:TMP/docker.tar: is a docker archive: say docker-archive:FILE")
}

func TestDockerArchiveWithSeveralImages(t *testing.T) {
	b := dockerTar(t, appImage, "-- 0/other --\nother\n")
	for _, file := range []string{writeFile(t, "two.tar", b), writeFile(t, "two.tar.gz", gzipped(t, b))} {
		base := filepath.Base(file)
		for _, tag := range []string{"example.com/app:1", "app:1"} {
			wantApp(t, "docker-archive:"+file+":"+tag, Options{})
		}
		_, files := mustRead(t, "docker-archive:"+file+":app:2", Options{})
		if got, want := files, "0 other = other\n"; got != want {
			t.Errorf("got %swant %s", got, want)
		}
		where := "docker-archive:TMP/" + base
		if strings.HasSuffix(file, ".gz") {
			where = "reading " + where // a stream is read once
		}
		wantError(t, "docker-archive:"+file, Options{}, where+": the archive has 2 images: say which, as docker-archive:FILE:REF, of example.com/app:1, example.com/app:2")
		wantError(t, "docker-archive:"+file+":app:3", Options{}, where+`:app:3: the archive has no image "app:3": it has example.com/app:1, example.com/app:2`)
	}
}

// A change to any file of an archive is an error that names what is wrong.
func TestDamagedDockerArchive(t *testing.T) {
	change := func(files []tarEntry, part, content string) []tarEntry {
		var out []tarEntry
		for _, f := range files {
			if strings.Contains(f.Name, part) {
				if content == "" {
					continue
				}
				f.content = content
			}
			out = append(out, f)
		}
		return out
	}
	second := fmt.Sprintf("%064d/layer.tar", 2)
	other := string(layerTars(t, "-- 0/x --\nx\n")[0])
	name, err := imagetest.V1(t, appImage).ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	config := name.Hex + ".json"
	tests := []struct {
		part, content string
		plain, stream string // the errors of a plain and of a compressed archive
	}{
		{second, other, "layer 2 (RUN build): its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged", "layer 2 (RUN build): its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged"},
		{second, other[:700], "layer 2 (RUN build): its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged", "layer 2 (RUN build): its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged"},
		{second, "", `layer 2: HEX/layer.tar is not in it: the archive is damaged`, `layer 2: HEX/layer.tar is not in it: the archive is damaged`},
		{"manifest.json", "", "is no docker archive: it has no manifest.json (docker save writes one, docker export does not)", "is no docker archive: it has no manifest.json (docker save writes one, docker export does not)"},
		{"manifest.json", "[]", "the archive has no images", "the archive has no images"},
		{"manifest.json", "[{]", "manifest.json: invalid character ']' looking for beginning of object key string", "manifest.json: invalid character ']' looking for beginning of object key string"},
		{"manifest.json", `[{"Config": "x", "Layers": []}]`, "the config: x is not in it: the archive is damaged", "the config: x is not in it: the archive is damaged"},
		{"manifest.json", `[{"Config": "manifest.json", "Layers": []}]`, "its config cannot be read (json: cannot unmarshal array into Go value of type v1.ConfigFile): the image is damaged", "its config cannot be read (json: cannot unmarshal array into Go value of type v1.ConfigFile): the image is damaged"},
		{config, `{"rootfs": {"diff_ids": ["", ""]}}`, "the config: its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged", "the config: its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged"},
	}
	for _, tt := range tests {
		files := change(savedFiles(t, appImage, true), tt.part, tt.content)
		b := tarOf(t, files...)
		plain, stream := "docker-archive:TMP/a.tar: "+tt.plain, "reading docker-archive:TMP/a.tgz: "+tt.stream
		if strings.HasPrefix(tt.plain, "layer 2 (RUN build)") {
			plain = "reading " + plain
		}
		wantError(t, "docker-archive:"+writeFile(t, "a.tar", b), Options{}, plain)
		wantError(t, "docker-archive:"+writeFile(t, "a.tgz", gzipped(t, b)), Options{}, stream)
	}
	whole := tarOf(t, savedFiles(t, appImage, true)...)
	cut := gzipped(t, whole)
	wantError(t, "docker-archive:"+writeFile(t, "a.tgz", cut[:len(cut)/2]), Options{}, "reading docker-archive:TMP/a.tgz: ends too early: the archive is cut off")
	wantError(t, "docker-archive:"+writeFile(t, "a.tar", whole[:5300]), Options{}, "docker-archive:TMP/a.tar: ends in the middle of HEX/layer.tar: the archive is cut off")
	wantError(t, "docker-archive:"+writeFile(t, "a.tar", bytes.Repeat([]byte("no tar"), 1000)), Options{}, "docker-archive:TMP/a.tar: is no tar archive")
	wantError(t, "docker-archive:"+writeFile(t, "a.tar", nil), Options{}, "docker-archive:TMP/a.tar: is no docker archive: it has no manifest.json (docker save writes one, docker export does not)")
	wantError(t, "docker-archive:"+t.TempDir(), Options{}, "docker-archive:TMP: is a directory: say oci: for an OCI layout, dir: for a root file system")
	wantError(t, "docker-archive:/no/such/file.tar", Options{}, "docker-archive:/no/such/file.tar: /no/such/file.tar: no such file or directory")
}

// taggedLayout returns the directory of an OCI layout with an image for each tag.
func taggedLayout(t *testing.T, images map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"a", "b", "c"} {
		if images[tag] == "" {
			continue
		}
		if err := p.AppendImage(imagetest.V1(t, images[tag]), layout.WithAnnotations(map[string]string{RefName: tag})); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// writeLayout writes a text image as an OCI layout.
func writeLayout(t *testing.T, text string) string {
	t.Helper()
	return taggedLayout(t, map[string]string{"a": text})
}

func TestLayout(t *testing.T) {
	two := taggedLayout(t, map[string]string{"a": appImage, "b": "-- 0/b --\nb\n"})
	img := wantApp(t, "oci:"+two+":a", Options{})
	wantApp(t, "oci:"+two+":"+img.Digest, Options{})
	_, files := mustRead(t, "oci:"+two+":b", Options{})
	if got, want := files, "0 b = b\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
	wantError(t, "oci:"+two, Options{}, "oci:TMP/layout: the layout has several images: say which, as oci:TMP/layout:TAG, of a, b")
	wantError(t, "oci:"+two+":c", Options{}, `oci:TMP/layout:c: the layout has no image with the tag "c": it has a, b`)
	wantError(t, "oci:"+t.TempDir(), Options{}, "oci:TMP: is no OCI layout: it has no index.json")
	wantError(t, "oci:/no/such/dir:x", Options{}, "oci:/no/such/dir:x: /no/such/dir: no such file or directory")
	wantError(t, "oci:"+writeFile(t, "f", nil), Options{}, "oci:TMP/f: is a file, not an OCI layout: say oci-archive:FILE or docker-archive:FILE")
	wantError(t, "oci:"+taggedLayout(t, nil), Options{}, "oci:TMP/layout: the layout has no image: it has no tags")
	for dir, want := range map[string]string{"/no/such/dir": "/no/such/dir: no such file or directory", "/usr": "is no OCI layout: it has no index.json"} {
		if _, err := NewLayout(dir).Index(); err == nil || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want %s", dir, err, want)
		}
	}
}

func TestLayoutWithNestedIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.IndexMediaType(platformIndex(t, "linux/arm64", "linux/amd64", "unknown/unknown"), types.OCIImageIndex)
	if err := p.AppendIndex(index, layout.WithAnnotations(map[string]string{RefName: "tag"})); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{"oci:" + dir: "linux/amd64 number 1", "oci:" + dir + ":tag": "linux/amd64 number 1"} {
		_, files := mustRead(t, ref, Options{})
		if got := files; got != "0 platform = "+want+"\n" {
			t.Errorf("%s: %s", ref, got)
		}
	}
	wantError(t, "oci:"+dir, Options{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}},
		"oci:TMP/layout: is not there for linux/s390x: choose one with --platform linux/amd64 or linux/arm64")
}

func TestDamagedLayout(t *testing.T) {
	blobs := func(dir string) (manifest, config, layer string) {
		img, err := Open(t.Context(), "oci:"+dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer img.Close()
		at := func(digest string) string {
			return filepath.Join(dir, "blobs", strings.Replace(digest, ":", "/", 1))
		}
		h, err := imagetest.V1(t, appImage).ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		return at(img.Digest), at(h.String()), at(img.Layers[1].Digest)
	}
	flip := func(p string) {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 0xff
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const damaged = "its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged"
	tests := []struct {
		name   string
		change func(manifest, config, layer string)
		want   string
	}{
		{"manifest", func(m, _, _ string) { flip(m) }, "oci:TMP/layout: the blob sha256:HEX has the digest sha256:HEX: the image is damaged"},
		{"config", func(_, c, _ string) { flip(c) }, "oci:TMP/layout: reading the config: its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged"},
		{"layer", func(_, _, l string) { flip(l) }, "reading oci:TMP/layout: layer 2 (RUN build): " + damaged},
		{"cut layer", func(_, _, l string) { os.Truncate(l, 50) }, "reading oci:TMP/layout: layer 2 (RUN build): the blob sha256:HEX has 50 bytes, not 136: the image is damaged"},
		{"no layer", func(_, _, l string) { os.Remove(l) }, "reading oci:TMP/layout: layer 2 (RUN build): the blob sha256:HEX is not in it: the image is damaged, or was saved without it"},
		{"no manifest", func(m, _, _ string) { os.Remove(m) }, "oci:TMP/layout: the blob sha256:HEX is not in it: the image is damaged, or was saved without it"},
		{"a link out of the layout", func(_, _, l string) { os.Remove(l); os.Symlink("/etc/passwd", l) }, "reading oci:TMP/layout: layer 2 (RUN build): blobs/sha256/HEX: path escapes from parent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeLayout(t, appImage)
			tt.change(blobs(dir))
			wantError(t, "oci:"+dir, Options{}, tt.want)
		})
	}
}

// tarDir returns a directory as a tar, as an OCI archive is one of a layout.
func tarDir(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	if err := errors.Join(tw.AddFS(os.DirFS(dir)), tw.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLayoutArchive(t *testing.T) {
	b := tarDir(t, taggedLayout(t, map[string]string{"a": appImage, "b": "-- 0/b --\nb\n"}))
	wantApp(t, "oci-archive:"+writeFile(t, "a.tar", b)+":a", Options{})
	wantError(t, "oci-archive:"+writeFile(t, "a.tar", b), Options{}, "oci-archive:TMP/a.tar: the layout has several images: say which, as oci-archive:TMP/a.tar:TAG, of a, b")
	wantError(t, "oci-archive:"+writeFile(t, "a.tgz", gzipped(t, b)), Options{}, "oci-archive:TMP/a.tgz: is compressed as a whole, or no file: decompress it into one first (gzip -d, zstd -d)")
	wantError(t, "oci-archive:"+writeFile(t, "a.tar", b[:len(b)/2]), Options{}, "oci-archive:TMP/a.tar: is no OCI layout: it has no index.json")
	wantError(t, "oci-archive:"+t.TempDir(), Options{}, "oci-archive:TMP: is a directory: say oci: for an OCI layout, dir: for a root file system")
}
