//go:build linux

// Package bench measures the cost of a scan, on images that it makes from Debian's
// packages. It prints one table of medians, ratios first; the runs of imgcheck
// alternate with those of the program that it is compared to.
//
//	bench make DIR [IMAGE...]
//	bench run IMGCHECK DIR
//	bench cores FILE.gz [TIMES]
//	bench lazy LAYOUT LAYER
//
// A separate process makes the images, because the peak memory of a child counts
// from that of its parent. DIR keeps the packages and images between runs.
// BENCH_SMALL=1 uses small images, to try the benchmark itself; BENCH_RUNS is the
// number of pairs of runs for each line. docs/speed.md explains the lines.
package bench

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Main runs the program.
func Main() {
	err := errors.New("usage: bench make DIR [IMAGE...], bench run IMGCHECK DIR, bench cores FILE.gz [TIMES], bench lazy LAYOUT LAYER")
	switch {
	case len(os.Args) >= 3 && os.Args[1] == "make":
		_, err = (&bench{dir: os.Args[2]}).images(os.Args[3:]...)
	case len(os.Args) >= 3 && os.Args[1] == "cores":
		err = cores(os.Args[2], os.Args[3:]...)
	case len(os.Args) > 3 && os.Args[1] == "lazy":
		err = lazy(os.Args[2], os.Args[3:]...)
	case len(os.Args) == 4 && os.Args[1] == "run":
		err = run(os.Args[2], os.Args[3])
	case len(os.Args) == 4 && os.Args[1] == "limit":
		err = limit(os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the benchmark.
type bench struct {
	imgcheck, self string
	dir            string
	runs           int
	host           string // host:port of the server
	mu             sync.Mutex
	asked          []string // requests to the server since the list was last emptied
	out            *tabwriter.Writer
	notes          []string // printed below the table
}

func run(imgcheck, dir string) error {
	b := &bench{imgcheck: imgcheck, dir: dir, runs: 3}
	if n, err := strconv.Atoi(os.Getenv("BENCH_RUNS")); err == nil && n > 0 {
		b.runs = n
	}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	images, err := b.images()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	b.host = l.Addr().String()
	go http.Serve(l, server(images, func(s string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.asked = append(b.asked, s)
	}))
	b.out = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	return b.table(images)
}

// images makes the images of these names, or all, unless an earlier run has left
// them.
func (b *bench) images(names ...string) (map[string]image, error) {
	list, dir := full, filepath.Join(b.dir, "full")
	if os.Getenv("BENCH_SMALL") != "" {
		list, dir = small, filepath.Join(b.dir, "small")
	}
	debs, err := download(b.dir, list)
	if err != nil {
		return nil, err
	}
	each := make([][]content, len(list))
	for i := range list {
		each[i] = list[i : i+1]
	}
	again := make([][]content, len(list))
	for i, c := range renamed(list, "opt/copy") {
		again[i] = []content{c}
	}
	changed := slices.Clone(each)
	last := list[len(list)-1]
	last.text = strings.Replace(last.text, "one", "two", 1)
	changed[len(changed)-1] = []content{last}
	images := map[string]image{}
	for _, it := range []struct {
		name   string
		kind   types.MediaType
		layers [][]content
	}{
		{"gzip", types.OCILayer, each},
		{"zstd", types.OCILayerZStd, each},
		{"single", types.OCILayer, [][]content{list}},
		{"changed", types.OCILayer, changed},
		{"quarter", types.OCILayer, each[:len(each)/3]},
		{"half", types.OCILayer, each[:len(each)/2]},
		{"double", types.OCILayer, slices.Concat(each, again)},
	} {
		if len(names) > 0 && !slices.Contains(names, it.name) {
			continue
		}
		if images[it.name], err = makeImage(filepath.Join(dir, it.name), it.kind, debs, it.layers...); err != nil {
			return nil, fmt.Errorf("making the image %s: %w", it.name, err)
		}
	}
	if _, err := exec.LookPath("dive"); err == nil && len(names) == 0 {
		if err := makeArchive(images["gzip"]); err != nil {
			return nil, fmt.Errorf("making an archive: %w", err)
		}
	}
	return images, nil
}

// download fetches packages of bookworm from this machine's mirror, whatever
// release the machine runs.
func download(dir string, list []content) (map[string]string, error) {
	debs := filepath.Join(dir, "debs")
	if err := os.MkdirAll(debs, 0o755); err != nil {
		return nil, err
	}
	script := exec.Command("sh", append([]string{"test/bench/download.sh", debs}, packages(list)...)...)
	script.Stdout, script.Stderr = os.Stderr, os.Stderr
	if err := script.Run(); err != nil {
		return nil, fmt.Errorf("downloading packages: %w", err)
	}
	found := map[string]string{}
	for _, p := range packages(list) {
		files, err := filepath.Glob(filepath.Join(debs, p+"_*.deb"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("the package %s was not downloaded", p)
		}
		found[p] = files[0]
	}
	return found, nil
}

func packages(list []content) []string {
	var names []string
	for _, c := range list {
		names = append(names, c.packages...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// cost is the time and memory that a process took.
type cost struct {
	wall, cpu time.Duration
	peak      int64 // resident, in bytes
	written   int64 // to disk, in bytes
	err       error
}

func measure(name string, args ...string) cost {
	cmd := exec.Command(name, args...)
	var told strings.Builder
	cmd.Stderr = &told
	cmd.Env = append(os.Environ(), "CI=true")
	start := time.Now()
	err := cmd.Run()
	c := cost{wall: time.Since(start), err: err}
	if err != nil {
		c.err = fmt.Errorf("%w: %s", err, strings.TrimSpace(told.String()))
	}
	if cmd.ProcessState != nil {
		u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		c.peak, c.written = u.Maxrss<<10, u.Oublock<<9
	}
	return c
}

// scan scans ref with programs as PATH, and with more flags.
func (b *bench) scan(ref, cache, programs string, flags ...string) cost {
	return measure("env", append([]string{"PATH=" + programs, b.imgcheck, "scan", ref, "--quiet", "--format", "json", "--output", os.DevNull, "--fail-on", "never", "--cache-dir", cache}, flags...)...)
}

func (b *bench) layout(img image) string     { return "oci:" + img.Dir }
func (b *bench) registry(name string) string { return b.host + "/" + name + ":1" }

// none is a PATH without igzip, so that a scan uses the same decoder as the limit
// that it is compared to.
const none = "/nonexistent"

// cold scans with a cache that is empty at the start.
func (b *bench) cold(ref, programs string, flags ...string) cost {
	cache, err := os.MkdirTemp(b.dir, "cache-")
	if err != nil {
		return cost{err: err}
	}
	defer os.RemoveAll(cache)
	return b.scan(ref, cache, programs, flags...)
}

// table measures and prints the lines.
func (b *bench) table(images map[string]image) error {
	gzip := images["gzip"]
	fmt.Printf("%s, %d processors; medians of %d pairs; the image has %d layers, %.1f GB unpacked\n\n",
		runtime.Version(), runtime.GOMAXPROCS(0), b.runs, len(gzip.Sizes), float64(gzip.size())/1e9)
	fmt.Fprintln(b.out, "\tratio\timgcheck\tcpu\tpeak\tagainst\ttime\tcpu\t")
	took := map[string]cost{}
	for _, it := range []struct{ what, image string }{
		{"gzip", "gzip"},
		{"zstd", "zstd"},
		{"gzip, one layer", "single"},
	} {
		layout, registry, dir := b.layout(images[it.image]), b.registry(it.image), images[it.image].Dir
		var err error
		if took[layout], err = b.line("cold, layout, "+it.what, "limit", func() cost { return b.cold(layout, none) }, func() cost { return measure(b.self, "limit", dir, "") }); err != nil {
			return err
		}
		if took[registry], err = b.line("cold, registry, "+it.what, "limit", func() cost { return b.cold(registry, none) }, func() cost { return measure(b.self, "limit", dir, b.host) }); err != nil {
			return err
		}
	}
	if _, err := exec.LookPath("igzip"); err == nil {
		if _, err := b.line("cold, layout, gzip by igzip", "igzip", func() cost { return b.cold(b.layout(gzip), os.Getenv("PATH")) }, func() cost { return igzip(gzip.Dir) }); err != nil {
			return err
		}
	}
	if err := b.cached(images, took[b.layout(gzip)]); err != nil {
		return err
	}
	if err := b.indexed(images, took[b.registry("gzip")]); err != nil {
		return err
	}
	for _, name := range []string{"quarter", "half", "double"} {
		img := images[name]
		if _, err := b.line(fmt.Sprintf("cold, layout, %.1f GB", float64(img.size())/1e9), "limit", func() cost { return b.cold(b.layout(img), none) }, func() cost { return measure(b.self, "limit", img.Dir, "") }); err != nil {
			return err
		}
	}
	if err := b.out.Flush(); err != nil {
		return err
	}
	fmt.Println()
	b.others(gzip, took)
	if err := b.out.Flush(); err != nil {
		return err
	}
	fmt.Println()
	for _, n := range b.notes {
		fmt.Println(n)
	}
	return nil
}

// line compares two commands in alternating runs.
func (b *bench) line(what, against string, ours, theirs func() cost) (cost, error) {
	var list, others []cost
	var ratios []float64
	for range b.runs {
		o, t := ours(), theirs()
		if err := errors.Join(o.err, t.err); err != nil {
			return cost{}, fmt.Errorf("%s: %w", what, err)
		}
		list, others = append(list, o), append(others, t)
		ratios = append(ratios, o.wall.Seconds()/t.wall.Seconds())
	}
	slices.Sort(ratios)
	c, t := middle(list), middle(others)
	fmt.Fprintf(b.out, "%s\t%.2f×\t%s\t%s\t%s\t%s\t%s\t%s\t\n", what, ratios[len(ratios)/2], seconds(c.wall), seconds(c.cpu), megabytes(c.peak), against, seconds(t.wall), seconds(t.cpu))
	return c, nil
}

// median returns the median of b.runs runs, or of fewer if they take a minute.
func (b *bench) median(f func() cost) cost {
	var list []cost
	spent := time.Duration(0)
	for len(list) < b.runs && spent < time.Minute {
		c := f()
		if c.err != nil {
			return c
		}
		list = append(list, c)
		spent += c.wall
	}
	return middle(list)
}

// middle returns the run of the median time, the faster one of two, with the
// highest peak of all runs.
func middle(list []cost) cost {
	list = slices.SortedFunc(slices.Values(list), func(a, b cost) int { return int(a.wall - b.wall) })
	c := list[(len(list)-1)/2]
	for _, o := range list {
		c.peak = max(c.peak, o.peak)
	}
	return c
}

// cached measures scans with a complete cache, and with one that lacks a small
// layer.
func (b *bench) cached(images map[string]image, cold cost) error {
	primed, err := os.MkdirTemp(b.dir, "cache-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(primed)
	for _, ref := range []string{b.layout(images["gzip"]), b.registry("gzip")} {
		if c := b.scan(ref, primed, none); c.err != nil {
			return c.err
		}
	}
	share := func(what string, c cost) error {
		fmt.Fprintf(b.out, "%s\t%.2f %%\t%s\t%s\t%s\tcold\t%s\t%s\t\n", what, 100*c.wall.Seconds()/cold.wall.Seconds(), seconds(c.wall), seconds(c.cpu), megabytes(c.peak), seconds(cold.wall), seconds(cold.cpu))
		return c.err
	}
	if err := share("warm, layout", b.median(func() cost { return b.scan(b.layout(images["gzip"]), primed, none) })); err != nil {
		return err
	}
	b.mu.Lock()
	b.asked = nil
	b.mu.Unlock()
	if c := b.scan(b.registry("gzip"), primed, none); c.err != nil {
		return c.err
	}
	b.mu.Lock()
	asked := b.asked
	b.mu.Unlock()
	if err := share("warm, registry", b.median(func() cost { return b.scan(b.registry("gzip"), primed, none) })); err != nil {
		return err
	}
	err = share("one layer changed", b.median(func() cost {
		dir, err := os.MkdirTemp(b.dir, "cache-")
		if err != nil {
			return cost{err: err}
		}
		defer os.RemoveAll(dir)
		if err := os.CopyFS(dir, os.DirFS(primed)); err != nil {
			return cost{err: err}
		}
		return b.scan(b.layout(images["changed"]), dir, none)
	}))
	b.notes = append(b.notes, "a warm scan asks: "+strings.Join(shortened(asked), ", "))
	if size, n := sizeOf(primed); n > 0 {
		b.notes = append(b.notes, fmt.Sprintf("the cache has %s in %d files", megabytes(size), n))
	}
	return err
}

func shortened(list []string) []string {
	var out []string
	for _, s := range list {
		if i := strings.Index(s, "sha256:"); i >= 0 {
			s = s[:min(len(s), i+15)] + "…"
		}
		out = append(out, s)
	}
	return out
}

func sizeOf(dir string) (size int64, n int) {
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if st, err := f.Info(); err == nil {
			size, n = size+st.Size(), n+1
		}
	}
	return size, n
}

// igzip decompresses the layers with ISA-L, two at a time, to show how much a faster decoder would save.
func igzip(dir string) cost {
	return measure("sh", "-c", `ls -S "$0"/blobs/sha256/* | xargs -P 2 -n 1 sh -c 'case $(head -c 2 "$0" | od -An -tx1) in *"1f 8b"*) igzip -dc "$0" >/dev/null;; esac'`, dir)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
func megabytes(n int64) string       { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }
