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

// list is a list of an installer: the form of its lines, and the directory in which its paths
// begin.
type list struct {
	form func(p *Plan, l list, text []byte) []byte
	dir  string
}

// listOf returns the list of an installer at a path; its form is nil for another file.
func listOf(p string) list {
	dir, base := path.Split(p)
	dir = path.Clean(dir)
	switch {
	case base == "RECORD" && strings.HasSuffix(dir, ".dist-info"):
		return list{(*Plan).inRecord, path.Dir(dir)}
	case dir == "var/lib/dpkg/info" && strings.HasSuffix(base, ".md5sums"):
		return list{(*Plan).inMD5sums, "."}
	case dir == "var/lib/dpkg/info" && strings.HasSuffix(base, ".list"):
		return list{(*Plan).inList, "."}
	case path.Base(dir) == "conda-meta" && strings.HasSuffix(base, ".json"):
		return list{(*Plan).inConda, path.Dir(dir)}
	}
	return list{}
}

// Correct plans the change of the installers' lists that name files of the plan: the lines of files
// that go, and the digests of those with other bytes. It reads lists only if there may be such
// files: no list has caches. img is the image that the plan was made for.
func (p *Plan) Correct(ctx context.Context, img *layers.Image) error {
	for _, s := range p.stripped {
		for _, name := range s.paths {
			p.listed[name] = s
		}
	}
	if len(p.listed) == 0 {
		return nil
	}
	names := map[inode][]string{}
	byLayer := map[int][]*layers.Entry{}
	var all int64
	for e, layer := range p.fsys.All() {
		if l := listOf(e.Path); l.form == nil || e.Type != layers.Regular || p.gone[layer][e.Path] || !p.has(l.dir) {
			continue
		}
		id := inode{layer, e.Inode}
		if names[id] = append(names[id], e.Path); len(names[id]) > 1 {
			continue
		}
		if all += e.Size; e.Size > maxList || all > maxLists {
			return fmt.Errorf("/%s and other lists of installers name files that would change, and are too large to be read", e.Path)
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

// has reports whether a file that lists may name lies below a directory.
func (p *Plan) has(dir string) bool {
	for name := range p.listed {
		if dir == "." || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// list plans the change of one list, with all its names.
func (p *Plan) list(layer int, names []string, old []byte) {
	fixed := func(text []byte) []byte {
		for _, name := range names {
			l := listOf(name)
			text = l.form(p, l, text)
		}
		return text
	}
	now := fixed(old)
	if bytes.Equal(now, old) {
		return
	}
	for _, name := range names {
		changed := *find(p.read[layer], name)
		changed.Content, changed.Size = fixed(changed.Content), int64(len(now))
		p.change(layer, name, &change{entry: &changed, content: now})
	}
}

// inRecord changes a wheel's RECORD
// (https://packaging.python.org/en/latest/specifications/recording-installed-packages/).
func (p *Plan) inRecord(l list, text []byte) []byte {
	encode := base64.RawURLEncoding.EncodeToString
	return p.inLines(text, func(line string) string {
		name, _, _ := strings.Cut(line, ",")
		if quoted, ok := strings.CutPrefix(line, `"`); ok {
			name, _, _ = strings.Cut(quoted, `",`)
		}
		return path.Join(l.dir, strings.ReplaceAll(name, `""`, `"`))
	}, func(s *stripping) (string, string) {
		return "sha256=" + encode(s.old.sha256), "sha256=" + encode(s.new.sha256)
	})
}

// inMD5sums changes dpkg's digests of a package's files (deb-md5sums(5)).
func (p *Plan) inMD5sums(_ list, text []byte) []byte {
	return p.inLines(text, func(line string) string {
		_, name, _ := strings.Cut(line, " ")
		return strings.TrimLeft(name, " *")
	}, func(s *stripping) (string, string) {
		return hex.EncodeToString(s.old.md5), hex.EncodeToString(s.new.md5)
	})
}

// inList changes dpkg's list of a package's files.
func (p *Plan) inList(_ list, text []byte) []byte {
	return p.inLines(text, func(line string) string { return strings.TrimPrefix(line, "/") }, nil)
}

// inConda changes the digests in conda's document about a package, if it names the file: those
// of files are sha256 and sha256_in_prefix there.
func (p *Plan) inConda(l list, text []byte) []byte {
	for _, s := range p.stripped {
		for _, name := range s.paths {
			if rel, ok := strings.CutPrefix(name, l.dir+"/"); ok && bytes.Contains(text, []byte(`"`+rel+`"`)) {
				text = bytes.ReplaceAll(text, []byte(hex.EncodeToString(s.old.sha256)), []byte(hex.EncodeToString(s.new.sha256)))
			}
		}
	}
	return text
}

// inLines leaves out the lines of files that go, and changes the digest in those of stripped
// files; one that is not that of the old bytes stays. named returns the path in a line, digests
// the texts of the old and the new digest.
func (p *Plan) inLines(text []byte, named func(line string) string, digests func(*stripping) (old, now string)) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	kept := lines[:0]
	for _, line := range lines {
		switch s, ok := p.listed[named(strings.TrimRight(line, "\r\n"))]; {
		case ok && s == nil:
			continue
		case ok && digests != nil:
			old, now := digests(s)
			line = strings.Replace(line, old, now, 1)
		}
		kept = append(kept, line)
	}
	return []byte(strings.Join(kept, ""))
}
