package patch

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// wire counts every byte between a client and a host, headers and all.
type wire struct {
	host     string
	up, down atomic.Int64
}

func newWire(b testing.TB, to string) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	w := &wire{host: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				return
			}
			go func() { io.Copy(s, io.TeeReader(c, adder{&w.up})); s.Close() }()
			go func() { io.Copy(c, io.TeeReader(s, adder{&w.down})); c.Close() }()
		}
	}()
	return w
}

type adder struct{ n *atomic.Int64 }

func (a adder) Write(b []byte) (int, error) {
	a.n.Add(int64(len(b)))
	return len(b), nil
}

// bigImage is n layers of random bytes with a config as large as those of
// NVIDIA's images.
func bigImage(b testing.TB, n int, size int64) v1.Image {
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	var add []mutate.Addendum
	for i := range n {
		l, err := random.Layer(size, types.OCILayer)
		if err != nil {
			b.Fatal(err)
		}
		add = append(add, mutate.Addendum{Layer: l, MediaType: types.OCILayer, History: v1.History{CreatedBy: fmt.Sprintf("RUN step %d %0300d", i, 0)}})
	}
	img, err := mutate.Append(img, add...)
	if err != nil {
		b.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		b.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", "amd64"
	for i := range 30 {
		cfg.Config.Env = append(cfg.Config.Env, fmt.Sprintf("NV_VARIABLE_%d=%060d", i, 0))
	}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		b.Fatal(err)
	}
	return img
}

// BenchmarkWire is what a symlink and a variable cost on the way to a registry,
// against what go-containerregistry's own `crane mutate --append --env` does.
// The numbers stand in docs/patch.md.
//
//	go test ./pkg/patch -run '^$' -bench Wire -benchtime 5x
func BenchmarkWire(b *testing.B) {
	registry := startDistribution(b)
	b.Setenv("DOCKER_CONFIG", b.TempDir())
	w := newWire(b, registry)
	ref, err := name.ParseReference(w.host + "/big:1")
	if err != nil {
		b.Fatal(err)
	}
	if err := remote.Write(ref, bigImage(b, 10, 40<<20)); err != nil {
		b.Fatal(err)
	}
	base, err := OpenBase(b.Context(), ref.Name(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	img, err := base.Images[0].Open(b.Context(), layers.Options{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := img.Index(b.Context())
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
		p, err := Apply(base.Images[0], f, c)
		if err != nil {
			return err
		}
		defer p.Close()
		_, err = Publish(b.Context(), base, []*Patched{p}, w.host+"/"+repo, Options{})
		return err
	}
	ours := func(repo string) error {
		base, err := OpenBase(b.Context(), ref.Name(), Options{})
		if err != nil {
			return err
		}
		return publish(base, f, repo)
	}
	// whole also reads the image, of which the cache has the layers.
	cached := layers.Options{KeepID: "none", Keep: func(string, int64) bool { return false }, Cache: &layers.Cache{Dir: b.TempDir(), Max: 1 << 30}}
	whole := func(repo string) error {
		base, err := OpenBase(b.Context(), ref.Name(), Options{})
		if err != nil {
			return err
		}
		img, err := base.Images[0].Open(b.Context(), cached)
		if err != nil {
			return err
		}
		defer img.Close()
		fsys, err := img.Index(b.Context())
		if err != nil {
			return err
		}
		return publish(base, fsys, repo)
	}
	if err := whole("big:warm"); err != nil {
		b.Fatal(err)
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
		return crane.Push(img, w.host+"/"+repo)
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
			w.up.Store(0)
			w.down.Store(0)
			n := 0
			for b.Loop() {
				tries++
				n++
				if err := kind.do(fmt.Sprintf(kind.to, tries)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(w.up.Load())/float64(n), "B-up/op")
			b.ReportMetric(float64(w.down.Load())/float64(n), "B-down/op")
		})
	}
}
