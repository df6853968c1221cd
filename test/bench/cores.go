//go:build linux

package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/imgcheck/imgcheck/pkg/inflate"
)

// cores prints how fast a gzip file is unpacked by [inflate.Gzip] and by [inflate.Parallel]
// on 1, 2, 4, 8 and 16 processors: the medians of three runs in turn. The file is held in
// memory, and unpacked so many times in a row, as the members of one stream.
func cores(name string, times ...string) error {
	file, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	n := 1
	if len(times) > 0 {
		if n, err = strconv.Atoi(times[0]); err != nil || n < 1 {
			return fmt.Errorf("%q is no number of times", times[0])
		}
	}
	packed := slices.Repeat([][]byte{file}, n)
	counts := []int{0, 1, 2, 4, 8, 16} // 0 is Gzip
	walls := make([][]time.Duration, len(counts))
	spent := make([][]time.Duration, len(counts))
	size := int64(0)
	for range 3 {
		for i, n := range counts {
			before, start := processor(), time.Now()
			got, err := unpackOn(packed, n)
			if err != nil {
				return fmt.Errorf("unpacking %s on %d processors: %w", name, n, err)
			}
			if size != 0 && got != size {
				return fmt.Errorf("unpacking %s on %d processors: %d bytes, before %d", name, n, got, size)
			}
			size = got
			walls[i] = append(walls[i], time.Since(start))
			spent[i] = append(spent[i], processor()-before)
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s: %d MB, unpacked %d MB, GOMAXPROCS %d\n", name, n*len(file)/1e6, size/1e6, runtime.GOMAXPROCS(0))
	fmt.Fprintln(out, "processors\tMB/s unpacked\tratio\tprocessor time")
	for i, n := range counts {
		label := fmt.Sprint(n)
		if n == 0 {
			label = "one (Gzip)"
		}
		wall := median(walls[i])
		fmt.Fprintf(out, "%s\t%.0f\t%.2f×\t%.2f s\n", label, float64(size)/1e6/wall.Seconds(), median(walls[0]).Seconds()/wall.Seconds(), median(spent[i]).Seconds())
	}
	return out.Flush()
}

func unpackOn(packed [][]byte, n int) (int64, error) {
	var all []io.Reader
	for _, b := range packed {
		all = append(all, bytes.NewReader(b))
	}
	r := io.MultiReader(all...)
	if n == 0 {
		g, err := inflate.NewGzip(r)
		if err != nil {
			return 0, err
		}
		return g.WriteTo(io.Discard)
	}
	p := inflate.NewParallel(r, inflate.NewCrew(n))
	defer p.Close()
	return p.WriteTo(io.Discard)
}

func median[T cmp.Ordered](list []T) T {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
