package patch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// layout is an OCI layout in a directory, as a source and as a target
// (image-spec, image-layout.md).
type layout struct {
	*source.Layout
	dir, tag string
}

// newLayout returns the layout DIR[:TAG], which need not exist.
func newLayout(s string) *layout {
	dir, tag := source.SplitTag(s)
	return &layout{source.NewLayout(dir), dir, tag}
}

// openLayout returns the manifest or index that DIR[:TAG] names.
func openLayout(ctx context.Context, s string) (*layout, *source.Document, error) {
	l := newLayout(s)
	list, err := l.Entries()
	if err != nil {
		return nil, nil, err
	}
	i, err := l.find(list)
	if err == nil && i < 0 {
		err = source.NoTag(list, l.tag)
	}
	if err != nil {
		return nil, nil, err
	}
	doc, err := l.Manifest(ctx, list[i].Digest)
	return l, doc, err
}

// find returns the entry with the tag, or the only one; -1 where there is none.
func (l *layout) find(list []v1.Descriptor) (int, error) {
	at := -1
	for i, d := range list {
		if l.tag != "" && d.Annotations[source.RefName] != l.tag {
			continue
		}
		if at >= 0 {
			with := ""
			if l.tag != "" {
				with = fmt.Sprintf(" with the tag %q", l.tag)
			}
			return 0, fmt.Errorf("the layout has several images%s: say which, as oci:%s:TAG, of %s", with, l.dir, source.Tags(list))
		}
		at = i
	}
	return at, nil
}

func (l *layout) String() string {
	if l.tag == "" {
		return "oci:" + l.dir
	}
	return "oci:" + l.dir + ":" + l.tag
}

func (l *layout) same(src source.Store) bool {
	from, ok := src.(*layout)
	if !ok {
		return false
	}
	a, err := os.Stat(from.dir)
	if err != nil {
		return false
	}
	b, err := os.Stat(l.dir)
	return err == nil && os.SameFile(a, b)
}

// has reports whether the layout has a blob, by its size.
func (l *layout) has(d v1.Descriptor) bool {
	st, err := os.Stat(filepath.Join(l.dir, source.BlobPath(d.Digest)))
	return err == nil && st.Mode().IsRegular() && st.Size() == d.Size
}

// put writes a blob that the layout does not have. It has a temporary name until its
// digest is verified.
func (l *layout) put(ctx context.Context, d v1.Descriptor, open func() (io.ReadCloser, error)) error {
	if l.has(d) {
		return nil
	}
	rc, err := open()
	if err != nil {
		return err
	}
	defer rc.Close()
	path := filepath.Join(l.dir, source.BlobPath(d.Digest))
	if err := disk.mkdirAll(filepath.Dir(path)); err != nil {
		return source.PathError(err)
	}
	return replaceFile(path, func(w io.Writer) error {
		_, err := io.Copy(w, &until{ctx, verified(rc, d)})
		return err
	})
}

// writeFile writes a file that a user has named, whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	return source.PathError(disk.writeNamed(path, write))
}

// replaceFile writes a file of a layout under a temporary name beside its own, and renames
// it at the end. It replaces a link rather than following it: links of a hostile layout
// may lead anywhere.
func replaceFile(path string, write func(io.Writer) error) error {
	return replaceFileAs(filepath.Dir(path), func(w io.Writer) (string, error) { return filepath.Base(path), write(w) })
}

// replaceFileAs does so for a file of a directory whose name is known once it is written.
func replaceFileAs(dir string, write func(io.Writer) (name string, err error)) error {
	f, err := disk.createTemp(dir, ".imgcheck-")
	if err != nil {
		return source.PathError(err)
	}
	defer disk.remove(f.Name())
	name, err := write(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = disk.rename(f.Name(), filepath.Join(dir, name))
	}
	return source.PathError(err)
}

// verified returns a reader that fails at its end if the content does not have the digest
// and size of its descriptor.
func verified(rc io.ReadCloser, d v1.Descriptor) io.ReadCloser {
	return &verifier{ReadCloser: rc, d: d, sum: sha256.New()}
}

