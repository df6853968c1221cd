package layers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// farELF returns a library of 26 MiB whose tables lie at its end, most of it a hole.
func farELF(t *testing.T) []byte {
	t.Helper()
	e, err := imagetest.ParseELF("elf x86_64 soname=libfar.so.1 tables=end dynstr=after\nneeded libb.so\nrpath /opt\npad 26MiB\ndef far\nundef near\n")
	if err != nil {
		t.Fatal(err)
	}
	return e.Bytes()
}

// sparseTar returns a tar with one old GNU sparse entry: the first and the last of a
// file's bytes, with a hole between them.
func sparseTar(name string, b []byte, first, last int) []byte {
	var block [512]byte
	copy(block[:], name)
	copy(block[100:], "0000644\x000000000\x000000000\x00")
	copy(block[124:], fmt.Sprintf("%011o\x00", first+last))
	copy(block[136:], "00000000000\x00")
	block[156] = tar.TypeGNUSparse
	copy(block[257:], "ustar  \x00")
	for i, v := range []int{0, first, len(b) - last, last} {
		copy(block[386+12*i:], fmt.Sprintf("%011o\x00", v))
	}
	copy(block[483:], fmt.Sprintf("%011o\x00", len(b)))
	body := append(bytes.Clone(b[:first]), b[len(b)-last:]...)
	return withSums(bytes.Join([][]byte{block[:], body, make([]byte, -len(body)&511)}, nil))
}

