package layers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// The oracle of this file is the kernel's overlayfs, over layers that are
// unpacked as containerd and Docker's overlay2 driver unpack them.

// unpacker unpacks one tar into a directory as containerd's applyNaive does with
// OverlayConvertWhiteout.
type unpacker struct {
	root   string
	lowers []string // the roots of the layers below, the topmost first
}

// mkparent makes a directory like the one that the layers below have at its
// path, if they do.
func (u unpacker) mkparent(p string) error {
	if st, err := os.Lstat(p); err == nil {
		if !st.IsDir() {
			return syscall.ENOTDIR
		}
		return nil
	}
	if err := u.mkparent(filepath.Dir(p)); err != nil {
		return err
	}
	mode := fs.FileMode(0o755)
	for _, lower := range u.lowers {
		st, more := lookBelow(lower, p[len(u.root):])
		if st != nil && st.IsDir() {
			mode = st.Mode().Perm()
		}
		if st != nil || !more {
			break
		}
	}
	return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, mode))
}

// lookBelow returns the entry of a layer at a path, and whether layers below it show there.
func lookBelow(root, p string) (st fs.FileInfo, more bool) {
	more = true
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		st, err := os.Lstat(root + p[:i])
		if err != nil {
			return nil, more
		}
		if !st.IsDir() || i == len(p) {
			return st, false
		}
		if n, err := syscall.Getxattr(root+p[:i], "trusted.overlay.opaque", nil); err == nil && n > 0 {
			more = false
		}
	}
	return nil, more
}

