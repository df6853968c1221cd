package layers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// appImage is an image of two layers, the second of which removes a file.
const appImage = `
layer 0 COPY base /
layer 1 RUN build
empty ENTRYPOINT app
-- 0/etc/os-release --
ID=test
-- 0/opt/old --
old
-- 1/opt/.wh.old --
-- 1/opt/new --
new
`

const appListing = `0 implied etc
0 file etc/os-release = ID=test
1 implied opt
1 file opt/new = new
`

// mustIndex opens and indexes a reference.
func mustIndex(t *testing.T, ref string, o Options) (*Image, *FS) {
	t.Helper()
	o.Keep, o.sleep = everything, noSleep
	img, err := Open(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { img.Close() })
	f, err := img.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return img, f
}

// wantError opens and indexes a reference and compares the error, in which digests and
// temporary directories are masked.
func wantError(t *testing.T, ref string, o Options, want string) {
	t.Helper()
	o.sleep = noSleep
	img, err := Open(t.Context(), ref, o)
	if err == nil {
		_, err = img.Index(t.Context())
		img.Close()
	}
	if err == nil {
		t.Errorf("%s: no error, want %s", ref, want)
		return
	}
	got := regexp.MustCompile(`/tmp/Test[^ :"]*?/\d{3}`).ReplaceAllString(err.Error(), "TMP")
	if got = regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(got, "HEX"); got != want {
		t.Errorf("%s:\n got %s\nwant %s", ref, got, want)
	}
}

// noSleep continues at once.
func noSleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// newRegistry serves a registry, to clients without logins.
func newRegistry(t *testing.T) *imagetest.Server {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	return imagetest.Serve(t)
}

func push(t *testing.T, s *imagetest.Server, repoTag, text string) string {
	t.Helper()
	ref, err := s.Push(repoTag, imagetest.V1(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

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

// taggedLayout makes an OCI layout with an image for each tag.
func taggedLayout(t *testing.T, images map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for tag, text := range images {
		if err := p.AppendImage(imagetest.V1(t, text), layout.WithAnnotations(map[string]string{source.RefName: tag})); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// writeLayout writes a text image as an OCI layout with the tag "tag".
func writeLayout(t *testing.T, text string) string {
	t.Helper()
	return taggedLayout(t, map[string]string{"tag": text})
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

// daemon serves an image's archive as Docker's daemon does, on a socket that
// DOCKER_HOST names.
func daemon(t *testing.T, saved []byte) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		switch {
		case strings.HasSuffix(r.URL.Path, "/json"):
			w.Write([]byte(`{"Id": "sha256:1"}`))
		case strings.HasSuffix(r.URL.Path, "/get"):
			w.Write(saved)
		}
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+socket)
}

// One image is one file system, whatever it comes from.
func TestSources(t *testing.T) {
	s := newRegistry(t)
	saved := dockerTar(t, appImage)
	dir := writeLayout(t, appImage)
	var oci bytes.Buffer
	tw := tar.NewWriter(&oci)
	if err := errors.Join(tw.AddFS(os.DirFS(dir)), tw.Close()); err != nil {
		t.Fatal(err)
	}
	daemon(t, saved)
	for _, ref := range []string{
		push(t, s, "app:gzip", appImage), push(t, s, "app:zstd", "compress zstd"+appImage), push(t, s, "app:none", "compress none"+appImage),
		"docker-archive:" + writeFile(t, "a.tar", saved), "docker-archive:" + writeFile(t, "a.tgz", gzipped(t, saved)), "docker-archive:" + writeFile(t, "a.zst", zstded(t, saved)),
		"oci:" + dir, "oci-archive:" + writeFile(t, "oci.tar", oci.Bytes()), "docker:app",
	} {
		img, f := mustIndex(t, ref, Options{})
		if diff := cmp.Diff(appListing, listing(f)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", ref, diff)
		}
		if len(f.Layers) != 2 || f.Layers[1].CreatedBy != "RUN build" || img.Config == nil {
			t.Errorf("%s: layers %+v, config %+v", ref, f.Layers, img.Config)
		}
	}
}

// A layer whose bytes are another's is an error that names it, also where those are no
// layer.
func TestDamagedLayer(t *testing.T) {
	for _, change := range []func([]byte){
		func(b []byte) { b[len(b)/2] ^= 0xff },
		func(b []byte) { b[len(b)-1] ^= 0xff },
		func(b []byte) { clear(b) },
	} {
		dir := writeLayout(t, appImage)
		img, _ := mustIndex(t, "oci:"+dir, Options{})
		p := filepath.Join(dir, "blobs", strings.Replace(img.Layers[1].Digest, ":", "/", 1))
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		change(b)
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		wantError(t, "oci:"+dir, Options{}, "indexing oci:TMP/layout: layer 2 (RUN build): its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged")
	}
}

// A layer that stands twice in an image is fetched once.
func TestLayerTwiceIsReadOnce(t *testing.T) {
	s := newRegistry(t)
	ref := push(t, s, "app:1", "-- 0/f --\none\n-- 1/.wh.f --\n-- 2/f --\none\n")
	img, f := mustIndex(t, ref, Options{})
	if got, want := listing(f), "2 file f = one\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
	if n := s.Requests()["GET /v2/app/blobs/"+img.Layers[0].Digest]; n != 1 {
		t.Errorf("the blob was fetched %d times", n)
	}
}

// streamOf opens a docker archive as a stream.
func streamOf(t *testing.T, saved []byte) *Image {
	t.Helper()
	img, err := Open(t.Context(), "docker-archive:"+writeFile(t, "a.tgz", gzipped(t, saved)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { img.Close() })
	return img
}
