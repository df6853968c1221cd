package pysource

import (
	"os"
	"syscall"
	"testing"
)

// BenchmarkReduce reduces the Python files of this machine, from memory.
func BenchmarkReduce(b *testing.B) {
	var files [][]byte
	total, out := 0, 0
	for _, name := range sources(b, debianPython...) {
		if f, err := os.ReadFile(name); err == nil && total < 256<<20 {
			files = append(files, f)
			total += len(f)
		}
	}
	b.SetBytes(int64(total))
	before := cpuSeconds(b)
	for b.Loop() {
		out = 0
		for _, f := range files {
			out += len(Reduce(f))
		}
	}
	b.ReportMetric(float64(out)/float64(len(files)), "B/file")
	b.ReportMetric(float64(total)*float64(b.N)/(cpuSeconds(b)-before)/1e6, "MB/cpu-s")
}

// cpuSeconds returns the processor time of this process, which other processes of the
// machine do not change.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
