package inflate

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/iotest"

	kgzip "github.com/klauspost/compress/gzip"
)

// samples returns inputs of every kind: words, runs, noise, a real binary.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 300<<10)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	skewed := make([]byte, 400<<10)
	for i := range skewed {
		skewed[i] = byte(r.ExpFloat64() * 9)
	}
	text := bytes.Repeat([]byte("the loader looks for libcudnn.so.9 in "), 20000)
	for i := 0; i < len(text); i += 97 {
		text[i] = byte(r.Uint32())
	}
	mixed := bytes.Join([][]byte{noise[:70000], text[:200000], make([]byte, 100000), skewed[:50000]}, nil)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"empty": {}, "one": {7}, "zeros": make([]byte, 1<<20), "noise": noise, "skewed": skewed, "text": text, "mixed": mixed,
		"binary": self[:min(len(self), 3<<20)],
	}
}

func deflate(t testing.TB, b []byte, level int) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := flate.NewWriter(&buf, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestInflate(t *testing.T) {
	for name, plain := range samples(t) {
		for level := flate.HuffmanOnly; level <= 9; level++ {
			packed := deflate(t, plain, level)
			for how, wrap := range map[string]func(io.Reader) io.Reader{
				"whole":  func(r io.Reader) io.Reader { return r },
				"halves": iotest.HalfReader, "data and error": iotest.DataErrReader,
			} {
				got, err := io.ReadAll(NewReader(wrap(bytes.NewReader(packed))))
				if err != nil || !bytes.Equal(got, plain) {
					t.Errorf("%s, level %d, %s: %d bytes of %d, %v", name, level, how, len(got), len(plain), err)
				}
			}
			var to bytes.Buffer
			if _, err := NewReader(bytes.NewReader(packed)).WriteTo(&to); err != nil || !bytes.Equal(to.Bytes(), plain) {
				t.Errorf("%s, level %d: WriteTo: %v", name, level, err)
			}
		}
	}
}

// TestTruncated: each prefix of a stream ends unexpectedly, also if it is read byte by
// byte.
func TestTruncated(t *testing.T) {
	plain := samples(t)["mixed"][69000:75000]
	for _, level := range []int{0, 1, 6, flate.HuffmanOnly} {
		packed := deflate(t, plain, level)
		for n := range packed {
			got, err := io.ReadAll(NewReader(bytes.NewReader(packed[:n])))
			if err != io.ErrUnexpectedEOF || !bytes.HasPrefix(plain, got) {
				t.Fatalf("level %d, %d bytes of %d: %v", level, n, len(packed), err)
			}
		}
		got, err := io.ReadAll(NewReader(iotest.OneByteReader(bytes.NewReader(packed))))
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("level %d, a byte at a time: %v", level, err)
		}
	}
}

