package patch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// A registry that is busy is left alone for as long as it asks for, whatever it is
// busy with, and all is there in the end; one that always is leaves the name as it
// was.
func TestBusyRegistry(t *testing.T) {
	s := distribution(t)
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	steps := []struct {
		name string
		is   func(r *http.Request) bool
	}{
		{"question for a layer", func(r *http.Request) bool { return r.Method == "HEAD" && strings.Contains(r.URL.Path, "/blobs/") }},
		{"mount", func(r *http.Request) bool { return r.URL.Query().Has("mount") }},
		{"upload begins", func(r *http.Request) bool { return r.Method == "POST" && !r.URL.Query().Has("mount") }},
		{"upload", func(r *http.Request) bool { return r.Method == "PATCH" }},
		{"upload ends", func(r *http.Request) bool { return r.Method == "PUT" && strings.Contains(r.URL.Path, "/blobs/") }},
		{"last look", func(r *http.Request) bool {
			return r.Method == "HEAD" && strings.Contains(r.URL.Path, "/manifests/") && len(r.Header["Accept"]) > 1 // go-containerregistry has one line
		}},
		{"name", func(r *http.Request) bool { return r.Method == "PUT" && strings.Contains(r.URL.Path, "/manifests/") }},
	}
	for i, step := range steps {
		for _, code := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprint(step.name, " ", code), func(t *testing.T) {
				to := fmt.Sprintf("busy%d-%d:new", i, code)
				var mu sync.Mutex
				var slept []time.Duration
				o := Options{backoff: &remote.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 3}, sleep: func(_ context.Context, d time.Duration) error {
					mu.Lock()
					defer mu.Unlock()
					slept = append(slept, d)
					return nil
				}}
				b := open(t, ref, o)
				p := patchAll(t, b, change())
				busy := func(times int) {
					s.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
						mu.Lock()
						defer mu.Unlock()
						if times == 0 || !step.is(r) {
							return false
						}
						times--
						w.Header().Set("Retry-After", "60")
						w.WriteHeader(code)
						return true
					})
				}
				busy(-1)
				_, err := Publish(t.Context(), b, p, s.host+"/"+to, o)
				want := fmt.Sprintf("answered %d", code)
				switch {
				case step.name == "mount": // another way is tried in the end, and would have to copy
					want = "does not mount it from app into"
				case code == http.StatusTooManyRequests:
					want = "limits the number of requests: wait"
				}
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %s", err, want)
				}
				s.reset(nil)
				if now := s.digest(t, to); now != "" {
					t.Fatalf("the name has %s", now)
				}
				slept = nil
				busy(2)
				if _, err := Publish(t.Context(), b, p, s.host+"/"+to, o); err != nil {
					t.Fatal(err)
				}
				s.reset(nil)
				s.whole(t, to)
				if want := []time.Duration{time.Minute, time.Minute}; !slices.Equal(slept, want) {
					t.Errorf("slept %v, want %v", slept, want)
				}
			})
		}
	}
}

// tokens is a token server (https://distribution.github.io/distribution/spec/auth/token/)
// that gives each user what he may have.
type tokens struct {
	server *httptest.Server
	cert   []byte // DER
	key    *ecdsa.PrivateKey
	may    map[string][]string // user, and repository:action

	mu    sync.Mutex
	asked []string // user and scopes
}

const tokenService, tokenIssuer = "test registry", "test issuer"

func newTokens(t *testing.T, may map[string][]string) *tokens {
	t.Helper()
	k := &tokens{may: may}
	var err error
	if k.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if k.cert, err = x509.CreateCertificate(rand.Reader, template, template, k.key.Public(), k.key); err != nil {
		t.Fatal(err)
	}
	k.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if password != user+"'s" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var scopes []string
		for _, s := range r.URL.Query()["scope"] {
			scopes = append(scopes, strings.Fields(s)...)
		}
		k.mu.Lock()
		k.asked = append(k.asked, user+" "+strings.Join(scopes, " "))
		k.mu.Unlock()
		token, err := k.sign(user, scopes)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, `{"token": %q}`, token)
	}))
	t.Cleanup(k.server.Close)
	return k
}

