// Package ziptail reads the end of a stream that is a zip file: the directory of its files is
// there. It does not know what is in a zip file.
package ziptail

import "io"

// Most is the number of bytes that are read, from the end.
const Most = 8 << 20

// Tail is the end of a file of Size bytes. Of the bytes before it ReadAt says
// [io.ErrUnexpectedEOF].
type Tail struct {
	Bytes []byte
	Size  int64
}

// Read reads a stream of a size to its end, and returns its last bytes, at most [Most].
func Read(r io.Reader, size int64) (Tail, error) {
	if _, err := io.CopyN(io.Discard, r, max(0, size-Most)); err != nil {
		return Tail{}, err
	}
	b, err := io.ReadAll(io.LimitReader(r, Most))
	return Tail{b, size}, err
}

// ReadAt implements [io.ReaderAt].
func (t Tail) ReadAt(p []byte, off int64) (int, error) {
	begin := off - (t.Size - int64(len(t.Bytes)))
	if begin < 0 || begin > int64(len(t.Bytes)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, t.Bytes[begin:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
