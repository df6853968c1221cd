package layers

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxArchiveNames bounds the names of an archive that is read as a stream, in bytes:
// each entry counts. A variable, so that tests can reach it.
var maxArchiveNames = int64(64 << 20)

// Bounds of an archive that is read as a stream, which may have no end: all of it,
// and what of it is no layer, in bytes. Variables, so that tests can reach them.
var (
	maxStream = int64(1 << 40)
	maxBeside = int64(1 << 30)
)

// maxJSON bounds manifests and configs, in bytes; registries take 4 MiB.
const maxJSON = 32 << 20

// store is a set of named blobs: a directory, or a tar that can be sought in.
type store interface {
	open(name string) (io.ReadCloser, int64, error)
}

// readSmall is the whole of a blob that is JSON.
func readSmall(s store, name string) ([]byte, error) {
	rc, size, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	if size > maxJSON {
		return nil, fmt.Errorf("%s is %d bytes long, more than the %d that are read", name, size, maxJSON)
	}
	b, err := io.ReadAll(io.LimitReader(rc, maxJSON))
	if err == nil {
		err = checkElements(b)
	}
	return b, err
}

// absentError says that a store has no file of a name. It keeps no path of ours.
type absentError struct{ name string }

func (e *absentError) Error() string {
	return printable(e.name) + " is not in it: the archive is damaged"
}
func (e *absentError) Is(target error) bool { return target == fs.ErrNotExist }

// dirStore is a directory; names that lead out of it are refused.
type dirStore struct{ root *os.Root }

func (d dirStore) open(name string) (io.ReadCloser, int64, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // no waiting for a FIFO's writer
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, &absentError{name}
	}
	if err != nil {
		return nil, 0, plainPathError(err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// tarStore is an uncompressed tar: where each file lies in it.
type tarStore struct {
	f     *os.File
	files map[string]extent
	links map[string]string
}

type extent struct{ off, size int64 }

// newTarStore lists a tar. archive/tar reads headers only and seeks over the
// rest, and never reads ahead, so the file's position is where a body begins.
func newTarStore(f *os.File) (*tarStore, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s := &tarStore{f: f, files: map[string]extent{}, links: map[string]string{}}
	tr := tar.NewReader(f)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return nil, badTar(err)
		}
		if len(s.files)+len(s.links) > 1<<20 {
			return nil, errors.New("reading tar: too many entries for an image archive")
		}
		name := clean(h.Name)
		delete(s.links, name) // the last of a name counts
		switch h.Typeflag {
		case tar.TypeReg:
			off, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			if off > st.Size()-h.Size { // archive/tar seeks over it and does not see
				return nil, fmt.Errorf("ends in the middle of %s: the archive is cut off", printable(h.Name))
			}
			s.files[name] = extent{off, h.Size}
		case tar.TypeSymlink:
			s.links[name] = clean(path.Join(path.Dir(name), h.Linkname))
		case tar.TypeLink:
			s.links[name] = clean(h.Linkname)
		}
	}
}

// badTar explains why a file cannot be read as an archive.
func badTar(err error) error {
	switch {
	case errors.Is(err, tar.ErrHeader):
		return errors.New("is no tar archive")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("ends too early: the archive is cut off")
	}
	return fmt.Errorf("reading tar: %w", err)
}

func (s *tarStore) open(name string) (io.ReadCloser, int64, error) {
	name = followLinks(s.links, name)
	e, ok := s.files[name]
	if !ok {
		return nil, 0, &absentError{name}
	}
	return io.NopCloser(io.NewSectionReader(s.f, e.off, e.size)), e.size, nil
}

// followLinks resolves the links of an archive: skopeo writes
// <id>/layer.tar -> ../<digest>.tar.
func followLinks(links map[string]string, name string) string {
	name = clean(name)
	for range maxLinks {
		to, ok := links[name]
		if !ok {
			break
		}
		name = to
	}
	return name
}

// openLayout opens oci:DIR[:TAG].
func (img *Image) openLayout(_ context.Context, s string) error {
	dir, tag := splitTag(s)
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return errors.New("is a file, not an OCI layout: say oci-archive:FILE or docker-archive:FILE")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return plainPathError(err)
	}
	img.close = root.Close
	return img.setLayout(dirStore{root}, tag, "oci:"+dir)
}

