package layers

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/inflate"
)

// Bounds of the memory and time that a hostile layer can take. The first ones are
// variables so that tests can reach them.
var (
	maxEntries   = 2 << 20 // of one layer; images of a whole conda distribution have 0.5 million
	maxNames     = int64(256 << 20)
	maxTables    = int64(512 << 20) // bytes of the objects of a layer's ELF files
	maxKeptLayer = int64(128 << 20)
	maxExtracted = int64(96 << 20)  // of those, results of Extract; a machine of 25,000 Python files has 25 MB
	maxSteps     = 1 << 26          // along a layer's symbolic links
	maxSymbols   = int64(512 << 20) // bytes of the symbols of a layer; a CUDA 13 machine has 90 MB
	maxELF       = int64(256 << 30) // bytes of all ELF files of a layer; a tar can declare holes of any size
)

const (
	maxPath     = 4096 // PATH_MAX: no longer path can be opened
	maxKeptFile = 16 << 20
	maxSkipped  = 1000
	maxShebang  = 256 // BINPRM_BUF_SIZE
	maxScript   = 256 << 10
)

// Type is the type of an entry.
type Type uint8

// The types of entries. An implied directory has no entry of its own in the tar, only
// entries below it.
const (
	Regular Type = iota
	Dir
	ImpliedDir
	Symlink
	HardLink // only if its target is not in the same layer
	Other    // a device, a FIFO
)

// Entry is one path of a layer.
type Entry struct {
	Path string // clean, without a leading slash
	Type Type
	// Caps is set when the file has capabilities (security.capability).
	Caps bool        `json:",omitempty"`
	Mode fs.FileMode // permission, set-id and sticky bits
	UID  int
	GID  int
	Size int64 // in bytes, of a regular file
	// Link is a symbolic link's text, or the path of a hard link's target.
	Link string `json:",omitempty"`
	// Inode identifies a file of a layer: hard links share it. For a tar it is the
	// number of the file's header, from 1.
	Inode int
	// Object is the content of an ELF file, as far as loaders use it.
	Object *elfdeps.Object `json:",omitempty"`
	// Fatbin is the GPU code of a file that is containers of it. That of an ELF file is
	// in Object.
	Fatbin *gpucode.Code `json:",omitempty"`
	// Content holds the bytes of a file that is kept, or the result of
	// [Options.Extract]; nil where nothing is kept.
	Content []byte `json:",omitempty"`
	// Shebang is the first line of a script, without the `#!`.
	Shebang string `json:",omitempty"`
	// Fault is the reason why the file's bytes could not be read.
	Fault string `json:",omitempty"`
}

// GPU returns the GPU code that the file carries, or nil.
func (e *Entry) GPU() *gpucode.Code {
	if e.Object != nil {
		return e.Object.GPU
	}
	return e.Fatbin
}

// IsDir reports whether the entry is a directory.
func (e *Entry) IsDir() bool { return e.Type == Dir || e.Type == ImpliedDir }

// Layer is the index of one layer. It does not change after it was read.
type Layer struct {
	// Entries are in the order of their paths, parents before children; one a path.
	Entries []*Entry
	// Whiteouts are the paths that the layer removes from the layers below.
	Whiteouts []string
	// Opaque are the directories that hide those of the layers below.
	Opaque []string
	// Skipped lists the parts of the layer that could not be indexed.
	Skipped []Skip
}

// Skip is a part of a layer that could not be indexed, and why.
type Skip struct {
	Path string
	Why  string
}

// ReadLayer indexes one uncompressed layer tar in one pass and drains r, so
// that a digest over it can be verified. keep is as in [Options.Keep].
func ReadLayer(r io.Reader, keep func(name string, size int64) bool) (*Layer, error) {
	return new(tools).readLayer(r, keep, nil)
}

// ReadHeaders indexes a layer as [ReadLayer] does, without looking at contents: no entry has
// more than its header says.
func ReadHeaders(r io.Reader) (*Layer, error) {
	return new(tools).read(r, &builder{bare: true, root: &item{Entry: Entry{Type: Dir}}})
}

