package indexes

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/signature"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// bulk is the size in bytes of the layer of the tests' image that has nothing to index.
const bulk = 3 << 20

// testImage returns an image with findings, of five layers, one of them large.
func testImage(t *testing.T) v1.Image {
	t.Helper()
	text, err := images.Text("ort-no-cudnn.txtar")
	if err != nil {
		t.Fatal(err)
	}
	l, err := random.Layer(bulk, types.OCILayer, random.WithSource(rand.NewSource(1)))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.Append(imagetest.V1(t, string(text)), mutate.Addendum{Layer: l, History: v1.History{CreatedBy: "COPY model /model"}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// inRegistry uploads an image and returns a reference to it.
func inRegistry(t *testing.T, host, repo string, img v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(host + "/" + repo + ":1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return host + "/" + repo + ":1"
}

// server starts a registry in this process. answer may change what it answers.
func server(t *testing.T, api bool, answer func(http.Handler) http.Handler) string {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(api))
	if answer != nil {
		handler = answer(handler)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// alone keeps the logins and the key of the machine out of a test.
func alone(t *testing.T) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", t.TempDir()+"/none")
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("IMGCHECK_CACHE_KEY", "a machine's")
}

// machine is a user with a cache.
type machine struct {
	t     *testing.T
	cache *layers.Cache
	signs *signature.Signer // what it pushes, or nil
	read  int64             // bytes of layers, in the last scan
}

// newMachine returns a machine with an empty cache.
func newMachine(t *testing.T) *machine {
	t.Helper()
	c, err := layers.OpenCache(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return &machine{t: t, cache: c}
}

// scan returns the report on an image as JSON. r may be nil.
func (m *machine) scan(ref string, r *Reader) string {
	m.t.Helper()
	var read atomic.Int64
	o := scan.Options{Layers: layers.Options{Cache: m.cache, Progress: func(_, n int) { read.Add(int64(n)) }}}
	if r != nil {
		o.Layers.Indexes = r.Indexes()
	}
	doc, err := scan.Image(m.t.Context(), ref, o)
	m.read = read.Load()
	if err != nil {
		m.t.Fatal(err)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b)
}

// push stores the indexes of an image that the machine has scanned.
func (m *machine) push(ref string, p Place) *Pushed {
	m.t.Helper()
	img, err := scan.Open(m.t.Context(), ref, scan.Options{Layers: layers.Options{Cache: m.cache}})
	if err != nil {
		m.t.Fatal(err)
	}
	defer img.Close()
	done, err := Push(m.t.Context(), img, p, m.signs, source.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	return done
}

func place(t *testing.T, s string) Place {
	t.Helper()
	p, err := ParsePlace(s, false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func reader(p Place, compare bool) *Reader { return NewReader(p, nil, compare, source.Options{}) }

// TestSecondMachine: a machine that has read nothing gets the report of one that has read the
// layers, byte for byte, and fetches less than a hundredth of their bytes: from distribution's registry,
// from one with the API for referrers, and from a repository of indexes. REGISTRY=HOST:PORT adds a registry
// that was started by hand.
func TestSecondMachine(t *testing.T) {
	alone(t)
	img := testImage(t)
	distribution, end, err := imagetest.Distribution(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	hosts := map[string]string{"distribution": distribution, "with the API": server(t, true, nil), "without": server(t, false, nil)}
	if other := os.Getenv("REGISTRY"); other != "" {
		hosts[other] = other
	}
	for what, host := range hosts {
		w, err := imagetest.NewWire(host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		ref := inRegistry(t, w.Host, "org/app", img)
		first := newMachine(t)
		want := first.scan(ref, nil)
		for _, p := range []Place{place(t, Referrers), place(t, w.Host+"/org/indexes")} {
			if done := first.push(ref, p); done.New != 5 || done.Lack+done.There > 0 {
				t.Errorf("%s, %s: stored %+v", what, p, done)
			}
			if done := first.push(ref, p); done.New > 0 || done.There != 5 {
				t.Errorf("%s, %s: stored again: %+v", what, p, done)
			}
			second := newMachine(t)
			r := reader(p, false)
			w.Reset()
			if got := second.scan(ref, r); got != want {
				t.Errorf("%s, %s: another report:\n%s\nwant\n%s", what, p, got, want)
			}
			if down := w.Down.Load(); second.read > 0 || down > bulk/100 {
				t.Errorf("%s, %s: %d bytes of layers are read, %d come over the wire", what, p, second.read, down)
			} else {
				t.Logf("%s, %s: %d bytes of %d", what, p, down, bulk)
			}
			origin := p.String()
			if origin == Referrers {
				origin += " in " + w.Host + "/org/app"
			}
			if got := r.Lines(); !slices.Equal(got, []string{ref + ": 5 of 5 layers were not read: their indexes are those of " + origin}) {
				t.Errorf("%s, %s: it says %q", what, p, got)
			}
			if got := second.scan(ref, r); got != want || !strings.Contains(strings.Join(r.Lines(), "\n"), "the report was made with indexes of "+origin) {
				t.Errorf("%s, %s: the kept report", what, p)
			}
			if second.scan(ref, nil); second.read < bulk {
				t.Errorf("%s, %s: a scan that believes nobody reads %d bytes", what, p, second.read)
			}
			compared := reader(p, true)
			if got := newMachine(t).scan(ref, compared); got != want || compared.Err() != nil || len(compared.Lines()) != 5 {
				t.Errorf("%s, %s: compared: %v, %q", what, p, compared.Err(), compared.Lines())
			}
		}
	}
}

// TestRestIsRead: what a place does not have is read; an index is never passed on by one who has it from
// others.
func TestRestIsRead(t *testing.T) {
	alone(t)
	host := server(t, true, nil)
	text, err := images.Text("ort-no-cudnn.txtar")
	if err != nil {
		t.Fatal(err)
	}
	base, app := inRegistry(t, host, "base", imagetest.V1(t, string(text))), inRegistry(t, host, "app", testImage(t))
	bases, all := place(t, host+"/indexes"), place(t, Referrers)
	first := newMachine(t)
	first.scan(base, nil)
	first.push(base, bases)
	want := newMachine(t).scan(app, nil)
	second := newMachine(t)
	r := reader(bases, false)
	if got := second.scan(app, r); got != want || second.read < bulk || second.read > bulk+1<<20 {
		t.Errorf("%d bytes are read:\n%s", second.read, got)
	}
	if lines := r.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "4 of 5 layers were not read") {
		t.Errorf("it says %q", lines)
	}
	if done := second.push(app, all); done.New != 1 || done.Lack != 4 {
		t.Errorf("it stores %+v", done)
	}
	if r := reader(all, false); newMachine(t).scan(base, r) == "" || len(r.Lines()) > 0 {
		t.Error("an image without referrers")
	}
}

// forger makes artifacts of indexes that are not what they say.
type forger struct {
	t     *testing.T
	img   *layers.Image // whose indexes the cache has
	to    *source.Artifacts
	real  *machine
	refer v1.Descriptor
}

// put stores an artifact as a referrer of an image.
func (f *forger) put(reader string, list []v1.Descriptor) {
	f.t.Helper()
	m := v1.Manifest{ArtifactType: ArtifactType, Subject: &f.refer, Layers: list, Annotations: map[string]string{readerKey: reader}}
	if _, err := f.to.Put(f.t.Context(), m, ""); err != nil {
		f.t.Fatal(err)
	}
}

// blob stores bytes as the index of layer i.
func (f *forger) blob(i int, index []byte) v1.Descriptor {
	f.t.Helper()
	d, err := f.to.Blob(f.t.Context(), index, blobType)
	if err != nil {
		f.t.Fatal(err)
	}
	d.Annotations = annotations(f.img.Layers[i], f.img.Verified(i), f.img.Reader())
	return d
}

// TestRefused: an index that is forged, cut off, of another layer, image or reader, or too large is
// refused with its reason, and the layer is read.
func TestRefused(t *testing.T) {
	alone(t)
	cases := map[string]struct {
		want  string
		forge func(f *forger)
	}{
		"cut off": {"layer 1 is read: its index at HOST/org/app@sha256:", func(f *forger) {
			b := f.img.StoredIndex(0)
			f.put(f.img.Reader(), []v1.Descriptor{f.blob(0, b[:len(b)/2])})
		}},
		"random bytes": {"is refused: it ", func(f *forger) {
			f.put(f.img.Reader(), []v1.Descriptor{f.blob(0, bytes.Repeat([]byte("no index "), 1000))})
		}},
		"of another layer": {"is refused: it is no stored layer of this name", func(f *forger) {
			f.put(f.img.Reader(), []v1.Descriptor{f.blob(0, f.img.StoredIndex(1))})
		}},
		"of another diff ID": {"is refused: it is of a layer with another diff ID", func(f *forger) {
			d := f.blob(0, f.img.StoredIndex(0))
			d.Annotations[diffIDKey] = "sha256:" + strings.Repeat("0", 64)
			f.put(f.img.Reader(), []v1.Descriptor{d})
		}},
		"older": {"the indexes at HOST/org/app@sha256:", func(f *forger) {
			d := f.blob(0, f.img.StoredIndex(0))
			d.Annotations[readerKey] = "1.1-000000000000"
			f.put("1.1-000000000000", []v1.Descriptor{d})
		}},
		"of another type": {"is refused: its type is text/plain", func(f *forger) {
			d := f.blob(0, f.img.StoredIndex(0))
			d.MediaType = "text/plain"
			f.put(f.img.Reader(), []v1.Descriptor{d})
		}},
		"too large": {fmt.Sprintf("is refused: it has %d bytes, and at most %d are read", maxBlob+1, maxBlob), func(f *forger) {
			d := f.blob(0, f.img.StoredIndex(0))
			d.Size = maxBlob + 1
			f.put(f.img.Reader(), []v1.Descriptor{d})
		}},
		"of another size": {"is refused: the manifest says that it has 10 bytes", func(f *forger) {
			d := f.blob(0, f.img.StoredIndex(0))
			d.Size = 10
			f.put(f.img.Reader(), []v1.Descriptor{d})
		}},
		"a name out of the image": {"is refused: it ", func(f *forger) {
			var b bytes.Buffer
			b.Write(f.img.StoredIndex(0))
			b.WriteString("more")
			f.put(f.img.Reader(), []v1.Descriptor{f.blob(0, b.Bytes())})
		}},
	}
	for what, c := range cases {
		host := server(t, true, nil)
		ref := inRegistry(t, host, "org/app", testImage(t))
		f := newForger(t, host, ref)
		c.forge(f)
		m, r := newMachine(t), reader(place(t, Referrers), false)
		if got, want := m.scan(ref, r), f.real.scan(ref, nil); got != want || m.read < bulk {
			t.Errorf("%s: %d bytes are read:\n%s", what, m.read, got)
		}
		want := strings.ReplaceAll(c.want, "HOST", host)
		if lines := strings.Join(r.Lines(), "\n"); !strings.Contains(lines, want) || strings.Contains(lines, "\n") {
			t.Errorf("%s: it says %q", what, lines)
		}
	}
}

// TestManyReleases: an image that has indexes by more releases of imgcheck than are looked at. That of
// this one is found.
func TestManyReleases(t *testing.T) {
	alone(t)
	host := server(t, true, nil)
	ref := inRegistry(t, host, "org/app", testImage(t))
	f := newForger(t, host, ref)
	for i := range 2 * maxArtifacts {
		d := f.blob(0, f.img.StoredIndex(0))
		d.Annotations[readerKey] = fmt.Sprintf("1.1-%012d", i)
		f.put(d.Annotations[readerKey], []v1.Descriptor{d})
	}
	f.real.push(ref, place(t, Referrers))
	m, r := newMachine(t), reader(place(t, Referrers), false)
	if got, want := m.scan(ref, r), f.real.scan(ref, nil); got != want || m.read > 0 {
		t.Errorf("%d bytes are read, it says %q", m.read, r.Lines())
	}
}

// newForger returns a forger of indexes for an image.
func newForger(t *testing.T, host, ref string) *forger {
	t.Helper()
	f := &forger{t: t, real: newMachine(t)}
	f.real.scan(ref, nil)
	var err error
	if f.img, err = scan.Open(t.Context(), ref, scan.Options{Layers: layers.Options{Cache: f.real.cache}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.img.Close() })
	repo, err := name.NewRepository(host + "/org/app")
	if err != nil {
		t.Fatal(err)
	}
	if f.to, err = source.NewArtifacts(repo, source.Options{}); err != nil {
		t.Fatal(err)
	}
	digest, err := v1.NewHash(f.img.Digest)
	if err != nil {
		t.Fatal(err)
	}
	f.refer = v1.Descriptor{MediaType: f.img.MediaType, Size: int64(len(f.img.Manifest)), Digest: digest}
	return f
}

// completed stores the index of a layer as it would be with the library that the image misses.
func (f *forger) completed(host string) v1.Descriptor {
	f.t.Helper()
	text, err := images.Text("ort-no-cudnn.txtar")
	if err != nil {
		f.t.Fatal(err)
	}
	with := string(text) + "-- 2/usr/lib/x86_64-linux-gnu/libcudnn.so.9 --\nelf x86_64 soname=libcudnn.so.9\n"
	other := newForger(f.t, host, inRegistry(f.t, host, "org/other", imagetest.V1(f.t, with)))
	return f.blob(2, renamed(f.t, other.img.StoredIndex(2), other.img.Verified(2), f.img.Verified(2)))
}

// TestForgedIsBelieved shows the limit that docs/indexes.md states, and that --verify-index finds
// such an index: one that has the right form says what its writer wants.
func TestForgedIsBelieved(t *testing.T) {
	alone(t)
	host := server(t, true, nil)
	ref := inRegistry(t, host, "org/app", testImage(t))
	f := newForger(t, host, ref)
	honest := f.real.scan(ref, nil)
	f.put(f.img.Reader(), []v1.Descriptor{f.completed(host)})
	r := reader(place(t, Referrers), false)
	if got := newMachine(t).scan(ref, r); got == honest {
		t.Error("the index is not the forger's")
	}
	compared := reader(place(t, Referrers), true)
	if got := newMachine(t).scan(ref, compared); got != honest || compared.Err() == nil {
		t.Errorf("compared: %v", compared.Err())
	}
	if lines := strings.Join(compared.Lines(), "\n"); !strings.Contains(lines, "layer 3: its index of referrers in "+host+"/org/app is not the layer's") {
		t.Errorf("it says %q", lines)
	}
}

// newSigner returns a new private key.
func newSigner(t *testing.T) *signature.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := signature.ParseSigner(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSigned: with a key only indexes are used that it has signed. A forged one beside them, or in
// their place, changes nothing, and what was taken without a key is not used with one.
func TestSigned(t *testing.T) {
	alone(t)
	mine, other := newSigner(t), newSigner(t)
	for _, api := range []bool{true, false} {
		host := server(t, api, nil)
		ref := inRegistry(t, host, "org/app", testImage(t))
		first := newMachine(t)
		want := first.scan(ref, nil)
		for _, p := range []Place{place(t, Referrers), place(t, host+"/org/indexes")} {
			at := func(m *machine, by *signature.Signer) []string {
				t.Helper()
				r := NewReader(p, by.Keys(), false, source.Options{})
				if got := m.scan(ref, r); got != want {
					t.Errorf("%s: another report:\n%s", p, got)
				}
				return r.Lines()
			}
			first.signs = nil
			first.push(ref, p)
			second := newMachine(t)
			second.scan(ref, reader(p, false))
			lines := at(second, mine)
			if second.read < bulk || len(lines) != 1 || !strings.HasSuffix(lines[0], " are refused, and the layers read: not signed") {
				t.Errorf("%s, unsigned: %d bytes are read, it says %q", p, second.read, lines)
			}
			first.signs = other
			if done := first.push(ref, p); done.New != 5 || done.There > 0 {
				t.Errorf("%s: signs what it finds: %+v", p, done)
			}
			lines = at(newMachine(t), mine)
			if len(lines) != 1 || !strings.HasSuffix(lines[0], ": not signed by the key "+mine.Keys().ID()+": the signature there is by another one, or wrong") {
				t.Errorf("%s, signed by another: %q", p, lines)
			}
			first.signs = mine
			if done := first.push(ref, p); done.New != 5 {
				t.Errorf("%s: %+v", p, done)
			}
			if done := first.push(ref, p); done.There != 5 || done.New > 0 {
				t.Errorf("%s: signed again: %+v", p, done)
			}
			third := newMachine(t)
			lines = at(third, mine)
			if third.read > 0 || len(lines) != 1 || !strings.HasSuffix(lines[0], ", signed by "+mine.Keys().ID()) {
				t.Errorf("%s, signed: %d bytes are read, it says %q", p, third.read, lines)
			}
		}
	}
}

// TestForgedIsRefused: an index of TestForgedIsBelieved is not used by who asks for a signature: neither
// beside the signed ones, nor in a manifest in their place.
func TestForgedIsRefused(t *testing.T) {
	alone(t)
	host := server(t, true, nil)
	ref := inRegistry(t, host, "org/app", testImage(t))
	f := newForger(t, host, ref)
	honest := f.real.scan(ref, nil)
	f.put(f.img.Reader(), []v1.Descriptor{f.completed(host)})
	mine := newSigner(t)
	f.real.signs = mine
	indexes := place(t, host+"/org/indexes")
	f.real.push(ref, place(t, Referrers))
	f.real.push(ref, indexes)
	repo, err := name.NewRepository(host + "/org/indexes")
	if err != nil {
		t.Fatal(err)
	}
	if f.to, err = source.NewArtifacts(repo, source.Options{}); err != nil {
		t.Fatal(err)
	}
	forged := f.completed(host)
	m := v1.Manifest{ArtifactType: ArtifactType, Layers: []v1.Descriptor{forged}, Annotations: map[string]string{readerKey: f.img.Reader()}}
	if _, err := f.to.Put(t.Context(), m, tag(f.img.Verified(2), f.img.Reader())); err != nil {
		t.Fatal(err)
	}
	for p, used := range map[Place]string{place(t, Referrers): "5 of 5 layers", indexes: "4 of 5 layers"} {
		r := NewReader(p, mine.Keys(), false, source.Options{})
		if got := newMachine(t).scan(ref, r); got != honest {
			t.Errorf("%s: the forger's report", p)
		}
		if lines := strings.Join(r.Lines(), "\n"); !strings.Contains(lines, used+" were not read") {
			t.Errorf("%s: it says %q", p, lines)
		}
		if newMachine(t).scan(ref, reader(p, false)) == honest && p == indexes {
			t.Errorf("%s: this forged index changes nothing", p)
		}
	}
}

// renamed returns the index of a layer as that of another one.
func renamed(t *testing.T, index []byte, digest, to string) []byte {
	t.Helper()
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	plain, err := z.DecodeAll(index, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(bytes.Replace(plain, []byte(digest), []byte(to), 1), nil)
}

// TestRegistryThatChangesBlobs: the bytes of an index count by their digest.
func TestRegistryThatChangesBlobs(t *testing.T) {
	alone(t)
	digest := ""
	host := server(t, true, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || digest == "" || !strings.HasSuffix(r.URL.Path, digest) {
				h.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			b := rec.Body.Bytes()
			b[len(b)/2] ^= 1
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			w.Write(b)
		})
	})
	ref := inRegistry(t, host, "org/app", testImage(t))
	f := newForger(t, host, ref)
	d := f.blob(0, f.img.StoredIndex(0))
	f.put(f.img.Reader(), []v1.Descriptor{d})
	digest = d.Digest.String()
	r := reader(place(t, Referrers), false)
	if newMachine(t).scan(ref, r) != f.real.scan(ref, nil) {
		t.Error("another report")
	}
	if lines := strings.Join(r.Lines(), "\n"); !strings.Contains(lines, "is refused: its bytes have the digest sha256:") {
		t.Errorf("it says %q", lines)
	}
}

// TestForeignSubject: a registry that lists the indexes of another image as an image's own.
func TestForeignSubject(t *testing.T) {
	alone(t)
	host := server(t, false, nil)
	ref := inRegistry(t, host, "org/app", testImage(t))
	f := newForger(t, host, ref)
	mine := f.refer.Digest
	f.refer.Digest.Hex = strings.Repeat("1", 64)
	f.put(f.img.Reader(), []v1.Descriptor{f.blob(0, f.img.StoredIndex(0))})
	repo, err := name.NewRepository(host + "/org/app")
	if err != nil {
		t.Fatal(err)
	}
	list, err := remote.Index(repo.Tag("sha256-" + f.refer.Digest.Hex))
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(repo.Tag("sha256-"+mine.Hex), list); err != nil {
		t.Fatal(err)
	}
	m, r := newMachine(t), reader(place(t, Referrers), false)
	if m.scan(ref, r); m.read < bulk {
		t.Errorf("%d bytes are read", m.read)
	}
	if lines := strings.Join(r.Lines(), "\n"); !strings.Contains(lines, "it refers to another image") {
		t.Errorf("it says %q", lines)
	}
}

// TestUnreachable: a place that does not answer is asked once, and the layers are read.
func TestUnreachable(t *testing.T) {
	alone(t)
	ref := inRegistry(t, server(t, true, nil), "org/app", testImage(t))
	var asked atomic.Int32
	refusing := server(t, true, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1); r.URL.Path != "/v2/" {
				w.WriteHeader(http.StatusForbidden)
			}
		})
	})
	m, r := newMachine(t), reader(place(t, refusing+"/indexes"), false)
	if m.scan(ref, r); m.read < bulk || asked.Load() > 10 {
		t.Errorf("%d bytes are read, %d requests", m.read, asked.Load())
	}
	if lines := r.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "without indexes of "+refusing+"/indexes: "+refusing+" refused the login") {
		t.Errorf("it says %q", lines)
	}
}

func TestParsePlace(t *testing.T) {
	for s, want := range map[string]string{
		"referrers": "referrers", "ghcr.io/org/indexes": "ghcr.io/org/indexes", "localhost:5000/i": "localhost:5000/i",
		"referers": "", "ghcr.io/org/indexes:1": "", "": "", "ghcr.io/Org/i": "",
	} {
		p, err := ParsePlace(s, false)
		if (err == nil) != (want != "") || err == nil && p.String() != want {
			t.Errorf("%q: %v, %v", s, p, err)
		}
	}
	if _, err := Push(context.Background(), layers.From(&source.Image{Ref: "oci:app"}, layers.Options{}), Place{}, nil, source.Options{}); err == nil || !strings.HasPrefix(err.Error(), "oci:app: is not in a registry") {
		t.Errorf("%v", err)
	}
}

// FuzzArtifact: whatever a manifest says, a blob that is not refused is within the bounds and
// of the layer.
func FuzzArtifact(f *testing.F) {
	l := source.Layer{DiffID: "sha256:2"}
	good, err := json.Marshal(v1.Manifest{
		ArtifactType: ArtifactType, MediaType: types.OCIManifestSchema1, SchemaVersion: 2,
		Layers: []v1.Descriptor{{MediaType: blobType, Size: 9, Annotations: annotations(l, "sha256:1", "1.1")}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"artifactType":"` + ArtifactType + `","layers":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := parseArtifact(&source.Document{Raw: raw}, "here")
		if err != nil {
			return
		}
		d, ok := a.blob("sha256:1", "1.1")
		if refused(d, l, "sha256:1", "1.1") != nil {
			return
		}
		if !ok || d.Size <= 0 || d.Size > maxBlob || d.MediaType != blobType || d.Annotations[layerKey] != "sha256:1" || d.Annotations[diffIDKey] != l.DiffID || a.ArtifactType != ArtifactType {
			t.Errorf("%+v", d)
		}
	})
}
