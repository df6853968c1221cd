package replay

import (
	"io"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/jar"
	"github.com/imgcheck/imgcheck/pkg/nodejs"
	"github.com/imgcheck/imgcheck/pkg/pycode"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// WantsID names the version of Wants and Extractor.
const WantsID = inventory.WantsID + ", " + startup.WantsID + ", " + pyenv.KeepID + ", " + nodejs.KeepID + ", " + pycode.KeepID + ", " + jar.KeepID

// Wants reports whether a replay reads the bytes of a file, by its path without a leading
// slash and its size in bytes: what [layers.Options.Keep] asks.
func Wants(name string, size int64) bool {
	return inventory.Wants(name, size) || startup.Wants(name, size) || pyenv.Keep(name, size) || nodejs.Keep(name, size) || pycode.Keep(name, size) || jar.Keep(name, size)
}

// Extractor returns [layers.Options.Extract] for one image: a function that returns the
// function that reduces a file of [Wants] to what is kept of it, or nil for a file that is
// kept whole.
func Extractor() func(name string, size int64) func(io.Reader) ([]byte, error) {
	x, scripts := new(inventory.Extractor), new(inventory.Extractor)
	return func(name string, size int64) func(io.Reader) ([]byte, error) {
		if pyenv.Keep(name, size) {
			return pyenv.Extract(name, size)
		}
		if jar.Keep(name, size) {
			return jar.Extract(size)
		}
		if pycode.Keep(name, size) {
			return pycode.Extract(size)
		}
		if nodejs.IsSource(name, size) {
			return func(r io.Reader) ([]byte, error) { return scripts.Once(r, size, nodejs.Reduce) }
		}
		if f := nodejs.Extract(name, size); f != nil {
			return f
		}
		return x.Extract(name, size)
	}
}
