package gpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Faults in GPU code change headers of the entries of containers, in place: a file keeps its
// size, and its sections. They make one GPU play another: a library whose code for sm_90 says
// that it is for sm_130 is to an H200 as a library without code for a GPU X is to X.
// The offsets are those that pkg/gpucode explains; this walker is another one.

// Retarget changes the architecture of the entries of files, of every kind.
type Retarget struct {
	Files []string `yaml:"files"`
	From  uint32   `yaml:"from"`
	To    uint32   `yaml:"to"`
}

// PTX raises the version of the PTX of files, in the entries' headers and in their texts, which
// decide. A text that is compressed is changed only if its version stands there as it is.
type PTX struct {
	Files   []string `yaml:"files"`
	Version string   `yaml:"version"` // 9.9
}

const (
	fatbinMagic   = "\x50\xed\x55\xba\x01\x00\x10\x00"
	fatbinHeader  = 16
	entryHeader   = 64
	zstdFlag      = 0x8000
	kindPTX       = 1
	ptxHead       = 4096 // the version stands in the first bytes of a text
	searchedBytes = 1 << 20
)

// entry is an entry of a container: its header, which a change may write to, and where its
// payload lies.
type entry struct {
	header       []byte // 64 bytes
	payload, end int64
}

func (e entry) kind() uint16  { return binary.LittleEndian.Uint16(e.header) }
func (e entry) arch() uint32  { return binary.LittleEndian.Uint32(e.header[28:]) }
func (e entry) flags() uint64 { return binary.LittleEndian.Uint64(e.header[40:]) }

// RetargetFile changes the architecture of the entries of a file, and returns how many.
func RetargetFile(name string, from, to uint32) (int, error) {
	return edit(name, func(_ *os.File, e entry) (bool, error) {
		if e.arch() != from {
			return false, nil
		}
		binary.LittleEndian.PutUint32(e.header[28:], to)
		return true, nil
	})
}

// ClearZstd clears the flag of entries that are compressed with zstd, so that they look as an old
// driver sees them. It returns how many.
func ClearZstd(name string) (int, error) {
	return edit(name, func(_ *os.File, e entry) (bool, error) {
		if e.flags()&zstdFlag == 0 {
			return false, nil
		}
		binary.LittleEndian.PutUint64(e.header[40:], e.flags()&^zstdFlag)
		return true, nil
	})
}

var ptxVersion = regexp.MustCompile(`\.version ([0-9]\.[0-9])\b`)

// RaisePTX sets the version of a file's PTX, and returns the number of entries whose text has
// it now. Those whose text is compressed beyond reading stay as they are.
func RaisePTX(name, version string) (int, error) {
	var major, minor uint16
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 || err != nil || len(version) != 3 {
		return 0, fmt.Errorf("%q is no version of PTX with two digits", version)
	}
	return edit(name, func(f *os.File, e entry) (bool, error) {
		if e.kind() != kindPTX {
			return false, nil
		}
		head := make([]byte, min(ptxHead, e.end-e.payload))
		if _, err := f.ReadAt(head, e.payload); err != nil {
			return false, err
		}
		at := ptxVersion.FindSubmatchIndex(head)
		if at == nil {
			return false, nil
		}
		binary.LittleEndian.PutUint16(e.header[24:], minor)
		binary.LittleEndian.PutUint16(e.header[26:], major)
		_, err := f.WriteAt([]byte(version), e.payload+int64(at[2]))
		return true, err
	})
}

// edit calls change for each entry of each container of a file, and writes the header if change
// says so. It returns how many it wrote.
func edit(name string, change func(*os.File, entry) (bool, error)) (int, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	n, err := editFile(f, change)
	return n, errors.Join(err, f.Close())
}

