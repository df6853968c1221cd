package predict

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyindex"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Limits of a wheel: its files, the bytes of a text that is kept, and of all of them.
const (
	maxMembers = 50_000
	maxText    = 4 << 20
	maxTexts   = 16 << 20
	// maxSources are the bytes of a wheel's sources, as they are stored, up to which they are
	// read: the imports of a package decide which of its libraries are loaded.
	maxSources = 1 << 20
)

// partELF is the number of bytes that the parts of a library take which a loader reads, if the
// library is stored and not compressed, about.
const partELF = 512 << 10

// contents are the files of a wheel.
type contents struct {
	Version  string
	Requires []string `json:",omitempty"`
	Members  []member
}

// member is a file of a wheel, by its path in it.
type member struct {
	Name   string
	Size   int64
	Object *elfdeps.Object `json:"-"`
	Packed []byte          `json:",omitempty"` // Object, in a cache
	Text   []byte          `json:",omitempty"`
	// Unread is why the parts that a loader reads are not known, or "".
	Unread string `json:",omitempty"`
}

var sharedLibrary = regexp.MustCompile(`\.so(\.[0-9.]+)?$`)

// unread returns what is not known of a wheel, in one line, or "".
func (c *contents) unread() string {
	n, first := 0, ""
	for _, m := range c.Members {
		if m.Unread != "" {
			if n++; first == "" {
				first = path.Base(m.Name) + " " + m.Unread
			}
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "what a library needs: " + first
	}
	return fmt.Sprintf("what %d libraries need: %s", n, first)
}

// entries returns the files as pip lays them down:
// https://packaging.python.org/en/latest/specifications/binary-distribution-format/#installing-a-wheel-distribution-1-0-py32-none-any-whl
func (d *distribution) entries(py *python) (list []layers.Entry) {
	for _, m := range d.contents.Members {
		p := path.Join(py.site, m.Name)
		if dir, rest, ok := strings.Cut(m.Name, ".data/"); ok && !strings.Contains(dir, "/") {
			switch kind, below, _ := strings.Cut(rest, "/"); {
			case below == "":
				continue
			case kind == "purelib" || kind == "platlib":
				p = path.Join(py.site, below)
			case kind == "scripts":
				p = path.Join(py.prefix, "bin", below)
			case kind == "data":
				p = path.Join(py.prefix, below)
			default:
				continue
			}
		}
		e := layers.Entry{Path: p, Type: layers.Regular, Mode: 0o644, Size: m.Size, Object: m.Object, Content: m.Text}
		if m.Unread != "" {
			e.Fault = "it was not read: it " + m.Unread
		}
		list = append(list, e)
		if isMetadata(m.Name) { // https://peps.python.org/pep-0376/#installer
			list = append(list, layers.Entry{Path: path.Join(path.Dir(p), "INSTALLER"), Type: layers.Regular, Mode: 0o644, Size: 4, Content: []byte("pip\n")})
			if d.asked {
				list = append(list, layers.Entry{Path: path.Join(path.Dir(p), "REQUESTED"), Type: layers.Regular, Mode: 0o644, Content: []byte{}})
			}
		}
	}
	return list
}

// readFile reads a wheel that is at hand.
func readFile(name string, text []byte, on pyindex.Platform) (*contents, error) {
	if !on.Fits(name) {
		return nil, fmt.Errorf("%s is not for this Python and C library", name)
	}
	c, err := readZip(bytes.NewReader(text), int64(len(text)), 1<<62)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// readWheel reads a wheel of an index, or takes what is kept of it.
func (o *Options) readWheel(ctx context.Context, w *pyindex.Wheel) (*contents, error) {
	key := ""
	if w.SHA256 != "" {
		key = fmt.Sprintf("files of a wheel 2 %s %d, at most %d bytes, sha256:%s", replay.WantsID, elfdeps.CodecVersion, o.Most, w.SHA256)
	}
	if o.Cache != nil && key != "" {
		if doc, ok := o.Cache.Document(key); ok {
			if c, err := unpack(doc); err == nil {
				return c, nil
			}
		}
	}
	parts, err := w.Open(ctx, o.Most)
	if err != nil {
		return nil, err
	}
	c, err := readZip(parts, w.Size, o.Most)
	if o.Fetched != nil {
		o.Fetched(w.File, parts.Fetched())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.File, err)
	}
	c.Version = w.Version
	if o.Cache != nil && key != "" && !slices.ContainsFunc(c.Members, func(m member) bool { return m.Unread == failed }) {
		if doc, err := c.pack(); err == nil {
			_ = o.Cache.PutDocument(key, doc) // a full disk must not stop a lint
		}
	}
	return c, nil
}

// pack returns the contents as a cache keeps them.
func (c *contents) pack() ([]byte, error) {
	out := *c
	out.Members = slices.Clone(c.Members)
	for i := range out.Members {
		m := &out.Members[i]
		if m.Object == nil {
			continue
		}
		var err error
		if m.Packed, err = m.Object.MarshalBinary(); err != nil {
			return nil, err
		}
	}
	return json.Marshal(&out)
}

// unpack reads what pack has written.
func unpack(doc []byte) (*contents, error) {
	c := new(contents)
	if err := json.Unmarshal(doc, c); err != nil {
		return nil, err
	}
	for i := range c.Members {
		m := &c.Members[i]
		if len(m.Packed) == 0 {
			continue
		}
		m.Object = new(elfdeps.Object)
		if err := m.Object.UnmarshalBinary(m.Packed); err != nil {
			return nil, err
		}
		m.Packed = nil
	}
	return c, nil
}

// The reason why a file is not known whose bytes did not come.
const failed = "could not be fetched"

// readZip reads the files of a wheel: the directory, the texts that rules read, and then of the
// libraries, the small ones first, what a loader reads of them.
func readZip(r io.ReaderAt, size, most int64) (*contents, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxMembers {
		return nil, fmt.Errorf("it has more than %d files", maxMembers)
	}
	c := &contents{}
	var texts int64
	libraries, sources := map[int]*zip.File{}, map[int]*zip.File{}
	for _, f := range z.File {
		name := path.Clean(f.Name)
		if f.FileInfo().IsDir() || !f.Mode().IsRegular() || path.IsAbs(name) || name == "." || name == ".." || strings.HasPrefix(name, "../") || f.UncompressedSize64 > 1<<40 {
			continue
		}
		m := member{Name: name, Size: int64(f.UncompressedSize64)}
		switch {
		case sharedLibrary.MatchString(name):
			libraries[len(c.Members)] = f
		case strings.HasSuffix(name, ".py") && wantsText(name, m.Size):
			sources[len(c.Members)] = f
		case strings.Contains(name, ".dist-info/") && wantsText(name, m.Size) && m.Size <= maxText && texts+m.Size <= maxTexts:
			if m.Text, err = readText(f); err != nil {
				return nil, err
			}
			texts += m.Size
			if isMetadata(name) {
				c.Version, c.Requires = pyindex.Metadata(m.Text)
			}
		}
		c.Members = append(c.Members, m)
	}
	if c.Version == "" {
		return nil, errors.New("it has no METADATA")
	}
	left := func() int64 { return most }
	if p, ok := r.(*pyindex.Parts); ok {
		left = func() int64 { return most - p.Fetched() }
	}
	if len(libraries) > 0 {
		c.readSources(sources, left)
	}
	order := make([]int, 0, len(libraries))
	for i := range libraries {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(weight(libraries[a]), weight(libraries[b])), a-b) })
	for _, i := range order {
		m := &c.Members[i]
		m.Object, m.Unread = readLibrary(r, libraries[i], left)
	}
	return c, nil
}

