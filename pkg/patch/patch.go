// Package patch lays a layer and edits of the config over an image and
// publishes the result, without running anything and without moving what the
// image already has.
//
// [OpenBase] finds the image that a reference names, and for an index every
// image of it. [Apply] makes a [Patched] of one of them: a deterministic layer,
// and manifest and config as the raw JSON that they were, but for the edit.
// [Publish] takes it to a registry, an OCI layout, a docker archive or a
// daemon: blobs first, then the config, then the manifest, then the name, so
// that a failure at any point leaves the name as it was. [Undo] gives a name
// back what it had.
//
// The package does not know why a file is added or a variable changed: that is
// the planner's. Where files come from it does not know either.
package patch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Change is what is laid over a base: files of the new layer and edits of the
// config. The zero value changes nothing.
type Change struct {
	Files []File
	Env   []EnvEdit
	// CreatedBy and Comment stand in the history entry.
	CreatedBy, Comment string
	// Created is the time of the layer's files, of the history entry and,
	// where SOURCE_DATE_EPOCH asks for it, of the image: see [Created].
	Created time.Time
}

// Empty reports whether the change changes nothing.
func (c *Change) Empty() bool { return len(c.Files) == 0 && len(c.Env) == 0 }

// File is one path that the new layer adds, replaces or removes.
type File struct {
	// Path is clean; a leading slash may be there. Links among its parents are
	// followed in the base, so that lib/x lands in usr/lib where lib is a link:
	// an entry lib/x would make lib a directory and hide all of the base's.
	Path   string
	Link   string      // a symbolic link's text; then Open, Size and Mode mean nothing
	Remove bool        // a whiteout: the path is to be gone, with all below it
	Mode   fs.FileMode // permission, set-id and sticky bits
	Size   int64       // in bytes, exactly what Open gives
	// Open gives the content. It is called once for each time that the layer is
	// written, and always gives the same bytes.
	Open     func() (io.ReadCloser, error)
	UID, GID int
}

// EnvEdit sets or unsets one variable of the config's environment. Value is the
// final one: what it had before is for the planner to have taken in.
type EnvEdit struct {
	Name, Value string
	Unset       bool
}

// Options say how images are found and published.
type Options struct {
	// Platform chooses one image of an index; nil means every one.
	Platform *v1.Platform
	// Insecure allows plain HTTP and unverified TLS to the registry.
	Insecure bool
	// AllowCopy allows the content of base layers to be read, and sent, where
	// the target cannot take them from where they are.
	AllowCopy bool
	// Note, when set, is told in one line each of what was decided: an
	// attestation left out, an image already there.
	Note func(line string)
}

func (o *Options) note(line string) {
	if o.Note != nil {
		o.Note(line)
	}
}

// Base is what a reference names: an image, or an index of images.
type Base struct {
	// Ref is the reference as it was given.
	Ref string
	// Digest is of the manifest or index; of the config where there is no
	// manifest (docker-archive:, docker:).
	Digest string
	// Images are those that can be patched, in the order of the index: not the
	// attestations, not what Options.Platform leaves out.
	Images []*Image
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
}

// Open opens the image for reading. It is to be used rather than [layers.Open]
// of the reference, which for a patched image would give the patched one.
func (img *Image) Open(ctx context.Context, o layers.Options) (*layers.Image, error) {
	return nil, errors.ErrUnsupported
}

// OpenBase finds the image or the index that ref names: in a registry, an OCI
// layout (oci:DIR[:TAG]), a docker archive (docker-archive:FILE[:TAG]) or a
// daemon (docker:NAME). It reads manifests and configs only, but for a daemon
// and a compressed archive, which are read to their end.
func OpenBase(ctx context.Context, ref string, o Options) (*Base, error) {
	return nil, errors.ErrUnsupported
}

// Created is the time that a patch of the image bears: SOURCE_DATE_EPOCH's
// (https://reproducible-builds.org/specs/source-date-epoch/), else the image's
// own, else the epoch. It is never the clock's.
func Created(img *Image) (time.Time, error) {
	return time.Time{}, errors.ErrUnsupported
}

// WriteTar writes the layer of a change as an uncompressed tar. The same change
// over the same base gives the same bytes. The directories above its files have
// the base's owners and modes, for a layer's entry of a directory replaces
// them. It is an error when a path would not take effect: below something that
// is no directory, a whiteout of nothing, the same path twice.
//
// A planner tries a candidate with layers.ReadLayer of what this writes.
func WriteTar(w io.Writer, base *layers.FS, c Change) error {
	return errors.ErrUnsupported
}

// Patched is an image with a change laid over it, not yet published. It may
// hold an unnamed temporary file: Close frees it.
type Patched struct {
	// Base is what was patched.
	Base *Image
	// Layer is the new layer, nil when the change has no files.
	Layer v1.Layer
	// Manifest and Config are the raw documents. Manifest is nil where the base
	// has none.
	Manifest, Config []byte
	// Digest is of the manifest, or of the config where there is no manifest.
	Digest string
}

// Index is the index of the new layer, to be merged over the base's layers;
// keep is as in layers.ReadLayer. Without a layer it is empty.
func (p *Patched) Index(keep func(name string, size int64) bool) (*layers.Layer, error) {
	return nil, errors.ErrUnsupported
}

// Close frees the layer.
func (p *Patched) Close() error { return nil }

// Apply lays a change over an image. base is the file system of img: what
// img.Open(…).Index gives.
func Apply(img *Image, base *layers.FS, c Change) (*Patched, error) {
	return nil, errors.ErrUnsupported
}

// Publish takes the patched images to a target and returns ref@sha256:…; the
// digest is the manifest's or the index's, and the config's where the target
// keeps no manifest. A target is a registry's reference with a tag, oci:DIR[:TAG],
// docker-archive:FILE[:REF] or docker:REF. Of an index the other entries stay
// as they are.
//
// The content of a layer of the base is read only when o.AllowCopy is set, or
// when both ends are files on this machine; else what would need it is a
// [CopyError].
func Publish(ctx context.Context, base *Base, patched []*Patched, target string, o Options) (string, error) {
	return "", errors.ErrUnsupported
}

// CopyError says that publishing needs the content of a layer of the base.
type CopyError struct {
	Digest string // of the layer
	Size   int64  // in bytes, compressed
	Why    string
}

func (e *CopyError) Error() string { return e.Why }

// Undo gives the name of a patched image its origin back and returns
// ref@sha256:…. It is an error when ref names no patched image, or when the
// origin is not to be had any more.
func Undo(ctx context.Context, ref string, o Options) (string, error) {
	return "", errors.ErrUnsupported
}
