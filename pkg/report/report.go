// Package report writes a scan's result for people and for programs.
//
// A format is a function from a document to a writer; [Formats] lists them. The
// same document gives the same bytes: nothing here asks for the time, the
// terminal or the environment, whoever calls says whether colour is wanted.
//
// The package does not judge: severities, texts and fixes come with the
// findings.
package report

import (
	"io"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// Schema names the form of the JSON document; docs/schema has its JSON Schema.
// A change that breaks readers gets another number.
const Schema = "imgcheck.report/1"

// Document is what is reported of one scan.
type Document struct {
	Schema   string         `json:"schema"`
	Image    Image          `json:"image"`
	Summary  Summary        `json:"summary"`
	Findings []lint.Finding `json:"findings"`
	// Plan is what would mend the image; nil when nothing was planned.
	Plan *fix.Plan `json:"plan,omitempty"`
	// Copies are the image's GPU libraries, and Processes who loads what.
	Copies    []lint.Copies  `json:"copies,omitempty"`
	Processes []lint.Process `json:"processes,omitempty"`
	Stats     lint.Stats     `json:"stats"`
	// Inventory is what is installed; nil where it was not asked for.
	Inventory *inventory.Inventory `json:"inventory,omitempty"`
	// Ignored are findings that a policy has set apart, with its reasons, and
	// Known those that a baseline had already; neither counts in Summary.
	Ignored []Ignored      `json:"ignored,omitempty"`
	Known   []lint.Finding `json:"known,omitempty"`

	// Rules are what the packs say of the rules: SARIF carries their texts, and
	// JUnit has a case for each. They are no part of the JSON, and whoever reads
	// a document back brings them again.
	Rules []*lint.Rule `json:"-"`
}

// Image says what was scanned.
type Image struct {
	Ref      string  `json:"ref"`                // as it was given
	Digest   string  `json:"digest,omitempty"`   // of the manifest
	Platform string  `json:"platform,omitempty"` // of the config
	Layers   []Layer `json:"layers"`
}

// Layer is one layer, the lowest first.
type Layer struct {
	Index     int    `json:"index"` // from 1
	Digest    string `json:"digest,omitempty"`
	DiffID    string `json:"diff_id,omitempty"`
	CreatedBy string `json:"created_by,omitempty"`
	Size      int64  `json:"size,omitempty"` // of the blob in bytes
}

// Summary counts the findings.
type Summary struct {
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Notes    int `json:"notes"`
}

// Ignored is a finding that does not count.
type Ignored struct {
	Finding lint.Finding `json:"finding"`
	Reason  string       `json:"reason"`
	Expires string       `json:"expires,omitempty"` // the last day, 2006-01-02
}

// New puts a result and what was scanned together.
func New(img Image, res *lint.Result) *Document {
	d := &Document{Schema: Schema, Image: img, Copies: res.Copies, Processes: res.Processes, Stats: res.Stats, Inventory: res.Inventory}
	if d.Image.Layers == nil {
		d.Image.Layers = []Layer{}
	}
	return d.With(res.Findings)
}

// With is the document with other findings, counted.
func (d *Document) With(findings []lint.Finding) *Document {
	n := *d
	n.Findings, n.Summary = findings, Summary{}
	if n.Findings == nil {
		n.Findings = []lint.Finding{}
	}
	for _, f := range findings {
		switch f.Severity {
		case lint.Error:
			n.Summary.Errors++
		case lint.Warning:
			n.Summary.Warnings++
		default:
			n.Summary.Notes++
		}
	}
	return &n
}

// Options say how a document is shown.
type Options struct {
	// All shows notes and whole lists; only the text format and the one for code
	// scanning leave anything out without it.
	All bool
	// Color allows escape sequences.
	Color bool
	// Width is the number of columns at which the text format breaks its lines
	// between words; 0 breaks none.
	Width int
	// Version is imgcheck's own, where a format names its tool.
	Version string
	// FailOn is the least severity that JUnit shows as a failure; empty is
	// error, and Never none.
	FailOn lint.Severity
	// Category tells this scan from others of one commit, where formats are compared
	// with those of another commit; empty is [Category] of the image.
	Category string
}

func (o Options) category(d *Document) string {
	if o.Category != "" {
		return clean(o.Category)
	}
	return Category(d.Image)
}

// Never is a FailOn that no finding reaches.
const Never lint.Severity = "never"

// Format writes a document.
type Format func(w io.Writer, d *Document, o Options) error

// Formats by name.
var Formats = map[string]Format{
	"text":          Text,
	"json":          JSON,
	"sarif":         SARIF,
	"code-scanning": CodeScanning,
	"junit":         JUnit,
	"github":        GitHub,
	"markdown":      Markdown,
	"gitlab":        GitLab,
}

// Names are those of Formats, the most used first.
var Names = []string{"text", "json", "sarif", "code-scanning", "junit", "github", "markdown", "gitlab"}

// JSON writes the document as it is, whatever the options.
func JSON(w io.Writer, d *Document, _ Options) error { return plain.JSON(w, d, "  ") }
