package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// maxDocument bounds manifests, indexes and configs that are written, in bytes.
// Registries take 4 MiB (distribution-spec, "Pushing Manifests").
const maxDocument = 8 << 20

// maxDocuments bounds the manifests and configs of an index's images that are held at a
// time, in bytes.
const maxDocuments = 4 * maxDocument

// Base is the image or the index of images that a reference names.
type Base struct {
	// Ref is the reference as it was given.
	Ref string
	// Digest is that of the manifest or index; of the config where there is no
	// manifest (docker-archive:, docker:); empty for a directory.
	Digest string
	// Images are the images that can be patched, in the order of the index, without
	// attestations and images of other platforms than Options.Platform.
	Images []*Image

	src       source.Store     // nil for an archive
	doc       *source.Document // the manifest or index that the reference names
	index     *source.Document // nil for an image alone
	entries   []v1.Descriptor  // of the index
	indexFrom string           // the index before it was patched for the first time
	archive   *archive
	root      bool // an unpacked root file system
}

// Image is one image to patch: a [source.Image], with its place in the index and its
// origin. Where the reference names a patched image, it is the one that was patched
// then, its origin.
type Image struct {
	*source.Image
	// Platform is as the config says.
	Platform v1.Platform
	// Patched is the digest of the patched image that the reference names, and
	// empty where it names the image itself.
	Patched string

	manifest  *v1.Manifest    // nil for an archive
	origin    string          // the image's name in the marks of its patches; empty for its digest where it is
	as        types.MediaType // of the patched manifest that the reference names
	name      string          // the reference of the image, for base.name
	listed    v1.Hash         // the digest of its entry in the index
	indexFrom string          // see Base
	archive   *archive
}

// OpenBase finds the image or the index that ref names: in a registry, an OCI
// layout (oci:DIR[:TAG]), a docker archive (docker-archive:FILE[:TAG]) or a
// daemon (docker:NAME). It reads manifests and configs only, except from a daemon
// and a docker archive, which it reads to their end. A root file system
// (dir:ROOT) is a base as well; it can be published to layer:FILE only.
func OpenBase(ctx context.Context, ref string, o Options) (*Base, error) {
	b, err := openBase(ctx, ref, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	return b, nil
}

func openBase(ctx context.Context, ref string, o Options) (*Base, error) {
	b, err := find(ctx, ref, o)
	if err != nil || b.archive != nil || b.root {
		return b, err
	}
	if b.doc.MediaType.IsIndex() {
		return b, b.openIndex(ctx, o)
	}
	img, err := b.open(ctx, b.doc, v1.Hash{}, o)
	if err != nil {
		return nil, err
	}
	if err := img.checkPlatform(o); err != nil {
		return nil, err
	}
	b.Images = []*Image{img}
	return b, nil
}

// checkPlatform returns an error for an image of another platform than o's.
func (img *Image) checkPlatform(o Options) error {
	if o.Platform != nil && !img.Platform.Satisfies(*o.Platform) {
		return fmt.Errorf("is for %s, not for %s", img.Platform.String(), o.Platform.String())
	}
	return nil
}

// find returns the manifest or index that a reference names, or an archive or root file
// system.
func find(ctx context.Context, ref string, o Options) (*Base, error) {
	b := &Base{Ref: ref}
	var err error
	switch scheme, rest := source.Split(ref); scheme {
	case "oci":
		b.src, b.doc, err = openLayout(ctx, rest)
	case "docker-archive", "docker":
		return b, b.openArchive(ctx, scheme, rest, o)
	case "dir":
		return b, b.openRoot(ctx, o)
	case "oci-archive":
		err = errors.New("cannot be patched: unpack it into a directory and say oci:DIR")
	default:
		b.src, b.doc, err = openRepository(ctx, rest, o)
	}
	if err == nil {
		err = checkType(b.doc)
	}
	if err == nil {
		b.Digest = b.doc.Digest().String()
	}
	return b, err
}

func digestOf(raw []byte) v1.Hash {
	h, _, _ := v1.SHA256(bytes.NewReader(raw)) // of bytes it cannot fail
	return h
}

// checkType refuses a document that is neither an image nor an index in a format of
// today.
func checkType(d *source.Document) error {
	switch mt := d.MediaType; {
	case mt.IsSchema1():
		return source.ErrSchema1
	case !mt.IsImage() && !mt.IsIndex():
		return fmt.Errorf("is no image: its manifest is of type %q", string(mt))
	}
	return nil
}

// openIndex opens the images of b's index.
func (b *Base) openIndex(ctx context.Context, o Options) error {
	var err error
	if b.entries, err = entriesOf(b.doc); err != nil {
		return err
	}
	b.index, b.indexFrom = b.doc, b.origin(b.Digest)
	var others []string
	held := 0
	for _, d := range b.entries {
		switch {
		case attests(d) != "" || d.Platform != nil && d.Platform.OS == "unknown":
			continue
		case d.MediaType.IsIndex():
			o.note(fmt.Sprintf("%s is an index in the index: it stays as it is", d.Digest))
			continue
		case !d.MediaType.IsImage():
			continue
		case o.Platform != nil && d.Platform != nil && !d.Platform.Satisfies(*o.Platform):
			others = append(others, d.Platform.String())
			continue
		}
		img, err := b.openEntry(ctx, d, o)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Digest, err)
		}
		if o.Platform != nil && !img.Platform.Satisfies(*o.Platform) {
			others = append(others, img.Platform.String())
			continue
		}
		if held += len(img.Manifest) + len(img.RawConfig); held > maxDocuments {
			return fmt.Errorf("manifests and configs of the index's images have more than the %d bytes that are read: choose one with --platform", maxDocuments)
		}
		b.Images = append(b.Images, img)
		if img.indexFrom != "" {
			b.indexFrom = img.indexFrom
		}
	}
	for _, img := range b.Images {
		img.indexFrom = b.indexFrom
	}
	if len(b.Images) == 0 && len(others) > 0 {
		slices.Sort(others)
		return fmt.Errorf("is not there for %s: choose one with --platform %s", o.Platform.String(), strings.Join(slices.Compact(others), " or "))
	}
	if len(b.Images) == 0 {
		return errors.New("the index holds no image that can be patched")
	}
	return nil
}

