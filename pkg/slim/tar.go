package slim

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/hand"
	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// blockSize is the size of a tar's blocks, in bytes.
const blockSize = 512

// maxHead bounds the bytes of a member before its content: a PAX header, long names (1 MiB
// each in archive/tar) and the map of a sparse file.
const maxHead = 8 << 20

// Member is a member of a tar.
type Member struct {
	*tar.Header
	// Sparse is set for a file that the tar has without its holes. Its content can be
	// neither read nor changed here.
	Sparse bool
}

// Edit says what becomes of a member. The zero value leaves it as it is.
type Edit struct {
	Drop bool
	// Content, unless nil, writes the new content of a regular file, which must be as long as
	// the old one; it need not read all of that. It is not called for a sparse file.
	Content func(w io.Writer, old io.Reader) error
	// Text, unless nil, is the new content of a regular file, of any length up to 8 GiB. Of the header
	// only size and checksum change. The size of a sparse file, or one in a PAX record or as a binary
	// number, cannot be changed: that is an error.
	Text []byte
}

// Rewrite copies an uncompressed tar from r to w, and asks edit about each member but global
// PAX headers. The bytes of a member that stays are copied as they are, with those of its
// headers in front of it; so is all that follows the last member. It reads r to its end. Errors
// are those of r and w, and of a tar that archive/tar does not read.
func Rewrite(w io.Writer, r io.Reader, edit func(Member) (Edit, error)) error {
	c := &copier{w: w, r: bufio.NewReaderSize(r, 128<<10)}
	for {
		more, err := c.member(edit)
		if err != nil {
			return err
		}
		if !more {
			_, err := io.Copy(w, c.r)
			return err
		}
	}
}

// copier copies the members of a tar.
type copier struct {
	w    io.Writer
	r    *bufio.Reader
	head []byte // the bytes of the current member before its content
}

// member copies or drops the next member. It reports false at the end of the archive, whose
// first block it has copied.
func (c *copier) member(edit func(Member) (Edit, error)) (more bool, err error) {
	if err := c.readHead(); err != nil {
		return false, err
	}
	if c.atEnd() {
		_, err := c.w.Write(c.head)
		return false, err
	}
	m, size, pad, err := c.parse()
	if err == io.EOF { // headers without a member
		_, err := c.w.Write(c.head)
		return false, err
	}
	if err != nil {
		return false, cut(err)
	}
	var e Edit
	if m.Typeflag != tar.TypeXGlobalHeader {
		if e, err = edit(m); err != nil {
			return false, err
		}
	}
	if e.Drop {
		_, err := hand.On(io.Discard, c.r, size+pad)
		return true, ended(err)
	}
	if e.Text != nil {
		if err := c.setText(m, e.Text); err != nil {
			return false, fmt.Errorf("%s: %w", plain.Name(m.Name), err)
		}
		_, err := hand.On(io.Discard, c.r, size+pad)
		return true, ended(err)
	}
	if _, err := c.w.Write(c.head); err != nil {
		return false, err
	}
	if e.Content != nil && !m.Sparse && m.Typeflag == tar.TypeReg {
		if err := c.replace(e.Content, size); err != nil {
			return false, fmt.Errorf("%s: %w", plain.Name(m.Name), err)
		}
		size = 0
	}
	_, err = hand.On(c.w, c.r, size+pad)
	return true, ended(err)
}

