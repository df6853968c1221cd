package patch

import (
	"bytes"
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
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// refName is the annotation of an entry of index.json with its tag (image-spec,
// annotations.md).
const refName = "org.opencontainers.image.ref.name"

// layout is an OCI layout in a directory, as a source and as a target
// (image-spec, image-layout.md).
type layout struct {
	dir, tag string
}

// openLayout gets what DIR[:TAG] names.
func openLayout(s string) (*layout, []byte, types.MediaType, error) {
	l := &layout{}
	l.dir, l.tag = layers.SplitTag(s)
	raw, err := l.read("index.json")
	if err != nil {
		return nil, nil, "", fmt.Errorf("is no OCI layout: %w", err)
	}
	list, err := entriesOf(raw)
	if err != nil {
		return nil, nil, "", err
	}
	i, err := l.find(list)
	if err == nil && i < 0 {
		err = fmt.Errorf("the layout has no image%s: it has %s", tagged(l.tag), tags(list))
	}
	if err != nil {
		return nil, nil, "", err
	}
	raw, mt, err := l.manifest(context.Background(), list[i].Digest)
	return l, raw, mt, err
}

func tagged(tag string) string {
	if tag == "" {
		return ""
	}
	return fmt.Sprintf(" with the tag %q", tag)
}

func tags(list []v1.Descriptor) string {
	var s []string
	for _, d := range list {
		if t := d.Annotations[refName]; t != "" {
			s = append(s, t)
		}
	}
	if len(s) == 0 {
		return "no tags"
	}
	slices.Sort(s)
	return strings.Join(slices.Compact(s), ", ")
}

// find is the entry with the tag, or the only one; -1 where there is none.
func (l *layout) find(list []v1.Descriptor) (int, error) {
	at := -1
	for i, d := range list {
		if l.tag != "" && d.Annotations[refName] != l.tag {
			continue
		}
		if at >= 0 {
			return 0, fmt.Errorf("the layout has several images%s: say which, as oci:%s:TAG, of %s", tagged(l.tag), l.dir, tags(list))
		}
		at = i
	}
	return at, nil
}

func entriesOf(raw []byte) ([]v1.Descriptor, error) {
	m, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("reading the index: %w", err)
	}
	return m.Manifests, nil
}

// read is a small file of the layout.
func (l *layout) read(name string) ([]byte, error) {
	f, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(b) > maxDocument {
		err = fmt.Errorf("%s is larger than the %d bytes that are read", name, maxDocument)
	}
	return b, err
}

// open opens a file of the layout; a link that leads out of it is refused.
func (l *layout) open(name string) (*os.File, error) {
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return nil, plain(err)
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // no waiting for a FIFO's writer
	if err != nil {
		return nil, plain(err)
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is no file", name)
	}
	return f, nil
}

// plain leaves the operation out of an error: the path and why are enough.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return err
}

func blobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func (l *layout) place() string { return "" }

func (l *layout) String() string {
	if l.tag == "" {
		return "oci:" + l.dir
	}
	return "oci:" + l.dir + ":" + l.tag
}

func (l *layout) manifest(_ context.Context, digest v1.Hash) ([]byte, types.MediaType, error) {
	raw, err := l.read(blobPath(digest))
	if err != nil {
		return nil, "", err
	}
	if got := digestOf(raw); got != digest {
		return nil, "", fmt.Errorf("the blob %s has the digest %s: the layout is damaged", digest, got)
	}
	mt, err := typeOf(raw)
	return raw, mt, err
}

// typeOf is the type of a manifest by what it says itself; one that says nothing
// is OCI's (image-spec, manifest.md, mediaType).
func typeOf(raw []byte) (types.MediaType, error) {
	s, err := text(raw, "mediaType")
	if err != nil {
		return "", err
	}
	if s != "" {
		return types.MediaType(s), nil
	}
	if _, depth, _, err := at(raw, []string{"manifests"}); err == nil && depth == 1 {
		return types.OCIImageIndex, nil
	}
	if _, depth, _, err := at(raw, []string{"fsLayers"}); err == nil && depth == 1 {
		return types.DockerManifestSchema1, nil
	}
	return types.OCIManifestSchema1, nil
}

func (l *layout) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	return l.open(blobPath(d.Digest))
}

func (l *layout) same(src source) bool {
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

// has reports whether a blob is there with its size.
func (l *layout) has(d v1.Descriptor) bool {
	st, err := os.Stat(filepath.Join(l.dir, blobPath(d.Digest)))
	return err == nil && st.Mode().IsRegular() && st.Size() == d.Size
}

// put writes a blob, under a temporary name until its digest is seen to be
// right.
func (l *layout) put(ctx context.Context, d v1.Descriptor, open func() (io.ReadCloser, error)) error {
	if l.has(d) {
		return nil
	}
	rc, err := open()
	if err != nil {
		return err
	}
	defer rc.Close()
	path := filepath.Join(l.dir, blobPath(d.Digest))
	if err := disk.mkdirAll(filepath.Dir(path)); err != nil {
		return plain(err)
	}
	return replaceFile(path, func(w io.Writer) error {
		_, err := io.Copy(w, &until{ctx, verified(rc, d)})
		return err
	})
}

// writeFile writes a file that a user names, whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	return plain(disk.writeNamed(path, write))
}

