package gpucode

import (
	"encoding/binary"
	"errors"
)

// This file encodes a Code for the index of a layer. Only the same version of this
// package decodes the bytes: a change of the form raises the versions of those who store
// it (elfdeps.CodecVersion and the index of pkg/layers).

// maxStored limits the groups, and the entries of a group, of a decoded code.
const maxStored = 1 << 16

var errCodec = errors.New("is no encoded GPU code")

// AppendBinary appends the encoded form to b. The error is always nil.
func (c *Code) AppendBinary(b []byte) ([]byte, error) {
	put := func(list ...uint64) {
		for _, v := range list {
			b = binary.AppendUvarint(b, v)
		}
	}
	text := func(s string) {
		put(uint64(len(s)))
		b = append(b, s...)
	}
	put(uint64(c.Form))
	text(c.Partial)
	for _, list := range [][]string{c.Compiles, c.Claims} {
		put(uint64(len(list)))
		for _, s := range list {
			text(s)
		}
	}
	put(uint64(len(c.Groups)))
	for _, g := range c.Groups {
		cut := uint64(0)
		if g.Cut {
			cut = 1
		}
		text(g.Section)
		put(uint64(g.Containers), uint64(g.Bytes), cut, uint64(len(g.Entries)))
		for i, e := range g.Entries {
			put(uint64(e.Kind), uint64(e.Arch), uint64(e.Flags), uint64(e.ISA), uint64(e.Count), uint64(g.Payloads[i]))
		}
	}
	return b, nil
}

// UnmarshalBinary sets c to the code that AppendBinary encoded in b. It takes at most some
// tens of times the memory of b, keeps no reference to b, and returns an error or sets a
// code that is encoded as b again.
func (c *Code) UnmarshalBinary(b []byte) error {
	d := decoder{b: b}
	var r Code
	r.Form = Form(d.uint(255))
	r.Partial = d.text()
	for _, list := range []*[]string{&r.Compiles, &r.Claims} {
		for range d.count(1) {
			*list = append(*list, d.text())
		}
	}
	for range d.count(5) {
		g := Group{Section: d.text(), Containers: uint32(d.uint(1<<32 - 1)), Bytes: int64(d.uint(1<<63 - 1)), Cut: d.uint(1) == 1}
		for range d.count(6) {
			g.Entries = append(g.Entries, Entry{
				Kind: Kind(d.uint(1<<16 - 1)), Arch: uint32(d.uint(1<<32 - 1)), Flags: Flags(d.uint(255)),
				ISA: ISA(d.uint(1<<16 - 1)), Count: uint32(d.uint(1<<32 - 1)),
			})
			g.Payloads = append(g.Payloads, int64(d.uint(1<<63-1)))
		}
		r.Groups = append(r.Groups, g)
	}
	if d.failed || len(d.b) > 0 {
		return errCodec
	}
	*c = r
	return nil
}

// decoder takes values off b. After the first value that AppendBinary does not write it
// has failed and returns zeros.
type decoder struct {
	b      []byte
	failed bool
}

// uint takes a number of at most most, in its shortest form.
func (d *decoder) uint(most uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > most || n > 1 && d.b[n-1] == 0 {
		d.b, d.failed = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count takes the number of elements that follow, of at least size bytes each.
func (d *decoder) count(size int) int { return int(d.uint(uint64(min(maxStored, len(d.b)/size)))) }

func (d *decoder) text() string {
	n := d.uint(uint64(len(d.b)))
	if n > uint64(len(d.b)) {
		d.b, d.failed = nil, true
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}
