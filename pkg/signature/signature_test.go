package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// newKey returns a private key of a kind as PEM.
func newKey(t *testing.T, kind string) string {
	t.Helper()
	r := rand.New(rand.NewSource(int64(len(kind))))
	var key any
	var err error
	switch kind {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(r)
	case "P-256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), r)
	case "P-384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), r)
	case "RSA":
		key, err = rsa.GenerateKey(r, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// signer returns a new key of a kind.
func signer(t *testing.T, kind string) *Signer {
	t.Helper()
	s, err := ParseSigner(newKey(t, kind), "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// place is a repository with artifacts.
type place struct {
	t    *testing.T
	from *source.Repository
	to   *source.Artifacts
}

// newPlace starts a registry in this process, and returns a repository in it. answer may change
// what it answers.
func newPlace(t *testing.T, api bool, answer func(http.Handler) http.Handler) *place {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(api))
	if answer != nil {
		handler = answer(handler)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	repo, err := name.NewRepository(strings.TrimPrefix(s.URL, "http://") + "/org/app")
	if err != nil {
		t.Fatal(err)
	}
	to, err := source.NewArtifacts(repo, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &place{t, source.NewRepository(repo, source.Options{}), to}
}

// artifact stores an artifact with a text.
func (p *place) artifact(text string) v1.Hash {
	p.t.Helper()
	return p.put(v1.Manifest{ArtifactType: "text/plain", Layers: []v1.Descriptor{p.blob([]byte(text))}})
}

func (p *place) blob(b []byte) v1.Descriptor {
	p.t.Helper()
	d, err := p.to.Blob(p.t.Context(), b, types.MediaType(bundleType))
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func (p *place) put(m v1.Manifest) v1.Hash {
	p.t.Helper()
	at, err := p.to.Put(p.t.Context(), m, "")
	if err != nil {
		p.t.Fatal(err)
	}
	h, err := v1.NewHash(at.DigestStr())
	if err != nil {
		p.t.Fatal(err)
	}
	return h
}

// attach stores bytes as a signature of an artifact.
func (p *place) attach(artifact v1.Hash, raw []byte) {
	p.t.Helper()
	doc, err := p.from.Manifest(p.t.Context(), artifact)
	if err != nil {
		p.t.Fatal(err)
	}
	p.put(v1.Manifest{
		ArtifactType: bundleType, Layers: []v1.Descriptor{p.blob(raw)},
		Subject: &v1.Descriptor{MediaType: doc.MediaType, Size: int64(len(doc.Raw)), Digest: artifact},
	})
}

// TestSigned: an artifact is signed by the key that has signed it, and by no other.
func TestSigned(t *testing.T) {
	for _, api := range []bool{true, false} {
		for _, kind := range []string{"ed25519", "P-256"} {
			p := newPlace(t, api, nil)
			mine, other := signer(t, kind), signer(t, map[string]string{"ed25519": "P-256", "P-256": "ed25519"}[kind])
			a, b := p.artifact("a"), p.artifact("b")
			check := func(k *Keys, of v1.Hash) string {
				if err := k.Check(t.Context(), p.from, of); err != nil {
					return err.Error()
				}
				return "signed"
			}
			if got := check(mine.Keys(), a); got != "not signed" {
				t.Errorf("%s: before: %s", kind, got)
			}
			for range 2 {
				if err := mine.Sign(t.Context(), p.from, p.to, a); err != nil {
					t.Fatal(err)
				}
			}
			if got := check(mine.Keys(), a); got != "signed" {
				t.Errorf("%s: %s", kind, got)
			}
			if got := check(mine.Keys(), b); got != "not signed" {
				t.Errorf("%s: another artifact: %s", kind, got)
			}
			if got := check(other.Keys(), a); !strings.HasPrefix(got, "not signed by the key "+other.Keys().ID()+": the ") {
				t.Errorf("%s: by another: %s", kind, got)
			}
			both, err := ParseKeys(other.Keys().String() + "," + mine.Keys().String())
			if err != nil {
				t.Fatal(err)
			}
			if got := check(both, a); got != "signed" {
				t.Errorf("%s: by one of two: %s", kind, got)
			}
		}
	}
}

// TestForged: no byte of a signature can be another one, and a signature of something else is none.
func TestForged(t *testing.T) {
	p := newPlace(t, true, nil)
	s := signer(t, "ed25519")
	a, b := p.artifact("a"), p.artifact("b")
	good, err := s.bundle(a)
	if err != nil {
		t.Fatal(err)
	}
	// resigned returns a bundle with another payload, whose signature is right.
	resigned := func(payload, kind string) []byte {
		e := envelope{Payload: []byte(payload), PayloadType: kind}
		sig, err := s.sign(e.encoding())
		if err != nil {
			t.Fatal(err)
		}
		e.Signatures = []signature{{sig}}
		raw, err := json.Marshal(bundle{MediaType: bundleType, Envelope: e})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	text := fmt.Sprintf(`{"_type":%q,"subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`, statementType, a.Hex, predicateType)
	if !s.Keys().signed(resigned(text, payloadType), a) {
		t.Fatal("the statement of this test is not one")
	}
	for what, raw := range map[string][]byte{
		"of another artifact":    must(s.bundle(b)),
		"cut off":                good[:len(good)/2],
		"no JSON":                []byte("signed"),
		"empty":                  []byte("{}"),
		"another predicate":      resigned(strings.Replace(text, predicateType, "https://slsa.dev/provenance/v1", 1), payloadType),
		"another statement":      resigned(strings.Replace(text, statementType, "https://in-toto.io/Statement/v0.1", 1), payloadType),
		"another type":           resigned(text, "text/plain"),
		"another algorithm":      resigned(strings.Replace(text, "sha256", "sha512", 1), payloadType),
		"without a subject":      resigned(fmt.Sprintf(`{"_type":%q,"predicateType":%q}`, statementType, predicateType), payloadType),
		"the digest in the text": resigned(`"`+a.Hex+`"`, payloadType),
		"no signature":           bytes.Replace(good, []byte(`"signatures":[{`), []byte(`"signatures":[],"x":[{`), 1),
		"another bundle":         bytes.Replace(good, []byte("v0.3"), []byte("v0.2"), 1),
		"larger than the bound":  append(bytes.Clone(good), bytes.Repeat([]byte(" "), maxBundle)...),
	} {
		alone := newPlace(t, true, nil)
		if got := alone.artifact("a"); got != a {
			t.Fatal(got)
		}
		alone.attach(a, raw)
		if err := s.Keys().Check(t.Context(), alone.from, a); !errors.As(err, new(*UnsignedError)) {
			t.Errorf("%s: %v", what, err)
		}
		alone.attach(a, good)
		if err := s.Keys().Check(t.Context(), alone.from, a); err != nil {
			t.Errorf("%s, beside a good one: %v", what, err)
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestUnreadable: a signature that could not be read is not an artifact without one.
func TestUnreadable(t *testing.T) {
	forbidden := ""
	p := newPlace(t, true, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if forbidden != "" && strings.Contains(r.URL.Path, forbidden) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	s := signer(t, "ed25519")
	a := p.artifact("a")
	if err := s.Sign(t.Context(), p.from, p.to, a); err != nil {
		t.Fatal(err)
	}
	for _, forbidden = range []string{"/referrers/", "/blobs/", "/manifests/"} {
		if err := s.Keys().Check(t.Context(), p.from, a); err == nil || errors.As(err, new(*UnsignedError)) || !strings.Contains(err.Error(), "a signature") && !strings.Contains(err.Error(), "for signatures") {
			t.Errorf("%s: %v", forbidden, err)
		}
	}
}

// TestCosign: what cosign 3.1.3 has written is read: its keys, and its signatures by them.
func TestCosign(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	artifact, err := v1.NewHash(strings.TrimSpace(read("artifact")))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ecdsa", "ed25519"} {
		k, err := ParseKeys(read(kind + ".pub"))
		if err != nil {
			t.Fatal(err)
		}
		if !k.signed([]byte(read(kind+".bundle.json")), artifact) {
			t.Errorf("%s: the signature is not recognized", kind)
		}
		s, err := ParseSigner(read(kind+".key"), "secret")
		if err != nil {
			t.Fatal(err)
		}
		if s.Keys().String() != k.String() {
			t.Errorf("%s: the keys are no pair", kind)
		}
		if _, err := ParseSigner(read(kind+".key"), "other"); err == nil || !strings.Contains(err.Error(), "COSIGN_PASSWORD") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestParse(t *testing.T) {
	public := func(kind string) string {
		b, _ := pem.Decode([]byte(newKey(t, kind)))
		key, err := x509.ParsePKCS8PrivateKey(b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKIXPublicKey(key.(crypto.Signer).Public())
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	k, err := ParseKeys("# ours\n" + public("ed25519") + "\n" + public("P-256"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseKeys(k.String() + "\n")
	if err != nil || again.String() != k.String() || again.ID() != k.ID() || strings.Count(k.ID(), ", ") != 1 {
		t.Errorf("%v, %v: %v", k, again, err)
	}
	for text, want := range map[string]string{
		"":                                  "no list of at most 64 public keys",
		"key.pub":                           "no list of at most 64 public keys",
		"AAAA":                              "no public key",
		public("P-384"):                     "another kind",
		public("RSA"):                       "another kind",
		newKey(t, "ed25519"):                `a "private key", and a public key is asked for`,
		"-----BEGIN x":                      "no public key",
		strings.Repeat(public("P-256"), 65): "more than 64 keys",
	} {
		if _, err := ParseKeys(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"":                 "no private key",
		public("P-256"):    `a "PUBLIC KEY"`,
		newKey(t, "P-384"): "another kind",
		newKey(t, "RSA"):   "another kind",
		"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n": "PKCS #8",
	} {
		if _, err := ParseSigner(text, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzSigned: no bytes are a signature of an artifact except by its key: a bundle is recognized only
// if its payload is the one that the key has signed.
func FuzzSigned(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.New(rand.NewSource(1)))
	if err != nil {
		f.Fatal(err)
	}
	s := &Signer{key}
	artifact := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("1", 64)}
	good, err := s.bundle(artifact)
	if err != nil {
		f.Fatal(err)
	}
	var own bundle
	if err := json.Unmarshal(good, &own); err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"mediaType":"` + bundleType + `","dsseEnvelope":{"payload":"","payloadType":"` + payloadType + `","signatures":[{"sig":""}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !s.Keys().signed(raw, artifact) {
			return
		}
		var b bundle
		if err := json.Unmarshal(raw, &b); err != nil || !bytes.Equal(b.Envelope.Payload, own.Envelope.Payload) {
			t.Errorf("%q", raw)
		}
	})
}
