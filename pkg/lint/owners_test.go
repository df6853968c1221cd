package lint

import (
	"testing"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// TestRequired: a requirement counts only where its condition may hold.
func TestRequired(t *testing.T) {
	env := (&inventory.Python{Version: "3.10"}).Markers("")
	for line, want := range map[string]bool{
		"other":                              true,
		"other>=2; python_version >= '3.8'":  true,
		"other; sys_platform == 'win32'":     false,
		"other; python_version < '3.8'":      false,
		"other; extra == 'gpu'":              false,
		"other; platform_machine == 'arm64'": true, // not known
		"another":                            false,
	} {
		wheels := replay.WheelSet{"a": {Name: "a", Requires: []string{line}}}
		if got := required(wheels, "other", env); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
