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

// Context is a patched image as a build context: a Dockerfile, and the files of the new
// layer that it copies. The same image gives the same context.
type Context struct {
	from   string   // the base, by digest
	stages []string // instructions before FROM
	lines  []string // instructions
	env    []patch.EnvEdit
	notes  []string
	layer  v1.Layer // nil if the patch has no files
	copies []copied
	trees  []*tree
}

// instead is the advice for patches that a Dockerfile cannot express.
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
	dir   string // the target directory
	mode  int64
	owner owner
}

// owner is the user and group of a file.
type owner struct{ uid, gid int }

// given is the owner and mode that a COPY sets for everything it copies.
type given struct {
	owner owner
	chmod string // a mode in octal, or empty for each file's own
}

// tree is a directory of the context, which one COPY lays over the root. Its directories
// have the mode 0755: if only the mode of a directory differs from an earlier context,
// BuildKit does not notice (fsutil's DiskWriter.HandleChange reports no change) and uses
// the result of the earlier one.
type tree struct {
	name    string
	given   given
	entries map[string]*tar.Header
}

// NewContext makes a build context of a patched image, whose base must be in a registry
// as from; insecure allows plain HTTP to it. Files in copies that a Dockerfile can copy
// from the other image are left out of the context. notes are comment lines about the
// patch.
//
// NewContext fails if the patch needs something that a Dockerfile without RUN cannot do:
// remove a file, set an extended attribute, or keep the base's ONBUILD from running.
func NewContext(p *patch.Patched, from string, insecure bool, copies []Copy, notes []string) (*Context, error) {
	c, err := newContext(p.Base, from, insecure, notes)
	if err != nil {
		return nil, err
	}
	c.env, c.layer = p.Env, p.Layer
	if p.Layer == nil {
		return c, nil
	}
	entries, err := layerEntries(p.Layer)
	if err != nil {
		return nil, err
	}
	c.arrange(c.copy(entries, copies, insecure))
	if n := len(p.Base.Config.RootFS.DiffIDs) + len(c.copies) + len(c.trees); n > maxLayers {
		return nil, fmt.Errorf("the built image would have %d layers, to set the owners and modes of directories, and Docker runs images of at most %d: %s", n, maxLayers, instead)
	}
	return c, nil
}

// WithLines makes a build context of instructions on base, which need no files beside the
// Dockerfile, and of those of the stages that they copy from. The other parameters are those of
// [NewContext].
func WithLines(base *patch.Image, from string, insecure bool, stages, lines, notes []string) (*Context, error) {
	c, err := newContext(base, from, insecure, notes)
	if err != nil {
		return nil, err
	}
	c.stages, c.lines = stages, lines
	return c, nil
}

func newContext(base *patch.Image, from string, insecure bool, notes []string) (*Context, error) {
	name, err := baseName(base, from, insecure)
	if err != nil {
		return nil, err
	}
	if len(base.Config.Config.OnBuild) > 0 {
		return nil, errors.New("the image has ONBUILD instructions, which a Dockerfile that builds on it would run: " + instead)
	}
	return &Context{from: name, notes: notes}, nil
}

// maxLayers is maxLayerDepth of
// https://github.com/moby/moby/blob/master/daemon/internal/layer/layer_store.go.
const maxLayers = 125

// Alone reports whether the Dockerfile needs no file beside it.
func (c *Context) Alone() bool { return len(c.trees) == 0 }

// layerEntries returns the entries of a layer, in order.
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
		err = fmt.Errorf("a Dockerfile cannot remove a file of its base without running a shell, and the fix removes %s%s: %s", gone[0], more, instead)
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

// copyable returns an error if COPY cannot reproduce an entry.
func copyable(h *tar.Header) error {
	for k := range h.PAXRecords {
		if name, ok := strings.CutPrefix(k, "SCHILY.xattr."); ok {
			return fmt.Errorf("/%s: a Dockerfile cannot set its extended attribute %s: %s", h.Name, name, instead)
		}
	}
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeSymlink {
		return fmt.Errorf("/%s: a Dockerfile cannot make a file of its type, %q: %s", h.Name, h.Typeflag, instead)
	}
	return nil
}

// copy removes from the entries the files that can be copied from other images, and
// returns the rest.
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

// hubName returns a repository's name for Dockerfiles: go-containerregistry calls Docker
// Hub index.docker.io.
func hubName(repository string) string {
	if rest, ok := strings.CutPrefix(repository, "index.docker.io/"); ok {
		return "docker.io/" + rest
	}
	return repository
}

// arrange sorts the entries into trees. The first tree has everything that is root's and
// has an ordinary mode. A COPY sets one owner, and one mode if it names one, for
// everything it copies, including the directories above a file. Entries with other
// owners or modes follow in later trees, the deepest first, and directories that a tree
// gave the wrong ones are copied again.
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

// toGive returns the owner and mode that a COPY has to set for an entry.
func toGive(h *tar.Header) given {
	g := given{owner: owner{h.Uid, h.Gid}}
	if h.Mode != contextMode(h) {
		g.chmod = octal(h.Mode)
	}
	return g
}

// contextMode returns the mode of an entry in the context: one that tools which may move
// the context, such as git, preserve.
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

// write writes the context to an empty directory.
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
	for _, d := range slices.Backward(dirs) { // creating a file changes its directory's time
		if err := dir.Chtimes(d, when, when); err != nil {
			return err
		}
	}
	return dir.file("Dockerfile", strings.NewReader(text), 0o644)
}
