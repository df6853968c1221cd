package patch

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// server is a registry behind a handler that counts and may interfere.
type server struct {
	host     string
	registry http.Handler

	mu        sync.Mutex
	requests  []string // "METHOD /path"
	in, out   int64    // bytes of bodies and headers, roughly, as the client sends and gets them
	interfere func(n int, w http.ResponseWriter, r *http.Request) bool
}

func newServer(t *testing.T, opts ...registry.Option) *server {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	return serve(t, registry.New(append(opts, registry.Logger(quiet))...))
}

func serve(t *testing.T, reg http.Handler) *server {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("SOURCE_DATE_EPOCH", "")
	s := &server{registry: reg}
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		n, interfere := len(s.requests), s.interfere
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		r.Body = &countingBody{r.Body, s}
		if interfere != nil && interfere(n, w, r) {
			return
		}
		reg.ServeHTTP(&countingWriter{w, s}, r)
	}))
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.Start()
	t.Cleanup(h.Close)
	s.host = h.Listener.Addr().String()
	return s
}

type countingBody struct {
	io.ReadCloser
	s *server
}

func (c *countingBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.s.mu.Lock()
	c.s.in += int64(n)
	c.s.mu.Unlock()
	return n, err
}

type countingWriter struct {
	http.ResponseWriter
	s *server
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.s.mu.Lock()
	c.s.out += int64(n)
	c.s.mu.Unlock()
	return n, err
}

