package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// maxDocument bounds manifests, indexes and configs, in bytes. Registries take
// 4 MiB (distribution-spec, "Pushing Manifests").
const maxDocument = 8 << 20

// maxDocuments bounds those that are held at a time: an archive's, or manifests and
// configs of an index's images, in bytes.
const maxDocuments = 4 * maxDocument

// source is where an image's documents and blobs are: a repository of a
// registry, or an OCI layout.
type source interface {
	// manifest gives a manifest or an index, with its digest checked. That it
	// is not there is fs.ErrNotExist.
	manifest(ctx context.Context, digest v1.Hash) ([]byte, types.MediaType, error)
	// blob gives a blob's content, unchecked.
	blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
	// place names the source in an origin; empty where a name would mean
	// nothing elsewhere.
	place() string
}

// Base is what a reference names: an image, or an index of images.
type Base struct {
	// Ref is the reference as it was given.
	Ref string
	// Digest is of the manifest or index; of the config where there is no
	// manifest (docker-archive:, docker:), and empty of a directory.
	Digest string
	// Images are those that can be patched, in the order of the index: not the
	// attestations, not what Options.Platform leaves out.
	Images []*Image

	src       source // nil for an archive
	raw       []byte // the manifest or index that the reference names
	mt        types.MediaType
	index     []byte // nil for an image alone
	indexType types.MediaType
	entries   []v1.Descriptor // of the index
	indexFrom string          // the index before it was patched for the first time
	archive   *archive
	root      bool // an unpacked root file system
}

// Image is one image to patch. Where the reference names a patched image, it is
// the one that was patched then, its origin.
type Image struct {
	// Platform is as the config says.
	Platform v1.Platform
	// Digest is of the manifest, or of the config where there is no manifest.
	Digest string
	// Config is the config as it is read; Apply edits the raw one.
	Config *v1.ConfigFile
	// Patched is the digest of the patched image that the reference names, and
	// empty where it names the image itself.
	Patched string

	ref       string          // for layers.Open
	origin    string          // how its patches name it, where one has; else where it is
	as        types.MediaType // of the patched manifest that the reference names
	src       source
	name      string // the reference of the image, for base.name
	listed    v1.Hash
	indexFrom string // see Base
	raw       []byte // the manifest; nil for an archive
	mt        types.MediaType
	manifest  *v1.Manifest
	rawConfig []byte
}

// Repository is the repository of a registry that the image is in, which for the
// origin of a patched image may be another than that one's; empty where it is in
// none.
func (img *Image) Repository() string {
	if img.src == nil {
		return ""
	}
	return img.src.place()
}

