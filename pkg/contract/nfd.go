package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// The media types of NFD's image compatibility artifact (node-feature-discovery,
// api/image-compatibility/v1alpha1 and docs/usage/image-compatibility.md).
const (
	nfdArtifact = "application/vnd.nfd.image-compatibility.v1alpha1"
	nfdSpec     = "application/vnd.nfd.image-compatibility.spec.v1alpha1+yaml"
)

// specification is NFD's Spec, with the parts that are written.
type specification struct {
	Version         string          `yaml:"version"`
	Compatibilities []compatibility `yaml:"compatibilities"`
}

type compatibility struct {
	Description string `yaml:"description"`
	Rules       []rule `yaml:"rules"`
}

type rule struct {
	Name     string     `yaml:"name"`
	MatchAny []matchAny `yaml:"matchAny"`
}

type matchAny struct {
	MatchFeatures []feature `yaml:"matchFeatures"`
}

type feature struct {
	Feature          string                     `yaml:"feature"`
	MatchExpressions map[string]matchExpression `yaml:"matchExpressions"`
}

// matchExpression is NFD's MatchExpression.
type matchExpression struct {
	Op    string   `yaml:"op"`
	Value []string `yaml:"value,flow"`
}

// NFD returns a specification of Node Feature Discovery's image compatibility, of one rule over
// the feature local.label, in which GPU Feature Discovery's labels are.
func (img *Image) NFD() ([]byte, error) {
	list, err := img.conditions()
	if err != nil {
		return nil, err
	}
	var r rule
	r.Name = "gpu"
	for _, t := range terms(list) {
		r.MatchAny = append(r.MatchAny, matchAny{[]feature{{"local.label", matchExpressions(t)}}})
	}
	spec := specification{"v1alpha1", []compatibility{{"GPUs and drivers that serve the image", []rule{r}}}}
	return document(img.header("image compatibility for Node Feature Discovery, over GPU Feature Discovery's labels"), spec)
}

// matchExpressions returns expressions in NFD's form. A label has one expression there, and
// an expression with a number fails the whole rule if the label is none: a driver's revision,
// which may be empty, is compared as text.
func matchExpressions(list []expression) map[string]matchExpression {
	m := map[string]matchExpression{}
	for _, e := range list {
		have, ok := m[e.Key]
		switch {
		case ok && have.Op == "Gt" && e.Operator == "Lt":
			m[e.Key] = matchExpression{"GtLt", []string{have.Value[0], e.Values[0]}}
		case e.Key == labelRevision:
			n, _ := strconv.Atoi(e.Values[0])
			m[e.Key] = matchExpression{"InRegexp", []string{"^0*(" + strings.Join(atLeast(n+1), "|") + ")$"}}
		default:
			m[e.Key] = matchExpression{e.Operator, e.Values}
		}
	}
	return m
}

// atLeast returns regular expressions for the numbers from n on, without leading zeros.
func atLeast(n int) []string {
	digits := strconv.Itoa(n)
	list := []string{digits}
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '9' {
			list = append(list, fmt.Sprintf("%s[%c-9]%s", digits[:i], digits[i]+1, strings.Repeat("[0-9]", len(digits)-i-1)))
		}
	}
	return append(list, fmt.Sprintf("[1-9][0-9]{%d,}", len(digits)))
}
