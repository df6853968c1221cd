package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ociLayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/opencontainers/image-spec/schema"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Whatever is published, wherever to: crane validate finds nothing wrong with it,
// the image-spec's own schemas fit, skopeo copies it, and umoci unpacks it to what
// it should hold.
func TestAccepted(t *testing.T) {
	s := distribution(t)
	allowed := quick()
	allowed.AllowCopy = true
	for kind, img := range map[string]remote.Taggable{
		"gzip":   imagetest.V1(t, app),
		"zstd":   imagetest.V1(t, "compress zstd"+app),
		"docker": docker(t, imagetest.V1(t, app)),
		"index":  platforms(t),
		"list":   dockerList(t),
	} {
		ref := s.push(t, kind+":1", img)
		t.Run(kind+" to a registry", func(t *testing.T) {
			for _, to := range []string{kind + ":fixed", "other/" + kind + ":fixed"} {
				do(t, ref, s.host+"/"+to, quick())
				s.accepted(t, to)
			}
		})
		t.Run(kind+" to a layout", func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "layout")
			fixed := do(t, ref, "oci:"+dir+":fixed", allowed)
			layoutAccepted(t, dir)
			if again := do(t, ref, "oci:"+dir+":fixed", allowed); again != fixed {
				t.Errorf("again: %s, not %s", again, fixed)
			}
			// All that an undo needs is there, and that another patch begins with.
			if again := do(t, "oci:"+dir+":fixed", "oci:"+dir+":fixed", quick()); again != fixed {
				t.Errorf("patched once more: %s, not %s", again, fixed)
			}
			third := filepath.Join(t.TempDir(), "third")
			do(t, "oci:"+dir+":fixed", "oci:"+third+":fixed", quick())
			for _, dir := range []string{dir, third} {
				if _, err := Undo(t.Context(), "oci:"+dir+":fixed", quick()); err != nil {
					t.Fatal(err)
				}
				layoutValid(t, dir)
				was, now := open(t, ref, quick()), open(t, "oci:"+dir+":fixed", quick())
				for i, img := range now.Images {
					if img.Patched != "" || !bytes.Equal(img.RawConfig, was.Images[i].RawConfig) {
						t.Errorf("undone, image %d of %s is another than it was", i, dir)
					}
				}
				// In Docker's format it would be of no use to others in a layout.
				if kind != "docker" && kind != "list" && now.Digest != was.Digest {
					t.Errorf("undone to %s, not %s", now.Digest, was.Digest)
				}
			}
		})
		t.Run(kind+" to an archive", func(t *testing.T) {
			o := allowed
			o.Platform = &v1.Platform{OS: "linux", Architecture: "amd64"}
			file := filepath.Join(t.TempDir(), "fixed.tar")
			do(t, ref, "docker-archive:"+file+":app:fixed", o)
			img, err := tarball.ImageFromPath(file, nil)
			if err == nil {
				err = craneValidate(img)
			}
			if err != nil {
				t.Error(err)
			}
			unpacked(t, "docker-archive:"+file)
		})
	}
}

// dockerList returns an index in Docker's format.
func dockerList(t *testing.T) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	for _, arch := range []string{"amd64", "arm64"} {
		img := docker(t, imagetest.V1(t, "platform linux/"+arch+app))
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	return index
}

// accepted checks what a registry has under a name.
func (s *server) accepted(t *testing.T, repoTag string) {
	t.Helper()
	d, err := remote.Get(s.ref(t, repoTag))
	if err != nil {
		t.Fatal(err)
	}
	at := "docker://" + s.host + "/" + repoTag
	if d.MediaType.IsIndex() {
		var index v1.ImageIndex
		if index, err = d.ImageIndex(); err == nil {
			err = indexAccepted(t, index)
		}
	} else {
		var img v1.Image
		if img, err = d.Image(); err == nil {
			err = imageAccepted(t, img)
		}
	}
	if err != nil {
		t.Errorf("%s: %v", repoTag, err)
	}
	// Skopeo sees the manifest that was published.
	if raw := tooltest.Output(t, tooltest.Need(t, "skopeo", "skopeo"), "inspect", "--tls-verify=false", "--raw", at); raw != string(d.Manifest) {
		t.Errorf("%s: skopeo has %s", repoTag, raw)
	}
	unpacked(t, at)
}

func indexAccepted(t *testing.T, index v1.ImageIndex) error {
	raw, err := index.RawManifest()
	if err != nil {
		return err
	}
	m, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if m.MediaType != types.DockerManifestList { // the schemas are of OCI's
		if err := schema.ValidatorMediaTypeImageIndex.Validate(bytes.NewReader(raw)); err != nil {
			return err
		}
	}
	for _, d := range m.Manifests {
		if attests(d) != "" {
			continue // crane validate reads its layer as a tar
		}
		if d.MediaType.IsIndex() {
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return err
			}
			if err := indexAccepted(t, inner); err != nil {
				return err
			}
			continue
		}
		img, err := index.Image(d.Digest)
		if err != nil {
			return err
		}
		if err := imageAccepted(t, img); err != nil {
			return err
		}
	}
	return nil
}

