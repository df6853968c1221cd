package patch

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/moby/moby/client"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// archive is an image as `docker save` writes it: a tar, in a file or from a
// daemon, with manifest.json
// (https://github.com/moby/docker-image-spec/blob/main/spec.md). It has no
// manifest with digests of compressed layers, so that it is known by its
// config's digest, which Docker calls the image's ID.
type archive struct {
	open   func(ctx context.Context) (io.ReadCloser, error) // the plain tar, from its start
	daemon *client.Client
	ref    string // in the daemon
	entry  archiveEntry
	layers []string // the names of the files, links followed
	config []byte
}

// archiveEntry is one image of manifest.json.
type archiveEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// place is empty: an archive has no name that means anything elsewhere.
func (a *archive) place() string { return "" }

// errNoManifest is what an archive's parts are asked for that it does not have.
var errNoManifest = errors.New("a docker archive has no manifest")

func (a *archive) manifest(context.Context, v1.Hash) ([]byte, types.MediaType, error) {
	return nil, "", errNoManifest
}

func (a *archive) blob(context.Context, v1.Descriptor) (io.ReadCloser, error) {
	return nil, errNoManifest
}

func (b *Base) openArchive(ctx context.Context, scheme, rest string, o Options) error {
	a := &archive{}
	var tag string
	var err error
	if scheme == "docker" {
		a.ref = rest
		if a.daemon, err = layers.Daemon(); err != nil {
			return fmt.Errorf("DOCKER_HOST: %w: write it like unix:///var/run/docker.sock", err)
		}
		a.open = a.save
	} else {
		var file string
		file, tag = layers.SplitTag(rest)
		a.open = func(context.Context) (io.ReadCloser, error) { return openPlain(file) }
	}
	return b.readArchive(ctx, a, tag, o)
}

func (b *Base) readArchive(ctx context.Context, a *archive, tag string, o Options) error {
	if err := a.read(ctx, tag); err != nil {
		return err
	}
	cfg, err := v1.ParseConfigFile(bytes.NewReader(a.config))
	if err != nil {
		return fmt.Errorf("reading the config: %w", err)
	}
	if len(cfg.RootFS.DiffIDs) != len(a.layers) {
		return fmt.Errorf("the config lists %d layers, manifest.json %d: the archive is damaged", len(cfg.RootFS.DiffIDs), len(a.layers))
	}
	img := &Image{ref: b.Ref, src: a, Config: cfg, rawConfig: a.config, Digest: digestOf(a.config).String()}
	if p := cfg.Platform(); p != nil {
		img.Platform = *p
	}
	if o.Platform != nil && !img.Platform.Satisfies(*o.Platform) {
		return fmt.Errorf("is for %s, not for %s", img.Platform.String(), o.Platform.String())
	}
	if m := img.mark(); m.whole {
		o.note(fmt.Sprintf("%s is a patched image; an archive does not keep the origin (%s), so it is patched as it is", b.Ref, m.origin))
	}
	b.Digest, b.Images, b.archive = img.Digest, []*Image{img}, a
	return nil
}

func (a *archive) save(ctx context.Context) (io.ReadCloser, error) {
	return layers.Save(ctx, a.daemon, a.ref)
}

// What compressed files begin with (RFC 1952, RFC 8878).
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// openPlain opens a tar that may be compressed as a whole.
func openPlain(file string) (io.ReadCloser, error) {
	st, err := os.Stat(file)
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", file)
	}
	if err != nil {
		return nil, plain(err)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, plain(err)
	}
	r := bufio.NewReaderSize(f, 256<<10)
	head, _ := r.Peek(4)
	var in io.Reader = r
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		in, err = gzip.NewReader(r)
	case bytes.HasPrefix(head, zstdMagic):
		var d *zstd.Decoder
		if d, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30)); err == nil {
			in = d.IOReadCloser()
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{in, f}, nil
}

