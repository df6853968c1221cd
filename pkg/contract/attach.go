package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// artifact is a manifest that refers to an image.
type artifact struct{ raw []byte }

// RawManifest returns the manifest.
func (a artifact) RawManifest() ([]byte, error) { return a.raw, nil }

// MediaType returns the type of an image's manifest, which OCI's artifacts have, too.
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// emptyConfig is the config of an artifact that has none (OCI image-spec, manifest.md).
const emptyConfig = types.MediaType("application/vnd.oci.empty.v1+json")

// Attach stores the specification of [Image.NFD] in the image's repository, as a referrer of
// its manifest: by the API for referrers, or by a tag where a registry has none. It returns a
// reference to the artifact. The same specification gives the same artifact.
func (img *Image) Attach(ctx context.Context, o source.Options) (string, error) {
	spec, err := img.NFD()
	if err != nil {
		return "", err
	}
	scheme, rest := source.Split(img.Ref)
	if scheme != "registry" || img.Subject.Digest.Hex == "" {
		return "", fmt.Errorf("%s is not in a registry: only an image there can have an artifact attached", img.Ref)
	}
	ref, err := source.ParseReference(rest, o.Insecure)
	if err != nil {
		return "", err
	}
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: nfdArtifact, Subject: &img.Subject,
	}
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithUserAgent("imgcheck"), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(source.PushTransport(o.Insecure, o.Sleep)),
	}
	for _, blob := range []struct {
		content   []byte
		mediaType types.MediaType
	}{{[]byte("{}"), emptyConfig}, {spec, nfdSpec}} {
		l := static.NewLayer(blob.content, blob.mediaType)
		if err := remote.WriteLayer(ref.Context(), l, options...); err != nil {
			return "", fmt.Errorf("attaching to %s: %w", img.Ref, source.RegistryError(ref, err))
		}
		d, err := descriptor(l)
		if err != nil {
			return "", err
		}
		if blob.mediaType == emptyConfig {
			manifest.Config = d
			continue
		}
		manifest.Layers = append(manifest.Layers, d)
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return "", err
	}
	to := ref.Context().Digest(digest.String())
	if err := remote.Put(to, artifact{raw}, options...); err != nil {
		return "", fmt.Errorf("attaching to %s: %w", img.Ref, source.RegistryError(ref, err))
	}
	return to.String(), nil
}

func descriptor(l v1.Layer) (v1.Descriptor, error) {
	digest, err := l.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	size, err := l.Size()
	if err != nil {
		return v1.Descriptor{}, err
	}
	mediaType, err := l.MediaType()
	return v1.Descriptor{MediaType: mediaType, Size: size, Digest: digest}, err
}
