package layers

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Limits on what a hostile layer can make us hold.
const (
	maxEntries    = 4 << 20   // entries of one layer
	maxNameBytes  = 512 << 20 // of all their names
	maxPath       = 4096      // PATH_MAX: no longer path can be opened
	maxKeptFile   = 16 << 20
	maxKeptLayer  = 128 << 20
	maxSkipped    = 1000
	maxShebang    = 256 // BINPRM_BUF_SIZE
	maxZstdWindow = 128 << 20
)

// Type is what an entry is.
type Type uint8

// The types of entries. An implied directory has no entry of its own in the
// tar: something below it has.
const (
	Regular Type = iota
	Dir
	ImpliedDir
	Symlink
	HardLink // only when its target is not in the same layer
	Other    // a device, a FIFO
)

// Entry is one path of a layer.
type Entry struct {
	Path string // clean, without a leading slash
	Type Type
	Mode fs.FileMode // permission, set-id and sticky bits
	UID  int
	GID  int
	Size int64 // in bytes, of a regular file
	// Link is a symbolic link's text, or the path of a hard link's target.
	Link string `json:",omitempty"`
	// Inode tells the files of a layer apart: hard links share it.
	Inode int
	// Caps is set when the file has capabilities (security.capability).
	Caps bool `json:",omitempty"`
	// Object is what was read of an ELF file.
	Object *elfdeps.Object `json:",omitempty"`
	// Content holds the bytes of a file that was to be kept.
	Content []byte `json:",omitempty"`
	// Shebang is the first line of a script, without the `#!`.
	Shebang string `json:",omitempty"`
	// Fault says why the file's bytes could not be looked at.
	Fault string `json:",omitempty"`
}

// IsDir reports whether the entry is a directory.
func (e *Entry) IsDir() bool { return e.Type == Dir || e.Type == ImpliedDir }

// Layer is the index of one layer. It is not changed after it was read.
type Layer struct {
	// Entries in the order of their paths, parents before children; one a path.
	Entries []Entry
	// Whiteouts are the paths that the layer removes from those below.
	Whiteouts []string
	// Opaque are the directories of which nothing below shows.
	Opaque []string
	// Skipped lists what the layer holds and the index does not.
	Skipped []Skip
}

// Skip is a part of a layer that could not be indexed, and why.
type Skip struct {
	Path string
	Why  string
}

// ReadLayer indexes one uncompressed layer tar in one pass and drains r, so
// that a digest over it can be verified. keep tells the files whose bytes are
// to be kept.
func ReadLayer(r io.Reader, keep func(name string, size int64) bool) (*Layer, error) {
	b := newBuilder(keep)
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading tar: %w", err)
		}
		if err := b.header(h, tr); err != nil {
			return nil, err
		}
	}
	// What follows the end of the archive belongs to the digest.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, fmt.Errorf("reading tar: %w", err)
	}
	return b.layer(), nil
}

// readBlob indexes a layer as it is stored: gzip, zstd or plain. verify, when
// not empty, is the digest that the stored bytes must have.
func readBlob(ctx context.Context, r io.Reader, verify string, keep func(string, int64) bool) (*Layer, error) {
	var sum hash.Hash
	if verify != "" {
		sum = sha256.New()
		r = io.TeeReader(r, sum)
	}
	raw := bufio.NewReaderSize(readerFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(b)
	}), 256<<10)
	plain, done, err := decompress(raw)
	if err != nil {
		return nil, err
	}
	l, err := ReadLayer(plain, keep)
	done()
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, raw); err != nil {
		return nil, err
	}
	if sum != nil {
		if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != verify {
			return nil, fmt.Errorf("its bytes have the digest %s, not %s: the image is damaged", got, verify)
		}
	}
	return l, nil
}

var (
	magicGzip  = []byte{0x1f, 0x8b}
	magicZstd  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	magicBzip2 = []byte("BZh")
	magicXz    = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
)

// decompress looks at the first bytes, not at a media type: docker archives do
// not have one, and some registries' are wrong.
func decompress(r *bufio.Reader) (io.Reader, func(), error) {
	nothing := func() {}
	head, _ := r.Peek(6)
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nothing, fmt.Errorf("decompressing gzip: %w", err)
		}
		return z, nothing, nil
	case bytes.HasPrefix(head, magicZstd), len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nothing, fmt.Errorf("decompressing zstd: %w", err)
		}
		return z, z.Close, nil
	case bytes.HasPrefix(head, magicBzip2), bytes.HasPrefix(head, magicXz):
		return nil, nothing, errors.New("is compressed with bzip2 or xz, which imgcheck does not read; store it as gzip or zstd")
	}
	return r, nothing, nil
}

// builder collects the entries of one layer. Names are resolved within the
// layer: a path through a symbolic link of the same layer leads where the link
// points, as for whoever unpacks it.
type builder struct {
	keep      func(string, int64) bool
	entries   map[string]*Entry
	order     map[string]int  // when a path was last written
	parents   map[string]bool // paths that have had something below them
	replaced  map[string]int  // when a directory at a path was replaced by something else
	whiteouts map[string]bool
	opaque    map[string]bool
	skipped   []Skip
	skips     int
	dirs      map[string]string // resolved directories; void after a new link
	seq       int
	names     int64
	kept      int64
}

