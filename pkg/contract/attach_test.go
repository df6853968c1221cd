package contract

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// TestAttach attaches to an image of a registry with the API for referrers, and of one
// without, and finds the specification as clients do.
func TestAttach(t *testing.T) {
	for _, api := range []bool{true, false} {
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(api)))
		t.Cleanup(server.Close)
		ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/app:1")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, empty.Image); err != nil {
			t.Fatal(err)
		}
		subject, err := partial.Descriptor(empty.Image)
		if err != nil {
			t.Fatal(err)
		}
		img := images()[1]
		img.Ref, img.Subject = ref.Name(), *subject
		first, err := img.Attach(t.Context(), source.Options{})
		if err != nil {
			t.Fatalf("api=%v: %v", api, err)
		}
		again, err := img.Attach(t.Context(), source.Options{})
		if err != nil || again != first {
			t.Errorf("api=%v: attached again as %s (%v), first as %s", api, again, err, first)
		}
		index, err := remote.Referrers(ref.Context().Digest(subject.Digest.String()))
		if err != nil {
			t.Fatalf("api=%v: %v", api, err)
		}
		list, err := index.IndexManifest()
		if err != nil || len(list.Manifests) != 1 {
			t.Fatalf("api=%v: referrers %v (%v)", api, list, err)
		}
		// This registry's API answers with the config's type.
		if d := list.Manifests[0]; !api && d.ArtifactType != nfdArtifact || !strings.HasSuffix(first, "@"+d.Digest.String()) {
			t.Errorf("api=%v: referrer %+v of %s", api, d, first)
		}
		if got, want := fetched(t, first, subject), emitted(t, img, "nfd"); !bytes.Equal(got, want) {
			t.Errorf("api=%v: %s", api, got)
		}
	}
}

// fetched returns the specification of an artifact, whose manifest it checks.
func fetched(t *testing.T, ref string, subject *v1.Descriptor) []byte {
	t.Helper()
	at, err := name.NewDigest(ref)
	if err != nil {
		t.Fatal(err)
	}
	d, err := remote.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	m, err := v1.ParseManifest(bytes.NewReader(d.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject == nil || m.Subject.Digest != subject.Digest || m.Subject.Size != subject.Size || m.Config.MediaType != source.EmptyConfig || m.Config.Size != 2 || len(m.Layers) != 1 || m.Layers[0].MediaType != nfdSpec {
		t.Errorf("manifest %s", d.Manifest)
	}
	l, err := remote.Layer(at.Context().Digest(m.Layers[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	rc, err := l.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAttachRefused checks the errors.
func TestAttachRefused(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	server.Close()
	img := images()[1]
	subject, err := partial.Descriptor(empty.Image)
	if err != nil {
		t.Fatal(err)
	}
	img.Subject = *subject
	for ref, want := range map[string]string{
		"oci:dir": "oci:dir is not in a registry", "docker:app": "docker:app is not in a registry",
		strings.TrimPrefix(server.URL, "http://") + "/app:1": "attaching to ",
	} {
		img.Ref = ref
		if _, err := img.Attach(t.Context(), source.Options{Sleep: source.Sleep}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}
