package gpucode

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// Targets finds the architectures that a compiler knows in the bytes of its file, which
// are written to it: the names compute_NN in read-only data, each behind a NUL or an
// equals sign and before a NUL. In ptxas and NVRTC of CUDA 12.4 these are the values that
// --gpu-name and --gpu-architecture take; names with sm_ include some that no release
// takes any more. The zero value is ready.
type Targets struct {
	rest  []byte // the last bytes, which may begin a name
	found map[string]bool
}

const (
	targetPrefix = "compute_"
	maxTarget    = len(targetPrefix) + 6 // with a byte on either side
	maxTargets   = 256
)

// CompilesFor reports whether a file of this base name is a compiler whose list of
// targets decides for which GPUs programs can compile when they run: ptxas or NVRTC.
func CompilesFor(base string) bool {
	switch {
	case strings.HasPrefix(base, "libnvrtc-builtins"):
		return false
	case strings.HasPrefix(base, "libnvrtc.") || strings.HasPrefix(base, "libnvrtc-"):
		return strings.Contains(base, ".so")
	}
	return base == "ptxas" || strings.HasPrefix(base, "ptxas-")
}

// Write implements [io.Writer] and returns no error.
func (t *Targets) Write(b []byte) (int, error) {
	edge := append(t.rest, b[:min(len(b), maxTarget)]...)
	t.look(edge)
	t.look(b)
	if len(b) >= maxTarget {
		edge = b
	}
	t.rest = slices.Clone(edge[max(0, len(edge)-maxTarget):])
	return len(b), nil
}

// look takes the names that lie in b with a byte on either side.
func (t *Targets) look(b []byte) {
	for {
		i := bytes.Index(b, []byte(targetPrefix))
		if i < 0 {
			return
		}
		name := b[i+len(targetPrefix):]
		if end := bytes.IndexByte(name[:min(len(name), 6)], 0); end > 0 && i > 0 && (b[i-1] == 0 || b[i-1] == '=') && isName(name[:end]) && len(t.found) < maxTargets {
			if t.found == nil {
				t.found = map[string]bool{}
			}
			t.found[string(name[:end])] = true
		}
		b = name
	}
}

// isName reports whether b is the name of an architecture: a number, then perhaps a or f.
func isName(b []byte) bool {
	digits := bytes.TrimRight(b, "af")
	if len(digits) < 2 || len(digits) > 4 || len(b) > len(digits)+1 {
		return false
	}
	return len(bytes.Trim(digits, "0123456789")) == 0
}

// List returns the architectures that were found, such as 75 and 90a, by number.
func (t *Targets) List() []string {
	return slices.SortedFunc(maps.Keys(t.found), CompareNames)
}
