package fix

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// Plan holds the steps that would fix an image, and the result of a replay with them.
type Plan struct {
	// Steps are the changes, in the order in which they are made.
	Steps []Step `json:"steps"`
	// Outcomes has an entry for each finding that counts and is a warning or more, in the
	// order of the findings.
	Outcomes []Outcome `json:"findings"`
	// Behind are findings that are a warning or more and appear only with the steps: they
	// concern files that could not be loaded before.
	Behind []Behind `json:"behind,omitempty"`
	// Trials counts the changed images that were replayed.
	Trials int `json:"trials"`
	// Truncated is set if more candidates could have been tried.
	Truncated bool `json:"truncated,omitempty"`
	// Snippet is the plan as instructions of a Dockerfile, or nil if it cannot be written so.
	Snippet *Snippet `json:"snippet,omitempty"`
	// NoSnippet says why the steps cannot be written as instructions, if they cannot.
	NoSnippet string `json:"no_snippet,omitempty"`
	// Decisions are those of a person, for findings that neither the steps nor the snippet resolve.
	Decisions []Decision `json:"decisions,omitempty"`
	// Reasons say why there are no lines for the findings that are left.
	Reasons []Reason `json:"reasons,omitempty"`
	// Command is the command that carries the plan out, or empty. The caller fills it in,
	// since Find does not know where the image is.
	Command string `json:"command,omitempty"`

	// After is the result for the image with the steps, or for the image as it is if there
	// are none.
	After *lint.Result `json:"-"`
	left  int          // findings in After that count and are a warning or more
	draft draft
}

// Step is one change of an image.
type Step struct {
	// Kind is the kind of change, as rules name it in their packs: "link", "path", "add", …
	Kind string `json:"kind"`
	// Text describes the change in one line.
	Text string `json:"text"`
	// Path is the file that is made, replaced or removed, or the directory that a
	// search path gains or loses.
	Path string `json:"path,omitempty"`
	// Link is the target of the symbolic link at Path.
	Link string `json:"link,omitempty"`
	// Variable is the variable that the step changes, and Value its value after all steps.
	Variable string `json:"variable,omitempty"`
	Value    string `json:"value,omitempty"`
	// Library is the name that is added or replaced, and Files are all files that come
	// with it, below the directory Path.
	Library string   `json:"library,omitempty"`
	Files   []string `json:"files,omitempty"`
	// StandIn is set if there is no source to take Library from: the plan was tried with a
	// library of that name that has no code.
	StandIn bool `json:"stand_in,omitempty"`
	// Version and Source describe the added library, and Doubt says what could not be
	// verified about it.
	Version string `json:"version,omitempty"`
	Source  string `json:"source,omitempty"`
	Doubt   string `json:"doubt,omitempty"`
	// License names the library's licence, and LicenseURL is its address.
	License    string `json:"license,omitempty"`
	LicenseURL string `json:"license_url,omitempty"`
	// Offers are the values of --from for the sources that are known to have Library, if
	// StandIn is set.
	Offers []string `json:"offers,omitempty"`

	found  *provide.Found // the release that is added, nil for a stand-in
	public string         // Text as it may be published, if that differs
	edit   packs.Edit
	argv   *argv  // of the image, if the step changes it
	files  []file // of the layer
}

// Outcome says how far a plan resolves one finding.
type Outcome struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
	// Of counts the affected files, at least 1, and Resolves those of them that the finding
	// does not affect any more.
	Of       int `json:"of"`
	Resolves int `json:"resolves"`
	// Steps are the numbers, from 1, of the steps taken for this finding. A finding that
	// another one's steps resolve has none.
	Steps []int `json:"steps,omitempty"`
	// Tried are the candidates that were not taken.
	Tried []Attempt `json:"tried,omitempty"`
	// Why is the reason why the finding stays, if it does.
	Why string `json:"why,omitempty"`

	cause string // of the finding
}

// Behind is a finding that the image has only with the steps.
type Behind struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Attempt is a candidate that was tried and not taken.
type Attempt struct {
	Text     string `json:"text"`
	Resolves int    `json:"resolves"`
	Why      string `json:"why,omitempty"` // the objection: "breaks …"
}

// Resolved counts the findings that the plan resolves, and all that it has an outcome for.
func (p *Plan) Resolved() (n, of int) {
	for _, o := range p.Outcomes {
		if o.Resolves == o.Of {
			n++
		}
	}
	return n, len(p.Outcomes)
}

// Better reports whether the image is strictly better with the plan's steps.
func (p *Plan) Better() bool { return len(p.Steps) > 0 }

// Complete reports whether no finding that counts and is a warning or more is left.
func (p *Plan) Complete() bool { return p.left == 0 }

// Asks returns the lines that a user has to agree to before the plan is carried out.
func (p *Plan) Asks() []string {
	var list []*provide.Found
	for _, s := range p.Steps {
		if s.found != nil {
			list = append(list, s.found)
		}
	}
	return provide.Ask(list)
}

// Copy is a file that a plan adds as another image has it.
type Copy struct {
	Path string // real path in the patched image, without a leading slash
	From string // absolute path in the other image
	provide.Origin
}

// Copies returns the files that the plan takes unchanged from other images.
func (p *Plan) Copies() []Copy {
	var list []Copy
	for _, s := range p.Steps {
		if s.found == nil || s.found.Image == nil {
			continue
		}
		for _, f := range s.files {
			if name := path.Base(f.Path); slices.Contains(s.Files, name) {
				at := strings.TrimPrefix(realPath(p.draft.base.FS, f.Path), "/")
				list = append(list, Copy{at, path.Join(s.found.Image.Dir, name), *s.found.Image})
			}
		}
	}
	return list
}

// StandIn reports whether a step has a stand-in for its library.
func (p *Plan) StandIn() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.StandIn })
}

// Texts returns the steps in words, in order.
func (p *Plan) Texts() []string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, s.Text)
	}
	return list
}

// Published returns the steps in words as the patched image records them: without paths
// of this machine, and the same however these were written.
func (p *Plan) Published() []string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, cmp.Or(s.public, s.Text))
	}
	return list
}

// SearchPath returns the value that the plan gives to LD_LIBRARY_PATH. ok is false if the
// plan does anything else, or leaves a finding that is a warning or more and whose fixes
// set the variable.
func (p *Plan) SearchPath(findings []lint.Finding) (value string, ok bool) {
	for _, s := range p.Steps {
		if s.Variable != libraryPath {
			return "", false
		}
		value, ok = s.Value, true
	}
	for _, f := range findings {
		if f.Severity != packs.Note && f.SetsPath() && !slices.ContainsFunc(p.Outcomes, func(o Outcome) bool {
			return o.cause == f.Cause && o.Resolves == o.Of
		}) {
			return "", false
		}
	}
	return value, ok
}

// Adds reports whether a step adds a library, by its ID in rules/provide.
func (p *Plan) Adds(id string) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		lib := provide.LibraryOf(s.Library)
		return s.Library != "" && lib != nil && lib.ID == id
	})
}

// Change returns what pkg/patch lays over the image. It fails if a step has a stand-in for
// its library.
func (p *Plan) Change() (patch.Change, error) {
	var c patch.Change
	for _, s := range p.Steps {
		if s.StandIn {
			return c, fmt.Errorf("%s: there is no source to take it from: name one with --from", s.Text)
		}
		for _, f := range s.files {
			if f.Open == nil && f.Link == "" && !f.Remove {
				return c, fmt.Errorf("%s: its content is not available", s.Text)
			}
			c.Files = append(c.Files, f.File)
		}
	}
	c.Env = p.draft.env
	return c, nil
}
