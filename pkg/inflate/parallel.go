package inflate

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// sizes are those of the chunks of a stream, in bytes.
type sizes struct {
	chunk int // of compressed bytes, at most
	over  int // of those behind a chunk that are decoded with it, if a block needs them
	out   int // of the output of a chunk, as far as it is held
}

const (
	chunkSize = 512 << 10
	// chunkOver is more than most blocks have: those of zlib have 64 KiB at most, those of
	// libdeflate and klauspost/compress were seen with 110 KiB.
	chunkOver = 256 << 10
	// maxChunk bounds the output that is held of a chunk. A chunk that unpacks to more is
	// decoded further on one core, as a stream.
	maxChunk = 4 << 20

	// ownChunks is the number of chunks that every stream may hold. With three, a stream that
	// is decoded on one core never waits for itself: the chunk that it is in, the one before
	// it, of which it may have some bytes left, and the next one.
	ownChunks = 4
	// maxCores bounds a Crew: its processors, and the chunks beyond those that each stream may
	// hold, of all streams together.
	maxCores    = 16
	pieceBuffer = 4 // pieces of a stretch that may wait to be written
)

// The score of a stream rises by one for each chunk that was decoded in vain, and falls by
// two for each other one. From fullScore on one chunk of tryEvery is decoded ahead.
const (
	maxScore  = 20
	fullScore = 12
	tryEvery  = 8
)

// Crew is the processors and the memory that streams share: it bounds both for all of
// them.
type Crew struct {
	cores chan struct{} // one for each goroutine that decodes
	extra chan struct{} // one for each chunk beyond a stream's own
}

// NewCrew returns a Crew of so many processors, at most 16.
func NewCrew(cores int) *Crew {
	cores = max(1, min(cores, maxCores))
	return &Crew{make(chan struct{}, cores), make(chan struct{}, cores)}
}

// Parallel decompresses consecutive gzip members on several cores. It gives the bytes
// and the errors that [Gzip] gives for the same input. A part that cannot be decoded ahead
// is decoded on one core.
type Parallel struct {
	src  io.Reader
	crew *Crew
	sizes

	quit   chan struct{}
	queue  chan *chunk   // in the order of the stream
	own    chan struct{} // one for each of the stream's own chunks
	free   chan *chunk   // to be used again
	pieces chan piece
	bufs   chan []byte  // of pieces of a stretch
	next   atomic.Int64 // the size of the next chunk, in bytes
	score  atomic.Int64
	extras atomic.Int64 // chunks beyond the stream's own
	ended  sync.WaitGroup
	stop   sync.Once

	// Of the goroutine that joins the chunks.
	held       []*chunk // received and not yet passed
	passed     int64    // bytes of the stream that were passed
	used, vain int      // chunks whose output was used, and was not
	srcErr     error    // the source's, once queue is closed
	one        *stretch // decodes on one core

	crc, size uint32 // of the member that is being written
	inside    bool   // it has not ended
}

// piece is the next output: of a chunk that was decoded ahead, or some of a stretch.
type piece struct {
	chunk *chunk
	parts []part
	buf   []byte
	err   error // ends the stream
}

// NewParallel returns a Parallel that reads from r, and begins to read. The caller closes
// it.
func NewParallel(r io.Reader, crew *Crew) *Parallel {
	return newParallel(r, crew, sizes{chunkSize, chunkOver, maxChunk})
}

func newParallel(r io.Reader, crew *Crew, s sizes) *Parallel {
	chunks := ownChunks + cap(crew.extra)
	p := &Parallel{
		src: r, crew: crew, sizes: s, quit: make(chan struct{}),
		own: make(chan struct{}, ownChunks), queue: make(chan *chunk, chunks), free: make(chan *chunk, chunks),
		pieces: make(chan piece, chunks), bufs: make(chan []byte, pieceBuffer),
	}
	p.next.Store(int64(s.chunk))
	for range pieceBuffer {
		p.bufs <- nil
	}
	p.ended.Add(2)
	go p.split()
	go p.join()
	return p
}