// inSite is a directory of packages, by which the replay tells which files it wants.
const inSite = "usr/lib/python3/site-packages/"

func wantsText(name string, size int64) bool { return replay.Wants(inSite+name, size) }

// readSources reads the sources of a wheel, all or none.
func (c *contents) readSources(sources map[int]*zip.File, left func() int64) {
	var packed int64
	for _, f := range sources {
		packed += int64(min(f.CompressedSize64, 1<<50))
	}
	if packed > maxSources || 2*packed > left() {
		return
	}
	reduce := replay.Extractor()
	texts := map[int][]byte{}
	for _, i := range slices.Sorted(maps.Keys(sources)) {
		r, err := sources[i].Open()
		if err != nil {
			return
		}
		take := reduce(inSite+c.Members[i].Name, c.Members[i].Size)
		if take == nil {
			take = io.ReadAll
		}
		text, err := take(io.LimitReader(r, maxText))
		r.Close()
		if err != nil {
			return
		}
		texts[i] = text
	}
	for i, text := range texts {
		c.Members[i].Text = text
	}
}

func isMetadata(name string) bool {
	return strings.HasSuffix(name, ".dist-info/METADATA") && strings.Count(name, "/") == 1
}

// cost returns about how many bytes are fetched of a library: a compressed one has to be read
// from its beginning.
func cost(f *zip.File) int64 {
	const around = 128 << 10 // what lies beside it in the wheel
	n := int64(min(f.CompressedSize64, 1<<50))
	if f.Method == zip.Store {
		n = min(n, partELF)
	}
	return n + around
}