// sign makes a token of what a user may have of scopes.
func (k *tokens) sign(user string, scopes []string) (string, error) {
	type access struct {
		Type    string   `json:"type"`
		Name    string   `json:"name"`
		Actions []string `json:"actions"`
	}
	var list []access
	for _, s := range scopes {
		part := strings.Split(s, ":")
		if len(part) != 3 {
			return "", fmt.Errorf("the scope %q", s)
		}
		a := access{Type: part[0], Name: part[1]}
		for _, action := range strings.Split(part[2], ",") {
			if slices.Contains(k.may[user], part[1]+":"+action) {
				a.Actions = append(a.Actions, action)
			}
		}
		list = append(list, a)
	}
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := encode(map[string]any{"typ": "JWT", "alg": "ES256", "x5c": []string{base64.StdEncoding.EncodeToString(k.cert)}}) + "." +
		encode(map[string]any{
			"iss": tokenIssuer, "sub": user, "aud": tokenService, "jti": rand.Text(), "access": list,
			"iat": time.Now().Unix(), "nbf": time.Now().Add(-time.Hour).Unix(), "exp": time.Now().AddDate(0, 1, 0).Unix(),
		})
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, k.key, sum[:])
	if err != nil {
		return "", err
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)), nil
}

func login(t *testing.T, host, user string) {
	t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + user + "'s"))
	config := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, auth)
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A mount needs one token that allows to read the one repository and to write the other.
func TestTokens(t *testing.T) {
	k := newTokens(t, map[string][]string{
		"maker":  {"app:pull", "app:push", "other:pull", "other:push"},
		"reader": {"app:pull", "other:pull"},
		"writer": {"other:pull", "other:push"},
	})
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	bundle := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.cert}), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(k.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	host := startDistribution(t, fmt.Sprintf("auth: {token: {realm: 'http://localhost:%s/', service: %q, issuer: %q, rootcertbundle: %s}}\n", port, tokenService, tokenIssuer, bundle))
	s := &server{host: host}

	login(t, host, "maker")
	tag := s.ref(t, "app:1")
	if err := remote.Write(tag, imagetest.V1(t, app), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		t.Fatal(err)
	}
	b := open(t, tag.Name(), quick())
	p := patchAll(t, b, change())
	for _, to := range []string{"app:fixed", "other:fixed"} {
		if _, err := Publish(t.Context(), b, p, host+"/"+to, quick()); err != nil {
			t.Fatal(err)
		}
		wantPatched(t, host+"/"+to)
	}
	both := func(s string) bool {
		return strings.Contains(s, "repository:other:push,pull") && strings.Contains(s, "repository:app:pull")
	}
	if !slices.ContainsFunc(k.asked, both) {
		t.Errorf("no token was asked for both: %q", k.asked)
	}

	login(t, host, "reader")
	for _, to := range []string{"app:mine", "other:mine"} {
		b := open(t, tag.Name(), quick())
		_, err := Publish(t.Context(), b, patchAll(t, b, change()), host+"/"+to, quick())
		repo, _, _ := strings.Cut(to, ":")
		if want := "run `docker login HOST` as a user who may push to " + repo; err == nil || !strings.HasSuffix(masked(err.Error()), want) {
			t.Errorf("%s: error %v", to, err)
		}
	}
	login(t, host, "writer")
	_, err = OpenBase(t.Context(), tag.Name(), quick())
	wantError(t, err, "HOST/app:1: HOST refused the login or the image does not exist (authentication required): check the name, and run `docker login HOST`")
}

