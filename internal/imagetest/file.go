package imagetest

import (
	"archive/tar"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// File is one entry of a layer.
type File struct {
	Name     string // as in the tar
	Type     byte   // a tar.Type constant
	Link     string
	Mode     int64
	UID, GID int
	Capable  bool // carries a file capability
	Devmajor int64
	Devminor int64
	Size     int64
	ELF      *ELF   // its content if not nil, else
	Data     string // its content, followed by zero bytes up to Size
	sparse   bool
	half     bool // only the first half of the ELF file is kept
	short    int  // number of bytes cut off the end of the ELF file
}

// kinds maps the first word of a body to the reader of that kind of file. rest is the remainder of the line without
// attributes; body is the lines after it.
var kinds = map[string]func(im *Image, f *File, rest, body string) error{
	"elf":      (*Image).fileELF,
	"symlink":  func(_ *Image, f *File, rest, _ string) error { return f.link(tar.TypeSymlink, rest) },
	"hardlink": func(_ *Image, f *File, rest, _ string) error { return f.link(tar.TypeLink, rest) },
	"dir":      func(_ *Image, f *File, rest, _ string) error { f.Type = tar.TypeDir; return nothing(rest) },
	"fifo":     func(_ *Image, f *File, rest, _ string) error { f.Type = tar.TypeFifo; return nothing(rest) },
	"char":     func(_ *Image, f *File, rest, _ string) error { return f.char(rest) },
	"sparse":   func(_ *Image, f *File, rest, _ string) error { f.sparse = true; return f.size(rest) },
	"size":     func(_ *Image, f *File, rest, _ string) error { return f.size(rest) },
	"text":     func(_ *Image, f *File, rest, body string) error { f.setData(body); return nothing(rest) },
	"hex":      func(_ *Image, f *File, rest, body string) error { return f.hex(rest + body) },
	"ldcache":  func(_ *Image, f *File, rest, body string) error { return f.ldcache(rest, body) },
	"fatbin":   func(_ *Image, f *File, rest, body string) error { return f.fatbin(rest, body) },
	"rpmdb":    func(_ *Image, f *File, rest, body string) error { return f.rpmdb(rest, body) },
	"copy":     func(im *Image, f *File, rest, _ string) error { return im.copy(f, rest) },
}

func (im *Image) parseFile(name, body string) (File, error) {
	f := File{Name: name, Type: tar.TypeReg, Mode: -1}
	first, rest, _ := strings.Cut(body, "\n")
	word, arg := cutWord(first)
	kind, ok := kinds[word]
	if !ok {
		f.setData(body)
		f.defaultMode()
		return f, nil
	}
	arg, err := f.attributes(arg)
	if err == nil {
		err = kind(im, &f, arg, rest)
	}
	if err != nil && word == "elf" {
		return f, err
	}
	if err != nil {
		return f, fmt.Errorf("%s: %w (begin the body with a line %q if it is the content itself)", word, err, "text")
	}
	f.defaultMode()
	return f, nil
}

// attributes reads the attributes on a line and returns the line without them.
func (f *File) attributes(line string) (string, error) {
	var rest []string
	for _, word := range strings.Fields(line) {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch {
		case word == "cap":
			f.Capable = true
		case word == "half":
			f.half = true
		case key == "short":
			f.short, err = parseID(value)
		case key == "mode":
			f.Mode, err = parseMode(value)
		case key == "uid":
			f.UID, err = parseID(value)
		case key == "gid":
			f.GID, err = parseID(value)
		default:
			rest = append(rest, word)
		}
		if err != nil {
			return "", fmt.Errorf("%q is no attribute", word)
		}
	}
	return strings.Join(rest, " "), nil
}

func parseMode(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 8, 12)
	return int64(n), err
}

func parseID(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

func (f *File) defaultMode() {
	switch {
	case f.Mode >= 0:
	case f.Type == tar.TypeSymlink:
		f.Mode = 0o777
	case f.Type == tar.TypeDir, f.ELF != nil && f.ELF.executable():
		f.Mode = 0o755
	default:
		f.Mode = 0o644
	}
}

func nothing(rest string) error {
	if rest != "" {
		return fmt.Errorf("unknown attribute %q", rest)
	}
	return nil
}

func (im *Image) fileELF(f *File, rest, body string) error {
	e, err := ParseELF("elf " + rest + "\n" + body)
	if err != nil {
		return err
	}
	f.ELF, f.Size = e, e.Size()
	if f.half {
		f.Halve()
	}
	if f.short > 0 {
		f.cutTo(max(0, f.Size-int64(f.short)))
	}
	return nil
}

func (f *File) link(typ byte, target string) error {
	if target == "" {
		return fmt.Errorf("no target follows")
	}
	f.Type, f.Link = typ, target
	if typ == tar.TypeLink {
		f.Link = strings.TrimPrefix(target, "/")
	}
	return nil
}

func (f *File) char(numbers string) error {
	f.Type = tar.TypeChar
	if n, err := fmt.Sscanf(numbers, "%d,%d", &f.Devmajor, &f.Devminor); n != 2 || err != nil || f.Devmajor < 0 || f.Devminor < 0 {
		return fmt.Errorf("%q: want numbers like 1,3", numbers)
	}
	return nil
}

func (f *File) size(arg string) error { return parseSizeTo(&f.Size, arg) }

func (f *File) setData(s string) { f.Data, f.Size = s, int64(len(s)) }

func (f *File) hex(digits string) error {
	b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
	if err != nil {
		return err
	}
	f.setData(string(b))
	return nil
}

// copy sets the content of f to that of the last earlier file of a name.
func (im *Image) copy(f *File, from string) error {
	number, name, _ := strings.Cut(from, "/")
	if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < len(im.Layers) {
		files := im.Layers[n].Files
		for i := len(files) - 1; i >= 0; i-- {
			if files[i].Name == name && files[i].Type == tar.TypeReg {
				f.ELF, f.Data, f.Size, f.sparse = files[i].ELF, files[i].Data, files[i].Size, files[i].sparse
				return nil
			}
		}
	}
	return fmt.Errorf("no earlier file %q", from)
}

// Halve cuts the content to its first half, which is then held in memory.
func (f *File) Halve() { f.cutTo(f.Size / 2) }

// cutTo cuts the content to its first size bytes.
func (f *File) cutTo(size int64) {
	if f.ELF != nil {
		f.Data, f.ELF = string(f.ELF.Bytes()), nil
	}
	f.Size = size
	f.Data = f.Data[:min(int64(len(f.Data)), f.Size)]
}

// WriteTo writes the content.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	if f.ELF != nil {
		return f.ELF.WriteTo(w)
	}
	if _, err := io.WriteString(w, f.Data); err != nil {
		return 0, err
	}
	return f.Size, writeZeros(w, f.Size-int64(len(f.Data)))
}

// clean returns a name in a tar as a path relative to the root. A path that leads outside still does.
func clean(name string) string { return path.Clean(strings.TrimLeft(name, "/")) }
