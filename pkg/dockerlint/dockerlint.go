// Package dockerlint finds what is wrong with a Dockerfile before anything is built: the
// warnings of BuildKit's own checks, and habits that break images for GPUs.
//
// [Lint] judges one text. The rules and their tables are data (rules/dockerlint); the caller
// runs BuildKit's checks and reads the base images, and hands over the results. A finding
// has a place in the file. An instruction whose effect cannot be known from the text is in
// [File.Unknown], and never counts as having no effect.
//
// The package opens no files and no registries, runs nothing, and knows no formats of reports.
package dockerlint

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// File is the result for one Dockerfile.
type File struct {
	Path     string    `json:"path"`
	Findings []Finding `json:"findings"`
	// Ignored are findings that a comment of the file ignores.
	Ignored []Ignored `json:"ignored,omitempty"`
	// Unknown are the places whose effect is not known, each once.
	Unknown []Unknown `json:"unknown,omitempty"`
	// Error is why the file was not read, or "".
	Error string `json:"error,omitempty"`
}

// Finding is one thing that is wrong with a Dockerfile.
type Finding struct {
	Rule     string         `json:"rule"`
	Severity packs.Severity `json:"severity"`
	Line     int            `json:"line"`   // from 1
	Column   int            `json:"column"` // from 1, in characters
	EndLine  int            `json:"end_line"`
	Message  string         `json:"message"`
	// Because says why the severity is lower than the rule's, or is empty.
	Because string   `json:"because,omitempty"`
	Fixes   []string `json:"fixes,omitempty"` // the best first
	URL     string   `json:"url,omitempty"`   // a page about the rule that is not imgcheck's own
	// Base is the image whose scan has the finding; "" if the file itself is wrong.
	Base string `json:"base,omitempty"`
	// Text is the line of the file.
	Text string `json:"text,omitempty"`
}

// Ignored is a finding that does not count, with the reason that the file gives.
type Ignored struct {
	Finding Finding `json:"finding"`
	Reason  string  `json:"reason"`
}

