package elfdeps

import (
	"bytes"
	"os"
	"testing"
)

// BenchmarkPack measures the symbols of this machine's C++ library packed, for an object that
// is never bound, and unpacked.
func BenchmarkPack(b *testing.B) {
	file, err := os.ReadFile("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
	if err != nil {
		b.Fatal(err)
	}
	o, err := ReadSymbols(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		b.Fatal(err)
	}
	n := float64(o.Symbols.Len())
	small := o.Symbols.Pack()
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			o.Symbols.Pack()
		}
		b.ReportMetric(float64(len(small.packed.zstd))/n, "B/symbol")
	})
	b.Run("unpack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			again := o.Symbols.with(&packed{zstd: small.packed.zstd, weight: small.packed.weight})
			if again.unpack() == nil {
				b.Fatal("nothing")
			}
		}
		b.ReportMetric(float64(small.packed.weight)/n, "B/symbol")
	})
}
