package size

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// This file searches all files of an image for the names of libraries of packages: with their release or without it, as linkers
// and find_library have them, or in parts from which a name is put together.

// noName are patterns of files, besides noText, that no program opens a library by.
var noName = []string{
	"etc/ld.so.cache", "**/*{LICENSE,LICENCE,EULA}*", "usr/local/cuda*/version.{json,txt}", "**/{requirements,constraints}*.{txt,in}", "**/requirements/*.txt",
	"**/{setup.py,setup.cfg,Pipfile}",
}

// archives are patterns of files of the image's own that a program may unpack and run, besides packed.
var archives = []string{"**/*.{tgz,txz,tbz2,7z,whl,deb,rpm,AppImage,snap,squashfs,sqsh,tar.*}"}

// unpackers are texts of programs that have others, or their own, compressed.
var unpackers = []string{"_MEIPASS", "UPX!", "AppImage"}

// opens matches a call that opens a library, up to its argument, and nameOf a text of such an argument that has the name.
var (
	opens  = regexp.MustCompile(`\b(?:dlopen|CDLL|PyDLL|LoadLibrary|load_library|find_library|loadLibrary|System\.load|ffi\.load|ffi\.Library|koffi\.load|Fiddle\.dlopen|dyn\.load|Libdl\.dlopen)\s*\(([^\n]*)`)
	nameOf = regexp.MustCompile(`["'][\w./+-]*\w\.so[.\d]*["']`)
	known  = regexp.MustCompile(`^\s*(?:(?:ctypes\.)?(?:util\.)?find_library\(\s*)?(?:None|["'][^"'\n{%$]*["'])\s*[,)]`)
	// preloads matches a line of a shell that loads a library which is not known, and code that is encrypted.
	preloads = regexp.MustCompile(`\bLD_(?:PRELOAD|AUDIT)=["']?[^\s"';]*\$|\b__pyarmor__\b`)
)

// opensAny returns the first text of an own file by which it may open a library that no text of the image names, or "".
func opensAny(text []byte) string {
	for _, m := range opens.FindAllSubmatch(text, -1) {
		if !known.Match(m[1]) && !nameOf.Match(m[1]) && len(bytes.TrimLeft(m[1], " \t)")) > 0 {
			return string(m[0])
		}
	}
	return string(preloads.Find(text))
}

// read finds which packages the files and settings of the image name.
func (d *debs) read(ctx context.Context) error {
	exact, folded := d.bothNamers()
	f := d.f
	for _, v := range f.settings() {
		if name, _, _ := strings.Cut(v, "="); d.byName[name] == nil { // images of NVIDIA list the packages in variables
			exact.in([]byte(v), false, func(i int) { d.lead(ownText, i) })
		}
	}
	return f.readAll(ctx, d.isText, func(e *layers.Entry, r io.Reader) error {
		if d.opaque != "" {
			return nil
		}
		from := d.ownerOf(e.Path)
		own := isPlaceOfOwn(e.Path)
		if packs.MatchAny(packed, e.Path) || path.Ext(e.Path) == ".egg" || own && packs.MatchAny(archives, e.Path) {
			d.opaque = "/" + e.Path // its names are compressed
			return nil
		}
		if own && (path.Ext(e.Path) == ".pyc" || isPython(e) && e.Size > maxOwn) {
			d.opaque = "/" + e.Path // it is not searched for what may open any library
			return nil
		}
		names := exact
		if e.Object == nil {
			names = folded
		}
		if isOwn(e) && e.Object == nil {
			text, err := io.ReadAll(io.LimitReader(r, maxOwn))
			if err != nil {
				return err
			}
			why := opensAny(text)
			if why == "" && isPython(e) {
				why = opaqueIn(text)
			}
			if why != "" && !isBinary(text) {
				d.opaque = fmt.Sprintf("/%s (%s)", e.Path, strings.TrimSpace(why))
				return nil
			}
			r = io.MultiReader(bytes.NewReader(text), r)
		}
		return names.read(r, own && e.Object != nil, func(i int) {
			if i < 0 {
				d.opaque = "/" + e.Path
				return
			}
			d.lead(from, i)
		})
	})
}

// isText reports whether a program may find the name of a library in a file.
func (d *debs) isText(e *layers.Entry) bool {
	if e.Size == 0 || path.Ext(e.Path) == ".pyc" && d.f.hasSource(e.Path) {
		return false
	}
	return e.Object != nil || !packs.MatchAny(noText, e.Path) && !packs.MatchAny(noName, e.Path)
}

