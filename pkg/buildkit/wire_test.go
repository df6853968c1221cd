//go:build buildkitd

package buildkit

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/patch"
)

// wire counts every byte that goes to a host and comes from it.
type wire struct {
	host     string
	up, down atomic.Int64
}

func newWire(b *testing.B, to string) *wire {
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

// BenchmarkWire is what a symlink and a variable cost between everybody and the
// registry, for an image of 10 layers and 400 MB that the buildkitd has not seen,
// with BuildKit in each of the ways that there are. The numbers stand in
// docs/patch.md.
//
//	BUILDKIT=$PWD/bin go test -tags buildkitd ./pkg/buildkit -run '^$' -bench Wire -benchtime 1x
func BenchmarkWire(b *testing.B) {
	reg, err := imagetest.Registry()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { reg.Close() })
	w := newWire(b, reg.Host)
	ref := w.host + "/big:1"
	pushBig(b, ref)
	base, err := patch.OpenBase(b.Context(), ref, patch.Options{Insecure: true})
	if err != nil {
		b.Fatal(err)
	}
	img, err := base.Images[0].Open(b.Context(), layers.Options{Insecure: true})
	if err != nil {
		b.Fatal(err)
	}
	defer img.Close()
	f, err := img.Index(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	p, err := patch.Apply(base.Images[0], f, patch.Change{
		Files: []patch.File{{Path: "usr/lib/libcudnn.so", Link: "libcudnn.so.8"}},
		Env:   []patch.EnvEdit{{Name: "LD_LIBRARY_PATH", Value: "/opt/lib"}}, CreatedBy: "imgcheck patch",
	})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	file := filepath.Join(b.TempDir(), "fix.llb")
	shell := func(addr, line string) error {
		cmd := exec.CommandContext(b.Context(), "sh", "-c", line)
		cmd.Env = append(os.Environ(), "BUILDKIT_HOST="+addr, "PATH="+os.Getenv("BUILDKIT")+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", line, err, out)
		}
		return nil
	}
	dockerfile := func(link string) func(addr, to string) error {
		return func(addr, to string) error {
			dir := b.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM "+ref+"\nCOPY "+link+" usr /usr\nENV LD_LIBRARY_PATH=/opt/lib\n"), 0o644); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Join(dir, "usr/lib"), 0o755); err != nil {
				return err
			}
			if err := os.Symlink("libcudnn.so.8", filepath.Join(dir, "usr/lib/libcudnn.so")); err != nil {
				return err
			}
			return shell(addr, "buildctl build --frontend dockerfile.v0 --local context="+dir+" --local dockerfile="+dir+" --opt attest:provenance=disabled=true --output type=image,name="+to+",push=true,registry.insecure=true")
		}
	}
	for _, way := range []struct {
		name string
		do   func(addr, to string) error
	}{
		{"--buildkit", func(addr, to string) error {
			if err := Carry(b.Context(), addr, p, ref, to, Options{Insecure: true}); err != nil {
				return err
			}
			_, err := patch.Publish(b.Context(), base, []*patch.Patched{p}, to, patch.Options{Insecure: true})
			return err
		}},
		{"--emit llb", func(addr, to string) error {
			def, err := Definition(b.Context(), p, ref, true)
			if err != nil {
				return err
			}
			if err := os.WriteFile(file, def, 0o644); err != nil {
				return err
			}
			line, err := Command(p, to, file)
			if err != nil {
				return err
			}
			return shell(addr, line)
		}},
		{"COPY --link", dockerfile("--link")},
		{"COPY", dockerfile("")},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				addr := daemon(b)
				w.up.Store(0)
				w.down.Store(0)
				b.StartTimer()
				if err := way.do(addr, w.host+"/big:patched"); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(w.up.Load()), "B-up")
				b.ReportMetric(float64(w.down.Load()), "B-down")
			}
		})
	}
}

func pushBig(b *testing.B, to string) {
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	var add []mutate.Addendum
	for i := range 10 {
		l, err := random.Layer(40<<20, types.OCILayer)
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
	ref, err := name.ParseReference(to, name.Insecure)
	if err != nil {
		b.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		b.Fatal(err)
	}
}
