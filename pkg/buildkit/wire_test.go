//go:build buildkitd

package buildkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/patch"
)

// BenchmarkWire measures what a symlink and a variable cost between all parties and the
// registry, for an image that the buildkitd has not seen, in each of the ways to use
// BuildKit. WIRE_IMAGE names an OCI layout to take the image from, BUILDKIT_SNAPSHOTTER
// the buildkitd's snapshotter. The numbers are in docs/patch.md.
//
//	BUILDKIT=$PWD/bin go test -tags buildkitd ./pkg/buildkit -run '^$' -bench Wire -benchtime 1x -timeout 1h
func BenchmarkWire(b *testing.B) {
	b.Setenv("DOCKER_CONFIG", b.TempDir())
	host, end, err := imagetest.Distribution(b.TempDir(), "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(end)
	w, err := imagetest.NewWire(host)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	ref := w.Host + "/big:1"
	big, err := imagetest.WireImage()
	if err != nil {
		b.Fatal(err)
	}
	tag, err := name.ParseReference(ref, name.Insecure)
	if err == nil {
		err = remote.Write(tag, big)
	}
	if err != nil {
		b.Fatal(err)
	}
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
	p, err := patch.Apply(b.Context(), base.Images[0], f, patch.Change{
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
				addr := tooltest.Buildkitd(b)
				w.Reset()
				b.StartTimer()
				if err := way.do(addr, w.Host+"/big:patched"); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(w.Up.Load()), "B-up")
				b.ReportMetric(float64(w.Down.Load()), "B-down")
			}
		})
	}
}