// craneValidate validates an image as `crane validate` does; one with zstd, which crane
// takes for gzip, as its --fast does: by its documents.
func craneValidate(img v1.Image) error {
	list, err := img.Layers()
	if err != nil {
		return err
	}
	for _, l := range list {
		rc, err := l.Compressed()
		if err != nil {
			return err
		}
		head := make([]byte, 4)
		_, err = io.ReadFull(rc, head)
		rc.Close()
		if err != nil {
			return err
		}
		if bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			return validate.Image(img, validate.Fast)
		}
	}
	return validate.Image(img)
}

// imageAccepted validates an image as `crane validate` does, and by the image-spec.
func imageAccepted(t *testing.T, img v1.Image) error {
	if err := craneValidate(img); err != nil {
		return err
	}
	mt, err := img.MediaType()
	if err != nil || mt != types.OCIManifestSchema1 {
		return err
	}
	raw, err := img.RawManifest()
	if err == nil {
		err = schema.ValidatorMediaTypeManifest.Validate(bytes.NewReader(raw))
	}
	if err != nil {
		return err
	}
	if raw, err = img.RawConfigFile(); err != nil {
		return err
	}
	return schema.ValidatorMediaTypeImageConfig.Validate(bytes.NewReader(raw))
}

// layoutAccepted checks a layout that has one name, of a patched image.
func layoutAccepted(t *testing.T, dir string) {
	t.Helper()
	unpacked(t, layoutValid(t, dir))
}

// layoutValid checks a layout that has one name, and has skopeo copy what it means.
func layoutValid(t *testing.T, dir string) string {
	t.Helper()
	err := schema.ValidatorMediaTypeLayoutHeader.Validate(bytes.NewReader(readFile(t, filepath.Join(dir, "oci-layout"))))
	if err != nil {
		t.Error(err)
	}
	index, err := ociLayout.ImageIndexFromPath(dir)
	if err == nil {
		err = indexAccepted(t, index)
	}
	if err != nil {
		t.Errorf("%s: %v", dir, err)
	}
	var named struct{ Manifests []v1.Descriptor }
	if err := json.Unmarshal(readFile(t, filepath.Join(dir, "index.json")), &named); err != nil || len(named.Manifests) != 1 {
		t.Fatalf("%+v, %v", named, err)
	}
	ref := "oci:" + dir + ":" + named.Manifests[0].Annotations[source.RefName]
	tooltest.Output(t, tooltest.Need(t, "skopeo", "skopeo"), "copy", "--all", ref, "dir:"+t.TempDir())
	return ref
}

// unpacked copies all of an image with skopeo, and unpacks it with umoci, which knows no
// zstd.
func unpacked(t *testing.T, from string) {
	t.Helper()
	skopeo, umoci := tooltest.Need(t, "skopeo", "skopeo"), tooltest.Need(t, "umoci", "umoci")
	dir := t.TempDir()
	tooltest.Output(t, skopeo, "copy", "--src-tls-verify=false", "--all", from, "dir:"+filepath.Join(dir, "all"))
	plain := "dir:" + filepath.Join(dir, "plain")
	tooltest.Output(t, skopeo, "copy", "--src-tls-verify=false", "--override-arch", "amd64", "--dest-decompress", from, plain)
	tooltest.Output(t, skopeo, "copy", plain, "oci:"+filepath.Join(dir, "oci")+":1")
	tooltest.Output(t, umoci, "unpack", "--rootless", "--image", filepath.Join(dir, "oci")+":1", filepath.Join(dir, "bundle"))
	root := filepath.Join(dir, "bundle", "rootfs")
	if _, err := os.Lstat(filepath.Join(root, "opt/old/libstub.so")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: the whiteout did nothing: %v", from, err)
	}
	if link, err := os.Readlink(filepath.Join(root, "lib/libcudnn.so")); link != "libcudnn.so.8" {
		t.Errorf("%s: the link is %q, %v", from, link, err)
	}
	if got := string(readFile(t, filepath.Join(root, "opt/imgcheck/lib/libx.so.1"))); got != "new" {
		t.Errorf("%s: the new file is %q", from, got)
	}
	var config struct{ Process struct{ Env []string } }
	if err := json.Unmarshal(readFile(t, filepath.Join(dir, "bundle", "config.json")), &config); err != nil || !strings.Contains(strings.Join(config.Process.Env, " "), "LD_LIBRARY_PATH=/opt/imgcheck/lib") {
		t.Errorf("%s: env %q, %v", from, config.Process.Env, err)
	}
}
