package inventory

import "testing"

// TestMayTell: mayTell rejects no file that a source matches.
func TestMayTell(t *testing.T) {
	for _, name := range names {
		found := false
		for _, s := range sources {
			found = found || s.match(name)
		}
		if !found || sourceOf(name) == nil {
			t.Errorf("%s: a source matches it: %v, and it is asked for: %v", name, found, sourceOf(name) != nil)
		}
	}
	for i, s := range sources {
		found := false
		for _, name := range names {
			found = found || s.match(name)
		}
		if !found {
			t.Errorf("no name is there for source %d", i)
		}
	}
}
