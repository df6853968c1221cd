package gpucode

import (
	"bytes"
	"encoding/binary"
	"io"
	"regexp"
)

// IsFatbin reports whether a file that begins with head is containers.
func IsFatbin(head []byte) bool {
	return len(head) >= word && binary.LittleEndian.Uint64(head) == magic
}

// ReadFatbin reads a file of containers, of size bytes. It skips with r's Discard where r
// has one, as [bufio.Reader] does. The error is r's; a file that ends early is partial.
func ReadFatbin(r io.Reader, size int64) (*Code, error) {
	w := NewWalker([]Area{{0, size}})
	d, _ := r.(interface{ Discard(n int) (int, error) })
	var b bytes.Buffer
	for pos := int64(0); ; {
		next, n := w.Next(pos)
		if next < 0 {
			break
		}
		skip := next - pos
		for skip > 0 {
			part := min(skip, 1<<30)
			var err error
			if d != nil {
				_, err = d.Discard(int(part))
			} else {
				_, err = io.CopyN(io.Discard, r, part)
			}
			if err == io.EOF {
				return w.fatbin(), nil
			}
			if err != nil {
				return nil, err
			}
			skip -= part
		}
		b.Reset()
		got, err := io.CopyN(&b, r, int64(n))
		w.Feed(next, b.Bytes())
		if pos = next + got; err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return w.fatbin(), nil
}

// fatbin returns the code of a file of containers.
func (w *Walker) fatbin() *Code {
	if len(w.areas) > 0 && w.partial == "" {
		w.partial = "the file ends early"
	}
	c := w.Code(func(int64) string { return "" })
	if c != nil {
		c.Form = Fatbin
	}
	return c
}

// resource matches the files in which TensorRT's builder finds the kernels for one GPU: it
// opens them by their names.
var resource = regexp.MustCompile(`^libnvinfer_builder_resource_(?:sm([0-9]{2,3}[af]?)|(ptx))\.so`)

// Resource returns the architecture, or "ptx", in the base name of a file with the kernels
// of TensorRT's builder; "" for another file.
func Resource(base string) string {
	m := resource.FindStringSubmatch(base)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}
