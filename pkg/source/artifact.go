package source

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// EmptyConfig is the media type of the config of an artifact that has none. Its content is
// {} (OCI image-spec, manifest.md).
const EmptyConfig = types.MediaType("application/vnd.oci.empty.v1+json")

// Artifacts writes OCI artifacts to a repository. It logs in once. Any number of goroutines
// may use it.
type Artifacts struct {
	repo   name.Repository
	pusher *remote.Pusher
}

// NewArtifacts returns a writer to a repository. It sends nothing yet.
func NewArtifacts(repo name.Repository, o Options) (*Artifacts, error) {
	p, err := remote.NewPusher(remote.WithUserAgent("imgcheck"), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(PushTransport(o.Insecure, o.Sleep)))
	return &Artifacts{repo, p}, err
}

// Blob uploads a blob, unless the repository has it, and returns its descriptor.
func (a *Artifacts) Blob(ctx context.Context, content []byte, mediaType types.MediaType) (v1.Descriptor, error) {
	l := static.NewLayer(content, mediaType)
	d, err := partial.Descriptor(l)
	if err == nil {
		err = a.pusher.Upload(ctx, a.repo, l)
	}
	if err != nil {
		return v1.Descriptor{}, RegistryError(a.repo.Tag(""), err)
	}
	return *d, nil
}

// Put uploads the manifest of an artifact, which has no config, and returns a reference by
// its digest. Its layers must be there already. If it has a subject and the registry lacks
// the API for referrers, Put lists it under the tag for them. A tag, unless empty, names it
// as well.
func (a *Artifacts) Put(ctx context.Context, m v1.Manifest, tag string) (name.Digest, error) {
	m.SchemaVersion, m.MediaType = 2, types.OCIManifestSchema1
	var err error
	if m.Config, err = a.Blob(ctx, []byte("{}"), EmptyConfig); err != nil {
		return name.Digest{}, err
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return name.Digest{}, err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return name.Digest{}, err
	}
	at := a.repo.Digest(digest.String())
	to := name.Reference(at)
	if tag != "" {
		to = a.repo.Tag(tag)
	}
	if err := a.pusher.Put(ctx, to, artifact{raw}); err != nil {
		return name.Digest{}, RegistryError(to, err)
	}
	return at, nil
}

// artifact is the manifest of an artifact.
type artifact struct{ raw []byte }

// RawManifest returns the manifest.
func (a artifact) RawManifest() ([]byte, error) { return a.raw, nil }

// MediaType returns the type of an image's manifest, which OCI's artifacts have, too.
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
