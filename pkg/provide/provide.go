// Package provide finds the shared libraries that an image misses: in a
// directory, in another image, in a Python package index, among NVIDIA's
// redistributable archives.
//
// [Open] takes the sources in the order in which they are to be asked, as
// `--from` names them. [Sources.Find] asks them for a library by the names that
// it is loaded by, and for a release that fits; it gives the files of one
// release together, cuDNN's sub-libraries with cuDNN, unmodified, with the
// licence that they come under.
//
// What is downloaded is kept by its hash and checked before it is used. The same
// question to the same sources has the same answer: of the releases that fit,
// the newest is taken, and a source that could not be asked is an error, not a
// reason to take the next one.
//
// The package does not know where in an image a library has to go, whether it
// helps there, or what any framework asks for. Which library is in which
// package, and whose it is, stands in rules/provide.
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

// Schemes are what a source may begin with, and what it means.
var Schemes = []struct{ Prefix, Means string }{
	{"dir:", "a directory with libraries, below it too"},
	{"archive:", "a file: a wheel or another zip, or a tar (.tar, .tar.gz, .tar.xz, .tar.zst)"},
	{"image:", "another image, in any form that scan takes: image:nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04, image:oci:DIR"},
	{"pypi:", "a Python package index, pypi:https://HOST/simple; alone it is https://pypi.org/simple"},
	{"redist:", "NVIDIA's redistributable archives: the URL of a redistrib_*.json or of the directory that holds them; alone it is NVIDIA's"},
}

// Options say how sources are opened and read.
type Options struct {
	// Cache is the directory for what is downloaded, made when it is needed.
	// Empty is CacheDir.
	Cache string
	// MaxCache is how many bytes may stay in it; what was not used for longest
	// goes first. 0 is 32 GiB.
	MaxCache int64
	// Indexes keeps what was read of the layers of images; nil keeps nothing.
	Indexes *layers.Cache
	// Client makes the requests; nil is one that follows redirects and knows
	// the proxies that the environment names.
	Client *http.Client
	// Insecure allows plain HTTP, and TLS without a known certificate, to any
	// server. Plain HTTP to this machine is allowed anyway.
	Insecure bool
	// Progress, when set, is told what is being downloaded or unpacked and how far
	// it is: bytes, of total bytes, where total is 0 when not known. It is called
	// from many goroutines.
	Progress func(what string, done, total int64)
}

// Want is a library that is asked for.
type Want struct {
	// Names are the SONAMEs or file names that are asked for. What is found has
	// every one of them, as a file or as a link to one.
	Names []string
	// Library is the ID of a library in rules/provide (cudnn, cublas, …). Empty
	// is the one that the first of Names belongs to; a name that no library
	// has is looked for by itself, in directories, archives and images only.
	Library string
	// Versions are specifier sets as Requires-Dist has them ("==9.1.0.70",
	// ">=9.1,<10"), all of which must hold.
	Versions []string
	// Pin is the version that the user has asked for, or its first numbers, or
	// empty. Unlike Versions it is never taken on trust, where a version could
	// not be made out.
	Pin string
	// CUDA is the major version of CUDA that the asker is built for ("12"), or
	// empty. Packages of cuDNN and NCCL are per major.
	CUDA string
	// Arch is the machine, by Go's name (amd64, arm64); empty is amd64.
	Arch string
	// Glibc is the image's glibc ("2.31"), or empty when not known. Wheels that
	// say they need a later one are left out.
	Glibc string
}

// Found is one release of a library.
type Found struct {
	// Library is the ID of the library in rules/provide, or empty.
	Library string
	// Version is the release ("9.1.0.70"). Directories and images often tell no
	// more than the file names ("9.1.0"), or nothing (empty).
	Version string
	// Source says where it is from, for people and for a label: it names the
	// package, wheel, archive or image, and never a path of this machine but
	// that which the user has given.
	Source string
	// Public is Source as it may be published: without a path of this machine, and
	// the same however the user has written it.
	Public string
	// Image is the image that the files are of, where they are of one.
	Image *Origin
	// License is what the files come under; nil when nothing is known of it.
	License *License
	// Doubt says what could not be made sure of, in one line, or is empty.
	Doubt string
	// Files are the library and its sub-libraries, in the order of their names.
	// They are the same release and machine.
	Files []File
}

// File is one library of a release, unmodified.
type File struct {
	Name   string // file name, without a directory
	Soname string // its DT_SONAME, or empty
	Size   int64  // in bytes
	Digest string // "sha256:…"
	// Links are names beside it that lead to it: its SONAME when that is not its
	// name, and the links that its source has. In order, without Name.
	Links []string
	// Open reads the file; it can be called until Sources is closed.
	Open func() (io.ReadCloser, error)
}

// Origin is where in an image files are.
type Origin struct {
	Ref    string // as --from names it, without image:
	Digest string // of the manifest, or empty where the image has none
	Dir    string // the directory of the files, absolute, without links
}

// License is what a library may be passed on under.
type License struct {
	Name string // "NVIDIA cuDNN Software License Agreement"
	URL  string // where it stands
	// Text is the licence as it came with the files, or empty.
	Text string
	// NeedsAcceptance says that nobody may add the files to an image who has
	// not accepted the licence.
	NeedsAcceptance bool
	// Terms are what it asks of whoever passes the files on, in a sentence.
	Terms string
}

// Names reports whether the release has a name, as a file or a link.
func (f *Found) Names(name string) bool { return f.File(name) != nil }

// File is the file that has a name, itself or by a link; nil when none has.
func (f *Found) File(name string) *File {
	for i := range f.Files {
		if f.Files[i].named(name) {
			return &f.Files[i]
		}
	}
	return nil
}

// Ask are the lines that a user has to agree to before libraries are added, one
// for each licence; none when their licences ask for nothing.
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

// Sources are the places that are asked, in order.
type Sources struct {
	list []provider
	env  *env
}

// provider is a place that has libraries: one of --from. An error that is an [absentError] says
// that it was looked at and has no such thing.
type provider interface {
	find(ctx context.Context, r *request) (*Found, error)
	close() error
}

// request is a Want, checked.
type request struct {
	Want
	lib  *Library // nil when the names belong to none
	spec specifiers
}

// Open takes sources, each with one of the prefixes of [Schemes]. It looks at
// nothing that is not on this machine. ctx is for as long as they are open.
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

// shown is a source as it may be shown: without the login of a URL.
func shown(spec string) string { return login.ReplaceAllString(spec, "://") }

// Close lets go of what the sources hold. Files that were found cannot be opened
// any more.
func (s *Sources) Close() error {
	var errs []error
	for _, src := range s.list {
		errs = append(errs, src.close())
	}
	return errors.Join(errs...)
}

// Find asks the sources in their order for a library, and takes the first that
// has a release that fits. When none has, the error is a [*NotFoundError]; a
// source that could not be asked is an error of its own.
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

// NotFoundError says that every source was asked, and none has what is wanted.
type NotFoundError struct {
	Want Want
	// Tried is what each source has answered, in their order.
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

// absentError says that a place was looked at and does not have something.
type absentError struct{ why string }

func (e *absentError) Error() string { return e.why }

func absent(format string, args ...any) error { return &absentError{fmt.Sprintf(format, args...)} }

// named puts a source's own words before its errors.
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

// open makes one source.
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
