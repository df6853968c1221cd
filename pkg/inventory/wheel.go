package inventory

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func isMetadata(name string) bool {
	return strings.HasSuffix(name, ".dist-info/METADATA") || strings.HasSuffix(name, ".egg-info/PKG-INFO")
}

// readMetadata reads the header of METADATA or PKG-INFO, which has fields like a mail
// (PEP 566 and the core metadata specification). It ignores the description after the
// first empty line.
func readMetadata(inv *Inventory, name string, b []byte) error {
	dir := path.Dir(name)
	p := &Package{Kind: Wheel, Path: "/" + name, Dir: "/" + path.Dir(dir)}
	for line := range lines(b) {
		if line == "" {
			break
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			continue // a field continues
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(key) {
		case "name":
			p.Name = Normalize(value)
		case "version":
			p.Version = value
		case "requires-dist":
			if len(value) <= maxText && len(p.Requires) < maxRequires {
				p.Requires = append(p.Requires, value)
			}
		case "classifier":
			if m := pythonClassifier.FindStringSubmatch(value); m != nil && len(p.Pythons) < maxPythons {
				p.Pythons = append(p.Pythons, m[1])
			}
		}
	}
	return inv.add(p)
}

// pythonClassifier matches the classifier of a release of Python (https://pypi.org/classifiers/).
var pythonClassifier = regexp.MustCompile(`^Programming Language :: Python :: (\d\.\d{1,3})$`)

// Normalize returns the form of a distribution's name that PEP 503 compares.
func Normalize(name string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(name) {
		if r == '-' || r == '_' || r == '.' {
			dash = true
			continue
		}
		if dash {
			b.WriteByte('-')
			dash = false
		}
		b.WriteRune(r)
	}
	if dash {
		b.WriteByte('-')
	}
	return b.String()
}

// readRecord reads nothing, and stands in the table of sources: own reads a RECORD once
// its package is known.
func readRecord(*Inventory, string, []byte) error { return nil }

// maxRecord limits a RECORD, in bytes.
const maxRecord = 16 << 20

// own adds the files that a RECORD lists.
func (inv *Inventory) own(fsys fs.FS, p *Package, record string) {
	b, err := inv.take(fsys, record, maxRecord)
	if err != nil {
		inv.unread(record, reason(err))
		return
	}
	files, modules, bytes, err := parseRecord(p.Dir, b, maxOwned-inv.owned)
	if err != nil {
		inv.unread(record, err.Error())
		return
	}
	inv.owned += bytes
	p.Files, p.listed = files, modules
}

// parseRecord reads a RECORD: path, hash and size, as CSV (the specification of recording
// installed projects). Paths are relative to the directory of packages. It fails if more
// than limit bytes have to be held, and returns how many are. The modules are those that
// lie at the top, sorted.
func parseRecord(dir string, b []byte, limit int) (files map[string]Listed, modules []string, held int, err error) {
	r := csv.NewReader(bytes.NewReader(b))
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	files = map[string]Listed{}
	top := map[string]bool{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return files, slices.Sorted(maps.Keys(top)), held, nil
		}
		if err != nil {
			return nil, nil, 0, err
		}
		if row[0] == "" || len(row[0]) > maxText {
			continue
		}
		if m := listedModule(row[0]); m != "" && len(top) < maxModules {
			top[strings.Clone(m)] = true
		}
		if isText(row[0]) {
			continue
		}
		file := row[0]
		if !path.IsAbs(file) {
			file = path.Join(dir, file)
		}
		l := Listed{Size: -1}
		if len(row) > 1 && len(row[1]) <= maxText {
			l.Hash = strings.Clone(row[1])
		}
		if len(row) > 2 {
			if n, err := strconv.ParseInt(row[2], 10, 64); err == nil && n >= 0 {
				l.Size = n
			}
		}
		if held += 64 + len(file) + len(l.Hash); held > limit {
			return nil, nil, 0, fmt.Errorf("the RECORDs of the packages list more than %d MiB of libraries and programs", maxOwned>>20)
		}
		files[strings.Clone(path.Clean(file))] = l
	}
}

// isText reports whether no loader opens a file, by the end of its name. That is so for
// nine of ten lines of a RECORD. `__init__.py` is kept, because it stands for its
// package.
func isText(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return base != "__init__.py" && textEnds[path.Ext(base)] && !strings.Contains(base, ".so")
}

// textEnds are name endings of most files of wheels that are not ELF files.
var textEnds = map[string]bool{
	".py": true, ".pyc": true, ".pyi": true, ".pyx": true, ".pxd": true, ".h": true, ".hpp": true, ".cuh": true, ".c": true, ".cpp": true,
	".txt": true, ".json": true, ".md": true, ".rst": true, ".html": true, ".js": true, ".css": true, ".yaml": true, ".yml": true,
	".png": true, ".svg": true, ".csv": true, ".npy": true, ".npz": true, ".dat": true,
}
