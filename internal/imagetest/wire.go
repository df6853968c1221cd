package imagetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Wire is a proxy to a host that counts every byte, headers included.
type Wire struct {
	Host     string       // host:port to use instead of the host
	Up, Down atomic.Int64 // bytes sent to the host, and received from it

	listener net.Listener
}

// NewWire starts a proxy to a host. The caller must Close it.
func NewWire(to string) (*Wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a way to %s: %w", to, err)
	}
	w := &Wire{Host: l.Addr().String(), listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			go func() { io.Copy(s, io.TeeReader(c, adder{&w.Up})); s.Close() }()
			go func() { io.Copy(c, io.TeeReader(s, adder{&w.Down})); c.Close() }()
		}
	}()
	return w, nil
}

// Reset sets the counts to zero.
func (w *Wire) Reset() { w.Up.Store(0); w.Down.Store(0) }

// Close stops accepting connections. Open ones stay.
func (w *Wire) Close() error { return w.listener.Close() }

type adder struct{ n *atomic.Int64 }

func (a adder) Write(b []byte) (int, error) {
	a.n.Add(int64(len(b)))
	return len(b), nil
}

// WireImage returns the image that the benchmarks of bytes over the wire patch. It is
// the image in the OCI layout $WIRE_IMAGE, or else one of ten layers of 40 MiB of
// random bytes, with a config as large as those of NVIDIA's images.
func WireImage() (v1.Image, error) {
	dir := os.Getenv("WIRE_IMAGE")
	if dir == "" {
		return wireImage()
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("WIRE_IMAGE: %w", err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("WIRE_IMAGE: %w", err)
	}
	if len(m.Manifests) != 1 {
		return nil, errors.New("WIRE_IMAGE: the layout holds not one image")
	}
	return index.Image(m.Manifests[0].Digest)
}

func wireImage() (v1.Image, error) {
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	var add []mutate.Addendum
	for i := range 10 {
		l, err := random.Layer(40<<20, types.OCILayer)
		if err != nil {
			return nil, err
		}
		add = append(add, mutate.Addendum{Layer: l, MediaType: types.OCILayer, History: v1.History{CreatedBy: fmt.Sprintf("RUN step %d %0300d", i, 0)}})
	}
	img, err := mutate.Append(img, add...)
	if err != nil {
		return nil, err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", "amd64"
	for i := range 30 {
		cfg.Config.Env = append(cfg.Config.Env, fmt.Sprintf("NV_VARIABLE_%d=%060d", i, 0))
	}
	return mutate.ConfigFile(img, cfg)
}
