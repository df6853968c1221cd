package pyimport

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// openFile is open().
func openFile(r *Run, a *args) value {
	name, ok := a.text(0, "file")
	mode, given := a.text(1, "mode")
	reads := ok && (!given || strings.HasPrefix(mode, "r"))
	if !reads {
		r.mayAppearAt(name)
		return &fileObject{}
	}
	if is, known := r.exists(name); known && !is {
		r.guess("FileNotFoundError", "[Errno 2] No such file or directory: "+quote(name))
	}
	if r.absolute(name) == "/proc/self/maps" {
		return &fileObject{text: r.mappings()}
	}
	if file := r.absolute(name); strings.HasSuffix(file, ".py") {
		if _, known := r.src.read(file); known {
			return &fileObject{text: &sourceText{path: file}}
		}
	}
	return &fileObject{text: r.settingsOf(name)}
}

// settingsOf returns the text of a file of settings, or nil if it is not known.
func (r *Run) settingsOf(name string) value {
	file := r.absolute(name)
	e, _, ok := r.src.fs.Lookup(file)
	if !ok || e.Type != layers.Regular || !pyenv.IsSettings(e.Path) {
		return nil
	}
	b, known := r.src.read(file)
	if !known || len(b) > maxText || !utf8.Valid(b) {
		return nil
	}
	r.spend(len(b) / textSteps)
	return &settingsText{string(b)}
}

// settingsText is the text of a file of settings, of which the index keeps a part (package pyenv).
type settingsText struct{ text string }

func (*settingsText) typeName() string { return "str" }

func (*settingsText) attr(*Run, string) (value, bool) { return nil, false }

// fileObject is an open file. Its text is not known, except that of /proc/self/maps,
// of Python source and of settings.
type fileObject struct{ text value }

func (*fileObject) typeName() string { return "io.TextIOWrapper" }

func (f *fileObject) attr(_ *Run, name string) (value, bool) {
	if name == "close" {
		return &builtin{"close", nothing}, true
	}
	if name != "read" || f.text == nil {
		return nil, false
	}
	return &builtin{"read", func(_ *Run, a *args) value {
		if len(a.pos) > 0 {
			return unknownf("a part of a file")
		}
		return f.text
	}}, true
}

// mappings is the text of /proc/self/maps: the paths of the mapped files are known, the rest
// of it is not.
type mappings struct {
	files []string
	whole bool // no other library may be mapped
}

// mappings returns the text of /proc/self/maps at this moment.
func (r *Run) mappings() *mappings {
	files, whole := r.host.Mapped()
	return &mappings{files: files, whole: whole && !r.passedOver}
}

func (*mappings) typeName() string { return "str" }

func (*mappings) attr(*Run, string) (value, bool) { return nil, false }

// contains reports whether a part of a file's name is in the text.
func (m *mappings) contains(part string) (is, known bool) {
	if slices.ContainsFunc(m.files, func(f string) bool { return strings.Contains(f, part) }) {
		return true, true
	}
	return false, m.whole && strings.Contains(part, ".so")
}