// settings returns the texts of the image's config and of its start.
func (f *finder) settings() []string {
	config, s := f.Evidence.Config, f.Evidence.Started
	var texts []string
	values := func(v string) {
		if _, value, ok := strings.Cut(v, "="); ok {
			texts = append(texts, value)
		}
	}
	for _, v := range config.Env().Vars {
		values(v)
	}
	texts = append(texts, config.Healthcheck()...)
	for i := range s.Programs {
		p := &s.Programs[i]
		texts = append(texts, p.Args...)
		texts = slices.AppendSeq(texts, maps.Values(p.Env))
		for _, l := range p.Chain {
			texts = append(texts, l.What)
		}
		if p.Python != nil {
			texts = append(texts, p.Python.Code)
		}
	}
	return texts
}

// namer finds the names of libraries in texts.
type namer struct {
	stems map[string]*libraryStem
	first [256]bool                 // their first bytes
	begin map[uint16][]*libraryStem // by their first two bytes
	fold  bool                      // the stems are in lower case, as are the texts to be
	tries int
}

// libraryStem is the name of libraries between "lib" and ".so", and the base names of these libraries by package.
type libraryStem struct {
	text  string
	names map[int][]string
}

// bothNamers returns a [namer] that tells capitals from small letters, and one that does not.
func (d *debs) bothNamers() (exact, folded *namer) {
	of := func(fold bool) *namer {
		return &namer{stems: map[string]*libraryStem{}, begin: map[uint16][]*libraryStem{}, fold: fold}
	}
	exact, folded = of(false), of(true)
	for _, base := range slices.Sorted(maps.Keys(d.byFile)) {
		stem := strings.TrimPrefix(stemOf(base), "lib")
		for _, i := range d.byFile[base] {
			exact.add(stem, base, i)
			folded.add(strings.ToLower(stem), strings.ToLower(base), i)
		}
	}
	return exact, folded
}

func (n *namer) add(stem, base string, i int) {
	if len(stem) < 3 {
		return
	}
	s := n.stems[stem]
	if s == nil {
		s = &libraryStem{stem, map[int][]string{}}
		n.stems[stem] = s
		key := uint16(stem[0])<<8 | uint16(stem[1])
		n.first[stem[0]], n.begin[key] = true, append(n.begin[key], s)
	}
	s.names[i] = append(s.names[i], base)
}

// maxTries limits the places in all files that are looked at for names.
const maxTries = 1 << 30

// Bytes of a buffer, and those before and behind a name that say what it is.
const (
	nameBuffer = 256 << 10
	nameBehind = 8
	nameAhead  = 512
)

// read reads a file and calls found with each package that it names, with some perhaps more than once; with -1 if unpacks is
// set and it has a text of unpackers, or if there were too many places to look at.
func (n *namer) read(r io.Reader, unpacks bool, found func(i int)) error {
	buf := make([]byte, 0, nameBuffer+nameBehind+nameAhead)
	binary, first := false, true
	begin := 0 // bytes of the buffer that were searched
	for {
		got, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+got]
		end := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !end {
			return err
		}
		if first {
			binary, first = isBinary(buf), false
		}
		if unpacks && slices.ContainsFunc(unpackers, func(s string) bool { return bytes.Contains(buf, []byte(s)) }) {
			found(-1)
		}
		if n.fold {
			for i, c := range buf[begin:] {
				buf[begin+i] = lower(c)
			}
		}
		to := len(buf)
		if !end {
			to = len(buf) - nameAhead
		}
		n.search(buf, begin, to, binary, found)
		if n.tries > maxTries {
			found(-1)
			return nil
		}
		if end {
			return nil
		}
		keep := to - nameBehind
		buf = buf[:copy(buf, buf[keep:])]
		begin = nameBehind
	}
}

