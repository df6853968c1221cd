package patch

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/client"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// archive is an image as docker save writes it, in a file or from a daemon. It has no
// manifest with digests of layers, so that its name is its config's digest, which Docker
// calls the image's ID.
type archive struct {
	open   func(ctx context.Context) (io.ReadCloser, error) // the plain tar, from its start
	daemon *client.Client
	ref    string // in the daemon
	tag    string // in the file
	saved  *source.Saved
}

// archiveEntry is one image of manifest.json.
type archiveEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (b *Base) openArchive(ctx context.Context, scheme, rest string, o Options) error {
	a := &archive{}
	if scheme == "docker" {
		var err error
		a.ref = rest
		if a.daemon, err = source.Daemon(); err != nil {
			return err
		}
		a.open = func(ctx context.Context) (io.ReadCloser, error) { return source.Save(ctx, a.daemon, a.ref) }
	} else {
		var file string
		file, a.tag = source.SplitTag(rest)
		a.open = func(context.Context) (io.ReadCloser, error) { return openPlain(file) }
	}
	return b.readArchive(ctx, a, o)
}

func (b *Base) readArchive(ctx context.Context, a *archive, o Options) error {
	err := a.read(ctx, nil)
	if err != nil {
		return err
	}
	found := &source.Image{Ref: b.Ref, RawConfig: a.saved.RawConfig, Digest: digestOf(a.saved.RawConfig).String()}
	if found.Config, err = v1.ParseConfigFile(bytes.NewReader(found.RawConfig)); err != nil {
		return fmt.Errorf("reading the config: %w", err)
	}
	img := &Image{Image: found, archive: a}
	img.setPlatform()
	if err := img.checkPlatform(o); err != nil {
		return err
	}
	if m := img.mark(); m.whole {
		o.note(fmt.Sprintf("%s is a patched image; an archive does not keep the origin (%s), so it is patched as it is", b.Ref, m.origin))
	}
	b.Digest, b.Images, b.archive = img.Digest, []*Image{img}, a
	return nil
}

// read reads the archive to its end; take is as in [source.ReadSaved].
func (a *archive) read(ctx context.Context, take func(f source.TarFile, r io.Reader) error) error {
	rc, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer rc.Close()
	a.saved, err = source.ReadSaved(ctx, rc, a.tag, take)
	return err
}

// openPlain opens a tar that may be compressed as a whole.
func openPlain(file string) (io.ReadCloser, error) {
	st, err := os.Stat(file)
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", file)
	}
	if err != nil {
		return nil, source.PathError(err)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, source.PathError(err)
	}
	unpacked, err := layers.Unpack(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &plainFile{unpacked, f}, nil
}

// plainFile is a file, unpacked.
type plainFile struct {
	io.ReadCloser
	f *os.File
}

// Close implements [io.Closer].
func (p *plainFile) Close() error {
	p.ReadCloser.Close()
	return p.f.Close()
}

// until reads until a context is done: a compressed file may have no end.
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
	c, err := source.Daemon()
	if err != nil {
		return "", err
	}
	return "docker:" + rest + "@" + id, p.load(ctx, c, withTag(rest), o)
}

// splitTarget splits FILE[:REF], where the file need not exist: it ends at the first colon
// in a name below a directory that exists.
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
	if a := p.Base.archive; a != nil && a.saved.Tags != nil {
		return a.saved.Tags
	}
	return []string{}
}

// withTag returns a name with a tag, as in manifest.json.
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
		return source.DaemonError(c, err)
	}
	defer res.Close()
	dec := json.NewDecoder(io.LimitReader(res, maxDocument))
	for {
		var line struct {
			Error string `json:"error"`
		}
		if err := dec.Decode(&line); err != nil {
			break // the rest is not JSON with some daemons
		}
		if line.Error != "" {
			return fmt.Errorf("the daemon could not load it: %s", strings.Join(strings.Fields(line.Error), " "))
		}
	}
	if _, err := c.ImageInspect(ctx, ref); err != nil {
		return source.DaemonError(c, err)
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
	w.done[name] = source.Compressed(head)
	if err := w.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	_, err := io.Copy(w.tw, br)
	return err
}

