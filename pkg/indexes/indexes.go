// Package indexes shares the indexes of layers through registries, so that a layer that one
// machine has read need not be read, nor fetched, by another.
//
// They are OCI artifacts in one of two places ([Place]). A referrer of an image has one blob for
// each of the image's layers. A repository of indexes has one artifact for each layer,
// tagged by the layer's digest and the reader that made the index: images with one base
// share it there, wherever they are.
//
// An index decides the verdict on an image, and nothing in it proves that it is the layer's. Without
// a key whoever may write to the place is believed. So referrers are taken
// from the image's own repository alone, where the same people could push another image, and
// another repository only if the user names it. With keys only artifacts are used that one of them
// has signed (pkg/signature), wherever they are. Everything that comes from either is hostile
// otherwise: [Reader] bounds an artifact before it reads it, verifies the digests, and refuses
// what is of another layer, another image or another reader. The layer is read then.
//
// A cache as a whole ([PushCache], [PullCache]) moves with the codes at the end of its files,
// so that only those with the same key believe it; the repository need not be trusted.
//
// The package does not know how a layer is read, nor the form of an index (pkg/layers).
package indexes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// The types of an artifact of indexes and of the blobs in it.
const (
	ArtifactType = "application/vnd.imgcheck.layer-index.v1"
	blobType     = types.MediaType("application/vnd.imgcheck.layer-index.v1+zstd")
)

// Annotations of a blob: of which layer it is, by the digest of the layer as it is stored and of its
// tar, and which reader has made it. The artifact has the reader's as well, so that a list
// of referrers shows it.
const (
	layerKey  = "io.github.imgcheck.layer.digest"
	diffIDKey = "io.github.imgcheck.layer.diff-id"
	readerKey = "io.github.imgcheck.index.reader"
)

// Bounds of what comes from a registry. The index of a root of 17 GB has 24 MB.
const (
	maxBlob      = 64 << 20 // bytes of an index, compressed
	maxArtifacts = 16       // referrers of an image that are looked at
)

// Referrers is the name of the place that is the referrers of each image.
const Referrers = "referrers"

// Place names the registry objects that hold indexes: the referrers of each image, or a repository.
type Place struct{ repo *name.Repository } // nil: the referrers

// ParsePlace parses a place: [Referrers], or a repository with its registry. insecure allows
// plain HTTP.
func ParsePlace(s string, insecure bool) (Place, error) {
	if s == Referrers {
		return Place{}, nil
	}
	var opts []name.Option
	if insecure {
		opts = append(opts, name.Insecure)
	}
	if !strings.Contains(s, "/") {
		return Place{}, fmt.Errorf("%q is no place of indexes: say %s, or a repository with its registry, like ghcr.io/org/indexes", s, Referrers)
	}
	repo, err := name.NewRepository(s, opts...)
	if err != nil {
		return Place{}, fmt.Errorf("%q is no place of indexes: say %s, or a repository without a tag, like ghcr.io/org/indexes", s, Referrers)
	}
	return Place{&repo}, nil
}

// String returns the place as people write it.
func (p Place) String() string {
	if p.repo == nil {
		return Referrers
	}
	return source.WrittenName(p.repo.Name())
}

// origin names the place for an image, or "" if it has none there.
func (p Place) origin(img *source.Image) string {
	switch {
	case p.repo != nil:
		return p.String()
	case img.Repository() == "" || img.Digest == "":
		return ""
	}
	return Referrers + " in " + img.Repository()
}

// repository returns the repository that has the indexes of an image.
func (p Place) repository(img *source.Image, insecure bool) (name.Repository, error) {
	if p.repo != nil {
		return *p.repo, nil
	}
	if p.origin(img) == "" {
		return name.Repository{}, errNoRegistry
	}
	_, rest := source.Split(img.Ref)
	ref, err := source.ParseReference(rest, insecure)
	if err != nil {
		return name.Repository{}, err
	}
	return ref.Context(), nil
}

var errNoRegistry = errors.New("is not in a registry: only an image there has referrers")

// tag returns the tag of the index of a layer in a repository of indexes.
func tag(digest, reader string) string {
	return strings.Replace(digest, ":", "-", 1) + ".index-" + reader
}

// annotations returns those of the blob of an index.
func annotations(l source.Layer, digest, reader string) map[string]string {
	return map[string]string{layerKey: digest, diffIDKey: l.DiffID, readerKey: reader}
}

// refused returns why a blob of an artifact is not the index of a layer, or nil.
func refused(d v1.Descriptor, l source.Layer, digest, reader string) error {
	switch has := d.Annotations; {
	case has[layerKey] != digest:
		return errors.New("it is of another layer")
	case has[diffIDKey] != l.DiffID:
		return errors.New("it is of a layer with another diff ID")
	case has[readerKey] != reader:
		return olderError{has[readerKey], reader}
	case d.MediaType != blobType:
		return fmt.Errorf("its type is %s", d.MediaType)
	case d.Size <= 0 || d.Size > maxBlob:
		return fmt.Errorf("it has %d bytes, and at most %d are read", d.Size, maxBlob)
	}
	return nil
}

// olderError is the error of an index that another reader has made.
type olderError struct{ has, want string }

func (e olderError) Error() string {
	return fmt.Sprintf("the reader %s has made it, and this imgcheck's is %s: `imgcheck index IMAGE --push` makes a new one", e.has, e.want)
}
