package pyenv

import (
	"archive/zip"
	"bytes"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// zipDir is the directory of a zip file, below a prefix.
type zipDir struct {
	file   string          // the zip file
	prefix string          // of the path entry in it: "" or "lib/"
	names  map[string]bool // files, and directories with a slash at the end
	dirs   map[string]bool // directories that only the paths of files imply
}

// The first lines of the text that [Extract] makes of a zip file.
const (
	zipMagic   = "imgcheck: files of a zip file\n" // each in a line
	noZip      = "imgcheck: no zip file\n"         // nothing follows
	unreadZip  = "imgcheck: a zip file not read\n" // the reason follows
	zipHeading = "imgcheck: "
)

const maxZip = 1 << 16 // files of a zip file

// openZip lists a file as a zip file.
func (e *entry) openZip(at *layers.Entry, prefix string) {
	names, why := zipNames(at)
	if why != "" {
		e.doubt = plain.Name(e.path) + ": " + why
		return
	}
	if names == nil {
		return
	}
	z := &zipDir{file: e.path, names: map[string]bool{}, dirs: map[string]bool{}}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		z.prefix = prefix + "/"
	}
	for _, name := range names {
		z.names[name] = true
		for dir := path.Dir(name); dir != "." && dir != "/" && !z.dirs[dir+"/"]; dir = path.Dir(dir) {
			z.dirs[dir+"/"] = true
		}
	}
	e.zip = z
}

// zipNames returns the names of the files in a zip file, or why they are not known. It
// returns nil for a file of another kind.
func zipNames(at *layers.Entry) (names []string, why string) {
	if at.Type != layers.Regular || at.Object != nil || at.Size < 22 {
		return nil, ""
	}
	if at.Content == nil {
		if at.Fault != "" {
			return nil, at.Fault
		}
		return nil, "its list of files was not kept"
	}
	if !strings.HasPrefix(string(at.Content[:min(len(at.Content), len(zipHeading))]), zipHeading) {
		return parseZip(bytes.NewReader(at.Content), int64(len(at.Content)))
	}
	return keptZip(string(at.Content))
}

// keptZip parses the text that [Extract] makes of a zip file.
func keptZip(text string) (names []string, why string) {
	if why, unread := strings.CutPrefix(text, unreadZip); unread {
		return nil, why
	}
	text, ok := strings.CutPrefix(text, zipMagic)
	if !ok {
		return nil, ""
	}
	names = []string{}
	for name := range strings.Lines(text) {
		if strings.HasPrefix(name, sourceMark) {
			break // their source follows
		}
		names = append(names, strings.TrimSuffix(name, "\n"))
	}
	return names, ""
}

// parseZip reads the directory at the end of a zip file.
func parseZip(r io.ReaderAt, size int64) (names []string, why string) {
	z, err := zip.NewReader(r, size)
	if err == zip.ErrFormat {
		return nil, ""
	}
	if err != nil {
		return nil, "is a zip file that cannot be read: " + err.Error()
	}
	if len(z.File) > maxZip {
		return nil, "has too many files"
	}
	names = []string{}
	for _, f := range z.File {
		if f.Name != "" && len(f.Name) < maxLine && !strings.ContainsAny(f.Name, "\n\x00") {
			names = append(names, f.Name)
		}
	}
	return names, ""
}

// inZip is zipimporter.find_spec.
func (e *entry) inZip(name, tail string, minor int) *Spec {
	z := e.zip
	base := z.prefix + tail
	for _, c := range []struct {
		suffix string
		kind   Kind
	}{{"/__init__.pyc", Bytecode}, {"/__init__.py", Source}, {".pyc", Bytecode}, {".py", Source}} {
		if !z.names[base+c.suffix] {
			continue
		}
		s := &Spec{Name: name, Kind: c.kind, File: z.file, Member: base + c.suffix}
		if strings.HasPrefix(c.suffix, "/") {
			s.Search = []string{z.file + "/" + base}
		}
		return s
	}
	if z.names[base+"/"] || minor >= 13 && z.dirs[base+"/"] {
		return &Spec{Name: name, Kind: Namespace, Search: []string{z.file + "/" + base}}
	}
	return nil
}

// modules returns the names of the modules and packages, sorted.
func (z *zipDir) modules() []string {
	var names []string
	for name := range z.names {
		rest, ok := strings.CutPrefix(name, z.prefix)
		first, inside, deeper := strings.Cut(rest, "/")
		switch {
		case !ok:
		case deeper && (inside == "__init__.py" || inside == "__init__.pyc"):
			names = append(names, first)
		case !deeper && (strings.HasSuffix(first, ".py") || strings.HasSuffix(first, ".pyc")):
			first = strings.TrimSuffix(strings.TrimSuffix(first, "c"), ".py")
			if first != "__init__" {
				names = append(names, first)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
