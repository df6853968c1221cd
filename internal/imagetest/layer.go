package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// epoch is the time of all files, layers and images.
var epoch = time.Unix(0, 0).UTC()

// LayerTar writes layer n as an uncompressed tar.
func (im *Image) LayerTar(n int, w io.Writer) error {
	if n < 0 || n >= len(im.Layers) {
		return fmt.Errorf("writing layer %d: the image has %d layers", n, len(im.Layers))
	}
	tw := tar.NewWriter(w)
	for i := range im.Layers[n].Files {
		f := &im.Layers[n].Files[i]
		if err := f.writeTar(tw, w); err != nil {
			return fmt.Errorf("writing layer %d: %s: %w", n, f.Name, err)
		}
	}
	return tw.Close()
}

// capability is a vfs_cap_data of version 2 with cap_net_bind_service in effect.
const capability = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func (f *File) writeTar(tw *tar.Writer, w io.Writer) error {
	h := &tar.Header{
		Typeflag: f.Type, Name: f.Name, Linkname: f.Link, Size: f.Size, Mode: f.Mode, Uid: f.UID, Gid: f.GID,
		ModTime: epoch, Devmajor: f.Devmajor, Devminor: f.Devminor,
	}
	if f.Capable {
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": capability}
	}
	if f.Type == tar.TypeDir {
		h.Name += "/"
	}
	if f.sparse {
		return f.writeSparse(tw, w)
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if f.Type != tar.TypeReg {
		return nil
	}
	_, err := f.WriteTo(tw)
	return err
}

// writeSparse writes a file that is one hole as an old GNU sparse entry, which archive/tar reads but does not write.
func (f *File) writeSparse(tw *tar.Writer, w io.Writer) error {
	if len(f.Name) > 100 || f.Capable {
		return fmt.Errorf("a sparse file has a name of at most 100 bytes and no capability")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var block [512]byte
	copy(block[:], f.Name)
	octal := func(at, width int, v int64) { copy(block[at:at+width], fmt.Sprintf("%0*o", width-1, v)) }
	octal(100, 8, f.Mode)
	octal(108, 8, int64(f.UID))
	octal(116, 8, int64(f.GID))
	octal(124, 12, 0) // bytes that follow
	octal(136, 12, 0) // mtime
	copy(block[148:], "        ")
	block[156] = tar.TypeGNUSparse
	copy(block[257:], "ustar  \x00")
	octal(386, 12, f.Size) // a piece of data at the very end,
	octal(398, 12, 0)      // of no length
	octal(483, 12, f.Size)
	sum := int64(0)
	for _, b := range block {
		sum += int64(b)
	}
	octal(148, 7, sum)
	_, err := w.Write(block[:])
	return err
}

// mediaTypes maps the word of the compress directive to the type of a layer.
var mediaTypes = map[string]types.MediaType{
	"gzip": types.OCILayer,
	"zstd": types.OCILayerZStd,
	"none": types.OCIUncompressedLayer,
}

// V1 returns the image as an OCI image. The same text always has the same digest.
func (im *Image) V1() (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS: im.Platform.OS, Architecture: im.Platform.Architecture, Variant: im.Platform.Variant,
		Created: v1.Time{Time: epoch}, Config: im.Config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("making the config: %w", err)
	}
	var adds []mutate.Addendum
	for n, l := range im.Layers {
		layer, err := newLayer(im, n)
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{
			Layer: layer, MediaType: layer.mediaType, History: v1.History{CreatedBy: l.CreatedBy, Created: v1.Time{Time: epoch}},
		})
	}
	for _, createdBy := range im.Empty {
		adds = append(adds, mutate.Addendum{History: v1.History{CreatedBy: createdBy, EmptyLayer: true, Created: v1.Time{Time: epoch}}})
	}
	if img, err = mutate.Append(img, adds...); err != nil {
		return nil, fmt.Errorf("appending the layers: %w", err)
	}
	return img, nil
}

// layer is a v1.Layer that holds only its compressed form. Uncompressed writes the tar again at each call.
type layer struct {
	im             *Image
	n              int
	blob           []byte // nil if the layer is not compressed
	length         int64
	digest, diffID v1.Hash
	mediaType      types.MediaType
}

func newLayer(im *Image, n int) (*layer, error) {
	mediaType, ok := mediaTypes[im.Compression]
	if !ok {
		return nil, fmt.Errorf("unknown compression %q", im.Compression)
	}
	l := &layer{im: im, n: n, mediaType: mediaType}
	plain, length := sha256.New(), new(counter)
	if im.Compression == "none" {
		err := im.LayerTar(n, io.MultiWriter(plain, length))
		l.diffID, l.digest, l.length = sum(plain), sum(plain), int64(*length)
		return l, err
	}
	packed, blob := sha256.New(), &bytes.Buffer{}
	c, err := compressor(im.Compression, io.MultiWriter(packed, blob))
	if err != nil {
		return nil, err
	}
	if err := im.LayerTar(n, io.MultiWriter(plain, c)); err != nil {
		return nil, err
	}
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("compressing layer %d: %w", n, err)
	}
	l.diffID, l.digest, l.blob, l.length = sum(plain), sum(packed), blob.Bytes(), int64(blob.Len())
	return l, nil
}

func compressor(name string, w io.Writer) (io.WriteCloser, error) {
	if name == "zstd" {
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	}
	return gzip.NewWriterLevel(w, gzip.BestSpeed)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

func (l *layer) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error)            { return l.diffID, nil }
func (l *layer) Size() (int64, error)                { return l.length, nil }
func (l *layer) MediaType() (types.MediaType, error) { return l.mediaType, nil }

func (l *layer) Compressed() (io.ReadCloser, error) {
	if l.blob == nil {
		return l.Uncompressed()
	}
	return io.NopCloser(bytes.NewReader(l.blob)), nil
}

func (l *layer) Uncompressed() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(l.im.LayerTar(l.n, w)) }()
	return r, nil
}

// isWhiteout reports whether a base name is a whiteout, and returns the name that it removes from lower layers.
func isWhiteout(base string) (name string, ok bool) {
	return strings.CutPrefix(base, ".wh.")
}
