package source

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// appImage is the image of the tests.
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

const appListing = `0 etc/os-release = ID=test
0 opt/old = old
1 opt/.wh.old
1 opt/new = new
`

// mustRead opens a reference and reads its layers to their ends. It returns a listing of
// their files.
func mustRead(t *testing.T, ref string, o Options) (*Image, string) {
	t.Helper()
	o.Sleep = noSleep
	img, err := Open(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { img.Close() })
	files, err := read(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	return img, files
}

// read reads all layers of an image to their ends, and returns a listing of their files.
func read(ctx context.Context, img *Image) (string, error) {
	list, err := layersOf(ctx, img)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", img.Ref, err)
	}
	var b strings.Builder
	for i, layer := range list {
		for tr := tar.NewReader(layer); ; {
			h, err := tr.Next()
			if err != nil {
				break // a damaged layer has an error of its own
			}
			if h.Typeflag == tar.TypeReg {
				content, _ := io.ReadAll(tr)
				fmt.Fprintln(&b, strings.TrimSuffix(fmt.Sprintf("%d %s = %s", i, h.Name, bytes.TrimSpace(content)), " = "))
			}
		}
	}
	return b.String(), nil
}

// layersOf returns the layers of an image, unpacked.
func layersOf(ctx context.Context, img *Image) ([]io.Reader, error) {
	var list []io.Reader
	if img.IsStream() {
		rc, err := img.Stream(ctx)
		if err != nil {
			return nil, err
		}
		defer rc.Close()
		files := map[int]io.Reader{}
		saved, err := img.ReadStream(ctx, unpacked(rc), func(f TarFile, r io.Reader) error {
			b, err := io.ReadAll(io.LimitReader(unpacked(r), 1<<20))
			if errors.As(err, new(*fetchError)) {
				return err
			}
			files[f.Entry] = bytes.NewReader(b)
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, f := range saved.Layers {
			list = append(list, files[f.Entry])
		}
		return list, nil
	}
	for i := range img.Layers {
		var whole bytes.Buffer
		rc, err := img.Blob(ctx, i, nil)
		if err == nil {
			_, err = io.Copy(&whole, rc)
			rc.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("layer %d%s: %w", i+1, img.Layers[i].Instruction(), err)
		}
		list = append(list, unpacked(&whole))
	}
	return list, nil
}

// unpacked decompresses what begins like gzip or zstd.
func unpacked(r io.Reader) io.Reader {
	br := bufio.NewReader(r)
	head, _ := br.Peek(len(magicZstd))
	switch {
	case bytes.HasPrefix(head, magicGzip):
		if z, err := gzip.NewReader(br); err == nil {
			return z
		}
	case bytes.HasPrefix(head, magicZstd):
		if z, err := zstd.NewReader(br); err == nil {
			return z.IOReadCloser()
		}
	}
	return br
}

func wantApp(t *testing.T, ref string, o Options) *Image {
	t.Helper()
	img, files := mustRead(t, ref, o)
	if diff := cmp.Diff(appListing, files); diff != "" {
		t.Errorf("%s: -want +got:\n%s", ref, diff)
	}
	if len(img.Layers) != 2 || img.Config == nil || !strings.HasPrefix(img.Layers[0].DiffID, "sha256:") {
		t.Errorf("%s: layers %+v, config %+v", ref, img.Layers, img.Config)
	}
	return img
}

// wantError opens a reference, reads its layers and compares the error. Numbers of ports,
// digests and temporary directories are masked.
func wantError(t *testing.T, ref string, o Options, want string) {
	t.Helper()
	o.Sleep = noSleep
	img, err := Open(t.Context(), ref, o)
	if err == nil {
		_, err = read(t.Context(), img)
		img.Close()
	}
	if err == nil {
		t.Errorf("%s: no error, want %s", ref, want)
		return
	}
	if got := masked(t, err.Error()); got != want {
		t.Errorf("%s:\n got %s\nwant %s", ref, got, want)
	}
}

// tarEntry is an entry of a tar.
type tarEntry struct {
	tar.Header
	content string
}

// tarOf writes a tar; contents give the sizes.
func tarOf(t testing.TB, entries ...tarEntry) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		if err := tw.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func layerTars(t testing.TB, text string) [][]byte {
	t.Helper()
	im, err := imagetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var list [][]byte
	for n := range im.Layers {
		var buf bytes.Buffer
		if err := im.LayerTar(n, &buf); err != nil {
			t.Fatal(err)
		}
		list = append(list, buf.Bytes())
	}
	return list
}

// noSleep does not wait.
func noSleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

var masks = []struct{ re, to string }{
	{`127\.0\.0\.1:\d+`, "HOST"},
	{`[0-9a-f]{64}`, "HEX"},
	{`/tmp/Test[^ :"]*?/\d{3}`, "TMP"},
}

func masked(t *testing.T, s string) string {
	t.Helper()
	for _, m := range masks {
		s = regexp.MustCompile(m.re).ReplaceAllString(s, m.to)
	}
	return s
}

func newRegistry(t *testing.T) *imagetest.Server {
	t.Helper()
	s := imagetest.Serve(t)
	noDockerConfig(t)
	return s
}

// noDockerConfig hides the logins of the user who runs the tests.
func noDockerConfig(t *testing.T) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
}

func push(t *testing.T, s *imagetest.Server, repoTag, text string) string {
	t.Helper()
	ref, err := s.Push(repoTag, imagetest.V1(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestRegistry(t *testing.T) {
	s := newRegistry(t)
	for _, compress := range []string{"gzip", "zstd", "none"} {
		ref := push(t, s, "app:"+compress, "compress "+compress+appImage)
		img := wantApp(t, ref, Options{})
		wantApp(t, "registry:"+ref, Options{})
		wantApp(t, "docker://"+ref, Options{})
		wantApp(t, s.Host+"/app@"+img.Digest, Options{})
		wantApp(t, ref+"@"+img.Digest, Options{})
		want := []string{"COPY base /", "RUN build"}
		if got := []string{img.Layers[0].CreatedBy, img.Layers[1].CreatedBy}; !cmp.Equal(got, want) {
			t.Errorf("instructions %q, want %q", got, want)
		}
	}
	for request, n := range s.Requests() {
		if strings.HasPrefix(request, "GET") && strings.Contains(request, "/blobs/") && n > 5*3 { // five scans of three images, which share their config
			t.Errorf("%s: %d times", request, n)
		}
	}
}

// pushIndex pushes an index of images by platform; a platform "" is left out of
// its descriptor.
func pushIndex(t *testing.T, s *imagetest.Server, repoTag string, index v1.ImageIndex) string {
	t.Helper()
	ref, err := name.ParseReference(s.Host + "/" + repoTag)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	return ref.Name()
}

func platformIndex(t *testing.T, names ...string) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for i, p := range names {
		text := fmt.Sprintf("-- 0/platform --\n%s number %d\n", p, i)
		if p != "" && p != "unknown/unknown" {
			text = "platform " + p + "\n" + text
		}
		add := mutate.IndexAddendum{Add: imagetest.V1(t, text)}
		if p != "" {
			platform, err := v1.ParsePlatform(p)
			if err != nil {
				t.Fatal(err)
			}
			add.Platform = platform
		}
		index = mutate.AppendManifests(index, add)
	}
	return index
}

func TestPlatforms(t *testing.T) {
	s := newRegistry(t)
	tests := []struct {
		have, ask string
		want      string // the file's content, or the error after the reference
	}{
		{"linux/arm64 linux/amd64 unknown/unknown", "", "linux/amd64 number 1"},
		{"unknown/unknown linux/amd64", "", "linux/amd64 number 1"},
		{"linux/arm64 linux/amd64", "linux/arm64", "linux/arm64 number 0"},
		{"linux/arm/v6 linux/arm/v7", "linux/arm/v7", "linux/arm/v7 number 1"},
		{"linux/arm64/v8 linux/amd64", "linux/arm64", "linux/arm64/v8 number 0"},
		{"linux/arm64 unknown/unknown", "", "linux/arm64 number 0"}, // the only one
		{"linux/arm64 linux/riscv64 unknown/unknown", "", "is not there for linux/amd64: choose one with --platform linux/arm64 or linux/riscv64"},
		{"linux/arm64 linux/amd64", "linux/s390x", "is not there for linux/s390x: choose one with --platform linux/amd64 or linux/arm64"},
		{"unknown/unknown", "", "the index holds no image that can be run"},
		{"", "linux/arm64", "is not there for linux/arm64: choose one with --platform linux/amd64"},
		{"", "", " number 0"},
	}
	for i, tt := range tests {
		ref := pushIndex(t, s, fmt.Sprintf("multi:%d", i), platformIndex(t, strings.Split(tt.have, " ")...))
		var o Options
		if tt.ask != "" {
			o.Platform, _ = v1.ParsePlatform(tt.ask)
		}
		if !strings.Contains(tt.want, " number ") {
			wantError(t, ref, o, fmt.Sprintf("HOST/multi:%d: %s", i, tt.want))
			continue
		}
		_, files := mustRead(t, ref, o)
		if got := fmt.Sprintf("0 platform = %s\n", strings.TrimSpace(tt.want)); files != got {
			t.Errorf("%s for %q: %s", tt.have, tt.ask, files)
		}
	}
	one := push(t, s, "one:1", "platform linux/arm64\n-- 0/f --\nf\n")
	wantError(t, one, Options{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
		"HOST/one:1: is not there for linux/amd64: choose one with --platform linux/arm64")
	mustRead(t, one, Options{})
}

func TestNestedIndex(t *testing.T) {
	s := newRegistry(t)
	inner := platformIndex(t, "linux/arm64", "linux/amd64")
	outer := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: inner})
	_, files := mustRead(t, pushIndex(t, s, "nested:1", outer), Options{})
	if got, want := files, "0 platform = linux/amd64 number 1\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

// handled serves a registry with the image app:1, except for the requests that h answers.
func handled(t *testing.T, tls bool, h func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	reg := registry.New(registry.Logger(quiet))
	serve := func(w http.ResponseWriter, r *http.Request) {
		if !h(w, r) {
			reg.ServeHTTP(w, r)
		}
	}
	noDockerConfig(t)
	start := httptest.NewUnstartedServer(http.HandlerFunc(serve))
	start.Config.ErrorLog = quiet
	if tls {
		start.StartTLS()
	} else {
		start.Start()
	}
	t.Cleanup(start.Close)
	host := start.Listener.Addr().String()
	pushing := httptest.NewServer(reg)
	defer pushing.Close()
	ref, err := name.ParseReference(pushing.Listener.Addr().String() + "/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, imagetest.V1(t, appImage)); err != nil {
		t.Fatal(err)
	}
	return host + "/app:1"
}

func never(http.ResponseWriter, *http.Request) bool { return false }

func status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return false
		}
		w.WriteHeader(code)
		return true
	}
}

