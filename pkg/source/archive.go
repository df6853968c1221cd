package source

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

	"github.com/imgcheck/imgcheck/internal/plain"
)

// Bounds of an archive that is read as a stream, which may have no end, in bytes: of
// the names of its entries, of all of it, and of what belongs to no layer. Variables,
// so that tests can reach them.
var (
	maxArchiveNames = int64(64 << 20)
	maxStream       = int64(1 << 40)
	maxBeside       = int64(1 << 30)
)

// Saved is an image of a docker archive, as docker save writes it: a tar with a
// manifest.json
// (https://github.com/moby/docker-image-spec/blob/main/spec.md).
type Saved struct {
	RawConfig []byte
	Tags      []string // as manifest.json has them; nil where it has none
	// Layers are the files of the layers, the lowest first; two may be one file.
	Layers []TarFile
}

// TarFile is a file of a docker archive.
type TarFile struct {
	Name  string // clean, links followed
	Entry int    // the number of its entry in the tar, from 0
	Size  int64  // in bytes
	// IsLayer is set if the file begins like a layer: compressed or a tar.
	IsLayer bool
}

// dockerManifest is one image of manifest.json.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

var errNoManifest = errors.New("is no docker archive: it has no manifest.json (docker save writes one, docker export does not)")

// chooseSaved returns the image of a manifest.json with a tag, or the only one.
func chooseSaved(raw []byte, tag string) (*dockerManifest, error) {
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
			tags = append(tags, plain.Name(t))
		}
	}
	slices.Sort(tags)
	switch {
	case len(list) == 0:
		return nil, errors.New("the archive has no images")
	case tag == "" && len(list) > 1:
		return nil, fmt.Errorf("the archive has %d images: say which, as docker-archive:FILE:REF, of %s", len(list), strings.Join(tags, ", "))
	}
	for i := range list {
		named := func(t string) bool { return t == tag || strings.HasSuffix(t, "/"+tag) || t == tag+":latest" }
		if tag == "" || slices.ContainsFunc(list[i].RepoTags, named) {
			if n := len(list[i].Layers); n > maxLayers {
				return nil, tooManyLayers("manifest.json", n)
			}
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("the archive has no image %q: it has %s", tag, strings.Join(tags, ", "))
}

// setSaved takes the config of an image of a docker archive, and one layer for each of
// its diff IDs.
func (img *Image) setSaved(m *dockerManifest, raw []byte) error {
	if want, got := hexName(m.Config), digestOf(raw); want != "" && got != "sha256:"+want {
		return fmt.Errorf("the config: %w", damaged(got, "sha256:"+want, false))
	}
	cfg, err := parseConfig(nil, raw)
	if err != nil {
		return err
	}
	if len(cfg.RootFS.DiffIDs) != len(m.Layers) {
		return fmt.Errorf("the config lists %d layers, manifest.json %d: the archive is damaged", len(cfg.RootFS.DiffIDs), len(m.Layers))
	}
	img.Config, img.RawConfig, img.Layers = cfg, raw, nil
	for _, id := range cfg.RootFS.DiffIDs {
		img.Layers = append(img.Layers, Layer{Digest: id.String(), DiffID: id.String()})
	}
	img.setHistory()
	return img.checkPlatform()
}

// savedDigest returns the digest that a layer of a docker archive must have as it is
// stored: its diff ID where it is a plain tar, else the one in its name, if any.
func savedDigest(head []byte, name, diffID string) string {
	if !Compressed(head) {
		return diffID
	}
	if h := hexName(name); h != "" {
		return "sha256:" + h
	}
	return ""
}

// hexName returns the digest that a file is named by, up to its first dot, or "".
func hexName(name string) string {
	base, _, _ := strings.Cut(path.Base(name), ".")
	if _, err := hex.DecodeString(base); err != nil || len(base) != 64 {
		return ""
	}
	return base
}

// openDockerArchive opens FILE[:REF]. The layers of a plain tar are opened one by one;
// a compressed one is a stream.
func openDockerArchive(_ context.Context, s string, _ Options) (*Image, error) {
	file, tag := SplitTag(s)
	f, err := openArchive(file)
	if err != nil {
		return nil, err
	}
	if !seekable(f) {
		open := func(ctx context.Context) (io.ReadCloser, error) {
			context.AfterFunc(ctx, func() { f.Close() }) // a pipe may be silent
			return io.NopCloser(f), nil
		}
		return &Image{stream: &stream{tag: tag, open: open}, close: f.Close}, nil
	}
	img, err := readTarFiles(f, tag)
	return closeAfter(img, err, f)
}

// readTarFiles opens an image of a docker archive that is a plain tar.
func readTarFiles(f *os.File, tag string) (*Image, error) {
	t, err := newTarFiles(f)
	if err != nil {
		return nil, err
	}
	return openSaved(t, tag)
}

// openSaved opens an image of a docker archive that can be sought in.
func openSaved(t *tarFiles, tag string) (*Image, error) {
	raw, err := readSmall(t, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		if _, ok := t.at["index.json"]; ok {
			return nil, errors.New("is an OCI archive: say oci-archive:FILE")
		}
		return nil, errNoManifest
	}
	if err != nil {
		return nil, err
	}
	m, err := chooseSaved(raw, tag)
	if err != nil {
		return nil, err
	}
	cfg, err := readSmall(t, m.Config)
	if err != nil {
		return nil, fmt.Errorf("the config: %w", err)
	}
	img := &Image{}
	if err := img.setSaved(m, cfg); err != nil {
		return nil, err
	}
	verified := true
	for i, name := range m.Layers {
		b, size, err := t.layer(name, img.Layers[i].DiffID)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
		img.Layers[i].Size = size
		img.blobs = append(img.blobs, b)
		verified = verified && b.digest != ""
	}
	if verified {
		img.id = digestOf(cfg)
	}
	return img, nil
}

// layer returns a layer of a docker archive, and its size.
func (t *tarFiles) layer(name, diffID string) (blob, int64, error) {
	rc, size, err := t.open(name)
	if err != nil {
		return blob{}, 0, err
	}
	head := make([]byte, len(magicZstd))
	n, _ := io.ReadFull(rc, head)
	open := func(context.Context, func(string)) (io.ReadCloser, error) {
		rc, _, err := t.open(name)
		return rc, err
	}
	return blob{open, savedDigest(head[:n], followLinks(t.links, name), diffID)}, size, nil
}

// ReadSaved reads a docker archive that cannot be sought in, to its end, and returns
// its image with a tag, or the only one. It verifies the digests of the layers.
//
// Layers come before the document that names them. take, unless nil, is called for
// each file that is no document, in the order of the archive. It need not read all of
// r, which is good until it returns. An error of take is returned, with the file's
// name.
func ReadSaved(ctx context.Context, r io.Reader, tag string, take func(f TarFile, r io.Reader) error) (*Saved, error) {
	return new(Image).readSaved(ctx, r, tag, take)
}

// readSaved does as ReadSaved, and makes img the image that was read.
func (img *Image) readSaved(ctx context.Context, r io.Reader, tag string, take func(f TarFile, r io.Reader) error) (*Saved, error) {
	s := savedReader{
		files: map[string]savedFile{}, docs: map[string][]byte{}, links: map[string]string{}, large: map[string]int64{},
		budget: &budget{ctx: ctx, r: r, all: maxStream, beside: maxBeside}, takeFile: take,
	}
	if err := s.read(); err != nil {
		return nil, err
	}
	return s.image(img, tag)
}

// savedReader reads a docker archive as a stream.
type savedReader struct {
	files    map[string]savedFile // by name
	docs     map[string][]byte
	links    map[string]string
	large    map[string]int64 // the sizes of documents that were not read
	budget   *budget
	takeFile func(f TarFile, r io.Reader) error

	entry int
	size  int64 // of docs
	names int64 // bytes of the names of all entries
}

// savedFile is a file that has gone by.
type savedFile struct {
	TarFile
	head   []byte
	digest string // empty if takeFile is nil
}

func (s *savedReader) read() error {
	tr := tar.NewReader(s.budget)
	for ; ; s.entry++ {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if s.budget.err != nil {
			return s.budget.err
		}
		if err != nil {
			return fetched(err, badTar(err))
		}
		if err := s.take(h, tr); err != nil {
			return fetched(err, fmt.Errorf("%s: %w", plain.Name(h.Name), err))
		}
	}
	_, err := io.Copy(io.Discard, s.budget)
	return err
}

// fetched returns the explained error of a server that err wraps, else another one.
func fetched(err, other error) error {
	var e *fetchError
	if errors.As(err, &e) {
		return e
	}
	return other
}

func (s *savedReader) take(h *tar.Header, r io.Reader) error {
	name := clean(h.Name)
	if s.names += int64(64 + len(name) + len(h.Linkname)); s.names > maxArchiveNames {
		return fmt.Errorf("the archive has more than %d MiB of names: it is none of an image", maxArchiveNames>>20)
	}
	// Of two entries with a name the last counts.
	delete(s.links, name)
	delete(s.files, name)
	delete(s.docs, name)
	delete(s.large, name)
	if link := linkOf(h, name); link != "" {
		s.links[name] = link
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	br := bufio.NewReaderSize(r, 4096)
	head, _ := br.Peek(512)
	if len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		return s.document(name, h.Size, br)
	}
	f := savedFile{TarFile{Name: name, Entry: s.entry, Size: h.Size, IsLayer: looksLikeLayer(head)}, bytes.Clone(head[:min(len(head), len(magicZstd))]), ""}
	var err error
	if s.takeFile != nil {
		f.digest, err = s.file(f.TarFile, br)
	}
	s.files[name] = f
	return err
}

// file passes a file to takeFile, and returns the digest of its bytes.
func (s *savedReader) file(f TarFile, r io.Reader) (string, error) {
	s.budget.layer = f.IsLayer
	defer func() { s.budget.layer = false }()
	sum := sha256.New()
	tee := io.TeeReader(r, sum)
	if err := s.takeFile(f, tee); err != nil {
		return "", err
	}
	_, err := io.Copy(io.Discard, tee)
	return hexOf(sum), err
}

// document reads a file that is JSON.
func (s *savedReader) document(name string, size int64, r io.Reader) error {
	if s.size+size > maxJSON {
		s.large[name] = size // an attestation can be as large
		return nil
	}
	s.size += size
	b, err := io.ReadAll(r)
	s.docs[name] = b
	return err
}

// image returns the image with a tag, which img becomes, too.
func (s *savedReader) image(img *Image, tag string) (*Saved, error) {
	raw, ok := s.docs["manifest.json"]
	if !ok {
		return nil, s.absent("manifest.json", errNoManifest)
	}
	m, err := chooseSaved(raw, tag)
	if err != nil {
		return nil, err
	}
	name := followLinks(s.links, m.Config)
	cfg, ok := s.docs[name]
	if !ok {
		return nil, fmt.Errorf("the config: %w", s.absent(name, absentFile(m.Config)))
	}
	if err := img.setSaved(m, cfg); err != nil {
		return nil, err
	}
	saved := &Saved{RawConfig: cfg, Tags: m.RepoTags}
	for i, name := range m.Layers {
		f, ok := s.files[followLinks(s.links, name)]
		if !ok {
			return nil, fmt.Errorf("layer %d: %w", i+1, absentFile(name))
		}
		if want := savedDigest(f.head, f.Name, img.Layers[i].DiffID); f.digest != "" && want != "" && want != f.digest {
			return nil, fmt.Errorf("layer %d%s: %w", i+1, img.Layers[i].Instruction(), damaged(f.digest, want, false))
		}
		saved.Layers = append(saved.Layers, f.TarFile)
	}
	return saved, nil
}

// absent returns why a document was not read: err, unless it is too large.
func (s *savedReader) absent(name string, err error) error {
	if size, ok := s.large[name]; ok {
		return fmt.Errorf("%s is %d bytes long, and no more than %d are read of all documents", plain.Name(name), size, maxJSON)
	}
	return err
}

// looksLikeLayer reports whether a file begins like a layer: compressed, or with a tar
// header, or with the zeros of an empty tar.
func looksLikeLayer(head []byte) bool {
	switch {
	case Compressed(head):
		return true
	case len(head) < 512:
		return false
	}
	return bytes.HasPrefix(head[257:], []byte("ustar")) || bytes.Count(head, []byte{0}) == len(head)
}

// budget is a stream of which a limited number of bytes is read, and a smaller one
// outside of layers.
type budget struct {
	ctx         context.Context
	r           io.Reader
	all, beside int64
	layer       bool // a layer is being read
	err         error
}

func (b *budget) Read(p []byte) (int, error) {
	if b.err == nil {
		b.err = b.ctx.Err()
	}
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