// replaceFile writes a file of a layout under a temporary name beside its own, and
// renames it when all is there. A link is replaced: a layout may be anybody's, and
// its links may lead anywhere.
func replaceFile(path string, write func(io.Writer) error) error {
	f, err := disk.createTemp(filepath.Dir(path), ".imgcheck-")
	if err != nil {
		return plain(err)
	}
	defer disk.remove(f.Name())
	err = write(f)
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
		err = disk.rename(f.Name(), path)
	}
	return plain(err)
}

// verified fails at the end of a content that is not what its descriptor says.
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

// ociTypes are what the types of Docker's layers are called in a layout: skopeo, Podman and
// umoci look for no others there.
var ociTypes = map[types.MediaType]types.MediaType{
	types.DockerLayer:             types.OCILayer,
	types.DockerUncompressedLayer: types.OCIUncompressedLayer,
	types.DockerForeignLayer:      types.OCIRestrictedLayer,
}

// asOCI is what is published of a base in Docker's format to a layout. The blobs
// are the same, the manifests that were patched are not: they have other types, and
// annotations. Other entries of an index stay as they are.
func (b *Base) asOCI(patched []*Patched) (*Base, []*Patched, error) {
	out, list := *b, make([]*Patched, len(patched))
	for i, p := range patched {
		var err error
		if list[i], err = p.asOCI(); err != nil {
			return nil, nil, fmt.Errorf("editing the manifest: %w", err)
		}
	}
	if out.indexType == types.DockerManifestList {
		index, err := ociIndex(b.index)
		if err != nil {
			return nil, nil, fmt.Errorf("editing the index: %w", err)
		}
		out.index, out.indexType = index, types.OCIImageIndex
	}
	return &out, list, nil
}

func (p *Patched) asOCI() (*Patched, error) {
	if annotated(p.Base.mt) {
		return p, nil
	}
	doc, err := ociManifest(p.Manifest)
	if err != nil {
		return nil, err
	}
	e := edits{doc: doc}
	says := p.Base.says()
	says[keyConfig] = digestOf(p.Config).String()
	for _, k := range slices.Sorted(maps.Keys(says)) {
		e.set(quote(says[k]), "annotations", k)
	}
	img, out := *p.Base, *p
	img.mt = types.OCIManifestSchema1
	out.Base, out.Manifest, out.Digest = &img, e.doc, digestOf(e.doc).String()
	return &out, e.err
}

// ociManifest is a manifest in Docker's format with OCI's types.
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

// ociIndex is a list in Docker's format as OCI's index; what it names stays as it is.
func ociIndex(doc []byte) ([]byte, error) {
	return set(doc, quote(string(types.OCIImageIndex)), "mediaType")
}

// asFound is an origin as a layout is to have it, which it came to from a registry:
// with OCI's types, as the patched image has them there.
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

// base makes a layer of the base be there. From one directory into another it is
// copied: both are on this machine.
func (l *layout) base(ctx context.Context, g *guarded) error {
	if _, local := g.src.(*layout); local {
		g.allow = true
	}
	g.why = fmt.Sprintf("%s does not have it", l)
	return l.put(ctx, g.d, g.Compressed)
}

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

// rename writes index.json with the new meaning of the name. The layout is locked.
func (l *layout) rename(n *naming) error {
	top, err := l.index()
	if err != nil {
		return err
	}
	list, err := entriesOf(top)
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
	case i >= 0: // another image's platform and annotations say nothing of this one
		if tag := list[i].Annotations[refName]; tag != "" {
			d.Annotations = map[string]string{refName: tag}
		}
		top, err = setElement(top, i, encode(d), "manifests")
	default:
		if l.tag != "" {
			d.Annotations = map[string]string{refName: l.tag}
		}
		top, err = add(top, encode(d), "manifests")
	}
	if err != nil {
		return err
	}
	return l.write("index.json", top)
}

// index is index.json; a directory that is no layout yet becomes one.
func (l *layout) index() ([]byte, error) {
	top, err := l.read("index.json")
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
	e.drop("data") // the old manifest's bytes, where a tool has put them
	if e.err != nil {
		return nil, e.err
	}
	return setElement(index, i, string(e.doc), "manifests")
}

func (l *layout) now(context.Context) (meaning, error) {
	raw, err := l.read("index.json")
	if errors.Is(err, fs.ErrNotExist) {
		return meaning{known: true}, nil
	}
	if err != nil {
		return meaning{}, err
	}
	list, err := entriesOf(raw)
	if err != nil {
		return meaning{}, err
	}
	i, err := l.find(list)
	if err != nil || i < 0 {
		return meaning{known: err == nil}, err
	}
	return meaning{digest: list[i].Digest.String(), known: true}, nil
}
