package source

import (
	"context"
	"fmt"
	"io"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// stream is an image whose layers come as one stream.
type stream struct {
	tag  string // of the image in the archive
	open func(ctx context.Context) (io.ReadCloser, error)
	read func(ctx context.Context) // called when the stream was read; may be nil
}

// IsStream reports whether the layers come as one stream only.
func (img *Image) IsStream() bool { return img.stream != nil }

// Stream opens the stream of all layers: a docker archive, which may be compressed. It
// can be opened once, unless it is a daemon's.
func (img *Image) Stream(ctx context.Context) (io.ReadCloser, error) { return img.stream.open(ctx) }

// ReadStream reads the stream that Stream has opened, decompressed in r, to its end,
// as [ReadSaved] does. Then Config and Layers are known.
func (img *Image) ReadStream(ctx context.Context, r io.Reader, take func(f TarFile, r io.Reader) error) (*Saved, error) {
	s, err := img.readSaved(ctx, r, img.stream.tag, take)
	if img.stream.read != nil {
		img.stream.read(ctx)
	}
	return s, err
}

// maxInstruction bounds an instruction in a message, in characters.
const maxInstruction = 60

// Instruction returns the instruction that made the layer for a message, in brackets
// behind a blank; "" if it is not known.
func (l *Layer) Instruction() string {
	if l.CreatedBy == "" {
		return ""
	}
	s := plain.Line(l.CreatedBy)
	if r := []rune(s); len(r) > maxInstruction {
		s = string(r[:maxInstruction-1]) + "…"
	}
	return fmt.Sprintf(" (%s)", s)
}
