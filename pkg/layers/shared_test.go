package layers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestShared: callers that ask for one layer at the same time read it once; a failure is the
// first caller's alone.
func TestShared(t *testing.T) {
	s := NewShared(1 << 20)
	var reads, failures atomic.Int64
	failed := errors.New("failed")
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			l, _, err := s.layer(t.Context(), "a", func() (*Layer, error) {
				if reads.Add(1) == 1 {
					return nil, failed
				}
				return &Layer{Entries: []*Entry{{Path: "f"}}}, nil
			})
			switch {
			case errors.Is(err, failed):
				failures.Add(1)
			case err != nil || len(l.Entries) != 1:
				t.Errorf("%v, %v", l, err)
			}
		})
	}
	all.Wait()
	if reads.Load() != 2 || failures.Load() != 1 {
		t.Errorf("%d reads, %d failures, want 2 and 1", reads.Load(), failures.Load())
	}
}

// TestSharedIsBounded: beyond its bound a Shared drops the layers that were not used lately, and
// a layer that is too large for it is read all the same.
func TestSharedIsBounded(t *testing.T) {
	one := &Layer{Entries: []*Entry{{Path: "f"}}}
	s := NewShared(2 * one.weight())
	get := func(key string) (before bool) {
		t.Helper()
		_, before, err := s.layer(t.Context(), key, func() (*Layer, error) { return &Layer{Entries: one.Entries}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	for _, key := range []string{"a", "b", "a", "c"} { // c takes the place of b
		get(key)
	}
	if !get("a") || get("b") || get("c") {
		t.Error("not the least recently used was dropped")
	}
	if s.held > s.most || len(s.all) != s.used.Len() {
		t.Errorf("%d bytes of %d, %d layers and %d in the list", s.held, s.most, len(s.all), s.used.Len())
	}
	none := NewShared(0)
	if _, before, err := none.layer(t.Context(), "a", func() (*Layer, error) { return one, nil }); err != nil || before {
		t.Errorf("%v, %v", before, err)
	}
}

// TestSharedCancelled: one who waits for another's reading stops waiting when it is cancelled.
func TestSharedCancelled(t *testing.T) {
	s := NewShared(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	begun, end := make(chan struct{}), make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		s.layer(t.Context(), "a", func() (*Layer, error) {
			close(begun)
			<-end
			return &Layer{}, nil
		})
	})
	<-begun
	cancel()
	if _, _, err := s.layer(ctx, "a", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(end)
	reader.Wait()
}
