package patch

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// whiteout begins the name of an entry that removes a path of lower layers
// (image-spec, layer.md, "Whiteouts").
const whiteout = ".wh."

// WriteTar writes the layer of a change as an uncompressed tar. The same change
// over the same base gives the same bytes. The directories above its files get
// the base's owners and modes, which a layer's entry of a directory replaces. It returns
// an error for a path without effect: below something that is no directory, a whiteout of
// a path that is not there, the same path twice.
func WriteTar(w io.Writer, base *layers.FS, c Change) error {
	list, err := tarEntries(base, c)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	for _, e := range list {
		if err := e.write(tw); err != nil {
			return fmt.Errorf("writing /%s into the layer: %w", strings.TrimSuffix(e.header.Name, "/"), err)
		}
	}
	return tw.Close()
}

// Writable returns the error with which [WriteTar] would refuse a change of these files,
// whatever their contents are; nil if it would accept it.
func Writable(base *layers.FS, files []File) error {
	c := Change{Files: slices.Clone(files)}
	for i := range c.Files {
		if f := &c.Files[i]; f.Open == nil && f.Link == "" && !f.Remove {
			f.Open = opened(nil)
		}
	}
	_, err := tarEntries(base, c)
	return err
}

type tarEntry struct {
	header tar.Header
	open   func() (io.ReadCloser, error)
	xattrs func() (map[string]string, error)
}

func (e *tarEntry) write(tw *tar.Writer) error {
	if e.xattrs != nil {
		xattrs, err := e.xattrs()
		if err != nil {
			return err
		}
		for name, value := range xattrs {
			if e.header.PAXRecords == nil {
				e.header.PAXRecords = map[string]string{}
			}
			e.header.PAXRecords[layers.XattrRecord+name] = value
		}
	}
	if err := tw.WriteHeader(&e.header); err != nil {
		return err
	}
	if e.open == nil {
		return nil
	}
	rc, err := e.open()
	if err != nil {
		return err
	}
	defer rc.Close()
	n, err := io.Copy(tw, rc)
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && n != e.header.Size {
		return fmt.Errorf("it does not have the %d bytes that the change says", e.header.Size)
	}
	return err
}

// tarEntries returns the entries of a change's layer in the order of their names.
func tarEntries(base *layers.FS, c Change) ([]tarEntry, error) {
	when := c.Created.Truncate(time.Second)
	if c.Created.IsZero() {
		when = time.Unix(0, 0)
	}
	t := tarPlan{base: base, when: when, entries: map[string]tarEntry{}, taken: map[string]bool{}}
	for i := range c.Files {
		f := &c.Files[i]
		if err := t.file(f); err != nil {
			return nil, fmt.Errorf("%s: %w", display(f.Path), err)
		}
	}
	for p := range t.taken {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if t.taken[d] {
				return nil, fmt.Errorf("/%s: the change puts /%s in its way", p, d)
			}
		}
	}
	names := slices.Sorted(maps.Keys(t.entries))
	list := make([]tarEntry, len(names))
	for i, name := range names {
		list[i] = t.entries[name]
	}
	return list, nil
}

func display(p string) string { return "/" + strings.TrimPrefix(p, "/") }

type tarPlan struct {
	base    *layers.FS
	when    time.Time
	entries map[string]tarEntry // by the name in the tar
	taken   map[string]bool     // paths of the change's own files
}

func (t *tarPlan) file(f *File) error {
	p := strings.TrimPrefix(f.Path, "/")
	switch {
	case !fs.ValidPath(p) || p == "." || strings.Contains(p, "\x00"):
		return errors.New("is no path of a file")
	case len(p) > 4000 || len(path.Base(p)) > 200:
		return errors.New("is too long for a path")
	case strings.HasPrefix(path.Base(p), whiteout):
		return fmt.Errorf("a layer cannot hold names that begin with %s", whiteout)
	}
	dir, err := t.directory(path.Dir(p))
	if err != nil {
		return err
	}
	p = path.Join(dir, path.Base(p))
	if t.taken[p] {
		return fmt.Errorf("the change has it twice (as /%s)", p)
	}
	t.taken[p] = true
	old, _, there := t.base.Lstat(p)
	h := tar.Header{Name: p, Mode: unixMode(f.Mode), Uid: f.UID, Gid: f.GID, ModTime: t.when}
	switch {
	case f.Remove && !there:
		return errors.New("cannot be removed: it is not there")
	case f.Remove:
		h = tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, whiteout+path.Base(p)), Mode: 0o600, ModTime: t.when}
		f = &File{}
	case there && old.IsDir():
		return errors.New("is a directory of the image")
	case f.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
		f = &File{}
	case f.Open == nil:
		return errors.New("has no content")
	default:
		h.Typeflag, h.Size = tar.TypeReg, f.Size
	}
	t.entries[h.Name] = tarEntry{h, f.Open, f.Xattrs}
	return nil
}

