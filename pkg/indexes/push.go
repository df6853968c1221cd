package indexes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/signature"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Pushed says what Push has done.
type Pushed struct {
	At    string // the referrer by its digest, or the repository
	New   int    // indexes that were stored
	There int    // indexes that the place had
	Lack  int    // layers whose index the cache does not have
	Bytes int64  // of the new indexes
}

// ErrNotRead is the error of an image none of whose layers has an index in the cache.
var ErrNotRead = errors.New("the cache has the index of none of its layers")

// Push stores the indexes of the layers of an image at a place: those that the image's cache
// has because this user has read the layers, not those of others. The same indexes give
// the same artifact.
//
// Unless by is nil, it signs the artifacts that it stores. It signs none of somebody else: one that
// by has not signed counts as none.
func Push(ctx context.Context, img *layers.Image, p Place, by *signature.Signer, o source.Options) (*Pushed, error) {
	repo, err := p.repository(img.Image, o.Insecure)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", img.Ref, err)
	}
	to, err := source.NewArtifacts(repo, o)
	if err != nil {
		return nil, err
	}
	w := &writer{img: img, by: by, to: to, repo: repo, from: source.NewRepository(repo, o)}
	if p.repo == nil {
		err = w.referrer(ctx)
	} else {
		err = w.tagged(ctx)
	}
	if err == nil && w.New+w.There == 0 {
		err = ErrNotRead
	}
	if err != nil {
		return nil, fmt.Errorf("storing the indexes of %s: %w", img.Ref, err)
	}
	return &w.Pushed, nil
}

// writer stores the indexes of one image.
type writer struct {
	Pushed
	img  *layers.Image
	by   *signature.Signer // or nil
	to   *source.Artifacts
	from *source.Repository
	repo name.Repository
}

// each calls store with the index of each layer that the place does not have, each layer once.
func (w *writer) each(has func(i int, digest string) (bool, error), store func(i int, digest string, index []byte) error) error {
	done := map[string]bool{}
	for i := range w.img.Layers {
		digest := w.img.Verified(i)
		if digest == "" || done[digest] {
			continue
		}
		done[digest] = true
		there, err := has(i, digest)
		if err != nil {
			return err
		}
		if there {
			w.There++
			continue
		}
		index := w.img.StoredIndex(i)
		if len(index) == 0 || len(index) > maxBlob {
			w.Lack++
			continue
		}
		if err := store(i, digest, index); err != nil {
			return err
		}
		w.New++
		w.Bytes += int64(len(index))
	}
	return nil
}

// blob uploads the index of a layer.
func (w *writer) blob(ctx context.Context, i int, digest string, index []byte) (v1.Descriptor, error) {
	d, err := w.to.Blob(ctx, index, blobType)
	d.Annotations = annotations(w.img.Layers[i], digest, w.img.Reader())
	return d, err
}

// manifest returns the manifest of an artifact of indexes.
func (w *writer) manifest(list ...v1.Descriptor) v1.Manifest {
	return v1.Manifest{ArtifactType: ArtifactType, Layers: list, Annotations: map[string]string{readerKey: w.img.Reader()}}
}

// signed reports whether an artifact is signed as this writer signs.
func (w *writer) signed(ctx context.Context, artifact v1.Hash) (bool, error) {
	if w.by == nil {
		return true, nil
	}
	err := w.by.Keys().Check(ctx, w.from, artifact)
	if errors.As(err, new(*signature.UnsignedError)) {
		return false, nil
	}
	return err == nil, err
}

// put stores the manifest of an artifact and signs it.
func (w *writer) put(ctx context.Context, m v1.Manifest, tag string) (name.Digest, error) {
	at, err := w.to.Put(ctx, m, tag)
	if err != nil || w.by == nil {
		return at, err
	}
	digest, err := v1.NewHash(at.DigestStr())
	if err == nil {
		err = w.by.Sign(ctx, w.from, w.to, digest)
	}
	return at, err
}

// referrer stores the indexes as one referrer of the image, unless referrers have them.
func (w *writer) referrer(ctx context.Context) error {
	all, err := referrers(ctx, w.from, w.img.Image, w.img.Reader(), func(string, error) {})
	if err != nil {
		return err
	}
	var list []artifact
	for _, a := range all {
		switch ok, err := w.signed(ctx, a.digest); {
		case err != nil:
			return err
		case ok:
			list = append(list, a)
		}
	}
	subject := v1.Descriptor{MediaType: w.img.MediaType, Size: int64(len(w.img.Manifest))}
	if subject.Digest, err = v1.NewHash(w.img.Digest); err != nil {
		return err
	}
	has := func(i int, digest string) (bool, error) {
		for _, a := range list {
			d, _ := a.blob(digest, w.img.Reader())
			if refused(d, w.img.Layers[i], digest, w.img.Reader()) == nil {
				w.At = a.at
				return true, nil
			}
		}
		return false, nil
	}
	var blobs []v1.Descriptor
	err = w.each(has, func(i int, digest string, index []byte) error {
		d, err := w.blob(ctx, i, digest, index)
		blobs = append(blobs, d)
		return err
	})
	if err != nil || len(blobs) == 0 {
		return err
	}
	m := w.manifest(blobs...)
	m.Subject = &subject
	at, err := w.put(ctx, m, "")
	w.At = source.WrittenName(at.Name())
	return err
}

// tagged stores each index as an artifact of its own, by its tag.
func (w *writer) tagged(ctx context.Context) error {
	w.At = source.WrittenName(w.repo.Name())
	has := func(_ int, digest string) (bool, error) {
		at, err := w.from.Head(ctx, w.repo.Tag(tag(digest, w.img.Reader())))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err != nil:
			return false, err
		}
		return w.signed(ctx, at)
	}
	return w.each(has, func(i int, digest string, index []byte) error {
		d, err := w.blob(ctx, i, digest, index)
		if err == nil {
			_, err = w.put(ctx, w.manifest(d), tag(digest, w.img.Reader()))
		}
		return err
	})
}
