package layers

import (
	"container/list"
	"context"
	"sync"
)

// Shared is the part that images which are read in one run have in common: the indexes of
// the layers that were read, so that a layer of several images is read once, and a limit for
// the layers that are read at a time. Any number of goroutines may use it.
type Shared struct {
	most   int64         // bytes of the indexes that are kept
	places chan struct{} // a layer is read at each

	mu   sync.Mutex
	held int64
	all  map[string]*sharedLayer // by digest and KeepID
	used *list.List              // of those that were read, the most recently used first
}

// sharedLayer is a layer that is being read, or was.
type sharedLayer struct {
	key  string
	read chan struct{} // closed when the reading has ended
	*Layer
	size int64
	at   *list.Element
}

// NewShared returns a Shared that keeps indexes of at most so many bytes. Beyond that it
// drops the least recently used.
func NewShared(most int64) *Shared {
	return &Shared{most: most, places: make(chan struct{}, workers()), all: map[string]*sharedLayer{}, used: list.New()}
}

// layer returns the index of the layer with a key, and whether it was read before. One
// caller reads it; those that ask meanwhile wait for that one. If its reading fails, the next of
// them reads for itself: the failure may be the image's own, which was given up.
func (s *Shared) layer(ctx context.Context, key string, read func() (*Layer, error)) (l *Layer, before bool, err error) {
	for {
		s.mu.Lock()
		have, ok := s.all[key]
		if !ok {
			have = &sharedLayer{key: key, read: make(chan struct{})}
			s.all[key] = have
		} else if have.at != nil {
			s.used.MoveToFront(have.at)
		}
		s.mu.Unlock()
		if !ok {
			l, err := s.place(ctx, read)
			s.put(have, l)
			return l, false, err
		}
		select {
		case <-have.read:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		if have.Layer != nil {
			return have.Layer, true, nil
		}
	}
}

// place reads a layer when less than the limit are being read.
func (s *Shared) place(ctx context.Context, read func() (*Layer, error)) (*Layer, error) {
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.places }()
	return read()
}

// put records that the reading of a layer has ended; l is nil if it failed.
func (s *Shared) put(have *sharedLayer, l *Layer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(have.read)
	have.Layer = l
	if l == nil {
		delete(s.all, have.key)
		return
	}
	have.size = l.weight()
	s.held += have.size
	have.at = s.used.PushFront(have)
	for s.held > s.most && s.used.Len() > 0 {
		old := s.used.Remove(s.used.Back()).(*sharedLayer)
		delete(s.all, old.key)
		s.held -= old.size
	}
}
