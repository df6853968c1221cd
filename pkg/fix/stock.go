package fix

import (
	"context"
	"errors"
	"fmt"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// stock remembers the answers of the sources of libraries: each question is asked once.
type stock struct {
	find    func(context.Context, provide.Want) (*provide.Found, error) // nil without a source
	answers map[string]*provide.Found                                   // by the question
	read    map[*provide.Found]map[string]*elfdeps.Object
	why     map[string]string // why a library cannot be added, by its name
}

func newStock(find func(context.Context, provide.Want) (*provide.Found, error)) *stock {
	return &stock{find: find, answers: map[string]*provide.Found{}, read: map[*provide.Found]map[string]*elfdeps.Object{}, why: map[string]string{}}
}

// ask returns a release with the library name, or nil if no source has one; the reason is
// then in why.
func (s *stock) ask(ctx context.Context, name string, w provide.Want) (*provide.Found, error) {
	question := fmt.Sprint(w)
	if a, ok := s.answers[question]; ok {
		return a, nil
	}
	found, err := s.find(ctx, w)
	var none *provide.NotFoundError
	if errors.As(err, &none) {
		s.why[name] = err.Error()
		err = nil
	}
	if err != nil {
		return nil, err
	}
	s.answers[question] = found
	return found, nil
}

// objects returns the parts that a loader reads of a release's files, by their names. It
// reads each file once.
func (s *stock) objects(found *provide.Found) (map[string]*elfdeps.Object, error) {
	if o := s.read[found]; o != nil {
		return o, nil
	}
	out := map[string]*elfdeps.Object{}
	for i := range found.Files {
		f := &found.Files[i]
		o, err := readObject(f)
		if err != nil {
			return nil, fmt.Errorf("reading %s from %s: %w", f.Name, found.Source, err)
		}
		out[f.Name] = o
	}
	s.read[found] = out
	return out, nil
}

func readObject(f *provide.File) (*elfdeps.Object, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return elfdeps.ReadSymbols(r, f.Size)
}
