package indexes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/signature"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Reader takes indexes from a place, and notes which it has taken and refused. Any number of
// goroutines may use it.
type Reader struct {
	place   Place
	keys    *signature.Keys // of which one must have signed an artifact; nil for any artifact
	compare bool
	options source.Options
	repo    *source.Repository // of the place; nil for referrers

	mu      sync.Mutex
	lists   map[string]func() []artifact // of referrers, by repository and image
	broken  bool                         // the place's repository cannot be asked
	used    map[string]map[int]bool      // layers, by image
	origins map[string]string            // by image
	of      map[string]int               // how many layers an image has
	lines   map[string]bool
	wrong   int // indexes that are not their layer's
}

// artifact is a manifest of indexes that was fetched.
type artifact struct {
	at     string
	digest v1.Hash
	signed func() error // why its signature does not let it be used; nil if any artifact is used
	v1.Manifest
}

// NewReader returns a reader of a place. Unless keys is nil, only artifacts are used that one of
// the keys has signed. With compare all layers are read, and compared with their indexes.
func NewReader(p Place, keys *signature.Keys, compare bool, o source.Options) *Reader {
	r := &Reader{
		place: p, keys: keys, compare: compare, options: o,
		lists: map[string]func() []artifact{}, used: map[string]map[int]bool{}, origins: map[string]string{}, of: map[string]int{}, lines: map[string]bool{},
	}
	if p.repo != nil {
		r.repo = source.NewRepository(*p.repo, o)
	}
	return r
}

// Indexes returns the option by which images are read with the indexes of the place.
func (r *Reader) Indexes() *layers.Indexes {
	x := &layers.Indexes{Origin: r.origin, Layer: r.layer, Used: r.uses}
	if r.compare {
		x.Compared = r.compared
	}
	return x
}

// origin names those who are believed for an image: a place, and the keys. Indexes that were
// taken without a key are others.
func (r *Reader) origin(img *source.Image) string {
	at := r.place.origin(img)
	if at == "" || r.keys == nil {
		return at
	}
	return at + ", signed by " + r.keys.ID()
}

// layer returns the index of a layer, or nil.
func (r *Reader) layer(ctx context.Context, q layers.IndexRequest) *layers.Layer {
	store, list := r.artifacts(ctx, q)
	var older, unsigned error
	olderAt, unsignedAt := "", ""
	for _, a := range list {
		d, ok := a.blob(q.Digest, q.Reader)
		if !ok && r.repo == nil {
			continue // a referrer without this layer
		}
		l, err := r.use(ctx, store, a, d, q)
		switch {
		case err == nil:
			return l
		case ctx.Err() != nil:
			return nil
		case errors.As(err, new(olderError)):
			older, olderAt = err, a.at
		case errors.As(err, new(unsignedError)):
			unsigned, unsignedAt = err, r.signedAt(a)
		default:
			r.refuse(q, a.at, err)
		}
	}
	// One line of these stands for all layers.
	if older != nil {
		r.says(q.Image, fmt.Sprintf("the indexes at %s are refused", olderAt), older)
	}
	if unsigned != nil {
		r.says(q.Image, fmt.Sprintf("the indexes at %s are refused, and the layers read", unsignedAt), unsigned)
	}
	return nil
}

// use returns the index of a blob of an artifact, or why it is refused.
func (r *Reader) use(ctx context.Context, store source.Store, a artifact, d v1.Descriptor, q layers.IndexRequest) (*layers.Layer, error) {
	if err := refused(d, q.Image.Layers[q.Layer], q.Digest, q.Reader); err != nil {
		return nil, err
	}
	if a.signed != nil {
		if err := a.signed(); err != nil {
			return nil, unsignedError{err}
		}
	}
	return decode(ctx, store, d, q)
}

// unsignedError is the error of an artifact without a signature that was asked for.
type unsignedError struct{ error }

// signedAt names an artifact whose signature was checked: by its repository if there is one for each
// layer, so that one line stands for all.
func (r *Reader) signedAt(a artifact) string {
	if r.repo != nil {
		return r.place.String()
	}
	return a.at
}

