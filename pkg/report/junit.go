package report

import (
	"cmp"
	"encoding/xml"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// The part of JUnit's XML that Jenkins, GitLab and Azure read in the same way:
// https://github.com/jenkinsci/xunit-plugin (junit-10.xsd),
// https://docs.gitlab.com/ci/testing/unit_test_reports/
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr,omitempty"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string           `xml:"name,attr"`
		Tests      int              `xml:"tests,attr"`
		Failures   int              `xml:"failures,attr"`
		Errors     int              `xml:"errors,attr"`
		Skipped    int              `xml:"skipped,attr"`
		Properties *junitProperties `xml:"properties"`
		Cases      []junitCase      `xml:"testcase"`
	}
	junitProperties struct {
		List []junitProperty `xml:"property"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr,omitempty"` // the Dockerfile, which GitLab and CircleCI show
		Line    int           `xml:"line,attr,omitempty"`
		Failure *junitFailure `xml:"failure,omitempty"`
		Error   *junitFailure `xml:"error,omitempty"` // could not be run
		Skipped *junitSkipped `xml:"skipped,omitempty"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes the document as a test suite with a case for each finding. The case fails
// if the finding has at least the severity of the options' FailOn, passes if a baseline
// knows the finding, and is skipped if a policy ignores it. Each rule without a finding
// gets a case that passes.
func JUnit(w io.Writer, d *Document, o Options) error {
	return writeJUnit(w, []junitSuite{junitSuiteOf(d, o)})
}

func junitSuiteOf(d *Document, o Options) junitSuite {
	failOn := o.FailOn
	if failOn == "" {
		failOn = packs.Error
	}
	suite := junitSuite{Name: xmlLine(d.Image.Ref)}
	for _, p := range [][2]string{{"digest", d.Image.Digest}, {"platform", d.Image.Platform}, {"imgcheck", cmp.Or(d.Imgcheck, o.Version)}, {"patch", command(d.Plan)}} {
		if p[1] != "" {
			if suite.Properties == nil {
				suite.Properties = new(junitProperties)
			}
			suite.Properties.List = append(suite.Properties.List, junitProperty{p[0], xmlLine(p[1])})
		}
	}
	found, names := map[string]bool{}, map[string]int{}
	add := func(f *lint.Finding) *junitCase {
		found[f.Rule] = true
		c := junitCase{Class: "imgcheck." + f.Rule, Name: xmlLine(f.Message)}
		if names[c.Class+c.Name]++; names[c.Class+c.Name] > 1 {
			c.Name += " (" + count(names[c.Class+c.Name]) + ")" // readers merge cases of one name
		}
		if line := d.lineOf(f); line != nil {
			c.File, c.Line = xmlLine(line.File), line.Line
		}
		suite.Cases = append(suite.Cases, c)
		return &suite.Cases[len(suite.Cases)-1]
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		c, text := add(f), xmlText(sentences(d, f))
		if f.Severity.AtLeast(failOn) {
			suite.Failures++
			c.Failure = &junitFailure{Message: xmlLine(f.Message), Type: string(f.Severity), Text: text}
		} else {
			c.Out = string(f.Severity) + ": " + text
		}
	}
	for i := range d.Known {
		f := &d.Known[i]
		add(f).Out = "known since the baseline: " + xmlText(sentences(d, f))
	}
	for i := range d.Ignored {
		suite.Skipped++
		add(&d.Ignored[i].Finding).Skipped = &junitSkipped{"ignored: " + xmlLine(d.Ignored[i].Reason)}
	}
	for _, r := range d.Rules {
		if !found[r.ID] {
			suite.Cases = append(suite.Cases, junitCase{Class: "imgcheck." + r.ID, Name: xmlLine(r.Title)})
		}
	}
	suite.Tests = len(suite.Cases)
	return suite
}

func writeJUnit(w io.Writer, suites []junitSuite) error {
	all := junitSuites{Name: "imgcheck", Suites: suites}
	for _, s := range suites {
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
	}
	w = plain.NewWriter(w, false)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// xmlText applies xmlLine to each line of a text that the report itself has written.
func xmlText(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = xmlLine(l)
	}
	return strings.Join(lines, "\n")
}

// xmlLine returns a text as one line of characters that XML 1.0 allows.
func xmlLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r
	}, clean(s))
}
