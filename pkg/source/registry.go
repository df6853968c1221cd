package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// Repository is a repository of a registry, to read from. It logs in once, at the
// first request, with the logins of Docker's config.json. Any number of goroutines
// may use it.
type Repository struct {
	repo name.Repository
	o    Options

	mu sync.Mutex
	rt http.RoundTripper // logged in; nil before
}

// NewRepository returns a repository. It sends nothing yet.
func NewRepository(repo name.Repository, o Options) *Repository { return &Repository{repo: repo, o: o} }

// openRegistry opens the image that a registry's reference names.
func openRegistry(ctx context.Context, s string, o Options) (*Image, error) {
	ref, err := ParseReference(s, o.Insecure)
	if err != nil {
		return nil, err
	}
	r := NewRepository(ref.Context(), o)
	d, err := r.Get(ctx, ref)
	if err != nil {
		return nil, suggest(s, err)
	}
	var attestations []v1.Descriptor
	if d.MediaType.IsIndex() {
		list, err := parseIndex(r, d)
		if err != nil {
			return nil, err
		}
		if d, attestations, err = choose(ctx, r, list, o.Platform, 1); err != nil {
			return nil, err
		}
	}
	return readAttested(ctx, r, d, attestations)
}

// Name returns the repository's name as people write it: Docker Hub is docker.io,
// which go-containerregistry calls index.docker.io.
func (r *Repository) Name() string { return WrittenName(r.repo.Name()) }

// WrittenName returns the name of a repository or image as people write it, where
// go-containerregistry has index.docker.io.
func WrittenName(name string) string {
	if rest, ok := strings.CutPrefix(name, "index.docker.io/"); ok {
		return "docker.io/" + rest
	}
	return name
}

// login returns the transport that has logged in. It renews its tokens.
func (r *Repository) login(ctx context.Context) (http.RoundTripper, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rt != nil {
		return r.rt, nil
	}
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, r.repo)
	if err != nil {
		return nil, err
	}
	base := transport.NewUserAgent(newPatient(newBounded(r.o.Insecure), r.o.stall(), r.o.sleeper()), "imgcheck")
	rt, err := transport.NewWithContext(ctx, r.repo.Registry, auth, base, []string{r.repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	r.rt = rt
	return rt, nil
}

// HasLogin reports whether ref, as [Open] takes it, names an image in a registry for which this
// machine has a login. The registry is not asked.
func HasLogin(ctx context.Context, ref string, insecure bool) bool {
	scheme, rest := Split(ref)
	if scheme != "registry" {
		return false
	}
	r, err := ParseReference(rest, insecure)
	if err != nil {
		return false
	}
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, r.Context())
	return err == nil && auth != authn.Anonymous
}

// asking returns the options of a request to the repository.
func (r *Repository) asking(ctx context.Context) ([]remote.Option, error) {
	rt, err := r.login(ctx)
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(rt)}, err
}

// Get returns the manifest or index that a reference in the repository names.
func (r *Repository) Get(ctx context.Context, ref name.Reference) (*Document, error) {
	opts, err := r.asking(ctx)
	if err == nil {
		var d *remote.Descriptor
		if d, err = remote.Get(ref, opts...); err == nil {
			return &Document{d.Manifest, d.MediaType}, nil
		}
	}
	return nil, &fetchError{RegistryError(ref, err), err}
}

// Head returns the digest that the registry gives for a reference in the repository.
func (r *Repository) Head(ctx context.Context, ref name.Reference) (v1.Hash, error) {
	opts, err := r.asking(ctx)
	if err == nil {
		var d *v1.Descriptor
		if d, err = remote.Head(ref, opts...); err == nil {
			return d.Digest, nil
		}
	}
	return v1.Hash{}, &fetchError{RegistryError(ref, err), err}
}

// Referrers returns the descriptors of the manifests that refer to a manifest of the
// repository, in the order of their digests: by the API for referrers, or by the tag that
// stands for it. Some registries give the config's type as a descriptor's artifact type.
func (r *Repository) Referrers(ctx context.Context, digest v1.Hash) ([]v1.Descriptor, error) {
	ref := r.repo.Digest(digest.String())
	opts, err := r.asking(ctx)
	var list *v1.IndexManifest
	if err == nil {
		var index v1.ImageIndex
		if index, err = remote.Referrers(ref, opts...); err == nil {
			list, err = index.IndexManifest()
		}
	}
	if err != nil {
		return nil, &fetchError{RegistryError(ref, err), err}
	}
	slices.SortFunc(list.Manifests, func(a, b v1.Descriptor) int { return strings.Compare(a.Digest.String(), b.Digest.String()) })
	return list.Manifests, nil
}

// Manifest implements [Store].
func (r *Repository) Manifest(ctx context.Context, digest v1.Hash) (*Document, error) {
	return r.Get(ctx, r.repo.Digest(digest.String()))
}

