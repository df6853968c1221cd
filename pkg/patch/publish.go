package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// target is a place to publish images in: a repository of a registry, or an OCI layout.
// Only putName changes the meaning of a name. It is the last step.
type target interface {
	fmt.Stringer
	// base puts a layer of the base, and layer a new blob.
	base(ctx context.Context, g *guarded) error
	layer(ctx context.Context, l v1.Layer) error
	// stream puts a new blob whose digest is known only once it is written.
	stream(ctx context.Context, l *streamed) error
	putManifest(ctx context.Context, raw []byte, mt types.MediaType) error
	// putName puts a manifest and gives it the target's name. If the name has changed
	// since it was looked up, it stays as it is: a [movedError].
	putName(ctx context.Context, n *naming) (string, error)
	// now returns the meaning of the name.
	now(ctx context.Context) (meaning, error)
	// same reports whether the target holds everything that a store has.
	same(src source.Store) bool
}

// CopyError is the error of a publication that needs the content of a layer of the base.
type CopyError struct {
	Digest string // of the layer
	Size   int64  // in bytes, compressed
	Why    string
}

func (e *CopyError) Error() string {
	return fmt.Sprintf("layer %s of the base (%s) would have to be copied, for %s: add --allow-copy if that is meant", e.Digest, size.Text(e.Size), e.Why)
}

// Publish publishes the patched images to a target and returns ref@sha256:…; the digest is
// that of the manifest or index, or of the config if the target has no manifest. A target
// is a registry's reference with a tag, oci:DIR[:TAG], docker-archive:FILE[:REF] or
// docker:REF; or layer:FILE for the new layer alone, as a tar, with the tar's digest. The
// other entries of an index stay as they are, except for the attestations of the patched
// images: they would attest images that the index does not have any more.
//
// Layers of the base are read only if o.AllowCopy is set or both ends are on this machine.
// A publication that needs one otherwise returns a [CopyError].
func Publish(ctx context.Context, base *Base, patched []*Patched, to string, o Options) (string, error) {
	if len(patched) == 0 {
		return "", errors.New("there is nothing to publish")
	}
	scheme, rest := source.Split(to)
	switch {
	case IsLayer(to):
		ref, err := publishLayer(ctx, patched, to)
		return ref, named(to, err)
	case base.root:
		return "", named(to, errRootTarget)
	}
	if scheme == "docker-archive" || scheme == "docker" {
		ref, err := publishArchive(ctx, patched, scheme, rest, o)
		return ref, named(to, err)
	}
	if base.archive != nil {
		return "", named(to, errArchiveTarget)
	}
	t, err := openTarget(to, o)
	if err != nil {
		return "", named(to, err)
	}
	if r, ok := t.(*repository); ok && r.same(base.src) {
		r.Repository = base.src.(*repository).Repository // it has logged in
	}
	ref, err := base.publish(ctx, patched, t, o)
	return ref, named(to, err)
}

func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func openTarget(to string, o Options) (target, error) {
	scheme, rest := source.Split(to)
	switch scheme {
	case "oci":
		l := newLayout(rest)
		if l.dir == "" {
			return nil, errors.New("names no directory: say oci:DIR:TAG")
		}
		return l, nil
	case "registry":
	default:
		return nil, fmt.Errorf("%s: cannot be published to: say NAME:TAG for a registry, oci:DIR:TAG, docker-archive:FILE or docker:NAME", scheme)
	}
	ref, err := source.ParseReference(rest, o.Insecure)
	if err != nil {
		return nil, err
	}
	if strings.Contains(to, "@") {
		return nil, errors.New("is a digest: name a tag to publish to")
	}
	return newRepository(ref, o)
}