// blob returns the blob of an artifact for a layer: that of a reader if there is one.
func (a *artifact) blob(digest, reader string) (d v1.Descriptor, ok bool) {
	for _, one := range a.Layers {
		if one.Annotations[layerKey] == digest && (!ok || one.Annotations[readerKey] == reader) {
			d, ok = one, true
		}
	}
	if !ok && len(a.Layers) > 0 {
		d = a.Layers[0]
	}
	return d, ok
}

// decode reads the index of a blob. Its digest is verified before the index is returned.
func decode(ctx context.Context, store source.Store, d v1.Descriptor, q layers.IndexRequest) (*layers.Layer, error) {
	rc, err := store.Blob(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	sum := sha256.New()
	blob := &input{r: io.TeeReader(io.LimitReader(rc, d.Size+1), sum)}
	l, err := q.Decode(blob)
	io.Copy(io.Discard, blob)
	switch got := fmt.Sprintf("sha256:%x", sum.Sum(nil)); {
	case blob.err != nil:
		return nil, blob.err
	case got != d.Digest.String():
		return nil, fmt.Errorf("its bytes have the digest %s, not %s", got, d.Digest)
	case err != nil:
		return nil, fmt.Errorf("it %w", err)
	}
	return l, nil
}

// input keeps the error of a stream apart from those of what it encodes.
type input struct {
	r   io.Reader
	err error
}

func (s *input) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// artifacts returns the artifacts that may have the index of a layer, and the repository that
// has them.
func (r *Reader) artifacts(ctx context.Context, q layers.IndexRequest) (source.Store, []artifact) {
	if r.repo != nil {
		return r.repo, r.tagged(ctx, q)
	}
	repo, ok := q.Image.Store.(*source.Repository)
	if !ok {
		return nil, nil
	}
	key := repo.Name() + "@" + q.Image.Digest
	r.mu.Lock()
	list := r.lists[key]
	if list == nil {
		list = sync.OnceValue(func() []artifact {
			list, err := referrers(ctx, repo, q.Image, q.Reader, func(at string, err error) { r.says(q.Image, at, err) })
			if err != nil && ctx.Err() == nil {
				r.says(q.Image, "", err)
			}
			for i := range list {
				r.asksForSignature(ctx, repo, &list[i])
			}
			return list
		})
		r.lists[key] = list
	}
	r.mu.Unlock()
	return repo, list()
}

// tagged returns the artifact of a layer in the repository of indexes.
func (r *Reader) tagged(ctx context.Context, q layers.IndexRequest) []artifact {
	r.mu.Lock()
	broken := r.broken
	r.mu.Unlock()
	if broken {
		return nil
	}
	at := r.place.repo.Tag(tag(q.Digest, q.Reader))
	d, err := r.repo.Get(ctx, at)
	switch {
	case errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil:
		return nil
	case err != nil:
		r.mu.Lock()
		r.broken = true // it is not waited for once more for each layer
		r.mu.Unlock()
		r.says(q.Image, "", err)
		return nil
	}
	a, err := parseArtifact(d, source.WrittenName(at.Name()))
	if err != nil {
		r.refuse(q, source.WrittenName(at.Name()), err)
		return nil
	}
	r.asksForSignature(ctx, r.repo, a)
	return []artifact{*a}
}

// asksForSignature lets an artifact be used only if one of the keys has signed it. The registry is
// asked once for an artifact, when an index of it would be used.
func (r *Reader) asksForSignature(ctx context.Context, repo *source.Repository, a *artifact) {
	if r.keys != nil {
		a.signed = sync.OnceValue(func() error { return r.keys.Check(ctx, repo, a.digest) })
	}
}

// referrers returns the artifacts of indexes that refer to an image, first those of a reader. refuse is called with those
// that claim to be one and are not.
func referrers(ctx context.Context, repo *source.Repository, img *source.Image, reader string, refuse func(at string, err error)) ([]artifact, error) {
	subject, err := v1.NewHash(img.Digest)
	if err != nil {
		return nil, err
	}
	list, err := repo.Referrers(ctx, subject)
	if err != nil {
		return nil, err
	}
	// Registries without support for artifact types give the config's.
	list = slices.DeleteFunc(list, func(d v1.Descriptor) bool {
		return d.ArtifactType != ArtifactType && d.ArtifactType != "" && d.ArtifactType != string(source.EmptyConfig)
	})
	slices.SortStableFunc(list, func(a, b v1.Descriptor) int { return rank(a, reader) - rank(b, reader) })
	if len(list) > maxArtifacts {
		list = list[:maxArtifacts]
	}
	var out []artifact
	for _, d := range list {
		at := repo.Name() + "@" + d.Digest.String()
		doc, err := repo.Manifest(ctx, d.Digest)
		if err != nil {
			refuse(at, err)
			continue
		}
		a, err := parseArtifact(doc, at)
		switch {
		case err == nil && (a.Subject == nil || a.Subject.Digest != subject):
			err = errors.New("it refers to another image")
		case err == nil:
			out = append(out, *a)
		}
		if err != nil && d.ArtifactType == ArtifactType {
			refuse(at, err)
		}
	}
	return out, nil
}

// rank orders referrers by what the list says of them: those of a reader are first, then other indexes. An
// image may have one of each release of imgcheck, and each costs a request.
func rank(d v1.Descriptor, reader string) int {
	switch has := d.Annotations[readerKey]; {
	case has == reader:
		return 0
	case has != "":
		return 3
	case d.ArtifactType == ArtifactType:
		return 1
	}
	return 2
}

// parseArtifact parses the manifest of an artifact of indexes.
func parseArtifact(d *source.Document, at string) (*artifact, error) {
	m, err := v1.ParseManifest(bytes.NewReader(d.Raw))
	if err != nil {
		return nil, errors.New("it is no manifest")
	}
	if m.ArtifactType != ArtifactType {
		return nil, fmt.Errorf("its type is %q", plain.Name(m.ArtifactType))
	}
	digest, _, err := v1.SHA256(bytes.NewReader(d.Raw))
	if err != nil {
		return nil, err
	}
	return &artifact{at: at, digest: digest, Manifest: *m}, nil
}

// refuse notes that an index is not used.
func (r *Reader) refuse(q layers.IndexRequest, at string, err error) {
	r.says(q.Image, fmt.Sprintf("layer %d is read: its index at %s is refused", q.Layer+1, at), err)
}

// says notes a line about the indexes of an image.
func (r *Reader) says(img *source.Image, what string, err error) {
	if what == "" {
		what = "without indexes of " + r.origin(img)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[fmt.Sprintf("%s: %s: %v", img.Ref, what, err)] = true
}

// uses notes that an index stands for a layer, or for all if layer is -1.
func (r *Reader) uses(img *source.Image, layer int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used[img.Ref] == nil {
		r.used[img.Ref] = map[int]bool{}
		r.origins[img.Ref], r.of[img.Ref] = r.origin(img), len(img.Layers)
	}
	r.used[img.Ref][layer] = true
}

// compared notes whether an index is its layer's.
func (r *Reader) compared(img *source.Image, layer int, same bool) {
	if same {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines[fmt.Sprintf("%s: layer %d: its index of %s is right", img.Ref, layer+1, r.origin(img))] = true
		return
	}
	r.says(img, fmt.Sprintf("layer %d", layer+1), fmt.Errorf("its index of %s is not the layer's", r.origin(img)))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong++
}

// Lines returns the notes since the last call, one a line, sorted: which indexes were used,
// and which were not and why.
func (r *Reader) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for ref, layers := range r.used {
		n, of := len(layers), r.of[ref]
		text := fmt.Sprintf("%d of %d layers were not read: their indexes are those of %s", n, of, r.origins[ref])
		if layers[-1] {
			text = "the report was made with indexes of " + r.origins[ref] + " and kept"
		}
		list = append(list, ref+": "+text)
	}
	for line := range r.lines {
		list = append(list, line)
	}
	clear(r.used)
	clear(r.lines)
	slices.SortFunc(list, strings.Compare)
	return list
}

// Err returns an error if indexes were compared with their layers and differ.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.wrong {
	case 0:
		return nil
	case 1:
		return errors.New("an index is not that of its layer (--verify-index): the report is that of the layers")
	}
	return fmt.Errorf("%d indexes are not those of their layers (--verify-index): the report is that of the layers", r.wrong)
}
