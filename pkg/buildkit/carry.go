package buildkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli/config/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/session/auth/authprovider"
	digest "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/pkg/patch"
)

// Options say how to talk to a buildkitd.
type Options struct {
	// Insecure allows plain HTTP and unverified TLS to the registries. The buildkitd
	// connects to them, and may need a setting of its own.
	Insecure bool
	// Progress, if set, is called with a line for each step of BuildKit.
	Progress func(line string)
}

// storeID names the new layer's store in the session with BuildKit.
const storeID = "imgcheck"

// Carry lets the buildkitd at an address (unix:///run/buildkit/buildkitd.sock,
// tcp://HOST:PORT) put all layers of a patched image into the repository of a reference,
// without a tag: it sends the new layer from here and the base's layers from their
// registry. [patch.Publish] of the same image to the same reference then sends a config
// and a manifest. from is the reference of the base.
//
// A buildkitd that already has a layer in another compression puts that one there.
// Publish then sends the new layer itself, and refuses a base layer, as it does without
// BuildKit.
//
// Both references are in registries. BuildKit uses the logins of this machine.
func Carry(ctx context.Context, addr string, p *patch.Patched, from, to string, o Options) error {
	target, err := reference(to, o.Insecure)
	if err != nil {
		return err
	}
	state, err := baseState(p, from, o.Insecure)
	if err != nil {
		return err
	}
	source, err := reference(from, o.Insecure)
	if err != nil {
		return err
	}
	opt := client.SolveOpt{Session: []session.Attachable{logins(target.Context().RegistryStr(), source.Context().RegistryStr())}}
	if p.Layer != nil {
		store, err := newStore(p)
		if err != nil {
			return fmt.Errorf("reading the new layer: %w", err)
		}
		defer store.close()
		opt.OCIStores = map[string]content.Store{storeID: store}
		// The name is arbitrary: BuildKit uses the digest.
		layer := llb.OCILayout("imgcheck/layer@"+store.root.String(), llb.OCIStore("", storeID), llb.Platform(platform(p)), llb.WithCustomName("the new layer"))
		state = merge(state, layer)
	}
	def, err := state.Marshal(ctx, llb.Platform(platform(p)))
	if err != nil {
		return fmt.Errorf("writing LLB: %w", err)
	}
	attrs, err := attributes(p)
	if err != nil {
		return err
	}
	attrs["name"], attrs["push"], attrs["push-by-digest"] = target.Context().Name(), "true", "true"
	attrs["containerimage.config"] = string(p.Config)
	if o.Insecure {
		attrs["registry.insecure"] = "true"
	}
	opt.Exports = []client.ExportEntry{{Type: client.ExporterImage, Attrs: attrs}}
	if err := solve(ctx, addr, def, opt, o); err != nil {
		return fmt.Errorf("BuildKit at %s: %w", addr, err)
	}
	return nil
}

func solve(ctx context.Context, addr string, def *llb.Definition, opt client.SolveOpt, o Options) error {
	c, err := client.New(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Info(ctx); err != nil {
		return fmt.Errorf("does not answer: %w: check the address (unix:///run/buildkit/buildkitd.sock, tcp://HOST:PORT)", err)
	}
	status := make(chan *client.SolveStatus)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, err := c.Solve(ctx, def, opt, status)
		return err
	})
	g.Go(func() error {
		told := map[string]bool{}
		for s := range status {
			for _, v := range s.Vertexes {
				if o.Progress != nil && v.Started != nil && !told[v.Name] {
					told[v.Name] = true
					o.Progress(v.Name)
				}
			}
		}
		return nil
	})
	return g.Wait()
}

// logins gives BuildKit this machine's logins for the registries that take part. A
// request for any other registry's login gets none.
func logins(concerned ...string) session.Attachable {
	return authprovider.NewDockerAuthProvider(authprovider.DockerAuthProviderConfig{
		AuthConfigProvider: func(ctx context.Context, host string, _ []string, _ authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
			if host == "registry-1.docker.io" {
				host = name.DefaultRegistry
			}
			if !slices.Contains(concerned, host) {
				return types.AuthConfig{}, nil
			}
			registry, err := name.NewRegistry(host)
			if err != nil {
				return types.AuthConfig{}, err
			}
			login, err := authn.Resolve(ctx, authn.DefaultKeychain, registry)
			if err != nil {
				return types.AuthConfig{}, err
			}
			a, err := authn.Authorization(ctx, login)
			if err != nil {
				return types.AuthConfig{}, err
			}
			return types.AuthConfig{
				ServerAddress: host, Username: a.Username, Password: a.Password, Auth: a.Auth,
				IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
			}, nil
		},
	})
}

