package provide

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// imageSource is an image that has libraries.
type imageSource struct {
	*env
	ctx context.Context // of Open: the image is read while the sources are open
	ref string

	mu     sync.Mutex
	byArch map[string]*indexed
}

// indexed is an image for one machine.
type indexed struct {
	img *layers.Image
	fs  *layers.FS
}

func (e *env) openImage(ctx context.Context, ref string) (provider, error) {
	if ref == "" {
		return nil, errors.New("names no image: say image:REF")
	}
	if dir, ok := strings.CutPrefix(ref, "dir:"); ok {
		return nil, fmt.Errorf("is a directory: say dir:%s", dir)
	}
	return &imageSource{env: e, ctx: ctx, ref: ref, byArch: map[string]*indexed{}}, nil
}

func (s *imageSource) close() error {
	var errs []error
	for _, x := range s.byArch {
		errs = append(errs, x.img.Close())
	}
	return errors.Join(errs...)
}

// index reads the image, once for each machine.
func (s *imageSource) index(ctx context.Context, arch string) (*indexed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byArch[arch]; x != nil {
		return x, nil
	}
	o := layers.Options{Platform: &v1.Platform{OS: "linux", Architecture: arch}, Insecure: s.insecure, Cache: s.indexes}
	o.Begin, o.Progress = s.layers()
	img, err := layers.Open(s.ctx, s.ref, o)
	if err != nil {
		return nil, err
	}
	fs, err := img.Index(ctx)
	if err != nil {
		img.Close()
		return nil, err
	}
	s.byArch[arch] = &indexed{img, fs}
	return s.byArch[arch], nil
}

// layers returns the functions that report the progress of reading layers. A layer may be
// read twice.
func (s *imageSource) layers() (begin func([]source.Layer), progress func(layer, n int)) {
	var mu sync.Mutex
	var sizes, done []int64
	begin = func(list []source.Layer) {
		mu.Lock()
		defer mu.Unlock()
		sizes, done = make([]int64, len(list)), make([]int64, len(list))
		for i, l := range list {
			sizes[i] = l.Size
		}
	}
	progress = func(layer, n int) {
		mu.Lock()
		defer mu.Unlock()
		if n == 0 || layer >= len(sizes) || sizes[layer] <= 0 {
			return
		}
		if done[layer] == sizes[layer] {
			done[layer] = 0 // it is read again, for its files
		}
		done[layer] = min(done[layer]+int64(n), sizes[layer])
		s.progress(fmt.Sprintf("layer %d of %s", layer+1, s.ref), done[layer], sizes[layer])
	}
	return begin, progress
}

func (s *imageSource) find(ctx context.Context, r *request) (*Found, error) {
	x, err := s.index(ctx, r.Arch)
	if err != nil {
		return nil, err
	}
	all, unread := x.sets(r)
	r.place(x.fs, ".", all)
	chosen, doubt, err := r.choose(all)
	var none *absentError
	if errors.As(err, &none) && len(unread) > 0 {
		return nil, fmt.Errorf("%w; but it could not be looked at: %s", errors.New(none.why), strings.Join(unread, ", "))
	}
	if err != nil {
		return nil, err
	}
	licence := x.licence(chosen)
	got, err := s.read(ctx, x, chosen, licence)
	if errors.Is(err, layers.ErrStream) {
		return nil, fmt.Errorf("%w: push it to a registry, or copy it to oci:DIR, and name that", err)
	}
	if err != nil {
		return nil, err
	}
	for i := range chosen.files {
		f := &chosen.files[i]
		m := got[path.Join(chosen.dir, f.name)]
		p := s.blob(m.Sum)
		f.digest, f.open = "sha256:"+m.Sum, func() (io.ReadCloser, error) { return os.Open(p) }
	}
	f := &Found{Version: chosen.version, Source: s.title(x, chosen), Public: s.public(x, chosen), Doubt: doubt, Files: chosen.list()}
	f.Image = &Origin{Ref: s.ref, Digest: x.img.Digest, Dir: path.Join("/", chosen.dir)}
	text := ""
	if m, ok := got[licence]; ok {
		if b, err := os.ReadFile(s.blob(m.Sum)); err == nil {
			text = licenceText(bytes.NewReader(b))
		}
	}
	f.licensed(r, text)
	return f, nil
}

// title names the image, by its digest if it has one, and the directory.
func (s *imageSource) title(x *indexed, chosen *set) string {
	ref := s.ref
	if x.img.Digest != "" && !strings.Contains(ref, "@") {
		ref += "@" + x.img.Digest
	}
	return fmt.Sprintf("image:%s /%s", ref, chosen.dir)
}