// Unknown is a place whose effect on the image is not known.
type Unknown struct {
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// Warning is a result of BuildKit's checks.
type Warning struct {
	Rule, Message, URL string // Rule is "" for the error with which the build would end
	Line, EndLine      int
}

// Input is a Dockerfile with all that is known about it.
type Input struct {
	Path string // as reports show it
	Text []byte
	// Target is the stage that is built, by its name; "": all that no other stage uses.
	Target string
	// Adds names what is laid over the image after the build, and may bring libraries, or is empty.
	Adds string
	// Checks are the warnings of BuildKit's checks.
	Checks []Warning
	// Base returns what is known of an image that a FROM names, or why nothing is; nil: base
	// images are not read.
	Base func(ref, platform string) (*Base, string)
	// Absent reports whether the registry of an image that is not known answered that it does not
	// have it; nil: that is not known.
	Absent func(ref, platform string) bool
	// Context returns a file of the build context, by its path there; nil: it is not read.
	Context func(name string) ([]byte, bool)
	// Wheel returns the release of a distribution that specifiers allow and that an installer
	// takes of some indexes, or why it is not known; nil: no index is asked.
	Wheel func(name, specifiers string, from Indexes) (*Wheel, string)
	// Newest returns the release that pip takes of a distribution without a pin for a Python and a
	// C library, or why it is not known; nil: no index is asked.
	Newest func(name, specifiers string, on Target, from Indexes) (release, why string)
	// Predict judges an image with the files of the packages that are installed, and returns the
	// libraries that these lack, which packages of the prospect it has judged as a whole, and
	// reasons why others are not known; nil: no files are read.
	Predict func(Prospect) (list []Predicted, judged []bool, unknown []NotPredicted)
	// Index reports whether an index of PyTorch exists, and whether that is known; nil: it is
	// not asked.
	Index func(url string) (exists, known bool)
	// Machines are the GPUs and drivers of the policy, and Policy its file's name.
	Machines []targets.Machine
	Policy   string
}

// Lint judges a Dockerfile. It never fails: a text that is not understood has an error.
func Lint(in Input, k *Knowledge) *File {
	l := &linter{Knowledge: k, file: &File{Path: in.Path, Findings: []Finding{}}, lines: lines(in.Text), base: in.Base, noImage: in.Absent, context: in.Context, wheelOf: in.Wheel, newestIn: in.Newest, predicted: in.Predict, index: in.Index, machines: in.Machines, policy: in.Policy, target: in.Target, adds: in.Adds, work: new(int), room: new(maxContext), made: map[int]*walk{}}
	f, err := dockerfile.Read(bytes.NewReader(in.Text))
	if err != nil && len(in.Checks) == 0 {
		l.file.Error = err.Error()
		return l.file
	}
	if err == nil && len(f.Stages) == 0 && !whole.MatchString(in.Path) {
		l.file.Unknown = append(l.file.Unknown, Unknown{1, "the file: it has no FROM, and is a part of a Dockerfile"})
		return l.file
	}
	l.checks(in.Checks)
	if err == nil {
		l.parsed = f
		l.targets()
	}
	l.ignore()
	l.sort()
	return l.file
}

// linter judges one file.
type linter struct {
	*Knowledge
	file   *File
	parsed *dockerfile.File // nil if the text is no Dockerfile
	lines  []string
	base   func(ref, platform string) (*Base, string)
	// noImage reports whether a registry does not have an image.
	noImage func(ref, platform string) bool
	// context returns a file of the build context.
	context  func(name string) ([]byte, bool)
	wheelOf  func(name, specifiers string, from Indexes) (*Wheel, string)
	newestIn func(name, specifiers string, on Target, from Indexes) (release, why string)
	// predicted judges the files of packages.
	predicted func(Prospect) ([]Predicted, []bool, []NotPredicted)
	index     func(url string) (exists, known bool)
	machines  []targets.Machine
	policy    string
	target    string
	adds      string
	nested    int           // stages that copy from one another
	work      *int          // instructions that were followed
	room      *int          // bytes of the context that may still be read
	made      map[int]*walk // stages that others copy from
}

// whole matches the names of files that are built as they are.
var whole = regexp.MustCompile(`(^|/)([Dd]ockerfile|[Cc]ontainerfile|-)$`)

func lines(text []byte) []string {
	return strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
}

// checks adds the warnings of BuildKit's checks, with the severities of the table.
func (l *linter) checks(list []Warning) {
	for _, w := range list {
		f := Finding{Rule: w.Rule, Severity: packs.Note, Line: max(w.Line, 1), EndLine: max(w.EndLine, w.Line, 1), Message: w.Message, URL: w.URL}
		if w.Rule == "" {
			f.Rule, f.Severity = BuildError, packs.Error
		} else if c := l.Check(w.Rule); c != nil {
			f.Severity, f.Because = c.Severity, c.Because
		}
		l.add(f)
	}
}

// BuildError is the rule of the error with which a build would end.
const BuildError = "build-error"

// add adds a finding with its place. It says each thing once, also if it is true of several
// targets.
func (l *linter) add(f Finding) {
	if f.Line <= len(l.lines) {
		f.Text = strings.TrimSpace(l.lines[f.Line-1])
		if f.Column == 0 {
			f.Column = 1 + len(l.lines[f.Line-1]) - len(strings.TrimLeft(l.lines[f.Line-1], " \t"))
		}
	}
	f.Column, f.EndLine = max(f.Column, 1), max(f.EndLine, f.Line)
	i := slices.IndexFunc(l.file.Findings, func(o Finding) bool { return o.Rule == f.Rule && o.Line == f.Line && o.Message == f.Message })
	switch {
	case i < 0:
		l.file.Findings = append(l.file.Findings, f)
	case !l.file.Findings[i].Severity.AtLeast(f.Severity): // it fails in this target
		l.file.Findings[i] = f
	}
}

func (l *linter) sort() {
	slices.SortStableFunc(l.file.Findings, func(a, b Finding) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column, slices.Index(packs.Severities, a.Severity)-slices.Index(packs.Severities, b.Severity), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	slices.SortStableFunc(l.file.Unknown, func(a, b Unknown) int { return cmp.Or(a.Line-b.Line, cmp.Compare(a.Why, b.Why)) })
}
