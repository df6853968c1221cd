package layers

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/moby/moby/client"
)

// What others who talk to the same places share with [Open]: how a reference is
// read, and how an error is told.

// ParseReference reads a registry's reference; its error says what to write.
func ParseReference(s string, insecure bool) (name.Reference, error) {
	var opts []name.Option
	if insecure {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.ParseReference(s, opts...)
	if err == nil && looksLikePath(s) { // "./app.tar" would be a host named "."
		err = errors.New("it looks like a path")
	}
	if err != nil {
		return nil, wrongReference(s, err)
	}
	return ref, nil
}

// Transport is the HTTP transport to a registry; insecure leaves certificates
// unverified.
func Transport(insecure bool) *http.Transport {
	rt := remote.DefaultTransport.(*http.Transport).Clone()
	if insecure {
		rt.TLSClientConfig.InsecureSkipVerify = true
	}
	return rt
}

// RegistryError turns what went wrong between us and a registry into one line
// that says what to do.
func RegistryError(ref name.Reference, err error) error { return registryError(ref, err) }

// Escaped is a text that is safe to print to a terminal, whoever wrote it: what is
// not a printable character is written as Go and C would escape it.
func Escaped(s string) string { return escaped(s) }

// SplitTag splits PATH[:TAG], where both may hold colons: what exists is a path.
func SplitTag(s string) (path, tag string) { return splitTag(s) }

// Daemon is a client of the Docker daemon or Podman's service that DOCKER_HOST
// names, else of the first whose socket is there. What it says of images is bounded.
func Daemon() (*client.Client, error) {
	return client.New(client.FromEnv, client.WithHost(daemonHost()), client.WithResponseHook(boundAnswer))
}

// Save is an image of a daemon as `docker save` writes it. It fails when the daemon
// does not have it, and it is given up when it says nothing for a long time, or has no
// end.
func Save(ctx context.Context, c *client.Client, ref string) (io.ReadCloser, error) {
	if _, err := inspect(ctx, c, ref, defaultStall); err != nil {
		return nil, daemonError(err, c.DaemonHost())
	}
	rc, err := save(ctx, c, ref, saveStalls*defaultStall)
	if err != nil {
		return nil, daemonError(err, c.DaemonHost())
	}
	return struct {
		io.Reader
		io.Closer
	}{&budget{r: rc, all: maxStream, beside: maxStream}, rc}, nil
}

// DaemonError turns what went wrong between us and a daemon into one line that
// says what to do.
func DaemonError(c *client.Client, err error) error { return daemonError(err, c.DaemonHost()) }

// OpenV1 takes an image that was found already; ref is what it is called in
// errors. The digests of its layers are verified as they are read.
func OpenV1(ref string, v v1.Image, o Options) (*Image, error) {
	img := &Image{Ref: ref, opts: o}
	if err := img.setV1(v); err != nil {
		return nil, err
	}
	img.setHistory()
	return img, nil
}