// directory adds a directory and those above it, as they are in the base, and returns its
// real path.
func (t *tarPlan) directory(dir string) (string, error) {
	cur := ""
	if dir == "." {
		return cur, nil
	}
	for part := range strings.SplitSeq(dir, "/") {
		next := path.Join(cur, part)
		h := tar.Header{Typeflag: tar.TypeDir, Mode: 0o755, ModTime: t.when}
		if _, _, there := t.base.Lstat(next); there {
			e, _, ok := t.base.Lookup(next)
			switch {
			case !ok:
				return "", fmt.Errorf("/%s is a link that leads nowhere", next)
			case !e.IsDir():
				return "", fmt.Errorf("/%s is no directory", next)
			}
			next = e.Path
			h.Mode, h.Uid, h.Gid = unixMode(e.Mode), e.UID, e.GID
		}
		for d := next; d != "" && d != "."; d = path.Dir(d) { // of a link's target the directories may not be added yet
			if _, added := t.entries[d+"/"]; added {
				continue
			}
			if e, _, ok := t.base.Lstat(d); ok && d != next {
				t.entries[d+"/"] = tarEntry{header: tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: unixMode(e.Mode), Uid: e.UID, Gid: e.GID, ModTime: t.when}}
			} else if d == next {
				h.Name = d + "/"
				t.entries[h.Name] = tarEntry{header: h}
			}
		}
		cur = next
	}
	return cur, nil
}

// unixMode returns a mode in the form of a tar.
func unixMode(m fs.FileMode) int64 {
	mode := int64(m.Perm())
	for bit, unix := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			mode |= unix
		}
	}
	return mode
}

// newLayer is a layer that was written. Its bytes are held, compressed, in memory or in an
// unnamed temporary file. mt says how they are compressed.
type newLayer struct {
	spool          spool
	digest, diffID v1.Hash
	plainSize      int64 // of the uncompressed tar, in bytes
	mt             types.MediaType
}

func makeLayer(ctx context.Context, base *layers.FS, c Change, mt types.MediaType) (*newLayer, error) {
	l := &newLayer{mt: mt}
	if err := l.write(ctx, base, c); err != nil {
		l.spool.Close()
		return nil, err
	}
	return l, nil
}

func (l *newLayer) write(ctx context.Context, base *layers.FS, c Change) error {
	sum, plain := sha256.New(), sha256.New()
	z, err := compressor(io.MultiWriter(&l.spool, sum), l.mt)
	if err != nil {
		return err
	}
	if err := WriteTar(&whileWanted{ctx, io.MultiWriter(z, plain, (*counter)(&l.plainSize))}, base, c); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	l.digest, l.diffID = sha(sum), sha(plain)
	return nil
}

// whileWanted writes until a context is done: a layer may have gigabytes.
type whileWanted struct {
	ctx context.Context
	w   io.Writer
}

func (u *whileWanted) Write(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(b)
}

type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

func sha(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", h.Sum(nil))}
}

// compressor returns a compressor of klauspost's, for gzip as well: its version is pinned
// in go.mod, whereas the standard library's depends on the Go that builds, and the bytes
// must be the same on every machine.
func compressor(w io.Writer, mt types.MediaType) (io.WriteCloser, error) {
	if mt == types.OCILayerZStd {
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	}
	return gzip.NewWriterLevel(w, gzip.DefaultCompression)
}

func (l *newLayer) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l *newLayer) DiffID() (v1.Hash, error)            { return l.diffID, nil }
func (l *newLayer) Size() (int64, error)                { return l.spool.size, nil }
func (l *newLayer) MediaType() (types.MediaType, error) { return l.mt, nil }
func (l *newLayer) Compressed() (io.ReadCloser, error)  { return io.NopCloser(l.spool.reader()), nil }

func (l *newLayer) Uncompressed() (io.ReadCloser, error) { return decompressed(l.spool.reader(), l.mt) }

func decompressed(r io.Reader, mt types.MediaType) (io.ReadCloser, error) {
	if mt == types.OCILayerZStd {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return gzip.NewReader(r)
}

// spool holds the bytes that are written to it: few in memory, more in an unnamed
// temporary file, which vanishes with the process.
type spool struct {
	mem  bytes.Buffer
	file tempFile
	size int64
}

// spoolInMemory bounds the bytes in memory. A variable, so that tests need no large layer.
var spoolInMemory int64 = 8 << 20

func (s *spool) Write(b []byte) (n int, err error) {
	if s.file == nil && s.size+int64(len(b)) > spoolInMemory {
		if s.file, err = unnamed(); err != nil {
			return 0, err
		}
		if _, err := s.file.Write(s.mem.Bytes()); err != nil {
			return 0, err
		}
		s.mem = bytes.Buffer{}
	}
	if s.file == nil {
		n, err = s.mem.Write(b)
	} else {
		n, err = s.file.Write(b)
	}
	s.size += int64(n)
	return n, err
}

func unnamed() (tempFile, error) {
	f, err := disk.createTemp("", "imgcheck-layer-")
	if err != nil {
		return nil, err
	}
	return f, disk.remove(f.Name())
}

// reader returns a reader from the start. Any number may read at a time.
func (s *spool) reader() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.mem.Bytes())
	}
	return io.NewSectionReader(s.file, 0, s.size)
}

func (s *spool) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
