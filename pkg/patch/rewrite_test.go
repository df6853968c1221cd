package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	ociLayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// rewritten returns the images of a base with another second layer.
func rewritten(t *testing.T, b *Base) []*Rewrite {
	t.Helper()
	im, err := imagetest.Parse([]byte(strings.ReplaceAll(app, "stub", "slim")))
	if err != nil {
		t.Fatal(err)
	}
	var tar bytes.Buffer
	if err := im.LayerTar(1, &tar); err != nil {
		t.Fatal(err)
	}
	var list []*Rewrite
	for _, img := range b.Images {
		list = append(list, &Rewrite{Base: img, Layers: map[int]func(context.Context, io.Writer) error{1: func(_ context.Context, w io.Writer) error {
			_, err := w.Write(tar.Bytes())
			return err
		}}})
	}
	return list
}

// wantRewritten checks an image whose second layer is new.
func wantRewritten(t *testing.T, old, img v1.Image, zstd bool) {
	t.Helper()
	if err := validate.Image(img); err != nil && !zstd { // which validate does not unpack
		t.Error(err)
	}
	before, err := old.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	after, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(after.History) != fmt.Sprint(before.History) || after.RootFS.DiffIDs[0] != before.RootFS.DiffIDs[0] || after.RootFS.DiffIDs[1] == before.RootFS.DiffIDs[1] {
		t.Errorf("history %v, layers %v, want those of %v but for the second layer", after.History, after.RootFS, before.RootFS)
	}
	list, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if mt, err := list[1].MediaType(); err != nil || (mt == types.OCILayerZStd) != zstd {
		t.Errorf("the new layer is %s: %v", mt, err)
	}
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if m.Annotations[keyOrigin] != "" || after.Config.Labels[keyOrigin] != "" {
		t.Error("it has the mark of a patch")
	}
}

func TestPublishRewritten(t *testing.T) {
	s, other := newServer(t), newServer(t)
	for name, img := range map[string]v1.Image{"oci": imagetest.V1(t, app), "docker": docker(t, imagetest.V1(t, app))} {
		t.Run(name, func(t *testing.T) {
			ref := s.push(t, name+":1", img)
			b := open(t, ref, quick())
			for _, to := range []string{name + ":slim", "mounted-" + name + ":slim"} {
				list := rewritten(t, b)
				s.reset(nil)
				got, err := PublishRewritten(t.Context(), b, list, s.host+"/"+to, quick())
				if err != nil {
					t.Fatal(err)
				}
				if want := "@" + s.digest(t, to); !strings.HasSuffix(got, want) || list[0].Sizes[1] == 0 {
					t.Errorf("%s, of %v bytes, want …%s", got, list[0].Sizes, want)
				}
				out, err := remote.Image(s.ref(t, to))
				if err != nil {
					t.Fatal(err)
				}
				wantRewritten(t, img, out, false)
				if again, err := PublishRewritten(t.Context(), b, rewritten(t, b), s.host+"/"+to, quick()); err != nil || again != got {
					t.Errorf("a second time %s, %v, want %s", again, err, got)
				}
			}
			dir := filepath.Join(t.TempDir(), "out")
			o := quick()
			var refused *CopyError
			if _, err := PublishRewritten(t.Context(), b, rewritten(t, b), other.host+"/x:1", o); !errors.As(err, &refused) {
				t.Errorf("to another registry: %v", err)
			}
			if strings.Contains(fmt.Sprint(other.requests), "PATCH ") {
				t.Errorf("it was refused after a layer was sent: %q", other.requests)
			}
			o.AllowCopy = true
			list := rewritten(t, b)
			list[0].Compression = "zstd"
			_, err := PublishRewritten(t.Context(), b, list, "oci:"+dir+":1", o)
			if name == "docker" {
				wantError(t, err, "oci:TMP/out:1: layer 2: an image in Docker's format has no zstd: leave out --compress zstd")
				list[0].Compression = "gzip"
				_, err = PublishRewritten(t.Context(), b, list, "oci:"+dir+":1", o)
			}
			if err != nil {
				t.Fatal(err)
			}
			index, err := ociLayout.ImageIndexFromPath(dir)
			if err != nil {
				t.Fatal(err)
			}
			m, err := index.IndexManifest()
			if err != nil || len(m.Manifests) != 1 {
				t.Fatal(m, err)
			}
			out, err := index.Image(m.Manifests[0].Digest)
			if err != nil {
				t.Fatal(err)
			}
			wantRewritten(t, img, out, name == "oci")
			if blobs, err := os.ReadDir(filepath.Join(dir, "blobs", "sha256")); err != nil || len(blobs) != 4 {
				t.Errorf("the layout has %d blobs, want two layers, a config and a manifest: %v", len(blobs), err)
			}
		})
	}
}