func TestRegistryErrors(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	s := newRegistry(t)
	push(t, s, "app:1", appImage)
	dir := t.TempDir()
	file, dockerfile := filepath.Join(dir, "image.tar"), filepath.Join(dir, "Dockerfile.gpu")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.WriteFile(dockerfile, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ ref, want string }{
		{s.Host + "/app:2", "HOST/app:2: HOST has no such image: check the repository and tag (app, 2)"},
		{s.Host + "/other:1", "HOST/other:1: HOST has no such image: check the repository and tag (other, 1)"},
		{closed.Addr().String() + "/app:1", "HOST/app:1: cannot reach HOST: connect: connection refused: check the name, the port and the network"},
		{"nowhere.invalid/app:1", `nowhere.invalid/app:1: cannot reach nowhere.invalid: no such host "nowhere.invalid": check the name and the network`},
		{"UPPER/case", "UPPER/case: is not an image reference (repository can only contain the characters `abcdefghijklmnopqrstuvwxyz0123456789_-./`: UPPER/case): write it like ubuntu:24.04 or ghcr.io/org/app@sha256:…, or begin with docker:, docker-archive:, oci:, oci-archive: or dir: for another source"},
		{"http://HOST/app:1", "http://HOST/app:1: is a URL, not an image reference: say HOST/app:1, with --insecure for plain HTTP"},
		{dir, "TMP: is a directory, not an image reference: say dir:TMP for a root file system, oci:TMP for an OCI layout"},
		{file, "TMP/image.tar: is a file, not an image reference: say docker-archive:TMP/image.tar or oci-archive:TMP/image.tar"},
		{dockerfile, "TMP/Dockerfile.gpu: is a Dockerfile, not an image reference: imgcheck lint TMP/Dockerfile.gpu checks it"},
		{"", `"" names nothing: say an image reference such as ubuntu:24.04`},
		{"docker:", `"docker:" names nothing: say docker:… for an image of the local Docker or Podman daemon`},
		{"oci:", `"oci:" names nothing: say oci:… for a directory with an OCI layout, DIR[:TAG]`},
		{handled(t, false, status(401)), "HOST/app:1: HOST refused the login or the image does not exist: check the name, and run `docker login HOST`"},
		{handled(t, false, status(403)), "HOST/app:1: HOST refused the login or the image does not exist: check the name, and run `docker login HOST`"},
		{handled(t, false, status(429)), "HOST/app:1: HOST limits the number of requests: wait, or run `docker login HOST`"},
		{handled(t, false, status(501)), "HOST/app:1: HOST answered 501 Not Implemented: try again later, or ask whoever runs it"},
		{handled(t, false, func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(501); return true }), "HOST/app:1: HOST answered 501 Not Implemented: try again later, or ask whoever runs it"},
	}
	for _, tt := range tests {
		wantError(t, tt.ref, Options{}, tt.want)
	}
}