// tools are the buffers and decoders that read one layer after the other, for one
// goroutine at a time. They take up to 30 MB, with a zstd window of the recommended size.
// The zero value is ready.
type tools struct {
	zstd *zstd.Decoder // nil until a layer needs it
	elf  elfdeps.Reader
	file bool // the blob is a file, of which a small read costs little
	// spare reports whether a processor is idle; nil means that one is.
	spare func() bool
	// left is the compressed bytes of the image's layers that are still to be read.
	left *atomic.Int64
	// crew decodes gzip on several processors, unless nil.
	crew *inflate.Crew
	// all counts the bytes of all layers, and budget what they unpack to; nil where one is
	// read alone.
	all    *ledger
	budget *budget
}

func (t *tools) readLayer(r io.Reader, keep keeping, extract extracting) (*Layer, error) {
	return t.read(r, newBuilder(keep, extract, &t.elf))
}

// read adds all of a tar to the layer that b builds.
func (t *tools) read(r io.Reader, b *builder) (*Layer, error) {
	b.held.all, b.budget = t.all, t.budget
	defer b.held.end()
	s := newStream(r)
	s.budget = t.budget
	tr := tar.NewReader(s)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading tar: %w", err)
		}
		if err := b.header(h, tarFile{tr, s}); err != nil {
			return nil, err
		}
	}
	// The bytes after the end of the archive belong to the digest.
	if _, err := io.Copy(io.Discard, s); err != nil {
		return nil, fmt.Errorf("reading tar: %w", err)
	}
	return b.layer(), nil
}

// stream is an uncompressed tar. Most of it is discarded: the rest of a file, which
// archive/tar seeks over, and the parts of a file that its reader discards.
type stream struct {
	skipReader
	pos     int64
	passing bool   // Read discards
	passed  []byte // the buffer of those reads, which stays as it is
	budget  *budget
	counted int64 // of pos, in the budget
	over    error // the budget's
}

// count adds the bytes up to pos to the budget, in steps.
func (s *stream) count() error {
	const step = 1 << 20
	if s.over == nil && s.pos-s.counted >= step {
		s.over = s.budget.unpack(s.pos - s.counted)
		s.counted = s.pos
	}
	return s.over
}

func newStream(r io.Reader) *stream {
	s, ok := r.(skipReader)
	if !ok {
		s = bufio.NewReaderSize(r, aheadSize)
	}
	return &stream{skipReader: s}
}

// Read implements [io.Reader]. While passing is set, b is left as it is.
func (s *stream) Read(b []byte) (n int, err error) {
	if s.over != nil {
		return 0, s.over
	}
	if s.passing {
		n, err = s.Discard(len(b))
	} else {
		n, err = s.skipReader.Read(b)
	}
	s.pos += int64(n)
	if over := s.count(); over != nil {
		return n, over
	}
	return n, err
}

// Seek discards off bytes, for [archive/tar.Reader]. It returns no error: the next read
// returns it again.
func (s *stream) Seek(off int64, _ int) (int64, error) {
	for off > 0 {
		n, err := s.Discard(int(min(off, 4<<20)))
		s.pos += int64(n)
		off -= int64(n)
		if err != nil || s.count() != nil {
			break
		}
	}
	return s.pos, nil
}

// tarFile is the content of the current entry of a tar.
type tarFile struct {
	*tar.Reader
	s *stream
}

// Discard skips n bytes. It reads through the tar, which knows the holes of a sparse
// file.
func (f tarFile) Discard(n int) (int, error) {
	if f.s.passed == nil {
		f.s.passed = make([]byte, aheadSize)
	}
	f.s.passing = true
	defer func() { f.s.passing = false }()
	for left := n; left > 0; {
		m, err := f.Read(f.s.passed[:min(left, len(f.s.passed))])
		if left -= m; err != nil && left > 0 {
			return n - left, err
		}
	}
	return n, nil
}

// begun is a file whose first bytes were read from r already.
type begun struct {
	head []byte
	r    io.Reader
}

