package replay

import (
	"path"
	"strings"
)

// IsStub reports whether a path is that of a library for linking alone.
func IsStub(p string) bool { return strings.Contains(p, "/stubs/") }

// MaxStub is more than any stub of libcuda has (70 KB in CUDA 13.0) and less than any
// driver's (10 MB and more), in bytes.
const MaxStub = 1 << 20

// CopiedStub reports whether a file of the image is a stub of libcuda that was copied
// out of its directory: the driver's own has its release in its name.
func (fi *Files) CopiedStub(real string) bool {
	e, _, ok := fi.img.FS.Lookup(real)
	base := path.Base(real)
	return ok && (base == "libcuda.so.1" || base == "libcuda.so") && e.Size > 0 && e.Size < MaxStub && !strings.Contains(real, "/wsl/")
}
