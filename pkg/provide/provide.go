// Package provide finds the shared libraries that an image lacks in directories, other
// images, Python package indexes and NVIDIA's redistributable archives.
//
// [Open] takes the sources in their order, as `--from` names them. [Sources.Find] finds a
// library by the names that it is loaded by, in a release that fits. It returns the files
// of one release together, cuDNN's sub-libraries with cuDNN, unmodified, with their
// licence.
//
// Downloads are cached by their hash, and verified before they are used. The same request
// to the same sources has the same result: the newest of the releases that fit. A source
// that cannot be reached is an error, not a reason to take the next one.
//
// The package does not know where in an image a library goes, whether it helps there, or
// what a framework needs. rules/provide says which library is in which package, and under
// which licence.
package provide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Schemes are the prefixes of sources, with the meaning of each.
var Schemes = []struct{ Prefix, Means string }{
	{"dir:", "a directory with libraries, below it too"},
	{"archive:", "a file: a wheel or another zip, or a tar (.tar, .tar.gz, .tar.xz, .tar.zst)"},
	{"image:", "another image, in any form that scan takes: image:nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04, image:oci:DIR"},
	{"pypi:", "a Python package index, pypi:https://HOST/simple; alone it is https://pypi.org/simple"},
	{"redist:", "NVIDIA's redistributable archives: the URL of a redistrib_*.json or of the directory that holds them; alone it is NVIDIA's"},
}

// Options say how sources are opened and read.
type Options struct {
	// Cache is the directory for downloads. It is made when it is needed. Empty means
	// CacheDir.
	Cache string
	// MaxCache bounds its bytes; the least recently used files are removed first. 0
	// means 32 GiB.
	MaxCache int64
	// Indexes stores the indexes of images' layers; nil means none.
	Indexes *layers.Cache
	// Client makes the requests; nil means one with the proxies that the environment
	// names.
	Client *http.Client
	// Insecure allows plain HTTP, and TLS without a known certificate, to any
	// server. Plain HTTP to this machine is allowed anyway.
	Insecure bool
	// Progress, when set, is called while something is downloaded or unpacked, with
	// the bytes that are done and the total, 0 if that is not known. It is called
	// from many goroutines.
	Progress func(what string, done, total int64)
}

// Want is a request for a library.
type Want struct {
	// Names are SONAMEs or file names. A release must have every one of them, as a
	// file or as a link to one.
	Names []string
	// Library is the ID of a library in rules/provide (cudnn, cublas, …). Empty
	// means the one that the first of Names belongs to. A name of no library is looked
	// for by itself, in directories, archives and images only.
	Library string
	// Versions are specifier sets as in Requires-Dist ("==9.1.0.70", ">=9.1,<10").
	// All of them must hold.
	Versions []string
	// Pin is the version that the user has asked for, or its first numbers, or
	// empty. Unlike with Versions, a release of unknown version does not fit.
	Pin string
	// CUDA is the major version of CUDA that the image uses ("12"), or empty.
	// Packages of cuDNN and NCCL are per major.
	CUDA string
	// Arch is the machine, by Go's name (amd64, arm64); empty means amd64.
	Arch string
	// Glibc is the image's glibc ("2.31"), or empty if it is not known. Wheels that
	// require a later one are left out.
	Glibc string
}

// Found is one release of a library.
type Found struct {
	// Library is the ID of the library in rules/provide, or empty.
	Library string
	// Version is the release ("9.1.0.70"). For directories and images it is often the
	// part in file names ("9.1.0"), or empty.
	Version string
	// Source names the package, wheel, archive or image that it is from, for people
	// and for a label. It holds no path of this machine except one that the user has
	// given.
	Source string
	// Public is Source in a form for publication: without a path of this machine, and
	// the same however the user has written it.
	Public string
	// Image is the image that the files are from; nil for another source.
	Image *Origin
	// Archive is the archive of a server that the files are from; nil for another source, and
	// for a server that wants a login.
	Archive *Archive
	// License is the licence of the files; nil if it is not known.
	License *License
	// Doubt is a line on a condition that could not be checked, or empty.
	Doubt string
	// Files are the library and its sub-libraries, in the order of their names.
	// They are of one release and machine.
	Files []File
}

// File is one library of a release, unmodified.
type File struct {
	Name   string // file name, without a directory
	Soname string // its DT_SONAME, or empty
	Size   int64  // in bytes
	Digest string // "sha256:…"
	// Links are other names of it: its SONAME if that is not Name, and the links
	// that its source has, in order.
	Links []string
	// Open opens the file. It can be called until Sources is closed.
	Open func() (io.ReadCloser, error)
}

// Origin is the place of files in an image.
type Origin struct {
	Ref    string // as in --from, without image:
	Digest string // of the manifest, or empty if the image has none
	Dir    string // the directory of the files, absolute, without links
}

// Archive is a wheel, zip or tar on a server.
type Archive struct {
	URL     string
	SHA256  string // in hex
	Dir     string // the directory of the files in it
	License string // the file of the licence in it, or empty
	// Wheel is the distribution, if it is a wheel of a package index, and Index the address of
	// the index, empty for PyPI.
	Wheel, Index string
}