func editFile(f *os.File, change func(*os.File, entry) (bool, error)) (changed int, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	for at := int64(0); ; {
		begin, size, err := nextContainer(f, at)
		if err != nil || begin < 0 {
			return changed, err
		}
		if begin+fatbinHeader+size > st.Size() {
			at = begin + 8
			continue
		}
		n, whole, err := editContainer(f, begin+fatbinHeader, begin+fatbinHeader+size, change)
		if changed += n; err != nil {
			return changed, err
		}
		if at = begin + 8; whole {
			at = begin + fatbinHeader + size
		}
	}
}

// nextContainer returns the next container at an offset divisible by 8, or -1. size is that of
// its entries.
func nextContainer(f *os.File, at int64) (begin, size int64, err error) {
	b := make([]byte, searchedBytes)
	for at = (at + 7) / 8 * 8; ; at += searchedBytes - fatbinHeader {
		n, err := f.ReadAt(b, at)
		if err != nil && err != io.EOF {
			return 0, 0, err
		}
		for i := 0; i+fatbinHeader <= n; i += 8 {
			if bytes.Equal(b[i:i+8], []byte(fatbinMagic)) {
				size := binary.LittleEndian.Uint64(b[i+8:])
				if size >= entryHeader && size < 1<<40 && size%8 == 0 {
					return at + int64(i), int64(size), nil
				}
			}
		}
		if n < len(b) {
			return -1, 0, nil
		}
	}
}

// editContainer edits the entries between two offsets. whole reports whether they end where
// the container does; bytes that only look like a container are left as they are.
func editContainer(f *os.File, at, end int64, change func(*os.File, entry) (bool, error)) (changed int, whole bool, err error) {
	var list []entry
	for at+entryHeader <= end {
		e := entry{header: make([]byte, entryHeader)}
		if _, err := f.ReadAt(e.header, at); err == io.EOF {
			break
		} else if err != nil {
			return 0, false, err
		}
		length, stored := int64(binary.LittleEndian.Uint32(e.header[4:])), int64(binary.LittleEndian.Uint32(e.header[8:]))
		if binary.LittleEndian.Uint16(e.header[2:]) != 0x0101 || length < entryHeader || length%8 != 0 || at+length+stored > end {
			break
		}
		e.payload, e.end = at+length, at+length+stored
		list = append(list, e)
		at = e.end
	}
	if at != end {
		return 0, false, nil
	}
	for _, e := range list {
		begin := e.payload - int64(binary.LittleEndian.Uint32(e.header[4:]))
		ok, err := change(f, e)
		if err != nil {
			return changed, true, err
		}
		if !ok {
			continue
		}
		if _, err := f.WriteAt(e.header, begin); err != nil {
			return changed, true, err
		}
		changed++
	}
	return changed, true, nil
}

// applyGPU makes the faults in GPU code of the files in a root. It is an error if a pattern
// matches no file, or a fault changes nothing.
func (f *Fault) applyGPU(root string) error {
	for _, r := range f.Retarget {
		if err := editEach(root, r.Files, func(file string) (int, error) { return RetargetFile(file, r.From, r.To) }); err != nil {
			return err
		}
	}
	if len(f.Zstd) > 0 {
		if err := editEach(root, f.Zstd, ClearZstd); err != nil {
			return err
		}
	}
	for _, p := range f.PTX {
		if err := editEach(root, p.Files, func(file string) (int, error) { return RaisePTX(file, p.Version) }); err != nil {
			return err
		}
	}
	return nil
}

// editEach edits the files that match patterns, each once: a link is its file.
func editEach(root string, patterns []string, edit func(file string) (int, error)) error {
	changed := 0
	var done []string
	for _, p := range patterns {
		err := each(root, p, func(file string) error {
			real, err := filepath.EvalSymlinks(file)
			if err != nil || slices.Contains(done, real) {
				return err
			}
			done = append(done, real)
			n, err := edit(real)
			changed += n
			return err
		})
		if err != nil {
			return err
		}
	}
	if changed == 0 {
		return fmt.Errorf("%q: no entry to change", patterns)
	}
	return nil
}
