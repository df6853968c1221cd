package layers

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
)

// machineImage makes an OCI layout of this machine's own /usr/lib: four layers, of about
// 300 MB in all.
func machineImage(b *testing.B, kind types.MediaType) string {
	b.Helper()
	const perLayer, layers = 75 << 20, 4
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	var buf bytes.Buffer
	var tw *tar.Writer
	var end func() error
	start := func() {
		buf.Reset()
		z := compressorFor(b, kind, &buf)
		tw = tar.NewWriter(z)
		end = func() error { return errors.Join(tw.Close(), z.Close()) }
	}
	total, size := 0, int64(0)
	flush := func() {
		if err := end(); err != nil {
			b.Fatal(err)
		}
		var err error
		if img, err = mutate.AppendLayers(img, static.NewLayer(bytes.Clone(buf.Bytes()), kind)); err != nil {
			b.Fatal(err)
		}
		size = 0
		total++
		start()
	}
	start()
	err := filepath.WalkDir("/usr/lib", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(p)
		if err != nil {
			return nil
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: p[1:], Size: st.Size(), Mode: 0o644}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		n, err := io.CopyN(tw, f, st.Size())
		if size += n; size > perLayer {
			flush()
			if total == layers {
				return fs.SkipAll
			}
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(b.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendImage(img)
	}
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

func compressorFor(b *testing.B, kind types.MediaType, w io.Writer) io.WriteCloser {
	b.Helper()
	if kind == types.OCILayerZStd {
		z, err := zstd.NewWriter(w)
		if err != nil {
			b.Fatal(err)
		}
		return z
	}
	return gzip.NewWriter(w)
}

// limit reads, hashes and decompresses the blobs of an image, as many at a time
// as Index does: no indexer can be faster.
func limit(b *testing.B, img *Image) time.Duration {
	b.Helper()
	start := time.Now()
	var g errgroup.Group
	g.SetLimit(workers())
	for i := range img.Layers {
		g.Go(func() error {
			rc, err := img.Blob(b.Context(), i, nil)
			if err != nil {
				return err
			}
			defer rc.Close()
			plain, done, err := new(tools).decompress(bufio.NewReaderSize(rc, 256<<10), nil)
			if err != nil {
				return err
			}
			defer done()
			_, err = io.Copy(io.Discard, plain)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// BenchmarkIndex measures indexing, also as a multiple of decompressing only (x-limit).
func BenchmarkIndex(b *testing.B) {
	if dir := os.Getenv("IMGCHECK_BENCH_LAYOUT"); dir != "" {
		b.Run("layout", func(b *testing.B) { benchmarkIndex(b, dir) })
		return
	}
	b.Run("gzip", func(b *testing.B) { benchmarkIndex(b, machineImage(b, types.OCILayer)) })
	b.Run("zstd", func(b *testing.B) { benchmarkIndex(b, machineImage(b, types.OCILayerZStd)) })
}

func benchmarkIndex(b *testing.B, dir string) {
	img, err := Open(b.Context(), "oci:"+dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer img.Close()
	limit(b, img) // the first time reads from the disk
	var index, least time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := img.Index(b.Context()); err != nil {
			b.Fatal(err)
		}
		index += time.Since(start)
		least += limit(b, img)
	}
	b.ReportMetric(index.Seconds()/float64(b.N), "s/index")
	b.ReportMetric(index.Seconds()/least.Seconds(), "x-limit")
}
