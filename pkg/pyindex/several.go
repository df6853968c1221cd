package pyindex

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Several are the indexes of one install.
type Several struct {
	// Indexes are in the order in which the installer asks them.
	Indexes []*Index
	// First says that the first index which has a distribution is the only one asked for it, as
	// uv does (https://docs.astral.sh/uv/concepts/indexes/#searching-across-multiple-indexes).
	// Else all are candidates alike, and the highest release wins, as pip says
	// (https://pip.pypa.io/en/stable/cli/pip_install/#finding-packages).
	First bool
}

// Find is [Index.Find] for several indexes. If one cannot be asked, which release is taken is
// not known, and an error.
func (s Several) Find(ctx context.Context, name, specifiers string) (*Release, error) {
	return among(s, name, func(x *Index) (*Release, error) { return x.Find(ctx, name, specifiers) }, func(r *Release) string { return r.Version })
}

// Wheel is [Index.Wheel] for several indexes. Of wheels of one release that two of them have, it
// is that of the first.
func (s Several) Wheel(ctx context.Context, name, specifiers string, on Platform) (*Wheel, error) {
	return among(s, name, func(x *Index) (*Wheel, error) { return x.Wheel(ctx, name, specifiers, on) }, func(w *Wheel) string { return w.Version })
}

// among returns the answer that an installer takes.
func among[T any](s Several, name string, ask func(*Index) (T, error), release func(T) string) (best T, err error) {
	if len(s.Indexes) == 1 {
		return ask(s.Indexes[0])
	}
	found := false
	var high version.Version
	for _, x := range s.Indexes {
		got, fails := ask(x)
		var none *noWheelError
		switch {
		case absent(fails):
			continue
		case errors.As(fails, &none) && !s.First:
			err = fails
			continue
		case fails != nil:
			return best, fails
		case s.First:
			return got, nil
		}
		v, fails := version.Parse(release(got))
		if fails != nil {
			return best, fails
		}
		if !found || v.Compare(high) > 0 {
			best, high, found = got, v, true
		}
	}
	switch {
	case found:
		return best, nil
	case err != nil:
		return best, err
	}
	return best, fmt.Errorf("no index has %s", name)
}

// absent reports whether an index answers that it does not have a distribution: PyTorch's answers
// 403 for what it does not have.
func absent(err error) bool {
	var s *StatusError
	return errors.As(err, &s) && (s.Code == http.StatusNotFound || s.Code == http.StatusForbidden && s.Host == "download.pytorch.org")
}

// noWheelError says that an index has no wheel that fits.
type noWheelError struct{ text string }

func (e *noWheelError) Error() string { return e.text }
