package report

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// DockerfilesSchema names the form of the JSON of [Dockerfiles], whose JSON Schema is in
// docs/schema.
const DockerfilesSchema = "imgcheck.lint/1"

// Dockerfiles is the report of a lint of Dockerfiles.
type Dockerfiles struct {
	Schema   string             `json:"schema"`
	Imgcheck string             `json:"imgcheck,omitempty"`
	Files    []*dockerlint.File `json:"files"`
	Summary  Summary            `json:"summary"`
	// Rules have the texts of the rules, for SARIF.
	Rules []*packs.Rule `json:"-"`
}

// NewDockerfiles returns the report of files, in their order.
func NewDockerfiles(files []*dockerlint.File, rules []*packs.Rule) *Dockerfiles {
	d := &Dockerfiles{Schema: DockerfilesSchema, Files: files, Rules: rules}
	if d.Files == nil {
		d.Files = []*dockerlint.File{}
	}
	for _, f := range files {
		for i := range f.Findings {
			d.Summary.add(f.Findings[i].Severity)
		}
	}
	return d
}

func (s *Summary) add(severity packs.Severity) {
	switch severity {
	case packs.Error:
		s.Errors++
	case packs.Warning:
		s.Warnings++
	default:
		s.Notes++
	}
}

// DockerfilesFormats are the formats of a lint, by the names of [Names].
var DockerfilesFormats = map[string]func(w io.Writer, d *Dockerfiles, o Options) error{
	"text":          dockerfilesText,
	"json":          func(w io.Writer, d *Dockerfiles, _ Options) error { return plain.JSON(w, d, "  ") },
	"sarif":         dockerfilesSARIF,
	"code-scanning": dockerfilesCodeScanning,
	"junit":         dockerfilesJUnit,
	"github":        dockerfilesGitHub,
	"markdown":      dockerfilesMarkdown,
	"gitlab":        dockerfilesGitLab,
	"html":          dockerfilesHTML,
}

// placed is a finding with its file.
type placed struct {
	*dockerlint.Finding
	path string
	// print identifies the finding in its file: the rule, the text of its line, and which of
	// equal ones it is. It stays when lines above are added or taken away.
	print  string
	reason string // of an ignored finding
}

func (d *Dockerfiles) all(ignored bool) (list []placed) {
	seen := map[string]int{}
	add := func(path string, f *dockerlint.Finding, reason string) {
		key := path + "\x00" + f.Rule + "\x00" + f.Text
		seen[key]++
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, seen[key]))
		list = append(list, placed{f, path, hex.EncodeToString(sum[:16]), reason})
	}
	for _, file := range d.Files {
		for i := range file.Findings {
			add(file.Path, &file.Findings[i], "")
		}
		for i := range file.Ignored {
			if ignored {
				add(file.Path, &file.Ignored[i].Finding, file.Ignored[i].Reason)
			}
		}
	}
	return list
}

// sentences returns a finding as prose, one sentence to a line.
func (p *placed) sentences() string {
	text := clean(p.Message) + "."
	if p.Because != "" {
		text += "\nBecause: " + clean(p.Because) + "."
	}
	for _, x := range p.Fixes {
		text += "\nFix: " + clean(x)
	}
	return text
}

// dockerfilesText writes each finding as FILE:LINE:COLUMN, as compilers do, with its fixes
// below. Without All it leaves notes out and counts them.
func dockerfilesText(w io.Writer, d *Dockerfiles, o Options) error {
	b := bufio.NewWriter(plain.NewWriter(w, false))
	unknown := 0
	for _, file := range d.Files {
		if file.Error != "" {
			fmt.Fprintf(b, "%s: not read: %s\n", clean(file.Path), clean(file.Error))
		}
		for i := range file.Findings {
			f := &file.Findings[i]
			if f.Severity == packs.Note && !o.All || o.Least != "" && !f.Severity.AtLeast(o.Least) {
				continue
			}
			fmt.Fprintf(b, "%s:%d:%d: %s: %s [%s]\n", clean(file.Path), f.Line, f.Column, f.Severity, clean(f.Message), clean(f.Rule))
			if o.Quiet {
				continue
			}
			if f.Because != "" && o.All {
				fmt.Fprintf(b, "    because: %s\n", clean(f.Because))
			}
			for _, x := range f.Fixes {
				fmt.Fprintf(b, "    fix: %s\n", clean(x))
			}
		}
		if o.All && !o.Quiet {
			for _, u := range file.Unknown {
				fmt.Fprintf(b, "%s:%d:1: not predicted: %s\n", clean(file.Path), u.Line, clean(u.Why))
			}
		}
		unknown += len(file.Unknown)
	}
	if !o.Quiet {
		fmt.Fprintln(b, d.counted(o, unknown))
	}
	return b.Flush()
}

