//go:build !linux

package layers

// hugePages is for Linux.
func hugePages([]byte, uint64) {}
