package patch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// repository is a repository of a registry, as a source and as a target.
type repository struct {
	ref      name.Reference // as it was given
	insecure bool
	puller   *remote.Puller
	pusher   *remote.Pusher
	sleep    func(context.Context, time.Duration) error // nil waits
}

func newRepository(ref name.Reference, o Options) (*repository, error) {
	opts := []remote.Option{
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(&lookFirst{layers.PushTransport(o.Insecure, o.sleep)}),
		remote.WithUserAgent("imgcheck"),
	}
	if o.backoff != nil {
		opts = append(opts, remote.WithRetryBackoff(*o.backoff))
	}
	r := &repository{ref: ref, insecure: o.Insecure, sleep: o.sleep}
	var err error
	if r.puller, err = remote.NewPuller(opts...); err != nil {
		return nil, err
	}
	r.pusher, err = remote.NewPusher(opts...)
	return r, err
}

// openRepository gets what a reference names.
func openRepository(ctx context.Context, s string, o Options) (*repository, []byte, types.MediaType, error) {
	ref, err := layers.ParseReference(s, o.Insecure)
	if err != nil {
		return nil, nil, "", err
	}
	r, err := newRepository(ref, o)
	if err != nil {
		return nil, nil, "", err
	}
	raw, mt, err := r.get(ctx, ref)
	return r, raw, mt, err
}

func (r *repository) get(ctx context.Context, ref name.Reference) ([]byte, types.MediaType, error) {
	d, err := r.puller.Get(ctx, ref)
	if err != nil {
		return nil, "", &registryError{ref, err}
	}
	return d.Manifest, d.MediaType, nil
}

// registryError is one line that says what to do; that something is not there
// can be asked of it.
type registryError struct {
	ref name.Reference
	err error
}

func (e *registryError) Error() string { return layers.RegistryError(e.ref, e.err).Error() }
func (e *registryError) Unwrap() error { return e.err }
func (e *registryError) Is(target error) bool {
	var te *transport.Error
	return target == fs.ErrNotExist && errors.As(e.err, &te) && te.StatusCode == http.StatusNotFound
}

// place is the repository as people write it: go-containerregistry says
// index.docker.io.
func (r *repository) place() string { return written(r.ref.Context().Name()) }

func written(name string) string {
	if rest, ok := strings.CutPrefix(name, "index.docker.io/"); ok {
		return "docker.io/" + rest
	}
	return name
}

func (r *repository) manifest(ctx context.Context, digest v1.Hash) ([]byte, types.MediaType, error) {
	return r.get(ctx, r.ref.Context().Digest(digest.String()))
}

func (r *repository) blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	ref := r.ref.Context().Digest(d.Digest.String())
	l, err := r.puller.Layer(ctx, ref)
	if err == nil {
		var rc io.ReadCloser
		if rc, err = l.Compressed(); err == nil {
			return &blobReader{rc, ref}, nil
		}
	}
	return nil, &registryError{ref, err}
}

// blobReader names the registry that a blob came from where it breaks off.
type blobReader struct {
	io.ReadCloser
	ref name.Reference
}

func (b *blobReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &registryError{b.ref, err}
	}
	return n, err
}

// pushError tells what went wrong while pushing; a CopyError and a cancelled
// context stay what they are, and what went wrong at the source is told as such.
func (r *repository) pushError(what string, err error) error {
	var te *transport.Error
	var ce *CopyError
	var source *registryError
	switch {
	case err == nil || errors.As(err, &ce):
		return err
	case errors.As(err, &source):
		err = fmt.Errorf("reading it: %w", source)
	case errors.As(err, &te) && te.StatusCode >= 400 && te.StatusCode < 500 && te.StatusCode != http.StatusTooManyRequests:
		err = &refusal{r.refused(te), te}
	default:
		err = layers.RegistryError(r.ref, err)
	}
	return fmt.Errorf("pushing %s: %w", what, err)
}

// refusal is a registry's no, in words that say what to do.
type refusal struct {
	text string
	te   *transport.Error
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.te }

// refused says what a registry's no means. Its own words come first: a quota that is
// used up has the status of a missing login.
func (r *repository) refused(te *transport.Error) string {
	host, repo, words := r.ref.Context().RegistryStr(), r.ref.Context().RepositoryStr(), layers.RegistryWords(te)
	login := fmt.Sprintf("run `docker login %s` as somebody who may push to %s", host, repo)
	switch te.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Sprintf("%s does not allow it%s: %s", host, words, login)
	case http.StatusForbidden:
		if words != "" {
			login += ", or ask whoever runs it"
		}
		return fmt.Sprintf("%s does not allow it%s: %s", host, words, login)
	case http.StatusMethodNotAllowed:
		return fmt.Sprintf("%s takes no pushes (405)%s: it is a mirror, or read-only", host, words)
	case http.StatusNotFound:
		return fmt.Sprintf("%s has no repository %s, or lacks something that the manifest names%s: create it first, or run again", host, repo, words)
	}
	if te.Request != nil && te.Request.URL.Host != host {
		return layers.RegistryError(r.ref, te).Error() // of where it redirects to
	}
	return fmt.Sprintf("%s refuses it (%d %s)%s: ask whoever runs it", host, te.StatusCode, http.StatusText(te.StatusCode), words)
}

