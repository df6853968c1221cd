package provide

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"github.com/imgcheck/imgcheck/internal/trust"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Bounds of an archive, unpacked; variables, so that tests can reach them. TensorRT's
// archive unpacks to 12 GB, its longest library to 3 GB.
var (
	maxMembers  = 1 << 20
	maxUnpacked = int64(64 << 30) // bytes of the whole archive, unpacked
	maxMember   = int64(16 << 30)
	maxXZDict   = uint32(512 << 20) // of each block of an xz; xz -9 has 64 MiB
)

// member is a file that was taken out of an archive, or a link. Lists of members are in
// the cache.
type member struct {
	Path string `json:"path"`
	Link string `json:"link,omitempty"`
	Sum  string `json:"sha256,omitempty"` // of a file
	Size int64  `json:"size,omitempty"`
	hard string
}

// unpack takes the members for a request out of an archive: its libraries, the links
// beside them and the licence. Later calls for the same archive and library find them in
// the cache, without fetching the archive.
func (e *env) unpack(ctx context.Context, fetch func() (string, error), sum string, r *request) ([]member, error) {
	list := filepath.Join(e.cache, "lists", r.listName(sum))
	if members, ok := e.unpacked(list); ok {
		return members, nil
	}
	file, err := fetch()
	if err != nil {
		return nil, err
	}
	members, err := e.unpackFile(ctx, file, r)
	if err != nil {
		return nil, fmt.Errorf("unpacking it: %w", err)
	}
	return members, e.writeList(list, members)
}

func (e *env) unpackFile(ctx context.Context, file string, r *request) ([]member, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	u := &unpacker{env: e, ctx: ctx, takes: func(p string) bool {
		return !inStubs(p) && (r.takes(path.Base(p)) || isLicence(path.Base(p)))
	}, seen: map[string]bool{}}
	if err := u.read(f); err != nil {
		return nil, err
	}
	if err := u.linkHard(); err != nil {
		return nil, err
	}
	slices.SortFunc(u.members, func(a, b member) int { return strings.Compare(a.Path, b.Path) })
	return u.members, nil
}

// listName returns the name of the list of members that a request takes out of an archive.
func (r *request) listName(sum string) string {
	what := r.Names
	if r.lib != nil {
		what = r.lib.Match
	}
	k := newKey("archive", sum)
	for _, w := range what {
		k.add(w)
	}
	return k.name()
}

// key makes the name of a list, a hash of what the list is for.
type key struct{ hash.Hash }

func newKey(kind, of string) key {
	k := key{sha256.New()}
	k.add(kind)
	k.add(of)
	return k
}

func (k key) add(s string) { fmt.Fprintf(k, "%q ", s) }

func (k key) name() string { return hexOf(k) + ".json" }

// unpacked returns the members that an earlier call has taken out, if the cache still has
// them all.
func (e *env) unpacked(list string) ([]member, bool) {
	members := e.readList(list)
	if members == nil {
		return nil, false
	}
	for _, m := range members {
		if m.Link != "" {
			continue
		}
		if !isSum(m.Sum) {
			return nil, false
		}
		if _, ok := e.cached(m.Sum); !ok {
			return nil, false
		}
	}
	return members, true
}

// maxList bounds a list of members, in bytes.
const maxList = 64 << 20

// readList returns the members of a list, nil if there is none that can be believed.
func (e *env) readList(list string) []member {
	f, err := trust.Open(list)
	if err != nil {
		return nil
	}
	defer f.Close()
	r, ok := e.key.Verified(f, maxList)
	if !ok {
		return nil
	}
	b, err := io.ReadAll(r)
	text, ok := bytes.CutPrefix(b, []byte(filepath.Base(list)+"\n")) // a list of another archive has its code, too
	members := []member{}
	if err != nil || !ok || json.Unmarshal(text, &members) != nil {
		return nil
	}
	return members
}

func (e *env) writeList(list string, members []member) error {
	b, err := json.Marshal(members)
	if err != nil {
		return err
	}
	tmp, err := e.temp()
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	sealed := e.key.NewWriter(tmp)
	_, err = sealed.Write(slices.Concat([]byte(filepath.Base(list)+"\n"), b))
	_, dirErr := e.dir("lists")
	if err = errors.Join(err, sealed.Close(), tmp.Close(), dirErr); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), list)
}

