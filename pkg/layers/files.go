package layers

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// ErrStream is the error of ReadFiles for an image whose layers cannot be read one by one:
// a daemon's, a compressed archive's.
var ErrStream = errors.New("its layers can be read as one stream only")

// ReadFiles reads files of one layer. entries are regular files that Index has found in
// it. ReadFiles reads the layer once and calls take with each file and its bytes, in the
// order of the tar; take need not read them all. The bytes are verified only once
// ReadFiles has returned without an error: the layer's digest is known at its end.
func (img *Image) ReadFiles(ctx context.Context, layer int, entries []*Entry, take func(e *Entry, r io.Reader) error) error {
	return img.readFiles(ctx, layer, entries, func(e *Entry, _ map[string]string, r io.Reader) error { return take(e, r) })
}

// ReadFile reads one file as ReadFiles does, and also passes its extended attributes, by
// their names.
func (img *Image) ReadFile(ctx context.Context, layer int, e *Entry, take func(xattrs map[string]string, r io.Reader) error) error {
	return img.readFiles(ctx, layer, []*Entry{e}, func(_ *Entry, xattrs map[string]string, r io.Reader) error { return take(xattrs, r) })
}

// taker is called with an entry, its extended attributes and its bytes.
type taker func(e *Entry, xattrs map[string]string, r io.Reader) error

func (img *Image) readFiles(ctx context.Context, layer int, entries []*Entry, take taker) error {
	switch {
	case img.Root != "":
		return readRoot(ctx, img.Root, entries, take)
	case img.IsStream():
		return ErrStream
	}
	rc, err := img.Blob(ctx, layer, func(text string) { img.note(layer, text) })
	if err != nil {
		return err
	}
	defer rc.Close()
	src := &input{ctx: ctx, r: img.meter(rc, layer)}
	raw := bufio.NewReaderSize(src, 256<<10)
	err = readFiles(raw, entries, take)
	io.Copy(io.Discard, raw)
	if src.err != nil {
		return src.err
	}
	return err
}

// readRoot reads files of a directory tree.
func readRoot(ctx context.Context, root string, entries []*Entry, take taker) error {
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := openFile(root, e)
		if err != nil {
			return err
		}
		xattrs, err := xattrsOf(f)
		if err == nil {
			err = take(e, xattrs, f)
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// readFiles finds entries by the numbers of their headers, which are in Entry.Inode:
// names may lead through links, and occur in a tar more than once.
func readFiles(raw skipReader, entries []*Entry, take taker) error {
	byNumber := map[int][]*Entry{}
	for _, e := range entries {
		byNumber[e.Inode] = append(byNumber[e.Inode], e)
	}
	unpacked, done, err := new(tools).decompress(raw, nil)
	if err != nil {
		return err
	}
	defer done()
	tr := tar.NewReader(newStream(unpacked))
	for number := 0; len(byNumber) > 0; {
		h, err := tr.Next()
		if err == io.EOF {
			return errors.New("has other files than when it was indexed")
		}
		if err != nil {
			return fmt.Errorf("reading tar: %w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		number++
		found := byNumber[number]
		delete(byNumber, number)
		for i, e := range found {
			switch {
			case i > 0:
				return fmt.Errorf("%s and %s are one file: ask for one of them", plain.Name(found[0].Path), plain.Name(e.Path))
			case h.Size != e.Size:
				return errors.New("has other files than when it was indexed")
			}
			if err := take(e, xattrsIn(h), tr); err != nil {
				return fmt.Errorf("reading %s: %w", plain.Name(e.Path), err)
			}
		}
	}
	return nil
}

// XattrRecord is the prefix of the PAX records of a tar that are extended attributes, as
// containerd, Docker and Podman unpack them.
const XattrRecord = "SCHILY.xattr."

// xattrsIn returns the extended attributes of an entry of a tar.
func xattrsIn(h *tar.Header) map[string]string {
	var all map[string]string
	for record, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(record, XattrRecord); ok {
			if all == nil {
				all = map[string]string{}
			}
			all[name] = value
		}
	}
	return all
}