// A token that expires while something is sent is renewed, and all of it is sent
// again.
func TestTokenExpires(t *testing.T) {
	s := newServer(t)
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	var mu sync.Mutex
	tokens, expired := 0, 0
	refused := map[string]bool{}
	s.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/token" {
			tokens++
			fmt.Fprintf(w, `{"token": "t%d"}`, tokens)
			return true
		}
		if r.ContentLength > 0 && !refused[r.Method] {
			refused[r.Method] = true
			io.Copy(io.Discard, r.Body)
			expired = tokens
		}
		var n int
		if fmt.Sscanf(r.Header.Get("Authorization"), "Bearer t%d", &n); n <= expired {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	})
	do(t, ref, s.host+"/app:fixed", quick())
	s.reset(nil)
	s.whole(t, "app:fixed")
	if !refused["PATCH"] || !refused["PUT"] {
		t.Errorf("refused: %v", refused)
	}
}

// A copy whose source breaks off begins again, and one that goes on breaking off
// leaves no name.
func TestCopyBreaksOff(t *testing.T) {
	from, to := distribution(t), distribution(t)
	ref := from.push(t, "app:1", imagetest.V1(t, app))
	o := quick()
	o.AllowCopy = true
	b := open(t, ref, o)
	p := patchAll(t, b, change())
	layer := b.Images[0].manifest.Layers[0]
	breaks := func(times int) {
		var mu sync.Mutex
		from.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if times == 0 || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, layer.Digest.String()) {
				return false
			}
			times--
			w.Header().Set("Content-Length", fmt.Sprint(layer.Size))
			w.Write(make([]byte, 10))
			panic(http.ErrAbortHandler)
		})
	}
	breaks(-1)
	if _, err := Publish(t.Context(), b, p, to.host+"/app:fixed", o); err == nil || to.digest(t, "app:fixed") != "" {
		t.Errorf("error %v", err)
	} else {
		if want := "pushing layer " + layer.Digest.String() + ": reading it: the connection to " + from.host + " broke off: try again"; !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	breaks(1)
	if _, err := Publish(t.Context(), b, p, to.host+"/app:fixed", o); err != nil {
		t.Fatal(err)
	}
	to.whole(t, "app:fixed")
	// Bytes that are not the layer's are not taken for it.
	from.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, layer.Digest.String()) {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(layer.Size))
		w.Write(make([]byte, layer.Size))
		return true
	})
	_, err := Publish(t.Context(), b, p, to.host+"/another:fixed", o)
	if err == nil || to.digest(t, "another:fixed") != "" {
		t.Errorf("error %v", err)
	} else {
		wantError(t, err, "HOST/another:fixed: pushing layer sha256:HEX: reading it: the bytes of sha256:HEX are not those that the manifest names: the image is damaged")
	}
}

// A pull-through cache is read as any registry, and takes no pushes.
func TestMirror(t *testing.T) {
	s := distribution(t)
	s.push(t, "app:1", imagetest.V1(t, app))
	mirror := startDistribution(t, "proxy: {remoteurl: 'http://"+s.host+"'}\n")
	ref := mirror + "/app:1"
	for range 2 { // through it, and from it
		if got, want := listing(t, ref, layers.Options{}), listing(t, s.host+"/app:1", layers.Options{}); got != want {
			t.Errorf("got %s", got)
		}
	}
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	_, err := Publish(t.Context(), b, p, mirror+"/app:fixed", quick())
	wantError(t, err, "HOST/app:fixed: pushing the new layer: HOST takes no pushes (405) (The operation is unsupported.): it is a mirror, or read-only")
	// Where it mirrors from there is everything: nothing is copied.
	s.reset(nil)
	if _, err := Publish(t.Context(), b, p, s.host+"/app:fixed", quick()); err != nil {
		t.Fatal(err)
	}
	s.whole(t, "app:fixed")
}