// TestSourceError: an error of the source is returned, and is not an end.
func TestSourceError(t *testing.T) {
	packed := deflate(t, samples(t)["text"], 6)
	broken := errors.New("the line is cut")
	for _, n := range []int{0, 1, 2, 100, len(packed) - 1} {
		_, err := io.ReadAll(NewReader(io.MultiReader(bytes.NewReader(packed[:n]), iotest.ErrReader(broken))))
		if err != broken {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func TestGzip(t *testing.T) {
	var all, packed bytes.Buffer
	for _, name := range []string{"text", "empty", "noise", "zeros"} {
		b := samples(t)[name]
		w := gzip.NewWriter(&packed)
		w.Name, w.Comment, w.Extra = "layer.tar", "a comment", []byte{1, 2, 3}
		w.Write(b)
		w.Close()
		all.Write(b)
	}
	g, err := NewGzip(bytes.NewReader(packed.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(g)
	if err != nil || !bytes.Equal(got, all.Bytes()) {
		t.Fatalf("%d bytes of %d, %v", len(got), all.Len(), err)
	}
	if err := g.Reset(bytes.NewReader(packed.Bytes())); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, g); err != nil || n != int64(all.Len()) {
		t.Fatalf("again: %d bytes, %v", n, err)
	}
	for i := range 8 {
		bad := bytes.Clone(packed.Bytes())
		bad[len(bad)-1-i] ^= 1
		if err := g.Reset(bytes.NewReader(bad)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, g); err != ErrChecksum {
			t.Errorf("byte %d from the end: %v", i+1, err)
		}
	}
	for n := range 40 {
		g, err := NewGzip(bytes.NewReader(packed.Bytes()[:n]))
		if err == nil {
			_, err = io.ReadAll(g)
		}
		if err != io.ErrUnexpectedEOF {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// laws checks what must hold for any input: it is accepted exactly if compress/flate
// accepts it, and gives the same bytes, whatever the sizes of the reads.
func laws(t *testing.T, in []byte) {
	const most = 1 << 24 // some hundred bytes can be gigabytes
	want, wantErr := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(in)), most))
	got, err := io.ReadAll(io.LimitReader(NewReader(bytes.NewReader(in)), most))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%v, and compress/flate %v", err, wantErr)
	}
	if err == nil && !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, and compress/flate %d", len(got), len(want))
	}
	slow, slowErr := io.ReadAll(io.LimitReader(NewReader(iotest.OneByteReader(bytes.NewReader(in))), most))
	if (slowErr == nil) != (err == nil) || err == nil && !bytes.Equal(slow, got) {
		t.Fatalf("a byte at a time: %v and %d bytes, at once %v and %d", slowErr, len(slow), err, len(got))
	}
}

func FuzzInflate(f *testing.F) {
	for _, b := range samples(f) {
		for _, level := range []int{flate.HuffmanOnly, 0, 1, 6, 9} {
			f.Add(deflate(f, b[:min(len(b), 2000)], level))
		}
	}
	f.Add([]byte{0x4b, 0x04, 0x00})                                     // "a", fixed codes
	f.Add([]byte{0x05, 0xc0, 0x81, 0, 0, 0, 0, 0, 0x90, 0x5f, 0xeb, 0}) // a distance code of one symbol
	f.Fuzz(laws)
}

// TestDamaged damages valid streams, because they lead further than the inputs that a
// fuzzer makes up.
func TestDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	all := samples(t)
	for _, name := range []string{"text", "skewed", "binary", "mixed"} {
		b := all[name]
		for _, level := range []int{flate.HuffmanOnly, 1, 6} {
			packed := deflate(t, b[:min(len(b), 30000)], level)
			for range 150 {
				bad := bytes.Clone(packed)
				for range 1 + r.IntN(3) {
					bad[r.IntN(min(len(bad), 1<<(3+r.IntN(12))))] ^= 1 << r.IntN(8)
				}
				laws(t, bad)
			}
		}
	}
}

func FuzzGzip(f *testing.F) {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Name = "x"
	w.Write([]byte("hello, hello"))
	w.Close()
	f.Add(buf.Bytes())
	f.Add(append(bytes.Clone(buf.Bytes()), buf.Bytes()...))
	f.Fuzz(func(t *testing.T, in []byte) {
		const most = 1 << 24
		read := func(r io.Reader, err error) ([]byte, error) {
			if err != nil {
				return nil, err
			}
			return io.ReadAll(io.LimitReader(r, most))
		}
		want, wantErr := read(gzip.NewReader(bytes.NewReader(in)))
		got, err := read(NewGzip(bytes.NewReader(in)))
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v; compress/gzip %d, %v", len(got), err, len(want), wantErr)
		}
	})
}

// BenchmarkGzip runs each reader over libraries of this machine, as they are in a layer.
func BenchmarkGzip(b *testing.B) {
	var plain []byte
	for _, name := range []string{"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/proc/self/exe"} {
		f, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		plain = append(plain, f...)
	}
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Write(plain)
	w.Close()
	for _, one := range []struct {
		name string
		open func(io.Reader) (io.Reader, error)
	}{
		{"imgcheck", func(r io.Reader) (io.Reader, error) { return NewGzip(r) }},
		{"klauspost", func(r io.Reader) (io.Reader, error) { return kgzip.NewReader(r) }},
		{"compress-gzip", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	} {
		b.Run(one.name, func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				r, err := one.open(bytes.NewReader(buf.Bytes()))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, struct{ io.Reader }{r}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
