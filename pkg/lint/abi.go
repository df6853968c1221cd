package lint

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// cxx11Tokens are the parts of mangled names that differ between the two C++ ABIs of
// libstdc++: std::string and lists, and the tag of functions that return them
// (https://gcc.gnu.org/onlinedocs/libstdc++/manual/using_dual_abi.html).
var cxx11Tokens = []string{"NSt7__cxx11", "B5cxx11", "Ss", "Sb"}

// maxABICandidates limits the names of one library that are compared.
const maxABICandidates = 4096

// otherABI returns the symbol of a library that differs from an undefined one only by the C++
// ABI, or "".
func otherABI(m *elfdeps.Module, symbol string) string {
	// The two names are equal up to the first token of an ABI.
	cut := len(symbol)
	for _, t := range cxx11Tokens {
		if i := strings.Index(symbol, t); i >= 0 {
			cut = min(cut, i)
		}
	}
	want, ok := withoutABI(symbol)
	if !ok {
		return ""
	}
	found, n := "", 0
	m.Object.Symbols.Exported(symbol[:cut], func(name string) bool {
		if n++; n > maxABICandidates {
			return false
		}
		if name == symbol || strings.Contains(name, "cxx11") == strings.Contains(symbol, "cxx11") {
			return true
		}
		if got, ok := withoutABI(name); ok && got == want && (found == "" || name < found) {
			found = name
		}
		return true
	})
	return found
}

// withoutABI returns the C++ form of a mangled name without the marks of its ABI, and
// whether the name is mangled.
func withoutABI(symbol string) (string, bool) {
	s, err := demangle.ToString(symbol, demangle.Verbose)
	if err != nil {
		return "", false
	}
	return abiMarks.Replace(s), true
}

var abiMarks = strings.NewReplacer("std::__cxx11::", "std::", "[abi:cxx11]", "")