// entriesOf returns the entries of an index.
func entriesOf(d *source.Document) ([]v1.Descriptor, error) {
	m, err := v1.ParseIndexManifest(bytes.NewReader(d.Raw))
	if err == nil {
		_, err = text(d.Raw, "mediaType") // of two, each reader takes another
	}
	if err != nil {
		return nil, fmt.Errorf("reading the index: %w", err)
	}
	if n := len(m.Manifests); n > maxManifests {
		return nil, fmt.Errorf("the index has %d entries, more than the %d that are looked at: name the image by its digest", n, maxManifests)
	}
	return m.Manifests, nil
}

func (b *Base) openEntry(ctx context.Context, d v1.Descriptor, o Options) (*Image, error) {
	doc, err := b.src.Manifest(ctx, d.Digest)
	if err != nil {
		return nil, err
	}
	return b.open(ctx, doc, d.Digest, o)
}

// origin returns the name of a digest of b's store in a mark.
func (b *Base) origin(digest string) string {
	if name := b.src.Name(); name != "" {
		return name + "@" + digest
	}
	return digest
}

// open returns the image of a manifest, or its origin where it is a patched one.
func (b *Base) open(ctx context.Context, doc *source.Document, listed v1.Hash, o Options) (*Image, error) {
	img, err := readImage(ctx, b.src, doc)
	if err != nil {
		return nil, err
	}
	if listed.Hex == "" {
		listed = doc.Digest()
	}
	img.listed, img.name = listed, b.name()
	mark := img.mark()
	if mark.origin == "" || o.AsFound {
		return img, nil
	}
	if !mark.whole {
		o.note(fmt.Sprintf("%s was made from a patched image and has changed since: it is patched as it is", b.Ref))
		return img, nil
	}
	from, err := b.openOrigin(ctx, mark, o)
	if err != nil {
		return nil, err
	}
	if !startsWith(img.Config.RootFS.DiffIDs, from.Config.RootFS.DiffIDs) {
		o.note(fmt.Sprintf("%s names an origin that it was not made of: it is patched as it is", b.Ref))
		return img, nil
	}
	from.listed, from.name, from.indexFrom, from.Patched = listed, mark.baseName, mark.index, listed.String()
	from.origin, from.as = mark.origin, doc.MediaType
	return from, nil
}

func startsWith(list, with []v1.Hash) bool {
	return len(list) >= len(with) && slices.Equal(list[:len(with)], with)
}

// name returns the reference of a base for base.name, or "".
func (b *Base) name() string {
	if r, ok := b.src.(*repository); ok {
		return r.String()
	}
	return ""
}

// readImage reads the image of a manifest.
func readImage(ctx context.Context, src source.Store, doc *source.Document) (*Image, error) {
	if err := checkType(doc); err != nil {
		return nil, err
	}
	found, err := source.ReadImage(ctx, src, doc)
	if err != nil {
		return nil, err
	}
	if _, err := text(doc.Raw, "mediaType"); err != nil { // of two, each reader takes another
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	found.Ref = found.Digest
	if name := src.Name(); name != "" {
		found.Ref = name + "@" + found.Digest
	}
	m, err := v1.ParseManifest(bytes.NewReader(doc.Raw))
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	img := &Image{Image: found, manifest: m}
	img.setPlatform()
	return img, nil
}

func (img *Image) setPlatform() {
	if p := img.Config.Platform(); p != nil {
		img.Platform = *p
	}
}

// Open opens the image for reading. Unlike [layers.Open] of the reference, it opens the
// origin of a patched image. o.Platform is ignored.
func (img *Image) Open(ctx context.Context, o layers.Options) (*layers.Image, error) {
	o.Platform = nil
	if img.Store == nil {
		return layers.Open(ctx, img.Ref, o)
	}
	return layers.From(img.Image, o), nil
}

// Created returns the time for a patch of the image: that of SOURCE_DATE_EPOCH
// (https://reproducible-builds.org/specs/source-date-epoch/), else the image's
// own, else the epoch. It is never the clock's.
func Created(img *Image) (time.Time, error) {
	if t, set, err := sourceDateEpoch(); set {
		return t, err
	}
	if t := img.Config.Created.Time; t.After(time.Unix(0, 0)) && t.Year() < 10000 {
		return t.UTC(), nil
	}
	return time.Unix(0, 0).UTC(), nil
}

func sourceDateEpoch() (t time.Time, set bool, err error) {
	s := os.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return t, false, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 253402300799 { // the end of the year 9999, the last of JSON's times
		return t, true, fmt.Errorf("SOURCE_DATE_EPOCH is %q: it must be a number of seconds since 1970", s)
	}
	return time.Unix(n, 0).UTC(), true, nil
}
