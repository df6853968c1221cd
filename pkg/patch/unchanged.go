package patch

import (
	"context"
	"errors"
	"fmt"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// PublishUnchanged publishes the image or index that a base's reference names as it is, an
// index with its attestations. Targets, results and errors are those of [Publish]; a
// layer is empty.
func PublishUnchanged(ctx context.Context, base *Base, to string, o Options) (string, error) {
	ref, err := base.publishUnchanged(ctx, to, o)
	return ref, named(to, err)
}

func (b *Base) publishUnchanged(ctx context.Context, to string, o Options) (string, error) {
	scheme, rest := source.Split(to)
	archive := scheme == "docker-archive" || scheme == "docker"
	if IsLayer(to) || archive {
		list, err := b.asItIs(ctx)
		switch {
		case err != nil:
			return "", err
		case archive && !b.root:
			return publishArchive(ctx, list, scheme, rest, o)
		case IsLayer(to):
			return publishLayer(ctx, list, to)
		}
	}
	switch {
	case b.root:
		return "", errRootTarget
	case b.archive != nil:
		return "", errArchiveTarget
	}
	t, err := openTarget(to, o)
	if err != nil {
		return "", err
	}
	raw, mt := b.doc.Raw, b.doc.MediaType
	_, toLayout := t.(*layout)
	if _, fromLayout := b.src.(*layout); toLayout && !fromLayout {
		if raw, mt, err = asFound(raw, mt); err != nil {
			return "", fmt.Errorf("editing the manifest: %w", err)
		}
	}
	was, err := t.now(ctx)
	if err != nil {
		return "", err
	}
	if digest := digestOf(raw).String(); was.digest == digest && means(ctx, t, digest) {
		o.note(fmt.Sprintf("%s is there already", digest))
		return refOf(t, digest), nil
	}
	c := &copying{t: t, src: b.src, o: o, done: map[string]bool{}}
	if err := c.parts(ctx, b.doc, 0); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return put(ctx, t, &naming{raw: raw, mt: mt, of: b.Digest, seen: was})
}

var (
	errRootTarget    = errors.New("only a layer can be made of a directory: say layer:FILE")
	errArchiveTarget = errors.New("an image of a docker archive or a daemon has no manifest: publish it to docker-archive:FILE or docker:NAME, and push it from there")
)

// asItIs returns the images that the reference names without a change: a patched image
// itself rather than its origin.
func (b *Base) asItIs(ctx context.Context) ([]*Patched, error) {
	var list []*Patched
	for _, img := range b.Images {
		if img.Patched != "" {
			doc, err := b.src.Manifest(ctx, img.listed)
			if err != nil {
				return nil, err
			}
			if img, err = readImage(ctx, b.src, doc); err != nil {
				return nil, err
			}
		}
		list = append(list, &Patched{Base: img, Manifest: img.Manifest, Config: img.RawConfig, Digest: img.Digest})
	}
	return list, nil
}
