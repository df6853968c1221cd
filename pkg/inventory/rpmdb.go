package inventory

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
)

// The three formats of rpm's database. Of each row only the first bytes are read, where
// the header has the package's name. Lists of files and changes follow.

// row is the row of a package, which is its header.
type row struct {
	size int    // in bytes, as the database says
	got  []byte // the bytes read so far
	next uint32 // the page with the following bytes, 0 for none
	page func(n uint32) (data []byte, next uint32, err error)
}

// prefix returns the first n bytes of a row.
func (r *row) prefix(n int) ([]byte, error) {
	if n > r.size {
		return nil, errors.New("it ends too early")
	}
	for len(r.got) < n {
		if r.next == 0 {
			return nil, errors.New("the pages that continue it are missing")
		}
		data, next, err := r.page(r.next)
		if err != nil {
			return nil, err
		}
		if len(data) == 0 {
			return nil, errors.New("one of its pages is empty")
		}
		r.got, r.next = append(r.got, data...), next
	}
	return r.got[:n], nil
}

// rpmRows yields the rows of a database until yield fails.
func rpmRows(b []byte, yield func(*row) error) error {
	switch {
	case bytes.HasPrefix(b, []byte("SQLite format 3\x00")) && len(b) >= 512:
		return sqliteRows(b, yield)
	case bytes.HasPrefix(b, []byte("RpmP")) && len(b) >= 4096:
		return ndbRows(b, yield)
	case len(b) >= 512 && binary.LittleEndian.Uint32(b[12:]) == hashMagic:
		return hashRows(b, binary.LittleEndian, yield)
	case len(b) >= 512 && binary.BigEndian.Uint32(b[12:]) == hashMagic:
		return hashRows(b, binary.BigEndian, yield)
	}
	return errors.New("it is not an rpm database: neither SQLite's nor ndb's nor a Berkeley DB hash")
}

// ndbRows reads rpm's own format (rpmpkg.c): a header of 32 bytes, then slots of 16 bytes
// in whole pages of 4096. A slot has the place of a row, or is empty.
func ndbRows(b []byte, yield func(*row) error) error {
	le := binary.LittleEndian
	if version := le.Uint32(b[4:]); version != 0 {
		return fmt.Errorf("it is an ndb of version %d", version)
	}
	end := uint64(le.Uint32(b[12:])) * 4096
	if end > uint64(len(b)) {
		return errors.New("it ends before the last slot")
	}
	for at := uint64(32); at < end; at += 16 {
		slot := b[at : at+16]
		if string(slot[:4]) != "Slot" {
			return errors.New("one of its slots is invalid")
		}
		place := uint64(le.Uint32(slot[8:])) * 16
		if place == 0 {
			continue
		}
		if place+16 > uint64(len(b)) {
			return errors.New("one of its slots points past its end")
		}
		head, rest := b[place:place+16], b[place+16:]
		size := uint64(le.Uint32(head[12:]))
		if string(head[:4]) != "BlbS" || !bytes.Equal(head[4:8], slot[4:8]) || size > uint64(len(rest)) {
			return errors.New("one of its slots does not point to its package")
		}
		if err := yield(&row{size: int(size), got: rest[:size:size]}); err != nil {
			return err
		}
	}
	return nil
}

// hashMagic is DB_HASHMAGIC of Berkeley DB.
const hashMagic = 0x061561