// store is the new layer as an image, for BuildKit to read.
type store struct {
	root  digest.Digest // of the manifest
	small map[digest.Digest][]byte
	layer ocispecs.Descriptor
	open  func() (io.ReadCloser, error)

	mu   sync.Mutex
	rc   io.ReadCloser
	next int64 // offset of rc in the layer
}

func newStore(p *patch.Patched) (*store, error) {
	d, err := p.Layer.Digest()
	if err != nil {
		return nil, err
	}
	diffID, err := p.Layer.DiffID()
	if err != nil {
		return nil, err
	}
	size, err := p.Layer.Size()
	if err != nil {
		return nil, err
	}
	mt, err := p.Layer.MediaType()
	if err != nil {
		return nil, err
	}
	s := &store{open: p.Layer.Compressed, small: map[digest.Digest][]byte{}}
	s.layer = ocispecs.Descriptor{MediaType: string(mt), Digest: digest.Digest(d.String()), Size: size}
	config, err := s.put(ocispecs.MediaTypeImageConfig, ocispecs.Image{
		Platform: platform(p), RootFS: ocispecs.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.Digest(diffID.String())}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := s.put(ocispecs.MediaTypeImageManifest, ocispecs.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispecs.MediaTypeImageManifest,
		Config: config, Layers: []ocispecs.Descriptor{s.layer},
	})
	s.root = manifest.Digest
	return s, err
}

func (s *store) put(mediaType string, doc any) (ocispecs.Descriptor, error) {
	b, err := json.Marshal(doc)
	if err != nil {
		return ocispecs.Descriptor{}, err
	}
	d := ocispecs.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	s.small[d.Digest] = b
	return d, nil
}

func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rc != nil {
		s.rc.Close()
		s.rc = nil
	}
}

// Info implements content.InfoProvider.
func (s *store) Info(_ context.Context, d digest.Digest) (content.Info, error) {
	if b, ok := s.small[d]; ok {
		return content.Info{Digest: d, Size: int64(len(b))}, nil
	}
	if d == s.layer.Digest {
		return content.Info{Digest: d, Size: s.layer.Size}, nil
	}
	return content.Info{}, fmt.Errorf("%s: %w", d, errdefs.ErrNotFound)
}

// ReaderAt implements content.Provider.
func (s *store) ReaderAt(ctx context.Context, d ocispecs.Descriptor) (content.ReaderAt, error) {
	info, err := s.Info(ctx, d.Digest)
	if err != nil {
		return nil, err
	}
	return &blob{s, d.Digest, info.Size}, nil
}

// blob is an open blob of a store.
type blob struct {
	*store
	digest digest.Digest
	size   int64
}

// Size implements content.ReaderAt.
func (b *blob) Size() int64 { return b.size }

// Close implements io.Closer. The caller of newStore closes the store.
func (b *blob) Close() error { return nil }

// ReadAt implements io.ReaderAt.
func (b *blob) ReadAt(buf []byte, off int64) (int, error) {
	if off < 0 || off >= b.size {
		return 0, io.EOF
	}
	if small, ok := b.small[b.digest]; ok {
		n := copy(buf, small[off:])
		if n < len(buf) {
			return n, io.EOF
		}
		return n, nil
	}
	return b.readLayer(buf, off)
}

// readLayer reads from the layer, which is a stream: reading an earlier offset starts it
// again.
func (s *store) readLayer(buf []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rc == nil || off < s.next {
		if s.rc != nil {
			s.rc.Close()
		}
		rc, err := s.open()
		if err != nil {
			return 0, err
		}
		s.rc, s.next = rc, 0
	}
	skipped, err := io.CopyN(io.Discard, s.rc, off-s.next)
	s.next += skipped
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(s.rc, buf)
	s.next += int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// The methods of a content.Store besides reading.

var errReadOnly = fmt.Errorf("the store can be read only: %w", errdefs.ErrNotImplemented)

// Update implements content.Manager.
func (s *store) Update(context.Context, content.Info, ...string) (content.Info, error) {
	return content.Info{}, errReadOnly
}

// Walk implements content.Manager.
func (s *store) Walk(context.Context, content.WalkFunc, ...string) error { return errReadOnly }

// Delete implements content.Manager.
func (s *store) Delete(context.Context, digest.Digest) error { return errReadOnly }

// Status implements content.IngestManager.
func (s *store) Status(context.Context, string) (content.Status, error) {
	return content.Status{}, errReadOnly
}

// ListStatuses implements content.IngestManager.
func (s *store) ListStatuses(context.Context, ...string) ([]content.Status, error) {
	return nil, errReadOnly
}

// Abort implements content.IngestManager.
func (s *store) Abort(context.Context, string) error { return errReadOnly }

// Writer implements content.Ingester.
func (s *store) Writer(context.Context, ...content.WriterOpt) (content.Writer, error) {
	return nil, errReadOnly
}

var _ content.Store = (*store)(nil)