// setText writes a file with a new content.
func (c *copier) setText(m Member, text []byte) error {
	header := c.head[len(c.head)-blockSize:]
	field := header[124:136]
	if m.Sparse || m.Typeflag != tar.TypeReg || m.PAXRecords["size"] != "" || field[0]&0x80 != 0 {
		return errors.New("its header has a size of a form that cannot be changed")
	}
	copy(field, fmt.Sprintf("%011o\x00", len(text)))
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
	for _, b := range [][]byte{c.head, text, zeroBlock[:padding(int64(len(text)))]} {
		if _, err := c.w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// ended returns nil for the end of a tar that lacks the padding of its last member, which
// archive/tar accepts, and another error as it is.
func ended(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func padding(size int64) int64 { return -size & (blockSize - 1) }

// replace writes the new content of a file of size bytes, and reads the old one to its end.
func (c *copier) replace(content func(io.Writer, io.Reader) error, size int64) error {
	old, w := io.LimitReader(c.r, size), &exactly{c.w, size}
	err := content(w, old)
	if err == nil && w.left > 0 {
		err = errLength
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, old)
	return err
}

var errLength = errors.New("its new content has another length")

// exactly is a writer that takes a number of bytes.
type exactly struct {
	w    io.Writer
	left int64
}

// Write implements [io.Writer].
func (e *exactly) Write(b []byte) (int, error) {
	if int64(len(b)) > e.left {
		return 0, errLength
	}
	n, err := e.w.Write(b)
	e.left -= int64(n)
	return n, err
}

var zeroBlock [blockSize]byte

// atEnd reports whether head is the first block of the end of the archive, or less than a
// block.
func (c *copier) atEnd() bool {
	return len(c.head) < blockSize || bytes.Equal(c.head[len(c.head)-blockSize:], zeroBlock[:])
}

// readHead reads the headers of the next member into head: those in front of it that hold its
// long names and PAX records with their contents, and its own.
func (c *copier) readHead() error {
	c.head = c.head[:0]
	for {
		block, err := c.take(blockSize)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil || c.atEnd() {
			return err
		}
		switch block[156] {
		case tar.TypeXHeader, tar.TypeXGlobalHeader, tar.TypeGNULongName, tar.TypeGNULongLink:
		default:
			return nil
		}
		size, err := sizeOf(block)
		if err != nil {
			return cut(err)
		}
		if block[156] == tar.TypeXGlobalHeader {
			return nil // a member of its own
		}
		if _, err := c.take(size + padding(size)); err != nil {
			return cut(err)
		}
	}
}

// take appends the next n bytes to head and returns them.
func (c *copier) take(n int64) ([]byte, error) {
	at := len(c.head)
	if n > maxHead-int64(at) {
		return nil, fmt.Errorf("reading tar: the headers of a member have more than %d bytes", maxHead)
	}
	c.head = append(c.head, make([]byte, n)...)
	got, err := io.ReadFull(c.r, c.head[at:])
	c.head = c.head[:at+got]
	return c.head[at:], err
}

// cut returns the error of a tar that ends within a member.
func cut(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading tar: %w", err)
}

// sizeOf returns the size field of a header: octal, or binary (GNU's base-256 numbers).
func sizeOf(block []byte) (int64, error) {
	field := block[124:136]
	var n int64
	if field[0]&0x80 != 0 {
		for i, b := range field {
			if i == 0 {
				b &= 0x7f
			}
			if n>>54 != 0 {
				return 0, errSize
			}
			n = n<<8 | int64(b)
		}
		return n, nil
	}
	s, _, _ := strings.Cut(strings.Trim(string(field), " \x00"), "\x00")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 8, 64)
	if err != nil || n < 0 {
		return 0, errSize
	}
	return n, nil
}

var errSize = errors.New("the size of a member makes no sense")

// parse returns the member whose headers are head, and the numbers of its bytes in the tar that
// follow head: its content, and the padding. It takes the map of a sparse file into head. The
// error of headers without a member is io.EOF.
func (c *copier) parse() (m Member, size, pad int64, err error) {
	before := len(c.head)
	// archive/tar decides what the headers mean, as it does for the index of a layer.
	m.Header, err = tar.NewReader(io.MultiReader(bytes.NewReader(c.head), (*headReader)(c))).Next()
	if err != nil {
		return m, 0, 0, err
	}
	m.Sparse = layers.IsSparse(m.Header)
	switch {
	case headerOnly(m.Typeflag):
		return m, 0, 0, nil
	case m.Sparse && m.PAXRecords["size"] != "":
		size, err = strconv.ParseInt(m.PAXRecords["size"], 10, 64)
	case m.Sparse, m.Typeflag == tar.TypeXGlobalHeader: // whose Size is another one
		size, err = sizeOf(c.head[before-blockSize : before])
	default:
		size = m.Size
	}
	pad = padding(size)
	if m.Typeflag != tar.TypeGNUSparse { // whose map stands in headers
		size -= int64(len(c.head) - before)
	}
	if err == nil && size < 0 {
		err = errSize
	}
	return m, size, pad, err
}

// headReader reads on into the head of a member.
type headReader copier

// Read implements [io.Reader].
func (h *headReader) Read(b []byte) (int, error) {
	got, err := (*copier)(h).take(int64(len(b)))
	if err == io.ErrUnexpectedEOF {
		err = nil
	}
	return copy(b, got), err
}

// headerOnly reports whether members of a type have no content, whatever their size says (as
// archive/tar has it).
func headerOnly(flag byte) bool {
	switch flag {
	case tar.TypeLink, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeDir, tar.TypeFifo:
		return true
	}
	return false
}
