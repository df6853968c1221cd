package layers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Indexes say where the indexes come from that somebody else has made of layers. Such an
// index decides the verdict on an image as the layer itself does, and nothing in it proves
// that it is the layer's: whoever sets Indexes decides whom to believe. The cache keeps
// such indexes apart from those of layers that this user has read.
type Indexes struct {
	// Origin names those who are believed for an image. It is empty if no one is. Images
	// with one origin share indexes.
	Origin func(*source.Image) string
	// Layer returns the index that was asked for, or nil if there is none that can be
	// used: the layer is read then. It is called from many goroutines.
	Layer func(context.Context, IndexRequest) *Layer
	// Used is called for each layer that was not read because there is an index, also if
	// the cache had that. layer is -1 for a whole report that was kept.
	Used func(img *source.Image, layer int)
	// Compared, when set, makes Index read all layers, and is called for each that has an
	// index with whether both are the same.
	Compared func(img *source.Image, layer int, same bool)
}

// IndexRequest asks for the index of a layer.
type IndexRequest struct {
	Image  *source.Image
	Layer  int    // its number from 0
	Digest string // that the bytes of the layer are verified to have
	Reader string // by which the index must have been made: IndexReader
	// Decode reads the stored form of the index. It takes bounded memory whatever the
	// bytes are, and fails for an index of another layer or reader.
	Decode func(io.Reader) (*Layer, error)
}

// IndexReader names everything that the index of a layer depends on beside the layer: the
// versions of the readers, and the choice of files whose content is kept (KeepID).
func IndexReader(keepID string) string {
	choice := sha256.Sum256([]byte(keepID))
	return fmt.Sprintf("%d.%d-%x", indexVersion, elfdeps.CodecVersion, choice[:6])
}

// by returns the part of keys that tells the indexes of others for an image from those of
// layers that were read; it is empty if none are believed.
func (x *Indexes) by(img *source.Image) string {
	if x == nil {
		return ""
	}
	if origin := x.Origin(img); origin != "" {
		return ", by " + origin
	}
	return ""
}

// Borrowed reports whether Index has used an index that somebody else has made.
func (img *Image) Borrowed() bool { return img.borrowed.Load() }

// borrow returns the index of a layer that somebody else has made, or nil.
func (img *Image) borrow(ctx context.Context, i int, digest string, t *tools) *Layer {
	by := img.opts.Indexes.by(img.Image)
	if by == "" || !img.opts.namesChoice(digest) || img.opts.Indexes.Compared != nil {
		return nil
	}
	l, cached := img.opts.Cache.received(digest, img.opts.KeepID, by, t.all)
	var got *arrival
	if !cached {
		l = img.requested(ctx, i, digest, t, func(r io.Reader) io.Reader {
			got.drop() // another place's, which was refused
			got = img.opts.Cache.receive(digest, img.opts.KeepID, by)
			return io.TeeReader(r, got)
		})
		defer func() { got.drop() }()
	}
	if l == nil {
		return nil
	}
	img.note(i, "is not read: its index is that of "+img.opts.Indexes.Origin(img.Image))
	img.lends(i)
	if err := got.keep(); err != nil {
		img.note(i, err.Error())
	}
	return l
}

// requested asks for the index of a layer. Its bytes pass through via, unless that is nil.
func (img *Image) requested(ctx context.Context, i int, digest string, t *tools, via func(io.Reader) io.Reader) *Layer {
	return img.opts.Indexes.Layer(ctx, IndexRequest{
		Image: img.Image, Layer: i, Digest: digest, Reader: IndexReader(img.opts.KeepID),
		Decode: func(r io.Reader) (*Layer, error) {
			if via != nil {
				r = via(r)
			}
			l, err := decodeLayer(r, t.all, layerName(digest, img.opts.KeepID))
			if err == nil {
				err = l.check()
			}
			if err != nil {
				return nil, err
			}
			return l, nil
		},
	})
}

// lends records that the index of a layer is somebody else's.
func (img *Image) lends(i int) {
	img.borrowed.Store(true)
	if img.opts.Indexes.Used != nil {
		img.opts.Indexes.Used(img.Image, i)
	}
}