// each calls f with every file of the archive; links are told as what they lead
// to, with a nil reader.
func (a *archive) each(ctx context.Context, f func(h *tar.Header, name, link string, r io.Reader) error) error {
	rc, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer rc.Close()
	tr := tar.NewReader(&until{ctx, rc})
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if n > 1<<20 {
			return errors.New("reading the archive: too many entries for an image")
		}
		name, link := clean(h.Name), ""
		switch h.Typeflag {
		case tar.TypeReg:
		case tar.TypeSymlink:
			link = clean(path.Join(path.Dir(name), h.Linkname))
		case tar.TypeLink:
			link = clean(h.Linkname)
		default:
			continue
		}
		if err := f(h, name, link, tr); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// until reads until a context is done: what is compressed may have no end.
type until struct {
	ctx context.Context
	r   io.Reader
}

func (u *until) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// read finds the image with a tag, or the only one.
func (a *archive) read(ctx context.Context, tag string) error {
	docs, links, large, held := map[string][]byte{}, map[string]string{}, map[string]int64{}, int64(0)
	err := a.each(ctx, func(h *tar.Header, name, link string, r io.Reader) error {
		delete(docs, name) // the last of a name counts
		delete(links, name)
		delete(large, name)
		if link != "" {
			links[name] = link
			return nil
		}
		if h.Size > maxDocument || held+h.Size > maxDocuments {
			large[name] = h.Size
			return nil
		}
		br := bufio.NewReaderSize(r, 512)
		if head, _ := br.Peek(1); len(head) == 0 || head[0] != '{' && head[0] != '[' {
			return nil
		}
		held += h.Size
		b, err := io.ReadAll(br)
		docs[name] = b
		return err
	})
	if err != nil {
		return err
	}
	tooLarge := func(name string) error {
		return fmt.Errorf("%s is %d bytes long, more than the %d that are read", layers.Escaped(name), large[name], maxDocument)
	}
	raw, ok := docs["manifest.json"]
	if large["manifest.json"] > 0 {
		return tooLarge("manifest.json")
	}
	if !ok {
		return errors.New("is no docker archive: it has no manifest.json (docker save writes one, docker export does not)")
	}
	if err := a.choose(raw, tag); err != nil {
		return err
	}
	for _, name := range a.entry.Layers {
		a.layers = append(a.layers, follow(links, name))
	}
	config := follow(links, a.entry.Config)
	if large[config] > 0 {
		return tooLarge(config)
	}
	if a.config, ok = docs[config]; !ok {
		return fmt.Errorf("the config %q is not in it: the archive is damaged", a.entry.Config)
	}
	base, _, _ := strings.Cut(path.Base(a.entry.Config), ".")
	if _, err := hex.DecodeString(base); err == nil && len(base) == 64 && base != digestOf(a.config).Hex {
		return fmt.Errorf("the config has the digest %s, not sha256:%s: the archive is damaged", digestOf(a.config), base)
	}
	return nil
}

func follow(links map[string]string, name string) string {
	name = clean(name)
	for range 40 {
		to, ok := links[name]
		if !ok {
			break
		}
		name = to
	}
	return name
}

func (a *archive) choose(raw []byte, tag string) error {
	var list []archiveEntry
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	var have []string
	for _, e := range list {
		have = append(have, e.RepoTags...)
	}
	slices.Sort(have)
	if len(list) == 1 && tag == "" {
		a.entry = list[0]
		return nil
	}
	if tag == "" {
		return fmt.Errorf("the archive has %d images: say which, as docker-archive:FILE:REF, of %q", len(list), have)
	}
	for _, e := range list {
		for _, t := range e.RepoTags {
			if t == tag || strings.HasSuffix(t, "/"+tag) || t == tag+":latest" {
				a.entry = e
				return nil
			}
		}
	}
	return fmt.Errorf("the archive has no image %q: it has %q", tag, have)
}

// publishArchive writes one patched image as a docker archive, into a file or
// into a daemon.
func publishArchive(ctx context.Context, patched []*Patched, scheme, rest string, o Options) (string, error) {
	if len(patched) != 1 {
		return "", fmt.Errorf("holds one image, and %d were patched: choose one with --platform", len(patched))
	}
	p := patched[0]
	id := digestOf(p.Config).String()
	if scheme == "docker-archive" {
		file, ref := splitTarget(rest)
		tags := p.tags()
		if ref != "" {
			tags = []string{withTag(ref)}
		}
		err := writeFile(file, func(w io.Writer) error { return p.writeArchive(ctx, w, tags, o) })
		return "docker-archive:" + rest + "@" + id, err
	}
	c, err := layers.Daemon()
	if err != nil {
		return "", fmt.Errorf("DOCKER_HOST: %w: write it like unix:///var/run/docker.sock", err)
	}
	return "docker:" + rest + "@" + id, p.load(ctx, c, withTag(rest), o)
}

// splitTarget splits FILE[:REF], where the file need not be there yet: it ends
// at the first colon in a name below a directory that is there.
func splitTarget(s string) (file, ref string) {
	if _, err := os.Stat(s); err == nil {
		return s, ""
	}
	for i, c := range s {
		if c != ':' {
			continue
		}
		if st, err := os.Stat(filepath.Dir(s[:i])); err == nil && st.IsDir() {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

func (p *Patched) tags() []string {
	if a, ok := p.Base.src.(*archive); ok && a.entry.RepoTags != nil {
		return a.entry.RepoTags
	}
	return []string{}
}

// withTag is a name with a tag, as manifest.json has it.
func withTag(ref string) string {
	if strings.Contains(path.Base(ref), ":") {
		return ref
	}
	return ref + ":latest"
}

func (p *Patched) load(ctx context.Context, c *client.Client, ref string, o Options) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(p.writeArchive(ctx, w, []string{ref}, o)) }()
	res, err := c.ImageLoad(ctx, r)
	r.CloseWithError(errors.New("the daemon has closed the connection"))
	if err != nil {
		return layers.DaemonError(c, err)
	}
	defer res.Close()
	dec := json.NewDecoder(io.LimitReader(res, maxDocument))
	for {
		var line struct {
			Error string `json:"error"`
		}
		if err := dec.Decode(&line); err != nil {
			break // what else a daemon says is no JSON with some
		}
		if line.Error != "" {
			return fmt.Errorf("the daemon could not load it: %s", strings.Join(strings.Fields(line.Error), " "))
		}
	}
	if _, err := c.ImageInspect(ctx, ref); err != nil {
		return layers.DaemonError(c, err)
	}
	return nil
}

// archiveWriter writes the files of a docker archive, each once.
type archiveWriter struct {
	tw   *tar.Writer
	done map[string]bool // by name: whether it is compressed
}

func (w *archiveWriter) file(name string, size int64, r io.Reader) error {
	if _, ok := w.done[name]; ok {
		return nil
	}
	br := bufio.NewReader(r)
	head, _ := br.Peek(4)
	w.done[name] = bytes.HasPrefix(head, gzipMagic) || bytes.HasPrefix(head, zstdMagic)
	if err := w.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	_, err := io.Copy(w.tw, br)
	return err
}

// writeArchive writes the layers, then config and manifest.json. Of an archive's
// other files index.json must not stay: newer Dockers would load the image that
// it names, which is the old one.
func (p *Patched) writeArchive(ctx context.Context, out io.Writer, tags []string, o Options) error {
	w := &archiveWriter{tar.NewWriter(out), map[string]bool{}}
	names, err := p.writeLayers(ctx, w, o)
	if err != nil {
		return err
	}
	config := digestOf(p.Config)
	if err := w.file(blobPath(config), int64(len(p.Config)), bytes.NewReader(p.Config)); err != nil {
		return err
	}
	m := encode([]archiveEntry{{Config: blobPath(config), RepoTags: tags, Layers: names}})
	if err := w.file("manifest.json", int64(len(m)), strings.NewReader(m)); err != nil {
		return err
	}
	return w.tw.Close()
}

func (p *Patched) writeLayers(ctx context.Context, w *archiveWriter, o Options) (names []string, err error) {
	if a, ok := p.Base.src.(*archive); ok {
		names = slices.Clone(a.layers)
		err = a.copyLayers(ctx, w)
	} else {
		names, err = p.copyStored(ctx, w, o)
	}
	if err != nil || p.layer == nil {
		return names, err
	}
	// go-containerregistry takes all layers to be as the first one is.
	open, digest, size := p.layer.Uncompressed, p.layer.diffID, p.layer.plainSize
	if len(names) > 0 && w.done[names[0]] {
		open, digest, size = p.layer.Compressed, p.layer.digest, p.layer.spool.size
	}
	rc, err := open()
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	name := blobPath(digest)
	return append(names, name), w.file(name, size, &until{ctx, rc})
}

// copyLayers copies the layers of an archive into another.
func (a *archive) copyLayers(ctx context.Context, w *archiveWriter) error {
	wanted := map[string]bool{}
	for _, name := range a.layers {
		wanted[name] = true
	}
	err := a.each(ctx, func(h *tar.Header, name, link string, r io.Reader) error {
		if link != "" || !wanted[name] {
			return nil
		}
		return w.file(name, h.Size, r)
	})
	for _, name := range a.layers {
		if _, ok := w.done[name]; err == nil && !ok {
			err = fmt.Errorf("layer %q is not in it: the archive is damaged", name)
		}
	}
	return err
}

// copyStored copies the layers of a registry or layout into an archive, as they
// are stored.
func (p *Patched) copyStored(ctx context.Context, w *archiveWriter, o Options) (names []string, err error) {
	_, local := p.Base.src.(*layout)
	for _, d := range p.Base.manifest.Layers {
		name := blobPath(d.Digest)
		names = append(names, name)
		if _, ok := w.done[name]; ok {
			continue
		}
		g := &guarded{ctx: ctx, src: p.Base.src, d: d, allow: o.AllowCopy || local, why: "an archive holds all layers"}
		rc, err := g.Compressed()
		if err != nil {
			return nil, err
		}
		err = w.file(name, d.Size, &until{ctx, rc})
		rc.Close()
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// undo tags the origin in the daemon, which keeps images without a name until
// they are pruned.
func (a *archive) undo(ctx context.Context) (string, error) {
	cfg, err := v1.ParseConfigFile(bytes.NewReader(a.config))
	if err != nil {
		return "", fmt.Errorf("reading the config: %w", err)
	}
	img := &Image{Config: cfg, rawConfig: a.config}
	origin, err := img.mark().undoable()
	switch {
	case err != nil:
		return "", err
	case a.daemon == nil:
		return "", fmt.Errorf("an archive does not keep the origin (%s): use the one that the patch was made of", origin)
	}
	if _, err := a.daemon.ImageTag(ctx, client.ImageTagOptions{Source: origin, Target: a.ref}); err != nil {
		return "", fmt.Errorf("the origin %s: %w", origin, layers.DaemonError(a.daemon, err))
	}
	return "docker:" + a.ref + "@" + origin, nil
}