// An index keeps its other entries, without the attestations of the new images; an image that
// was patched is rewritten as it is.
func TestRewriteIndex(t *testing.T) {
	s := newServer(t)
	ref := s.push(t, "multi:1", platforms(t))
	o := quick()
	var notes []string
	o.Note = func(line string) { notes = append(notes, line) }
	b := open(t, ref, o)
	if _, err := PublishRewritten(t.Context(), b, rewritten(t, b)[:1], s.host+"/multi:slim", o); err != nil {
		t.Fatal(err)
	}
	s.whole(t, "multi:slim")
	d, err := remote.Index(s.ref(t, "multi:slim"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.IndexManifest()
	if err != nil || len(m.Manifests) != 3 || len(notes) != 1 || !strings.Contains(notes[0], "attest") {
		t.Errorf("%d entries, notes %q: %v", len(m.Manifests), notes, err)
	}
	one := s.push(t, "app:1", imagetest.V1(t, app))
	patched := do(t, one, s.host+"/app:patched", quick())
	o.AsFound = true
	b = open(t, patched, o)
	if b.Images[0].Patched != "" || len(b.Images[0].Layers) != 3 {
		t.Errorf("of a patched image with AsFound: %d layers", len(b.Images[0].Layers))
	}
	if _, err := PublishRewritten(t.Context(), b, rewritten(t, b), s.host+"/app:slim", o); err != nil {
		t.Fatal(err)
	}
	_, err = Undo(t.Context(), s.host+"/app:slim", quick())
	wantError(t, err, "HOST/app:slim: was made from a patched image and has changed since; the patch began with HOST/app@sha256:HEX")
}

// A layer that fails, and an upload that breaks, leave the name as it was.
func TestRewriteFails(t *testing.T) {
	s := newServer(t)
	b := open(t, s.push(t, "app:1", imagetest.V1(t, app)), quick())
	broken := func() []*Rewrite {
		list := rewritten(t, b)
		list[0].Layers[1] = func(_ context.Context, w io.Writer) error {
			io.WriteString(w, "the first bytes")
			return errors.New("the blob is damaged")
		}
		return list
	}
	dir := t.TempDir()
	for to, want := range map[string]string{
		s.host + "/app:slim": "HOST/app:slim: layer 2: pushing the new layer: reading it: the blob is damaged",
		"oci:" + dir + ":1":  "oci:TMP:1: layer 2: the blob is damaged",
	} {
		o := quick()
		o.AllowCopy = true
		_, err := PublishRewritten(t.Context(), b, broken(), to, o)
		wantError(t, err, want)
	}
	if s.digest(t, "app:slim") != "" {
		t.Error("the name is there")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "blobs", "sha256", ".imgcheck-*")); len(left) > 0 {
		t.Errorf("the layout has %q", left)
	}
	var cut atomic.Int32
	s.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && cut.Add(1) == 1 {
			cutOff(w, r, nil)
		}
		return false
	})
	if _, err := PublishRewritten(t.Context(), b, rewritten(t, b), s.host+"/app:slim", quick()); err != nil {
		t.Fatal(err)
	}
	s.reset(nil)
	s.validated(t, "app:slim")
	list := rewritten(t, b)
	list[0].Layers[7] = list[0].Layers[1]
	_, err := PublishRewritten(t.Context(), b, list, s.host+"/app:more", quick())
	wantError(t, err, "HOST/app:more: the image has 2 layers, and others are to be written")
	_, err = PublishRewritten(t.Context(), b, rewritten(t, b), "docker:app", quick())
	wantError(t, err, "docker:app: new layers go to a registry or an OCI layout: say NAME:TAG or oci:DIR:TAG")
	foreign := mutate.MediaType(imagetest.V1(t, app), types.OCIManifestSchema1)
	b = open(t, s.push(t, "app:2", foreign), quick())
	b.Images[0].manifest.Layers[1].MediaType = types.OCIRestrictedLayer
	_, err = PublishRewritten(t.Context(), b, rewritten(t, b), s.host+"/app:3", quick())
	wantError(t, err, "HOST/app:3: layer 2: may not be distributed, and cannot be changed")
}
