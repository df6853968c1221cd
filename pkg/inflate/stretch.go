package inflate

import (
	"hash/crc32"
	"io"
)

// stretch decodes a part of the stream that was not decoded ahead. It knows the window
// before the part.
type stretch struct {
	p    *Parallel
	g    Gzip
	read int64 // bytes of the stream that the decoder has read
	it   piece
}

// Sizes of a piece of a stretch.
const (
	pieceSize = 256 << 10 // bytes
	maxParts  = 1 << 10   // of members that have little or no bytes
)

// serial decodes from a place on, until it reaches one from which the next chunk was decoded
// ahead. It returns that place and the window before it, or an error, which is io.EOF for
// the end.
func (p *Parallel) serial(at place, before []byte) (place, []byte, error) {
	if p.one == nil {
		p.one = &stretch{p: p, g: Gzip{z: NewReader(nil)}}
	}
	s := p.one
	s.read = at.bit / 8
	at, err := s.run(at, before)
	if sent := s.send(); err == nil {
		err = sent
	}
	z := s.g.z
	return at, z.out[max(0, z.wr-window):z.wr], err
}

func (s *stretch) run(at place, before []byte) (place, error) {
	z := s.g.z
	z.Reset(s)
	if !at.member {
		z.wr = copy(z.out, before)
		z.rd = z.wr
		if err := z.need(8); err != nil {
			return at, err
		}
		z.take(uint(at.bit & 7))
	}
	member := at.member
	for first := true; ; first = false {
		if !first && (member || z.state == atBlock && !z.last) {
			if here, ok := s.joins(member); ok {
				return here, s.flush()
			}
		}
		if member {
			if err := s.member(); err != nil {
				return at, err
			}
			member = false
			continue
		}
		if z.wr >= z.most {
			if err := s.flush(); err != nil {
				return at, err
			}
			z.slide()
		}
		err := z.step()
		switch {
		case err == io.EOF:
			if err := s.end(); err != nil {
				return at, err
			}
			member = true
		case err != nil:
			if err := s.flush(); err != nil {
				return at, err
			}
			return at, err
		}
	}
}

// joins returns the place of the decoder, and whether the next chunk was decoded from
// there.
func (s *stretch) joins(member bool) (place, bool) {
	z := s.g.z
	here := place{8*(s.read-int64(z.end-z.pos)) - int64(z.nbits), member}
	if !member {
		if c := s.p.chunkAt(here.bit / 8); c != nil {
			here.bit = 8*c.base + int64(c.normal(c.relative(here)))
		}
	}
	c := s.p.at(here)
	return here, c != nil && c.joins(here)
}

// member reads the header of the next member. At the end of the stream it returns io.EOF.
func (s *stretch) member() error {
	z := s.g.z
	if z.pos == z.end {
		if err := z.fill(); err != nil {
			if s.read == 0 {
				err = truncated(err) // not even one member
			}
			return err
		}
	}
	return s.g.header()
}

// end reads the end of a member.
func (s *stretch) end() error {
	if err := s.flush(); err != nil {
		return err
	}
	crc, size, err := s.g.sums()
	if err != nil {
		return err
	}
	if err := s.room(0); err != nil {
		return err
	}
	n := len(s.it.buf)
	s.it.parts = append(s.it.parts, part{from: n, to: n, ends: true, crc: crc, size: size})
	return nil
}

// flush adds what was decoded to the piece.
func (s *stretch) flush() error {
	z := s.g.z
	b := z.out[z.rd:z.wr]
	if len(b) == 0 {
		return nil
	}
	if err := s.room(len(b)); err != nil {
		return err
	}
	n := len(s.it.buf)
	s.it.buf = append(s.it.buf, b...)
	s.it.parts = append(s.it.parts, part{from: n, to: n + len(b), sum: crc32.ChecksumIEEE(b)})
	z.rd = z.wr
	return nil
}

// room sends the piece if n bytes do not fit into it.
func (s *stretch) room(n int) error {
	if len(s.it.buf)+n > pieceSize || len(s.it.parts) >= maxParts {
		if err := s.send(); err != nil {
			return err
		}
	}
	if s.it.buf == nil {
		select {
		case s.it.buf = <-s.p.bufs:
			if s.it.buf == nil {
				s.it.buf = make([]byte, 0, pieceSize)
			}
		case <-s.p.quit:
			return errClosed
		}
	}
	return nil
}

// send sends the piece to the writer.
func (s *stretch) send() error {
	if s.it.buf == nil {
		return nil
	}
	it := s.it
	s.it = piece{}
	if !s.p.send(it) {
		return errClosed
	}
	return nil
}

// Read implements [io.Reader] for the decoder: it reads the chunks. The decoder reads when
// it has less than inPad bytes left.
func (s *stretch) Read(b []byte) (int, error) {
	p := s.p
	p.pass(s.read - inPad)
	c := p.chunkAt(s.read)
	if c == nil {
		select {
		case <-p.quit:
			return 0, errClosed
		default:
			return 0, p.srcErr
		}
	}
	n := copy(b, c.in[s.read-c.base:c.own])
	s.read += int64(n)
	return n, nil
}
