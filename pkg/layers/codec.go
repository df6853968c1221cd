package layers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// The stored form of a layer: one zstd frame of a name and the fields of
// [Layer], numbers as varints, strings after their length, paths by what they
// share with the one before. The same layer gives the same bytes.

// indexVersion is the version of that form and of [ReadLayer]'s reading of a tar: it is
// raised whenever either changes. The reading of an ELF file has a version of its own,
// [elfdeps.CodecVersion].
const indexVersion = 6

// maxIndex bounds a stored layer, unpacked, in bytes; a whole CUDA 13 machine has
// 100 MB. A larger index is not stored.
var maxIndex = int64(256 << 20)

// indexWindow is the window of the frame. A window four times as large saves a twentieth
// of the bytes, and takes 10 MB more memory for each layer that is being read.
const indexWindow = 2 << 20

var errIndex = errors.New("is no stored layer")

// encodeLayer writes a layer under a name.
func encodeLayer(w io.Writer, name string, l *Layer) error {
	return encodeFrame(w, func(e *indexWriter) {
		e.string(name)
		e.layer(l)
	})
}

// encodeName writes a name before a layer that is encoded under another one.
func encodeName(w io.Writer, name string) error {
	return encodeFrame(w, func(e *indexWriter) { e.string(name) })
}

// encodeFrame writes a zstd frame of what write writes.
func encodeFrame(w io.Writer, write func(*indexWriter)) error {
	// The next level takes half as long again, for a tenth fewer bytes.
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(indexWindow))
	if err != nil {
		return err
	}
	e := indexWriter{w: bufio.NewWriterSize(z, 64<<10)}
	write(&e)
	if err := e.w.Flush(); err != nil {
		z.Close()
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if e.n > maxIndex {
		return fmt.Errorf("its index has %d bytes, more than the %d that are stored", e.n, maxIndex)
	}
	return nil
}

