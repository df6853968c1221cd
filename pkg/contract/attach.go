package contract

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/source"
)

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
	to, err := source.NewArtifacts(ref.Context(), o)
	if err != nil {
		return "", err
	}
	blob, err := to.Blob(ctx, spec, nfdSpec)
	if err != nil {
		return "", fmt.Errorf("attaching to %s: %w", img.Ref, err)
	}
	at, err := to.Put(ctx, v1.Manifest{ArtifactType: nfdArtifact, Subject: &img.Subject, Layers: []v1.Descriptor{blob}}, "")
	if err != nil {
		return "", fmt.Errorf("attaching to %s: %w", img.Ref, err)
	}
	return at.String(), nil
}