// Close ends the reading and frees what p holds. When it returns, the source is not being
// read any more.
func (p *Parallel) Close() {
	p.stop.Do(func() {
		close(p.quit)
		p.ended.Wait()
		for range p.extras.Load() {
			<-p.crew.extra
		}
	})
}

var errClosed = errors.New("inflate: the stream was closed")

// take waits for a token, or until p is closed.
func (p *Parallel) take(c chan struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	case <-p.quit:
		return false
	}
}

// split reads the source and starts the decoding of each chunk.
func (p *Parallel) split() {
	defer p.ended.Done()
	defer close(p.queue)
	var carry []byte // the first bytes of the next chunk
	base := int64(0)
	for i := 0; p.srcErr == nil || len(carry) > 0; i++ {
		c := p.newChunk()
		if c == nil {
			return
		}
		c.base = base
		c.n = copy(c.in, carry)
		size := int(p.next.Load())
		for c.n < size+p.over && p.srcErr == nil {
			var n int
			n, p.srcErr = p.read(c.in[c.n : size+p.over])
			c.n += n
		}
		if c.n == 0 {
			p.release(c)
			return
		}
		clear(c.in[c.n:])
		c.own, c.whole = min(c.n, size), p.srcErr == io.EOF
		base += int64(c.own)
		carry = append(carry[:0], c.in[c.own:c.n]...)
		p.ended.Add(1)
		go p.ahead(c, p.score.Load() < fullScore || i%tryEvery == 0)
		p.queue <- c // has room for every token
	}
}

