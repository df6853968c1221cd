package scan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// contents reads files of an image, each once, into unnamed temporary files.
type contents struct {
	img  *layers.Image
	kept map[*layers.Entry]keptFile
}

type keptFile struct {
	*os.File
	xattrs map[string]string
}

func (c *contents) read(ctx context.Context, layer int, e *layers.Entry) (keptFile, error) {
	if f, ok := c.kept[e]; ok {
		return f, nil
	}
	tmp, err := os.CreateTemp("", "imgcheck-*")
	if err != nil {
		return keptFile{}, err
	}
	os.Remove(tmp.Name())
	f := keptFile{File: tmp}
	err = c.img.ReadFile(ctx, layer, e, func(xattrs map[string]string, r io.Reader) error {
		f.xattrs = xattrs
		return copySparse(tmp, r)
	})
	if errors.Is(err, layers.ErrStream) {
		err = fmt.Errorf("%w: push the image to a registry, or copy it to oci:DIR, and patch it there", err)
	}
	if err != nil {
		tmp.Close()
		return keptFile{}, fmt.Errorf("reading /%s from layer %d: %w", e.Path, layer+1, err)
	}
	if c.kept == nil {
		c.kept = map[*layers.Entry]keptFile{}
	}
	c.kept[e] = f
	return f, nil
}

// copySparse copies a file, and leaves holes where it has only zeros: a layer of some hundred
// bytes may have a file of gigabytes.
func copySparse(to *os.File, from io.Reader) error {
	buf, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	size := int64(0)
	for {
		n, err := from.Read(buf)
		if n > 0 && !bytes.Equal(buf[:n], zeros[:n]) {
			if _, err := to.WriteAt(buf[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		switch {
		case err == io.EOF:
			return to.Truncate(size)
		case err != nil:
			return err
		}
	}
}

// content opens a file of the image; see [fix.Options].
func (c *contents) content(ctx context.Context, layer int, e *layers.Entry) (io.ReadCloser, error) {
	f, err := c.read(ctx, layer, e)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(f, 0, e.Size)), nil
}

func (c *contents) xattrs(ctx context.Context, layer int, e *layers.Entry) (map[string]string, error) {
	f, err := c.read(ctx, layer, e)
	return f.xattrs, err
}

// Close frees the image and its files. A change that was planned cannot be published
// after it.
func (c *contents) Close() error {
	errs := []error{c.img.Close()}
	for _, f := range c.kept {
		errs = append(errs, f.Close())
	}
	c.kept = nil
	return errors.Join(errs...)
}