type verifier struct {
	io.ReadCloser
	d   v1.Descriptor
	sum hash.Hash
	n   int64
}

func (v *verifier) Read(b []byte) (int, error) {
	n, err := v.ReadCloser.Read(b)
	v.sum.Write(b[:n])
	v.n += int64(n)
	if v.n > v.d.Size || err == io.EOF && (v.n != v.d.Size || sha(v.sum) != v.d.Digest) {
		return n, fmt.Errorf("the bytes of %s are not those that the manifest names: the image is damaged", v.d.Digest)
	}
	return n, err
}

// ociTypes maps the types of Docker's layers to OCI's. Skopeo, Podman and umoci accept no
// others in a layout.
var ociTypes = map[types.MediaType]types.MediaType{
	types.DockerLayer:             types.OCILayer,
	types.DockerUncompressedLayer: types.OCIUncompressedLayer,
	types.DockerForeignLayer:      types.OCIRestrictedLayer,
}

// asOCI returns a base in Docker's format, with its patched images, as they are published
// to a layout. The blobs are the same. The patched manifests get OCI's types, and
// annotations. Other entries of an index stay as they are.
func (b *Base) asOCI(patched []*Patched) (*Base, []*Patched, error) {
	out, list := *b, make([]*Patched, len(patched))
	for i, p := range patched {
		var err error
		if list[i], err = p.asOCI(); err != nil {
			return nil, nil, fmt.Errorf("editing the manifest: %w", err)
		}
	}
	if b.index != nil && b.index.MediaType == types.DockerManifestList {
		index, err := ociIndex(b.index.Raw)
		if err != nil {
			return nil, nil, fmt.Errorf("editing the index: %w", err)
		}
		out.index = &source.Document{Raw: index, MediaType: types.OCIImageIndex}
	}
	return &out, list, nil
}

func (p *Patched) asOCI() (*Patched, error) {
	if annotated(p.Base.MediaType) {
		return p, nil
	}
	doc, err := ociManifest(p.Manifest)
	if err != nil {
		return nil, err
	}
	e := edits{doc: doc}
	if !p.rewritten {
		says := p.Base.says()
		says[keyConfig] = digestOf(p.Config).String()
		for _, k := range slices.Sorted(maps.Keys(says)) {
			e.set(quote(says[k]), "annotations", k)
		}
	}
	found, img, out := *p.Base.Image, *p.Base, *p
	found.MediaType, img.Image = types.OCIManifestSchema1, &found
	out.Base, out.Manifest, out.Digest = &img, e.doc, digestOf(e.doc).String()
	return &out, e.err
}

// ociManifest returns a manifest in Docker's format with OCI's types.
func ociManifest(doc []byte) ([]byte, error) {
	list, err := array(doc, "layers")
	if err != nil {
		return nil, err
	}
	e := edits{doc: doc}
	e.set(quote(string(types.OCIManifestSchema1)), "mediaType")
	e.set(quote(string(types.OCIConfigJSON)), "config", "mediaType")
	for i, raw := range list {
		layer := edits{doc: raw}
		is, err := text(raw, "mediaType")
		if err != nil {
			return nil, err
		}
		if oci := ociTypes[types.MediaType(is)]; oci != "" {
			layer.set(quote(string(oci)), "mediaType")
		}
		if layer.err != nil {
			return nil, layer.err
		}
		e.do(func(doc []byte) ([]byte, error) { return setElement(doc, i, string(layer.doc), "layers") })
	}
	return e.doc, e.err
}

// ociIndex returns a list in Docker's format as OCI's index. Its manifests stay as they
// are.
func ociIndex(doc []byte) ([]byte, error) {
	return set(doc, quote(string(types.OCIImageIndex)), "mediaType")
}

// asFound returns an origin in the form for a layout: with OCI's types, as the patched
// image has them there.
func asFound(raw []byte, mt types.MediaType) ([]byte, types.MediaType, error) {
	var err error
	switch mt {
	case types.DockerManifestSchema2:
		raw, err = ociManifest(raw)
		mt = types.OCIManifestSchema1
	case types.DockerManifestList:
		raw, err = ociIndex(raw)
		mt = types.OCIImageIndex
	}
	return raw, mt, err
}

