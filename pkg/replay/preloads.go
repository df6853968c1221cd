package replay

import (
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// What LD_PRELOAD and /etc/ld.so.preload bring into every process.

// Preloading returns the start of a program of the image that misses nothing itself, or
// nil if nothing is preloaded.
func (lo *Loaders) Preloading() *elfdeps.Process {
	value, _ := lo.config.Getenv("LD_PRELOAD")
	if _, _, file := lo.img.FS.Lookup("/etc/ld.so.preload"); value == "" && !file || lo.Primary == nil {
		return nil
	}
	for _, o := range lo.files.Objects {
		if !IsProgram(o.ELF) || o.Loader != lo.Primary || len(o.Misses) > 0 {
			continue
		}
		if p, _ := lo.Primary.Trace(o.Path); p.Program() != nil {
			return p
		}
	}
	return nil
}
