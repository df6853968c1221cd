//go:build linux

package bench

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// storing returns a registry that serves layouts as server does, and keeps what is pushed beside them in
// memory.
func storing(images map[string]image) http.Handler {
	layouts := server(images, func(string) {})
	pushed := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		repo, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
		kind, name, _ := strings.Cut(what, "/")
		img, reads := images[repo], r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case reads && kind == "manifests" && (name == "1" || strings.HasPrefix(name, "sha256:") && exists(blobs{img.Dir}.path(name))),
			reads && kind == "blobs" && strings.HasPrefix(name, "sha256:") && exists(blobs{img.Dir}.path(name)):
			layouts.ServeHTTP(w, r)
		default:
			pushed.ServeHTTP(w, r)
		}
	})
}

// indexed measures a scan with an empty cache that takes the indexes of all layers from a referrer of the
// image, with the bytes that the registry sends, against one that reads the layers.
func (b *bench) indexed(images map[string]image, cold cost) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go http.Serve(l, storing(images))
	wire, err := imagetest.NewWire(l.Addr().String())
	if err != nil {
		return err
	}
	defer wire.Close()
	ref := wire.Host + "/gzip:1"
	primed, err := os.MkdirTemp(b.dir, "cache-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(primed)
	if c := b.scan(ref, primed, none); c.err != nil {
		return c.err
	}
	layers := wire.Down.Load()
	if c := measure(b.imgcheck, "index", ref, "--push", "--cache-dir", primed); c.err != nil {
		return c.err
	}
	var indexes int64
	c := b.median(func() cost {
		wire.Reset()
		c := b.cold(ref, none, "--index-from", "referrers")
		indexes = max(indexes, wire.Down.Load())
		return c
	})
	if c.err != nil {
		return c.err
	}
	if indexes > layers/10 {
		return fmt.Errorf("a scan with indexes fetches %s, one without %s: it has read layers", megabytes(indexes), megabytes(layers))
	}
	fmt.Fprintf(b.out, "indexes by referrer, registry\t%.2f %%\t%s\t%s\t%s\tcold\t%s\t%s\t\n", 100*c.wall.Seconds()/cold.wall.Seconds(),
		seconds(c.wall), seconds(c.cpu), megabytes(c.peak), seconds(cold.wall), seconds(cold.cpu))
	b.notes = append(b.notes, fmt.Sprintf("with indexes by referrer the registry sends %.1f MB, without %s: %.2f %%", float64(indexes)/1e6, megabytes(layers), 100*float64(indexes)/float64(layers)))
	return nil
}
