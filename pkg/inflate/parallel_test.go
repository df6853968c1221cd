package inflate

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	kgzip "github.com/klauspost/compress/gzip"

	"github.com/imgcheck/imgcheck/internal/tooltest"
)

// small are sizes with which some kilobytes cross many boundaries of chunks, also a chunk
// that is smaller than what is decoded with it.
var small = []sizes{{20000, 9000, 700 << 10}, {1000, 300, 200 << 10}, {64, 2000, 150 << 10}}

// unpacked bounds the bytes that a test unpacks: some hundred bytes can be gigabytes.
const unpacked = 1 << 24

// on unpacks in with chunks of some sizes.
func on(in io.Reader, s sizes) ([]byte, error) {
	out, _, err := stream(in, s)
	return out, err
}

// stream unpacks in, and returns the stream as well.
func stream(in io.Reader, s sizes) ([]byte, *Parallel, error) {
	crew := NewCrew(4)
	p := newParallel(in, crew, s)
	var b limited
	_, err := p.WriteTo(&b)
	p.Close()
	if len(crew.cores)+len(crew.extra) > 0 {
		panic("a crew has work after its stream was closed")
	}
	if err == errFull {
		err = nil
	}
	return b.b, p, err
}

// limited takes the first bytes.
type limited struct{ b []byte }

var errFull = errors.New("that is enough")

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), unpacked-len(l.b))
	l.b = append(l.b, b[:n]...)
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

// one unpacks in on one processor.
func one(in io.Reader) ([]byte, error) {
	g, err := NewGzip(in)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(g, unpacked))
}

// same checks the law: the same bytes and the same error, whatever the sizes are.
func same(t *testing.T, name string, in []byte, all ...sizes) {
	t.Helper()
	want, wantErr := one(bytes.NewReader(in))
	for _, s := range all {
		got, err := on(bytes.NewReader(in), s)
		if err != wantErr || !bytes.Equal(got, want) {
			t.Errorf("%s, %v: %d bytes and %v, on one processor %d and %v", name, s, len(got), err, len(want), wantErr)
		}
	}
}

// encoders make gzip files: each with its levels.
func encoders(t *testing.T) map[string]func([]byte) []byte {
	all := map[string]func([]byte) []byte{}
	for level := gzip.HuffmanOnly; level <= gzip.BestCompression; level++ {
		all[fmt.Sprint("compress/gzip ", level)] = func(b []byte) []byte { return packed(t, b, level) }
		all[fmt.Sprint("klauspost ", level)] = func(b []byte) []byte {
			var buf bytes.Buffer
			w, err := kgzip.NewWriterLevel(&buf, level)
			if err != nil {
				t.Fatal(err)
			}
			w.Write(b)
			w.Close()
			return buf.Bytes()
		}
	}
	program := func(name, debian string, args ...string) {
		name = tooltest.Need(t, name, debian)
		all[filepath.Base(name)+" "+strings.Join(args, " ")] = func(b []byte) []byte {
			cmd := exec.Command(name, args...)
			cmd.Stdin = bytes.NewReader(b)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s %q: %v", name, args, err)
			}
			return out
		}
	}
	for _, level := range []string{"-1", "-6", "-9"} {
		program("gzip", "gzip", "-c", level)
		program("pigz", "pigz", "-c", level, "-p2", "-b128")
		program("pigz", "pigz", "-c", level, "-p2", "-b128", "-i") // blocks that do not refer to others
		program("libdeflate-gzip", "libdeflate-tools", "-c", level)
	}
	program("gzip", "gzip", "-c", "--rsyncable")
	// zlib's strategies: filtered, Huffman alone, runs, fixed codes; level 0 only stores.
	pack := zlib(t)
	for _, levels := range []string{"6 1", "6 2", "6 3", "6 4", "0 0", "9 0"} {
		all["zlib "+levels] = func(b []byte) []byte { return pack(levels, b) }
	}
	// A member for each 10,000 bytes, as eStargz has one for each file.
	all["members"] = func(b []byte) (out []byte) {
		for ; len(b) > 10000; b = b[10000:] {
			out = append(out, packed(t, b[:10000], 6)...)
		}
		return append(out, packed(t, b, 9)...)
	}
	// A flush writes an empty stored block.
	all["flushed"] = func(b []byte) []byte {
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		for ; len(b) > 3000; b = b[3000:] {
			w.Write(b[:3000])
			w.Flush()
		}
		w.Write(b)
		w.Close()
		return buf.Bytes()
	}
	// Whatever looks like the beginning of a block in the packed data is not one.
	all["packed, stored"] = func(b []byte) []byte { return packed(t, packed(t, b, 6), 0) }
	return all
}

