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
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Reader takes indexes from a place, and notes which it has taken and refused. Any number of
// goroutines may use it.
type Reader struct {
	place   Place
	compare bool
	options source.Options
	repo    *source.Repository // of the place; nil for referrers

	mu     sync.Mutex
	lists  map[string]func() []artifact // of referrers, by repository and image
	broken bool                         // the place's repository cannot be asked
	used   map[string]map[int]bool      // layers, by image
	origin map[string]string            // by image
	of     map[string]int               // how many layers an image has
	lines  map[string]bool
	wrong  int // indexes that are not their layer's
}

// artifact is a manifest of indexes that was fetched.
type artifact struct {
	at string
	v1.Manifest
}

// NewReader returns a reader of a place. With compare all layers are read, and compared with
// their indexes.
func NewReader(p Place, compare bool, o source.Options) *Reader {
	r := &Reader{
		place: p, compare: compare, options: o,
		lists: map[string]func() []artifact{}, used: map[string]map[int]bool{}, origin: map[string]string{}, of: map[string]int{}, lines: map[string]bool{},
	}
	if p.repo != nil {
		r.repo = source.NewRepository(*p.repo, o)
	}
	return r
}

// Indexes returns the option by which images are read with the indexes of the place.
func (r *Reader) Indexes() *layers.Indexes {
	x := &layers.Indexes{Origin: r.place.origin, Layer: r.layer, Used: r.uses}
	if r.compare {
		x.Compared = r.compared
	}
	return x
}

// layer returns the index of a layer, or nil.
func (r *Reader) layer(ctx context.Context, q layers.IndexRequest) *layers.Layer {
	store, list := r.artifacts(ctx, q)
	var older error
	olderAt := ""
	for _, a := range list {
		d, ok := a.blob(q.Digest, q.Reader)
		if !ok && r.repo == nil {
			continue // a referrer without this layer
		}
		err := refused(d, q.Image.Layers[q.Layer], q.Digest, q.Reader)
		var l *layers.Layer
		if err == nil {
			l, err = decode(ctx, store, d, q)
		}
		switch {
		case err == nil:
			return l
		case ctx.Err() != nil:
			return nil
		case errors.As(err, new(olderError)):
			older, olderAt = err, a.at
		default:
			r.refuse(q, a.at, err)
		}
	}
	if older != nil {
		r.says(q.Image, fmt.Sprintf("the indexes at %s are refused", olderAt), older)
	}
	return nil
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
			list, err := referrers(ctx, repo, q.Image, func(at string, err error) { r.says(q.Image, at, err) })
			if err != nil && ctx.Err() == nil {
				r.says(q.Image, "", err)
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
	return []artifact{*a}
}

// referrers returns the artifacts of indexes that refer to an image. refuse is called with those
// that claim to be one and are not.
func referrers(ctx context.Context, repo *source.Repository, img *source.Image, refuse func(at string, err error)) ([]artifact, error) {
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
	slices.SortStableFunc(list, func(a, b v1.Descriptor) int { return rank(a) - rank(b) })
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

// rank orders referrers: those that say to be indexes are first.
func rank(d v1.Descriptor) int {
	if d.ArtifactType == ArtifactType {
		return 0
	}
	return 1
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
	return &artifact{at, *m}, nil
}

// refuse notes that an index is not used.
func (r *Reader) refuse(q layers.IndexRequest, at string, err error) {
	r.says(q.Image, fmt.Sprintf("layer %d is read: its index at %s is refused", q.Layer+1, at), err)
}

// says notes a line about the indexes of an image.
func (r *Reader) says(img *source.Image, what string, err error) {
	if what == "" {
		what = "without indexes of " + r.place.origin(img)
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
		r.origin[img.Ref], r.of[img.Ref] = r.place.origin(img), len(img.Layers)
	}
	r.used[img.Ref][layer] = true
}

// compared notes whether an index is its layer's.
func (r *Reader) compared(img *source.Image, layer int, same bool) {
	if same {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines[fmt.Sprintf("%s: layer %d: its index of %s is right", img.Ref, layer+1, r.place.origin(img))] = true
		return
	}
	r.says(img, fmt.Sprintf("layer %d", layer+1), fmt.Errorf("its index of %s is not the layer's", r.place.origin(img)))
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
		text := fmt.Sprintf("%d of %d layers were not read: their indexes are those of %s", n, of, r.origin[ref])
		if layers[-1] {
			text = "the report was made with indexes of " + r.origin[ref] + " and kept"
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