func newBuilder(keep func(string, int64) bool) *builder {
	return &builder{
		keep: keep, entries: map[string]*Entry{}, order: map[string]int{}, parents: map[string]bool{}, replaced: map[string]int{},
		whiteouts: map[string]bool{}, opaque: map[string]bool{}, dirs: map[string]string{},
	}
}

func (b *builder) skip(name, why string) {
	if b.skips++; b.skips <= maxSkipped {
		b.skipped = append(b.skipped, Skip{printable(name), why})
	}
}

// printable makes a name from an archive safe to print and to write as JSON.
func printable(name string) string {
	if len(name) > 300 {
		name = name[:300] + "…"
	}
	return strings.ToValidUTF8(name, string(utf8.RuneError))
}

// header takes one tar entry, whose content r streams. Errors are those of the
// stream and of the layer as a whole.
func (b *builder) header(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	b.seq++
	b.names += int64(len(h.Name) + len(h.Linkname))
	if b.seq > maxEntries || b.names > maxNameBytes {
		return fmt.Errorf("has more than %d entries or %d MiB of names", maxEntries, maxNameBytes>>20)
	}
	name := clean(h.Name)
	if len(name) > maxPath || len(h.Linkname) > maxPath {
		b.skip(name, "its path is longer than any file system allows")
		return nil
	}
	if name == "" {
		return nil // the root directory itself
	}
	name, ok := b.place(name)
	if !ok {
		return nil
	}
	if b.whiteout(name) {
		return nil
	}
	e, err := b.entry(name, h, r)
	if err != nil || e == nil {
		return err
	}
	b.put(e)
	return nil
}

// clean is the path that a tar name stands for: inside the root whatever it
// says, without a leading slash.
func clean(name string) string { return path.Clean("/" + name)[1:] }

// place resolves the directory part of name through the layer's own links.
func (b *builder) place(name string) (string, bool) {
	dir, base := path.Split(name)
	real, ok := b.resolve(strings.TrimSuffix(dir, "/"))
	if !ok {
		b.skip(name, "its directory is no directory, or a loop of links")
		return "", false
	}
	return path.Join(real, base), true
}

// resolve follows the layer's symbolic links in a directory path.
func (b *builder) resolve(dir string) (string, bool) {
	if dir == "" {
		return "", true
	}
	if real, ok := b.dirs[dir]; ok {
		return real, real != "\x00"
	}
	real, ok := b.walk(dir)
	if !ok {
		b.dirs[dir] = "\x00" // no path: a name cannot hold it
		return "", false
	}
	b.dirs[dir] = real
	return real, true
}

func (b *builder) walk(dir string) (string, bool) {
	cur, rest := "", strings.Split(dir, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			cur = parent(cur)
			continue
		}
		next := join(cur, part)
		e := b.entries[next]
		switch {
		case e == nil || e.IsDir():
			cur = next
		case e.Type == Symlink:
			if links++; links > 255 || len(rest) > maxPath {
				return "", false
			}
			if strings.HasPrefix(e.Link, "/") {
				cur = ""
			}
			rest = append(strings.Split(e.Link, "/"), rest...)
		default:
			return "", false
		}
	}
	return cur, true
}

// whiteout takes the markers of the OCI layer format: `.wh.NAME` removes NAME
// from the layers below, `.wh..wh..opq` hides all that they have in its
// directory, wherever in the tar it stands. Other `.wh..wh.` names are AUFS's
// own bookkeeping.
func (b *builder) whiteout(name string) bool {
	dir, base := path.Split(name)
	rest, ok := strings.CutPrefix(base, ".wh.")
	if !ok {
		return false
	}
	switch {
	case base == ".wh..wh..opq":
		b.opaque[strings.TrimSuffix(dir, "/")] = true
	case strings.HasPrefix(rest, ".wh."):
	case rest == "", rest == ".", rest == "..":
		b.skip(name, "it is a whiteout of nothing")
	default:
		b.whiteouts[dir+rest] = true
	}
	return true
}

// entry makes the entry of a header; nil for one that cannot be kept.
func (b *builder) entry(name string, h *tar.Header, r io.Reader) (*Entry, error) {
	e := &Entry{Path: name, Mode: fileMode(h.Mode), UID: h.Uid, GID: h.Gid, Inode: b.seq}
	switch h.Typeflag {
	case tar.TypeReg, '\x00', tar.TypeCont, tar.TypeGNUSparse:
		e.Size = h.Size
		_, e.Caps = h.PAXRecords["SCHILY.xattr.security.capability"]
		return e, b.content(e, r)
	case tar.TypeDir:
		e.Type = Dir
	case tar.TypeSymlink:
		e.Type, e.Link = Symlink, h.Linkname
	case tar.TypeLink:
		return b.hardLink(e, h.Linkname), nil
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		e.Type = Other
	default:
		b.skip(name, fmt.Sprintf("its tar type %q is not known", h.Typeflag))
		return nil, nil
	}
	return e, nil
}