// Read implements [io.Reader].
func (f *begun) Read(b []byte) (int, error) {
	if len(f.head) == 0 {
		return f.r.Read(b)
	}
	n := copy(b, f.head)
	f.head = f.head[n:]
	return n, nil
}

// Discard skips n bytes.
func (f *begun) Discard(n int) (int, error) {
	m := min(n, len(f.head))
	f.head = f.head[m:]
	if d, ok := f.r.(interface{ Discard(int) (int, error) }); ok {
		rest, err := d.Discard(n - m)
		return m + rest, err
	}
	rest, err := io.CopyN(io.Discard, f.r, int64(n-m))
	return m + int(rest), err
}

// readBlob indexes a layer as it is stored: gzip, zstd or plain. The blob is read to its
// end even where it makes no sense before: its stream then fails if its bytes do not
// have its digest, which explains more than their form. igzip is as for decompress.
func (t *tools) readBlob(ctx context.Context, r io.Reader, igzip func() string, o *Options) (*Layer, error) {
	if t.budget != nil {
		r = t.budget.compressed(r)
	}
	src := &input{ctx: ctx, r: r}
	// Download and digest overlap with the rest where a processor is free for it.
	// Decompression and indexing take turns: the second is a twentieth of the
	// first, and to hand everything to another core for it costs as much.
	raw := inTurn(src, t.spare)
	l, err := t.readCompressed(raw, igzip, o)
	io.Copy(io.Discard, raw)
	raw.stop() // now no other goroutine reads src
	if src.err != nil {
		return nil, sourceError{src.err}
	}
	return l, err
}

func (t *tools) readCompressed(raw skipReader, igzip func() string, o *Options) (*Layer, error) {
	plain, done, err := t.decompress(raw, igzip)
	if err != nil {
		return nil, err
	}
	defer done()
	return t.readLayer(plain, o.keep, o.Extract)
}

// sourceError is an error of the stream that a blob's bytes come from.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// input is the stream that a blob's bytes come from. It keeps its error apart from errors
// of the layer that the bytes encode.
type input struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *input) Read(b []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(b)
	if err != io.EOF {
		s.err = err
	}
	return n, err
}

// builder unpacks one layer into a tree of entries, in the tar's order, as a
// container runtime unpacks it into an empty directory: a path through a
// symbolic link of the layer leads where the link points, inside the root; a
// directory that is not there is made, whatever the layers below have at its
// path; of two entries the later one counts, and a directory's contents stay
// only under another directory (containerd's applyNaive, Docker's Unpack).
type builder struct {
	keep    keeping
	extract extracting
	bare    bool // contents are not looked at
	root    *item
	skipped []Skip
	skips   int
	seq     int
	items   int
	names   int64 // bytes of the paths and link texts in items
	kept    int64 // bytes of contents
	// extracted is the part of kept that Extract returned.
	extracted int64
	elf       int64 // bytes of ELF files
	tables    int64 // bytes of the objects of ELF files
	symbols   int64 // bytes of their symbols
	steps     int   // along symbolic links
	sparse    int64 // bytes of sparse files that are read
	held      holding
	budget    *budget
	reader    *elfdeps.Reader
	// The directory that was looked up last: a tar has most files side by side.
	lastText string
	last     *item
}

// item is an entry in the tree. A whiteout is an item, too, as in overlayfs.
type item struct {
	Entry
	opaque bool
	kids   map[string]*item
}

// whiteout is the type of an item that is a whiteout; no [Entry] has it.
const whiteout Type = 255

// keeping and extracting are [Options.Keep] and [Options.Extract].
type (
	keeping    = func(name string, size int64) bool
	extracting = func(name string, size int64) func(io.Reader) ([]byte, error)
)

func newBuilder(keep keeping, extract extracting, elf *elfdeps.Reader) *builder {
	return &builder{keep: keep, extract: extract, reader: elf, root: &item{Entry: Entry{Type: Dir}}}
}

func (b *builder) skip(name, why string) {
	if b.skips++; b.skips <= maxSkipped {
		b.skipped = append(b.skipped, Skip{plain.Name(name), why})
	}
}