// in does the same with a text as a whole.
func (n *namer) in(text []byte, binary bool, found func(i int)) {
	n.search(text, 0, len(text), binary, found)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// isBinary reports whether a file is no text.
func isBinary(text []byte) bool { return bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 }

// search calls found for the names that begin in a part of a text. A name stands alone in a text. In a binary it may also have
// other letters around it: compilers of Go and Rust put nothing between texts, those of .NET a zero behind each letter.
func (n *namer) search(text []byte, from, to int, binary bool, found func(i int)) {
	for i := from; i < to && i+1 < len(text); i++ {
		if !n.first[text[i]] {
			continue
		}
		if next := text[i+1]; next != 0 {
			if next < '0' || next > 'z' {
				continue // no stem goes on so
			}
			list := n.begin[uint16(text[i])<<8|uint16(next)]
			n.tries += len(list)
			for _, s := range list {
				n.match(text, i, s, binary, found)
			}
		} else if binary && i+3 < len(text) && text[i+3] == 0 && text[i+2] != 0 {
			for _, s := range n.begin[uint16(text[i])<<8|uint16(text[i+2])] {
				if isWide(text[i:], s.text) {
					s.all(found)
				}
			}
		}
	}
}

func isWide(text []byte, s string) bool {
	if len(text) < 2*len(s) {
		return false
	}
	for i := range len(s) {
		if text[2*i] != s[i] || text[2*i+1] != 0 {
			return false
		}
	}
	return true
}

// all calls found with the packages of a stem.
func (s *libraryStem) all(found func(i int)) {
	for i := range s.names {
		found(i)
	}
}

// isMoved reports whether instructions of x86-64 end in a value of four or eight bytes: a short text whose parts a compiler has put into
// code, such as that of a std::string. The rest of the text may be in an instruction far from it.
func isMoved(before []byte) bool {
	n := len(before)
	if n > 0 && before[n-1]&^7 == 0xb8 { // mov to a register
		return true
	}
	for _, length := range []int{2, 3, 4, 6, 7} { // mov to memory: the opcode, ModRM, perhaps SIB, and a displacement of 0, 1 or 4 bytes
		if n >= length && before[n-length] == 0xc7 && before[n-length+1]&0x38 == 0 {
			return true
		}
	}
	return false
}

// isPrintable reports whether bytes are of a text.
func isPrintable(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' })
}

// loose is the least number of letters of a name that a binary does not have by chance; one with fewer has text around it.
const loose = 5

// match calls found if a text has a stem, or a beginning of it that the text goes on from, at a place.
func (n *namer) match(text []byte, at int, s *libraryStem, binary bool, found func(i int)) {
	same := 2
	for same < len(s.text) && at+same < len(text) && text[at+same] == s.text[same] {
		same++
	}
	before, behind := text[:at], text[at+same:]
	lib := bytes.HasSuffix(before, []byte("lib"))
	alone := !endsWord(before) || lib && !endsWord(before[:len(before)-3]) || bytes.HasSuffix(before, []byte("-l"))
	ends := len(behind) == 0 || !isLetter(behind[0])
	if binary && same >= 4 && isMoved(before) {
		s.all(found)
		return
	}
	switch {
	case same < len(s.text): // a beginning
		if !alone && !(binary && lib) {
			return
		}
		if binary && lib && same >= loose {
			s.all(found) // the first eight bytes of a text that a compiler has put into code
			return
		}
		part := s.text[same-1] == '_' || s.text[same-1] == '-'
		goesOn := len(behind) > 0 && strings.IndexByte("%{$*?[(", behind[0]) >= 0
		stops := lib && (len(behind) == 0 || strings.IndexByte("\"'`\x00", behind[0]) >= 0)
		if same >= 3 && goesOn || lib && (goesOn || stops) || part && ends {
			s.all(found)
		}
	case alone && ends || binary && (lib || len(s.text) >= loose || (alone || isPrintable(before[max(0, len(before)-4):])) && (ends || isPrintable(behind[:min(4, len(behind))]))):
		version := libraryVersion.Find(behind[:min(len(behind), 40)])
		if version == nil || !lib {
			s.all(found)
			return
		}
		name := "lib" + s.text + string(version)
		for i, names := range s.names {
			if slices.ContainsFunc(names, func(base string) bool { return strings.HasPrefix(base, name) || strings.HasPrefix(name, base) }) {
				found(i)
			}
		}
	}
}

// libraryVersion matches the end of the name of a library with a release.
var libraryVersion = regexp.MustCompile(`^\.so\.\d+(?:\.\d+)*`)

func isLetter(c byte) bool { return c < 0x80 && isWord(c) }

func endsWord(text []byte) bool { return len(text) > 0 && isLetter(text[len(text)-1]) }
