//go:build !unix

package policy

import "io/fs"

const nonblocking = 0

// checkOwner knows no owners here.
func checkOwner(fs.FileInfo) error { return nil }

func checkMode(fs.FileInfo) error { return nil }
