package pyenv

import (
	"bytes"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/ziptail"
)

// Bounds of the files of which the index keeps something.
const (
	maxKept = 1 << 20  // bytes of a file that is kept whole
	maxPack = 64 << 20 // bytes of a zip file
)

var keptNames = []string{"pyvenv.cfg", "entry_points.txt", "top_level.txt", "requires.txt", "patchlevel.h"}

var siteFile = regexp.MustCompile(`(?:^|/)lib(?:64)?/python3\.\d{1,2}t?/site\.py$`)

// Keep reports whether this package needs a file, by the file's path without a leading slash
// and its size in bytes. Of zip files [Extract] keeps the names; the others are kept whole,
// also those that are Python source: pysource.Reduce leaves out the tables of editable
// installs.
func Keep(name string, size int64) bool {
	if isPack(name) {
		return size <= maxPack
	}
	if IsSettings(name) {
		return size <= maxSettings
	}
	return size <= maxKept && keptWhole(name)
}

// KeepID names the version of Keep and Extract, as inventory.WantsID does that of Wants.
const KeepID = "pyenv 40"

// keptWhole reports whether the bytes of a file are read as they are.
func keptWhole(name string) bool {
	base := path.Base(name)
	return slices.Contains(keptNames, base) || strings.HasSuffix(base, ".pth") || strings.HasSuffix(base, "._pth") ||
		base == "site.py" && siteFile.MatchString(name) || isFinder(base)
}

// isFinder reports whether a file is the module of an editable install of setuptools or
// editables.
func isFinder(base string) bool {
	return strings.HasPrefix(base, "__editable___") && strings.HasSuffix(base, "_finder.py") || strings.HasPrefix(base, "_editable_impl_")
}

func isPack(name string) bool {
	return strings.HasSuffix(name, ".zip") || strings.HasSuffix(name, ".egg") || strings.HasSuffix(name, ".pyz") || strings.HasSuffix(name, ".pex") || strings.HasSuffix(name, ".mar")
}

// Extract returns the function that reduces a file of [Keep], or nil for one that is kept
// whole. The function holds at most 16 MiB of the file.
func Extract(name string, size int64) func(io.Reader) ([]byte, error) {
	if IsSettings(name) {
		return func(r io.Reader) ([]byte, error) {
			b, err := io.ReadAll(io.LimitReader(r, maxSettings))
			return reduceSettings(name, b), err
		}
	}
	if !isPack(name) {
		return nil
	}
	return func(r io.Reader) ([]byte, error) { return extractZip(r, size) }
}

// extractZip reduces a zip file to the names in it, each in a line, and the source of its
// modules.
func extractZip(r io.Reader, size int64) ([]byte, error) {
	if size <= maxWhole {
		b := make([]byte, size)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		names, why := parseZip(bytes.NewReader(b), size)
		out := keepNames(names, why)
		if names != nil && why == "" {
			out = append(out, zipSources(b)...)
		}
		return out, nil
	}
	end, err := ziptail.Read(r, size)
	if err != nil {
		return nil, err
	}
	return keepNames(parseZip(end, size)), nil
}

// keepNames returns the text for the names in a zip file, or for why they are not known.
func keepNames(names []string, why string) []byte {
	switch {
	case why != "":
		return []byte(unreadZip + why)
	case names == nil:
		return []byte(noZip)
	}
	out := bytes.NewBufferString(zipMagic)
	for _, n := range names {
		out.WriteString(n + "\n")
	}
	return out.Bytes()
}