// weight orders libraries: the small ones as they lie in the wheel, so that one request has
// several, and then the others by their sizes.
func weight(f *zip.File) int64 {
	if n := cost(f); n > fullSize {
		return n
	}
	return 0
}

func readText(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxText))
}

// fullSize is the number of bytes up to which a compressed library is read as a whole.
const fullSize = 1 << 20

// readLibrary reads what a loader reads of a library: of a large one that is compressed from its
// two ends, if they tell. left are the bytes that may be read of the wheel.
func readLibrary(at io.ReaderAt, f *zip.File, left func() int64) (o *elfdeps.Object, unread string) {
	size := int64(f.UncompressedSize64)
	_, remote := at.(*pyindex.Parts)
	if f.Method == zip.Deflate && f.CompressedSize64 > fullSize && remote {
		if o, err := readEnds(at, f, left); err == nil || errors.Is(err, elfdeps.ErrNotELF) {
			return objectOf(o, err)
		}
	}
	if cost(f) > left() {
		return nil, fmt.Sprintf("takes %d MB, which is more than --wheels allows", cost(f)/1e6)
	}
	if f.Method == zip.Store && f.CompressedSize64 == f.UncompressedSize64 {
		off, err := f.DataOffset()
		if err != nil {
			return nil, failed
		}
		if size > fullSize { // its code for GPUs is not read
			o, err = elfdeps.Read(&skipping{r: io.NewSectionReader(at, off, size)}, size)
		} else {
			o, err = new(elfdeps.Reader).ReadSymbols(io.NewSectionReader(at, off, size), size)
		}
		return objectOf(o, err)
	}
	r, err := f.Open()
	if err != nil {
		return nil, failed
	}
	defer r.Close()
	o, err = new(elfdeps.Reader).ReadSymbols(r, size)
	return objectOf(o, err)
}

// objectOf returns an object, or why it is not known. A file that is no ELF file is text or data.
func objectOf(o *elfdeps.Object, err error) (*elfdeps.Object, string) {
	switch {
	case errors.Is(err, elfdeps.ErrNotELF):
		return nil, ""
	case err != nil:
		return nil, failed
	}
	return o, ""
}

// skipping skips bytes without reading them.
type skipping struct{ r *io.SectionReader }

func (s *skipping) Read(b []byte) (int, error) { return s.r.Read(b) }

// Discard skips n bytes.
func (s *skipping) Discard(n int) (int, error) {
	if _, err := s.r.Seek(int64(n), io.SeekCurrent); err != nil {
		return 0, err
	}
	return n, nil
}