func (b *Base) publish(ctx context.Context, patched []*Patched, t target, o Options) (string, error) {
	before := b
	_, toLayout := t.(*layout)
	if _, fromLayout := b.src.(*layout); toLayout && (!fromLayout || wasConverted(patched)) {
		var err error
		if b, patched, err = b.asOCI(patched); err != nil {
			return "", err
		}
	}
	raw, mt, err := b.result(patched, o)
	if err != nil {
		return "", err
	}
	was, err := t.now(ctx)
	if err != nil {
		return "", err
	}
	digest := digestOf(raw).String()
	if was.digest == digest && means(ctx, t, digest) {
		o.note(fmt.Sprintf("%s is there already", digest))
		return refOf(t, digest), nil
	}
	if was.digest != "" && was.digest != b.Digest && t.String() == b.at() {
		return "", &movedError{b.Digest, was.digest}
	}
	if b.index != nil && !t.same(b.src) {
		if err := b.copyOthers(ctx, raw, patched, t, o); err != nil {
			return "", err
		}
	}
	for _, p := range patched {
		if err := p.put(ctx, t, o); err != nil {
			return "", err
		}
		if b.index == nil {
			continue
		}
		if err := t.putManifest(ctx, p.Manifest, p.Base.MediaType); err != nil {
			return "", err
		}
	}
	if toLayout && !t.same(b.src) && !patched[0].rewritten {
		if err := before.keepOrigin(ctx, patched, t, o); err != nil {
			return "", err
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return put(ctx, t, &naming{raw: raw, mt: mt, of: b.Digest, seen: was})
}

// wasConverted reports whether an image came into its layout as OCI's from an origin
// in Docker's format.
func wasConverted(patched []*Patched) bool {
	return slices.ContainsFunc(patched, func(p *Patched) bool { return annotated(p.Base.as) && !annotated(p.Base.MediaType) })
}

// keepOrigin puts the origin, which an undo needs, into a layout that does not have it: its
// manifest and config, and the index with everything that it names. The layers are those
// of the patched image.
func (b *Base) keepOrigin(ctx context.Context, patched []*Patched, t target, o Options) error {
	for _, p := range patched {
		c := &copying{t: t, src: p.Base.Store, o: o, done: map[string]bool{}}
		if err := c.whole(ctx, &source.Document{Raw: p.Base.Manifest, MediaType: p.Base.MediaType}); err != nil {
			return fmt.Errorf("keeping the origin %s: %w", p.Base.Digest, err)
		}
	}
	if b.index == nil {
		return nil
	}
	src, doc := b.src, b.index
	if origin := b.indexFrom; origin != b.origin(b.Digest) {
		var err error
		if src, doc, err = b.fetchOrigin(ctx, origin, o); err != nil {
			o.note(fmt.Sprintf("%s cannot be undone: %v", t, err))
			return nil
		}
	}
	c := &copying{t: t, src: src, o: o, done: map[string]bool{}}
	if err := c.whole(ctx, doc); err != nil {
		return fmt.Errorf("keeping the index as it was: %w", err)
	}
	return nil
}

// put gives a manifest its name. After an error it looks up the name: only the answer may
// have been lost.
func put(ctx context.Context, t target, n *naming) (string, error) {
	ref, err := t.putName(ctx, n)
	if err == nil {
		return ref, nil
	}
	now, lookErr := t.now(ctx)
	switch {
	case lookErr != nil:
		return "", err
	case now.digest == n.digest() && means(ctx, t, now.digest):
		return refOf(t, now.digest), nil
	case refusedPrecondition(err) && n.moved(now) != nil:
		return "", n.moved(now)
	}
	return "", err
}

// means reports whether a name has a digest, where a registry says so in a header.
func means(ctx context.Context, t target, digest string) bool {
	r, ok := t.(*repository)
	return !ok || r.confirm(ctx, digest) == nil
}

// at returns the name of the base in the form of a target's.
func (b *Base) at() string {
	if s, ok := b.src.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

func refOf(t target, digest string) string {
	if r, ok := t.(*repository); ok {
		return r.Name() + "@" + digest
	}
	return t.String() + "@" + digest
}

// result returns the document for the target's name: the patched manifest, or the index
// with the patched ones in it.
func (b *Base) result(patched []*Patched, o Options) ([]byte, types.MediaType, error) {
	if b.index == nil {
		return patched[0].Manifest, patched[0].Base.MediaType, nil
	}
	index, gone := b.index.Raw, []int{}
	for _, p := range patched {
		d := descriptor(p.Base.MediaType, digestOf(p.Manifest), int64(len(p.Manifest)))
		for i, e := range b.entries {
			switch {
			case e.Digest == p.Base.listed:
				var err error
				if index, err = editEntry(index, i, d); err != nil {
					return nil, "", fmt.Errorf("editing the index: %w", err)
				}
			case attests(e) == p.Base.listed.String() && d.Digest != p.Base.listed.String():
				gone = append(gone, i)
				o.note(fmt.Sprintf("the attestation %s is left out: it attests %s as it was before", e.Digest, p.Base.Platform.String()))
			}
		}
	}
	slices.Sort(gone)
	for _, i := range slices.Backward(gone) {
		var err error
		if index, err = dropElement(index, i, "manifests"); err != nil {
			return nil, "", fmt.Errorf("editing the index: %w", err)
		}
	}
	return index, b.index.MediaType, nil
}

// put puts the layers, then the config. The caller puts the manifest.
func (p *Patched) put(ctx context.Context, t target, o Options) error {
	img, list := p.Base, p.Base.manifest.Layers
	if p.rewritten {
		list = p.kept
	}
	if err := putLayers(ctx, t, img.Store, list, o); err != nil {
		return err
	}
	if p.layer != nil {
		if err := t.layer(ctx, p.layer); err != nil {
			return err
		}
	}
	return t.layer(ctx, static.NewLayer(p.Config, img.manifest.Config.MediaType))
}

// putLayers puts layers of a store into the target.
func putLayers(ctx context.Context, t target, src source.Store, list []v1.Descriptor, o Options) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	seen := map[v1.Hash]bool{}
	for _, d := range list {
		if seen[d.Digest] || !d.MediaType.IsDistributable() {
			continue // runtimes fetch the latter from their URLs
		}
		seen[d.Digest] = true
		g.Go(func() error { return t.base(ctx, &guarded{ctx: ctx, src: src, d: d, allow: o.AllowCopy}) })
	}
	return g.Wait()
}

// copyOthers copies the entries of an index that were not patched to a target.
func (b *Base) copyOthers(ctx context.Context, index []byte, patched []*Patched, t target, o Options) error {
	c := &copying{t: t, src: b.src, o: o, done: map[string]bool{}}
	for _, p := range patched {
		c.done[p.Digest] = true
	}
	m, err := v1.ParseIndexManifest(bytes.NewReader(index))
	if err != nil {
		return err
	}
	for _, d := range m.Manifests {
		if err := c.manifest(ctx, d.Digest, 0); err != nil {
			return fmt.Errorf("%s: %w", d.Digest, err)
		}
	}
	return nil
}

// maxDepth bounds indexes in indexes, and maxManifests the manifests that they name, each
// and together.
const (
	maxDepth     = 4
	maxManifests = 1000
)

// copying copies manifests and indexes, with everything that they name, from a store to a
// target, each once.
type copying struct {
	t    target
	src  source.Store
	o    Options
	done map[string]bool // by digest
}

func (c *copying) manifest(ctx context.Context, digest v1.Hash, depth int) error {
	if c.done[digest.String()] {
		return nil
	}
	c.done[digest.String()] = true
	if len(c.done) > maxManifests {
		return fmt.Errorf("the index and those in it name more than %d manifests", maxManifests)
	}
	doc, err := c.src.Manifest(ctx, digest)
	if err != nil {
		return err
	}
	if err := c.parts(ctx, doc, depth); err != nil {
		return err
	}
	return c.t.putManifest(ctx, doc.Raw, doc.MediaType)
}

// whole copies a manifest or an index with everything that it names.
func (c *copying) whole(ctx context.Context, doc *source.Document) error {
	if err := c.parts(ctx, doc, 0); err != nil {
		return err
	}
	return c.t.putManifest(ctx, doc.Raw, doc.MediaType)
}

func (c *copying) parts(ctx context.Context, doc *source.Document, depth int) error {
	t, src, o := c.t, c.src, c.o
	if depth > maxDepth {
		return errors.New("too many indexes in indexes")
	}
	if doc.MediaType.IsIndex() {
		list, err := entriesOf(doc)
		if err != nil {
			return err
		}
		for _, d := range list {
			if err := c.manifest(ctx, d.Digest, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	m, err := v1.ParseManifest(bytes.NewReader(doc.Raw))
	if err != nil {
		return err
	}
	if err := putLayers(ctx, t, src, m.Layers, o); err != nil {
		return err
	}
	config, err := source.ReadBlob(ctx, src, m.Config)
	if err != nil {
		return fmt.Errorf("reading the config: %w", err)
	}
	return t.layer(ctx, static.NewLayer(config, m.Config.MediaType))
}

// Undo gives the name of a patched image its origin back and returns ref@sha256:…. It
// returns an error if ref names no patched image, or if the origin cannot be fetched. An
// index is restored as a whole, with its attestations.
func Undo(ctx context.Context, ref string, o Options) (string, error) {
	s, err := undo(ctx, ref, o)
	return s, named(ref, err)
}

func undo(ctx context.Context, ref string, o Options) (string, error) {
	b, err := find(ctx, ref, o)
	if err != nil {
		return "", err
	}
	switch {
	case b.archive != nil:
		return b.archive.undo(ctx)
	case b.root:
		return "", errNotPatched
	}
	if strings.Contains(ref, "@") {
		return "", errors.New("is a digest: name the tag that gets its origin back")
	}
	origin, err := b.originOf(ctx)
	if err != nil {
		return "", err
	}
	t, err := openTarget(ref, o)
	if err != nil {
		return "", err
	}
	src, doc, err := b.fetchOrigin(ctx, origin, o)
	if err != nil {
		return "", err
	}
	if err := checkType(doc); err != nil {
		return "", fmt.Errorf("its origin %s: %w", origin, err)
	}
	c := &copying{t: t, src: src, o: o, done: map[string]bool{}}
	if err := c.parts(ctx, doc, 0); err != nil {
		return "", fmt.Errorf("its origin %s: %w", origin, err)
	}
	raw, mt := doc.Raw, doc.MediaType
	if _, ok := t.(*layout); ok && strings.Contains(origin, "@") {
		if raw, mt, err = asFound(raw, mt); err != nil {
			return "", fmt.Errorf("its origin %s: %w", origin, err)
		}
	}
	return put(ctx, t, &naming{raw: raw, mt: mt, of: b.Digest, seen: meaning{digest: b.Digest, known: true}})
}

var errNotPatched = errors.New("is no patched image: there is nothing to undo")

// originOf returns the origin that a patched image or index names.
func (b *Base) originOf(ctx context.Context) (string, error) {
	if !b.doc.MediaType.IsIndex() {
		img, err := readImage(ctx, b.src, b.doc)
		if err != nil {
			return "", err
		}
		return img.mark().undoable()
	}
	list, err := entriesOf(b.doc)
	if err != nil {
		return "", err
	}
	for _, d := range list {
		if !d.MediaType.IsImage() || attests(d) != "" || d.Platform != nil && d.Platform.OS == "unknown" {
			continue
		}
		doc, err := b.src.Manifest(ctx, d.Digest)
		if err != nil {
			return "", err
		}
		img, err := readImage(ctx, b.src, doc)
		if err != nil {
			return "", fmt.Errorf("%s: %w", d.Digest, err)
		}
		if mark := img.mark(); mark.index != "" && mark.whole {
			return mark.index, nil
		}
	}
	return "", errNotPatched
}

func (m mark) undoable() (string, error) {
	switch {
	case m.origin == "":
		return "", errNotPatched
	case !m.whole:
		return "", fmt.Errorf("was made from a patched image and has changed since; the patch began with %s", m.origin)
	}
	return m.origin, nil
}

// opened returns a function that opens bytes as a file.
func opened(b []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}
