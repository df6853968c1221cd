package patch

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// memory is a store of one config.
type memory struct{ config []byte }

func (m memory) Name() string { return "" }

func (m memory) Manifest(context.Context, v1.Hash) (*source.Document, error) {
	return nil, fs.ErrNotExist
}

func (m memory) Blob(context.Context, v1.Descriptor, func(string)) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(m.config)), nil
}

// Whatever manifest and config say, a patch of them is refused, or is what they
// were, one layer and one variable more.
func FuzzApply(f *testing.F) {
	layer := fmt.Sprintf(`{"mediaType":"%s","digest":"sha256:%064d","size":1}`, types.OCILayer, 1)
	f.Add([]byte(`{"schemaVersion":2,"config":{CONFIG},"layers":[`+layer+`],"x":1.0}`), []byte(`{"os":"linux","config":{"Env":["A=0","A=1"],"x":[]},"rootfs":{"diff_ids":["`+fmt.Sprintf("sha256:%064d", 1)+`"]},"history":[{"created_by":"x"}]}`))
	f.Add([]byte(`{"config":{CONFIG,"data":"eA=="},"layers":[],"annotations":null}`), []byte(`{"config":null,"rootfs":{"type":"layers","diff_ids":null},"history":null}`))
	f.Add([]byte(`{"config":{CONFIG},"Layers":[],"layers":[]}`), []byte(`{}`))
	f.Add([]byte(`{"config":{CONFIG},"layers":null,"annotations":{"a":"b"}}`), []byte("{\"Config\":{},\"rootfs\":{\"diff_ids\":[]}}"))
	base := layers.Merge()
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		desc := fmt.Sprintf(`"mediaType":"%s","digest":"%s","size":%d`, types.OCIConfigJSON, digestOf(config), len(config))
		manifest = bytes.Replace(manifest, []byte("CONFIG"), []byte(desc), 1)
		for _, mt := range []types.MediaType{types.OCIManifestSchema1, types.DockerManifestSchema2} {
			img, err := readImage(t.Context(), memory{config}, &source.Document{Raw: manifest, MediaType: mt})
			if err != nil {
				continue
			}
			img.mark()
			p, err := Apply(t.Context(), img, base, Change{
				Files: []File{{Path: "a", Link: "b"}},
				Env:   []EnvEdit{{Name: "A", Value: "new"}},
			})
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("more than a line: %q", err)
				}
				continue
			}
			var now v1.Manifest
			if err := json.Unmarshal(p.Manifest, &now); err != nil {
				t.Fatalf("%s: %v", p.Manifest, err)
			}
			if len(now.Layers) != len(img.manifest.Layers)+1 || !cmp.Equal(now.Layers[:len(now.Layers)-1], img.manifest.Layers) && len(img.manifest.Layers) > 0 || now.Config.Digest != digestOf(p.Config) || now.Config.Size != int64(len(p.Config)) {
				t.Errorf("%s became %s", manifest, p.Manifest)
			}
			var cfg v1.ConfigFile
			if err := json.Unmarshal(p.Config, &cfg); err != nil {
				t.Fatalf("%s: %v", p.Config, err)
			}
			if !slices.Contains(cfg.Config.Env, "A=new") || len(cfg.RootFS.DiffIDs) != len(now.Layers) {
				t.Errorf("%s became %s", config, p.Config)
			}
			again, err := readImage(t.Context(), memory{p.Config}, &source.Document{Raw: p.Manifest, MediaType: mt})
			if err != nil {
				t.Fatalf("%s, %s: %v", p.Manifest, p.Config, err)
			}
			if m := again.mark(); !m.whole || m.origin != img.Digest {
				t.Errorf("%s, %s: the origin is %+v", p.Manifest, p.Config, m)
			}
			// In a layout it names the same blobs, by OCI's names.
			oci, err := p.asOCI()
			if err != nil {
				continue
			}
			if again, err = readImage(t.Context(), memory{p.Config}, &source.Document{Raw: oci.Manifest, MediaType: types.OCIManifestSchema1}); err != nil {
				t.Fatalf("%s: %v", oci.Manifest, err)
			}
			if m := again.mark(); !m.whole || m.origin != img.Digest || oci.Digest != again.Digest {
				t.Errorf("%s: the origin is %+v", oci.Manifest, m)
			}
			for i, d := range again.manifest.Layers {
				if was := now.Layers[i]; d.Digest != was.Digest || d.Size != was.Size || ociTypes[d.MediaType] != "" && mt != types.OCIManifestSchema1 {
					t.Errorf("%s became %s", p.Manifest, oci.Manifest)
				}
			}
		}
	})
}

// An archive is refused, or has a config and as many layers as that says.
func FuzzArchive(f *testing.F) {
	saved := func(files ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := 0; i < len(files); i += 2 {
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644})
			io.WriteString(w, files[i+1])
		}
		w.Close()
		return b.Bytes()
	}
	f.Add(saved("c.json", `{"rootfs":{"diff_ids":[]}}`, "manifest.json", `[{"Config":"c.json","Layers":[]}]`))
	f.Add(saved("c.json", `{"rootfs":{"diff_ids":["sha256:`+strings.Repeat("0", 64)+`"]}}`, "l", "x", "manifest.json", `[{"Config":"./c.json","Layers":["l"],"RepoTags":["a:1"]}]`))
	f.Add(saved("manifest.json", `[{"Config":"../c.json"},{}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &archive{open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
		b := &Base{Ref: "docker-archive:x"}
		if err := b.readArchive(t.Context(), a, Options{}); err != nil {
			if len(b.Images) > 0 {
				t.Errorf("an image beside an error: %v", err)
			}
			return
		}
		if len(b.Images) != 1 || len(a.saved.Layers) != len(b.Images[0].Config.RootFS.DiffIDs) || digestOf(a.saved.RawConfig).String() != b.Digest {
			t.Errorf("%+v", b)
		}
	})
}
