//go:build !linux

package layers

// hugePages does nothing: it is for Linux.
func hugePages([]byte, uint64) {}