// openArchive opens oci-archive:FILE[:TAG].
func (img *Image) openArchive(_ context.Context, s string) error {
	file, tag := splitTag(s)
	f, err := openArchive(file)
	if err != nil {
		return err
	}
	img.close = f.Close
	if !seekable(f) {
		return errors.New("is compressed as a whole, or no file: decompress it into one first (gzip -d, zstd -d)")
	}
	st, err := newTarStore(f)
	if err != nil {
		return err
	}
	return img.setLayout(st, tag, "oci-archive:"+file)
}

// plainPathError leaves the operation out: the path and why are enough.
func plainPathError(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return err
}

// openArchive opens a file, or what is like one.
func openArchive(file string) (*os.File, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, plainPathError(err)
	}
	if st.IsDir() {
		return nil, errors.New("is a directory: say oci: for an OCI layout, dir: for a root file system")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, plainPathError(err)
	}
	return f, nil
}

// seekable reports whether an archive can be read at any place: it is a file,
// and does not begin like gzip or zstd.
func seekable(f *os.File) bool {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	b := make([]byte, 4)
	n, _ := f.ReadAt(b, 0)
	return !bytes.HasPrefix(b[:n], magicGzip) && !bytes.HasPrefix(b[:n], magicZstd)
}

const refName = "org.opencontainers.image.ref.name"

// setLayout finds the image in an OCI layout: the one with the tag, or the only
// one (image-spec, image-layout.md).
func (img *Image) setLayout(s store, tag, where string) error {
	raw, err := readSmall(s, "index.json")
	if errors.Is(err, fs.ErrNotExist) {
		if rc, _, err := s.open("manifest.json"); err == nil {
			rc.Close()
			return errors.New("is a docker archive: say docker-archive:FILE")
		}
		return errors.New("is no OCI layout: it has no index.json")
	}
	if err != nil {
		return fmt.Errorf("index.json: %w", err)
	}
	top, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("index.json: %w", err)
	}
	list := platforms(top)
	if tag != "" {
		list = slices.DeleteFunc(list, func(d v1.Descriptor) bool { return d.Annotations[refName] != tag && d.Digest.String() != tag })
	}
	if len(list) == 0 {
		return fmt.Errorf("the layout has no image%s: it has %s", tagged(tag), tagList(top))
	}
	if tags := distinct(top); tag == "" && len(tags) > 1 {
		return fmt.Errorf("the layout has several images: say which, as %s:TAG, of %s", where, tagList(top))
	}
	top.Manifests = list
	v, err := img.choose(&layoutIndex{s, top, raw})
	if err != nil {
		return err
	}
	return img.setV1(v)
}

func tagged(tag string) string {
	if tag == "" {
		return ""
	}
	return fmt.Sprintf(" with the tag %q", tag)
}