// unpacker takes files out of an archive.
type unpacker struct {
	*env
	ctx     context.Context
	takes   func(p string) bool
	members []member
	seen    map[string]bool
	count   int
	bytes   int64
}

// read reads a zip or a tar, by its first bytes.
func (u *unpacker) read(f *os.File) error {
	head := make([]byte, 6)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	head = head[:n]
	for _, format := range formats {
		if bytes.HasPrefix(head, []byte(format.magic)) {
			return format.read(u, f)
		}
	}
	return u.readTar(f)
}

// formats are the first bytes of archives; a plain tar has none of its own.
var formats = []struct {
	magic string
	read  func(u *unpacker, f *os.File) error
}{
	{"PK\x03\x04", (*unpacker).readZip},
	{"PK\x05\x06", (*unpacker).readZip}, // an empty one
	{"\x1f\x8b", (*unpacker).readGzip},
	{"\x28\xb5\x2f\xfd", (*unpacker).readZstd},
	{"\xfd7zXZ\x00", (*unpacker).readXZ},
}

func (u *unpacker) readGzip(f *os.File) error {
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 256<<10))
	if err != nil {
		return fmt.Errorf("reading gzip: %w", err)
	}
	return u.readTar(z)
}

func (u *unpacker) readZstd(f *os.File) error {
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		return fmt.Errorf("reading zstd: %w", err)
	}
	defer z.Close()
	return u.readTar(z)
}

func (u *unpacker) readXZ(f *os.File) error {
	z, err := xz.NewReader(bufio.NewReaderSize(f, 256<<10), maxXZDict)
	if err == nil {
		err = u.readTar(z)
	}
	if errors.Is(err, xz.ErrMemlimit) {
		return fmt.Errorf("reading xz: it wants a dictionary of more than %d MiB", maxXZDict>>20)
	}
	return err
}

// enter counts an entry of size bytes and reports whether it is wanted. p is its path,
// inside the archive whatever the name is.
func (u *unpacker) enter(name string, size int64) (p string, wanted bool, err error) {
	u.count++
	u.bytes += size
	p = path.Clean("/" + name)[1:]
	switch {
	case u.ctx.Err() != nil:
		return p, false, u.ctx.Err()
	case u.count > maxMembers:
		return p, false, fmt.Errorf("has more than %d files", maxMembers)
	case size < 0 || u.bytes < 0 || u.bytes > maxUnpacked:
		return p, false, fmt.Errorf("unpacks to more than %d bytes", maxUnpacked)
	case len(name) > 4096 || !goodName(path.Base(p)) || !u.takes(p):
		return p, false, nil
	case size > maxMember:
		return p, false, fmt.Errorf("%q in it is longer than %d bytes", p, maxMember)
	case u.seen[p]:
		return p, false, fmt.Errorf("has %q twice", p)
	}
	u.seen[p] = true
	return p, true, nil
}

func (u *unpacker) take(p string, r io.Reader, size int64) error {
	_, sum, n, err := u.put(u.metered(r, path.Base(p), size), size)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%q in it: %w", p, err)
	}
	u.members = append(u.members, member{Path: p, Sum: sum, Size: size})
	return nil
}

// readTar takes the members that are wanted out of a tar.
func (u *unpacker) readTar(r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if (errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)) && u.count == 0 {
			return errors.New("is neither a zip nor a tar (.tar, .tar.gz, .tar.xz, .tar.zst)")
		}
		if err != nil {
			return fmt.Errorf("reading tar: %w", err)
		}
		p, wanted, err := u.enter(h.Name, h.Size)
		if err != nil {
			return err
		}
		if !wanted {
			continue
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = u.take(p, tr, h.Size)
		case tar.TypeSymlink:
			u.members = append(u.members, member{Path: p, Link: h.Linkname})
		case tar.TypeLink:
			u.members = append(u.members, member{Path: p, hard: path.Clean("/" + h.Linkname)[1:]})
		}
		if err != nil {
			return err
		}
	}
}

