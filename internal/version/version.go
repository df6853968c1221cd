// Package version parses and orders the versions that images name. There are three
// kinds, and each has its own order:
//
//   - [Version], of a Python distribution, by PEP 440. [Specifiers] say which
//     versions a requirement allows. NVIDIA numbers its libraries in the same way.
//   - [Release], the numbers that a version begins with. File names and pattern
//     tables have only the first ones: 9.1 stands for any 9.1.x. Agrees and Before
//     compare what is known, and Compare is the total order.
//   - [Symbol], of a symbol version in an ELF file, such as GLIBC_2.34.
//
// Versions of Debian, rpm and Alpine packages have other orders. The program does
// not compare them; it compares the [Upstream] releases. The package knows no library and no file format.
package version

import (
	"fmt"
	"regexp"
	"strings"

	pep440 "github.com/aquasecurity/go-pep440-version"
)

const (
	// maxText limits a version, in bytes. Real ones have at most some tens.
	maxText = 256
	// maxDigits limits a number of a [Version], so that it fits into 64 bits.
	maxDigits = 15
)

var longNumber = regexp.MustCompile(fmt.Sprintf(`\d{%d}`, maxDigits+1))

// Version is a version as PEP 440 defines it. The zero value is not a version.
type Version struct {
	full, public pep440.Version // with its local part and without
}

// Parse reads a version: 9.1.0.70, 2.6.0+cu124, 1!2.0rc1.post2.dev3. Spaces around
// it, upper case and the other spellings that PEP 440 normalizes are allowed.
func Parse(s string) (Version, error) {
	if len(s) > maxText || longNumber.MatchString(s) {
		return Version{}, fmt.Errorf("%.20q… is too long for a version", s)
	}
	full, err := pep440.Parse(plainLocal(s))
	if err != nil || !isASCII(s) {
		return Version{}, fmt.Errorf("%q is not a version: write it like 9.1.0.70", s)
	}
	v := Version{full, full}
	if full.Local() != "" {
		v.public, err = pep440.Parse(full.Public())
	}
	return v, err
}

// plainLocal writes the separators of a local part as dots, as PEP 440 normalizes
// them. go-pep440-version 0.0.1 reads the local part of 1+a-10 as one word, where pip
// reads the word a and the number 10.
func plainLocal(s string) string {
	i := strings.IndexByte(s, '+')
	if i < 0 {
		return s
	}
	return s[:i] + strings.NewReplacer("-", ".", "_", ".").Replace(s[i:])
}

// isASCII reports whether s is ASCII. A regular expression that ignores case also
// matches 1.poſt1.
func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 127 })
}

// Compare returns a negative number if v is older than w, 0 if PEP 440 takes both for
// the same (1.0 and 1), and a positive number if v is newer. It is a total order.
func (v Version) Compare(w Version) int { return v.full.Compare(w.full) }

// String returns v as PEP 440 normalizes it.
func (v Version) String() string { return v.full.String() }

// IsPreRelease reports whether v is an alpha, a beta, a candidate or a development
// release.
func (v Version) IsPreRelease() bool { return v.full.IsPreRelease() }

// Release returns the numbers of v, without its epoch.
func (v Version) Release() Release {
	_, numbers := splitEpoch(v.full.BaseVersion())
	return ParseRelease(numbers)
}

func splitEpoch(base string) (epoch, numbers string) {
	if epoch, numbers, ok := strings.Cut(base, "!"); ok {
		return epoch, numbers
	}
	return "0", base
}

// Compare compares two versions that are text, for sorting: by PEP 440, then by their
// spelling. Text that is not a version comes before every version. It is a total order,
// and returns 0 only for equal texts.
func Compare(a, b string) int {
	v, errA := Parse(a)
	w, errB := Parse(b)
	switch {
	case errA == nil && errB == nil && v.Compare(w) != 0:
		return v.Compare(w)
	case errA == nil && errB != nil:
		return 1
	case errA != nil && errB == nil:
		return -1
	}
	return strings.Compare(a, b)
}
