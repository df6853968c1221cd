package gpucode

import (
	"bytes"
	"slices"
	"strings"
)

// Claims finds the list of architectures with which PyTorch was built in the bytes of its
// file, which are written to it: one text of names between two NULs, such as
// "sm_80 sm_90 compute_90". torch.cuda.get_arch_list returns it, and torch warns by it about
// a GPU (torch/csrc/cuda/Module.cpp, CUDA_ARCH_FLAGS; torch/cuda/__init__.py). It is the
// build's setting, which single libraries need not follow. The zero value is ready.
type Claims struct {
	rest    []byte // the last bytes, which may begin a list
	found   string
	several bool // there are two different lists: either may be it
}

// maxClaims limits the bytes of a list, with a NUL on either side. That of all
// architectures since Maxwell has some 150.
const maxClaims = 512

// ClaimsCode reports whether a file of this base name has the list of architectures with
// which PyTorch was built.
func ClaimsCode(base string) bool {
	return base == "libtorch_python.so" || strings.HasPrefix(base, "libtorch_python.so.")
}

// Write implements [io.Writer] and returns no error.
func (c *Claims) Write(b []byte) (int, error) {
	edge := append(c.rest, b[:min(len(b), maxClaims)]...)
	c.look(edge)
	c.look(b)
	if len(b) >= maxClaims {
		edge = b
	}
	c.rest = slices.Clone(edge[max(0, len(edge)-maxClaims):])
	return len(b), nil
}

// look takes the lists that lie in b with a NUL on either side.
func (c *Claims) look(b []byte) {
	for _, begin := range []string{"\x00sm_", "\x00compute_"} {
		for rest := b; ; {
			i := bytes.Index(rest, []byte(begin))
			if i < 0 {
				break
			}
			rest = rest[i+1:]
			end := bytes.IndexByte(rest[:min(len(rest), maxClaims-1)], 0)
			if end < 0 || !isList(string(rest[:end])) {
				continue
			}
			list := string(rest[:end])
			c.several = c.several || c.found != "" && c.found != list
			c.found = list
		}
	}
}

// isList reports whether s is names of architectures with a space between them.
func isList(s string) bool {
	for name := range strings.SplitSeq(s, " ") {
		number, ok := strings.CutPrefix(name, "sm_")
		if !ok {
			number, ok = strings.CutPrefix(name, "compute_")
		}
		if !ok || !isName([]byte(number)) {
			return false
		}
	}
	return true
}

// List returns the names in the order of the list, or nil if the file has none, or several.
func (c *Claims) List() []string {
	if c.found == "" || c.several {
		return nil
	}
	return strings.Split(c.found, " ")
}