// public names the image by its repository and digest; an image of this machine by its
// digest alone.
func (s *imageSource) public(x *indexed, chosen *set) string {
	image := "an image"
	if repo := x.img.Repository(); repo != "" {
		image = "image:" + repo
	}
	if x.img.Digest != "" {
		image += "@" + x.img.Digest
	}
	return fmt.Sprintf("%s /%s", image, chosen.dir)
}

// sets returns the libraries of the image, by directory and release, and the files that
// may be libraries and could not be read.
func (x *indexed) sets(r *request) (all []*set, unread []string) {
	dirs := map[string][]entry{}
	var order []string
	for e := range x.fs.All() {
		dir, name := path.Split(e.Path)
		if e.IsDir() || inStubs(e.Path) || !r.takes(name) {
			continue
		}
		n := entry{name: name, object: e.Object, size: e.Size}
		switch {
		case e.Type == layers.Symlink && e.Link == path.Base(e.Link):
			n.link = e.Link
		case e.Type != layers.Regular:
			continue
		case e.Fault != "":
			unread = append(unread, fmt.Sprintf("/%s (%s)", e.Path, e.Fault))
			continue
		}
		dir = path.Clean(dir)
		if dirs[dir] == nil {
			order = append(order, dir)
		}
		dirs[dir] = append(dirs[dir], n)
	}
	for _, dir := range order {
		all = append(all, r.sets(dir, "", dirs[dir])...)
	}
	return all, unread
}

// licence returns the path of the licence in the image: beside the libraries, in Debian's
// documentation, or NVIDIA's at the root.
func (x *indexed) licence(s *set) string {
	files := append(s.wheelLicences(x.fs), s.licences(x.fs)...)
	if s.info == "" && len(s.files) > 0 {
		stem, _, _ := strings.Cut(s.files[0].name, ".so")
		for e := range x.fs.Below("usr/share/doc") {
			dir, file := path.Split(e.Path)
			if file == "copyright" && strings.HasPrefix(path.Base(dir), strings.ToLower(stem)) {
				files = append([]string{e.Path}, files...)
				break
			}
		}
	}
	for _, p := range files {
		if e, _, ok := x.fs.Lstat(p); ok && e.Type == layers.Regular && e.Size <= maxLicence {
			return p
		}
	}
	return ""
}

// read takes the files of a set, and the licence, out of the layers that have them. It
// reads no other layers.
func (s *imageSource) read(ctx context.Context, x *indexed, chosen *set, licence string) (map[string]member, error) {
	paths := []string{licence}
	for _, f := range chosen.files {
		paths = append(paths, path.Join(chosen.dir, f.name))
	}
	byLayer := map[int][]*layers.Entry{}
	for _, p := range paths {
		if e, layer, ok := x.fs.Lstat(p); ok && p != "" {
			byLayer[layer] = append(byLayer[layer], e)
		}
	}
	got := map[string]member{}
	for _, layer := range slices.Sorted(maps.Keys(byLayer)) {
		members, err := s.readLayer(ctx, x, layer, byLayer[layer])
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", layer+1, err)
		}
		for _, m := range members {
			got[m.Path] = m
		}
	}
	return got, nil
}

// readLayer takes files out of a layer. Later runs find them in the cache.
func (s *imageSource) readLayer(ctx context.Context, x *indexed, layer int, entries []*layers.Entry) ([]member, error) {
	// Hard links share one file of the tar.
	files := map[int]*layers.Entry{}
	var list []*layers.Entry
	h := newKey("layer", x.img.Layers[layer].Digest)
	for _, e := range entries {
		if files[e.Inode] == nil {
			files[e.Inode] = e
			list = append(list, e)
		}
		h.add(e.Path)
	}
	name := filepath.Join(s.cache, "lists", h.name())
	if members, ok := s.unpacked(name); ok {
		return members, nil
	}
	sums := map[int]member{}
	err := x.img.ReadFiles(ctx, layer, list, func(e *layers.Entry, r io.Reader) error {
		_, sum, n, err := s.put(s.metered(r, path.Base(e.Path), e.Size), e.Size)
		if err == nil && n != e.Size {
			err = io.ErrUnexpectedEOF
		}
		sums[e.Inode] = member{Sum: sum, Size: n}
		return err
	})
	if err != nil {
		return nil, err
	}
	var members []member
	for _, e := range entries {
		m := sums[e.Inode]
		m.Path = e.Path
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.Path, b.Path) })
	return members, s.writeList(name, members)
}
