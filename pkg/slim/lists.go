package slim

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Bounds of the installers' lists that are read, in bytes.
const (
	maxList  = 16 << 20
	maxLists = 256 << 20
)

// lister changes the digests of stripped files in a list of an installer. The list keeps its
// length, since digests of a kind have one length. A digest that is not that of the old bytes
// stays: the list was not true before.
type lister func(list []byte, dir string, s *stripping) []byte

// listOf returns the lister for a list of an installer, and the directory that its paths begin
// in; nil for another file.
func listOf(p string) (lister, string) {
	dir, base := path.Split(p)
	dir = path.Clean(dir)
	switch {
	case base == "RECORD" && strings.HasSuffix(dir, ".dist-info"):
		return inRecord, path.Dir(dir)
	case dir == "var/lib/dpkg/info" && strings.HasSuffix(base, ".md5sums"):
		return inMD5sums, "."
	case path.Base(dir) == "conda-meta" && strings.HasSuffix(base, ".json"):
		return inConda, path.Dir(dir)
	}
	return nil, ""
}

// correct plans the change of the lists that name the stripped files.
func (p *Plan) correct(ctx context.Context, img *layers.Image) error {
	if len(p.stripped) == 0 {
		return nil
	}
	names := map[inode][]string{}
	byLayer := map[int][]*layers.Entry{}
	var all int64
	for e, layer := range p.fsys.All() {
		if fix, dir := listOf(e.Path); fix == nil || e.Type != layers.Regular || !p.has(dir) {
			continue
		}
		id := inode{layer, e.Inode}
		if names[id] = append(names[id], e.Path); len(names[id]) > 1 {
			continue
		}
		if all += e.Size; e.Size > maxList || all > maxLists {
			return fmt.Errorf("/%s and other lists of installers name files that would change, and are too large to be read: leave out --gpu", e.Path)
		}
		byLayer[layer] = append(byLayer[layer], e)
	}
	for layer := range p.read {
		if len(byLayer[layer]) == 0 {
			continue
		}
		err := img.ReadFiles(ctx, layer, byLayer[layer], func(e *layers.Entry, r io.Reader) error {
			old, err := io.ReadAll(r)
			if err == nil {
				p.list(layer, names[inode{layer, e.Inode}], old)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("layer %d: %w", layer+1, err)
		}
	}
	return nil
}

// has reports whether a stripped file lies below a directory.
func (p *Plan) has(dir string) bool {
	for _, s := range p.stripped {
		for _, name := range s.paths {
			if dir == "." || strings.HasPrefix(name, dir+"/") {
				return true
			}
		}
	}
	return false
}

// list plans the change of one list, with all its names.
func (p *Plan) list(layer int, names []string, old []byte) {
	fixed := func(list []byte) []byte {
		for _, name := range names {
			fix, dir := listOf(name)
			for _, s := range p.stripped {
				list = fix(list, dir, s)
			}
		}
		return list
	}
	now := fixed(old)
	if bytes.Equal(now, old) {
		return
	}
	for _, name := range names {
		changed := *find(p.read[layer], name)
		changed.Content = fixed(changed.Content)
		p.change(layer, name, &change{entry: &changed, content: now})
	}
}

// inRecord changes a wheel's RECORD
// (https://packaging.python.org/en/latest/specifications/recording-installed-packages/).
func inRecord(list []byte, dir string, s *stripping) []byte {
	encode := base64.RawURLEncoding.EncodeToString
	return inLines(list, "sha256="+encode(s.old.sha256), "sha256="+encode(s.new.sha256), func(line string) bool {
		name, _, _ := strings.Cut(line, ",sha256=")
		return s.named(path.Join(dir, strings.ReplaceAll(strings.Trim(name, `"`), `""`, `"`)))
	})
}

// inMD5sums changes dpkg's list of a package (deb-md5sums(5)).
func inMD5sums(list []byte, _ string, s *stripping) []byte {
	return inLines(list, hex.EncodeToString(s.old.md5), hex.EncodeToString(s.new.md5), func(line string) bool {
		_, name, _ := strings.Cut(line, " ")
		return s.named(path.Clean(strings.TrimLeft(name, " ")))
	})
}

// inConda changes conda's document about a package, if it names the file: the digests of files
// there are sha256 and sha256_in_prefix.
func inConda(list []byte, dir string, s *stripping) []byte {
	for _, name := range s.paths {
		if rel, ok := strings.CutPrefix(name, dir+"/"); ok && bytes.Contains(list, []byte(`"`+rel+`"`)) {
			return bytes.ReplaceAll(list, []byte(hex.EncodeToString(s.old.sha256)), []byte(hex.EncodeToString(s.new.sha256)))
		}
	}
	return list
}

func (s *stripping) named(p string) bool {
	for _, name := range s.paths {
		if name == p {
			return true
		}
	}
	return false
}

// inLines replaces old by now in the lines that is accepts.
func inLines(list []byte, old, now string, is func(line string) bool) []byte {
	if !bytes.Contains(list, []byte(old)) {
		return list
	}
	lines := strings.SplitAfter(string(list), "\n")
	for i, line := range lines {
		if strings.Contains(line, old) && is(strings.TrimRight(line, "\r\n")) {
			lines[i] = strings.Replace(line, old, now, 1)
		}
	}
	return []byte(strings.Join(lines, ""))
}