// A layer that may not be distributed stays where its URLs say, and is not requested.
func TestForeignLayer(t *testing.T) {
	for name, mt := range map[string]types.MediaType{"docker": types.DockerForeignLayer, "oci": types.OCIRestrictedLayer} {
		t.Run(name, func(t *testing.T) {
			s := distribution(t, "validation: {manifests: {urls: {allow: ['^http://']}}}\n")
			asked := 0
			away := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
			defer away.Close()
			list, err := imagetest.V1(t, app).Layers()
			if err != nil {
				t.Fatal(err)
			}
			var img v1.Image = empty.Image
			plain := types.DockerLayer
			if name == "oci" {
				img, plain = mutate.MediaType(mutate.ConfigMediaType(img, types.OCIConfigJSON), types.OCIManifestSchema1), types.OCILayer
			}
			img, err = mutate.Append(img,
				mutate.Addendum{Layer: list[0], MediaType: mt, URLs: []string{away.URL + "/layer"}},
				mutate.Addendum{Layer: list[1], MediaType: plain})
			if err != nil {
				t.Fatal(err)
			}
			tag := s.ref(t, "app:1")
			if err := remote.Write(tag, img, remote.WithNondistributable); err != nil {
				t.Fatal(err)
			}
			b := open(t, tag.Name(), quick())
			p := patchAll(t, b, change())
			for _, to := range []string{"app:fixed", "other:fixed"} {
				s.reset(nil)
				if _, err := Publish(t.Context(), b, p, s.host+"/"+to, quick()); err != nil {
					t.Fatal(err)
				}
				m, err := v1.ParseManifest(strings.NewReader(string(p[0].Manifest)))
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range s.requests {
					if strings.Contains(r, m.Layers[0].Digest.String()) {
						t.Errorf("%s: %s", to, r)
					}
				}
				if d := m.Layers[0]; d.MediaType != mt || len(d.URLs) != 1 {
					t.Errorf("the layer is %+v", d)
				}
				if got := s.digest(t, to); got != p[0].Digest {
					t.Errorf("%s has %s, not %s", to, got, p[0].Digest)
				}
			}
			dir := filepath.Join(t.TempDir(), "layout")
			o := quick()
			o.AllowCopy = true
			if _, err := Publish(t.Context(), b, p, "oci:"+dir, o); err != nil {
				t.Fatal(err)
			}
			blobs, err := os.ReadDir(filepath.Join(dir, "blobs", "sha256"))
			if err != nil || len(blobs) != 6 { // two layers, config and manifest, and those two of the origin
				t.Errorf("the layout has %v, %v", blobs, err)
			}
			if asked > 0 {
				t.Errorf("the layer's URL was asked for %d times", asked)
			}
		})
	}
}

// An index may name more than fits into memory.
func TestHostileIndex(t *testing.T) {
	s := newServer(t)
	img := imagetest.V1(t, app)
	s.push(t, "app:1", img)
	raw, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	large := append(raw, strings.Repeat(" ", maxDocument-len(raw))...)
	s.push(t, "app:1", taggable{large, types.OCIManifestSchema1})
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for range maxDocuments/maxDocument + 1 {
		index.Manifests = append(index.Manifests, v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digestOf(large), Size: int64(len(large))})
	}
	if raw, err = json.Marshal(index); err != nil {
		t.Fatal(err)
	}
	ref := s.push(t, "app:1", taggable{raw, types.OCIImageIndex})
	_, err = OpenBase(t.Context(), ref, quick())
	wantError(t, err, "HOST/app:1: manifests and configs of the index's images have more than the 33554432 bytes that are read: choose one with --platform")
}

