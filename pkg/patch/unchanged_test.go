package patch

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// An image that needs no patch is published as it is: with its digest, whole, of an
// index all of it. A patched one stays patched.
func TestUnchanged(t *testing.T) {
	s, elsewhere := distribution(t), distribution(t)
	allowed := quick()
	allowed.AllowCopy = true
	for kind, img := range map[string]remote.Taggable{
		"gzip":   imagetest.V1(t, app),
		"docker": docker(t, imagetest.V1(t, app)),
		"index":  platforms(t),
		"list":   dockerList(t),
	} {
		t.Run(kind, func(t *testing.T) {
			ref := s.push(t, kind+":1", img)
			b := open(t, ref, quick())
			for _, to := range []string{kind + ":same", "other/" + kind + ":same"} {
				got, err := PublishUnchanged(t.Context(), b, s.host+"/"+to, quick())
				if err != nil {
					t.Fatal(err)
				}
				s.whole(t, to)
				if !strings.HasSuffix(got, "@"+b.Digest) || s.digest(t, to) != b.Digest {
					t.Errorf("%s is %s, not %s", to, got, b.Digest)
				}
			}
			var ce *CopyError
			if _, err := PublishUnchanged(t.Context(), b, elsewhere.host+"/"+kind+":same", quick()); !errors.As(err, &ce) {
				t.Errorf("error %v", err)
			}
			if _, err := PublishUnchanged(t.Context(), b, elsewhere.host+"/"+kind+":same", allowed); err != nil {
				t.Error(err)
			}
			elsewhere.whole(t, kind+":same")
			dir := filepath.Join(t.TempDir(), "layout")
			got, err := PublishUnchanged(t.Context(), b, "oci:"+dir+":same", allowed)
			if err != nil {
				t.Fatal(err)
			}
			layoutValid(t, dir)
			if inDocker := kind == "docker" || kind == "list"; strings.HasSuffix(got, "@"+b.Digest) == inDocker {
				t.Errorf("the layout has %s, the registry %s", got, b.Digest)
			}

			one := allowed
			one.Platform = &v1.Platform{OS: "linux", Architecture: "amd64"}
			file := filepath.Join(t.TempDir(), "same.tar")
			if _, err := PublishUnchanged(t.Context(), open(t, ref, one), "docker-archive:"+file+":app:same", one); err != nil {
				t.Fatal(err)
			}
			if v, err := tarball.ImageFromPath(file, nil); err != nil {
				t.Error(err)
			} else if err := craneValidate(v); err != nil {
				t.Error(err)
			}

			do(t, ref, s.host+"/"+kind+":fixed", quick())
			b = open(t, s.host+"/"+kind+":fixed", one)
			if _, err := PublishUnchanged(t.Context(), b, s.host+"/"+kind+":copy", quick()); err != nil {
				t.Fatal(err)
			}
			if got, want := s.digest(t, kind+":copy"), s.digest(t, kind+":fixed"); got != want {
				t.Errorf("a copy of the patched image is %s, not %s", got, want)
			}
			patched := filepath.Join(t.TempDir(), "patched.tar")
			if _, err := PublishUnchanged(t.Context(), b, "docker-archive:"+patched, one); err != nil {
				t.Fatal(err)
			}
			wantPatched(t, "docker-archive:"+patched)
		})
	}
}
