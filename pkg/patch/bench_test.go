package patch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// BenchmarkWire measures the bytes that a symlink and a variable cost on the way to a
// registry, here and with go-containerregistry's own `crane mutate --append --env`.
// WIRE_IMAGE names an OCI layout to take the image from. The numbers are in docs/patch.md.
//
//	go test ./pkg/patch -run '^$' -bench Wire -benchtime 5x -timeout 1h
func BenchmarkWire(b *testing.B) {
	b.Setenv("DOCKER_CONFIG", b.TempDir())
	w, err := imagetest.NewWire(startDistribution(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	ref, err := name.ParseReference(w.Host + "/big:1")
	if err != nil {
		b.Fatal(err)
	}
	big, err := imagetest.WireImage()
	if err == nil {
		err = remote.Write(ref, big)
	}
	if err != nil {
		b.Fatal(err)
	}
	cache, err := layers.OpenCache(b.TempDir(), 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	cached := layers.Options{KeepID: "none", Keep: func(string, int64) bool { return false }, Cache: cache}
	index := func(base *Base) (*layers.FS, error) {
		img, err := base.Images[0].Open(b.Context(), cached)
		if err != nil {
			return nil, err
		}
		defer img.Close()
		return img.Index(b.Context())
	}
	base, err := OpenBase(b.Context(), ref.Name(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := index(base)
	if err != nil {
		b.Fatal(err)
	}
	c := Change{
		Files:     []File{{Path: "usr/lib/libcudnn.so", Link: "libcudnn.so.8"}},
		CreatedBy: "imgcheck patch",
		Created:   time.Unix(0, 0),
	}
	file := filepath.Join(b.TempDir(), "layer.tar")
	out, err := os.Create(file)
	if err == nil {
		err = WriteTar(out, f, c)
	}
	if err != nil {
		b.Fatal(err)
	}
	out.Close()

	publish := func(base *Base, f *layers.FS, repo string) error {
		c := c
		c.Env = []EnvEdit{{Name: "LD_LIBRARY_PATH", Value: "/opt/" + repo}} // each has a config of its own
		p, err := Apply(b.Context(), base.Images[0], f, c)
		if err != nil {
			return err
		}
		defer p.Close()
		_, err = Publish(b.Context(), base, []*Patched{p}, w.Host+"/"+repo, Options{})
		return err
	}
	ours := func(repo string) error {
		base, err := OpenBase(b.Context(), ref.Name(), Options{})
		if err != nil {
			return err
		}
		return publish(base, f, repo)
	}
	// whole also reads the image, with its layers in the cache.
	whole := func(repo string) error {
		base, err := OpenBase(b.Context(), ref.Name(), Options{})
		if err != nil {
			return err
		}
		f, err := index(base)
		if err != nil {
			return err
		}
		return publish(base, f, repo)
	}
	cranes := func(repo string) error {
		img, err := crane.Pull(ref.Name())
		if err != nil {
			return err
		}
		if img, err = crane.Append(img, file); err != nil {
			return err
		}
		cfg, err := img.ConfigFile()
		if err != nil {
			return err
		}
		cfg = cfg.DeepCopy()
		cfg.Config.Env = append(cfg.Config.Env, "LD_LIBRARY_PATH=/opt/"+repo)
		if img, err = mutate.Config(img, cfg.Config); err != nil {
			return err
		}
		return crane.Push(img, w.Host+"/"+repo)
	}
	tries := 0
	for _, kind := range []struct {
		name string
		do   func(repo string) error
		to   string
	}{
		{"imgcheck/scanned", whole, "big:whole%d"},
		{"imgcheck/same", ours, "big:fixed%d"},
		{"crane/same", cranes, "big:crane%d"},
		{"imgcheck/other", ours, "other%d:1"},
		{"crane/other", cranes, "crane%d:1"},
	} {
		b.Run(kind.name, func(b *testing.B) {
			w.Reset()
			n := 0
			for b.Loop() {
				tries++
				n++
				if err := kind.do(fmt.Sprintf(kind.to, tries)); err != nil {
					b.Fatal(err)
				}
			}
			if up := w.Up.Load() / int64(n); up > 64<<10 {
				b.Errorf("%d bytes up, for a layer of some 150", up)
			}
			b.ReportMetric(float64(w.Up.Load())/float64(n), "B-up/op")
			b.ReportMetric(float64(w.Down.Load())/float64(n), "B-down/op")
		})
	}
}
