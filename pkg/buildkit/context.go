package buildkit

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/envline"
	"github.com/imgcheck/imgcheck/pkg/patch"
)

// Context is a patched image as a build context: a Dockerfile without RUN, and the
// files of the new layer for it to copy. The same image gives the same context.
type Context struct {
	from   string // the base, by digest
	env    []patch.EnvEdit
	notes  []string
	layer  v1.Layer // nil when the patch has no files
	copies []copied
	trees  []*tree
}

// instead is what to do where a Dockerfile does not do.
const instead = "publish it with -t, or say --emit llb"

// Copy is a file of the new layer that another image in a registry has.
type Copy struct {
	Path string // in the new layer, without a leading slash
	// Image is the reference of the other image, Digest that of its manifest, and
	// From the file's absolute path in it.
	Image, Digest, From string
}

// copied are files that one COPY takes from another image.
type copied struct {
	image string // by digest
	from  []string
	dir   string // where they go to
	mode  int64
	owner owner
}

// owner is the user and group of a file.
type owner struct{ uid, gid int }

// given is what a COPY gives to all that it copies.
type given struct {
	owner owner
	chmod string // a mode in octal, or empty for what each file has in the context
}

// tree is a directory of the context, which one COPY lays over the root. Directories
// have the mode 0755 in it: BuildKit does not notice that nothing but a directory's
// mode has changed since it was sent another context, and takes what it has built of
// that one (fsutil's DiskWriter.HandleChange tells nobody).
type tree struct {
	name    string
	given   given
	entries map[string]*tar.Header
}

// NewContext makes a context of a patched image, whose base has to be in a registry
// as from; insecure allows that to be one that speaks plain HTTP. Of the files that
// copies names, those that a Dockerfile can take from the other image are not in
// it. notes are lines that tell what the patch does.
//
// It is an error when the patch needs what a Dockerfile without RUN cannot do:
// remove a file, set an extended attribute, or keep the base's ONBUILD from acting.
func NewContext(p *patch.Patched, from string, insecure bool, copies []Copy, notes []string) (*Context, error) {
	base, err := baseName(p, from, insecure)
	if err != nil {
		return nil, err
	}
	c := &Context{from: base, env: p.Env, layer: p.Layer, notes: notes}
	if len(p.Base.Config.Config.OnBuild) > 0 {
		return nil, errors.New("the image has ONBUILD instructions, which a Dockerfile built on it would carry out: " + instead)
	}
	if p.Layer == nil {
		return c, nil
	}
	entries, err := layerEntries(p.Layer)
	if err != nil {
		return nil, err
	}
	c.arrange(c.copy(entries, copies, insecure))
	if n := len(p.Base.Config.RootFS.DiffIDs) + len(c.copies) + len(c.trees); n > maxLayers {
		return nil, fmt.Errorf("the image built would have %d layers, for the owners and modes of its directories, and Docker runs none with more than %d: %s", n, maxLayers, instead)
	}
	return c, nil
}

// maxLayers is maxLayerDepth of
// https://github.com/moby/moby/blob/master/daemon/internal/layer/layer_store.go.
const maxLayers = 125

// Alone reports whether the Dockerfile needs no file beside it.
func (c *Context) Alone() bool { return len(c.trees) == 0 }

// layerEntries are the entries of a layer, in its order.
func layerEntries(l v1.Layer) ([]*tar.Header, error) {
	var list []*tar.Header
	var gone []string
	err := eachEntry(l, func(h *tar.Header, _ io.Reader) error {
		if name, ok := strings.CutPrefix(path.Base(h.Name), ".wh."); ok {
			gone = append(gone, "/"+path.Join(path.Dir(h.Name), name))
			return nil
		}
		list = append(list, h)
		return copyable(h)
	})
	if err == nil && len(gone) > 0 {
		more := ""
		if len(gone) > 1 {
			more = fmt.Sprintf(" and %d more", len(gone)-1)
		}
		err = fmt.Errorf("a Dockerfile cannot remove what an image has without running a shell in it, and the fix removes %s%s: %s", gone[0], more, instead)
	}
	return list, err
}

// eachEntry calls f for each entry of a layer, which may be nil, with its name
// cleaned.
func eachEntry(l v1.Layer, f func(*tar.Header, io.Reader) error) error {
	if l == nil {
		return nil
	}
	rc, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer rc.Close()
	tr := tar.NewReader(rc)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		h.Name = path.Clean(strings.TrimPrefix(h.Name, "/"))
		if err := f(h, tr); err != nil {
			return err
		}
	}
}

// copyable says why COPY would not make an entry as it is.
func copyable(h *tar.Header) error {
	for k := range h.PAXRecords {
		if name, ok := strings.CutPrefix(k, "SCHILY.xattr."); ok {
			return fmt.Errorf("/%s: a Dockerfile cannot set its extended attribute %s: %s", h.Name, name, instead)
		}
	}
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeSymlink {
		return fmt.Errorf("/%s: a Dockerfile cannot make what has its type, %q: %s", h.Name, h.Typeflag, instead)
	}
	return nil
}