func (p *Parallel) read(b []byte) (int, error) {
	for range 100 {
		select {
		case <-p.quit:
			return 0, errClosed
		default:
		}
		if n, err := p.src.Read(b); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// newChunk waits until there may be another chunk. It returns nil if p is closed.
func (p *Parallel) newChunk() *chunk {
	extra := false
	select {
	case p.own <- struct{}{}:
	default:
		select {
		case p.own <- struct{}{}:
		case p.crew.extra <- struct{}{}:
			extra = true
			p.extras.Add(1)
		case <-p.quit:
			return nil
		}
	}
	var c *chunk
	select {
	case c = <-p.free:
		c.tried, c.used, c.resolved = false, false, false
		c.dropped.Store(false)
	default:
		c = &chunk{in: make([]byte, p.chunk+p.over+inPad), buf: make([]byte, p.sizes.out)}
	}
	c.extra = extra
	c.refs.Store(1)
	c.done, c.ready = make(chan struct{}), make(chan struct{})
	return c
}

// release ends one use of a chunk. After the last, another chunk takes its place.
func (p *Parallel) release(c *chunk) {
	if c.refs.Add(-1) > 0 {
		return
	}
	extra := c.extra
	select {
	case p.free <- c:
	default:
	}
	if extra {
		p.extras.Add(-1)
		<-p.crew.extra
	} else {
		<-p.own
	}
}

// ahead decodes a chunk ahead of those before it.
func (p *Parallel) ahead(c *chunk, try bool) {
	defer p.ended.Done()
	defer close(c.done)
	if try && p.take(p.crew.cores) {
		c.decode()
		<-p.crew.cores
	}
}

// join puts the chunks together in the order of the stream.
func (p *Parallel) join() {
	defer p.ended.Done()
	defer close(p.pieces)
	at, before := place{member: true}, []byte(nil)
	var windows [2][]byte // before is one of them
	var err error
	for err == nil {
		if c := p.at(at); c != nil && c.joins(at) {
			after, ok := c.follow(before, windows[0][:0])
			if ok {
				windows[0], windows[1] = windows[1], after
				at, before = c.end, after
				p.use(c)
				continue
			}
		}
		at, before, err = p.serial(at, before)
	}
	p.send(piece{err: err})
}

// send hands a piece to the writer.
func (p *Parallel) send(it piece) bool {
	select {
	case p.pieces <- it:
		return true
	case <-p.quit:
		return false
	}
}

// at returns the chunk that a place is in, decoded, and gives up those before it. It
// returns nil if the stream has ended before the place, or p is closed.
func (p *Parallel) at(at place) *chunk {
	p.pass(at.bit / 8)
	c := p.chunkAt(at.bit / 8)
	if c == nil {
		return nil
	}
	<-c.done
	return c
}

// chunkAt returns the chunk that has a byte of the stream, or nil.
func (p *Parallel) chunkAt(b int64) *chunk {
	for {
		for _, c := range p.held {
			if b >= c.base && b < c.base+int64(c.own) {
				return c
			}
		}
		select {
		case c, ok := <-p.queue:
			if !ok {
				return nil
			}
			p.held = append(p.held, c)
			p.pass(p.passed)
		case <-p.quit:
			return nil
		}
	}
}

// pass gives up the chunks that end before a byte of the stream.
func (p *Parallel) pass(b int64) {
	p.passed = b
	for len(p.held) > 0 && p.held[0].base+int64(p.held[0].own) <= b {
		c := p.held[0]
		p.held = p.held[1:]
		c.dropped.Store(true)
		<-c.done
		if c.tried && !c.used {
			p.vain++
			p.score.Store(min(maxScore, p.score.Load()+1))
		}
		p.release(c)
	}
}

// use sends the output of a chunk, and has its symbols made bytes meanwhile.
func (p *Parallel) use(c *chunk) {
	c.used = true
	p.used++
	c.refs.Add(1)
	p.score.Store(max(0, p.score.Load()-2))
	p.next.Store(p.fits(c))
	p.ended.Add(1)
	go func() {
		defer p.ended.Done()
		defer close(c.ready)
		if p.take(p.crew.cores) {
			c.resolve()
			c.resolved = true
			<-p.crew.cores
		}
	}()
	p.send(piece{chunk: c})
}

// fits returns the size of chunks that unpack as c does and leave room in their buffers:
// output of three eighths takes twice as much as symbols.
func (p *Parallel) fits(c *chunk) int64 {
	out := int64(1)
	for _, q := range c.parts {
		out += int64(q.to - q.from)
	}
	size := int64(p.out) * 3 / 8 * ((c.end.bit - c.start.bit) / 8) / out
	return min(max(size, int64(p.chunk)/4, 2*inPad), int64(p.chunk))
}

// WriteTo implements [io.WriterTo]. It can be called once.
func (p *Parallel) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for it := range p.pieces {
		n, err := p.write(w, &it)
		total += n
		if err == nil {
			err = it.err
		}
		if err == io.EOF && !p.inside {
			return total, nil
		}
		if err != nil {
			return total, truncated(err)
		}
	}
	return total, errClosed
}

// write writes a piece, and checks the members that end in it.
func (p *Parallel) write(w io.Writer, it *piece) (total int64, err error) {
	if c := it.chunk; c != nil {
		<-c.ready
		if !c.resolved {
			return 0, errClosed
		}
		it.parts, it.buf = c.parts, c.buf
		defer p.release(c)
	} else if it.buf != nil {
		defer func() { p.bufs <- it.buf[:0] }()
	}
	for _, q := range it.parts {
		p.inside = !q.ends
		if b := it.buf[q.from:q.to]; len(b) > 0 {
			n, err := w.Write(b)
			total += int64(n)
			if err != nil {
				return total, err
			}
			if n < len(b) {
				return total, io.ErrShortWrite
			}
			p.crc = combine(p.crc, q.sum, len(b))
			p.size += uint32(len(b))
		}
		if q.ends {
			if q.crc != p.crc || q.size != p.size {
				return total, ErrChecksum
			}
			p.crc, p.size = 0, 0
		}
	}
	return total, nil
}
