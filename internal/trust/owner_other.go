//go:build !unix

package trust

import "io/fs"

// Flags of [os.OpenFile] that this system does not have.
const (
	Nonblocking = 0
	NoFollow    = 0
)

// Owner knows no owners here.
func Owner(fs.FileInfo) error { return nil }

// Mode knows no other users here.
func Mode(fs.FileInfo) error { return nil }

func secret(fs.FileInfo) error { return nil }

// Sole knows no other names here.
func Sole(st fs.FileInfo) error { return File(st) }