// zlib starts a Python that packs texts by zlib, and returns a function that gives it a
// text, with the level and the strategy.
func zlib(t *testing.T) func(levels string, b []byte) []byte {
	t.Helper()
	cmd := exec.Command(tooltest.Need(t, "python3", "python3"), "-c", `
import struct, sys, zlib
while head := sys.stdin.buffer.readline():
    level, strategy, n = map(int, head.split())
    z = zlib.compressobj(level, 8, 31, 9, strategy)
    b = z.compress(sys.stdin.buffer.read(n)) + z.flush()
    sys.stdout.buffer.write(struct.pack("<I", len(b)) + b)
    sys.stdout.flush()
`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return func(levels string, b []byte) []byte {
		fmt.Fprintf(in, "%s %d\n", levels, len(b))
		in.Write(b)
		var n [4]byte
		if _, err := io.ReadFull(out, n[:]); err != nil {
			t.Fatal(err)
		}
		packed := make([]byte, binary.LittleEndian.Uint32(n[:]))
		if _, err := io.ReadFull(out, packed); err != nil {
			t.Fatal(err)
		}
		return packed
	}
}

// packed returns b as a gzip member.
func packed(t testing.TB, b []byte, level int) []byte {
	t.Helper()
	return member(deflate(t, b, level), b)
}

// member returns a gzip member of packed bytes, with the sums of b.
func member(packed, b []byte) []byte {
	out := append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}, packed...)
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(b))
	return binary.LittleEndian.AppendUint32(out, uint32(len(b)))
}

// TestParallel: what compress/gzip unpacks is unpacked to the same bytes, also if the
// file is cut off.
func TestParallel(t *testing.T) {
	files := 0
	encoders := encoders(t)
	for name, plain := range samples(t) {
		plain = plain[:min(len(plain), 100<<10)]
		for encoder, pack := range encoders {
			files++
			in := pack(plain)
			r, err := gzip.NewReader(bytes.NewReader(in))
			if err != nil {
				t.Fatal(err)
			}
			want, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range small {
				got, err := on(bytes.NewReader(in), s)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s by %s, %v: %d bytes of %d, %v", name, encoder, s, len(got), len(want), err)
				}
			}
			same(t, name+" by "+encoder+", cut off", in[:len(in)*2/3], small[1])
		}
	}
	if files < 200 {
		t.Errorf("only %d files", files)
	}
}

// TestParallelIsAhead: of usual files nearly all chunks are decoded ahead, so that more
// processors help.
func TestParallelIsAhead(t *testing.T) {
	plain := samples(t)["binary"]
	for name, pack := range encoders(t) {
		if strings.HasPrefix(name, "zlib") || strings.HasSuffix(name, " 0") || strings.HasSuffix(name, "stored") {
			continue
		}
		in := pack(plain)
		const size = 200 << 10 // more than a block has
		_, p, err := stream(bytes.NewReader(in), sizes{size, size, 8 << 20})
		if all := len(in) / size; err != nil || p.used < all || p.vain > 1 {
			t.Errorf("%s: %d of %d chunks were decoded ahead, %d in vain, %v", name, p.used, all, p.vain, err)
		}
	}
}

