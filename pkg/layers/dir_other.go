//go:build !linux

package layers

import (
	"io/fs"
	"os"
)

// On systems other than Linux a directory is an unpacked image, without file systems of
// the kernel. Owners and hard links are not known.

func pseudoFS(string) string        { return "" }
func statOf(fs.FileInfo) fileStat   { return fileStat{} }
func hasCapabilities(*os.File) bool { return false }

func xattrsOf(*os.File) (map[string]string, error) { return nil, nil }

const openFlags = 0