func (l *layout) layer(ctx context.Context, layer v1.Layer) error {
	d, err := describe(layer)
	if err != nil {
		return err
	}
	return l.put(ctx, d, layer.Compressed)
}

func describe(l v1.Layer) (d v1.Descriptor, err error) {
	if d.Digest, err = l.Digest(); err == nil {
		d.Size, err = l.Size()
	}
	return d, err
}

// base puts a layer of the base into the layout. A copy from another layout needs no
// consent of the user, since both are on this machine.
func (l *layout) base(ctx context.Context, g *guarded) error {
	if isLocal(g.src) {
		g.allow = true
	}
	g.why = fmt.Sprintf("%s does not have it", l)
	return l.put(ctx, g.d, g.Compressed)
}

// isLocal reports whether a store is on this machine.
func isLocal(s source.Store) bool { return s.Name() == "" }

func (l *layout) putManifest(ctx context.Context, raw []byte, _ types.MediaType) error {
	d := v1.Descriptor{Digest: digestOf(raw), Size: int64(len(raw))}
	return l.put(ctx, d, opened(raw))
}

const emptyIndex = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`

func (l *layout) putName(ctx context.Context, n *naming) (string, error) {
	if err := l.putManifest(ctx, n.raw, n.mt); err != nil {
		return "", err
	}
	if err := l.locked(ctx, func() error { return l.rename(n) }); err != nil {
		return "", err
	}
	return l.String() + "@" + n.digest(), nil
}

// rename writes index.json with the new meaning of the name. The caller holds the lock.
func (l *layout) rename(n *naming) error {
	top, err := l.made()
	if err != nil {
		return err
	}
	list, err := entriesOf(&source.Document{Raw: top})
	if err != nil {
		return err
	}
	i, err := l.find(list)
	if err != nil {
		return err
	}
	now := meaning{known: true}
	if i >= 0 {
		now.digest = list[i].Digest.String()
	}
	if err := n.moved(now); err != nil {
		return err
	}
	d := descriptor(n.mt, digestOf(n.raw), int64(len(n.raw)))
	switch {
	case i >= 0 && now.digest == n.of:
		top, err = editEntry(top, i, d)
	case i >= 0: // platform and annotations are those of another image
		if tag := list[i].Annotations[source.RefName]; tag != "" {
			d.Annotations = map[string]string{source.RefName: tag}
		}
		top, err = setElement(top, i, encode(d), "manifests")
	default:
		if l.tag != "" {
			d.Annotations = map[string]string{source.RefName: l.tag}
		}
		top, err = add(top, encode(d), "manifests")
	}
	if err != nil {
		return err
	}
	return l.write("index.json", top)
}

// made returns index.json. A directory that is no layout yet becomes one.
func (l *layout) made() ([]byte, error) {
	top, err := l.Index()
	if errors.Is(err, fs.ErrNotExist) {
		return []byte(emptyIndex), l.write("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	}
	return top, err
}

// write writes a small file of the layout.
func (l *layout) write(name string, content []byte) error {
	return replaceFile(filepath.Join(l.dir, name), func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// editEntry points entry i of an index at another manifest, of the same
// platform.
func editEntry(index []byte, i int, d desc) ([]byte, error) {
	list, err := array(index, "manifests")
	if err != nil {
		return nil, err
	}
	e := edits{doc: list[i]}
	e.set(quote(string(d.MediaType)), "mediaType")
	e.set(quote(d.Digest), "digest")
	e.set(fmt.Sprint(d.Size), "size")
	e.drop("data") // the old manifest's bytes
	if e.err != nil {
		return nil, e.err
	}
	return setElement(index, i, string(e.doc), "manifests")
}

func (l *layout) now(context.Context) (meaning, error) {
	list, err := l.Entries()
	if errors.Is(err, fs.ErrNotExist) {
		return meaning{known: true}, nil
	}
	if err != nil {
		return meaning{}, err
	}
	i, err := l.find(list)
	if err != nil || i < 0 {
		return meaning{known: err == nil}, err
	}
	return meaning{digest: list[i].Digest.String(), known: true}, nil
}