// A hostile target gets no login for another host, and gives one line of error.
func TestHostileTarget(t *testing.T) {
	s := newServer(t)
	login(t, s.host, "me")
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	secret := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:me's"))
	var mu sync.Mutex
	var got []string // requests to the other host
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		io.Copy(io.Discard, r.Body)
		got = append(got, r.Method+" "+r.Header.Get("Authorization"))
		w.Header().Set("Location", "/more")
		w.WriteHeader(http.StatusCreated)
	}))
	defer store.Close()
	_, port, err := net.SplitHostPort(store.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	guarded := func(then func(w http.ResponseWriter, r *http.Request) bool) func(int, http.ResponseWriter, *http.Request) bool {
		return func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Authorization") != secret {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			return then(w, r)
		}
	}
	uploads := func(to string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusAccepted)
			return true
		}
	}
	for to, want := range map[string]string{
		"file:///etc/passwd":      `HOST/app:new: pushing the new layer: the redirect of HOST is not followed: it does not lead to a registry (Patch "file:///etc/passwd": unsupported protocol scheme "file"): ask whoever runs it`,
		"http://169.254.169.254/": `HOST/app:new: pushing the new layer: the redirect of HOST is not followed: it leads to an address of an inner network (Location header redirects to private/link-local host "169.254.169.254"): ask whoever runs it`,
		"":                        "HOST/app:new: pushing the new layer: missing Location header",
	} {
		s.reset(guarded(uploads(to)))
		_, err := Publish(t.Context(), b, p, s.host+"/app:new", quick())
		wantError(t, err, want)
	}
	// A layer goes where the registry says, without a login. Here it does not come back.
	s.reset(guarded(uploads("http://localhost:" + port + "/")))
	_, err = Publish(t.Context(), b, p, s.host+"/app:new", quick())
	wantError(t, err, "HOST/app:new: HOST has taken sha256:HEX and does not have it: run again, or ask whoever runs it")
	if want := []string{"PATCH ", "PUT "}; !slices.Equal(got, want) {
		t.Errorf("the other host was told %q", got)
	}
	s.reset(guarded(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Location", r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return r.URL.Path != "/v2/"
	}))
	_, err = Publish(t.Context(), b, p, s.host+"/app:newer", quick())
	wantError(t, err, "HOST/app:newer: HOST redirects without end: try again later, or ask whoever runs it")
}

// A name means an image that is whole, or what it meant before: what a registry
// loses or changes is found out before, or told.
func TestLosingRegistry(t *testing.T) {
	s := newServer(t)
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	var mu sync.Mutex
	asked := 0
	head := func(digest string, times int) func(int, http.ResponseWriter, *http.Request) bool {
		return func(_ int, w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if r.Method != http.MethodHead || !strings.HasSuffix(r.URL.Path, "/blobs/"+digest) {
				return false
			}
			if asked++; asked > times {
				return false
			}
			w.WriteHeader(http.StatusNotFound)
			return true
		}
	}
	lost := "HOST has taken sha256:HEX and does not have it: run again, or ask whoever runs it"
	layer, err := p[0].layer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for i, blob := range []string{layer.String(), digestOf(p[0].Config).String()} {
		to := fmt.Sprintf("app:lost%d", i)
		asked = 0
		s.reset(head(blob, 1<<30))
		_, err := Publish(t.Context(), b, p, s.host+"/"+to, quick())
		wantError(t, err, "HOST/"+to+": "+lost)
		if s.reset(nil); s.digest(t, to) != "" || asked != 1+looks {
			t.Errorf("%s: the name has %q, asked %d times", to, s.digest(t, to), asked)
		}
		// One that needs a while is waited for.
		asked = 0
		s.reset(head(blob, looks))
		if _, err := Publish(t.Context(), b, p, s.host+"/"+to, quick()); err != nil {
			t.Error(err)
		}
		s.reset(nil)
		s.whole(t, to)
	}
	// One that does not answer such a question is believed.
	pushed := map[string]bool{}
	s.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut {
			pushed[r.URL.Query().Get("digest")] = true
		}
		_, digest, ok := strings.Cut(r.URL.Path, "/blobs/")
		if !ok || r.Method != http.MethodHead {
			return false
		}
		w.WriteHeader(map[bool]int{false: http.StatusNotFound, true: http.StatusForbidden}[pushed[digest]])
		return true
	})
	o := quick()
	o.AllowCopy = true
	if _, err := Publish(t.Context(), b, p, s.host+"/quiet:1", o); err != nil || len(pushed) < 2 {
		t.Errorf("error %v, %d blobs pushed", err, len(pushed))
	}
	s.reset(nil)
	s.whole(t, "quiet:1")

	other, err := imagetest.V1(t, app).RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	got := func(do http.HandlerFunc) func(int, http.ResponseWriter, *http.Request) bool {
		put := false
		return func(_ int, w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			put = put || r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/")
			if !put || r.Method == http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			do(w, r)
			return true
		}
	}
	s.reset(got(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	_, err = Publish(t.Context(), b, p, s.host+"/app:gone", quick())
	wantError(t, err, "HOST/app:gone: HOST has taken the manifest sha256:HEX and does not have it: run again, or ask whoever runs it")
	s.reset(got(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
		w.Header().Set("Docker-Content-Digest", p[0].Digest)
		w.Write(other)
	}))
	_, err = Publish(t.Context(), b, p, s.host+"/app:changed", quick())
	wantError(t, err, "HOST/app:changed: HOST was sent sha256:HEX and has sha256:HEX under that name: another client pushes there, or the registry changes manifests")

	// This registry claims to have the manifest already, but has another one.
	s.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodHead || !strings.HasSuffix(r.URL.Path, "/manifests/liar") {
			return false
		}
		w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
		w.Header().Set("Content-Length", "1")
		w.Header().Set("Docker-Content-Digest", p[0].Digest)
		return true
	})
	if _, err := Publish(t.Context(), b, p, s.host+"/app:liar", quick()); err != nil {
		t.Error(err)
	}
	s.reset(nil)
	s.whole(t, "app:liar")
}

