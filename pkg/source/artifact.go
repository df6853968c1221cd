package source

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Artifact is a thing that a registry stores beside images (OCI image-spec, manifest.md, "Guidelines for
// Artifact Usage").
type Artifact struct {
	Type    string         // a media type
	Subject *v1.Descriptor // the manifest that it refers to, or nil
	Layers  []v1.Layer
	Tag     string // a name beside its digest, or ""
}

// emptyConfig is the config of an artifact that has none.
const emptyConfig = types.MediaType("application/vnd.oci.empty.v1+json")

// artifactManifest is a manifest to store.
type artifactManifest struct{ raw []byte }

// RawManifest returns the manifest.
func (a artifactManifest) RawManifest() ([]byte, error) { return a.raw, nil }

// MediaType returns the type of an image's manifest, which artifacts have, too.
func (a artifactManifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// PutArtifact stores an artifact in a repository of a registry: its blobs first, then its
// manifest. One with a subject becomes a referrer of it, by the API for that or, where a registry
// has none, by a tag. The same artifact has the same digest, with which PutArtifact returns its
// reference.
func PutArtifact(ctx context.Context, repo name.Repository, a Artifact, o Options) (name.Digest, error) {
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithUserAgent("imgcheck"), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(PushTransport(o.Insecure, o.Sleep)),
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: a.Type, Subject: a.Subject}
	put := func(l v1.Layer) (v1.Descriptor, error) {
		if err := remote.WriteLayer(repo, l, options...); err != nil {
			return v1.Descriptor{}, RegistryError(repo.Tag(cmp.Or(a.Tag, "latest")), err)
		}
		d, err := partial.Descriptor(l)
		if err != nil {
			return v1.Descriptor{}, err
		}
		return *d, nil
	}
	var err error
	if manifest.Config, err = put(static.NewLayer([]byte("{}"), emptyConfig)); err != nil {
		return name.Digest{}, err
	}
	for _, l := range a.Layers {
		d, err := put(l)
		if err != nil {
			return name.Digest{}, err
		}
		manifest.Layers = append(manifest.Layers, d)
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return name.Digest{}, err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return name.Digest{}, err
	}
	stored := repo.Digest(digest.String())
	var to name.Reference = stored
	if a.Tag != "" {
		to = repo.Tag(a.Tag)
	}
	if err := remote.Put(to, artifactManifest{raw}, options...); err != nil {
		return name.Digest{}, fmt.Errorf("storing %s: %w", WrittenName(to.String()), RegistryError(to, err))
	}
	return stored, nil
}