func TestLogin(t *testing.T) {
	ref := handled(t, false, func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "me" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	host, _, _ := strings.Cut(ref, "/")
	refused := "HOST/app:1: HOST refused the login or the image does not exist: check the name, and run `docker login HOST`"
	wantError(t, ref, Options{}, refused)
	config := func(body string) {
		if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config(`{"auths": {"` + host + `": {"auth": "bWU6c2VjcmV0"}}}`) // me:secret
	wantApp(t, ref, Options{})
	config(`{"auths": {"` + host + `": {"username": "me", "password": "wrong"}}}`)
	wantError(t, ref, Options{}, refused)

	bin := t.TempDir()
	helper := "#!/bin/sh\necho '{\"ServerURL\": \"x\", \"Username\": \"me\", \"Secret\": \"secret\"}'\n"
	if err := os.WriteFile(filepath.Join(bin, "docker-credential-test"), []byte(helper), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	config(`{"credHelpers": {"` + host + `": "test"}}`)
	wantApp(t, ref, Options{})
	config(`{"credsStore": "absent"}`)
	wantError(t, ref, Options{}, "HOST/app:1: the credential helper failed (error getting credentials - err: exec: \"docker-credential-absent\": executable file not found in $PATH, out: ``): repair it, or take it out of Docker's config.json")
	config(`{`)
	wantError(t, ref, Options{}, "HOST/app:1: parsing config file (TMP/config.json): unexpected EOF: repair it, or run `docker login`")
}

func TestTLS(t *testing.T) {
	// A host that is not local is asked for TLS; localhost may speak HTTP.
	ref := handled(t, true, never)
	wantError(t, ref, Options{}, "HOST/app:1: HOST: its TLS certificate is not trusted (x509: certificate signed by unknown authority): install its CA, or add --insecure")
	wantApp(t, ref, Options{Insecure: true})
	plain := handled(t, false, never)
	wantApp(t, plain, Options{})
	wantApp(t, plain, Options{Insecure: true})
}

// Every kind of damage to a blob on its way is an error that names the layer.
func TestDamagedBlobs(t *testing.T) {
	layer := func(change func([]byte) []byte) func(http.ResponseWriter, *http.Request) bool {
		done := 0
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != "GET" || !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			img := imagetest.V1(t, appImage)
			layers, err := img.Layers()
			if err != nil {
				t.Error(err)
			}
			d, _ := layers[1].Digest()
			if !strings.HasSuffix(r.URL.Path, d.Hex) {
				return false
			}
			rc, err := layers[1].Compressed()
			if err != nil {
				t.Error(err)
			}
			b, err := io.ReadAll(rc)
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			w.Write(change(b))
			done++
			return true
		}
	}
	const damaged = "reading HOST/app:1: layer 2 (RUN build): its bytes have the digest sha256:HEX, not sha256:HEX: the image is damaged, or a proxy has changed it"
	tests := []struct {
		name   string
		change func([]byte) []byte
		want   string
	}{
		{"flipped", func(b []byte) []byte { b[len(b)/2] ^= 0xff; return b }, damaged},
		{"flipped at the end", func(b []byte) []byte { b[len(b)-1] ^= 0xff; return b }, damaged},
		{"cut short", func(b []byte) []byte { return b[:len(b)/2] }, "reading HOST/app:1: layer 2 (RUN build): the connection to HOST broke off: try again"},
		{"another file", func(b []byte) []byte { return bytes.Repeat([]byte{0}, len(b)) }, damaged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, handled(t, false, layer(tt.change)), Options{}, tt.want)
		})
	}
}

// The registry that most people run.
func TestDistribution(t *testing.T) {
	host, end, err := imagetest.Distribution(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	noDockerConfig(t)
	ref, err := name.ParseReference(host + "/a/b/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, imagetest.V1(t, appImage), remote.WithAuth(authn.Anonymous)); err != nil {
		t.Fatal(err)
	}
	wantApp(t, ref.Name(), Options{})
	wantError(t, host+"/a/b/app:2", Options{}, "HOST/a/b/app:2: HOST has no such image: check the repository and tag (a/b/app, 2)")
}

// A scheme with a typing error reads like an image on Docker Hub: the error suggests the scheme.
func TestAlmostAScheme(t *testing.T) {
	gone := errors.New("gone")
	for ref, want := range map[string]string{
		"dokcer:app":             "gone; if it is no image of that name, did you mean docker:app?",
		"docker-archiv:app.tar":  "gone; if it is no image of that name, did you mean docker-archive:app.tar?",
		"ubuntu:24.04":           "gone",
		"ghcr.io/org/docker:app": "gone",
	} {
		if got := suggest(ref, gone).Error(); got != want {
			t.Errorf("%s: %s, want %s", ref, got, want)
		}
	}
}
