package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The names by which BuildKit stores an attestation: a manifest beside the image in its
// index, with a layer for each statement
// (https://github.com/moby/buildkit/blob/master/docs/attestations/attestation-storage.md).
const (
	referenceType   = "vnd.docker.reference.type"
	referenceDigest = "vnd.docker.reference.digest"
	isAttestation   = "attestation-manifest"
	predicateType   = "in-toto.io/predicate-type"
	inTotoMediaType = "application/vnd.in-toto+json"
	isProvenance    = "https://slsa.dev/provenance/"
)

// maxAttestations bounds the attestations of one image that are read. BuildKit writes one
// for each platform.
const maxAttestations = 4

// ErrNoProvenance is the error of an image whose index has no provenance of it.
var ErrNoProvenance = errors.New("the image has no provenance")

// attestationsOf returns the entries of an index that are attestations of an image.
func attestationsOf(list []v1.Descriptor, image v1.Hash) (out []v1.Descriptor) {
	for _, d := range list {
		if d.Annotations[referenceType] == isAttestation && d.Annotations[referenceDigest] == image.String() && d.MediaType.IsImage() && len(out) < maxAttestations {
			out = append(out, d)
		}
	}
	return out
}

// Attested names the attestations that the image's index has of it, by their digests. It
// is empty if there are none.
func (img *Image) Attested() string {
	var all []string
	for _, d := range img.attestations {
		all = append(all, d.Digest.String())
	}
	return strings.Join(all, " ")
}

// Provenance returns the in-toto statement that says how the image was built, whole, its
// digest verified. It returns [ErrNoProvenance] if there is none. A statement is larger
// than the manifest of the image, and is read only here.
func (img *Image) Provenance(ctx context.Context) ([]byte, error) {
	for _, a := range img.attestations {
		d, err := img.Store.Manifest(ctx, a.Digest)
		if err != nil {
			return nil, fmt.Errorf("reading the attestation: %w", err)
		}
		if err := checkElements(d.Raw); err != nil {
			return nil, fmt.Errorf("the attestation: %w", err)
		}
		m, err := v1.ParseManifest(bytes.NewReader(d.Raw))
		if err != nil {
			return nil, badDocument(img.Store, "attestation", err)
		}
		for _, l := range m.Layers {
			if l.MediaType != inTotoMediaType || !strings.HasPrefix(l.Annotations[predicateType], isProvenance) {
				continue
			}
			raw, err := ReadBlob(ctx, img.Store, l)
			if err == nil {
				err = checkElements(raw)
			}
			if err != nil {
				return nil, fmt.Errorf("reading the provenance: %w", err)
			}
			return raw, nil
		}
	}
	return nil, ErrNoProvenance
}
