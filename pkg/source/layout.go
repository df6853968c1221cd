package source

import (
	"archive/tar"
	"bytes"
	"context"
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

	"github.com/imgcheck/imgcheck/internal/plain"
)

// maxJSON bounds the documents of an archive, in bytes; registries take 4 MiB.
const maxJSON = 32 << 20

// RefName is the annotation of an entry of index.json that holds its tag (image-spec,
// annotations.md).
const RefName = "org.opencontainers.image.ref.name"

// Layout is an OCI layout, in a directory or a tar (image-spec, image-layout.md).
type Layout struct{ files files }

// NewLayout returns the layout in a directory, which need not exist.
func NewLayout(dir string) *Layout { return &Layout{dirFiles(dir)} }

// openLayout opens DIR[:TAG].
func openLayout(ctx context.Context, s string, o Options) (*Image, error) {
	dir, tag := SplitTag(s)
	switch st, err := os.Stat(dir); {
	case err != nil:
		return nil, PathError(err)
	case !st.IsDir():
		return nil, errors.New("is a file, not an OCI layout: say oci-archive:FILE or docker-archive:FILE")
	}
	return NewLayout(dir).open(ctx, tag, "oci:"+dir, o)
}

// openLayoutArchive opens FILE[:TAG].
func openLayoutArchive(ctx context.Context, s string, o Options) (*Image, error) {
	file, tag := SplitTag(s)
	f, err := openArchive(file)
	if err != nil {
		return nil, err
	}
	if !seekable(f) {
		f.Close()
		return nil, errors.New("is compressed as a whole, or no file: decompress it into one first (gzip -d, zstd -d)")
	}
	t, err := newTarFiles(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	img, err := (&Layout{t}).open(ctx, tag, "oci-archive:"+file, o)
	return closeAfter(img, err, f)
}

// open returns the image with a tag or digest, or the only one. where is the layout's
// reference.
func (l *Layout) open(ctx context.Context, tag, where string, o Options) (*Image, error) {
	all, err := l.Entries()
	if err != nil {
		return nil, err
	}
	list := runnable(all)
	if tag != "" {
		list = slices.DeleteFunc(slices.Clone(list), func(d v1.Descriptor) bool { return d.Annotations[RefName] != tag && d.Digest.String() != tag })
	}
	if len(list) == 0 {
		return nil, NoTag(all, tag)
	}
	if tags := tagsOf(all); tag == "" && len(tags) > 1 {
		return nil, fmt.Errorf("the layout has several images: say which, as %s:TAG, of %s", where, strings.Join(tags, ", "))
	}
	d, attestations, err := choose(ctx, l, list, o.Platform, 1)
	if err != nil {
		return nil, err
	}
	if attestations == nil { // of an image that index.json lists itself
		attestations = attestationsOf(all, d.Digest())
	}
	return readAttested(ctx, l, d, attestations)
}

// NoTag returns the error of a layout that has no image with a tag; of none at all
// where tag is empty.
func NoTag(entries []v1.Descriptor, tag string) error {
	with := ""
	if tag != "" {
		with = fmt.Sprintf(" with the tag %q", tag)
	}
	return fmt.Errorf("the layout has no image%s: it has %s", with, Tags(entries))
}

// Tags returns the tags of a layout's entries, for messages.
func Tags(entries []v1.Descriptor) string {
	if tags := tagsOf(entries); len(tags) > 0 {
		return strings.Join(tags, ", ")
	}
	return "no tags"
}

func tagsOf(entries []v1.Descriptor) []string {
	var tags []string
	for _, d := range runnable(entries) {
		if t := d.Annotations[RefName]; t != "" {
			tags = append(tags, plain.Name(t))
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// Entries returns the entries of index.json.
func (l *Layout) Entries() ([]v1.Descriptor, error) {
	raw, err := l.Index()
	if err != nil {
		return nil, err
	}
	m, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}
	return m.Manifests, nil
}

// Index returns index.json. The error of a directory or tar without one is
// fs.ErrNotExist.
func (l *Layout) Index() ([]byte, error) {
	raw, err := readSmall(l.files, "index.json")
	switch {
	case err == nil:
		return raw, nil
	case errors.As(err, new(*absentError)):
	case errors.Is(err, fs.ErrNotExist): // the directory
		return nil, err
	default:
		return nil, fmt.Errorf("index.json: %w", err)
	}
	if rc, _, err := l.files.open("manifest.json"); err == nil {
		rc.Close()
		return nil, errors.New("is a docker archive: say docker-archive:FILE")
	}
	return nil, errNoLayout
}

var errNoLayout = &absentError{"is no OCI layout: it has no index.json"}

// Name implements [Store]: a layout has no name on other machines.
func (l *Layout) Name() string { return "" }

// Manifest implements [Store].
func (l *Layout) Manifest(_ context.Context, digest v1.Hash) (*Document, error) {
	raw, err := readSmall(l.files, BlobPath(digest))
	if err != nil {
		return nil, absentBlob(digest, err)
	}
	if got := digestOf(raw); got != digest.String() {
		return nil, fmt.Errorf("the blob %s has the digest %s: the image is damaged", digest, got)
	}
	return &Document{raw, typeOf(raw)}, nil
}

// Blob implements [Store].
func (l *Layout) Blob(_ context.Context, d v1.Descriptor, _ func(string)) (io.ReadCloser, error) {
	rc, size, err := l.files.open(BlobPath(d.Digest))
	if err != nil {
		return nil, absentBlob(d.Digest, err)
	}
	if size != d.Size {
		rc.Close()
		return nil, fmt.Errorf("the blob %s has %d bytes, not %d: the image is damaged", d.Digest, size, d.Size)
	}
	return rc, nil
}

// BlobPath returns the path of a blob in a layout.
func BlobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// absentBlob explains why a blob cannot be opened.
func absentBlob(h v1.Hash, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &absentError{fmt.Sprintf("the blob %s is not in it: the image is damaged, or was saved without it", h)}
	}
	return err
}

// files are named files: those of a directory, or of a tar that can be sought in.
type files interface {
	open(name string) (io.ReadCloser, int64, error)
}

// readSmall returns a file that is JSON, whole.
func readSmall(f files, name string) ([]byte, error) {
	rc, size, err := f.open(name)
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

// absentError is the error of a file that is not there. Its text holds no path of
// this machine.
type absentError struct{ text string }

func (e *absentError) Error() string        { return e.text }
func (e *absentError) Is(target error) bool { return target == fs.ErrNotExist }

// absentFile returns the error of a file that an archive lacks.
func absentFile(name string) error {
	return &absentError{plain.Name(name) + " is not in it: the archive is damaged"}
}

// dirFiles are the files of a directory. A link that leads out of it is refused.
type dirFiles string

func (d dirFiles) open(name string) (io.ReadCloser, int64, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, 0, PathError(err)
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for a FIFO's writer
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, absentFile(name)
	}
	if err != nil {
		return nil, 0, PathError(err)
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

// tarFiles are the files of an uncompressed tar.
type tarFiles struct {
	f     *os.File
	at    map[string]extent
	links map[string]string
}

type extent struct{ off, size int64 }

// newTarFiles lists a tar. archive/tar reads headers only, seeks over the rest, and
// does not read ahead, so that the file's position is where a body begins.
func newTarFiles(f *os.File) (*tarFiles, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s := &tarFiles{f: f, at: map[string]extent{}, links: map[string]string{}}
	tr := tar.NewReader(f)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return nil, badTar(err)
		}
		if len(s.at)+len(s.links) > 1<<20 {
			return nil, errors.New("reading tar: too many entries for an image archive")
		}
		name := clean(h.Name)
		delete(s.at, name) // of two entries with a name the last counts
		delete(s.links, name)
		if link := linkOf(h, name); link != "" {
			s.links[name] = link
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		off, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		if off > st.Size()-h.Size { // archive/tar seeks past the end without an error
			return nil, fmt.Errorf("ends in the middle of %s: the archive is cut off", plain.Name(h.Name))
		}
		s.at[name] = extent{off, h.Size}
	}
}

func (s *tarFiles) open(name string) (io.ReadCloser, int64, error) {
	name = followLinks(s.links, name)
	e, ok := s.at[name]
	if !ok {
		return nil, 0, absentFile(name)
	}
	return io.NopCloser(io.NewSectionReader(s.f, e.off, e.size)), e.size, nil
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

// clean returns the path that a tar name stands for: inside the root whatever the
// name is, without a leading slash.
func clean(name string) string { return path.Clean("/" + name)[1:] }

// linkOf returns the path in the archive to which an entry is a link, or "" for
// another entry. Skopeo writes <id>/layer.tar -> ../<digest>.tar.
func linkOf(h *tar.Header, name string) string {
	switch h.Typeflag {
	case tar.TypeSymlink:
		return clean(path.Join(path.Dir(name), h.Linkname))
	case tar.TypeLink:
		return clean(h.Linkname)
	}
	return ""
}

const maxLinks = 40 // MAXSYMLINKS

// followLinks resolves a name of an archive.
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

// PathError returns an error of a file without the operation that failed: the path and
// the reason are enough. It returns another error, and nil, as it is.
func PathError(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return err
}

// openArchive opens a file, or a pipe.
func openArchive(file string) (*os.File, error) {
	if file == "-" {
		return openStdin()
	}
	st, err := os.Stat(file)
	if err != nil {
		return nil, PathError(err)
	}
	if st.IsDir() {
		return nil, errors.New("is a directory: say oci: for an OCI layout, dir: for a root file system")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, PathError(err)
	}
	return f, nil
}

// The first bytes of compressed files (RFC 1952, RFC 8878).
var (
	magicGzip = []byte{0x1f, 0x8b}
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// Compressed reports whether a file that begins with head is gzip or zstd.
func Compressed(head []byte) bool {
	return bytes.HasPrefix(head, magicGzip) || bytes.HasPrefix(head, magicZstd)
}

// seekable reports whether an archive can be read at any place: it is a file, and not
// compressed as a whole.
func seekable(f *os.File) bool {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	b := make([]byte, 4)
	n, _ := f.ReadAt(b, 0)
	return !Compressed(b[:n])
}

// openStdin opens the standard input as an archive. It is opened anew by its name if that
// works, so that closing it ends a read that waits.
func openStdin() (*os.File, error) {
	st, err := os.Stdin.Stat()
	if err != nil {
		return nil, PathError(err)
	}
	if st.Mode()&os.ModeCharDevice != 0 {
		return nil, errors.New("is the standard input, which has no archive: say docker save IMAGE | imgcheck scan docker-archive:-")
	}
	if f, err := os.Open("/dev/stdin"); err == nil {
		return f, nil
	}
	return os.Stdin, nil
}
