package replay

import (
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// WantsID names the version of Wants.
const WantsID = inventory.WantsID + ", " + startup.WantsID

// Wants reports whether a replay reads the bytes of a file, by its path without a leading
// slash and its size in bytes: what [layers.Options.Keep] asks.
func Wants(name string, size int64) bool {
	return inventory.Wants(name, size) || startup.Wants(name, size)
}