// writeArchive writes the layers, then config and manifest.json, but no other files of the
// base: newer Dockers load the image that index.json names, which is the old one.
func (p *Patched) writeArchive(ctx context.Context, out io.Writer, tags []string, o Options) error {
	w := &archiveWriter{tar.NewWriter(out), map[string]bool{}}
	names, err := p.writeLayers(ctx, w, o)
	if err != nil {
		return err
	}
	config := digestOf(p.Config)
	if err := w.file(source.BlobPath(config), int64(len(p.Config)), bytes.NewReader(p.Config)); err != nil {
		return err
	}
	m := encode([]archiveEntry{{Config: source.BlobPath(config), RepoTags: tags, Layers: names}})
	if err := w.file("manifest.json", int64(len(m)), strings.NewReader(m)); err != nil {
		return err
	}
	return w.tw.Close()
}

func (p *Patched) writeLayers(ctx context.Context, w *archiveWriter, o Options) (names []string, err error) {
	if a := p.Base.archive; a != nil {
		names, err = a.copyLayers(ctx, w)
	} else {
		names, err = p.copyStored(ctx, w, o)
	}
	if err != nil || p.layer == nil {
		return names, err
	}
	// go-containerregistry takes all layers to be compressed if the first one is.
	open, digest, size := p.layer.Uncompressed, p.layer.diffID, p.layer.plainSize
	if len(names) > 0 && w.done[names[0]] {
		open, digest, size = p.layer.Compressed, p.layer.digest, p.layer.spool.size
	}
	rc, err := open()
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	name := source.BlobPath(digest)
	return append(names, name), w.file(name, size, &until{ctx, rc})
}

// copyLayers copies the layers of an archive into another, and returns their names.
func (a *archive) copyLayers(ctx context.Context, w *archiveWriter) (names []string, err error) {
	wanted := map[source.TarFile]bool{}
	for _, f := range a.saved.Layers {
		wanted[f] = true
		names = append(names, f.Name)
	}
	err = a.read(ctx, func(f source.TarFile, r io.Reader) error {
		if !wanted[f] {
			return nil
		}
		return w.file(f.Name, f.Size, r)
	})
	for _, name := range names {
		if _, ok := w.done[name]; err == nil && !ok {
			err = fmt.Errorf("layer %q is not in it any more: the archive has changed meanwhile", name)
		}
	}
	return names, err
}

// copyStored copies the layers of a registry or layout into an archive, as they are
// stored, and returns their names.
func (p *Patched) copyStored(ctx context.Context, w *archiveWriter, o Options) (names []string, err error) {
	for _, d := range p.Base.manifest.Layers {
		name := source.BlobPath(d.Digest)
		names = append(names, name)
		if _, ok := w.done[name]; ok {
			continue
		}
		g := &guarded{ctx: ctx, src: p.Base.Store, d: d, allow: o.AllowCopy || isLocal(p.Base.Store), why: "an archive holds all layers"}
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

// undo tags the origin in the daemon, which has it unless images without a name were
// pruned.
func (a *archive) undo(ctx context.Context) (string, error) {
	cfg, err := v1.ParseConfigFile(bytes.NewReader(a.saved.RawConfig))
	if err != nil {
		return "", fmt.Errorf("reading the config: %w", err)
	}
	img := &Image{Image: &source.Image{Config: cfg, RawConfig: a.saved.RawConfig}}
	origin, err := img.mark().undoable()
	switch {
	case err != nil:
		return "", err
	case a.daemon == nil:
		return "", fmt.Errorf("an archive does not keep the origin (%s): use the one that the patch was made of", origin)
	}
	if _, err := a.daemon.ImageTag(ctx, client.ImageTagOptions{Source: origin, Target: a.ref}); err != nil {
		return "", fmt.Errorf("the origin %s: %w", origin, source.DaemonError(a.daemon, err))
	}
	return "docker:" + a.ref + "@" + origin, nil
}