// TestPassedOver: what is passed over of a file without a look at it changes
// nothing of what is read behind it, whatever the layer is stored as.
func TestPassedOver(t *testing.T) {
	far := farELF(t)
	want, err := elfdeps.ReadSymbols(bytes.NewReader(far), int64(len(far)))
	if err != nil || want.Soname != "libfar.so.1" || want.Symbols.Len() != 2 {
		t.Fatalf("%+v, %v", want, err)
	}
	reg := func(name, content string) tarEntry {
		return tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
	}
	plain := tarOf(t, reg("a.so", string(far)), reg("big", string(far[100:])), reg("script", "#!/bin/sh -e\n"), reg("b.so", string(far)))
	const first, last = 1 << 20, 1 << 20
	sparse := append(sparseTar("a.so", far, first, last), tarOf(t, reg("big", ""), reg("script", "#!/bin/sh -e\n"), reg("b.so", string(far)))...)
	if bytes.Count(far[first:len(far)-last], []byte{0}) != len(far)-first-last {
		t.Fatal("the hole is none")
	}
	var gz, zst bytes.Buffer
	zw := gzip.NewWriter(&gz)
	zw.Write(plain)
	zw.Close()
	sw, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	sw.Write(plain)
	sw.Close()
	for name, b := range map[string][]byte{"plain": plain, "sparse": sparse, "gzip": gz.Bytes(), "zstd": zst.Bytes()} {
		l, err := new(tools).readBlob(t.Context(), bytes.NewReader(b), nil, &Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, p := range []string{"a.so", "b.so"} {
			if e := l.find(p); e == nil || !cmp.Equal(e.Object, want) {
				t.Errorf("%s, %s: %s", name, p, cmp.Diff(e, want))
			}
		}
		if e := l.find("script"); e == nil || e.Shebang != "/bin/sh -e" {
			t.Errorf("%s: the script is %+v", name, e)
		}
	}
	// An end within what is passed over is an error, as everywhere else.
	for n := 1 << 20; n < len(plain)-1024; n += 15 << 20 {
		if _, err := new(tools).readBlob(t.Context(), bytes.NewReader(plain[:n]), nil, &Options{}); err == nil {
			t.Errorf("cut after %d bytes: no error", n)
		}
	}
}

// The bytes and the error of a stream are the same whether it is read on demand or ahead.
func TestInTurn(t *testing.T) {
	text := make([]byte, 5*aheadSize+17)
	for i := range text {
		text[i] = byte(i ^ i>>8)
	}
	broken := errors.New("the line is cut")
	for _, n := range []int{0, 1, aheadSize, 2*aheadSize - 1, len(text)} {
		for name, end := range map[string]error{"ends": io.EOF, "breaks": broken} {
			for turns := range 12 { // reads on demand before the first ahead
				asked, running := 0, 0
				r := readerFunc(func(b []byte) (int, error) {
					if running++; running > 1 {
						t.Error("read by two at a time")
					}
					defer func() { running-- }()
					if asked == n {
						return 0, end
					}
					got := copy(b[:min(len(b), 50_000)], text[asked:n])
					asked += got
					return got, nil
				})
				taken := 0
				c := inTurn(r, func() bool { taken++; return taken > turns })
				c.sip = turns%2 == 1
				var got bytes.Buffer
				var err error
				for i := 0; err == nil; i++ {
					buf := make([]byte, []int{3, 100_000, 700, pastSize}[i%4])
					var m int
					m, err = c.Read(buf)
					got.Write(buf[:m])
				}
				if err == io.EOF {
					err = nil
				}
				want := end
				if end == io.EOF {
					want = nil
				}
				if err != want || !bytes.Equal(got.Bytes(), text[:n]) {
					t.Errorf("%s after %d bytes, %d in turn: %d bytes, %v", name, n, turns, got.Len(), err)
				}
				if _, err := c.Read(make([]byte, 1)); err == nil {
					t.Errorf("%s after %d bytes, %d in turn: it goes on", name, n, turns)
				}
				c.stop()
			}
		}
	}
}

// TestToolsGoOn: what a layer left in the tools, whole or broken off, does not
// show in the next one.
func TestToolsGoOn(t *testing.T) {
	reg := func(name, content string) tarEntry {
		return tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
	}
	packed := func(b []byte) []byte {
		var out bytes.Buffer
		z, err := zstd.NewWriter(&out, zstd.WithWindowSize(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		z.Write(b)
		z.Close()
		return out.Bytes()
	}
	far := farELF(t)
	near, err := imagetest.ParseELF("elf x86_64 soname=libsmall.so.1\nneeded libfar.so.1\ndef near\n")
	if err != nil {
		t.Fatal(err)
	}
	small := near.Bytes()
	one := packed(tarOf(t, reg("a.so", string(far)), reg("script", "#!/bin/sh -e\n")))
	two := packed(tarOf(t, reg("b.so", string(small)), reg("c.so", string(far))))
	var gz bytes.Buffer
	zw := gzip.NewWriter(&gz)
	zw.Write(tarOf(t, reg("d.so", string(small))))
	zw.Close()
	damaged := bytes.Clone(two)
	damaged[len(damaged)/2] ^= 0xff
	used := new(tools)
	for i, b := range [][]byte{one, two, one[:len(one)/2], two, damaged, one, gz.Bytes(), two, {}, one[:5], one, two[:len(two)-3], two} {
		want, wantErr := new(tools).readBlob(t.Context(), bytes.NewReader(b), nil, &Options{})
		got, err := used.readBlob(t.Context(), bytes.NewReader(b), nil, &Options{})
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%d: %v, with new tools %v", i, err, wantErr)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d: -new +used:\n%s", i, diff)
		}
	}
}

// TestHugePages: memory keeps what it holds, whatever of it is asked for.
func TestHugePages(t *testing.T) {
	b := make([]byte, 9<<20)
	for i := range b {
		b[i] = byte(i >> 8)
	}
	want := bytes.Clone(b)
	hugePages(nil, 8<<20)
	for _, n := range []uint64{0, 1, 4 << 20, uint64(len(b)), 1<<64 - 1} {
		hugePages(b, n)
	}
	if !bytes.Equal(b, want) {
		t.Error("memory has changed")
	}
}

// TestBegin: only the first part is looked at, and all parts come.
func TestBegin(t *testing.T) {
	c := ahead(bytes.NewReader(make([]byte, 3*aheadSize)))
	defer c.stop()
	looked := 0
	c.begin(func(b []byte) { looked += len(b) })
	if n, err := io.Copy(io.Discard, c); n != 3*aheadSize || err != nil || looked != aheadSize {
		t.Errorf("%d bytes, %v, %d looked at", n, err, looked)
	}
}

// TestChunks: reading, peeking and passing over in any order give the stream's
// bytes at each place, and then its error, whoever makes the chunks.
func TestChunks(t *testing.T) {
	b := make([]byte, 3<<20)
	for i := 0; i < len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], uint32(i))
	}
	for name, c := range map[string]*chunks{
		"ahead": ahead(bytes.NewReader(b)),
		"pull":  pull(bytes.NewReader(b)),
	} {
		at := 0
		for i := 0; at < len(b); i++ {
			n := min(1<<(i%20), len(b)-at)
			peeked, err := c.Peek(4)
			if err != nil || !bytes.HasPrefix(b[at:], peeked) || len(peeked) == 0 {
				t.Fatalf("%s at %d: peeked %x, %v", name, at, peeked, err)
			}
			if i%3 == 0 {
				if m, err := c.Discard(n); m != n || err != nil {
					t.Fatalf("%s at %d: passed over %d of %d, %v", name, at, m, n, err)
				}
			} else {
				got := make([]byte, n)
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, b[at:at+n]) {
					t.Fatalf("%s at %d: other bytes, %v", name, at, err)
				}
			}
			at += n
		}
		for range 2 {
			if n, err := c.Discard(1); n != 0 || err != io.EOF {
				t.Errorf("%s: passed over %d at the end, %v", name, n, err)
			}
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("%s: %v at the end", name, err)
			}
		}
		c.stop()
	}
	for range 3 { // a stream can be stopped unread
		ahead(bytes.NewReader(b)).stop()
		pull(bytes.NewReader(b)).stop()
	}
}