// header adds one tar entry, whose content r streams. It returns errors of the stream and
// of the layer as a whole only.
func (b *builder) header(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	b.seq++
	name := clean(h.Name)
	if len(name) > maxPath || len(h.Linkname) > maxPath {
		b.skip(name, "its path is longer than any file system allows")
		return b.full()
	}
	if name == "" {
		return b.full() // the root directory itself
	}
	text, base := parent(name), path.Base(name)
	dir := b.dir(text)
	if dir == nil {
		b.skip(name, "its directory is no directory, or a loop of links")
		return b.full()
	}
	if rest, ok := strings.CutPrefix(base, ".wh."); ok {
		b.marker(dir, rest)
		return b.full()
	}
	if dir.Path != text {
		name = join(dir.Path, base)
	}
	e, err := b.entry(name, h, r)
	if err != nil {
		return err
	}
	if e != nil {
		b.put(dir, base, *e)
	}
	return b.full()
}

// full returns an error for a layer that takes too much memory or time.
func (b *builder) full() error {
	switch {
	case b.seq > maxEntries, b.items > maxEntries, b.names > maxNames:
		return fmt.Errorf("has more than %d entries or %d MiB of names", maxEntries, maxNames>>20)
	case b.steps > maxSteps:
		return errors.New("its symbolic links lead through one another without end")
	}
	return b.held.now(int64(b.items)*entryWeight + b.names + b.kept + b.tables + b.symbols)
}

// clean returns the path that a tar name stands for: inside the root whatever the name is,
// without a leading slash.
func clean(name string) string { return path.Clean("/" + name)[1:] }

// dir returns the directory at a path of the layer, links followed. It makes one that is
// not there. It returns nil if a file or a loop of links is in the way.
func (b *builder) dir(text string) *item {
	switch {
	case text == "":
		return b.root
	case b.last != nil && text == b.lastText:
		return b.last
	}
	way := b.walk(text)
	if way == nil {
		return nil
	}
	b.lastText, b.last = text, b.make(way)
	return b.last
}

// step is one directory on the way to another; at is nil where there is none yet.
type step struct {
	name string
	at   *item
}

// walk follows a path from the root, which is the first step. A file on the way is an
// error in make only: containerd takes FILE/../DIR as DIR.
func (b *builder) walk(text string) []step {
	way := []step{{"", b.root}}
	links, rest := 0, strings.Split(text, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			way = way[:max(1, len(way)-1)]
			continue
		}
		next := way[len(way)-1].at.child(part)
		if next == nil || next.Type != Symlink {
			way = append(way, step{part, next})
			continue
		}
		links++
		b.steps += len(rest) + 1
		if links > 255 || len(rest) > maxPath || b.steps > maxSteps {
			return nil
		}
		if strings.HasPrefix(next.Link, "/") {
			way = way[:1]
		}
		rest = append(strings.Split(next.Link, "/"), rest...)
	}
	return way
}

func (it *item) child(name string) *item {
	if it == nil {
		return nil
	}
	return it.kids[name]
}

// make makes the missing directories of a way and returns the last. It returns nil if
// something else is in the way.
func (b *builder) make(way []step) *item {
	for _, s := range way {
		if s.at != nil && !s.at.IsDir() && s.at.Type != whiteout {
			return nil
		}
	}
	at := b.root
	for _, s := range way[1:] {
		if s.at == nil || s.at.Type == whiteout {
			hides := s.at != nil
			s.at = b.put(at, s.name, Entry{Path: join(at.Path, s.name), Type: ImpliedDir, Mode: 0o755})
			s.at.opaque = hides
		}
		at = s.at
	}
	return at
}

// put sets the entry with a name in a directory. A directory that replaces a directory
// keeps its contents.
func (b *builder) put(dir *item, name string, e Entry) *item {
	old := dir.kids[name]
	if old != nil && old.IsDir() && e.IsDir() {
		old.Entry = e
		return old
	}
	if old != nil {
		b.last = nil // its way may have led through old
	}
	b.items++
	b.names += int64(len(e.Path) + len(e.Link))
	if dir.kids == nil {
		dir.kids = map[string]*item{}
	}
	it := &item{Entry: e}
	dir.kids[e.Path[len(e.Path)-len(name):]] = it // shares the path's memory, so that name's is freed
	return it
}