// counted returns the last line of the text.
func (d *Dockerfiles) counted(o Options, unknown int) string {
	parts := []string{plural(d.Summary.Errors, "error"), plural(d.Summary.Warnings, "warning"), plural(d.Summary.Notes, "note")}
	line := plural(len(d.Files), "Dockerfile") + ": " + strings.Join(parts, ", ")
	if unknown > 0 {
		line += "; " + plural(unknown, "place") + " not predicted"
	}
	if d.Summary.Notes+unknown > 0 && !o.All {
		line += " (--all shows all)"
	}
	return line
}

// dockerfilesSARIF writes one run, whose results are located in the files of the repository.
func dockerfilesSARIF(w io.Writer, d *Dockerfiles, o Options) error {
	return d.log(w, d.all(true), o)
}

// dockerfilesCodeScanning leaves out ignored findings, and notes unless the options show all.
func dockerfilesCodeScanning(w io.Writer, d *Dockerfiles, o Options) error {
	list := slices.DeleteFunc(d.all(false), func(p placed) bool { return p.Severity == packs.Note && !o.All })
	return d.log(w, list, o)
}

func (d *Dockerfiles) log(w io.Writer, list []placed, o Options) error {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "imgcheck", Version: clean(cmp.Or(d.Imgcheck, o.Version)), Info: home, Rules: []sarifRule{}}},
		Invocations: []sarifInvocation{{Successful: true}},
		Results:     []sarifResult{}, ColumnKind: "utf16CodeUnits",
		Automation: &sarifAutomation{ID: "imgcheck-lint/" + cmp.Or(clean(o.Category), "dockerfiles") + "/"},
	}
	index := map[string]int{}
	for _, r := range d.Rules {
		index[r.ID] = len(run.Tool.Driver.Rules)
		rule := sarifRuleOf(r)
		rule.HelpURI, rule.Props["tags"] = d.page(r), []string{"dockerfile", "gpu"}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
	}
	if n := len(list) - sarifLimit; n > 0 {
		list = list[:sarifLimit]
		run.Invocations[0].Notifications = []sarifNotification{{Level: "warning", Message: sarifText{Text: fmt.Sprintf("%s are left out: GitHub accepts %s per run.", plural(n, "finding"), count(sarifLimit))}}}
	}
	for _, p := range list {
		var at sarifLocation
		at.Physical.Artifact.URI = fileURI(p.path)
		at.Physical.Region = sarifRegion{StartLine: p.Line, StartColumn: p.Column, EndLine: p.EndLine, EndColumn: p.endColumn()}
		if p.EndLine <= p.Line && p.Text != "" {
			at.Physical.Region.Snippet = &sarifText{Text: clean(p.Text)}
		}
		res := sarifResult{
			RuleID: p.Rule, RuleIndex: index[p.Rule], Level: string(p.Severity), Message: sarifText{Text: shortenLines(p.sentences(), sarifMessage)},
			Locations: []sarifLocation{at}, Fingerprints: map[string]string{"primaryLocationLineHash": p.print, "imgcheck/v1": p.print},
		}
		if p.reason != "" {
			res.Suppressions = []sarifSuppressed{{"inSource", clean(p.reason)}}
		}
		run.Results = append(run.Results, res)
	}
	return plain.JSONText(w, sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}, "  ")
}

// page returns the address of a rule's page.
func (d *Dockerfiles) page(r *packs.Rule) string {
	if strings.ToLower(r.ID) != r.ID && len(r.Sources) > 0 { // BuildKit's
		return r.Sources[0]
	}
	return ruleURL(r.ID)
}

// endColumn returns the column behind the end of a finding of one line, else the first one.
func (p *placed) endColumn() int {
	if p.EndLine > p.Line {
		return 1
	}
	return p.Column + max(1, len([]rune(p.Text)))
}

// fileURI returns a path of the repository as a relative URI.
func fileURI(path string) string {
	uri := (&url.URL{Path: clean(filepath.ToSlash(filepath.Clean(path)))}).EscapedPath()
	if first, _, _ := strings.Cut(uri, "/"); strings.Contains(first, ":") {
		uri = "./" + uri
	}
	return uri
}

