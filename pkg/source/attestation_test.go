package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

const slsa = "https://slsa.dev/provenance/v1"

func attested(t *testing.T, predicate, statement string) v1.ImageIndex {
	t.Helper()
	index, err := imagetest.Attested(imagetest.V1(t, appImage), predicate, []byte(statement))
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// layoutOf writes an index as the only entry of an OCI layout.
func layoutOf(t *testing.T, index v1.ImageIndex) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendIndex(index)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestProvenance(t *testing.T) {
	reg := imagetest.Serve(t)
	tag, err := name.NewTag(reg.Host + "/app:1")
	if err != nil {
		t.Fatal(err)
	}
	index := attested(t, slsa, `{"a":1}`)
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	flat := filepath.Join(t.TempDir(), "flat") // index.json lists the image and its attestation
	if _, err := layout.Write(flat, index); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{tag.String(), "oci:" + layoutOf(t, index), "oci:" + flat} {
		img, err := Open(t.Context(), ref, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if asked := strings.Count(strings.Join(requested(reg), "\n"), "GET /v2/app/manifests/"); ref == tag.String() && asked > 2 {
			t.Errorf("opening asks for %d manifests", asked)
		}
		raw, err := img.Provenance(t.Context())
		if string(raw) != `{"a":1}` || err != nil || !strings.HasPrefix(img.Attested(), "sha256:") {
			t.Errorf("%s: %s, %v, attested %q", ref, raw, err, img.Attested())
		}
		img.Close()
	}
}

func requested(reg *imagetest.Server) (list []string) {
	for r := range reg.Requests() {
		list = append(list, r)
	}
	return list
}

// TestNoProvenance reads images whose provenance is absent or unreadable: they open as
// others do.
func TestNoProvenance(t *testing.T) {
	gone := layoutOf(t, attested(t, slsa, `{"gone":1}`))
	blobs, err := filepath.Glob(gone + "/blobs/sha256/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blobs {
		if text, err := os.ReadFile(b); err == nil && string(text) == `{"gone":1}` {
			os.Remove(b)
		}
	}
	for _, tt := range []struct{ dir, want string }{
		{writeLayout(t, appImage), ErrNoProvenance.Error()},
		{layoutOf(t, attested(t, "https://spdx.dev/Document", `{}`)), ErrNoProvenance.Error()},
		{layoutOf(t, attested(t, slsa, strings.Repeat(" ", maxAnswer+1))), "reading the provenance: it is 8388609 bytes long, more than the 8388608 that are read"},
		{layoutOf(t, attested(t, slsa, strings.Repeat(",", maxCommas+1))), "reading the provenance: " + errElements.Error()},
		{gone, "reading the provenance: the blob sha256:"},
	} {
		img := wantApp(t, "oci:"+tt.dir, Options{})
		raw, err := img.Provenance(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || raw != nil {
			t.Errorf("%v, want %s", err, tt.want)
		}
		if errors.Is(err, ErrNoProvenance) != (tt.want == ErrNoProvenance.Error()) {
			t.Errorf("%v is of the wrong kind", err)
		}
	}
}