// fileMode takes the permission bits of a tar mode.
func fileMode(mode int64) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

// hardLink makes another name of a file. The target's path counts from the
// root of the layer, not from the link's directory.
func (b *builder) hardLink(e *Entry, target string) *Entry {
	target, ok := b.place(clean(target))
	if !ok {
		return nil
	}
	t := b.entries[target]
	if t == nil {
		e.Type, e.Link = HardLink, target
		return e
	}
	if t.IsDir() {
		b.skip(e.Path, "it is a hard link to a directory")
		return nil
	}
	linked := *t
	linked.Path = e.Path
	return &linked
}

// content reads what is wanted of a regular file: an ELF file's tables, a kept
// file's bytes, a script's first line.
func (b *builder) content(e *Entry, r io.Reader) error {
	head := make([]byte, min(e.Size, 64))
	if _, err := io.ReadFull(r, head); err != nil {
		return fmt.Errorf("reading %s: %w", printable(e.Path), err)
	}
	whole := io.MultiReader(bytes.NewReader(head), r)
	switch {
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		o, err := elfdeps.Read(whole, e.Size)
		if errors.Is(err, elfdeps.ErrNotELF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", printable(e.Path), err)
		}
		e.Object = o
		return nil
	case b.keep != nil && b.keep(e.Path, e.Size):
		return b.keepContent(e, whole)
	case bytes.HasPrefix(head, []byte("#!")):
		line := make([]byte, min(e.Size, maxShebang))
		if _, err := io.ReadFull(whole, line); err != nil {
			return fmt.Errorf("reading %s: %w", printable(e.Path), err)
		}
		e.Shebang = shebang(line)
	}
	return nil
}

func (b *builder) keepContent(e *Entry, r io.Reader) error {
	if e.Size > maxKeptFile || b.kept+e.Size > maxKeptLayer {
		e.Fault = fmt.Sprintf("%d bytes are more than are kept of a file or a layer", e.Size)
		return nil
	}
	b.kept += e.Size
	e.Content = make([]byte, e.Size)
	if _, err := io.ReadFull(r, e.Content); err != nil {
		return fmt.Errorf("reading %s: %w", printable(e.Path), err)
	}
	e.Shebang = shebang(e.Content[:min(len(e.Content), maxShebang)])
	return nil
}

func shebang(b []byte) string {
	rest, ok := bytes.CutPrefix(b, []byte("#!"))
	if !ok {
		return ""
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return strings.ToValidUTF8(strings.TrimSpace(string(line)), "")
}

// put adds an entry over what stands at its path: of two, the later one counts,
// and a directory keeps what is in it only under another directory.
func (b *builder) put(e *Entry) {
	old := b.entries[e.Path]
	hides := !e.IsDir() && b.parents[e.Path]
	if hides {
		b.replaced[e.Path] = b.seq
	}
	if hides || e.Type == Symlink || old != nil && old.IsDir() != e.IsDir() {
		clear(b.dirs)
	}
	b.entries[e.Path] = e
	b.order[e.Path] = b.seq
	for d := parent(e.Path); d != "" && !b.parents[d]; d = parent(d) {
		b.parents[d] = true
	}
}

// layer sorts out what was collected.
func (b *builder) layer() *Layer {
	gone := b.goneDirs()
	for p := range b.entries {
		if at, ok := gone(parent(p)); ok && at > b.order[p] {
			delete(b.entries, p)
		}
	}
	b.imply()
	l := &Layer{
		Whiteouts: slices.Sorted(maps.Keys(b.whiteouts)), Opaque: slices.Sorted(maps.Keys(b.opaque)), Skipped: b.skipped,
	}
	l.Entries = make([]Entry, 0, len(b.entries))
	for _, p := range slices.Sorted(maps.Keys(b.entries)) {
		l.Entries = append(l.Entries, *b.entries[p])
	}
	if more := b.skips - len(b.skipped); more > 0 {
		l.Skipped = append(l.Skipped, Skip{"", fmt.Sprintf("%d more entries", more)})
	}
	return l
}

// goneDirs tells for a directory when it, or one above it, was last replaced by
// something that is no directory.
func (b *builder) goneDirs() func(dir string) (int, bool) {
	memo := map[string]int{}
	var gone func(dir string) int
	gone = func(dir string) int {
		if dir == "" {
			return 0
		}
		if at, ok := memo[dir]; ok {
			return at
		}
		at := max(b.replaced[dir], gone(parent(dir)))
		memo[dir] = at
		return at
	}
	return func(dir string) (int, bool) { at := gone(dir); return at, at > 0 }
}

// imply adds the directories that have no entry of their own.
func (b *builder) imply() {
	for _, p := range slices.Collect(maps.Keys(b.entries)) {
		for d := parent(p); d != "" && b.entries[d] == nil; d = parent(d) {
			b.entries[d] = &Entry{Path: d, Type: ImpliedDir, Mode: 0o755}
		}
	}
}

// parent is the directory of a clean path; that of a top name is "".
func parent(p string) string {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return ""
	}
	return p[:i]
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
