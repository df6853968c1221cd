package elfdeps

import (
	"errors"
	"sync/atomic"
)

// Work counts and limits the work for all processes of an image. A few kilobytes of
// libraries can keep a loader busy for a year: thousands that each need thousands,
// each searched for in thousands of directories.
//
// A caller that replays an image gives all its loaders one Work ([Env]), and calls
// Err at the end. After the limit every request fails with an [Error] that is
// Unknown, and the results of the processes mean nothing.
type Work struct{ done atomic.Int64 }

// maxWork is the limit in units, of which each is about the time to look up a
// directory, 100 ns. An image of 10,000 ELF files with five frameworks takes a
// hundredth of it. It is a variable for the tests.
var maxWork = int64(1 << 28)

// ErrWork is the error for an image that needs more than the limit.
var ErrWork = errors.New("its libraries need more look-ups than are followed for one image: it was not judged")

// Err returns [ErrWork] after the limit, else nil.
func (w *Work) Err() error {
	if w != nil && w.done.Load() > maxWork {
		return ErrWork
	}
	return nil
}

// spend counts n units and reports whether they are within the limit.
func (w *Work) spend(n int) bool {
	return w == nil || w.done.Add(int64(n)) <= maxWork
}

// Units for memory, which count two bytes each, and for loading an object, which
// counts by its time of about 2 µs, since processes are short-lived.
const (
	written = 64  // a Candidate that a search records
	missed  = 128 // a failed request
	added   = 48  // a loaded object
)

// crowd returns the units for what is done with each of n objects of a process. Of as many
// as programs have, it is a part of what a request or an object counts.
func crowd(n int) int { return max(0, n-1024) / 3 }

// cells returns the units for walking a list of n words.
func cells(n int) int { return 1 + n/16 }

// spent returns the error of a request after the limit.
func (l *Loader) spent(name string, by *Module) *Error {
	return &Error{Name: name, Subject: name, Message: "could not be examined: " + ErrWork.Error(), By: by, Unknown: true, Musl: l.Libc.Musl}
}
