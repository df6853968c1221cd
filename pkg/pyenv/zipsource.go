package pyenv

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pycode"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// Bounds of the source in a zip file, in bytes.
const (
	maxWhole   = 16 << 20 // of a zip file of which the source is read
	maxSources = 64 << 20 // of all its source
	maxReduced = 4 << 20  // of what is kept of it
)

// sourceMark begins the source of a file in the text that [Extract] makes of a zip file:
// after it come its name, its size and a line's end, then its bytes. No name has its byte.
const sourceMark = "\x00"

// manifest is the file of an archive of TorchServe that names its handler (model-archiver).
const manifest = "MAR-INF/MANIFEST.json"

// Handler returns the handler that the manifest of a model of TorchServe names, by the entry of its archive
// or of the manifest itself, or "" if it is not known.
func Handler(e *layers.Entry) string {
	text := e.Content
	if path.Base(e.Path) != path.Base(manifest) {
		text, _ = Member(e, manifest)
	}
	var doc struct {
		Model struct {
			Handler string `json:"handler"`
		} `json:"model"`
	}
	if json.Unmarshal(text, &doc) != nil {
		return ""
	}
	return doc.Model.Handler
}

// zipSources returns what is kept of the Python files of a zip file, reduced.
func zipSources(b []byte) []byte {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil
	}
	var out bytes.Buffer
	left := int64(maxSources)
	for _, f := range z.File {
		if ext := path.Ext(f.Name); ext != ".py" && ext != ".pyc" && f.Name != manifest || len(f.Name) >= maxLine || strings.ContainsAny(f.Name, "\n\x00") {
			continue
		}
		text, n := member(f, left)
		if left -= n; left <= 0 || out.Len()+len(text) > maxReduced {
			break
		}
		if text != nil {
			fmt.Fprintf(&out, "%s%s\x00%d\n%s\n", sourceMark, f.Name, len(text), text)
		}
	}
	return out.Bytes()
}

// member returns a Python file of a zip file, reduced, or nil if it cannot be read, and the
// number of bytes that it has.
func member(f *zip.File, most int64) (text []byte, n int64) {
	if f.UncompressedSize64 > pysource.MaxSource {
		return nil, 0
	}
	r, err := f.Open()
	if err != nil {
		return nil, 0
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, min(most, pysource.MaxSource)+1))
	switch {
	case err != nil || int64(len(b)) > most || len(b) > pysource.MaxSource:
		return nil, int64(len(b))
	case f.Name == manifest:
		return b, int64(len(b))
	case path.Ext(f.Name) == ".pyc":
		return pycode.Reduce(b), int64(len(b))
	}
	return pysource.Reduce(b), int64(len(b))
}

// Member returns the reduced source of a module in a zip file, by the entry of the file and
// the path in it, or false if it is not known. The caller must not change the bytes.
func Member(e *layers.Entry, name string) ([]byte, bool) {
	text := e.Content
	if !bytes.HasPrefix(text, []byte(zipHeading)) { // a small file that is kept whole
		text = zipSources(text)
	} else if i := bytes.Index(text, []byte("\n"+sourceMark)); i >= 0 {
		text = text[i+1:]
	}
	for {
		rest, ok := bytes.CutPrefix(text, []byte(sourceMark))
		if !ok {
			return nil, false
		}
		head, body, _ := bytes.Cut(rest, []byte("\n"))
		is, size, _ := strings.Cut(string(head), "\x00")
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n >= len(body) {
			return nil, false
		}
		if is == name {
			return body[:n:n], true
		}
		text = body[n+1:]
	}
}

// IsZip reports whether a file is a zip file: a program, or a directory of modules.
func IsZip(e *layers.Entry) bool {
	names, why := zipNames(e)
	return names != nil && why == ""
}
