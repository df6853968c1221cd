//go:build linux

package bench

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// lazy prints which part of layers of a layout, by their numbers, a scan would fetch at least if they were made to
// be read by ranges: files in chunks of a size, each packed by itself, as eStargz and zstd:chunked have them, or the
// tar in spans, as SOCI has it. All are packed by zstd here.
func lazy(dir string, layer ...string) error {
	m, err := manifest(dir)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "layer\tunpacked\tneeded\tpacked\tin\tfetched\tby names\t")
	for _, s := range layer {
		i, err := strconv.Atoi(s)
		if err != nil || i < 1 || i > len(m.Layers) {
			return fmt.Errorf("%q is no layer", s)
		}
		l, err := lookAt(blobs{dir}.path(m.Layers[i-1].Digest.String()))
		if err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		for _, c := range l.chunks {
			share := func(n int64) string {
				return fmt.Sprintf("%s, %.1f %%", megabytes(n), 100*float64(n)/float64(c.packed))
			}
			fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", i, megabytes(l.size), share2(l.needed, l.size), megabytes(c.packed), c.name, share(c.fetched), share(c.named))
		}
	}
	return out.Flush()
}

func share2(n, of int64) string {
	return fmt.Sprintf("%s, %.1f %%", megabytes(n), 100*float64(n)/float64(of))
}

// looked is a layer of which the parts are known that an index is made of.
type looked struct {
	size, needed int64
	chunks       []*chunks
}

// chunks are those of one size.
type chunks struct {
	name                   string
	size                   int64
	span                   []byte // of the tar, that is not full yet; nil for chunks of files
	touched, told          bool   // by what is needed, and by files whose names say so
	packed, fetched, named int64
}

// put counts a chunk.
func (c *chunks) put(z *zstd.Encoder, b []byte, touched, told bool) {
	n := int64(len(z.EncodeAll(b, nil)))
	c.packed += n
	if touched {
		c.fetched += n
	}
	if touched && told {
		c.named += n
	}
}

// lookAt reads a layer, and counts its chunks: those that have something that is needed, and those among them
// that are not needed for the first bytes of their file alone.
func lookAt(blob string) (*looked, error) {
	f, err := os.Open(blob)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := layers.Unpack(f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	l := &looked{chunks: []*chunks{{name: "chunks of 64 KiB", size: 64 << 10}, {name: "chunks of 4 MiB", size: 4 << 20}, {name: "spans of 4 MiB", size: 4 << 20, span: []byte{}}}}
	spans := l.chunks[2]
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg || h.Size == 0 {
			continue
		}
		b := make([]byte, h.Size)
		if _, err := io.ReadFull(tr, b); err != nil {
			return nil, err
		}
		need := needs(strings.TrimPrefix(strings.TrimPrefix(h.Name, "."), "/"), b)
		told := len(need) > 1 || need[0][1] > 64
		l.size += h.Size
		for _, p := range need {
			l.needed += p[1] - p[0]
		}
		meets := func(from, to int64) bool {
			return slices.ContainsFunc(need, func(p [2]int64) bool { return p[0] < to && from < p[1] })
		}
		for _, c := range l.chunks[:2] {
			for from := int64(0); from < h.Size; from += c.size {
				to := min(from+c.size, h.Size)
				c.put(z, b[from:to], meets(from, to), told)
			}
		}
		for from := int64(0); from < h.Size; {
			to := min(from+spans.size-int64(len(spans.span)), h.Size)
			spans.span = append(spans.span, b[from:to]...)
			hit := meets(from, to)
			spans.touched, spans.told = spans.touched || hit, spans.told || hit && told
			if from = to; int64(len(spans.span)) == spans.size {
				spans.put(z, spans.span, spans.touched, spans.told)
				spans.span, spans.touched, spans.told = spans.span[:0], false, false
			}
		}
	}
	spans.put(z, spans.span, spans.touched, spans.told)
	return l, nil
}

// needs returns the parts of a file that an index is made of, in order: the whole file, or the first bytes, and of an
// ELF file its headers, the tables of the loader and the list of its GPU code. Names that code opens, in .rodata,
// are counted of extension modules alone.
func needs(name string, b []byte) [][2]int64 {
	size := int64(len(b))
	whole := [][2]int64{{0, size}}
	e, err := elf.NewFile(bytes.NewReader(b))
	switch {
	case err == nil:
	case replay.Wants(name, size), bytes.HasPrefix(b, []byte("#!")) && size <= 256<<10:
		return whole
	default:
		return [][2]int64{{0, min(64, size)}}
	}
	list := [][2]int64{{0, min(4096, size)}}
	add := func(from, to int64) {
		if from, to = max(0, from), min(size, to); from < to {
			list = append(list, [2]int64{from, to})
		}
	}
	if len(b) > 0x40 && b[4] == 2 {
		from := int64(binary.LittleEndian.Uint64(b[0x28:]))
		add(from, from+int64(len(e.Sections))*64)
	}
	module := strings.Contains(name, "-packages/") && strings.Contains(name, ".so")
	for _, s := range e.Sections {
		from, to := int64(s.Offset), int64(s.Offset+s.FileSize)
		switch {
		case s.Type == elf.SHT_NOBITS || s.Offset > uint64(size) || s.FileSize > uint64(size)-s.Offset:
		case s.Type == elf.SHT_DYNAMIC, s.Type == elf.SHT_DYNSYM, s.Type == elf.SHT_NOTE, s.Type == elf.SHT_GNU_VERDEF, s.Type == elf.SHT_GNU_VERNEED,
			s.Type == elf.SHT_GNU_VERSYM, s.Name == ".dynstr", s.Name == ".shstrtab", s.Name == ".interp", module && s.Name == ".rodata":
			add(from, to)
		case s.Name == ".nv_fatbin" || s.Name == "__nv_relfatbin":
			for at := from; at+16 <= to; {
				if binary.LittleEndian.Uint32(b[at:]) != 0xba55ed50 {
					at += 8
					continue
				}
				head, body := int64(binary.LittleEndian.Uint16(b[at+6:])), int64(binary.LittleEndian.Uint64(b[at+8:]))
				add(at, at+16)
				end := min(to, at+head+body)
				for in := at + max(16, head); in+64 <= end; {
					entry, payload := int64(binary.LittleEndian.Uint32(b[in+4:])), int64(binary.LittleEndian.Uint64(b[in+8:]))
					add(in, in+64)
					if entry < 16 || payload < 0 {
						break
					}
					in += entry + payload
				}
				at = max(at+16, end)
			}
		}
	}
	return list
}
