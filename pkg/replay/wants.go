package replay

import (
	"io"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/nodejs"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// WantsID names the version of Wants and Extract.
const WantsID = inventory.WantsID + ", " + startup.WantsID + ", " + pyenv.KeepID + ", " + nodejs.KeepID

// Wants reports whether a replay reads the bytes of a file, by its path without a leading
// slash and its size in bytes: what [layers.Options.Keep] asks.
func Wants(name string, size int64) bool {
	return inventory.Wants(name, size) || startup.Wants(name, size) || pyenv.Keep(name, size) || nodejs.Keep(name, size)
}

// Extract returns the function that reduces a file of [Wants] to what is kept of it, or
// nil for one that is kept whole: what [layers.Options.Extract] asks.
func Extract(name string, size int64) func(io.Reader) ([]byte, error) {
	if pyenv.Keep(name, size) {
		return pyenv.Extract(name, size)
	}
	if f := nodejs.Extract(name, size); f != nil {
		return f
	}
	return inventory.Extract(name, size)
}