// TestParallelHostile: files that are made to mislead a decoder that begins in the middle.
func TestParallelHostile(t *testing.T) {
	text := samples(t)["text"][:100000]
	whole := packed(t, text, 6)
	wrong := func(at int) []byte {
		b := bytes.Clone(whole)
		b[len(b)-at] ^= 1
		return b
	}
	// The second member refers to bytes of the first: of a distance that it does not have.
	window := append(bytes.Clone(text[:40000]), text[:30000]...)
	var far bytes.Buffer
	w, err := flate.NewWriterDict(&far, 9, text[:32768])
	if err != nil {
		t.Fatal(err)
	}
	w.Write(text[:32768])
	w.Close()
	var tiny, empty []byte
	for i := range 3000 {
		tiny = append(tiny, packed(t, text[i:i+i%7], 1)...)
		empty = append(empty, member([]byte{1, 0, 0, 255, 255}, nil)...)
	}
	nothing := append(bytes.Repeat([]byte{0, 0, 0, 255, 255}, 5000), deflate(t, text, 6)...) // blocks without bytes
	padded := []byte{0, 0, 0, 255, 255, 0xf8, 0, 0, 255, 255, 1, 0, 0, 255, 255}             // bits between a header and its length
	for name, in := range map[string][]byte{
		"empty":                    nil,
		"two bytes":                whole[:2],
		"a header":                 whole[:10],
		"zeros":                    packed(t, make([]byte, unpacked+1), 9),
		"zeros, then text":         append(packed(t, make([]byte, 3<<20), 9), whole...),
		"a wrong checksum":         wrong(8),
		"a wrong length":           wrong(4),
		"wrong, then more":         append(wrong(8), whole...),
		"bytes behind":             append(bytes.Clone(whole), "some bytes behind the last member"...),
		"zeros behind":             append(bytes.Clone(whole), make([]byte, 5000)...),
		"a header behind":          append(bytes.Clone(whole), whole[:12]...),
		"a reference to a member":  append(packed(t, window, 6), member(far.Bytes(), text[:32768])...),
		"a reference to nothing":   member(far.Bytes(), text[:32768]),
		"blocks, then a reference": member(append(bytes.Repeat([]byte{0, 0, 0, 255, 255}, 300), far.Bytes()...), text[:32768]),
		"members of a few bytes":   tiny,
		"members without bytes":    empty,
		"blocks without bytes":     member(nothing, text),
		"padding":                  member(bytes.Repeat(padded, 1), nil),
		"a long padding":           member(append(bytes.Repeat(padded[:10], 500), padded[10:]...), nil),
		"headers alone":            bytes.Repeat(whole[:10], 500),
		"no header":                bytes.Repeat([]byte{0x1f, 0x8b, 7}, 500),
		"a long name":              append([]byte{0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3}, bytes.Repeat([]byte("name"), 500)...),
		"a long extra field":       append([]byte{0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3, 255, 255}, make([]byte, 60000)...),
	} {
		same(t, name, in, small...)
	}
}

// TestParallelDamaged: damaged files give the same bytes and the same error.
func TestParallelDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	all := samples(t)
	for _, name := range []string{"text", "skewed", "binary", "mixed", "noise"} {
		for _, level := range []int{flate.HuffmanOnly, 1, 6} {
			in := packed(t, all[name][:60000], level)
			in = append(in, in...)
			for range 30 {
				bad := bytes.Clone(in)
				for range 1 + r.IntN(3) {
					bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
				}
				same(t, fmt.Sprint(name, ", level ", level), bad, small...)
			}
		}
	}
}

// TestParallelSource: the source may return any number of bytes, and its error is returned.
func TestParallelSource(t *testing.T) {
	in := packed(t, samples(t)["text"], 6)
	want, _ := one(bytes.NewReader(in))
	broken := errors.New("the line is cut")
	for _, s := range small {
		for name, r := range map[string]io.Reader{
			"a byte at a time": iotest.OneByteReader(bytes.NewReader(in)), "data and error": iotest.DataErrReader(bytes.NewReader(in)),
		} {
			if got, err := on(r, s); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %v: %d bytes of %d, %v", name, s, len(got), len(want), err)
			}
		}
		for _, n := range []int{0, 1, 100, 5000, len(in) - 9, len(in) - 1, len(in)} {
			got, err := on(io.MultiReader(bytes.NewReader(in[:n]), iotest.ErrReader(broken)), s)
			if err != broken || !bytes.HasPrefix(want, got) {
				t.Errorf("after %d bytes, %v: %v", n, s, err)
			}
		}
	}
}