// layer sends a blob of our own, and looks whether it is there then: a manifest
// that names what is not there is an image that nobody can pull.
func (r *repository) layer(ctx context.Context, l v1.Layer) error {
	if err := r.pusher.Upload(ctx, r.ref.Context(), l); err != nil {
		return r.pushError("the new layer", err)
	}
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	err = r.settled(ctx, func() error {
		there, err := r.puller.Layer(ctx, r.ref.Context().Digest(digest.String()))
		if err == nil {
			_, err = there.Size()
		}
		return err
	})
	if err != nil && ctx.Err() == nil && !missing(err) {
		return nil // some answer no such question
	}
	if missing(err) {
		err = fmt.Errorf("%s has taken %s and does not have it: run again, or ask whoever runs it", r.ref.Context().RegistryStr(), digest)
	}
	return err
}

// looks is how often one looks for what was sent just now, with a longer wait
// before each but the first: some registries need a while to see it.
const looks = 4

// settled asks until something is not missing any more, but not for ever.
func (r *repository) settled(ctx context.Context, ask func() error) error {
	for n := range looks {
		err := ask()
		if !missing(err) || n == looks-1 {
			return err
		}
		if err := r.wait(ctx, time.Second<<n); err != nil {
			return err
		}
	}
	return nil
}

func (r *repository) wait(ctx context.Context, d time.Duration) error {
	if r.sleep != nil {
		return r.sleep(ctx, d)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// missing reports whether a registry says that something is not there.
func missing(err error) bool {
	var te *transport.Error
	return errors.As(err, &te) && te.StatusCode == http.StatusNotFound
}

// base makes a layer of the base be there: it is, or is mounted from the
// repository of the same registry that has it. Only what the guard allows is
// copied.
func (r *repository) base(ctx context.Context, g *guarded) error {
	var l v1.Layer = g
	from, ok := g.src.(*repository)
	sameRegistry := ok && from.ref.Context().RegistryStr() == r.ref.Context().RegistryStr()
	if sameRegistry && from.place() != r.place() {
		l = &remote.MountableLayer{Layer: g, Reference: from.ref.Context().Digest(g.d.Digest.String())}
	}
	switch {
	case sameRegistry && from.place() == r.place():
		g.why = fmt.Sprintf("%s does not have it any more, though a manifest of %s names it", r.ref.Context().RegistryStr(), r.ref.Context().RepositoryStr())
	case sameRegistry:
		g.why = fmt.Sprintf("%s does not mount it from %s into %s", r.ref.Context().RegistryStr(), from.ref.Context().RepositoryStr(), r.ref.Context().RepositoryStr())
	default:
		g.why = fmt.Sprintf("%s does not have it in %s", r.ref.Context().RegistryStr(), r.ref.Context().RepositoryStr())
	}
	return r.pushError("layer "+g.d.Digest.String(), r.pusher.Upload(ctx, r.ref.Context(), l))
}

func (r *repository) putManifest(ctx context.Context, raw []byte, mt types.MediaType) error {
	return r.pushError("the manifest", r.pusher.Put(ctx, r.ref.Context().Digest(digestOf(raw).String()), taggable{raw, mt}))
}

func (r *repository) putName(ctx context.Context, n *naming) (string, error) {
	var moved *movedError
	err := r.pusher.Put(context.WithValue(ctx, namingKey{}, n), r.ref, taggable{n.raw, n.mt})
	switch {
	case errors.As(err, &moved):
		return "", moved
	case err != nil:
		return "", r.pushError(r.String(), err)
	}
	if err := r.confirm(ctx, n.digest()); err != nil {
		return "", err
	}
	return r.place() + "@" + n.digest(), nil
}

// refusedPrecondition reports whether a registry has refused a request for what the
// request says must be so; or for a tag that never changes, as Harbor does.
func refusedPrecondition(err error) bool {
	var te *transport.Error
	return errors.As(err, &te) && te.StatusCode == http.StatusPreconditionFailed
}

// confirm looks whether the name means what was put there, by the bytes: what a
// registry says of digests is not believed.
func (r *repository) confirm(ctx context.Context, digest string) error {
	var raw []byte
	err := r.settled(ctx, func() (err error) {
		raw, _, err = r.get(ctx, r.ref)
		return err
	})
	host := r.ref.Context().RegistryStr()
	switch {
	case missing(err):
		return fmt.Errorf("%s has taken the manifest %s and does not have it: run again, or ask whoever runs it", host, digest)
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return nil // who may push need not be one who may pull
	case digestOf(raw).String() != digest:
		return fmt.Errorf("%s was sent %s and has %s under that name: somebody else pushes there, or it changes what it takes", host, digest, digestOf(raw))
	}
	return nil
}

// now is what the name means at the moment. It is not known where it may not be
// looked at: a repository that is still to be made.
func (r *repository) now(ctx context.Context) (meaning, error) {
	d, err := r.puller.Head(ctx, r.ref)
	var te *transport.Error
	switch {
	case err == nil:
		return meaning{digest: d.Digest.String(), known: true}, nil
	case errors.As(err, &te) && te.StatusCode == http.StatusNotFound:
		return meaning{known: true}, nil
	case errors.As(err, &te) && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, te.StatusCode):
		return meaning{}, nil
	}
	raw, _, err := r.get(ctx, r.ref) // some registries do not answer HEAD as they should
	if err != nil {
		return meaning{}, err
	}
	return meaning{digest: digestOf(raw).String(), known: true}, nil
}

func (r *repository) same(src source) bool {
	from, ok := src.(*repository)
	return ok && from.place() == r.place()
}

func (r *repository) String() string { return written(r.ref.Name()) }

// taggable is a raw manifest for remote.Pusher.
type taggable struct {
	raw []byte
	mt  types.MediaType
}

func (t taggable) RawManifest() ([]byte, error)        { return t.raw, nil }
func (t taggable) MediaType() (types.MediaType, error) { return t.mt, nil }
