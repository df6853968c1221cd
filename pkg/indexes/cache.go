package indexes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// The types of an artifact that is a cache, and of a file in it. The annotation has the file's name
// (OCI image-spec, annotations.md).
const (
	cacheType = "application/vnd.imgcheck.cache.v1"
	fileType  = types.MediaType("application/vnd.imgcheck.cache.file.v1")
	titleKey  = "org.opencontainers.image.title"
)

// maxFiles bounds the files of a cache in a registry: registries take manifests of 4 MiB.
const maxFiles = 4000

// Moved says what PushCache or PullCache has done.
type Moved struct {
	At    string // the artifact
	Files int    // that were moved
	Bytes int64  // of them
	There int    // files that were there already
	Left  int    // files that were not moved: of another key, or more than fit
}

// PushCache stores the files of a cache as one artifact, the most recently used first. Files that
// the cache itself would not believe stay behind.
func PushCache(ctx context.Context, c *layers.Cache, ref name.Reference, o source.Options) (*Moved, error) {
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	to, err := source.NewArtifacts(ref.Context(), o)
	if err != nil {
		return nil, err
	}
	failed := func(err error) (*Moved, error) {
		return nil, fmt.Errorf("storing the cache as %s: %w", source.WrittenName(ref.Name()), err)
	}
	m := v1.Manifest{ArtifactType: cacheType, Layers: []v1.Descriptor{}}
	var out Moved
	for _, f := range slices.Backward(files) {
		b, err := c.Export(f.Name)
		switch {
		case err != nil || len(m.Layers) == maxFiles:
			out.Left++
			continue
		case ctx.Err() != nil:
			return failed(ctx.Err())
		}
		d, err := to.Blob(ctx, b, fileType)
		if err != nil {
			return failed(err)
		}
		d.Annotations = map[string]string{titleKey: f.Name}
		m.Layers = append(m.Layers, d)
		out.Files++
		out.Bytes += d.Size
	}
	if out.Files == 0 {
		return failed(errors.New("it has no files"))
	}
	tag := ""
	if t, ok := ref.(name.Tag); ok {
		tag = t.TagStr()
	}
	at, err := to.Put(ctx, m, tag)
	if err != nil {
		return failed(err)
	}
	out.At = source.WrittenName(at.Name())
	return &out, nil
}

// PullCache adds the files of a cache in a registry to a cache, until it is full. A file whose
// code is by another key than the cache's is left out.
func PullCache(ctx context.Context, c *layers.Cache, ref name.Reference, o source.Options) (*Moved, error) {
	from := source.NewRepository(ref.Context(), o)
	at := source.WrittenName(ref.Name())
	failed := func(err error) (*Moved, error) { return nil, fmt.Errorf("fetching the cache %s: %w", at, err) }
	doc, err := from.Get(ctx, ref)
	if err != nil {
		return failed(err)
	}
	m, err := v1.ParseManifest(bytes.NewReader(doc.Raw))
	if err != nil || m.ArtifactType != cacheType || len(m.Layers) > maxFiles {
		return failed(errors.New("it is no cache of imgcheck: `imgcheck cache push` makes one"))
	}
	out := Moved{At: at}
	for _, d := range m.Layers {
		name := d.Annotations[titleKey]
		if c.Has(name) {
			out.There++
			continue
		}
		if d.Size < 0 || out.Bytes+d.Size > c.Max {
			out.Left++
			continue
		}
		err := pullFile(ctx, c, from, d, name)
		switch {
		case errors.Is(err, layers.ErrForeign):
			out.Left++
			continue
		case err != nil:
			return failed(err)
		}
		out.Files++
		out.Bytes += d.Size
	}
	return &out, nil
}

// pullFile fetches a file. Its code takes the place of its digest.
func pullFile(ctx context.Context, c *layers.Cache, from *source.Repository, d v1.Descriptor, name string) error {
	rc, err := from.Blob(ctx, d, nil)
	if err != nil {
		return err
	}
	defer rc.Close()
	return c.Import(name, io.LimitReader(rc, d.Size))
}
