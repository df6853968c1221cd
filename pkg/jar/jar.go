// Package jar names the native libraries that Java archives carry. It reads the directory at
// the end of an archive and no library, which a Java program unpacks when it runs: it does not
// know what a library needs, nor which program opens an archive.
package jar

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/ziptail"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// KeepID names the version of Keep and Extract. Change it with every change of them.
const KeepID = "jar 2"

const (
	heading    = "imgcheck: libraries in a jar\n"     // each in a line
	unread     = "imgcheck: a jar that is not read\n" // the reason follows
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
		end, err := ziptail.Read(r, size)
		if err != nil {
			return nil, err
		}
		names, why := list(end)
		if why != "" {
			return []byte(unread + why), nil
		}
		if len(names) == 0 {
			return []byte(heading), nil
		}
		return []byte(heading + strings.Join(names, "\n") + "\n"), nil
	}
}

// list returns the libraries in an archive, by its end, or why they are not known. A file
// that is no zip file has none.
func list(end ziptail.Tail) (names []string, why string) {
	z, err := zip.NewReader(end, end.Size)
	switch {
	case errors.Is(err, zip.ErrFormat) && !bytes.Contains(end.Bytes, []byte("PK\x05\x06")): // the end of a directory
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
	version    = regexp.MustCompile(`(\.[0-9]+)*$`)
	classifier = regexp.MustCompile(`[-_]linux[-_][a-z0-9_]+([-_][a-z0-9]+)*\.jar$`)
	bundle     = regexp.MustCompile(`(^|/)(onnxruntime(_gpu)?|opencv|tokenizers|xgboost4j(-gpu)?(_[0-9.]+)?)-[0-9][0-9.]*(-[0-9]+)?\.jar$`) // of Maven's artifacts
	foreign    = []string{"android", "freebsd", "openbsd", "netbsd", "dragonfly", "sunos", "solaris", "aix", "darwin", "macos", "osx", "windows"}
)

// forLinux reports whether a file of an archive is a library for Linux, or an archive with
// such libraries by its classifier (libtensorflow-1.0.0-linux-x86_64-gpu.jar), or one with those
// of all systems (onnxruntime-1.15.0.jar). An archive has up to maxFiles names, and a layer
// thousands of archives: most are decided without an expression.
func forLinux(name string) bool {
	name = strings.ToLower(name)
	is := strings.HasSuffix(name, ".so")
	if !is && name != "" && name[len(name)-1] <= '9' {
		i := strings.LastIndex(name, ".so.")
		is = i >= 0 && version.FindStringIndex(name[i+3:])[0] == 0
	}
	if !is && !(strings.HasSuffix(name, ".jar") && (classifier.MatchString(name) || bundle.MatchString(name))) {
		return false
	}
	return !slices.ContainsFunc(foreign, func(f string) bool { return strings.Contains(name, f) })
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
		return append(names, strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })...), ""
	}
	if int64(len(e.Content)) == e.Size {
		return list(ziptail.Tail{Bytes: e.Content, Size: e.Size})
	}
	return nil, ""
}
