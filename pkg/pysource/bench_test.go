package pysource

import (
	"os"
	"testing"
)

// BenchmarkReduce reduces the Python files of this machine, from memory.
func BenchmarkReduce(b *testing.B) {
	var files [][]byte
	total, out := 0, 0
	for _, name := range sources(b) {
		if f, err := os.ReadFile(name); err == nil && total < 256<<20 {
			files = append(files, f)
			total += len(f)
		}
	}
	b.SetBytes(int64(total))
	for b.Loop() {
		out = 0
		for _, f := range files {
			out += len(Reduce(f))
		}
	}
	b.ReportMetric(float64(out)/float64(len(files)), "B/file")
}
