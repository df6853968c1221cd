package version

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Release is the numbers that a version begins with: 2, 6, 0 of 2.6.0+cu124. nil means
// that the release is not known.
type Release []int

// ParseRelease reads the numbers at the beginning of s. It returns nil if there are
// none. Numbers that do not fit into an int end the release before them.
func ParseRelease(s string) Release {
	var r Release
	for part := range strings.SplitSeq(s, ".") {
		number := digits(part)
		n, err := strconv.Atoi(number)
		if err != nil {
			break
		}
		r = append(r, n)
		if number != part {
			break
		}
	}
	return r
}

// OfFile returns the release at the end of a library's file name: 9.1.0 of
// libcudnn.so.9.1.0. It returns nil if something else than numbers follows ".so.".
func OfFile(name string) Release {
	_, text, _ := strings.Cut(name, ".so.")
	if r := ParseRelease(text); strings.Count(text, ".") == len(r)-1 && strings.Trim(text, ".0123456789") == "" {
		return r
	}
	return nil
}

// Upstream returns the version of a Debian or rpm package without its epoch and
// revision: 9.1.0.70 of 1:9.1.0.70-1 (deb-version(7)).
func Upstream(s string) string {
	if epoch, rest, ok := strings.Cut(s, ":"); ok && digits(epoch) == epoch {
		s = rest
	}
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		s = s[:i]
	}
	return s
}

// String returns the numbers with dots between them, "" if there are none.
func (r Release) String() string {
	var parts []string
	for _, n := range r {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ".")
}

// First returns the first n numbers of r, or all if it has fewer.
func (r Release) First(n int) Release { return r[:min(n, len(r))] }

// Compare returns a negative number if r is older than o, 0 if both are the same, and a
// positive number if r is newer. Missing numbers are 0, so 9.1 equals 9.1.0. It is a total
// order, and agrees with PEP 440 for versions that are numbers alone.
func (r Release) Compare(o Release) int {
	for i := range max(len(r), len(o)) {
		if c := cmp.Compare(r.at(i), o.at(i)); c != 0 {
			return c
		}
	}
	return 0
}

func (r Release) at(i int) int {
	if i < len(r) {
		return r[i]
	}
	return 0
}

// Agrees reports whether r and o may be the same release: the numbers that both have
// are equal. 9.1 agrees with 9.1.0 and with 9.1.1, which do not agree with each other.
func (r Release) Agrees(o Release) bool {
	n := min(len(r), len(o))
	return slices.Equal(r[:n], o[:n])
}

// Before reports whether r is known to be older than o: the first number in which they
// differ is lower. 9.1 is not before 9.1.1, because it may be 9.1.2.
func (r Release) Before(o Release) bool {
	n := min(len(r), len(o))
	return slices.Compare(r[:n], o[:n]) < 0
}

// bound is one part of a range: >=2.0.
type bound struct {
	operator string
	release  Release
}

// parseRange reads a range, such as >=2.0,<2.7.
func parseRange(s string) ([]bound, error) {
	var list []bound
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		i := strings.IndexFunc(part, func(c rune) bool { return c >= '0' && c <= '9' })
		if i < 0 || !slices.Contains([]string{">=", "<", "=="}, part[:i]) {
			return nil, fmt.Errorf("versions: %q is not >=, < or == and a version", part)
		}
		list = append(list, bound{part[:i], ParseRelease(part[i:])})
	}
	return list, nil
}

// CheckRange returns an error if s is not a range for [Release.Within].
func CheckRange(s string) error {
	_, err := parseRange(s)
	return err
}

// Within reports whether r is in a range of releases, such as >=2.0,<2.7, and whether
// that is known. Unlike [Specifiers], a range compares only the numbers that both have:
// ==1.12 includes 1.12.1, and >=2.3 includes 2.3.0a0, as NVIDIA's images name their
// builds of torch. The empty range includes every release.
func (r Release) Within(text string) (fits, known bool) {
	list, err := parseRange(text)
	switch {
	case err != nil:
		return false, false
	case len(list) == 0:
		return true, true
	case r == nil:
		return false, false
	}
	for _, b := range list {
		if !b.has(r) {
			return false, true
		}
	}
	return true, true
}

func (b bound) has(r Release) bool {
	switch b.operator {
	case ">=":
		return !r.Before(b.release)
	case "<":
		return r.Before(b.release)
	}
	return r.Agrees(b.release)
}