// decodeLayer reads a layer that was stored under a name, or of which each of several names comes
// before the next. Its memory has the same limit as the reading of a layer's tar, whatever r holds.
func decodeLayer(r io.Reader, all *ledger, names ...string) (*Layer, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(indexWindow))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	d := indexReader{r: bufio.NewReaderSize(z, 64<<10), left: maxIndex, held: holding{all: all}}
	defer d.held.end()
	for _, name := range names {
		if got := d.string(maxPath); got != name {
			return nil, fmt.Errorf("%w of this name", errIndex)
		}
	}
	l := d.layer()
	if d.err == nil {
		if _, err := d.r.ReadByte(); err != io.EOF { // also the frame's checksum
			d.err = errIndex
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	return l, nil
}

// indexWriter writes the fields of a layer. Flush returns bufio's error.
type indexWriter struct {
	w      *bufio.Writer
	n      int64
	number []byte // scratch
	object []byte // scratch
}

func (e *indexWriter) uint(v uint64) {
	e.number = binary.AppendUvarint(e.number[:0], v)
	e.n += int64(len(e.number))
	e.w.Write(e.number)
}

func (e *indexWriter) int(v int64) { e.uint(uint64(v<<1) ^ uint64(v>>63)) }

func (e *indexWriter) string(s string) {
	e.uint(uint64(len(s)))
	e.n += int64(len(s))
	e.w.WriteString(s)
}

func (e *indexWriter) bytes(b []byte) {
	e.uint(uint64(len(b)))
	e.n += int64(len(b))
	e.w.Write(b)
}

// path writes a path as the length that it shares with the one before it, and the rest.
func (e *indexWriter) path(p, last string) {
	n := 0
	for n < min(len(p), len(last)) && p[n] == last[n] {
		n++
	}
	e.uint(uint64(n))
	e.string(p[n:])
}

// Bits for the fields that an entry has, in the order of the list in entry. The type
// is in the bits above them.
const (
	hasCaps = 1 << iota
	hasLink
	hasObject
	hasContent
	hasShebang
	hasFault
	hasFatbin
	isAnother // another name of an earlier entry: nothing else follows
	entryType = iota
)

func (e *indexWriter) layer(l *Layer) {
	e.uint(uint64(len(l.Entries)))
	last := ""
	inode := int64(0)
	inodes := map[int]int{} // the first entry of an inode
	for i := range l.Entries {
		it := l.Entries[i]
		e.path(it.Path, last)
		last = it.Path
		first, ok := inodes[it.Inode]
		if ok && sameFile(it, l.Entries[first]) {
			e.uint(isAnother)
			e.uint(uint64(first))
			continue
		}
		if !ok {
			inodes[it.Inode] = i
		}
		e.entry(it, inode)
		inode = int64(it.Inode)
	}
	e.paths(l.Whiteouts)
	e.paths(l.Opaque)
	e.uint(uint64(len(l.Skipped)))
	for _, s := range l.Skipped {
		e.string(s.Path)
		e.string(s.Why)
	}
}

// sameFile reports whether two entries differ in their paths only and share their
// object and content, as the names of a hard link do.
func sameFile(a, b *Entry) bool {
	return a.Object == b.Object && a.Fatbin == b.Fatbin && len(a.Content) == len(b.Content) &&
		(len(a.Content) == 0 || &a.Content[0] == &b.Content[0]) && (a.Content == nil) == (b.Content == nil) &&
		a.Type == b.Type && a.Caps == b.Caps && a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID &&
		a.Size == b.Size && a.Link == b.Link && a.Shebang == b.Shebang && a.Fault == b.Fault
}

func (e *indexWriter) entry(it *Entry, inode int64) {
	has := uint64(it.Type) << entryType
	for bit, is := range []bool{it.Caps, it.Link != "", it.Object != nil, it.Content != nil, it.Shebang != "", it.Fault != "", it.Fatbin != nil} {
		if is {
			has |= 1 << bit
		}
	}
	e.uint(has)
	e.uint(uint64(it.Mode))
	e.int(int64(it.UID))
	e.int(int64(it.GID))
	e.int(it.Size)
	e.int(int64(it.Inode) - inode)
	if it.Link != "" {
		e.string(it.Link)
	}
	if it.Object != nil {
		e.object, _ = it.Object.AppendBinary(e.object[:0])
		e.bytes(e.object)
	}
	if it.Content != nil {
		e.bytes(it.Content)
	}
	if it.Shebang != "" {
		e.string(it.Shebang)
	}
	if it.Fault != "" {
		e.string(it.Fault)
	}
	if it.Fatbin != nil {
		e.object, _ = it.Fatbin.AppendBinary(e.object[:0])
		e.bytes(e.object)
	}
}

func (e *indexWriter) paths(list []string) {
	e.uint(uint64(len(list)))
	last := ""
	for _, p := range list {
		e.path(p, last)
		last = p
	}
}

// indexReader reads the fields of a layer. After the first error it returns zeros.
type indexReader struct {
	r      *bufio.Reader
	left   int64 // bytes that may still come
	err    error
	object []byte // scratch
	// Bytes that were read, as builder counts them.
	names, kept, tables, symbols int64
	held                         holding
}

func (d *indexReader) fail() {
	if d.err == nil {
		d.err = errIndex
	}
}

// ReadByte lets [binary.ReadUvarint] count.
func (d *indexReader) ReadByte() (byte, error) {
	if d.left--; d.left < 0 {
		return 0, errIndex
	}
	return d.r.ReadByte()
}

func (d *indexReader) uint() uint64 {
	if d.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(d)
	if err != nil {
		d.err = err
		return 0
	}
	return v
}

func (d *indexReader) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

// bytes appends a run of bytes to b. It allocates at most twice the bytes that come.
func (d *indexReader) bytes(b []byte, most int64) []byte {
	n := d.uint()
	if d.err != nil || n > uint64(min(most, d.left)) {
		d.fail()
		return nil
	}
	d.left -= int64(n)
	for n > 0 {
		part := int(min(n, uint64(max(64<<10, len(b)))))
		b = slices.Grow(b, part)
		if _, err := io.ReadFull(d.r, b[len(b):len(b)+part]); err != nil {
			d.err = err
			return nil
		}
		b = b[:len(b)+part]
		n -= uint64(part)
	}
	return b
}

func (d *indexReader) string(most int64) string {
	d.object = d.bytes(d.object[:0], most)
	return string(d.object)
}

func (d *indexReader) path(last string) string {
	n := d.uint()
	if n > uint64(len(last)) {
		d.fail()
		return ""
	}
	p := last[:n] + d.string(maxNames)
	if d.names += int64(len(p)); d.names > maxNames {
		d.fail()
	}
	return p
}

func (d *indexReader) layer() *Layer {
	l := &Layer{Entries: []*Entry{}}
	n := d.uint()
	if n > uint64(maxEntries) {
		d.fail()
	}
	last := ""
	inode := int64(0)
	var block []Entry
	for d.err == nil && uint64(len(l.Entries)) < n {
		p := d.path(last)
		if p <= last {
			d.fail()
		}
		last = p
		if len(block) == 0 {
			block = make([]Entry, min(256, n-uint64(len(l.Entries))))
		}
		it := &block[0]
		block = block[1:]
		switch has := d.uint(); {
		case has == isAnother:
			first := d.uint()
			if first >= uint64(len(l.Entries)) {
				d.fail()
				break
			}
			*it = *l.Entries[first]
		default:
			*it = d.entry(has, inode)
			inode = int64(it.Inode)
		}
		it.Path = p
		l.Entries = append(l.Entries, it)
		if d.held.now(int64(len(l.Entries))*entryWeight+d.names+d.kept+d.tables+d.symbols) != nil {
			d.fail()
		}
	}
	l.Whiteouts = d.paths()
	l.Opaque = d.paths()
	skipped := d.uint()
	if skipped > maxSkipped+1 {
		d.fail()
	}
	for range skipped {
		l.Skipped = append(l.Skipped, Skip{d.string(maxPath), d.string(maxPath)})
		if d.err != nil {
			break
		}
	}
	return l
}

func (d *indexReader) entry(has uint64, inode int64) Entry {
	it := Entry{Type: Type(has >> entryType), Caps: has&hasCaps != 0}
	if has>>entryType > uint64(Other) || has&isAnother != 0 {
		d.fail()
	}
	it.Mode = fs.FileMode(d.uint())
	it.UID, it.GID = int(d.int()), int(d.int())
	it.Size = d.int()
	it.Inode = int(inode + d.int())
	if has&hasLink != 0 {
		it.Link = d.string(maxNames)
	}
	if has&hasObject != 0 {
		it.Object = d.elf()
	}
	if has&hasContent != 0 {
		it.Content = slices.Clip(d.bytes([]byte{}, min(maxKeptFile, maxKeptLayer-d.kept)))
		d.kept += int64(len(it.Content))
	}
	if has&hasShebang != 0 {
		it.Shebang = d.string(maxPath)
	}
	if has&hasFault != 0 {
		it.Fault = d.string(maxPath)
	}
	if has&hasFatbin != 0 {
		it.Fatbin = d.fatbin()
	}
	return it
}

func (d *indexReader) elf() *elfdeps.Object {
	d.object = d.bytes(d.object[:0], maxIndex)
	o := new(elfdeps.Object)
	if d.err != nil || o.UnmarshalBinary(d.object) != nil {
		d.fail()
		return nil
	}
	d.tables += weight(o)
	d.symbols += o.Symbols.Weight()
	if d.tables > maxTables || d.symbols > maxSymbols {
		d.fail()
		return nil
	}
	return o
}

func (d *indexReader) fatbin() *gpucode.Code {
	d.object = d.bytes(d.object[:0], maxIndex)
	c := new(gpucode.Code)
	if d.err != nil || c.UnmarshalBinary(d.object) != nil {
		d.fail()
		return nil
	}
	if d.tables += c.Weight(); d.tables > maxTables {
		d.fail()
		return nil
	}
	return c
}

func (d *indexReader) paths() []string {
	n := d.uint()
	if n > uint64(maxEntries) {
		d.fail()
	}
	var list []string
	last := ""
	for d.err == nil && uint64(len(list)) < n {
		last = d.path(last)
		list = append(list, last)
	}
	return list
}