// TestParallelIsClosed: a stream that is given up ends its goroutines, and frees its part
// of the crew.
func TestParallelIsClosed(t *testing.T) {
	in := packed(t, samples(t)["binary"], 6)
	crew := NewCrew(2)
	for n := range 20 {
		src := &counter{r: bytes.NewReader(in)}
		p := newParallel(src, crew, small[0])
		left := n * 50000
		stop := errors.New("enough")
		_, err := p.WriteTo(writer(func(b []byte) (int, error) {
			if left -= len(b); left <= 0 {
				return 0, stop
			}
			return len(b), nil
		}))
		p.Close()
		p.Close()
		read := src.n
		if err != stop || len(crew.cores)+len(crew.extra) > 0 || read != src.n {
			t.Errorf("after %d bytes: %v, %d and %d of the crew are busy", n*50000, err, len(crew.cores), len(crew.extra))
		}
	}
	p := newParallel(bytes.NewReader(in), crew, small[0])
	p.Close()
	if _, err := p.WriteTo(io.Discard); err != errClosed {
		t.Errorf("closed at once: %v", err)
	}
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestParallelMemory: a stream holds no more chunks than the crew allows, and no chunk more
// output than its bound, however much it unpacks to.
func TestParallelMemory(t *testing.T) {
	var in []byte
	for range 40 {
		in = append(in, packed(t, make([]byte, 3<<20), 9)...)
		in = append(in, packed(t, samples(t)["text"][:50000], 0)...)
	}
	crew := NewCrew(4)
	p := newParallel(bytes.NewReader(in), crew, sizes{10000, 1000, 1 << 20})
	n, err := p.WriteTo(io.Discard)
	p.Close()
	chunks := 0
	for len(p.free) > 0 {
		c := <-p.free
		chunks++
		if len(c.buf) > 1<<20 {
			t.Errorf("a chunk has %d bytes of output", len(c.buf))
		}
	}
	if err != nil || n != 40*(3<<20+50000) || chunks > ownChunks+cap(crew.extra) || chunks < 2 {
		t.Errorf("%d bytes, %d chunks, %v", n, chunks, err)
	}
}

// TestCombine: the sum of two texts is that of both together.
func TestCombine(t *testing.T) {
	text := samples(t)["mixed"]
	want := crc32.ChecksumIEEE(text)
	for _, n := range []int{0, 1, 7, 8, 255, 4096, 65537, len(text) - 1, len(text)} {
		first, second := crc32.ChecksumIEEE(text[:n]), crc32.ChecksumIEEE(text[n:])
		if got := combine(first, second, len(text)-n); got != want {
			t.Errorf("%d bytes and the rest: %08x, want %08x", n, got, want)
		}
	}
}

// FuzzParallel: any input gives the same bytes and the same error on one processor and on
// several.
func FuzzParallel(f *testing.F) {
	for _, b := range samples(f) {
		for _, level := range []int{flate.HuffmanOnly, 0, 1, 6} {
			in := packed(f, b[:min(len(b), 4000)], level)
			f.Add(append(in, in...), uint16(64), uint16(200))
			f.Add(in, uint16(700), uint16(10))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, chunk, over uint16) {
		same(t, "input", in, sizes{64 + int(chunk), int(over), 140 << 10})
	})
}

// BenchmarkParallel unpacks libraries of this machine, 32 times, by numbers of processors.
func BenchmarkParallel(b *testing.B) {
	plain, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		b.Fatal(err)
	}
	in := bytes.Repeat(packed(b, plain, 6), 8)
	for _, cores := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprint(cores), func(b *testing.B) {
			b.SetBytes(int64(8 * len(plain)))
			for b.Loop() {
				p := NewParallel(bytes.NewReader(in), NewCrew(cores))
				_, err := p.WriteTo(io.Discard)
				p.Close()
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