// real returns the path of a directory inside the root, links followed; missing parts
// stay as written (continuity's fs.RootPath).
func (u unpacker) real(text string) (string, error) {
	cur, rest := "/", strings.Split(text, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		next := path.Join(cur, part)
		to, err := os.Readlink(u.root + next)
		if err != nil || part == ".." || part == "" || part == "." {
			cur = next
			continue
		}
		if links++; links > 255 {
			return "", syscall.ELOOP
		}
		if path.IsAbs(to) {
			cur = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return u.root + cur, nil
}

func (u unpacker) apply(h *tar.Header, content string) error {
	dir, base := path.Split(path.Clean("/" + h.Name))
	parent, err := u.real(dir)
	if err != nil {
		return err
	}
	if err := u.mkparent(parent); err != nil {
		return err
	}
	p := filepath.Join(parent, base)
	if base == ".wh..wh..opq" {
		return syscall.Setxattr(parent, "trusted.overlay.opaque", []byte("y"), 0)
	}
	if gone, ok := strings.CutPrefix(base, ".wh."); ok {
		return syscall.Mknod(filepath.Join(parent, gone), syscall.S_IFCHR, 0)
	}
	st, err := os.Lstat(p)
	exists := err == nil && st.IsDir() && h.Typeflag == tar.TypeDir
	if err == nil && !exists {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if !exists {
			err = os.Mkdir(p, 0o700)
		}
		return errors.Join(err, os.Chmod(p, h.FileInfo().Mode().Perm()))
	case tar.TypeReg:
		return errors.Join(os.WriteFile(p, []byte(content), 0o600), os.Chmod(p, h.FileInfo().Mode().Perm()))
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, p)
	case tar.TypeFifo:
		return syscall.Mkfifo(p, 0o644)
	case tar.TypeLink:
		to, base := path.Split(path.Clean("/" + h.Linkname))
		real, err := u.real(to)
		if err != nil {
			return err
		}
		return os.Link(filepath.Join(real, base), p)
	}
	return fmt.Errorf("type %q", h.Typeflag)
}

// tarBuilder writes a tar of those entries that the unpacker takes.
type tarBuilder struct {
	u     unpacker
	taken []tarEntry
}

type tarEntry struct {
	tar.Header
	content string
}

func newTarBuilder(t *testing.T, root string, lowers []string) *tarBuilder {
	t.Helper()
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return &tarBuilder{u: unpacker{root, lowers}}
}

// add takes an entry, or leaves all as it was and tells why it cannot.
func (b *tarBuilder) add(t *testing.T, e tarEntry) error {
	t.Helper()
	err := b.u.apply(&e.Header, e.content)
	if err == nil {
		b.taken = append(b.taken, e)
		return nil
	}
	if err := os.RemoveAll(b.u.root); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(b.u.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range b.taken {
		if err := b.u.apply(&b.taken[i].Header, b.taken[i].content); err != nil {
			t.Fatal(err)
		}
	}
	return err
}

func (b *tarBuilder) layer(t *testing.T) *Layer {
	t.Helper()
	return readTar(t, b.taken...)
}

func readTar(t *testing.T, entries ...tarEntry) *Layer {
	t.Helper()
	l, err := ReadLayer(bytes.NewReader(tarOf(t, entries...)), everything)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// tarOf writes a tar; contents give the sizes.
func tarOf(t testing.TB, entries ...tarEntry) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		if err := tw.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func everything(string, int64) bool { return true }

// memory returns a directory in memory, where a hundred thousand small files are made
// quickly.
func memory(t *testing.T) string {
	t.Helper()
	dir := plainTempDir(t)
	mount(t, "tmpfs", dir, 0, "")
	return dir
}

// plainTempDir returns a directory whose name has no commas and colons, which mean
// something to mount(2).
func plainTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "layers")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func mount(t *testing.T, kind, at string, flags uintptr, data string) {
	t.Helper()
	if err := syscall.Mount(kind, at, kind, flags, data); err != nil {
		t.Fatalf("mounting %s: %v: this test compares with the kernel and must run as root (in a container: with CAP_SYS_ADMIN)", kind, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// mountOverlay mounts directories over one another, the lowest first.
func mountOverlay(t *testing.T, dirs []string) string {
	t.Helper()
	at := plainTempDir(t)
	lower := slices.Clone(dirs)
	slices.Reverse(lower)
	if len(lower) == 1 {
		lower = append(lower, plainTempDir(t)) // overlayfs wants two
	}
	mount(t, "overlay", at, syscall.MS_RDONLY, "lowerdir="+strings.Join(lower, ":"))
	return at
}

// seen is a path in the form to compare.
type seen struct{ Kind, Text string }

func mounted(t *testing.T, root string) (map[string]seen, map[string]uint64) {
	t.Helper()
	out, inodes := map[string]seen{}, map[string]uint64{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a whiteout that readdir still lists
		}
		if err != nil || p == root {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name := p[len(root)+1:]
		switch info.Mode().Type() {
		case fs.ModeDir:
			out[name] = seen{"dir", info.Mode().Perm().String()}
		case fs.ModeSymlink:
			to, err := os.Readlink(p)
			out[name] = seen{"symlink", to}
			return err
		case 0:
			b, err := os.ReadFile(p)
			out[name] = seen{"file", info.Mode().Perm().String() + string(b)}
			inodes[name] = info.Sys().(*syscall.Stat_t).Ino
			return err
		default:
			out[name] = seen{"other", ""}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, inodes
}

func merged(f *FS) (map[string]seen, map[string]uint64) {
	out, inodes := map[string]seen{}, map[string]uint64{}
	for e, layer := range f.All() {
		switch e.Type {
		case Dir, ImpliedDir:
			out[e.Path] = seen{"dir", e.Mode.Perm().String()}
		case Symlink:
			out[e.Path] = seen{"symlink", e.Link}
		case Regular:
			out[e.Path] = seen{"file", e.Mode.Perm().String() + string(e.Content)}
			inodes[e.Path] = uint64(layer)<<40 | uint64(e.Inode)
		default:
			out[e.Path] = seen{"other", ""}
		}
	}
	return out, inodes
}

// compareTrees compares a merged file system with a mounted one. The mode of a
// directory that all layers only imply is left out: containerd may find one in a
// directory that an opaque one hides.
func compareTrees(t *testing.T, f *FS, root string) bool {
	t.Helper()
	want, wantInodes := mounted(t, root)
	got, gotInodes := merged(f)
	for e := range f.All() {
		if e.Type == ImpliedDir && want[e.Path].Kind == "dir" {
			got[e.Path] = want[e.Path]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-overlayfs +Merge:\n%s", diff)
		return false
	}
	if diff := cmp.Diff(linked(wantInodes), linked(gotInodes)); diff != "" {
		t.Errorf("hard links: -overlayfs +Merge:\n%s", diff)
		return false
	}
	return true
}

// linked lists the names of each file that has several.
func linked(inodes map[string]uint64) []string {
	groups := map[uint64][]string{}
	for _, p := range slices.Sorted(maps.Keys(inodes)) {
		groups[inodes[p]] = append(groups[inodes[p]], p)
	}
	var out []string
	for _, g := range groups {
		if len(g) > 1 {
			out = append(out, strings.Join(g, " "))
		}
	}
	slices.Sort(out)
	return out
}

// openIn calls open(2) for a path with root as the root directory.
func openIn(root int, p string) error {
	b, err := syscall.BytePtrFromString(p)
	if err != nil {
		return err
	}
	const openat2, path, inRoot = 437, 0x200000, 0x10
	how := [3]uint64{path | syscall.O_CLOEXEC, 0, inRoot}
	for {
		fd, _, errno := syscall.Syscall6(openat2, uintptr(root), uintptr(unsafe.Pointer(b)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		switch errno {
		case 0:
			return syscall.Close(int(fd))
		case syscall.EAGAIN, syscall.EINTR: // a rename elsewhere
			continue
		}
		return errno
	}
}

// compareFind asks both sides for paths.
func compareFind(t *testing.T, f *FS, root string, paths []string) bool {
	t.Helper()
	fd, err := syscall.Open(root, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	ok := true
	for _, p := range paths {
		want := openIn(fd, p)
		if _, got := f.Find(p); !errors.Is(got, want) {
			t.Errorf("Find(%.60q) = %v, the kernel says %v", p, got, want)
			ok = false
		}
	}
	return ok
}

// stacker makes small random layers of few names, so that much collides.
type stacker struct{ *rand.Rand }

func (s stacker) path(depth int) string {
	parts := make([]string, 1+s.IntN(depth))
	for i := range parts {
		parts[i] = string(rune('a' + s.IntN(3)))
	}
	return strings.Join(parts, "/")
}

func (s stacker) link() string {
	to := s.path(3)
	switch s.IntN(4) {
	case 0:
		return "/" + to
	case 1:
		return "../" + to
	case 2:
		return to + "/../" + s.path(1)
	}
	return to
}

func (s stacker) header() tar.Header {
	h := tar.Header{Name: s.path(3), Mode: int64(0o700 + s.IntN(64)), Format: tar.FormatPAX}
	dir, base := path.Split(h.Name)
	switch s.IntN(14) {
	case 0, 1, 2:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case 3, 4, 5:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, s.link(), 0o777
	case 6, 7:
		h.Typeflag, h.Linkname = tar.TypeLink, s.path(3)
	case 8, 9:
		h.Typeflag, h.Name = tar.TypeReg, dir+".wh."+base
	case 10:
		h.Typeflag, h.Name = tar.TypeReg, h.Name+"/.wh..wh..opq"
	case 11:
		h.Typeflag = tar.TypeFifo
	default:
		h.Typeflag = tar.TypeReg
	}
	if s.IntN(8) == 0 {
		h.Name = "./" + h.Name
	}
	return h
}

// wild returns a random path that may mean anything.
func (s stacker) wild() string {
	p := "/" + s.path(4)
	switch s.IntN(6) {
	case 0:
		p += "/"
	case 1:
		p += "/.."
	case 2:
		p = "/.." + p + "/../" + s.path(2)
	case 3:
		p += "//./" + s.path(1)
	}
	return p
}

// linksToWhiteout tells whether the header would link to the unpacked form of
// a whiteout, which is no file of the layer.
func (b *tarBuilder) linksToWhiteout(h *tar.Header) bool {
	if h.Typeflag != tar.TypeLink {
		return false
	}
	dir, base := path.Split(path.Clean("/" + h.Linkname))
	real, err := b.u.real(dir)
	if err != nil {
		return true
	}
	st, err := os.Lstat(filepath.Join(real, base))
	return err == nil && st.Mode()&fs.ModeCharDevice != 0
}

// layer writes a random layer under root.
func (s stacker) layer(t *testing.T, root string, lowers []string, n int) (*Layer, string) {
	t.Helper()
	b := newTarBuilder(t, root, lowers)
	var text strings.Builder
	for range 2 + s.IntN(9) {
		h := s.header()
		if b.linksToWhiteout(&h) || path.Base(path.Dir(h.Name)) == "." && strings.HasSuffix(h.Name, ".opq") {
			continue
		}
		e := tarEntry{h, ""}
		if h.Typeflag == tar.TypeReg && !strings.Contains(h.Name, ".wh.") {
			e.content = fmt.Sprintf("layer %d entry %d", n, len(b.taken))
		}
		if b.add(t, e) == nil {
			fmt.Fprintf(&text, "%d: %c %s %s\n", n, h.Typeflag, h.Name, h.Linkname)
		}
	}
	return b.layer(t), text.String()
}

// Each stack is one directory of the same few layers, so that one mount serves
// many.
func TestMergeAgreesWithOverlayFS(t *testing.T) {
	const batches, stacks, height = 2, 700, 4
	for batch := range batches {
		mem := memory(t)
		var dirs []string
		for n := range height {
			dirs = append(dirs, filepath.Join(mem, fmt.Sprint(n)))
		}
		s := stacker{rand.New(rand.NewPCG(1, uint64(batch)))}
		images := make([]*FS, stacks)
		texts := make([]string, stacks)
		for i := range images {
			var list []*Layer
			var lowers []string
			for n, dir := range dirs {
				root := filepath.Join(dir, fmt.Sprint(i))
				l, text := s.layer(t, root, lowers, n)
				list = append(list, l)
				lowers = slices.Insert(lowers, 0, root)
				texts[i] += text
			}
			images[i] = Merge(list...)
		}
		at := mountOverlay(t, dirs)
		bad := 0
		for i, f := range images {
			root := filepath.Join(at, fmt.Sprint(i))
			var paths []string
			for range 20 {
				paths = append(paths, s.wild())
			}
			if !compareTrees(t, f, root) || !compareFind(t, f, root, paths) {
				t.Logf("batch %d, stack %d:\n%s", batch, i, texts[i])
				if bad++; bad == 3 {
					t.FailNow()
				}
			}
		}
	}
}