func distinct(m *v1.IndexManifest) []string {
	var tags []string
	for _, d := range platforms(m) {
		if t := d.Annotations[refName]; t != "" {
			tags = append(tags, printable(t))
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

func tagList(m *v1.IndexManifest) string {
	if tags := distinct(m); len(tags) > 0 {
		return strings.Join(tags, ", ")
	}
	return "no tags"
}

// layoutIndex is an index in a store, as a [v1.ImageIndex].
type layoutIndex struct {
	s   store
	m   *v1.IndexManifest
	raw []byte
}

func (x *layoutIndex) IndexManifest() (*v1.IndexManifest, error) { return x.m, nil }
func (x *layoutIndex) RawManifest() ([]byte, error)              { return x.raw, nil }
func (x *layoutIndex) MediaType() (types.MediaType, error)       { return types.OCIImageIndex, nil }
func (x *layoutIndex) Digest() (v1.Hash, error)                  { return partial.Digest(x) }
func (x *layoutIndex) Size() (int64, error)                      { return partial.Size(x) }

func (x *layoutIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	raw, err := readBlobJSON(x.s, h)
	if err != nil {
		return nil, err
	}
	m, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return &layoutIndex{x.s, m, raw}, nil
}

func (x *layoutIndex) Image(h v1.Hash) (v1.Image, error) {
	raw, err := readBlobJSON(x.s, h)
	if err != nil {
		return nil, err
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&layoutImage{x.s, m, raw})
}

// layoutImage is an image in a store, as what partial asks for.
type layoutImage struct {
	s   store
	m   *v1.Manifest
	raw []byte
}

func (i *layoutImage) RawManifest() ([]byte, error)        { return i.raw, nil }
func (i *layoutImage) MediaType() (types.MediaType, error) { return i.m.MediaType, nil }
func (i *layoutImage) RawConfigFile() ([]byte, error)      { return readBlobJSON(i.s, i.m.Config.Digest) }

func (i *layoutImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, d := range i.m.Layers {
		if d.Digest == h {
			return &layoutLayer{i.s, d}, nil
		}
	}
	return nil, fmt.Errorf("the manifest has no layer %s", h)
}

type layoutLayer struct {
	s store
	d v1.Descriptor
}

func (l *layoutLayer) Digest() (v1.Hash, error)            { return l.d.Digest, nil }
func (l *layoutLayer) Size() (int64, error)                { return l.d.Size, nil }
func (l *layoutLayer) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }
func (l *layoutLayer) Compressed() (io.ReadCloser, error) {
	rc, size, err := l.s.open(blobPath(l.d.Digest))
	if err != nil {
		return nil, blobError(l.d.Digest, err)
	}
	if size != l.d.Size {
		rc.Close()
		return nil, fmt.Errorf("the blob %s has %d bytes, not %d: the image is damaged", l.d.Digest, size, l.d.Size)
	}
	return rc, nil
}

func blobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func blobError(h v1.Hash, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the blob %s is not in it: the image is damaged, or was saved without it", h)
	}
	return err
}

// readBlobJSON reads a manifest or config and checks its digest.
func readBlobJSON(s store, h v1.Hash) ([]byte, error) {
	b, err := readSmall(s, blobPath(h))
	if err != nil {
		return nil, blobError(h, err)
	}
	if got, _, err := v1.SHA256(bytes.NewReader(b)); err != nil || got != h {
		return nil, fmt.Errorf("the blob %s has the digest %s: the image is damaged", h, got)
	}
	return b, nil
}

// dockerManifest is one image of a docker archive's manifest.json.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

var errNoManifest = errors.New("is no docker archive: it has no manifest.json (docker save writes one, docker export does not)")

// openDockerArchive opens docker-archive:FILE[:REF]. A plain tar is sought in,
// so that its layers are read side by side; a compressed one is one stream.
func (img *Image) openDockerArchive(_ context.Context, s string) error {
	file, tag := splitTag(s)
	f, err := openArchive(file)
	if err != nil {
		return err
	}
	img.close = f.Close
	if !seekable(f) {
		img.stream = func(ctx context.Context, img *Image) ([]*Layer, error) {
			defer context.AfterFunc(ctx, func() { f.Close() })() // a pipe may be silent
			plain, done, err := new(tools).decompress(bufio.NewReaderSize(img.meter(f, 0), 256<<10), nil)
			if err != nil {
				return nil, err
			}
			defer done()
			return img.indexStream(ctx, plain, tag)
		}
		return nil
	}
	st, err := newTarStore(f)
	if err != nil {
		return err
	}
	return img.setDockerArchive(st, tag)
}

func (img *Image) setDockerArchive(s *tarStore, tag string) error {
	raw, err := readSmall(s, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		if _, ok := s.files["index.json"]; ok {
			return errors.New("is an OCI archive: say oci-archive:FILE")
		}
		return errNoManifest
	}
	if err != nil {
		return err
	}
	m, err := chooseDocker(raw, tag)
	if err != nil {
		return err
	}
	cfg, err := readSmall(s, m.Config)
	if err != nil {
		return fmt.Errorf("the config: %w", err)
	}
	if err := img.setDockerConfig(m, cfg); err != nil {
		return err
	}
	for i, name := range m.Layers {
		_, size, err := s.open(name)
		if err != nil {
			return fmt.Errorf("layer %d: %w", i+1, err)
		}
		img.Layers[i].Size = size
		img.blobs = append(img.blobs, blob{open: func(context.Context) (io.ReadCloser, error) {
			rc, _, err := s.open(name)
			return rc, err
		}, verify: img.storedDigest(s, name, i)})
	}
	if unverified := func(b blob) bool { return b.verify == "" }; !slices.ContainsFunc(img.blobs, unverified) {
		img.id = digestOf(cfg)
	}
	return nil
}

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// storedDigest is the digest that a docker archive's layer must have as it is
// stored: its diff ID when it is a plain tar, else the one in its name, if any.
func (img *Image) storedDigest(s *tarStore, name string, i int) string {
	rc, _, err := s.open(name)
	if err != nil {
		return ""
	}
	head := make([]byte, 6)
	n, _ := io.ReadFull(rc, head)
	return img.expectedDigest(head[:n], followLinks(s.links, name), i)
}

func (img *Image) expectedDigest(head []byte, name string, i int) string {
	if !bytes.HasPrefix(head, magicGzip) && !bytes.HasPrefix(head, magicZstd) {
		return img.Layers[i].DiffID
	}
	if h := hexName(name); h != "" {
		return "sha256:" + h
	}
	return ""
}

// hexName is the digest that a file is named by, up to its first dot, if it is.
func hexName(name string) string {
	base, _, _ := strings.Cut(path.Base(name), ".")
	if _, err := hex.DecodeString(base); err != nil || len(base) != 64 {
		return ""
	}
	return base
}

// chooseDocker picks the image of a docker archive with the tag, or the only
// one.
func chooseDocker(raw []byte, tag string) (*dockerManifest, error) {
	var list []dockerManifest
	if err := checkElements(raw); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	var tags []string
	for i := range list {
		for _, t := range list[i].RepoTags {
			tags = append(tags, printable(t))
		}
	}
	slices.Sort(tags)
	if len(list) == 0 {
		return nil, errors.New("the archive has no images")
	}
	if tag == "" {
		if len(list) != 1 {
			return nil, fmt.Errorf("the archive has %d images: say which, as docker-archive:FILE:REF, of %s", len(list), strings.Join(tags, ", "))
		}
		return &list[0], nil
	}
	for i := range list {
		for _, t := range list[i].RepoTags {
			if t == tag || strings.HasSuffix(t, "/"+tag) || t == tag+":latest" {
				return &list[i], nil
			}
		}
	}
	return nil, fmt.Errorf("the archive has no image %q: it has %s", tag, strings.Join(tags, ", "))
}

func (img *Image) setDockerConfig(m *dockerManifest, raw []byte) error {
	want := hexName(m.Config)
	if got, _, err := v1.SHA256(bytes.NewReader(raw)); err != nil || want != "" && got.Hex != want {
		return fmt.Errorf("the config: its bytes have the digest %s, not sha256:%s: the image is damaged", got, want)
	}
	cfg, err := img.parseConfig(raw)
	switch {
	case err != nil:
		return err
	case len(m.Layers) > maxLayers:
		return fmt.Errorf("manifest.json lists %d layers, more than the %d that are read: no file system lays so many over one another", len(m.Layers), maxLayers)
	case len(cfg.RootFS.DiffIDs) != len(m.Layers):
		return fmt.Errorf("the config lists %d layers, manifest.json %d: the archive is damaged", len(cfg.RootFS.DiffIDs), len(m.Layers))
	}
	img.Config = cfg
	img.Layers = nil
	for _, id := range cfg.RootFS.DiffIDs {
		img.Layers = append(img.Layers, LayerInfo{Digest: id.String(), DiffID: id.String()})
	}
	img.setHistory()
	return img.checkPlatform()
}

// indexStream indexes an image archive that cannot be sought in: a daemon's
// answer, a compressed file. Layers come before the manifest that names them,
// so that each thing that looks like a layer is indexed as it goes by.
func (img *Image) indexStream(ctx context.Context, r io.Reader, tag string) ([]*Layer, error) {
	b := &budget{r: &source{ctx: ctx, r: r}, all: maxStream, beside: maxBeside}
	a := streamed{layers: map[string]streamedLayer{}, docs: map[string][]byte{}, links: map[string]string{}, large: map[string]int64{}, budget: b}
	r = b
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if b.err != nil {
			return nil, b.err
		}
		if err != nil {
			return nil, badTar(err)
		}
		if err := a.take(ctx, h, tr, &img.opts); err != nil {
			return nil, fmt.Errorf("%s: %w", printable(h.Name), err)
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, err
	}
	raw, ok := a.docs["manifest.json"]
	if !ok {
		return nil, a.absent("manifest.json", errNoManifest)
	}
	m, err := chooseDocker(raw, tag)
	if err != nil {
		return nil, err
	}
	cfg, ok := a.docs[followLinks(a.links, m.Config)]
	if !ok {
		return nil, fmt.Errorf("the config: %w", a.absent(followLinks(a.links, m.Config), &absentError{m.Config}))
	}
	if err := img.setDockerConfig(m, cfg); err != nil {
		return nil, err
	}
	var list []*Layer
	for i, name := range m.Layers {
		l, ok := a.layers[followLinks(a.links, name)]
		if !ok {
			return nil, fmt.Errorf("layer %d: %w", i+1, &absentError{name})
		}
		if want := img.expectedDigest(l.head, followLinks(a.links, name), i); want != "" && want != l.digest {
			return nil, fmt.Errorf("layer %d%s: its bytes have the digest %s, not %s: the image is damaged", i+1, instruction(img.Layers[i].CreatedBy), l.digest, want)
		}
		if l.err != nil {
			return nil, fmt.Errorf("layer %d%s: %w", i+1, instruction(img.Layers[i].CreatedBy), l.err)
		}
		list = append(list, l.Layer)
	}
	return list, nil
}

type streamed struct {
	layers map[string]streamedLayer
	docs   map[string][]byte
	links  map[string]string
	large  map[string]int64 // documents that were not read, with their sizes
	budget *budget
	size   int64 // of docs
	names  int64 // bytes of the names of all entries
	held   ledger
	tools  tools
}

// absent is why a document was not read: that it is not there, unless it is too large.
func (a *streamed) absent(name string, err error) error {
	if size, ok := a.large[name]; ok {
		return fmt.Errorf("%s is %d bytes long, and no more than %d are read of all documents", printable(name), size, maxJSON)
	}
	return err
}

// budget is a stream of which so much is read, and of what is no layer so much.
type budget struct {
	r           io.Reader
	all, beside int64
	layer       bool // what is read now is one
	err         error
}

func (b *budget) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	b.all -= int64(n)
	if !b.layer {
		b.beside -= int64(n)
	}
	switch {
	case b.all < 0:
		b.err = fmt.Errorf("the archive has more than the %d GiB that are read", maxStream>>30)
	case b.beside < 0:
		b.err = fmt.Errorf("the archive has more than %d MiB that belong to no layer: it is none of an image", maxBeside>>20)
	}
	if b.err != nil {
		return n, b.err
	}
	return n, err
}

