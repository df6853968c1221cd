package layers

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// manyFiles returns a tar of n empty files whose paths are as long as an image's are.
func manyFiles(b testing.TB, n int) []byte {
	b.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := range n {
		name := fmt.Sprintf("usr/lib/python3/dist-packages/package%03d/submodule%02d/file%05d.py", i/400, i/20%20, i)
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return buf.Bytes()
}

// held returns the growth of the heap, in bytes.
func held(before uint64) float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) - float64(before)
}

// BenchmarkEntries measures the cost of a path that a scan does not use: to read it from a
// tar, from the cache, to merge it, and to lay a layer over it.
func BenchmarkEntries(b *testing.B) {
	const n = 100_000
	file := manyFiles(b, n)
	layer, err := ReadLayer(bytes.NewReader(file), nil)
	if err != nil {
		b.Fatal(err)
	}
	var stored bytes.Buffer
	if err := encodeLayer(&stored, "n", layer); err != nil {
		b.Fatal(err)
	}
	merged := Merge(layer)
	over := NewLayer([]Entry{{Path: "usr/lib/libx.so"}}, "usr/lib/liby.so")
	for _, c := range []struct {
		name string
		do   func() (any, error)
	}{
		{"tar", func() (any, error) { return ReadLayer(bytes.NewReader(file), nil) }},
		{"cache", func() (any, error) { return decodeLayer(bytes.NewReader(stored.Bytes()), nil, "n") }},
		{"merge", func() (any, error) { return Merge(layer), nil }},
		{"with", func() (any, error) { return merged.With(over, source.Layer{}), nil }},
		{"walk", func() (any, error) {
			for e := range merged.All() {
				io.WriteString(io.Discard, e.Path)
			}
			return nil, nil
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var last any
			before := uint64(held(0))
			for b.Loop() {
				var err error
				if last, err = c.do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/path")
			b.ReportMetric(held(before)/n, "B/path")
			runtime.KeepAlive(last)
		})
	}
	runtime.KeepAlive(layer)
}