// reset forgets what was counted, and interferes from now on.
func (s *server) reset(interfere func(n int, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.in, s.out, s.interfere = nil, 0, 0, interfere
}

func (s *server) ref(t *testing.T, repoTag string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(s.host + "/" + repoTag)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func (s *server) push(t *testing.T, repoTag string, img remote.Taggable) string {
	t.Helper()
	if err := remote.Push(s.ref(t, repoTag), img); err != nil {
		t.Fatal(err)
	}
	return s.ref(t, repoTag).Name()
}

// digest returns the digest of a tag, or "" if there is none.
func (s *server) digest(t *testing.T, repoTag string) string {
	t.Helper()
	d, err := remote.Get(s.ref(t, repoTag))
	if err != nil {
		return ""
	}
	return d.Digest.String()
}

// whole fails when a tag does not resolve to all that it names.
func (s *server) whole(t *testing.T, repoTag string) {
	t.Helper()
	if err := whole(s.ref(t, repoTag)); err != nil {
		t.Errorf("%s: %v", repoTag, err)
	}
}

func whole(ref name.Reference) error {
	d, err := remote.Get(ref)
	if err != nil {
		return err
	}
	repo := ref.Context()
	if d.MediaType.IsIndex() {
		m, err := v1.ParseIndexManifest(bytes.NewReader(d.Manifest))
		if err != nil {
			return err
		}
		for _, e := range m.Manifests {
			if err := whole(repo.Digest(e.Digest.String())); err != nil {
				return fmt.Errorf("%s: %w", e.Digest, err)
			}
		}
		return nil
	}
	m, err := v1.ParseManifest(bytes.NewReader(d.Manifest))
	if err != nil {
		return err
	}
	for _, e := range append(m.Layers, m.Config) {
		l, err := remote.Layer(repo.Digest(e.Digest.String()))
		if err != nil {
			return err
		}
		rc, err := l.Compressed() // it is verified as it is read
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, rc)
		rc.Close()
		if err != nil || n != e.Size {
			return fmt.Errorf("%s: %d bytes, want %d: %w", e.Digest, n, e.Size, err)
		}
	}
	return nil
}

// validated validates an image as `crane validate` does.
func (s *server) validated(t *testing.T, repoTag string) {
	t.Helper()
	img, err := remote.Image(s.ref(t, repoTag))
	if err == nil {
		err = validate.Image(img)
	}
	if err != nil {
		t.Errorf("%s: %v", repoTag, err)
	}
}

const app = `
env PATH=/usr/bin
env LD_LIBRARY_PATH=/opt/old
layer 0 COPY base /
layer 1 RUN build
-- 0/usr --
dir mode=0755
-- 0/usr/lib --
dir mode=0750 uid=7 gid=8
-- 0/usr/lib/libcudnn.so.8 --
cudnn
-- 0/lib --
symlink usr/lib
-- 1/opt/old/libstub.so --
stub
`

func content(s string) func() (io.ReadCloser, error) { return opened([]byte(s)) }

// change returns a change with one file of every kind: it goes through the link /lib.
func change() Change {
	return Change{
		Files: []File{
			{Path: "/lib/libcudnn.so", Link: "libcudnn.so.8"},
			{Path: "/opt/old/libstub.so", Remove: true},
			{Path: "/opt/imgcheck/lib/libx.so.1", Mode: 0o755, Size: 3, Open: content("new")},
		},
		Env:       []EnvEdit{{Name: "LD_LIBRARY_PATH", Value: "/opt/imgcheck/lib"}, {Name: "NVIDIA_DRIVER_CAPABILITIES", Value: "compute,utility"}},
		CreatedBy: "imgcheck patch", Comment: "test",
	}
}

// patchAll applies a change to each image of a base.
func patchAll(t *testing.T, b *Base, c Change) []*Patched {
	t.Helper()
	var list []*Patched
	for _, img := range b.Images {
		list = append(list, patchOne(t, img, c))
	}
	return list
}

func patchOne(t *testing.T, img *Image, c Change) *Patched {
	t.Helper()
	f := indexed(t, img)
	p, err := Apply(t.Context(), img, f, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func indexed(t *testing.T, img *Image) *layers.FS {
	t.Helper()
	opened, err := img.Open(t.Context(), layers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	f, err := opened.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func open(t *testing.T, ref string, o Options) *Base {
	t.Helper()
	b, err := OpenBase(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// do patches a reference and publishes it.
func do(t *testing.T, ref, to string, o Options) string {
	t.Helper()
	b := open(t, ref, o)
	got, err := Publish(t.Context(), b, patchAll(t, b, change()), to, o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// listing returns the contents of an image as text.
func listing(t *testing.T, ref string, o layers.Options) string {
	t.Helper()
	o.Keep = func(_ string, size int64) bool { return size < 100 }
	img, err := layers.Open(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	f, err := img.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for e := range f.All() {
		fmt.Fprintf(&b, "%s %v %d:%d %s%s\n", e.Path, e.Mode, e.UID, e.GID, e.Content, e.Link)
	}
	fmt.Fprintf(&b, "%s\n", strings.Join(img.Config.Config.Env, " "))
	return b.String()
}

const patchedListing = `lib -rwxrwxrwx 0:0 usr/lib
opt -rwxr-xr-x 0:0 
opt/imgcheck -rwxr-xr-x 0:0 
opt/imgcheck/lib -rwxr-xr-x 0:0 
opt/imgcheck/lib/libx.so.1 -rwxr-xr-x 0:0 new
opt/old -rwxr-xr-x 0:0 
usr -rwxr-xr-x 0:0 
usr/lib -rwxr-x--- 7:8 
usr/lib/libcudnn.so -rwxrwxrwx 0:0 libcudnn.so.8
usr/lib/libcudnn.so.8 -rw-r--r-- 0:0 cudnn

PATH=/usr/bin LD_LIBRARY_PATH=/opt/imgcheck/lib NVIDIA_DRIVER_CAPABILITIES=compute,utility
`

func wantPatched(t *testing.T, ref string) {
	t.Helper()
	if diff := cmp.Diff(patchedListing, listing(t, ref, layers.Options{})); diff != "" {
		t.Errorf("%s: -want +got:\n%s", ref, diff)
	}
}

var masks = []struct{ re, to string }{
	{`127\.0\.0\.1:\d+`, "HOST"},
	{`[0-9a-f]{64}`, "HEX"},
	{`/tmp/Test[^ :"]*?/\d{3}`, "TMP"},
}

func masked(s string) string {
	for _, m := range masks {
		s = regexp.MustCompile(m.re).ReplaceAllString(s, m.to)
	}
	return s
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s", want)
	} else if got := masked(err.Error()); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// docker makes a Docker schema 2 image of an OCI one.
func docker(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	list, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var add []mutate.Addendum
	for _, l := range list {
		add = append(add, mutate.Addendum{Layer: l, MediaType: types.DockerLayer})
	}
	out, err := mutate.Append(empty.Image, add...)
	if err == nil {
		out, err = mutate.ConfigFile(out, cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// quick leaves out the pauses between tries.
func quick() Options {
	return Options{
		backoff: &remote.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 2},
		sleep:   func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}

func TestPublish(t *testing.T) {
	for _, compress := range []string{"gzip", "zstd", "none", "docker"} {
		t.Run(compress, func(t *testing.T) {
			s := newServer(t)
			img := imagetest.V1(t, strings.Replace("compress "+compress+app, "compress docker", "compress gzip", 1))
			if compress == "docker" {
				img = docker(t, img)
			}
			ref := s.push(t, "app:1", img)
			first := s.digest(t, "app:1")
			var notes []string
			o := Options{Note: func(line string) { notes = append(notes, line) }}

			fixed := do(t, ref, s.host+"/app:fixed", o)
			if want := s.host + "/app@" + s.digest(t, "app:fixed"); fixed != want {
				t.Errorf("got %s, want %s", fixed, want)
			}
			s.whole(t, "app:fixed")
			if compress == "gzip" || compress == "docker" { // it knows no other
				s.validated(t, "app:fixed")
			}
			wantPatched(t, s.host+"/app:fixed")
			d, err := remote.Get(s.ref(t, "app:fixed"))
			if err != nil {
				t.Fatal(err)
			}
			wantType := map[string]types.MediaType{"docker": types.DockerManifestSchema2}[compress]
			if wantType == "" {
				wantType = types.OCIManifestSchema1
			}
			if d.MediaType != wantType {
				t.Errorf("type %s, want %s", d.MediaType, wantType)
			}

			// The same again gives the same, and needs no push.
			s.reset(nil)
			if again := do(t, ref, s.host+"/app:fixed", o); again != fixed {
				t.Errorf("again: %s, want %s", again, fixed)
			}
			for _, r := range s.requests {
				if !strings.HasPrefix(r, "GET ") && !strings.HasPrefix(r, "HEAD ") {
					t.Errorf("again: %s", r)
				}
			}
			// A patched image is patched from its origin, also under another name.
			if again := do(t, s.host+"/app:fixed", s.host+"/app:fixed", o); again != fixed {
				t.Errorf("patched again: %s, want %s", again, fixed)
			}
			b := open(t, s.host+"/app:fixed", o)
			if img := b.Images[0]; img.Digest != first || !strings.HasSuffix(fixed, img.Patched) {
				t.Errorf("origin %s, want %s; patched %s", img.Digest, first, img.Patched)
			}
			// In its own place.
			do(t, ref, ref, o)
			wantPatched(t, ref)
			back, err := Undo(t.Context(), ref, o)
			if err != nil || back != s.host+"/app@"+first || s.digest(t, "app:1") != first {
				t.Errorf("undo: %s, %v; the tag has %s, want %s", back, err, s.digest(t, "app:1"), first)
			}
			_, err = Undo(t.Context(), ref, o)
			wantError(t, err, "HOST/app:1: is no patched image: there is nothing to undo")
			if want := []string{"sha256:HEX is there already", "sha256:HEX is there already"}; !cmp.Equal(mapped(notes, masked), want) {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

func mapped(list []string, f func(string) string) []string {
	out := []string{}
	for _, s := range list {
		out = append(out, f(s))
	}
	return out
}

// Two machines that share nothing get the same digests; SOURCE_DATE_EPOCH is a
// part of the input.
func TestReproducible(t *testing.T) {
	digest := func(epoch string) string {
		s := newServer(t)
		t.Setenv("SOURCE_DATE_EPOCH", epoch)
		t.Setenv("TMPDIR", t.TempDir())
		ref := s.push(t, "app:1", imagetest.V1(t, app))
		b := open(t, ref, Options{})
		b.Images[0].name = "" // the port
		b.Images[0].Store = source.NewRepository(name.MustParseReference("example.com/app:1").Context(), source.Options{})
		img := b.Images[0]
		c := change()
		f, err := mustOpenV1(t, imagetest.V1(t, app)).Index(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(c.Files)
		p, err := Apply(t.Context(), img, f, c)
		if err != nil {
			t.Fatal(err)
		}
		return p.Digest
	}
	a, b, c := digest(""), digest(""), digest("1700000000")
	if a != b || a == c || c != digest("1700000000") {
		t.Errorf("%s, %s, %s", a, b, c)
	}
	// Written down, so that another machine's and a later one's is compared, too.
	if want := "sha256:45b26eaf2f8b8db3fd36fa8205418582209318ab84bfa70d9bd45695ae156a9c"; a != want {
		t.Errorf("got %s, want %s", a, want)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	_, err := Created(&Image{})
	wantError(t, err, `SOURCE_DATE_EPOCH is "yesterday": it must be a number of seconds since 1970`)
}

func mustOpenV1(t *testing.T, v v1.Image) *layers.Image {
	t.Helper()
	raw, err := v.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := source.ReadImage(t.Context(), v1Store{v}, &source.Document{Raw: raw})
	if err != nil {
		t.Fatal(err)
	}
	return layers.From(img, layers.Options{})
}

// v1Store is a store of one image.
type v1Store struct{ v1.Image }

func (s v1Store) Manifest(context.Context, v1.Hash) (*source.Document, error) {
	return nil, errors.New("it has one image")
}

func (s v1Store) Blob(_ context.Context, d v1.Descriptor, _ func(string)) (io.ReadCloser, error) {
	if l, err := s.LayerByDigest(d.Digest); err == nil {
		return l.Compressed()
	}
	config, err := s.RawConfigFile()
	return io.NopCloser(bytes.NewReader(config)), err
}

func (s v1Store) Name() string { return "" }

// A patch moves its own bytes and no layer of the base.
func TestBytesOverTheWire(t *testing.T) {
	s := newServer(t)
	big, err := random.Image(8<<20, 4)
	if err != nil {
		t.Fatal(err)
	}
	text, err := imagetest.V1(t, app).Layers()
	if err != nil {
		t.Fatal(err)
	}
	if big, err = mutate.AppendLayers(big, text...); err != nil {
		t.Fatal(err)
	}
	ref := s.push(t, "big:1", big)
	b := open(t, ref, Options{})
	p := patchAll(t, b, change())
	newLayer, err := p[0].Layer.Size()
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"big:fixed", "other/repo:fixed"} {
		s.reset(nil)
		b, err := OpenBase(t.Context(), ref, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Publish(t.Context(), b, p, s.host+"/"+to, Options{}); err != nil {
			t.Fatal(err)
		}
		if s.in > newLayer+64<<10 || s.out > 64<<10 {
			t.Errorf("%s: %d bytes up, %d down, the layer has %d", to, s.in, s.out, newLayer)
		}
		for _, d := range b.Images[0].manifest.Layers {
			if slices.Contains(s.requests, "GET /v2/big/blobs/"+d.Digest.String()) {
				t.Errorf("%s: layer %s was fetched", to, d.Digest)
			}
		}
		s.whole(t, to)
	}
}

// Every request of a push fails once, or from it on: the tag means what it meant,
// or the new image, and is whole.
func TestInterrupted(t *testing.T) {
	for _, to := range []string{"app:1", "app:new", "other:1"} {
		t.Run(to, func(t *testing.T) { interrupted(t, newServer(t), to, false, faults...) })
	}
	t.Run("index", func(t *testing.T) { interrupted(t, newServer(t), "other:1", true, faults[3], faults[5]) })
}

type fault struct {
	name string
	on   bool // not this request only, but all from it on
	late bool // the registry does it, and its answer is lost
	fail func(w http.ResponseWriter, r *http.Request, registry http.Handler)
}

var faults = []fault{
	{"refused once", false, false, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusForbidden) }},
	{"broken", true, false, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusInternalServerError)
	}},
	{"cut off once", false, false, cutOff},
	{"cut off", true, false, cutOff},
	{"answer lost once", false, true, loseAnswer},
	{"answer lost", true, true, loseAnswer},
}

// cutOff reads a part of a request's body and hangs up.
func cutOff(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	io.CopyN(io.Discard, r.Body, 10)
	panic(http.ErrAbortHandler)
}

func loseAnswer(_ http.ResponseWriter, r *http.Request, registry http.Handler) {
	registry.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func interrupted(t *testing.T, s *server, to string, index bool, faults ...fault) {
	var img remote.Taggable = imagetest.V1(t, app)
	if index {
		img = platforms(t)
	}
	ref := s.push(t, "app:1", img)
	before := s.digest(t, "app:1")
	b := open(t, ref, quick())
	f := indexed(t, b.Images[0])
	tries := 0
	for _, fault := range faults {
		for n := 0; ; n++ {
			if n > 200 {
				t.Fatal("it never succeeds")
			}
			// Each try has a layer and a repository of its own: what an
			// earlier one has sent is not there.
			tries++
			c, target, before := change(), to, before
			own := fmt.Sprint("try ", tries)
			c.Files = append(c.Files, File{Path: "try", Size: int64(len(own)), Open: content(own)})
			if to == "app:1" {
				s.push(t, to, img)
			} else {
				target, before = strings.Replace(to, ":", fmt.Sprintf("%d:", tries), 1), ""
			}
			if to == "app:new" {
				target = fmt.Sprintf("app:new%d", tries)
			}
			var patched []*Patched
			for _, img := range b.Images {
				p, err := Apply(t.Context(), img, f, c)
				if err != nil {
					t.Fatal(err)
				}
				patched = append(patched, p)
			}
			result, _, err := b.result(patched, Options{})
			if err != nil {
				t.Fatal(err)
			}
			named := digestOf(result).String()
			var hit atomic.Bool
			s.reset(func(i int, w http.ResponseWriter, r *http.Request) bool {
				if i != n && (!fault.on || i < n) {
					return false
				}
				hit.Store(true)
				fault.fail(w, r, s.registry)
				return true
			})
			_, err = Publish(t.Context(), b, patched, s.host+"/"+target, quick())
			missed := !hit.Load()
			s.reset(nil)
			now := s.digest(t, target)
			lost := fault.late && now == named // it moved, and the answer was lost
			if err != nil && now != before && !lost {
				t.Fatalf("%s at request %d: the tag has moved from %q to %q: %v", fault.name, n, before, now, err)
			}
			if err == nil && now == before {
				t.Fatalf("%s at request %d: no error, and the tag has not moved", fault.name, n)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
			if now != "" {
				s.whole(t, target)
			}
			if missed {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
}

func platforms(t *testing.T) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		img := imagetest.V1(t, "platform linux/"+arch+app)
		d, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: attestation(t, d), Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: "unknown", Architecture: "unknown"},
			Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": d.String()},
		}})
	}
	return index
}

// attestation returns a manifest as BuildKit adds it.
func attestation(t *testing.T, of v1.Hash) v1.Image {
	t.Helper()
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	img, err := mutate.AppendLayers(img, staticLayer(`{"subject": "`+of.String()+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestIndex(t *testing.T) {
	s := newServer(t)
	ref := s.push(t, "multi:1", platforms(t))
	origin := s.digest(t, "multi:1")
	entries := func(repoTag string) (list []v1.Descriptor) {
		d, err := remote.Get(s.ref(t, repoTag))
		if err != nil {
			t.Fatal(err)
		}
		m, err := v1.ParseIndexManifest(bytes.NewReader(d.Manifest))
		if err != nil {
			t.Fatal(err)
		}
		return m.Manifests
	}
	old := entries("multi:1")
	var notes []string
	arm := Options{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}, Note: func(s string) { notes = append(notes, masked(s)) }}
	do(t, ref, s.host+"/multi:arm", arm)
	s.whole(t, "multi:arm")
	got := entries("multi:arm")
	// The first platform and its attestation are as they were, the second one's attestation is gone.
	if len(got) != 3 || !cmp.Equal(got[:2], old[:2]) || got[2].Digest == old[2].Digest || !got[2].Platform.Equals(*old[2].Platform) {
		t.Errorf("entries %+v", got)
	}
	if want := []string{"the attestation sha256:HEX is left out: it attests linux/arm64 as it was before"}; !cmp.Equal(notes, want) {
		t.Errorf("notes %q", notes)
	}
	if got := listing(t, s.host+"/multi:arm", layers.Options{Platform: arm.Platform}); got != patchedListing {
		t.Errorf("arm64: %s", got)
	}
	if got := listing(t, s.host+"/multi:arm", layers.Options{}); got == patchedListing {
		t.Error("amd64 is patched, too")
	}
	// A patch of all platforms of the half-patched index starts from the origin of each
	// image, and the index's origin is the first index.
	do(t, s.host+"/multi:arm", s.host+"/multi:all", Options{})
	all := entries("multi:all")
	if len(all) != 2 || all[1].Digest != got[2].Digest {
		t.Errorf("entries %+v", all)
	}
	s.whole(t, "multi:all")
	for _, arch := range []string{"amd64", "arm64"} {
		p := &v1.Platform{OS: "linux", Architecture: arch}
		if got := listing(t, s.host+"/multi:all", layers.Options{Platform: p}); got != patchedListing {
			t.Errorf("%s: %s", arch, got)
		}
	}
	// Into another repository, everything is mounted.
	s.reset(nil)
	do(t, ref, s.host+"/elsewhere:1", arm)
	s.whole(t, "elsewhere:1")
	if got := entries("elsewhere:1"); len(got) != 3 {
		t.Errorf("entries %+v", got)
	}
	for _, r := range []string{"multi:arm", "multi:all"} {
		if _, err := Undo(t.Context(), s.host+"/"+r, Options{}); err != nil || s.digest(t, r) != origin {
			t.Errorf("undo %s: %v, %s, want %s", r, err, s.digest(t, r), origin)
		}
	}
	// From another repository than the origin's.
	if _, err := Undo(t.Context(), s.host+"/elsewhere:1", Options{}); err != nil || s.digest(t, "elsewhere:1") != origin {
		t.Errorf("undo elsewhere: %v", err)
	}
	s.whole(t, "elsewhere:1")
	_, err := OpenBase(t.Context(), ref, Options{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}})
	wantError(t, err, "HOST/multi:1: is not there for linux/s390x: choose one with --platform linux/amd64 or linux/arm64")
	_, err = Undo(t.Context(), ref, Options{})
	wantError(t, err, "HOST/multi:1: is no patched image: there is nothing to undo")
}

// A registry that does not mount is an error: copying needs leave.
func TestMountRefused(t *testing.T) {
	refuse := map[string]func(n int, w http.ResponseWriter, r *http.Request) bool{
		"ignored": func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("mount") != "" {
				r.URL.RawQuery = ""
			}
			return false
		},
		"forbidden": func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("mount") == "" {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		},
	}
	for how, f := range refuse {
		t.Run(how, func(t *testing.T) {
			s := newServer(t)
			ref := s.push(t, "app:1", imagetest.V1(t, app))
			b := open(t, ref, quick())
			p := patchAll(t, b, change())
			// The registry in this process gives any repository any blob: it must
			// forget where they are, but for those that are pushed.
			var mu sync.Mutex
			pushed := map[string]bool{}
			s.reset(func(n int, w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				if r.Method == http.MethodPut {
					pushed[r.URL.Query().Get("digest")] = true
				}
				if r.Method == http.MethodHead && strings.HasPrefix(r.URL.Path, "/v2/other/blobs/") && !pushed[strings.TrimPrefix(r.URL.Path, "/v2/other/blobs/")] {
					w.WriteHeader(http.StatusNotFound)
					return true
				}
				return f(n, w, r)
			})
			_, err := Publish(t.Context(), b, p, s.host+"/other:1", quick())
			var ce *CopyError
			if !errors.As(err, &ce) || ce.Digest == "" {
				t.Errorf("error %v", err)
			} else {
				got := regexp.MustCompile(`\d+ B`).ReplaceAllString(masked(err.Error()), "N B")
				if want := "HOST/other:1: layer sha256:HEX of the base (N B) would have to be copied, for HOST does not mount it from app into other: add --allow-copy if that is meant"; got != want {
					t.Errorf("\n got %s\nwant %s", got, want)
				}
			}
			if s.in > 0 && slices.Contains(s.requests, "PATCH") {
				t.Errorf("%d bytes were sent", s.in)
			}
			o := quick()
			o.AllowCopy = true
			if _, err := Publish(t.Context(), b, p, s.host+"/other:1", o); err != nil {
				t.Fatal(err)
			}
			s.reset(nil)
			s.whole(t, "other:1")
		})
	}
}

func TestOtherRegistry(t *testing.T) {
	a, b := newServer(t), newServer(t)
	ref := a.push(t, "app:1", imagetest.V1(t, app))
	base := open(t, ref, quick())
	p := patchAll(t, base, change())
	_, err := Publish(t.Context(), base, p, b.host+"/app:1", quick())
	var ce *CopyError
	if !errors.As(err, &ce) || b.in > 0 || b.digest(t, "app:1") != "" {
		t.Errorf("error %v, %d bytes sent", err, b.in)
	}
	o := quick()
	o.AllowCopy = true
	if _, err := Publish(t.Context(), base, p, b.host+"/app:1", o); err != nil {
		t.Fatal(err)
	}
	b.whole(t, "app:1")
	wantPatched(t, b.host+"/app:1")
	// The maker of an image may name any host as its origin: it gets no request.
	_, err = OpenBase(t.Context(), b.host+"/app:1", quick())
	wantError(t, err, "HOST/app:1: is a patched image whose origin HOST/app@sha256:HEX is in another registry: patch that one")
}

// The tag moved between the scan and the push: somebody else's push is not
// undone.
func TestMoved(t *testing.T) {
	s := newServer(t)
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	s.push(t, "app:1", imagetest.V1(t, "-- 0/f --\nnew\n"))
	_, err := Publish(t.Context(), b, p, ref, quick())
	wantError(t, err, "HOST/app:1: it has moved from sha256:HEX to sha256:HEX meanwhile: run again")
}

// An image that was built from a patched one, or edited since, is not taken for it.
func TestBuiltFromPatched(t *testing.T) {
	for _, kind := range []string{"oci", "docker"} {
		s := newServer(t)
		img := imagetest.V1(t, app)
		if kind == "docker" {
			img = docker(t, img)
		}
		ref := s.push(t, "app:1", img)
		do(t, ref, s.host+"/app:fixed", Options{})
		fixed, err := remote.Image(s.ref(t, "app:fixed"))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := fixed.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		cfg = cfg.DeepCopy()
		cfg.Config.Cmd = []string{"mine"}
		edited, err := mutate.ConfigFile(fixed, cfg)
		if err != nil {
			t.Fatal(err)
		}
		derived := s.push(t, "app:mine", edited)
		var notes []string
		o := Options{Note: func(s string) { notes = append(notes, masked(s)) }}
		b := open(t, derived, o)
		if got := b.Images[0]; got.Patched != "" || len(got.Config.Config.Cmd) != 1 {
			t.Errorf("%s: the origin %s was taken", kind, got.Digest)
		}
		if want := []string{"HOST/app:mine was made from a patched image and has changed since: it is patched as it is"}; !cmp.Equal(notes, want) {
			t.Errorf("notes %q", notes)
		}
		_, err = Undo(t.Context(), derived, Options{})
		wantError(t, err, "HOST/app:mine: was made from a patched image and has changed since; the patch began with HOST/app@sha256:HEX")
		// A patch of it is a patch like any other.
		c := Change{Env: []EnvEdit{{Name: "A", Value: "b"}}}
		second, err := Publish(t.Context(), b, patchAll(t, b, c), s.host+"/app:second", o)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Undo(t.Context(), s.host+"/app:second", o)
		if err != nil || back == second || s.digest(t, "app:second") != s.digest(t, "app:mine") {
			t.Errorf("%s: undo: %s, %v", kind, back, err)
		}
	}
}

// Unknown fields stay, byte for byte.
func TestUnknownFields(t *testing.T) {
	s := newServer(t)
	img := imagetest.V1(t, app)
	rawConfig, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(string(rawConfig), `"config":{`, "\"x-number\": 1.500e+3,\n\t\"config\" :\t{ \"Healthcheck\":{\"Test\":[\"\\u0043MD\"] , \"New\":1e400},", 1)
	if config == string(rawConfig) {
		t.Fatalf("config %s", rawConfig)
	}
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	m.Config = v1.Descriptor{MediaType: m.Config.MediaType, Digest: digestOf([]byte(config)), Size: int64(len(config))}
	rawManifest, err := json.MarshalIndent(m, "", "   ")
	if err != nil {
		t.Fatal(err)
	}
	manifest := strings.Replace(string(rawManifest), `"layers": [`, "\"x-new\": {\"b\":2, \"a\":1},\n\"layers\": [", 1)
	manifest = strings.Replace(manifest, `"size": `+fmt.Sprint(len(config)), `"size": `+fmt.Sprint(len(config))+`, "data": "`+base64.StdEncoding.EncodeToString([]byte(config))+`", "x-of-config": [ ]`, 1)
	s.push(t, "app:1", img)
	if err := remote.WriteLayer(s.ref(t, "app:1").Context(), staticLayer(config)); err != nil {
		t.Fatal(err)
	}
	ref := s.push(t, "app:1", taggable{[]byte(manifest), types.OCIManifestSchema1})
	b := open(t, ref, Options{})
	p := patchOne(t, b.Images[0], change())
	got := string(p.Config)
	for _, want := range []string{"\"x-number\": 1.500e+3,\n\t\"config\" :\t{ \"Healthcheck\":{\"Test\":[\"\\u0043MD\"] , \"New\":1e400}"} {
		if !strings.Contains(got, want) {
			t.Errorf("the config lost %s: %s", want, got)
		}
	}
	got = string(p.Manifest)
	for _, want := range []string{"\"x-new\": {\"b\":2, \"a\":1},\n", `, "x-of-config": [ ]`} {
		if !strings.Contains(got, want) {
			t.Errorf("the manifest lost %s: %s", want, got)
		}
	}
	if strings.Contains(got, `"data"`) {
		t.Errorf("the old config's bytes are still in it: %s", got)
	}
	if _, err := Publish(t.Context(), b, []*Patched{p}, s.host+"/app:fixed", Options{}); err != nil {
		t.Fatal(err)
	}
	s.whole(t, "app:fixed")
}

func TestHostile(t *testing.T) {
	s := newServer(t)
	img := imagetest.V1(t, app)
	s.push(t, "app:1", img)
	raw, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	manifest := func(mt string, body string) string {
		s.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.Header().Set("Content-Type", mt)
			w.Write([]byte(body))
			return true
		})
		_, err := OpenBase(t.Context(), s.host+"/app:1", quick())
		if err == nil {
			return "opened"
		}
		return masked(err.Error())
	}
	oci := string(types.OCIManifestSchema1)
	tests := []struct{ mt, body, want string }{
		{oci, string(raw), "opened"},
		{oci, string(raw) + strings.Repeat(" ", maxDocument), "HOST/app:1: its answer is larger than the 8388608 bytes that are read"},
		{oci, strings.Replace(string(raw), fmt.Sprintf(`"size":%d`, m.Config.Size), `"size":9000000000`, 1), "HOST/app:1: its config is said to have 9000000000 bytes, more than the 8388608 that are read"},
		{oci, strings.Replace(string(raw), fmt.Sprintf(`"size":%d`, m.Config.Size), `"size":7`, 1), "HOST/app:1: reading the config: the manifest says that it has 7 bytes, the registry that it has 454: the image is damaged, or a proxy has changed it"},
		{string(types.DockerManifestSchema1Signed), `{"schemaVersion": 1}`, "HOST/app:1: is in Docker's legacy schema 1 format: convert it once with `skopeo copy --format v2s2`, or push it again with a current Docker"},
		{"application/json", `{}`, `HOST/app:1: is no image: its manifest is of type "application/json"`},
		{oci, `{`, "HOST/app:1: its manifest cannot be read (it ends too early): the image is damaged, or a proxy answers in the registry's place"},
		{string(types.OCIImageIndex), `{"manifests": []}`, "HOST/app:1: the index holds no image that can be patched"},
	}
	for _, tt := range tests {
		if got := manifest(tt.mt, tt.body); got != tt.want {
			t.Errorf("\n got %s\nwant %s", got, tt.want)
		}
	}
	// A document whose keys stand there twice means different things to
	// different readers: it is not edited.
	twice := strings.Replace(string(raw), `"layers":[`, `"Layers":[],"layers":[`, 1)
	s.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		w.Header().Set("Content-Type", oci)
		w.Write([]byte(twice))
		return true
	})
	b := open(t, s.host+"/app:1", quick())
	f, err := mustOpenV1(t, img).Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Apply(t.Context(), b.Images[0], f, change())
	wantError(t, err, `editing the manifest: has "layers" twice`)
}

func TestCancelled(t *testing.T) {
	s := newServer(t)
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Publish(ctx, b, p, s.host+"/app:new", quick()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := s.digest(t, "app:new"); got != "" {
		t.Errorf("the tag has %s", got)
	}
}

func TestLayerIndex(t *testing.T) {
	s := newServer(t)
	b := open(t, s.push(t, "app:1", imagetest.V1(t, app)), Options{})
	p := patchOne(t, b.Images[0], change())
	l, err := p.Index(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range l.Entries {
		got = append(got, e.Path)
	}
	want := []string{"opt", "opt/imgcheck", "opt/imgcheck/lib", "opt/imgcheck/lib/libx.so.1", "opt/old", "usr", "usr/lib", "usr/lib/libcudnn.so"}
	if !cmp.Equal(got, want) || !cmp.Equal(l.Whiteouts, []string{"opt/old/libstub.so"}) {
		t.Errorf("entries %q, whiteouts %q", got, l.Whiteouts)
	}
}

func TestWriteTarErrors(t *testing.T) {
	f, err := mustOpenV1(t, imagetest.V1(t, app+"-- 1/dangling --\nsymlink nowhere\n")).Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := func(p string) File { return File{Path: p, Size: 1, Open: content("x")} }
	tests := []struct {
		files []File
		want  string
	}{
		{[]File{file("../x")}, "/../x: is no path of a file"},
		{[]File{file("/")}, "/: is no path of a file"},
		{[]File{file("a//b")}, "/a//b: is no path of a file"},
		{[]File{file("usr/.wh.x")}, "/usr/.wh.x: a layer cannot hold names that begin with .wh."},
		{[]File{file("usr/lib")}, "/usr/lib: is a directory of the image"},
		{[]File{file("lib/a"), file("usr/lib/a")}, "/usr/lib/a: the change has it twice (as /usr/lib/a)"},
		{[]File{file("usr/lib/libcudnn.so.8/x")}, "/usr/lib/libcudnn.so.8/x: /usr/lib/libcudnn.so.8 is no directory"},
		{[]File{file("dangling/x")}, "/dangling/x: /dangling is a link that leads nowhere"},
		{[]File{file("new"), file("new/x")}, "/new/x: the change puts /new in its way"},
		{[]File{{Path: "usr", Remove: true}, file("usr/lib/x")}, "/usr/lib/x: the change puts /usr in its way"},
		{[]File{{Path: "gone", Remove: true}}, "/gone: cannot be removed: it is not there"},
		{[]File{{Path: "a"}}, "/a: has no content"},
		{[]File{{Path: "a", Size: 2, Open: content("x")}}, "writing /a into the layer: it does not have the 2 bytes that the change says"},
		{[]File{{Path: "a", Size: 2, Open: content("xxx")}}, "writing /a into the layer: it does not have the 2 bytes that the change says"},
	}
	for _, tt := range tests {
		wantError(t, WriteTar(io.Discard, f, Change{Files: tt.files}), tt.want)
	}
}

// A large layer goes by way of a file that has no name, and leaves none behind.
func TestLargeLayer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := newServer(t)
	t.Setenv("TMPDIR", dir)
	b := open(t, s.push(t, "app:1", imagetest.V1(t, app)), Options{})
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	noise, err := random.Layer(spoolInMemory+1<<20, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := noise.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	p := patchOne(t, b.Images[0], Change{Files: []File{{Path: "a", Size: int64(len(big)), Open: opened(big)}, {Path: "b", Size: int64(len(raw)), Open: opened(raw)}}})
	if p.layer.spool.file == nil {
		t.Fatal("the layer is in memory")
	}
	if _, err := Publish(t.Context(), b, []*Patched{p}, s.host+"/app:2", Options{}); err != nil {
		t.Fatal(err)
	}
	s.whole(t, "app:2")
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestEditEnv(t *testing.T) {
	tests := []struct {
		doc  string
		edit EnvEdit
		want string
	}{
		{`{}`, EnvEdit{Name: "A", Value: "1"}, `{"config":{"Env":["A=1"]}}`},
		{`{"config":{"Env":null}}`, EnvEdit{Name: "A", Value: "<&>"}, `{"config":{"Env":["A=<&>"]}}`},
		{`{"config":{"Env":["AB=0", "A=0" ,"A=2"]}}`, EnvEdit{Name: "A", Value: "1"}, `{"config":{"Env":["AB=0", "A=1"]}}`},
		{`{"config":{"Env":["A=0","B=1","A=2"]}}`, EnvEdit{Name: "A", Unset: true}, `{"config":{"Env":["B=1"]}}`},
		{`{"config":{"Env":["A"]}}`, EnvEdit{Name: "A", Value: "1"}, `{"config":{"Env":["A=1"]}}`},
		{`{"config":{"Env":[1]}}`, EnvEdit{Name: "A", Value: "1"}, "error: config.Env: holds an element that is no string"},
		{`{"config":{"Env":"x"}}`, EnvEdit{Name: "A", Value: "1"}, "error: config.Env: is no JSON array"},
		{`{}`, EnvEdit{Name: "A=B", Value: "1"}, `error: "A=B=1" cannot be a variable of the environment`},
		{`{}`, EnvEdit{Name: "", Value: "1"}, `error: "=1" cannot be a variable of the environment`},
		{`{}`, EnvEdit{Name: "A", Value: "\x00"}, `error: "A=\x00" cannot be a variable of the environment`},
	}
	for _, tt := range tests {
		out, err := editEnv([]byte(tt.doc), tt.edit)
		got := string(out)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != tt.want {
			t.Errorf("%s %+v: got %s, want %s", tt.doc, tt.edit, got, tt.want)
		}
	}
}

// staticLayer returns a blob with a text.
func staticLayer(s string) v1.Layer {
	return static.NewLayer([]byte(s), "application/vnd.in-toto+json")
}

func TestTooManyLayers(t *testing.T) {
	img := &Image{Image: &source.Image{Config: &v1.ConfigFile{RootFS: v1.RootFS{DiffIDs: make([]v1.Hash, maxLayers)}}, RawConfig: []byte(`{}`)}}
	_, err := Apply(t.Context(), img, layers.Merge(), change())
	wantError(t, err, "the image has 125 layers, and Docker runs no image with more than 125: squash some first")
	if _, err := Apply(t.Context(), img, layers.Merge(), Change{Env: []EnvEdit{{Name: "A", Value: "1"}}}); err != nil {
		t.Errorf("a variable needs no layer: %v", err)
	}
	_, err = Apply(t.Context(), img, layers.Merge(), Change{})
	wantError(t, err, "the change changes nothing")
}

// Docker Hub's images are named as people write them.
func TestNames(t *testing.T) {
	for ref, want := range map[string]string{
		"python:3.12":          "docker.io/library/python:3.12",
		"docker.io/org/app":    "docker.io/org/app:latest",
		"ghcr.io/org/app:1.0":  "ghcr.io/org/app:1.0",
		"docker://ghcr.io/a/b": "ghcr.io/a/b:latest",
	} {
		got, err := openTarget(ref, Options{})
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v, want %s", ref, got, err, want)
		}
	}
	for ref, want := range map[string]string{
		"app@sha256:" + strings.Repeat("0", 64): "is a digest: name a tag to publish to",
		"dir:x":                                 "dir: cannot be published to: say NAME:TAG for a registry, oci:DIR:TAG, docker-archive:FILE or docker:NAME",
		"oci:":                                  "names no directory: say oci:DIR:TAG",
	} {
		_, err := openTarget(ref, Options{})
		wantError(t, err, want)
	}
}