type streamedLayer struct {
	*Layer
	err    error  // why it could not be read; it may be another image's
	head   []byte // as stored
	digest string // of the bytes as stored
}

func (a *streamed) take(ctx context.Context, h *tar.Header, r io.Reader, o *Options) error {
	name := clean(h.Name)
	if a.names += int64(64 + len(name) + len(h.Linkname)); a.names > maxArchiveNames {
		return fmt.Errorf("the archive has more than %d MiB of names: it is none of an image", maxArchiveNames>>20)
	}
	// The last of a name counts, as for who unpacks it.
	delete(a.links, name)
	delete(a.layers, name)
	delete(a.docs, name)
	delete(a.large, name)
	switch h.Typeflag {
	case tar.TypeSymlink:
		a.links[name] = clean(path.Join(path.Dir(name), h.Linkname))
		return nil
	case tar.TypeLink:
		a.links[name] = clean(h.Linkname)
		return nil
	case tar.TypeReg:
	default:
		return nil
	}
	br := bufio.NewReaderSize(r, 4096)
	head, _ := br.Peek(512)
	head = bytes.Clone(head)
	switch {
	case looksLikeLayer(head):
		sum := sha256.New()
		a.budget.layer = true
		l, err := a.tools.readBlob(ctx, io.TeeReader(br, sum), "", nil, o)
		a.budget.layer = false
		var broken sourceError
		if errors.As(err, &broken) {
			return broken.error
		}
		if l != nil {
			if err := a.held.add(l); err != nil {
				return err
			}
		}
		digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
		a.layers[name] = streamedLayer{l, err, head, digest}
	case len(head) > 0 && (head[0] == '{' || head[0] == '['):
		if a.size+h.Size > maxJSON {
			a.large[name] = h.Size // those of attestations can be as large
			return nil
		}
		a.size += h.Size
		b, err := io.ReadAll(br)
		if err != nil {
			return err
		}
		a.docs[name] = b
	}
	return nil
}

// looksLikeLayer reports whether a blob begins like a layer: compressed, or a
// tar header, or the zeros of an empty tar.
func looksLikeLayer(head []byte) bool {
	switch {
	case bytes.HasPrefix(head, magicGzip), bytes.HasPrefix(head, magicZstd):
		return true
	case len(head) < 512:
		return false
	}
	return bytes.HasPrefix(head[257:], []byte("ustar")) || bytes.Count(head, []byte{0}) == len(head)
}
