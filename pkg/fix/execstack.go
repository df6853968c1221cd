package fix

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// stacks offers a copy of a library without the mark that asks for an executable stack. It
// never changes NVIDIA's files, since their licences forbid it, nor a library without
// PT_GNU_STACK, which has no mark to clear.
func (m *maker) stacks(ctx context.Context, f *lint.Finding) ([]candidate, error) {
	name := cmp.Or(f.Subject, f.Library)
	var list []candidate
	for e, layer := range m.now.img.FS.All() {
		if path.Base(e.Path) != path.Base(name) || e.Type != layers.Regular || e.Object == nil || e.Object.Stack != elfdeps.StackExec || isNVIDIAs("/"+e.Path) {
			continue
		}
		if strings.HasPrefix(name, "/") && m.real(name) != "/"+e.Path {
			continue
		}
		to := *e.Object
		to.Stack = elfdeps.StackNoExec
		made := file{object: &to, of: e, File: patch.File{Path: "/" + e.Path, Mode: e.Mode, UID: e.UID, GID: e.GID, Size: e.Size}}
		if m.Content != nil {
			made.Open = func() (io.ReadCloser, error) {
				return clearStack(func() (io.ReadCloser, error) { return m.Content(ctx, layer, e) })
			}
		}
		if m.Xattrs != nil {
			made.Xattrs = func() (map[string]string, error) { return m.Xattrs(ctx, layer, e) }
		}
		list = append(list, candidate{text: "/" + e.Path + " without the mark", steps: []Step{{
			Kind: "execstack", Text: fmt.Sprintf("clear the mark for an executable stack in /%s", e.Path), Path: "/" + e.Path, files: []file{made},
		}}})
	}
	return list, nil
}

// firstPatchelf is the glibc of the first releases of Debian and Ubuntu whose patchelf is 0.18, which
// knows --clear-execstack: https://packages.debian.org/trixie/patchelf. It is also the first glibc that
// refuses to make a stack executable for a library.
var firstPatchelf = version.Release{2, 41}

// noPatchelf says why no command can carry out a step that clears a mark, or returns "".
func (m *maker) noPatchelf(s *Step) string {
	o := s.files[0].object
	manager, _ := m.manager(o)
	if manager != "apt" || !m.hasShell() || version.ParseRelease(m.glibc(o)).Compare(firstPatchelf) < 0 {
		return "no instruction can " + s.Text + ": the distribution has no patchelf 0.18"
	}
	return ""
}

// isNVIDIAs reports whether a file is one of NVIDIA's, by its name or by the wheel that it
// lies in. libcurl and libcups are not, although they begin with libcu.
func isNVIDIAs(file string) bool {
	return provide.LibraryOf(file) != nil || strings.Contains(file, "/nvidia/") || strings.HasPrefix(path.Base(file), "libnv") || path.Base(file) == "libcuda.so" || strings.HasPrefix(path.Base(file), "libcuda.so.")
}

const (
	ptGNUStack = 0x6474e551
	pfX        = 1
)

// clearStack returns the content of a file without the PF_X of its PT_GNU_STACK; all other
// bits stay. It calls open twice, which has to return the same content each time.
func clearStack(open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	first, err := open()
	if err != nil {
		return nil, err
	}
	at, err := stackFlags(bufio.NewReader(first))
	first.Close()
	if err != nil {
		return nil, err
	}
	second, err := open()
	if err != nil {
		return nil, err
	}
	return &cleared{second, at}, nil
}

// cleared clears PF_X in the byte that left bytes precede.
type cleared struct {
	io.ReadCloser
	left int64
}

func (c *cleared) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if c.left >= 0 && c.left < int64(n) {
		b[c.left] &^= pfX
	}
	c.left -= int64(n)
	return n, err
}

var errNoStack = errors.New("not an ELF file with a PT_GNU_STACK")

// stackFlags returns the offset of the lowest byte of PT_GNU_STACK's p_flags in a file
// (gABI, Elf32_Phdr and Elf64_Phdr).
func stackFlags(r io.Reader) (int64, error) {
	head := make([]byte, 64)
	if _, err := io.ReadFull(r, head); err != nil || !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return 0, errNoStack
	}
	t := segmentsOf(head)
	skip := t.off - int64(len(head))
	if head[4] == 1 && skip < 0 { // a 32-bit header is 52 bytes
		r, skip = io.MultiReader(bytes.NewReader(head[52:]), r), t.off-52
	}
	if skip < 0 || t.size < t.flags+4 {
		return 0, errNoStack
	}
	if _, err := io.CopyN(io.Discard, r, skip); err != nil {
		return 0, errNoStack
	}
	entry := make([]byte, t.size)
	for i := range t.n {
		if _, err := io.ReadFull(r, entry); err != nil {
			return 0, errNoStack
		}
		if t.order.Uint32(entry) == ptGNUStack {
			at := t.off + int64(i)*int64(t.size) + int64(t.flags)
			if t.order == binary.BigEndian {
				at += 3
			}
			return at, nil
		}
	}
	return 0, errNoStack
}

// segments describes the table of program headers of an ELF file.
type segments struct {
	order binary.ByteOrder
	off   int64 // of the table
	size  int   // of an entry
	n     int   // entries
	flags int   // offset of p_flags in an entry
}

// segmentsOf reads an ELF header. Its result has no entries, of size 0, for a class that
// is neither 32-bit nor 64-bit.
func segmentsOf(head []byte) segments {
	t := segments{order: binary.LittleEndian}
	if head[5] == 2 {
		t.order = binary.BigEndian
	}
	switch head[4] {
	case 1:
		t.off, t.size, t.n, t.flags = int64(t.order.Uint32(head[28:])), int(t.order.Uint16(head[42:])), int(t.order.Uint16(head[44:])), 24
	case 2:
		t.off, t.size, t.n, t.flags = int64(t.order.Uint64(head[32:])), int(t.order.Uint16(head[54:])), int(t.order.Uint16(head[56:])), 4
	}
	return t
}
