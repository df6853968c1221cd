package provide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// fileSource is an archive on this machine.
type fileSource struct {
	*env
	file string
}

func (e *env) openFile(file string) (provider, error) {
	st, err := os.Stat(file)
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return nil, pe.Err
	}
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("is no file: say dir:DIR for a directory")
	}
	return &fileSource{e, file}, nil
}

func (s *fileSource) close() error { return nil }

func (s *fileSource) find(ctx context.Context, r *request) (*Found, error) {
	digest, err := digestOf(func() (io.ReadCloser, error) { return os.Open(s.file) })
	if err != nil {
		return nil, err
	}
	release := releaseOf(filepath.Base(s.file))
	if release != "" && !r.spec.allowText(release) {
		return nil, absent("is release %s, which does not fit", release)
	}
	here := func() (string, error) { return s.file, nil }
	f, err := s.found(ctx, r, here, strings.TrimPrefix(digest, "sha256:"), release, filepath.Base(s.file))
	if f != nil {
		f.Archive = nil // no server has it
	}
	return f, err
}

// found returns a library of an archive that fetch returns. release is empty if it is not
// known. The caller says where the archive is.
func (e *env) found(ctx context.Context, r *request, fetch func() (string, error), sum, release, title string) (*Found, error) {
	members, err := e.unpack(ctx, fetch, sum, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", title, err)
	}
	all, at, licence, err := e.fromMembers(members, release, r)
	if err != nil {
		return nil, err
	}
	checked := *r
	if release != "" { // by the caller, who chose the archive
		checked.spec, checked.Pin = specifiers{}, ""
	}
	s, doubt, err := checked.choose(all)
	if err != nil {
		return nil, err
	}
	source := fmt.Sprintf("%s (sha256:%s)", title, sum)
	f := &Found{Version: s.version, Source: source, Public: source, Doubt: doubt, Files: s.list(), Archive: &Archive{SHA256: sum, Dir: s.dir, License: at}}
	f.licensed(r, licence)
	return f, nil
}

// releaseOf returns the release in a wheel's or an archive's name:
// nvidia_cudnn_cu12-9.1.0.70-py3-none-any.whl,
// cudnn-linux-x86_64-9.1.0.70_cuda12-archive.tar.xz.
func releaseOf(name string) string {
	if w, err := parseWheel(name); err == nil {
		return w.version
	}
	stem, _, ok := strings.Cut(name, "-archive.")
	if !ok {
		return ""
	}
	last := stem[strings.LastIndexByte(stem, '-')+1:]
	last, _, _ = strings.Cut(last, "_")
	if _, err := version.Parse(last); err != nil {
		return ""
	}
	return last
}