// dockerfilesGitHub writes workflow commands with the place, at most ten of a kind.
func dockerfilesGitHub(w io.Writer, d *Dockerfiles, _ Options) error {
	b := bufio.NewWriter(w)
	written := map[packs.Severity]int{}
	for _, p := range d.all(false) {
		if p.Severity == packs.Note {
			continue
		}
		if written[p.Severity]++; written[p.Severity] > githubAnnotations {
			continue
		}
		fmt.Fprintf(b, "::%s file=%s,line=%d,col=%d,endLine=%d,title=%s::%s\n", p.Severity, property(clean(filepath.ToSlash(p.path))), p.Line, p.Column, p.EndLine, property("imgcheck "+clean(p.Rule)), data(p.sentences()))
	}
	return b.Flush()
}

func dockerfilesGitLab(w io.Writer, d *Dockerfiles, _ Options) error {
	issues := []gitlabIssue{}
	for _, p := range d.all(false) {
		text := clean(p.Message)
		if len(p.Fixes) > 0 {
			text += ". Fix: " + clean(p.Fixes[0])
		}
		issues = append(issues, gitlabIssue{
			Description: shorten(text, sarifDescription), Check: clean(p.Rule), Fingerprint: p.print, Severity: gitlabSeverity[p.Severity],
			Location: gitlabLocation{clean(filepath.ToSlash(p.path)), gitlabLines{p.Line}},
		})
	}
	return plain.JSONText(w, issues, "  ")
}

// dockerfilesJUnit writes a suite for each file, with a case for each finding, or one that
// passes.
func dockerfilesJUnit(w io.Writer, d *Dockerfiles, o Options) error {
	failOn := cmp.Or(o.FailOn, packs.Error)
	all := junitSuites{Name: "imgcheck lint"}
	for _, file := range d.Files {
		one := &Dockerfiles{Files: []*dockerlint.File{file}}
		s := junitSuite{Name: xmlLine(file.Path)}
		for _, p := range one.all(false) {
			c := junitCase{Class: "imgcheck." + xmlLine(p.Rule), Name: xmlLine(fmt.Sprintf("line %d: %s", p.Line, p.Message))}
			if p.Severity.AtLeast(failOn) {
				s.Failures++
				c.Failure = &junitFailure{Message: xmlLine(p.Message), Type: string(p.Severity), Text: xmlText(p.sentences())}
			} else {
				c.Out = string(p.Severity) + ": " + xmlText(p.sentences())
			}
			s.Cases = append(s.Cases, c)
		}
		for i := range file.Ignored {
			g := &file.Ignored[i]
			s.Skipped++
			s.Cases = append(s.Cases, junitCase{Class: "imgcheck." + xmlLine(g.Finding.Rule), Name: xmlLine(fmt.Sprintf("line %d: %s", g.Finding.Line, g.Finding.Message)), Skipped: &junitSkipped{"ignored: " + xmlLine(g.Reason)}})
		}
		if len(s.Cases) == 0 {
			s.Cases = []junitCase{{Class: "imgcheck.lint", Name: xmlLine(file.Path)}}
		}
		s.Tests = len(s.Cases)
		all.Tests, all.Failures, all.Suites = all.Tests+s.Tests, all.Failures+s.Failures, append(all.Suites, s)
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

// dockerfilesMarkdown writes a table for a pull request.
func dockerfilesMarkdown(w io.Writer, d *Dockerfiles, o Options) error {
	b := bufio.NewWriter(plain.NewWriter(w, false))
	fmt.Fprintf(b, "### imgcheck lint: %s, %s, %s\n", plural(d.Summary.Errors, "error"), plural(d.Summary.Warnings, "warning"), plural(d.Summary.Notes, "note"))
	head := false
	for _, p := range d.all(false) {
		if p.Severity == packs.Note && !o.All {
			continue
		}
		if !head {
			head = true
			fmt.Fprint(b, "\n| place | severity | finding | fix |\n|---|---|---|---|\n")
		}
		fix := ""
		if len(p.Fixes) > 0 {
			fix = p.Fixes[0]
		}
		fmt.Fprintf(b, "| %s:%d | %s | %s (%s) | %s |\n", cell(p.path), p.Line, p.Severity, cell(p.Message), cell(p.Rule), cell(fix))
	}
	return b.Flush()
}

// cell returns a text for a cell of a Markdown table.
func cell(s string) string {
	return plain.Markdown(strings.ReplaceAll(clean(s), "`", "'"))
}
