// Package report writes the result of a scan for people and for programs.
//
// A format is a function from a document to a writer; [Formats] lists them. The same
// document gives the same bytes: formats do not read the time, the terminal or the
// environment, and the caller says whether colours are on.
//
// The package does not judge: severities, texts and fixes come with the findings.
package report

import (
	"io"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Schema names the form of the JSON document, whose JSON Schema is in docs/schema. A
// change that breaks readers gets another number.
const Schema = "imgcheck.report/1"

// Document is the report of one scan.
type Document struct {
	Schema string `json:"schema"`
	// Imgcheck is the version of the imgcheck that has scanned the image, or empty.
	Imgcheck string         `json:"imgcheck,omitempty"`
	Image    Image          `json:"image"`
	Summary  Summary        `json:"summary"`
	Findings []lint.Finding `json:"findings"`
	// Copied has the files of findings that the build's provenance follows into other stages,
	// in the order of the findings; see [Document.Follow].
	Copied []Copied `json:"copied,omitempty"`
	// Problems group the findings that are a warning or more by their root causes, in the
	// order of the findings.
	Problems []Problem `json:"problems,omitempty"`
	// Plan has the steps that would fix the image, or is nil if none were planned.
	Plan *fix.Plan `json:"plan,omitempty"`
	// Copies are the image's GPU libraries, and Processes the files that each process
	// maps.
	Copies    []lint.Copies  `json:"copies,omitempty"`
	Processes []lint.Process `json:"processes,omitempty"`
	Stats     lint.Stats     `json:"stats"`
	// GPUs is the verdict for each known GPU, and Sizes says where the bytes of the image are;
	// nil if they were not requested.
	GPUs  []*targets.Row `json:"gpus,omitempty"`
	Sizes *size.Summary  `json:"sizes,omitempty"`
	// Inventory is what is installed, or nil if it was not requested.
	Inventory *inventory.Inventory `json:"inventory,omitempty"`
	// Ignored are findings that a policy ignores, with its reasons. Known are findings
	// that a baseline has. Summary counts neither.
	Ignored []Ignored      `json:"ignored,omitempty"`
	Known   []lint.Finding `json:"known,omitempty"`

	// Rules are the rules of the packs: SARIF has their texts, and JUnit a case for each.
	// They are not part of the JSON; the reader of a document sets them again.
	Rules []*packs.Rule `json:"-"`
}

// Image describes the scanned image in a report, in the form of its JSON.
type Image struct {
	Ref      string  `json:"ref"`                // as the user gave it
	Digest   string  `json:"digest,omitempty"`   // of the manifest
	Platform string  `json:"platform,omitempty"` // of the config
	Layers   []Layer `json:"layers"`
	// NoDockerfile says why no layer has the line of a Dockerfile, though there is
	// provenance or a Dockerfile.
	NoDockerfile string `json:"no_dockerfile,omitempty"`
	// End is the end of the image's stage in its Dockerfile, or nil if that is not known.
	End *dockerline.End `json:"dockerfile_end,omitempty"`
}

// Layer is one layer. The lowest comes first.
type Layer struct {
	Index     int    `json:"index"` // from 1
	Digest    string `json:"digest,omitempty"`
	DiffID    string `json:"diff_id,omitempty"`
	CreatedBy string `json:"created_by,omitempty"`
	Size      int64  `json:"size,omitempty"` // of the blob in bytes
	// Dockerfile is the instruction that made the layer, or nil if that is not known.
	Dockerfile *dockerline.Line `json:"dockerfile,omitempty"`
}

// Copied is a file that a COPY --from has brought.
type Copied struct {
	Path  string `json:"path"`
	Layer int    `json:"layer"` // from 1
	// From has the stages that it was copied through, the nearest first.
	From []dockerline.Source `json:"from"`
}

// Summary counts the findings.
type Summary struct {
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Notes    int `json:"notes"`
}

// Ignored is a finding that does not count, because of a policy.
type Ignored struct {
	Finding lint.Finding `json:"finding"`
	Reason  string       `json:"reason"`
	Expires string       `json:"expires,omitempty"` // the last day, 2006-01-02
}

// New returns the document of a scan.
func New(img Image, res *lint.Result) *Document {
	d := &Document{Schema: Schema, Image: img, Copies: res.Copies, Processes: res.Processes, Stats: res.Stats, Inventory: res.Inventory}
	if d.Image.Layers == nil {
		d.Image.Layers = []Layer{}
	}
	return d.With(res.Findings)
}

// With returns a copy of the document with other findings, which it counts.
func (d *Document) With(findings []lint.Finding) *Document {
	n := *d
	n.Findings, n.Summary = findings, Summary{}
	if n.Findings == nil {
		n.Findings = []lint.Finding{}
	}
	for _, f := range findings {
		switch f.Severity {
		case packs.Error:
			n.Summary.Errors++
		case packs.Warning:
			n.Summary.Warnings++
		default:
			n.Summary.Notes++
		}
	}
	n.Problems = problems(findings)
	return &n
}

// Options control how a document is shown.
type Options struct {
	// All shows notes and whole lists. Without it, the text format and the one for code
	// scanning leave some out; the others do not.
	All bool
	// Quiet leaves of the text format a line for each problem.
	Quiet bool
	// Least is the lowest severity of the findings that the text format shows; "" is none.
	// It counts all of them.
	Least packs.Severity
	// Color allows escape sequences for colours.
	Color bool
	// Width is the number of columns at which the text format breaks lines between words;
	// 0 breaks none.
	Width int
	// Version is imgcheck's own, for formats that name their tool. The document's has
	// precedence.
	Version string
	// FailOn is the lowest severity that JUnit shows as a failure: "" is error, and Never
	// is none.
	FailOn packs.Severity
	// Category separates this scan from others of one commit in formats that are compared
	// with those of another commit. "" means [Category] of the image.
	Category string
}

func (o Options) category(d *Document) string {
	if o.Category != "" {
		return clean(o.Category)
	}
	return Category(d.Image)
}

// Never is a FailOn that no finding reaches.
const Never packs.Severity = "never"

// Format writes a document.
type Format func(w io.Writer, d *Document, o Options) error

// Formats are the formats by name.
var Formats = map[string]Format{
	"text":          Text,
	"json":          JSON,
	"sarif":         SARIF,
	"code-scanning": CodeScanning,
	"junit":         JUnit,
	"github":        GitHub,
	"markdown":      Markdown,
	"gitlab":        GitLab,
	"html":          HTML,
}

// Names are the names of Formats, the most used first.
var Names = []string{"text", "json", "sarif", "code-scanning", "junit", "github", "markdown", "gitlab", "html"}

// JSON writes the whole document, whatever the options.
func JSON(w io.Writer, d *Document, _ Options) error { return plain.JSON(w, d, "  ") }