// An interrupted publication ends at once, whatever it waits for, and leaves the name as it
// was.
func TestInterruptedPublish(t *testing.T) {
	s := newServer(t)
	ref := s.push(t, "app:1", imagetest.V1(t, app))
	t.Setenv("TMPDIR", t.TempDir())
	b := open(t, ref, quick())
	p := patchAll(t, b, change())
	steps := map[string]func(r *http.Request) bool{
		"question for a layer": func(r *http.Request) bool { return r.Method == "HEAD" && strings.Contains(r.URL.Path, "/blobs/") },
		"mount":                func(r *http.Request) bool { return r.URL.Query().Has("mount") },
		"upload begins":        func(r *http.Request) bool { return r.Method == "POST" && !r.URL.Query().Has("mount") },
		"upload":               func(r *http.Request) bool { return r.Method == "PATCH" },
		"upload ends":          func(r *http.Request) bool { return r.Method == "PUT" && strings.Contains(r.URL.Path, "/blobs/") },
		"name":                 func(r *http.Request) bool { return r.Method == "PUT" && strings.Contains(r.URL.Path, "/manifests/") },
	}
	for name, is := range steps {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var running sync.RWMutex // read-locked by a handler that waits for the client to go
			var mu sync.Mutex
			pushed := map[string]bool{}
			to := strings.ReplaceAll(name, " ", "-")
			s.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if !is(r) {
					mu.Lock()
					defer mu.Unlock()
					if r.Method == http.MethodPut {
						pushed[r.URL.Query().Get("digest")] = true
					}
					if _, digest, ok := strings.Cut(r.URL.Path, "/blobs/"); ok && r.Method == http.MethodHead && !pushed[digest] {
						w.WriteHeader(http.StatusNotFound) // the registry of this process gives any repository any blob
						return true
					}
					return false
				}
				running.RLock()
				defer running.RUnlock()
				io.Copy(io.Discard, r.Body) // else the server does not see that the client has gone
				cancel()
				<-r.Context().Done()
				return true
			})
			_, err := Publish(ctx, b, p, s.host+"/"+to+":new", Options{AllowCopy: true})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			running.Lock()
			defer running.Unlock()
			if s.reset(nil); s.digest(t, to+":new") != "" {
				t.Error("the name is there")
			}
		})
	}
	p[0].Close()
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