// hashRows reads a Berkeley DB hash (dbinc/db_page.h; rpm's bdb_ro.c) in the byte order
// of the machine that wrote it. Its pages have keys and values in turn; a large value is
// replaced by the number of its first page.
func hashRows(b []byte, order binary.ByteOrder, yield func(*row) error) error {
	const header, pageHash, pageOverflow, pageHashSorted, inPlace, onPages = 26, 2, 7, 13, 1, 3
	size := order.Uint32(b[20:])
	if version := order.Uint32(b[16:]); version < 8 || version > 10 {
		return fmt.Errorf("it is a Berkeley DB hash of version %d", version)
	}
	if size < 512 || size > 1<<16 || size&(size-1) != 0 {
		return fmt.Errorf("its pages have %d bytes", size)
	}
	page := func(n uint32) []byte {
		if at := uint64(n) * uint64(size); at+uint64(size) <= uint64(len(b)) {
			return b[at : at+uint64(size)]
		}
		return nil
	}
	left := len(b)
	overflow := func(n uint32) ([]byte, uint32, error) {
		p := page(n)
		if left -= len(p); left < 0 {
			return nil, 0, errors.New("its packages share pages")
		}
		if p == nil || p[25] != pageOverflow || header+int(order.Uint16(p[22:])) > len(p) {
			return nil, 0, fmt.Errorf("page %d does not continue a package", n)
		}
		return p[header : header+int(order.Uint16(p[22:]))], order.Uint32(p[16:]), nil
	}
	last := order.Uint32(b[32:])
	if page(last) == nil {
		return errors.New("it ends before its last page")
	}
	for n := uint32(1); n <= last; n++ {
		p := page(n)
		if p[25] != pageHash && p[25] != pageHashSorted {
			continue
		}
		items := int(order.Uint16(p[20:]))
		if header+2*items > len(p) {
			return fmt.Errorf("page %d has more items than room", n)
		}
		for i := 1; i < items; i += 2 { // the values
			at, end := int(order.Uint16(p[header+2*i:])), int(order.Uint16(p[header+2*i-2:]))
			if at >= end || end > len(p) {
				return fmt.Errorf("page %d has an item outside of the page", n)
			}
			item := p[at:end:end]
			r := &row{size: len(item) - 1, got: item[1:], page: overflow}
			switch {
			case item[0] == inPlace && len(item) == 5:
				continue // the highest package number
			case item[0] == onPages && len(item) == 12:
				r = &row{size: int(min(order.Uint32(item[8:]), uint32(len(b)))), next: order.Uint32(item[4:]), page: overflow}
			case item[0] != inPlace:
				return fmt.Errorf("page %d has an item of kind %d", n, item[0])
			}
			if err := yield(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// sqlite is a database in SQLite's file format (sqlite.org/fileformat.html).
type sqlite struct {
	b    []byte
	size int // bytes of a page
	use  int // bytes of a page that are used
	seen map[uint32]bool
	left int // bytes of overflow pages that may still be read
}

// sqliteRows reads the table Packages, whose second column is the header.
func sqliteRows(b []byte, yield func(*row) error) error {
	s := &sqlite{b: b, size: int(binary.BigEndian.Uint16(b[16:])), seen: map[uint32]bool{}, left: len(b)}
	if s.size == 1 {
		s.size = 1 << 16
	}
	s.use = s.size - int(b[20])
	if s.size < 512 || s.size&(s.size-1) != 0 || s.use < 480 {
		return fmt.Errorf("its pages have %d bytes", s.size)
	}
	root := uint32(0)
	err := s.table(1, 0, func(r *row) error { // sqlite_schema: type, name, tbl_name, rootpage, sql
		kind, err := r.value(0)
		name, err2 := r.value(1)
		number, err3 := r.value(3)
		if string(kind) == "table" && string(name) == "Packages" {
			for _, c := range number {
				root = root<<8 | uint32(c)
			}
		}
		return cmp.Or(err, err2, err3)
	})
	if err != nil {
		return err
	}
	if root == 0 {
		return errors.New("it has no table of packages")
	}
	return s.table(root, 0, func(r *row) error {
		if err := r.column(1); err != nil {
			return err
		}
		return yield(r)
	})
}

// page returns the used bytes of a page. The first page has the number 1.
func (s *sqlite) page(n uint32) ([]byte, error) {
	at := (int64(n) - 1) * int64(s.size)
	if at < 0 || at+int64(s.size) > int64(len(s.b)) {
		return nil, fmt.Errorf("it has no page %d", n)
	}
	return s.b[at : at+int64(s.use) : at+int64(s.use)], nil
}

// overflow returns a page that continues a row, and the number of the next one.
func (s *sqlite) overflow(n uint32) ([]byte, uint32, error) {
	p, err := s.page(n)
	if err != nil {
		return nil, 0, err
	}
	if s.left -= len(p); s.left < 0 {
		return nil, 0, errors.New("its rows share pages")
	}
	return p[4:], binary.BigEndian.Uint32(p), nil
}

// Kinds of pages of a table, and SQLite's limit for its depth.
const (
	pageInner = 5
	pageLeaf  = 13
	maxDepth  = 20
)

// table yields the rows of a table, from page n down.
func (s *sqlite) table(n uint32, depth int, yield func(*row) error) error {
	p, err := s.page(n)
	if err != nil {
		return err
	}
	if s.seen[n] || depth > maxDepth {
		return fmt.Errorf("page %d is used twice, or too deep", n)
	}
	s.seen[n] = true
	head := p
	if n == 1 {
		head = p[100:] // after the file's own header
	}
	be, kind := binary.BigEndian, head[0]
	cells, at := int(be.Uint16(head[3:])), 8
	if kind == pageInner {
		at = 12
	}
	if kind != pageInner && kind != pageLeaf || at+2*cells > len(head) {
		return fmt.Errorf("page %d is not a page of a table", n)
	}
	for i := range cells {
		cell := int(be.Uint16(head[at+2*i:]))
		if cell+4 > len(p) {
			return fmt.Errorf("page %d has a cell outside of the page", n)
		}
		if kind == pageInner {
			err = s.table(be.Uint32(p[cell:]), depth+1, yield)
		} else {
			err = s.cell(p[cell:], yield)
		}
		if err != nil {
			return err
		}
	}
	if kind == pageInner {
		return s.table(be.Uint32(head[8:]), depth+1, yield)
	}
	return nil
}

// cell yields a row: its size, its number and its first bytes, followed by the number of
// the page that continues it.
func (s *sqlite) cell(b []byte, yield func(*row) error) error {
	size, n := varint(b)
	_, m := varint(b[n:])
	if n == 0 || m == 0 || size > uint64(len(s.b)) {
		return errors.New("one of its cells is invalid")
	}
	b = b[n+m:]
	r := &row{size: int(size), page: s.overflow}
	here := r.size
	if most := s.use - 35; here > most {
		least := (s.use-12)*32/255 - 23
		if here = least + (r.size-least)%(s.use-4); here > most {
			here = least
		}
	}
	switch {
	case here == r.size && here <= len(b):
	case here < r.size && here+4 <= len(b):
		r.next = binary.BigEndian.Uint32(b[here:])
	default:
		return errors.New("one of its cells is outside of its page")
	}
	r.got = b[:here:here]
	return yield(r)
}

// column reduces a row to one of its columns. A row begins with the size of its own
// header and the type of each column.
func (r *row) column(i int) error {
	b, err := r.prefix(min(r.size, 64))
	if err != nil {
		return err
	}
	end, at := varint(b)
	if at == 0 || end < uint64(at) || end > uint64(len(b)) {
		return errors.New("the header of a row is invalid")
	}
	b = b[:end]
	start := end
	for ; ; i-- {
		kind, n := varint(b[at:])
		size := uint64(0)
		switch {
		case n == 0:
			return errors.New("a row has too few columns")
		case kind >= 12:
			size = (kind - 12) / 2
		case kind < 8:
			size = []uint64{0, 1, 2, 3, 4, 6, 8, 8}[kind]
		}
		if size > uint64(r.size)-start {
			return errors.New("a column is longer than its row")
		}
		if i == 0 {
			if _, err := r.prefix(int(start)); err != nil {
				return err
			}
			r.got, r.size = r.got[start:], int(size)
			return nil
		}
		at, start = at+n, start+size
	}
}

// value returns a short column of a row.
func (r row) value(i int) ([]byte, error) {
	if err := r.column(i); err != nil {
		return nil, err
	}
	if r.size > maxText {
		return nil, errors.New("a name in it is too long")
	}
	return r.prefix(r.size)
}

// varint reads SQLite's integer of up to nine bytes, and returns how many it has, or 0 if
// b ends too early.
func varint(b []byte) (v uint64, n int) {
	for i, c := range b[:min(len(b), 9)] {
		if i == 8 {
			return v<<8 | uint64(c), 9
		}
		v = v<<7 | uint64(c&0x7f)
		if c < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
