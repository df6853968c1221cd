// Package jar names the native libraries that Java archives carry, by the directory at the
// end of an archive. A Java program unpacks such a library when it runs; what the library
// needs is not read. It does not know which program opens an archive.
package jar

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// KeepID names the version of Keep and Extract. Change it with every change of them.
const KeepID = "jar 1"

const (
	heading    = "imgcheck: libraries in a jar\n"     // each in a line
	unread     = "imgcheck: a jar that is not read\n" // the reason follows
	maxTail    = 8 << 20                              // bytes at the end of an archive that are read
	maxFiles   = 1 << 17                              // files of an archive
	maxKept    = 1 << 10                              // libraries that are named
	maxName    = 512                                  // bytes of a name
	maxArchive = int64(8 << 30)                       // bytes of an archive
)

// Keep reports whether a file is an archive of Java, by its path and its size in bytes.
func Keep(name string, size int64) bool {
	switch path.Ext(name) {
	case ".jar", ".war", ".ear":
		return size >= 22 && size <= maxArchive
	}
	return false
}

// Extract returns the function that reduces an archive of a size to the names of the
// libraries for Linux in it. The function holds at most 8 MiB of the archive.
func Extract(size int64) func(io.Reader) ([]byte, error) {
	return func(r io.Reader) ([]byte, error) {
		from := max(0, size-maxTail)
		if _, err := io.CopyN(io.Discard, r, from); err != nil {
			return nil, err
		}
		b, err := io.ReadAll(io.LimitReader(r, maxTail))
		if err != nil {
			return nil, err
		}
		names, why := list(b, from, size)
		if why != "" {
			return []byte(unread + why), nil
		}
		if len(names) == 0 {
			return []byte(heading), nil
		}
		return []byte(heading + strings.Join(names, "\n") + "\n"), nil
	}
}

// list returns the libraries in an archive of a size, whose end begins at an offset, or why
// they are not known. A file that is no zip file has none.
func list(end []byte, from, size int64) (names []string, why string) {
	z, err := zip.NewReader(tail{end, from}, size)
	switch {
	case errors.Is(err, zip.ErrFormat) && !bytes.Contains(end, []byte("PK\x05\x06")): // the end of a directory
		return nil, ""
	case err != nil:
		return nil, "is a Java archive that cannot be read: " + err.Error()
	case len(z.File) > maxFiles:
		return nil, "is a Java archive with too many files"
	}
	for _, f := range z.File {
		if len(f.Name) <= maxName && !strings.ContainsAny(f.Name, "\n\x00") && forLinux(f.Name) {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxKept)], ""
}

var (
	library = regexp.MustCompile(`(?i)(\.so(\.[0-9]+)*|[-_]linux[-_][a-z0-9_]+([-_][a-z0-9]+)*\.jar)$`)
	foreign = regexp.MustCompile(`(?i)(android|freebsd|openbsd|netbsd|dragonfly|sunos|solaris|aix|darwin|macos|osx|windows)`)
)

// forLinux reports whether a file of an archive is a library for Linux, or an archive with
// such libraries by its classifier (libtensorflow-1.0.0-linux-x86_64-gpu.jar).
func forLinux(name string) bool { return library.MatchString(name) && !foreign.MatchString(name) }

// lines returns the lines of a text without their ends.
func lines(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for l := range strings.Lines(text) {
			if !yield(strings.TrimSuffix(l, "\n")) {
				return
			}
		}
	}
}

// tail is the end of a file that begins at an offset.
type tail struct {
	b    []byte
	from int64
}

func (t tail) ReadAt(p []byte, off int64) (int, error) {
	if off < t.from {
		return 0, errors.New("its directory is longer than 8 MiB")
	}
	return bytes.NewReader(t.b).ReadAt(p, off-t.from)
}

// Libraries returns the libraries for Linux in an archive of which [Extract] has kept the
// names, at most 1,024, or that was kept whole; or why they are not known. It returns
// neither for other files.
func Libraries(e *layers.Entry) (names []string, why string) {
	if e.Type != layers.Regular || !Keep(e.Path, e.Size) {
		return nil, ""
	}
	text := string(e.Content)
	if why, ok := strings.CutPrefix(text, unread); ok {
		return nil, why
	}
	if text, ok := strings.CutPrefix(text, heading); ok {
		return slices.Collect(lines(text)), ""
	}
	if int64(len(e.Content)) == e.Size {
		return list(e.Content, 0, e.Size)
	}
	return nil, ""
}