// copy takes the files that can be copied from other images out of the entries, and
// gives the rest.
func (c *Context) copy(entries []*tar.Header, copies []Copy, insecure bool) []*tar.Header {
	by := map[string]Copy{}
	for _, o := range copies {
		by[o.Path] = o
	}
	return slices.DeleteFunc(entries, func(h *tar.Header) bool {
		o, ok := by[h.Name]
		if !ok || h.Typeflag != tar.TypeReg || path.Base(o.From) != path.Base(h.Name) {
			return false
		}
		ref, err := reference(o.Image, insecure)
		if err != nil || o.Digest == "" || !envline.Plain(o.From) || !envline.Plain(h.Name) {
			return false
		}
		one := copied{image: hubName(ref.Context().Name()) + "@" + o.Digest, dir: path.Dir("/" + h.Name), mode: h.Mode, owner: owner{h.Uid, h.Gid}}
		i := slices.IndexFunc(c.copies, func(k copied) bool {
			return k.image == one.image && k.dir == one.dir && k.mode == one.mode && k.owner == one.owner
		})
		if i < 0 {
			i, c.copies = len(c.copies), append(c.copies, one)
		}
		c.copies[i].from = append(c.copies[i].from, o.From)
		return true
	})
}

// hubName is a repository as Dockerfiles name it: go-containerregistry calls Docker Hub
// index.docker.io.
func hubName(repository string) string {
	if rest, ok := strings.CutPrefix(repository, "index.docker.io/"); ok {
		return "docker.io/" + rest
	}
	return repository
}

// arrange sorts the entries into trees. The first has everything that is root's and
// has an ordinary mode. A COPY gives one owner, and one mode where it says one, to
// all that it copies, the directories above a file included: what is to have others
// comes after it, the deepest first, and what got the wrong ones on the way comes
// again.
func (c *Context) arrange(entries []*tar.Header) {
	all, now := map[string]*tar.Header{}, map[string]given{}
	byDepth := map[int][]*tar.Header{}
	deepest := 0
	for _, h := range entries {
		all[h.Name] = h
		depth := strings.Count(h.Name, "/")
		byDepth[depth] = append(byDepth[depth], h)
		deepest = max(deepest, depth)
	}
	add := func(g given, list []*tar.Header) {
		t := &tree{name: "rootfs", given: g, entries: map[string]*tar.Header{}}
		if n := len(c.trees); n > 0 {
			t.name = fmt.Sprintf("rootfs%d", n+1)
		}
		for _, h := range list {
			for name := h.Name; all[name] != nil; name = path.Dir(name) {
				t.entries[name] = all[name]
				now[name] = given{g.owner, cmp.Or(g.chmod, octal(contextMode(all[name])))}
			}
		}
		c.trees = append(c.trees, t)
	}
	first := slices.DeleteFunc(slices.Clone(entries), func(h *tar.Header) bool { return h.Typeflag != tar.TypeDir && toGive(h) != given{} })
	if len(first) > 0 {
		add(given{}, first)
	}
	for depth := deepest; depth >= 0; depth-- {
		wrong := map[given][]*tar.Header{}
		for _, h := range byDepth[depth] {
			if now[h.Name] != (given{owner{h.Uid, h.Gid}, octal(h.Mode)}) {
				wrong[toGive(h)] = append(wrong[toGive(h)], h)
			}
		}
		for _, g := range slices.SortedFunc(maps.Keys(wrong), compareGiven) {
			add(g, wrong[g])
		}
	}
}

// toGive is what a COPY has to give to an entry that it makes.
func toGive(h *tar.Header) given {
	g := given{owner: owner{h.Uid, h.Gid}}
	if h.Mode != contextMode(h) {
		g.chmod = octal(h.Mode)
	}
	return g
}

// contextMode is the mode that an entry has in the context: one that everything
// keeps which may carry the context about, git for one.
func contextMode(h *tar.Header) int64 {
	switch {
	case h.Typeflag == tar.TypeSymlink:
		return h.Mode
	case h.Typeflag == tar.TypeDir || h.Mode&0o100 != 0:
		return 0o755
	}
	return 0o644
}

func compareGiven(a, b given) int {
	return cmp.Or(a.owner.uid-b.owner.uid, a.owner.gid-b.owner.gid, cmp.Compare(a.chmod, b.chmod))
}

func octal(mode int64) string { return fmt.Sprintf("%04o", mode) }

// write makes the context in an empty directory.
func (c *Context) write(ctx context.Context, dir *place) error {
	text, err := c.Dockerfile()
	if err != nil {
		return err
	}
	for _, t := range c.trees {
		if err := dir.mkdir(t.name); err != nil {
			return err
		}
	}
	var dirs []string
	when := time.Time{}
	err = eachEntry(c.layer, func(h *tar.Header, r io.Reader) error {
		for _, t := range c.trees {
			if t.entries[h.Name] == nil {
				continue
			}
			if err := dir.entry(ctx, path.Join(t.name, h.Name), h, r); err != nil {
				return fmt.Errorf("/%s: %w", h.Name, err)
			}
			if when = h.ModTime; h.Typeflag == tar.TypeDir {
				dirs = append(dirs, path.Join(t.name, h.Name))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) { // what is made in one changes its time
		if err := dir.Chtimes(d, when, when); err != nil {
			return err
		}
	}
	return dir.file("Dockerfile", strings.NewReader(text), 0o644)
}
