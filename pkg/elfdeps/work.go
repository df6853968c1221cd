package elfdeps

import (
	"errors"
	"sync/atomic"
)

// Work is what the processes of an image have cost together. A few kilobytes of
// libraries can ask a loader for more than it does in a year: thousands that need
// thousands, each looked for in thousands of directories.
//
// Who replays an image gives all its loaders one ([Env]), and asks it at the end:
// once it is spent, every request is an [Error] that is Unknown, and what the
// processes say is worth nothing.
type Work struct{ done atomic.Int64 }

// maxWork is in units of about one look at a directory, 100 ns. An image of
// 10,000 ELF files with five frameworks takes a hundredth of it. A variable, so
// that tests can reach it.
var maxWork = int64(1 << 28)

// ErrWork says that an image asks for more work than is done for one.
var ErrWork = errors.New("its libraries ask for more look-ups than any loader would live through: it is no image to start")

// Err is [ErrWork] once the work is spent, else nil.
func (w *Work) Err() error {
	if w != nil && w.done.Load() > maxWork {
		return ErrWork
	}
	return nil
}

// spend counts n units, and reports whether there was work left.
func (w *Work) spend(n int) bool {
	return w == nil || w.done.Add(int64(n)) <= maxWork
}

// What is held costs by the bytes that it takes, of which a unit has two: a
// candidate that a search writes down, a request that failed. An object that was
// loaded costs by the time that it takes, some 2 µs: its process is not held for long.
const (
	written = 64
	missed  = 128
	added   = 48
)

// cells is how much it costs to go through n words.
func cells(n int) int { return 1 + n/16 }

// spent is the answer to a request for which there is no work left.
func (p *Process) spent(name string, by *Module) *Error {
	return &Error{Name: name, Subject: name, Message: "could not be looked at: " + ErrWork.Error(), By: by, Unknown: true, Musl: p.Loader.Libc.Musl}
}
