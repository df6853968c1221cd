//go:build !linux

package layers

import (
	"io/fs"
	"os"
)

// Where the system is not Linux, a directory is an unpacked image at most: no
// kernel's file systems are in it, owners and hard links are not told.

func pseudoFS(string) string        { return "" }
func statOf(fs.FileInfo) fileStat   { return fileStat{} }
func hasCapabilities(*os.File) bool { return false }

func xattrsOf(*os.File) (map[string]string, error) { return nil, nil }

const openFlags = 0
