package patch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// repository is a repository of a registry, as a source and as a target.
type repository struct {
	*source.Repository
	ref    name.Reference // as it was given
	pusher *remote.Pusher
	sleep  func(context.Context, time.Duration) error
}

func newRepository(ref name.Reference, o Options) (*repository, error) {
	opts := []remote.Option{
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(&lookFirst{source.PushTransport(o.Insecure, o.sleep)}),
		remote.WithUserAgent("imgcheck"),
	}
	if o.backoff != nil {
		opts = append(opts, remote.WithRetryBackoff(*o.backoff))
	}
	pusher, err := remote.NewPusher(opts...)
	from := source.NewRepository(ref.Context(), source.Options{Insecure: o.Insecure, Sleep: o.sleep})
	r := &repository{from, ref, pusher, o.sleep}
	if r.sleep == nil {
		r.sleep = source.Sleep
	}
	return r, err
}

// openRepository returns the manifest or index that a reference names.
func openRepository(ctx context.Context, s string, o Options) (*repository, *source.Document, error) {
	ref, err := source.ParseReference(s, o.Insecure)
	if err != nil {
		return nil, nil, err
	}
	r, err := newRepository(ref, o)
	if err != nil {
		return nil, nil, err
	}
	doc, err := r.Get(ctx, ref)
	return r, doc, err
}

// pushError explains an error of a push. It returns a CopyError as it is, and keeps a
// cancelled context.
func (r *repository) pushError(what string, err error) error {
	var te *transport.Error
	var ce *CopyError
	var read *readError
	switch {
	case err == nil || errors.As(err, &ce):
		return err
	case errors.As(err, &read):
		err = fmt.Errorf("reading it: %w", read)
	case errors.As(err, &te) && te.StatusCode >= 400 && te.StatusCode < 500 && te.StatusCode != http.StatusTooManyRequests:
		err = &refusal{r.refused(te), te}
	default:
		err = source.RegistryError(r.ref, err)
	}
	return fmt.Errorf("pushing %s: %w", what, err)
}

// refusal is the error of a registry that refuses a push, in words that say what to do.
type refusal struct {
	text string
	te   *transport.Error
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.te }

// refused explains why a registry refuses a push. Its own words come first: a quota that
// is used up has the status of a missing login.
func (r *repository) refused(te *transport.Error) string {
	host, repo, words := r.ref.Context().RegistryStr(), r.ref.Context().RepositoryStr(), source.RegistryWords(te)
	login := fmt.Sprintf("run `docker login %s` as a user who may push to %s", host, repo)
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
		return source.RegistryError(r.ref, te).Error() // of where it redirects to
	}
	return fmt.Sprintf("%s refuses it (%d %s)%s: ask whoever runs it", host, te.StatusCode, http.StatusText(te.StatusCode), words)
}

// layer sends a new blob, and checks that the registry has it then: an image whose blob is
// missing cannot be pulled.
func (r *repository) layer(ctx context.Context, l v1.Layer) error {
	if err := r.pusher.Upload(ctx, r.ref.Context(), l); err != nil {
		return r.pushError("the new layer", err)
	}
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	err = r.settled(ctx, func() error { return r.Has(ctx, digest) })
	if err != nil && ctx.Err() == nil && !missing(err) {
		return nil // some registries do not answer that
	}
	if missing(err) {
		err = fmt.Errorf("%s has taken %s and does not have it: run again, or ask whoever runs it", r.ref.Context().RegistryStr(), digest)
	}
	return err
}

// looks limits how often settled looks for a blob or manifest that was just sent. Some
// registries need a while to see it.
const looks = 4

// settled calls ask until its result is not missing, at most looks times, with a longer
// wait each time.
func (r *repository) settled(ctx context.Context, ask func() error) error {
	for n := range looks {
		err := ask()
		if !missing(err) || n == looks-1 {
			return err
		}
		if err := r.sleep(ctx, time.Second<<n); err != nil {
			return err
		}
	}
	return nil
}

// missing reports whether an error is a registry's 404.
func missing(err error) bool {
	var te *transport.Error
	return errors.As(err, &te) && te.StatusCode == http.StatusNotFound
}

// base puts a layer of the base into the repository: it is there already, or is mounted
// from the repository of the same registry that has it, or is copied if the guard allows
// it.
func (r *repository) base(ctx context.Context, g *guarded) error {
	var l v1.Layer = g
	from, ok := g.src.(*repository)
	sameRegistry := ok && from.ref.Context().RegistryStr() == r.ref.Context().RegistryStr()
	if sameRegistry && from.Name() != r.Name() {
		l = &remote.MountableLayer{Layer: g, Reference: from.ref.Context().Digest(g.d.Digest.String())}
	}
	switch {
	case sameRegistry && from.Name() == r.Name():
		g.why = fmt.Sprintf("%s has lost it, though a manifest of %s names it", r.ref.Context().RegistryStr(), r.ref.Context().RepositoryStr())
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
	return r.Name() + "@" + n.digest(), nil
}

// refusedPrecondition reports whether a registry has refused a request because its
// If-Match does not hold, or, as Harbor does, because the tag must not change.
func refusedPrecondition(err error) bool {
	var te *transport.Error
	return errors.As(err, &te) && te.StatusCode == http.StatusPreconditionFailed
}

// confirm checks that the name means the manifest that was put, by its bytes: a registry's
// own digests are not trusted.
func (r *repository) confirm(ctx context.Context, digest string) error {
	var doc *source.Document
	err := r.settled(ctx, func() (err error) {
		doc, err = r.Get(ctx, r.ref)
		return err
	})
	host := r.ref.Context().RegistryStr()
	switch {
	case missing(err):
		return fmt.Errorf("%s has taken the manifest %s and does not have it: run again, or ask whoever runs it", host, digest)
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return nil // a user who may push need not be one who may pull
	case doc.Digest().String() != digest:
		return fmt.Errorf("%s was sent %s and has %s under that name: another client pushes there, or the registry changes manifests", host, digest, doc.Digest())
	}
	return nil
}

// now returns the digest that the name has now, "" for none. The digest is unknown if the
// registry does not let the user look it up.
func (r *repository) now(ctx context.Context) (meaning, error) {
	digest, err := r.Head(ctx, r.ref)
	var te *transport.Error
	switch {
	case err == nil:
		return meaning{digest: digest.String(), known: true}, nil
	case errors.As(err, &te) && te.StatusCode == http.StatusNotFound:
		return meaning{known: true}, nil
	case errors.As(err, &te) && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, te.StatusCode):
		return meaning{}, nil
	}
	doc, err := r.Get(ctx, r.ref) // some registries do not support HEAD
	if err != nil {
		return meaning{}, err
	}
	return meaning{digest: doc.Digest().String(), known: true}, nil
}

func (r *repository) same(src source.Store) bool {
	from, ok := src.(*repository)
	return ok && from.Name() == r.Name()
}

func (r *repository) String() string { return source.WrittenName(r.ref.Name()) }

// taggable is a raw manifest for remote.Pusher.
type taggable struct {
	raw []byte
	mt  types.MediaType
}

func (t taggable) RawManifest() ([]byte, error)        { return t.raw, nil }
func (t taggable) MediaType() (types.MediaType, error) { return t.mt, nil }