// marker adds a marker of the OCI layer format, without its `.wh.`: `.wh.NAME` removes
// NAME from the layers below, `.wh..wh..opq` hides everything that they have in its
// directory. Both mean the layers below, wherever in the tar they are. Other `.wh..wh.`
// names are AUFS's own bookkeeping.
//
// One case follows the runtimes rather than the format: a directory that comes
// after its own whiteout takes the whiteout's place, and joins the one below it.
// containerd and Docker do this with overlayfs. (They fail on a whiteout that
// comes after its directory, and on a file in a directory that a whiteout alone
// names; there the format's meaning holds.)
func (b *builder) marker(dir *item, rest string) {
	switch {
	case rest == ".wh..opq":
		dir.opaque = true
	case strings.HasPrefix(rest, ".wh."):
	case rest == "", rest == ".", rest == "..":
		b.skip(join(dir.Path, ".wh."+rest), "it is a whiteout of nothing")
	case dir.kids[rest] == nil:
		b.put(dir, rest, Entry{Path: join(dir.Path, rest), Type: whiteout})
	default:
		dir.kids[rest].opaque = true
	}
}

// entry returns the entry of a header; nil for one that is skipped.
func (b *builder) entry(name string, h *tar.Header, r io.Reader) (*Entry, error) {
	e := &Entry{Path: name, Mode: fileMode(h.Mode), UID: h.Uid, GID: h.Gid, Inode: b.seq}
	switch h.Typeflag {
	case tar.TypeReg, '\x00', tar.TypeCont, tar.TypeGNUSparse:
		e.Size = h.Size
		_, e.Caps = h.PAXRecords["SCHILY.xattr.security.capability"]
		if b.bare {
			return e, nil
		}
		if IsSparse(h) {
			return e, b.sparseContent(e, r)
		}
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

// fileMode returns the permission bits of a tar mode.
func fileMode(mode int64) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

// hardLink returns another name of a file. The target's path is relative to the root of
// the layer, not to the link's directory.
func (b *builder) hardLink(e *Entry, target string) *Entry {
	target = clean(target)
	t := b.root
	if target != "" {
		t, target = b.target(target)
	}
	if t == nil {
		e.Type, e.Link = HardLink, target
		return e
	}
	if t.IsDir() {
		b.skip(e.Path, "it is a hard link to a directory")
		return nil
	}
	linked := t.Entry
	linked.Path = e.Path
	return &linked
}

// target returns the item that a hard link's text names, links of its directories
// followed, and its path. It makes no directories.
func (b *builder) target(text string) (*item, string) {
	way := b.walk(parent(text))
	if way == nil {
		return nil, text
	}
	at, p := b.root, ""
	for _, s := range way[1:] {
		at, p = s.at, join(p, s.name)
	}
	base := path.Base(text)
	t := at.child(base)
	if t != nil && t.Type == whiteout {
		t = nil
	}
	return t, join(p, base)
}

// IsSparse reports whether a file may have more bytes than the tar has for it: GNU's formats for
// files with holes (https://www.gnu.org/software/tar/manual/html_node/Sparse-Formats.html).
func IsSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for k := range h.PAXRecords {
		if strings.HasPrefix(k, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// sparseContent does as content, within the bounds of the layer and of the image.
func (b *builder) sparseContent(e *Entry, r io.Reader) error {
	if e.Size > maxSparse-b.sparse {
		e.Fault = fmt.Sprintf("the layer's sparse files have more than %d GiB", maxSparse>>30)
		return nil
	}
	b.sparse += e.Size
	if err := b.budget.holes(e.Size); err != nil {
		return err
	}
	return b.content(e, r)
}

// content reads a regular file as far as it is indexed: an ELF file's tables, a kept
// file's bytes, a script's first line.
func (b *builder) content(e *Entry, r io.Reader) error {
	head := make([]byte, min(e.Size, 64))
	if _, err := io.ReadFull(r, head); err != nil {
		return fmt.Errorf("reading %s: %w", plain.Name(e.Path), err)
	}
	whole := &begun{head, r}
	switch {
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		if e.Size > maxELF-b.elf {
			e.Fault = fmt.Sprintf("the layer's ELF files have more than %d GiB", maxELF>>30)
			return nil
		}
		b.elf += e.Size
		o, err := b.object(e, whole)
		if errors.Is(err, elfdeps.ErrNotELF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", plain.Name(e.Path), err)
		}
		if b.symbols += o.Symbols.Weight(); b.symbols > maxSymbols {
			o.Symbols = nil
			o.Unread = append(o.Unread, elfdeps.Unread{What: "symbols", Why: "are more than are kept of a layer"})
		}
		if b.tables += weight(o); b.tables > maxTables {
			e.Fault = "the layer's ELF files have larger tables than are kept"
			return nil
		}
		e.Object = o
		return nil
	case gpucode.IsFatbin(head):
		code, err := gpucode.ReadFatbin(whole, e.Size)
		if err != nil {
			return fmt.Errorf("reading %s: %w", plain.Name(e.Path), err)
		}
		if b.tables += code.Weight(); b.tables > maxTables {
			e.Fault = "the layer's ELF files have larger tables than are kept"
			return nil
		}
		e.Fatbin = code
		return nil
	case b.keep != nil && (b.keep(e.Path, e.Size) || e.Size <= maxScript && bytes.HasPrefix(head, []byte("#!"))):
		return b.keepContent(e, whole)
	case bytes.HasPrefix(head, []byte("#!")):
		line := make([]byte, min(e.Size, maxShebang))
		if _, err := io.ReadFull(whole, line); err != nil {
			return fmt.Errorf("reading %s: %w", plain.Name(e.Path), err)
		}
		e.Shebang = shebang(line)
	}
	return nil
}

// object reads an ELF file; of a compiler for GPUs also the list of its targets, and of
// PyTorch that of its architectures, which may be anywhere in the file.
func (b *builder) object(e *Entry, r *begun) (*elfdeps.Object, error) {
	var targets gpucode.Targets
	var claims gpucode.Claims
	var to io.Writer
	switch base := path.Base(e.Path); {
	case gpucode.CompilesFor(base):
		to = &targets
	case gpucode.ClaimsCode(base):
		to = &claims
	default:
		return b.reader.ReadSymbols(r, e.Size)
	}
	all := io.TeeReader(io.LimitReader(r, e.Size), to)
	o, err := b.reader.ReadSymbols(all, e.Size)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, all); err != nil {
		return nil, err
	}
	if compiles, claimed := targets.List(), claims.List(); len(compiles)+len(claimed) > 0 {
		if o.GPU == nil {
			o.GPU = new(gpucode.Code)
		}
		o.GPU.Compiles, o.GPU.Claims = compiles, claimed
	}
	return o, nil
}

// weight returns about how many bytes an object holds, without its symbols.
func weight(o *elfdeps.Object) int64 {
	n := len(o.Interp) + len(o.Soname) + len(o.Fault) + len(o.VersionFault)
	lists := [][]string{o.Needed, o.Auxiliary, o.Filter, o.VersionDefs}
	if o.Named != nil {
		lists = append(lists, o.Named.Names, o.Named.Crates, o.Named.Functions, o.Named.Variables)
	}
	if o.Modules != nil {
		lists = append(lists, o.Modules.Names, o.Modules.Idents, o.Modules.Strings)
	}
	if o.Libc != nil {
		n += len(o.Libc.Release)
		lists = append(lists, o.Libc.SystemDirs)
	}
	for _, u := range o.Unread {
		n += 32 + len(u.What) + len(u.Why)
	}
	for _, d := range o.Dlopen {
		n += 72 + len(d.Feature) + len(d.Description) + len(d.Priority)
		lists = append(lists, d.Soname)
	}
	for _, list := range lists {
		for _, s := range list {
			n += 16 + len(s)
		}
	}
	for _, v := range o.VersionNeeds {
		for _, version := range v.Versions {
			n += 24 + len(version.Name)
		}
		n += 40 + len(v.File)
	}
	for _, s := range []*string{o.Rpath, o.Runpath} {
		if s != nil {
			n += len(*s)
		}
	}
	return int64(n) + o.GPU.Weight() + 512
}

func (b *builder) keepContent(e *Entry, r io.Reader) error {
	if b.extract != nil {
		if read := b.extract(e.Path, e.Size); read != nil {
			line := make([]byte, min(e.Size, maxShebang))
			if _, err := io.ReadFull(r, line); err != nil {
				return fmt.Errorf("reading %s: %w", plain.Name(e.Path), err)
			}
			e.Shebang = shebang(line)
			content, err := read(&begun{line, r})
			if err != nil {
				return fmt.Errorf("reading %s: %w", plain.Name(e.Path), err)
			}
			if n := int64(len(content)); b.extracted+n > maxExtracted {
				e.Fault = fmt.Sprintf("what is kept of such files has more than %d MiB in this layer", maxExtracted>>20)
			} else if b.fits(e, n) {
				b.extracted += n
				e.Content = content
			}
			return nil
		}
	}
	if !b.fits(e, e.Size) {
		return nil
	}
	e.Content = make([]byte, e.Size)
	if _, err := io.ReadFull(r, e.Content); err != nil {
		return fmt.Errorf("reading %s: %w", plain.Name(e.Path), err)
	}
	e.Shebang = shebang(e.Content[:min(len(e.Content), maxShebang)])
	return nil
}

// fits reports whether size bytes of a file can be kept, and counts them. If not, it sets
// the file's fault.
func (b *builder) fits(e *Entry, size int64) bool {
	if size > maxKeptFile || b.kept+size > maxKeptLayer {
		e.Fault = fmt.Sprintf("%d bytes are more than are kept of a file or a layer", size)
		return false
	}
	b.kept += size
	return true
}

func shebang(b []byte) string {
	rest, ok := bytes.CutPrefix(b, []byte("#!"))
	if !ok {
		return ""
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return strings.ToValidUTF8(strings.Trim(string(line), " \t"), "") // a carriage return counts (fs/binfmt_script.c)
}

// layer returns the layer of the entries that were added.
func (b *builder) layer() *Layer {
	l := &Layer{Entries: make([]*Entry, 0, b.items)}
	b.list(l, b.root)
	b.finish(l)
	l.linkBack()
	slices.Sort(l.Whiteouts)
	slices.Sort(l.Opaque)
	return l
}

// finish sorts the entries, and adds those that were skipped.
func (b *builder) finish(l *Layer) {
	slices.SortFunc(l.Entries, func(a, b *Entry) int { return strings.Compare(a.Path, b.Path) })
	l.Skipped = b.skipped
	if more := b.skips - len(b.skipped); more > 0 {
		l.Skipped = append(l.Skipped, Skip{"", fmt.Sprintf("%d more entries", more)})
	}
}

// linkBack gives hard links that come before their target in the tar their file.
func (l *Layer) linkBack() {
	for _, e := range l.Entries {
		if e.Type != HardLink {
			continue
		}
		if t := l.find(e.Link); t != nil && !t.IsDir() && t.Type != HardLink {
			name := e.Path
			*e = *t
			e.Path = name
		}
	}
}

func (l *Layer) find(p string) *Entry {
	i, ok := slices.BinarySearchFunc(l.Entries, p, func(e *Entry, p string) int { return strings.Compare(e.Path, p) })
	if !ok {
		return nil
	}
	return l.Entries[i]
}

// list adds the contents of a directory to a layer, and frees the tree.
func (b *builder) list(l *Layer, dir *item) {
	if dir.opaque {
		l.Opaque = append(l.Opaque, dir.Path)
	}
	for _, it := range dir.kids {
		if it.Type == whiteout {
			l.Whiteouts = append(l.Whiteouts, it.Path)
			continue
		}
		l.Entries = append(l.Entries, &it.Entry)
		if it.IsDir() {
			b.list(l, it)
		}
	}
	dir.kids = nil
}

// parent returns the directory of a clean path; that of a top name is "".
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