// License is the licence of a library.
type License struct {
	Name string // "NVIDIA cuDNN Software License Agreement"
	URL  string // of its text
	// Text is the licence that came with the files, or empty.
	Text string
	// NeedsAcceptance is set if a user must accept the licence before the files are
	// added to an image.
	NeedsAcceptance bool
	// Terms is a sentence on its conditions for passing the files on.
	Terms string
}

// Names reports whether the release has a name, as a file or a link.
func (f *Found) Names(name string) bool { return f.File(name) != nil }

// File returns the file with a name, its own or a link's, or nil.
func (f *Found) File(name string) *File {
	for i := range f.Files {
		if f.Files[i].named(name) {
			return &f.Files[i]
		}
	}
	return nil
}

// Ask returns the lines that a user has to agree to before libraries are added, one for
// each licence that needs acceptance.
func Ask(list []*Found) []string {
	var terms []string
	under := map[string][]string{} // the libraries, by their licence's terms
	for _, f := range list {
		l := f.License
		if l == nil || !l.NeedsAcceptance {
			continue
		}
		t := fmt.Sprintf("under the %s (%s): %s", l.Name, l.URL, l.Terms)
		if under[t] == nil {
			terms = append(terms, t)
		}
		if !slices.Contains(under[t], f.title()) {
			under[t] = append(under[t], f.title())
		}
	}
	var asks []string
	for _, t := range terms {
		verb := "comes"
		if len(under[t]) > 1 {
			verb = "come"
		}
		asks = append(asks, fmt.Sprintf("%s %s %s Say --accept-nvidia-license when you accept it", strings.Join(under[t], ", "), verb, t))
	}
	return asks
}

func (f *Found) title() string { return strings.TrimSpace(f.Library + " " + f.Version) }

// Sources are the sources of libraries, in order.
type Sources struct {
	list []provider
	env  *env
}

// provider is a source of libraries. It returns an [absentError] if it was searched and
// does not have the library.
type provider interface {
	find(ctx context.Context, r *request) (*Found, error)
	close() error
}

// request is a Want, checked.
type request struct {
	Want
	lib  *Library // nil if the names belong to none
	spec specifiers
}

// Open opens sources, each with one of the prefixes of [Schemes]. It sends no requests. ctx
// must live as long as they are open.
func Open(ctx context.Context, specs []string, o Options) (*Sources, error) {
	e, err := newEnv(o)
	if err != nil {
		return nil, err
	}
	s := &Sources{env: e}
	for _, spec := range specs {
		src, err := e.open(ctx, spec)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("--from %s: %w", shown(spec), err)
		}
		s.list = append(s.list, named{shown(spec), src})
	}
	return s, nil
}

var login = regexp.MustCompile(`://[^/@]*@`)

// shown returns a source in a form for messages: without the login of a URL.
func shown(spec string) string { return login.ReplaceAllString(spec, "://") }

// Close closes the sources. Files that were found cannot be opened any more.
func (s *Sources) Close() error {
	var errs []error
	for _, src := range s.list {
		errs = append(errs, src.close())
	}
	return errors.Join(errs...)
}

// Find returns a library from the first source that has a release which fits. If none has
// one, the error is a [*NotFoundError]. A source that cannot be searched is another error.
func (s *Sources) Find(ctx context.Context, w Want) (*Found, error) {
	r, err := newRequest(w)
	if err != nil {
		return nil, err
	}
	missing := &NotFoundError{Want: w}
	for _, src := range s.list {
		f, err := src.find(ctx, r)
		var absent *absentError
		switch {
		case errors.As(err, &absent):
			missing.Tried = append(missing.Tried, err)
		case err != nil:
			return nil, fmt.Errorf("looking for %s: %w", r.title(), err)
		default:
			return f, nil
		}
	}
	return nil, missing
}

// NotFoundError is the error of a library that no source has. All of them were searched.
type NotFoundError struct {
	Want Want
	// Tried are the errors of the sources, in their order.
	Tried []error
}

func (e *NotFoundError) Error() string {
	what := (&request{Want: e.Want}).title()
	if len(e.Tried) == 0 {
		return fmt.Sprintf("nowhere to take %s from: name a source with --from (dir:DIR, image:REF, pypi:, redist:)", what)
	}
	var why []string
	for _, t := range e.Tried {
		why = append(why, t.Error())
	}
	return fmt.Sprintf("no source has %s: %s", what, strings.Join(why, "; "))
}

// absentError is the error of a source that was searched and does not have something.
type absentError struct{ why string }

func (e *absentError) Error() string { return e.why }

func absent(format string, args ...any) error { return &absentError{fmt.Sprintf(format, args...)} }

// named is a source whose errors begin with its spec.
type named struct {
	spec string
	provider
}

func (n named) find(ctx context.Context, r *request) (*Found, error) {
	f, err := n.provider.find(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.spec, err)
	}
	return f, nil
}

// open opens one source.
func (e *env) open(ctx context.Context, spec string) (provider, error) {
	scheme, rest, _ := strings.Cut(spec, ":")
	switch scheme {
	case "dir":
		return e.openDir(rest)
	case "archive":
		return e.openFile(rest)
	case "image":
		return e.openImage(ctx, rest)
	case "pypi":
		return e.openIndex(rest)
	case "redist":
		return e.openRedist(rest)
	}
	var known []string
	for _, s := range Schemes {
		known = append(known, s.Prefix)
	}
	return nil, fmt.Errorf("begins with none of %s", strings.Join(known, " "))
}
