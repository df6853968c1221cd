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

// maxOtherStub bounds the stubs of the driver's other libraries, of which the toolkit has one of
// libnvidia-ml, and the Video Codec SDK one of libnvcuvid and of libnvidia-encode. It is chosen to
// be safe: no sizes of these stubs were measured.
const maxOtherStub = 1 << 16

// CopiedStub reports whether a file is a stub of a library of the driver outside a directory
// of stubs. The driver's own file has its release in the name.
func (fi *Files) CopiedStub(real string) bool {
	e, _, ok := fi.img.FS.Lookup(real)
	if !ok || e.Size == 0 || strings.Contains(real, "/wsl/") {
		return false
	}
	if fi.IsDriver(real) {
		return e.Size < MaxStub
	}
	switch path.Base(real) {
	case "libnvcuvid.so", "libnvcuvid.so.1", "libnvidia-encode.so", "libnvidia-encode.so.1", "libnvidia-ml.so", "libnvidia-ml.so.1":
		return e.Size < maxOtherStub
	}
	return false
}

// IsDriver reports whether a file has the name of the driver's library that programs for the
// GPU need: libcuda.so.1 or libcuda.so.
func (fi *Files) IsDriver(file string) bool {
	base := path.Base(file)
	return base == fi.packs.Driver.Library || base == bareLibrary(fi.packs)
}

// bareLibrary returns the name without a version of the driver's library that programs for
// the GPU need: libcuda.so.
func bareLibrary(set *packs.Packs) string {
	stem, _, _ := strings.Cut(set.Driver.Library, ".so")
	return stem + ".so"
}
