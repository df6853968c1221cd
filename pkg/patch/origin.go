package patch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// The mark of a patched image: where it comes from. In an OCI image these are annotations
// of the manifest. Docker's manifests have none, so that they are labels of the config.
const (
	// https://github.com/opencontainers/image-spec/blob/main/annotations.md
	keyBaseName   = "org.opencontainers.image.base.name"
	keyBaseDigest = "org.opencontainers.image.base.digest"

	// keyOrigin names the image that was patched: repository@digest, or the
	// digest alone where it is in no registry.
	keyOrigin = "io.github.imgcheck.patch.origin"
	// keyIndex names the index that it was in, in the same way.
	keyIndex = "io.github.imgcheck.patch.index"
	// keyConfig is the digest of the config that was written; as a label, that of the
	// config without this label. It tells a patched image from one that was built
	// from it, which inherits the labels, and from one that was edited, which keeps the
	// annotations.
	keyConfig = "io.github.imgcheck.patch.config"
)

// attests returns the digest of the image that an entry of an index attests, in
// BuildKit's format, or ""
// (https://github.com/moby/buildkit/blob/master/docs/attestations/attestation-storage.md).
func attests(d v1.Descriptor) string {
	if d.Annotations["vnd.docker.reference.type"] != "attestation-manifest" {
		return ""
	}
	return d.Annotations["vnd.docker.reference.digest"]
}

// mark is the mark of a patched image; empty for another image.
type mark struct {
	origin, index, baseName string
	whole                   bool // the config is still the one that the patch wrote
}

// mark returns the image's mark.
func (img *Image) mark() mark {
	says := img.Config.Config.Labels
	if annotated(img.MediaType) {
		says = img.manifest.Annotations
	}
	m := mark{origin: says[keyOrigin], index: says[keyIndex], baseName: says[keyBaseName]}
	if m.origin == "" {
		return m
	}
	if annotated(img.MediaType) {
		m.whole = says[keyConfig] == img.manifest.Config.Digest.String()
	} else if bare, err := drop(img.RawConfig, "config", "Labels", keyConfig); err == nil {
		m.whole = says[keyConfig] == digestOf(bare).String()
	}
	return m
}

// annotated reports whether manifests of a type have annotations.
func annotated(mt types.MediaType) bool {
	return mt == types.OCIManifestSchema1 || mt == types.OCIImageIndex
}

// openOrigin opens the image that a mark names as its origin.
func (b *Base) openOrigin(ctx context.Context, m mark, o Options) (*Image, error) {
	src, doc, err := b.fetchOrigin(ctx, m.origin, o)
	if err != nil {
		return nil, err
	}
	img, err := readImage(ctx, src, doc)
	if err != nil {
		return nil, fmt.Errorf("its origin %s: %w", m.origin, err)
	}
	return img, nil
}

// fetchOrigin fetches an origin from the store of its patched image, else from the
// repository that it names. It asks no other registry: whoever made the image could
// name any host.
func (b *Base) fetchOrigin(ctx context.Context, origin string, o Options) (source.Store, *source.Document, error) {
	place, hex, found := strings.Cut(origin, "@")
	if !found {
		place, hex = "", origin
	}
	digest, err := v1.NewHash(hex)
	if err != nil {
		return nil, nil, fmt.Errorf("says that its origin is %q, which is no image reference", origin)
	}
	doc, err := b.src.Manifest(ctx, digest)
	if err == nil {
		return b.src, doc, nil
	}
	here, ok := b.src.(*repository)
	if !errors.Is(err, fs.ErrNotExist) || !ok || place == "" || place == here.Name() {
		return nil, nil, fmt.Errorf("is a patched image, and its origin %s cannot be fetched: %w", origin, err)
	}
	ref, err := source.ParseReference(origin, o.Insecure)
	if err != nil || ref.Context().RegistryStr() != here.ref.Context().RegistryStr() {
		return nil, nil, fmt.Errorf("is a patched image whose origin %s is in another registry: patch that one", origin)
	}
	there, doc, err := openRepository(ctx, origin, o)
	if err != nil {
		return nil, nil, fmt.Errorf("is a patched image, and its origin %s cannot be fetched: %w", origin, err)
	}
	return there, doc, nil
}
