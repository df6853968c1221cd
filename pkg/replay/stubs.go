package replay

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// IsStub reports whether a path is in a directory of stubs: libraries for linking only.
func IsStub(p string) bool { return strings.Contains(p, "/stubs/") }

// MaxStub is a size in bytes that no stub of libcuda reaches (70 KB in CUDA 13.0), and
// every driver's libcuda exceeds (10 MB or more).
const MaxStub = 1 << 20

// CopiedStub reports whether a file is a stub of libcuda outside a directory of stubs.
// The driver's own file has its release in the name.
func (fi *Files) CopiedStub(real string) bool {
	e, _, ok := fi.img.FS.Lookup(real)
	base := path.Base(real)
	return ok && (base == fi.packs.Driver.Library || base == bareLibrary(fi.packs)) && e.Size > 0 && e.Size < MaxStub && !strings.Contains(real, "/wsl/")
}

// bareLibrary returns the name without a version of the driver's library that programs for
// the GPU need: libcuda.so.
func bareLibrary(set *packs.Packs) string {
	stem, _, _ := strings.Cut(set.Driver.Library, ".so")
	return stem + ".so"
}
