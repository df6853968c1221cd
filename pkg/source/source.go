// Package source finds the image that a reference names and fetches its documents
// and blobs.
//
// [Open] takes a reference to a registry, a Docker or Podman daemon, a docker
// archive, an OCI layout or archive, or a directory. It returns an [Image]: the raw
// manifest and config, and the layers as streams, each of which fails at its end if
// its bytes do not have the layer's digest. A [Store], which is a [Repository] of a
// registry or a [Layout], gives the documents and blobs of any number of images.
// [Download] fetches a file by HTTP.
//
// All requests go through one transport. It bounds answers and redirects, bounds
// silence rather than the whole time, and sends a request again where that may help.
// A download whose connection breaks continues from there. An error of a registry, a
// daemon or another server is one line that says what to do.
//
// The package does not know what is in a layer: it neither unpacks nor indexes one.
// All input is hostile: each size is bounded before it is allocated.
package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Options say how an image is found.
type Options struct {
	// Platform chooses an image of an index; nil means linux/amd64, or the only
	// platform there is.
	Platform *v1.Platform
	// Insecure allows plain HTTP and unverified TLS to the registry.
	Insecure bool
	// Stall is how long a server may send nothing before a request is given up and
	// sent again; 0 means a minute. A download as a whole has no limit.
	Stall time.Duration
	// Env are the variables that programs of a directory run with, each as
	// NAME=VALUE. Nil means those of this process for the root "/", and none for
	// another directory. Other images have their own.
	Env []string
	// Sleep waits before another attempt; nil means that it waits. Tests set it.
	Sleep func(context.Context, time.Duration) error
}

// stall returns how long a server may be silent.
func (o *Options) stall() time.Duration {
	if o.Stall > 0 {
		return o.Stall
	}
	return defaultStall
}

// sleeper returns the function that waits between attempts.
func (o *Options) sleeper() func(context.Context, time.Duration) error {
	if o.Sleep != nil {
		return o.Sleep
	}
	return Sleep
}

// Image is an image that was found: its documents, and its layers, to be opened. The
// packages layers and patch embed it in types of their own, with the options of reading and
// with the origin.
//
// The layers of most images can be opened one by one, by [Image.Blob]. Those of a
// daemon's image and of a compressed docker archive come as one stream, which
// [Image.Stream] opens; Config and Layers are known once [Image.ReadStream] has read
// it. A directory has neither: its files are below Root.
type Image struct {
	// Ref is the reference as it was given.
	Ref string
	// Digest is the manifest's digest; empty where there is no manifest.
	Digest string
	// Manifest and RawConfig are the documents as they are stored; nil where there
	// is none.
	Manifest, RawConfig []byte
	// MediaType is the manifest's.
	MediaType types.MediaType
	// Config is RawConfig, parsed.
	Config *v1.ConfigFile
	// Layers describe the layers, the lowest first.
	Layers []Layer
	// Root is the absolute path of a directory; empty for other images.
	Root string
	// Store has the image; nil for one of an archive, a daemon or a directory.
	Store Store

	id    string // of an image without a manifest, see ID
	blobs []blob // of Layers
	// attestations are those of the image in its index; nil where there is no index.
	attestations []v1.Descriptor
	stream       *stream
	platform     *v1.Platform
	close        func() error
}

// Layer describes a layer of an image.
type Layer struct {
	Digest    string // of the blob; of the uncompressed tar if only that is known
	DiffID    string // of the uncompressed tar; empty for a directory
	CreatedBy string // the instruction, from the config's history; may be empty
	Size      int64  // of the blob in bytes; 0 if not known
}

// blob opens a layer.
type blob struct {
	open func(ctx context.Context, note func(string)) (io.ReadCloser, error)
	// digest is the one that the bytes must have; empty where none is known.
	digest string
}

// Open finds the image that ref names. It reads manifests and configs only. The
// caller closes the image.
func Open(ctx context.Context, ref string, o Options) (*Image, error) {
	scheme, rest := Split(ref)
	if rest == "" {
		return nil, emptyReference(ref)
	}
	open := map[string]func(context.Context, string, Options) (*Image, error){
		"docker": openDaemon, "docker-archive": openDockerArchive, "oci": openLayout, "oci-archive": openLayoutArchive,
		"dir": openDir, "registry": openRegistry,
	}[scheme]
	img, err := open(ctx, rest, o)
	if err == nil {
		img.Ref, img.platform = ref, o.Platform
		if err = img.checkPlatform(); err != nil {
			img.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", withoutLogin(ref), err)
	}
	return img, nil
}

// ID names everything that the image holds: two images with one ID are the same. It
// is the digest of the manifest, or of the config where there is no manifest, and
// empty where the image has no name that is known before it was read.
func (img *Image) ID() string {
	if img.Digest != "" {
		return img.Digest
	}
	return img.id
}

// Repository returns the repository that has the image, whatever form the reference
// had ("docker.io/library/ubuntu"). It is empty for an image of this machine.
func (img *Image) Repository() string {
	if img.Store == nil {
		return ""
	}
	return img.Store.Name()
}

// Close frees what Open holds.
func (img *Image) Close() error {
	if img.close == nil {
		return nil
	}
	return img.close()
}

// closeAfter closes c if the image was not found, and with the image if it was.
func closeAfter(img *Image, err error, c io.Closer) (*Image, error) {
	if err != nil {
		c.Close()
		return nil, err
	}
	img.close = c.Close
	return img, nil
}

// Verified returns the digest that the bytes of layer i are verified to have when
// they are read to their end. It is empty where none is known.
func (img *Image) Verified(i int) string { return img.blobs[i].digest }

// Blob opens layer i, from 0, as it is stored. note, unless nil, is called with a line
// of text when a download continues on another connection.
func (img *Image) Blob(ctx context.Context, i int, note func(text string)) (*Blob, error) {
	b := img.blobs[i]
	rc, err := b.open(ctx, note)
	if err != nil {
		return nil, err
	}
	_, file := rc.(*os.File)
	out := &Blob{rc: rc, Local: file, want: b.digest, fetched: img.Repository() != ""}
	if b.digest != "" {
		out.sum = sha256.New()
	}
	return out, nil
}

// Blob is a layer as it is stored. Its last Read fails if the bytes do not have the
// layer's digest.
type Blob struct {
	// Local is set for a file of this machine, of which a small read costs little.
	Local bool

	rc      io.ReadCloser
	sum     hash.Hash // nil where no digest is known
	want    string
	fetched bool // over the network
}

// Read implements [io.Reader].
func (b *Blob) Read(p []byte) (int, error) {
	n, err := b.rc.Read(p)
	if b.sum == nil {
		return n, err
	}
	b.sum.Write(p[:n])
	if err == io.EOF {
		if got := hexOf(b.sum); got != b.want {
			err = damaged(got, b.want, b.fetched)
		}
	}
	return n, err
}

// Close implements [io.Closer].
func (b *Blob) Close() error { return b.rc.Close() }

// hexOf returns the digest of what was written to a SHA-256.
func hexOf(sum hash.Hash) string { return fmt.Sprintf("sha256:%x", sum.Sum(nil)) }

// digestOf returns the digest of b.
func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// damaged returns the error of bytes that have another digest than they should.
func damaged(got, want string, fetched bool) error {
	text := fmt.Sprintf("its bytes have the digest %s, not %s: the image is damaged", got, want)
	if fetched {
		text += ", or a proxy has changed it"
	}
	return errors.New(text)
}