// linkHard gives hard links their files. It returns an error for a link whose file was not
// taken.
func (u *unpacker) linkHard() error {
	byPath := map[string]member{}
	for _, m := range u.members {
		byPath[m.Path] = m
	}
	kept := u.members[:0]
	for _, m := range u.members {
		if m.hard != "" {
			t, ok := byPath[m.hard]
			if !ok || t.Sum == "" {
				return fmt.Errorf("%q in it is a hard link to %q, which is not taken: unpack it, and say dir:DIR", m.Path, m.hard)
			}
			m.Sum, m.Size = t.Sum, t.Size
		}
		kept = append(kept, m)
	}
	u.members = kept
	return nil
}

func (u *unpacker) readZip(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(f, st.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // enter cleans paths
		return fmt.Errorf("reading zip: %w", err)
	}
	for _, m := range z.File {
		if m.UncompressedSize64 > uint64(maxUnpacked) {
			return fmt.Errorf("unpacks to more than %d bytes", maxUnpacked)
		}
		p, wanted, err := u.enter(m.Name, int64(m.UncompressedSize64))
		if err != nil {
			return err
		}
		if wanted {
			err = u.zipMember(p, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) zipMember(p string, m *zip.File) error {
	mode := m.Mode()
	if mode.IsDir() || mode&os.ModeSymlink == 0 && !mode.IsRegular() {
		return nil
	}
	if m.Flags&1 != 0 {
		return fmt.Errorf("%q in it is encrypted", p)
	}
	rc, err := m.Open()
	if err != nil {
		return fmt.Errorf("%q in it: %w", p, err)
	}
	defer rc.Close()
	if mode&os.ModeSymlink == 0 {
		return u.take(p, rc, int64(m.UncompressedSize64))
	}
	text, err := io.ReadAll(io.LimitReader(rc, 4096))
	if err != nil {
		return fmt.Errorf("%q in it: %w", p, err)
	}
	u.members = append(u.members, member{Path: p, Link: string(text)})
	return nil
}

// fromMembers returns sets of members, directory by directory, and the path and the text of the
// topmost licence.
func (e *env) fromMembers(members []member, release string, r *request) (all []*set, licence, text string, err error) {
	dirs := map[string][]entry{}
	var order []string
	var at member
	for _, m := range members {
		dir := path.Dir(m.Path)
		if isLicence(path.Base(m.Path)) && m.Sum != "" {
			if at.Path == "" || strings.Count(m.Path, "/") < strings.Count(at.Path, "/") {
				at = m
			}
			continue
		}
		if dirs[dir] == nil {
			order = append(order, dir)
		}
		n, err := e.entry(m)
		if err != nil {
			return nil, "", "", fmt.Errorf("reading %s: %w", path.Base(m.Path), err)
		}
		if n.name != "" {
			dirs[dir] = append(dirs[dir], n)
		}
	}
	for _, dir := range order {
		all = append(all, r.sets(dir, release, dirs[dir])...)
	}
	if at.Sum != "" {
		f, err := trust.Open(e.blob(at.Sum))
		if err != nil {
			return nil, "", "", err
		}
		defer f.Close()
		text = licenceText(f)
	}
	return all, at.Path, text, nil
}

// entry returns a member as an entry of its directory; an empty one for a link out of the
// directory.
func (e *env) entry(m member) (entry, error) {
	if m.Sum == "" {
		if m.Link != path.Base(m.Link) {
			return entry{}, nil
		}
		return entry{name: path.Base(m.Path), link: m.Link}, nil
	}
	p := e.blob(m.Sum)
	f, err := trust.Open(p)
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	o, err := elfdeps.Read(bufio.NewReader(f), m.Size)
	if err != nil && !errors.Is(err, elfdeps.ErrNotELF) {
		return entry{}, err
	}
	return entry{
		name: path.Base(m.Path), object: o, size: m.Size, digest: "sha256:" + m.Sum,
		open: func() (io.ReadCloser, error) { return trust.Open(p) },
	}, nil
}

// at says where the archive of a release is, and reports whether others can fetch it from there:
// it has a hash, and needs no login.
func (f *Found) at(u *url.URL) bool {
	if f.Archive.SHA256 == "" || u.User != nil {
		f.Archive = nil
		return false
	}
	f.Archive.URL = u.String()
	return true
}
