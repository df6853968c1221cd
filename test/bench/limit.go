//go:build linux

package bench

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/pkg/inflate"
)

// limit reads, hashes and decompresses the layers of a layout, with imgcheck's
// decoders, order (the largest first) and concurrency, and discards the result. No
// program that reads the image can be faster. With a host it reads over HTTP.
func limit(dir, host string) error {
	m, err := manifest(dir)
	if err != nil {
		return err
	}
	list := slices.Clone(m.Layers)
	slices.SortFunc(list, func(a, b descriptor) int { return cmp.Compare(b.Size, a.Size) })
	var g errgroup.Group
	g.SetLimit(min(4, runtime.GOMAXPROCS(0)))
	for _, d := range list {
		g.Go(func() error {
			r, err := openBlob(dir, host, d.Digest.String())
			if err != nil {
				return err
			}
			defer r.Close()
			sum := sha256.New()
			raw := bufio.NewReaderSize(io.TeeReader(r, sum), 256<<10)
			if err := unpack(raw); err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, raw); err != nil {
				return err
			}
			if got := hex.EncodeToString(sum.Sum(nil)); got != d.Digest.Hex {
				return fmt.Errorf("%s has the digest %s", d.Digest, got)
			}
			return nil
		})
	}
	return g.Wait()
}

func openBlob(dir, host, digest string) (io.ReadCloser, error) {
	if host == "" {
		return os.Open(blobs{dir}.path(digest))
	}
	resp, err := http.Get("http://" + host + "/v2/bench/blobs/" + digest)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func unpack(r *bufio.Reader) error {
	head, err := r.Peek(2)
	if err != nil {
		return err
	}
	var plain io.Reader
	if string(head) == "\x1f\x8b" {
		if plain, err = inflate.NewGzip(r); err != nil {
			return err
		}
	} else {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		defer z.Close()
		plain = z
	}
	_, err = io.Copy(io.Discard, plain)
	return err
}

// server serves layouts as a registry that can only be read. The blobs go from the
// page cache to the socket, so that the server adds little to the measured time.
func server(images map[string]image, asked func(string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked(r.Method + " " + r.URL.Path)
		if r.URL.Path == "/v2/" {
			return
		}
		rest := strings.TrimPrefix(r.URL.Path, "/v2/")
		repo, what, _ := strings.Cut(rest, "/")
		kind, name, _ := strings.Cut(what, "/")
		switch {
		case kind == "manifests":
			m, raw, err := rawManifest(images[repo].Dir)
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", string(m.MediaType))
			w.Write(raw)
		case kind == "blobs" && repo == "bench": // a blob of any image
			for _, img := range images {
				if p := (blobs{img.Dir}).path(name); exists(p) {
					http.ServeFile(w, r, p)
					return
				}
			}
			http.NotFound(w, r)
		case kind == "blobs":
			http.ServeFile(w, r, blobs{images[repo].Dir}.path(name))
		default:
			http.NotFound(w, r)
		}
	})
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}
