package ziptail

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// TestRead: the last bytes are those of the stream, at their offsets, and those before are not known.
func TestRead(t *testing.T) {
	file := bytes.Repeat([]byte("0123456789"), Most/10+10)
	size := int64(len(file))
	end, err := Read(bytes.NewReader(file), size)
	if err != nil || len(end.Bytes) != Most {
		t.Fatalf("%d bytes, %v", len(end.Bytes), err)
	}
	for _, off := range []int64{size - Most, size - 7, size} {
		p := make([]byte, 5)
		n, err := end.ReadAt(p, off)
		want := file[off:min(size, off+5)]
		if !bytes.Equal(p[:n], want) || len(want) < 5 && !errors.Is(err, io.EOF) || len(want) == 5 && err != nil {
			t.Errorf("at %d: %q, %v; want %q", off, p[:n], err, want)
		}
	}
	if _, err := end.ReadAt(make([]byte, 1), size-Most-1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("before the end: %v", err)
	}
	if _, err := Read(bytes.NewReader(file[:9]), size); err == nil {
		t.Error("a stream that is cut short has no error")
	}
}
