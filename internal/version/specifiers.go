package version

import (
	"fmt"
	"regexp"
	"strings"
)

// Specifiers are the clauses of a requirement, such as ==9.1.0.70 or
// >=2.0,!=2.1.*,<3 (PEP 440, "Version specifiers"). An empty list allows every version.
type Specifiers []clause

// clause is one operator and the version behind it.
type clause struct {
	operator string
	want     Version
	wild     bool   // the version ends with ".*"
	text     string // the version as it was written
}

var (
	clauseForm = regexp.MustCompile(`^(===|==|!=|~=|>=|<=|>|<)\s*(\S+)$`)
	wildForm   = regexp.MustCompile(`^[vV]?(?:\d+!)?\d+(?:\.\d+)*$`)
)

// ParseSpecifiers reads clauses that are separated by commas.
func ParseSpecifiers(s string) (Specifiers, error) {
	var list Specifiers
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		c, ok := parseClause(one)
		if !ok {
			return nil, fmt.Errorf("%.300q is not a version specifier: write it like ==9.1.0.70 or >=9.1,<10", one)
		}
		list = append(list, c)
	}
	return list, nil
}

// parseClause reads one clause. Only == and != may name a local version or end with
// ".*", and ~= needs two numbers.
func parseClause(s string) (clause, bool) {
	m := clauseForm.FindStringSubmatch(s)
	if m == nil || len(m[2]) > maxText {
		return clause{}, false
	}
	c := clause{operator: m[1], text: m[2]}
	if c.operator == "===" {
		c.want, _ = Parse(c.text) // any text may stand here
		return c, true
	}
	text, wild := strings.CutSuffix(c.text, ".*")
	want, err := Parse(text)
	if err != nil || wild && !wildForm.MatchString(text) {
		return clause{}, false
	}
	c.want, c.wild = want, wild
	switch c.operator {
	case "==", "!=":
		return c, true
	case "~=":
		return c, !wild && want.full.Local() == "" && len(want.Release()) > 1
	}
	return c, !wild && want.full.Local() == ""
}

// Satisfies reports whether a version meets specifiers. It fails if one of the two
// cannot be read.
func Satisfies(version, specifiers string) (bool, error) {
	v, err := Parse(version)
	if err != nil {
		return false, err
	}
	s, err := ParseSpecifiers(specifiers)
	if err != nil {
		return false, err
	}
	return s.Allow(v), nil
}

// Allow reports whether v meets all clauses. The local part of v counts only for a
// clause that names one: 2.6.0+cu124 meets ==2.6.0. A pre-release is allowed where its
// place in the order allows it; pip takes one only if it is asked to.
func (s Specifiers) Allow(v Version) bool {
	for _, c := range s {
		if !c.allows(v) {
			return false
		}
	}
	return true
}

// MayAllow reports whether a release that begins with the numbers of v may meet all
// clauses. File names have only the first numbers: cuDNN 9.1.0.70 has files named
// libcudnn.so.9.1.0. MayAllow compares as many numbers as v has.
func (s Specifiers) MayAllow(v Version) bool {
	for _, c := range s {
		if !c.mayAllow(v) {
			return false
		}
	}
	return true
}

// mayAllow cuts the version of c to as many numbers as v has. It counts c as met if only
// the other numbers could decide.
func (c clause) mayAllow(v Version) bool {
	numbers, known := c.want.Release(), len(v.Release())
	if len(numbers) <= known {
		return c.allows(v)
	}
	switch c.operator {
	case "!=":
		return true
	case "<", ">":
		c.operator += "="
	case "~=", "===":
		c.operator = "=="
	}
	want, err := Parse(c.want.begin(known))
	c.want, c.wild = want, false
	return err == nil && c.allows(v)
}

// allows reports whether v meets one clause.
func (c clause) allows(v Version) bool {
	if c.operator == "===" {
		return strings.EqualFold(v.full.Original(), plainLocal(c.text))
	}
	have, want := v.full, c.want.full
	if want.Local() == "" {
		have = v.public
	}
	order := have.Compare(want)
	switch c.operator {
	case "==":
		return c.equal(v, order)
	case "!=":
		return !c.equal(v, order)
	case "~=":
		numbers := c.want.Release()
		return order >= 0 && v.begins(c.want, len(numbers)-1)
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">": // not a post release of the version itself
		return order > 0 && (want.IsPostRelease() || !have.IsPostRelease() || !v.sameNumbers(c.want))
	default: // "<": not a pre-release of the version itself
		return order < 0 && (want.IsPreRelease() || !have.IsPreRelease() || !v.sameNumbers(c.want))
	}
}

// equal reports whether v meets c as ==, given how the two compare.
func (c clause) equal(v Version, order int) bool {
	if c.wild {
		return v.begins(c.want, len(c.want.Release()))
	}
	return order == 0
}

// begins reports whether v begins with the epoch and the first n numbers of w. Missing
// numbers of v are 0.
func (v Version) begins(w Version, n int) bool {
	epoch, _ := splitEpoch(v.full.BaseVersion())
	wantEpoch, _ := splitEpoch(w.full.BaseVersion())
	return epoch == wantEpoch && v.Release().First(n).Compare(w.Release().First(n)) == 0
}

// begin writes the epoch and the first n numbers of v.
func (v Version) begin(n int) string {
	epoch, _ := splitEpoch(v.full.BaseVersion())
	return epoch + "!" + v.Release().First(n).String()
}

// sameNumbers reports whether v and w have the same epoch and numbers.
func (v Version) sameNumbers(w Version) bool {
	return v.begins(w, max(len(v.Release()), len(w.Release())))
}