// Has returns an error unless the repository has a blob.
func (r *Repository) Has(ctx context.Context, digest v1.Hash) error {
	opts, err := r.asking(ctx)
	if err == nil {
		var l v1.Layer
		if l, err = remote.Layer(r.repo.Digest(digest.String()), opts...); err == nil {
			_, err = l.Size()
		}
	}
	if err != nil {
		return &fetchError{r.blobError(v1.Descriptor{}, err), err}
	}
	return nil
}

// Blob implements [Store]. The stream continues on another connection where one
// breaks.
func (r *Repository) Blob(ctx context.Context, d v1.Descriptor, note func(text string)) (io.ReadCloser, error) {
	rt, err := r.login(ctx)
	if err != nil {
		return nil, &fetchError{r.blobError(d, err), err}
	}
	return &remoteBlob{r: r, d: d, Download: &Download{
		Context: ctx,
		Client:  &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}, // bounded has the last word
		URL:     fmt.Sprintf("%s://%s/v2/%s/blobs/%s", r.repo.Scheme(), r.repo.RegistryStr(), r.repo.RepositoryStr(), d.Digest),
		Size:    d.Size, Sleep: r.o.sleeper(), Note: note,
	}}, nil
}

// remoteBlob is a blob on its way.
type remoteBlob struct {
	*Download
	r *Repository
	d v1.Descriptor
}

// Read implements [io.Reader].
func (b *remoteBlob) Read(p []byte) (int, error) {
	n, err := b.Download.Read(p)
	if err != nil && err != io.EOF {
		err = &fetchError{b.r.blobError(b.d, err), err}
	}
	return n, err
}

// blobError explains why a blob that a manifest names could not be fetched.
func (r *Repository) blobError(d v1.Descriptor, err error) error {
	host := r.repo.RegistryStr()
	if known := HostError(host, err); known != nil {
		return known
	}
	var te *transport.Error
	var length *lengthError
	switch {
	case errors.As(err, &length):
		return fmt.Errorf("the manifest says that it has %d bytes, the registry that it has %d: the image is damaged, or a proxy has changed it", length.want, length.got)
	case !errors.As(err, &te):
		return brief(err)
	case sentElsewhere(host, te):
	case te.StatusCode == http.StatusUnauthorized, te.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s refused it (%d)%s, though it gave the manifest: run `docker login %s`", host, te.StatusCode, RegistryWords(te), host)
	case te.StatusCode == http.StatusNotFound && d.MediaType != "" && !d.MediaType.IsDistributable():
		// Docker follows the URLs of such a layer on Windows only.
		return fmt.Errorf("it may not be distributed (%s), so that %s does not have it, and its URLs are not followed: build the image from layers that may", plain.Name(string(d.MediaType)), host)
	case te.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s does not have it (404), though the manifest names it: push the image again", host)
	}
	return statusError(host, te)
}

// fetchError is an error of a registry: one line for people, and its cause.
type fetchError struct{ line, cause error }

func (e *fetchError) Error() string { return e.line.Error() }
func (e *fetchError) Unwrap() error { return e.cause }

// Is reports whether the registry answered that it does not have it.
func (e *fetchError) Is(target error) bool {
	var te *transport.Error
	return target == fs.ErrNotExist && errors.As(e.cause, &te) && te.StatusCode == http.StatusNotFound
}

// RegistryError explains in one line what went wrong at the registry of ref, and
// what to do.
func RegistryError(ref name.Reference, err error) error {
	host := ref.Context().RegistryStr()
	if known := HostError(host, err); known != nil {
		return known
	}
	var te *transport.Error
	if !errors.As(err, &te) {
		return brief(err)
	}
	switch {
	case sentElsewhere(host, te):
	case te.StatusCode == http.StatusNotFound && te.Request != nil && te.Request.URL.Path == "/v2/":
		return fmt.Errorf("%s is no registry: it has no /v2/ (404): check the name and the port", host)
	case te.StatusCode == http.StatusUnauthorized, te.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s refused the login or the image does not exist%s: check the name, and run `docker login %s`", host, RegistryWords(te), host)
	case te.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s has no such image: check the repository and tag (%s, %s)", host, ref.Context().RepositoryStr(), ref.Identifier())
	}
	return statusError(host, te)
}

// sentElsewhere reports whether an answer is that of another host, to which the
// registry has redirected.
func sentElsewhere(host string, te *transport.Error) bool {
	return te.Request != nil && te.Request.URL.Host != "" && te.Request.Response != nil && te.Request.URL.Host != host
}

// statusError explains the status of an answer to any request.
func statusError(host string, te *transport.Error) error {
	switch {
	case sentElsewhere(host, te):
		host = fmt.Sprintf("%s, to where %s redirects,", plain.Name(te.Request.URL.Host), host)
	case te.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%s limits the number of requests%s: wait, or run `docker login %s`", host, RegistryWords(te), host)
	}
	return fmt.Errorf("%s answered %d %s%s: try again later, or ask whoever runs it", host, te.StatusCode, http.StatusText(te.StatusCode), RegistryWords(te))
}
