package lint

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// cxx11Tokens are where the two C++ ABIs of libstdc++ write a name differently:
// std::string and lists, and the tag of functions that return them
// (https://gcc.gnu.org/onlinedocs/libstdc++/manual/using_dual_abi.html).
var cxx11Tokens = []string{"NSt7__cxx11", "B5cxx11", "Ss", "Sb"}

// maxABICandidates bounds how many names of one library are compared.
const maxABICandidates = 4096

// otherABI is the symbol of a library that differs from one that is missing by
// the C++ ABI alone; empty when there is none.
func otherABI(m *elfdeps.Module, symbol string) string {
	// The names are the same up to the first place where the ABIs part.
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

// withoutABI is what a mangled name means, less the marks of the C++ ABI.
func withoutABI(symbol string) (string, bool) {
	s, err := demangle.ToString(symbol, demangle.Verbose)
	if err != nil {
		return "", false
	}
	return abiMarks.Replace(s), true
}

var abiMarks = strings.NewReplacer("std::__cxx11::", "std::", "[abi:cxx11]", "")