// OpenBase finds the image or the index that ref names: in a registry, an OCI
// layout (oci:DIR[:TAG]), a docker archive (docker-archive:FILE[:TAG]) or a
// daemon (docker:NAME). It reads manifests and configs only, but for a daemon
// and a docker archive, which are read to their end. A root file system
// (dir:ROOT) is a base as well; it can be published to layer:FILE only.
func OpenBase(ctx context.Context, ref string, o Options) (*Base, error) {
	b, err := openBase(ctx, ref, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	return b, nil
}

func openBase(ctx context.Context, ref string, o Options) (*Base, error) {
	b, raw, mt, err := find(ctx, ref, o)
	if err != nil || b.archive != nil || b.root {
		return b, err
	}
	if !mt.IsIndex() {
		img, err := b.open(ctx, raw, mt, v1.Hash{}, o)
		if err != nil {
			return nil, err
		}
		if o.Platform != nil && !img.Platform.Satisfies(*o.Platform) {
			return nil, fmt.Errorf("is for %s, not for %s", img.Platform.String(), o.Platform.String())
		}
		b.Images = []*Image{img}
		return b, nil
	}
	return b, b.openIndex(ctx, raw, mt, o)
}

// find gets what a reference names, as it is there.
func find(ctx context.Context, ref string, o Options) (b *Base, raw []byte, mt types.MediaType, err error) {
	b = &Base{Ref: ref}
	scheme, rest, _ := strings.Cut(ref, ":")
	switch {
	case scheme == "oci":
		b.src, raw, mt, err = openLayout(rest)
	case scheme == "docker-archive", scheme == "docker" && !strings.HasPrefix(rest, "//"):
		return b, nil, "", b.openArchive(ctx, scheme, rest, o)
	case scheme == "dir":
		return b, nil, "", b.openRoot(ctx, o)
	case scheme == "oci-archive":
		err = errors.New("cannot be patched: unpack it into a directory and say oci:DIR")
	default:
		b.src, raw, mt, err = openRepository(ctx, withoutScheme(ref), o)
	}
	if err == nil {
		err = checkType(mt)
	}
	if err == nil {
		b.Digest, b.raw, b.mt = digestOf(raw).String(), raw, mt
	}
	return b, raw, mt, err
}

// withoutScheme takes registry: and skopeo's docker:// away.
func withoutScheme(ref string) string {
	return strings.TrimPrefix(strings.TrimPrefix(ref, "registry:"), "docker://")
}

func digestOf(raw []byte) v1.Hash {
	h, _, _ := v1.SHA256(bytes.NewReader(raw)) // of bytes it cannot fail
	return h
}

// checkType refuses what is neither an image nor an index of today.
func checkType(mt types.MediaType) error {
	switch {
	case mt.IsSchema1():
		return errors.New("is in Docker's legacy schema 1 format, which cannot be patched: convert it once with `skopeo copy --format v2s2`, or push it again with a current Docker")
	case !mt.IsImage() && !mt.IsIndex():
		return fmt.Errorf("is no image: its manifest is of type %q", string(mt))
	}
	return nil
}

// openIndex opens the images of an index.
func (b *Base) openIndex(ctx context.Context, raw []byte, mt types.MediaType, o Options) error {
	m, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("reading the index: %w", err)
	}
	if len(m.Manifests) > maxManifests {
		return errEntries(len(m.Manifests))
	}
	b.index, b.indexType, b.entries, b.indexFrom = raw, mt, m.Manifests, b.origin(b.Digest)
	var others []string
	held := 0
	for _, d := range m.Manifests {
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
		if held += len(img.raw) + len(img.rawConfig); held > maxDocuments {
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

func errEntries(n int) error {
	return fmt.Errorf("the index has %d entries, more than the %d that are looked at: name the image by its digest", n, maxManifests)
}

func (b *Base) openEntry(ctx context.Context, d v1.Descriptor, o Options) (*Image, error) {
	raw, mt, err := b.src.manifest(ctx, d.Digest)
	if err != nil {
		return nil, err
	}
	return b.open(ctx, raw, mt, d.Digest, o)
}

// origin is how a digest of b's source is named in an origin.
func (b *Base) origin(digest string) string {
	if p := b.src.place(); p != "" {
		return p + "@" + digest
	}
	return digest
}

// open makes an image of its manifest, or of its origin's where it is a patched
// one.
func (b *Base) open(ctx context.Context, raw []byte, mt types.MediaType, listed v1.Hash, o Options) (*Image, error) {
	img, err := readImage(ctx, b.src, raw, mt)
	if err != nil {
		return nil, err
	}
	if listed.Hex == "" {
		listed = digestOf(raw)
	}
	img.listed, img.name = listed, b.name()
	mark := img.mark()
	if mark.origin == "" {
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
	from.origin, from.as = mark.origin, mt
	return from, nil
}

func startsWith(list, with []v1.Hash) bool {
	return len(list) >= len(with) && slices.Equal(list[:len(with)], with)
}

// name is the reference of a base for base.name.
func (b *Base) name() string {
	if r, ok := b.src.(*repository); ok {
		return r.String()
	}
	return ""
}

// readImage reads an image's config and checks that manifest and config fit.
func readImage(ctx context.Context, src source, raw []byte, mt types.MediaType) (*Image, error) {
	if err := checkType(mt); err != nil {
		return nil, err
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	config, err := readDocument(ctx, src, m.Config)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	img := &Image{src: src, raw: raw, mt: mt, manifest: m, rawConfig: config, Digest: digestOf(raw).String()}
	if img.Config, err = v1.ParseConfigFile(bytes.NewReader(config)); err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	if len(img.Config.RootFS.DiffIDs) != len(m.Layers) {
		return nil, fmt.Errorf("is no container image: its config (%s) lists %d layers, its manifest %d", m.Config.MediaType, len(img.Config.RootFS.DiffIDs), len(m.Layers))
	}
	if p := img.Config.Platform(); p != nil {
		img.Platform = *p
	}
	return img, nil
}

// readDocument reads a blob that is JSON, all of it, and checks its digest.
func readDocument(ctx context.Context, src source, d v1.Descriptor) ([]byte, error) {
	if d.Size < 0 || d.Size > maxDocument {
		return nil, fmt.Errorf("it is %d bytes long, more than the %d that are read", d.Size, maxDocument)
	}
	rc, err := src.blob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, d.Size+1))
	if err != nil {
		return nil, err
	}
	if got := digestOf(b); got != d.Digest {
		return nil, fmt.Errorf("its bytes have the digest %s, not %s: the image is damaged", got, d.Digest)
	}
	return b, nil
}

// Open opens the image for reading. It is to be used rather than [layers.Open]
// of the reference, which for a patched image would give the patched one.
// o.Platform means nothing here.
func (img *Image) Open(ctx context.Context, o layers.Options) (*layers.Image, error) {
	o.Platform = nil
	if img.raw == nil {
		return layers.Open(ctx, img.ref, o)
	}
	if r, ok := img.src.(*repository); ok {
		o.Insecure = o.Insecure || r.insecure
		return layers.Open(ctx, "registry:"+r.ref.Context().Name()+"@"+img.Digest, o)
	}
	v, err := img.v1(ctx)
	if err != nil {
		return nil, err
	}
	return layers.OpenV1(img.Digest, v, o)
}

// Created is the time that a patch of the image bears: SOURCE_DATE_EPOCH's
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
	if err != nil || n < 0 || n > 253402300799 { // the end of the year 9999, as far as JSON's times go
		return t, true, fmt.Errorf("SOURCE_DATE_EPOCH is %q: it must be a number of seconds since 1970", s)
	}
	return time.Unix(n, 0).UTC(), true, nil
}