// compare compares a layer that was read with the index that somebody else has made of it.
func (img *Image) compare(ctx context.Context, i int, digest string, l *Layer, t *tools) {
	x := img.opts.Indexes
	if x.by(img.Image) == "" || x.Compared == nil || !img.opts.namesChoice(digest) {
		return
	}
	if theirs := img.requested(ctx, i, digest, t, nil); theirs != nil {
		x.Compared(img.Image, i, theirs.equal(l))
	}
}

// StoredIndex returns the index of layer i in its stored form, which IndexRequest.Decode
// reads. It returns nil if the cache does not have it, or has only somebody else's.
func (img *Image) StoredIndex(i int) []byte {
	digest := img.Verified(i)
	if !img.opts.cacheable(digest) {
		return nil
	}
	f, r := img.opts.Cache.open(img.opts.Cache.file(layerName(digest, img.opts.KeepID), layerFile), maxIndex)
	if f == nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return b
}

// Reader returns the [IndexReader] of the indexes that StoredIndex returns.
func (img *Image) Reader() string { return IndexReader(img.opts.KeepID) }

// check returns an error for an index that no reading of a layer gives: a path that leads
// out of the image, a file without its directory, a link with content.
func (l *Layer) check() error {
	dirs := map[string]bool{"": true}
	inside := func(p string) bool { return p != "" && p == clean(p) && dirs[parent(p)] }
	const modes = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	for _, e := range l.Entries {
		wrong := ""
		switch {
		case !inside(e.Path):
			wrong = "is in no directory of the layer"
		case e.Type != Regular && (e.Object != nil || e.Fatbin != nil || e.Content != nil || e.Shebang != ""):
			wrong = "has content and is no file"
		case e.Type == HardLink && e.Link != clean(e.Link):
			wrong = "links out of the image"
		case e.Size < 0 || e.Mode&^modes != 0:
			wrong = "has a size or mode that no file has"
		}
		if wrong != "" {
			return fmt.Errorf("is no index of a layer: %s %s", plain.Name(e.Path), wrong)
		}
		if e.IsDir() {
			dirs[e.Path] = true
		}
	}
	for _, p := range l.Whiteouts {
		if !inside(p) {
			return fmt.Errorf("is no index of a layer: the whiteout %s is in no directory of it", plain.Name(p))
		}
	}
	for _, p := range l.Opaque {
		if !dirs[p] {
			return fmt.Errorf("is no index of a layer: %s is opaque and no directory", plain.Name(p))
		}
	}
	if !slices.IsSorted(l.Whiteouts) || !slices.IsSorted(l.Opaque) {
		return errors.New("is no index of a layer: its whiteouts are not sorted")
	}
	return nil
}

// equal reports whether two indexes say the same. The symbols are compared unpacked: another
// build may pack them otherwise.
func (l *Layer) equal(other *Layer) bool {
	if len(l.Entries) != len(other.Entries) {
		return false
	}
	for i, e := range l.Entries {
		if a, b := e.Object, other.Entries[i].Object; a != nil && b != nil && !a.Symbols.Equal(b.Symbols) {
			return false
		}
	}
	a, err := l.withoutSymbols()
	b, wrong := other.withoutSymbols()
	return errors.Join(err, wrong) == nil && bytes.Equal(a, b)
}

// withoutSymbols returns a digest of the stored form of a layer without its symbols.
func (l *Layer) withoutSymbols() ([]byte, error) {
	bare := *l
	bare.Entries = make([]*Entry, len(l.Entries))
	objects := map[*elfdeps.Object]*elfdeps.Object{} // hard links share theirs
	for i, e := range l.Entries {
		bare.Entries[i] = e
		if e.Object == nil || e.Object.Symbols == nil {
			continue
		}
		o := objects[e.Object]
		if o == nil {
			without := *e.Object
			without.Symbols = nil
			o = &without
			objects[e.Object] = o
		}
		entry := *e
		entry.Object = o
		bare.Entries[i] = &entry
	}
	sum := sha256.New()
	err := encodeLayer(sum, "", &bare)
	return sum.Sum(nil), err
}
