package report

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Limits of GitHub code scanning for a SARIF file:
// https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
const (
	sarifLimit       = 5000 // GitHub drops further results, and refuses a file with more than 25,000
	sarifDescription = 1024 // characters of a rule's short and full description
	sarifRelated     = 10   // files that need what is missing; GitHub takes 1,000 locations
	sarifMessage     = 4096 // characters of a text from an image; our own limit
)

const home = "https://github.com/imgcheck/imgcheck"

// The part of SARIF 2.1.0 that SARIF writes:
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Automation  *sarifAutomation  `json:"automationDetails,omitempty"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
		ColumnKind  string            `json:"columnKind"`
		Properties  map[string]any    `json:"properties,omitempty"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Info    string      `json:"informationUri"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string         `json:"id"`
		Name    string         `json:"name"`
		Short   sarifText      `json:"shortDescription"`
		Full    sarifText      `json:"fullDescription"`
		Help    sarifText      `json:"help"`
		HelpURI string         `json:"helpUri"`
		Default sarifLevel     `json:"defaultConfiguration"`
		Props   map[string]any `json:"properties"`
	}
	sarifText struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown,omitempty"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifAutomation struct {
		ID string `json:"id"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Related      []sarifLocation   `json:"relatedLocations,omitempty"`
		Flows        []sarifFlow       `json:"codeFlows,omitempty"`
		Fixes        []sarifFix        `json:"fixes,omitempty"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Baseline     string            `json:"baselineState,omitempty"`
		Suppressions []sarifSuppressed `json:"suppressions,omitempty"`
		Props        map[string]any    `json:"properties,omitempty"`
	}
	sarifFlow struct {
		Threads []sarifThread `json:"threadFlows"`
	}
	sarifThread struct {
		Locations []sarifStep `json:"locations"`
	}
	sarifStep struct {
		Location sarifLocation `json:"location"`
	}
	sarifSuppressed struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
	sarifLocation struct {
		ID       *int           `json:"id,omitempty"`
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
		Message  *sarifText     `json:"message,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int        `json:"startLine"`
		StartColumn int        `json:"startColumn"`
		EndLine     int        `json:"endLine"`
		EndColumn   int        `json:"endColumn,omitempty"` // 0 is the end of the line
		Snippet     *sarifText `json:"snippet,omitempty"`
	}
	sarifLogical struct {
		Name string `json:"name"`
		Full string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

// SARIF writes the document for code scanning: one run with the rules of the document and
// of its findings, and a result for each finding, also for notes. A result is located at
// the line of the Dockerfile that brought the trouble, or, if that is not known, at
// the path of the first file that needs what is missing, relative to the image's root.
// That location has no tag, because every build would then make new alerts. A finding that
// a baseline knows is "unchanged", and one that a policy ignores is suppressed. The plan and
// the lines for the Dockerfile are in the message and the properties, and if the Dockerfile is
// known, the lines are a fix of the result as well: an edit of that file.
func SARIF(w io.Writer, d *Document, o Options) error {
	return writeSARIF(w, []sarifRun{sarifRunOf(d, o, d.Rules)})
}

func writeSARIF(w io.Writer, runs []sarifRun) error {
	return plain.JSONText(w, sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: runs}, "  ")
}

// sarifRunOf returns the run of a document, with the rules of known and of its findings.
func sarifRunOf(d *Document, o Options, known []*packs.Rule) sarifRun {
	list := sarifResults(d)
	findings := make([]lint.Finding, len(list))
	for i := range list {
		findings[i] = list[i].Finding
	}
	category := o.category(d)
	prints := fingerprints(category, findings)
	invocation := sarifInvocation{Successful: true}
	if n := len(list) - sarifLimit; n > 0 {
		list, findings = list[:sarifLimit], findings[:sarifLimit]
		invocation.Notifications = []sarifNotification{{Level: "warning", Message: sarifText{Text: fmt.Sprintf("%s of the lowest severity are left out: GitHub accepts %s per run.", plural(n, "finding"), count(sarifLimit))}}}
	}
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "imgcheck", Version: clean(cmp.Or(d.Imgcheck, o.Version)), Info: home, Rules: []sarifRule{}}},
		Invocations: []sarifInvocation{invocation},
		Results:     []sarifResult{},
		ColumnKind:  "utf16CodeUnits",
		Properties:  map[string]any{"image": clean(d.Image.Ref)},
	}
	if d.Image.Digest != "" {
		run.Properties["digest"] = clean(d.Image.Digest)
	}
	if d.Image.Platform != "" {
		run.Properties["platform"] = clean(d.Image.Platform)
	}
	if c := command(d.Plan); c != "" {
		run.Properties["patch"] = clean(c)
	}
	if d.Plan != nil && d.Plan.Snippet != nil {
		run.Properties["dockerfile"] = cleaned(d.Plan.Snippet.Lines)
	}
	if category != "" { // each image of a commit is an analysis of its own
		run.Automation = &sarifAutomation{ID: "imgcheck/" + category + "/"}
	}
	index := map[string]int{}
	for _, r := range rulesOf(findings, known) {
		index[r.ID] = len(run.Tool.Driver.Rules)
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRuleOf(r))
	}
	for i := range list {
		f := &findings[i]
		res := sarifResult{
			RuleID: f.Rule, RuleIndex: index[f.Rule], Level: string(f.Severity),
			Message:      sarifText{Text: shortenLines(sentences(d, f), sarifMessage)},
			Locations:    []sarifLocation{sarifLocated(d, f)},
			Related:      sarifRelatedTo(d, f),
			Flows:        sarifFlows(d, f),
			Fixes:        sarifFixes(d, f),
			Fingerprints: map[string]string{"primaryLocationLineHash": prints[i], "imgcheck/v1": prints[i]},
			Props:        sarifProps(d, f),
		}
		if len(d.Known) > 0 {
			res.Baseline = list[i].baseline
		}
		if list[i].Reason != "" {
			res.Suppressions = []sarifSuppressed{{"external", clean(list[i].Reason)}}
		}
		run.Results = append(run.Results, res)
	}
	return run
}

// CodeScanning writes SARIF for GitHub's code scanning, which makes an alert of each
// result and disregards suppressions. It leaves out the findings that a policy ignores,
// and notes unless the options show all.
func CodeScanning(w io.Writer, d *Document, o Options) error {
	return SARIF(w, alerting(d, o), o)
}

// alerting returns a document without the findings that CodeScanning leaves out.
func alerting(d *Document, o Options) *Document {
	alerts := *d
	alerts.Ignored = nil
	if !o.All {
		alerts.Findings, alerts.Known = heavier(d.Findings), heavier(d.Known)
	}
	return &alerts
}

// heavier returns the findings that are not notes.
func heavier(findings []lint.Finding) []lint.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f lint.Finding) bool { return f.Severity == packs.Note })
}

// sarifFinding is a finding with the decision of a policy.
type sarifFinding struct {
	Ignored
	baseline string
}

// sarifResults returns all findings of a document, the heaviest first.
func sarifResults(d *Document) []sarifFinding {
	var list []sarifFinding
	for _, f := range d.Findings {
		list = append(list, sarifFinding{Ignored{Finding: f}, "new"})
	}
	for _, f := range d.Known {
		list = append(list, sarifFinding{Ignored{Finding: f}, "unchanged"})
	}
	for _, g := range d.Ignored {
		list = append(list, sarifFinding{g, ""})
	}
	slices.SortStableFunc(list, func(a, b sarifFinding) int {
		return cmp.Compare(slices.Index(packs.Severities, a.Finding.Severity), slices.Index(packs.Severities, b.Finding.Severity))
	})
	return list
}

func sarifRuleOf(r *packs.Rule) sarifRule {
	doc := strings.TrimSpace(r.Doc)
	text := r.Title + "\n\n" + doc + "\n"
	for _, part := range []struct {
		head  string
		lines []string
	}{{"How it reads", r.Patterns}, {"How to fix it", r.Fix}, {"Sources", r.Sources}} {
		if len(part.lines) > 0 {
			text += "\n" + part.head + ":\n  " + strings.Join(part.lines, "\n  ") + "\n"
		}
	}
	level := map[packs.Severity]string{packs.Error: "error", packs.Warning: "warning", packs.Note: "recommendation"}[r.Severity]
	return sarifRule{
		ID: r.ID, Name: camel(r.ID),
		Short:   sarifText{Text: shorten(r.Title, sarifDescription)},
		Full:    sarifText{Text: shorten(doc, sarifDescription)},
		Help:    sarifText{Text: text, Markdown: r.Page()},
		HelpURI: ruleURL(r.ID),
		Default: sarifLevel{string(r.Severity)},
		Props:   map[string]any{"precision": "very-high", "problem.severity": level, "tags": []string{"container-image", "gpu"}},
	}
}

// ruleURL returns the address of a rule's page.
func ruleURL(id string) string { return home + "/blob/main/docs/rules/" + url.PathEscape(id) + ".md" }

// camel returns a rule's ID in SARIF's form of names: missing-library becomes
// MissingLibrary.
func camel(id string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(id, "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// sarifLocated returns the location of a finding's result: a line of the Dockerfile, with
// the file of the image as its logical location, or that file.
func sarifLocated(d *Document, f *lint.Finding) sarifLocation {
	at := sarifAt(d, pathOf(f))
	if line := d.lineOf(f); line != nil {
		logical := at.Logical
		at = sarifLine(line)
		at.Logical = logical
	}
	return at
}

func sarifAt(d *Document, p string) sarifLocation {
	at := sarifLocation{Physical: sarifPhysical{sarifArtifact{artifactURI(p)}, sarifRegion{StartLine: 1, StartColumn: 1, EndLine: 1, EndColumn: 1}}}
	if p != "" {
		name := clean(p)
		at.Logical = []sarifLogical{{Name: name, Full: Category(d.Image) + ":" + name, Kind: "resource"}}
	}
	return at
}

func sarifRelatedTo(d *Document, f *lint.Finding) []sarifLocation {
	var out []sarifLocation
	add := func(file replay.File, what, how string, l *replay.LayerRef) {
		if len(out) == sarifRelated {
			return
		}
		at, id := sarifAt(d, file.Path), len(out)+1
		if l != nil {
			what += ", " + layer(how, l)
		}
		at.ID, at.Message = &id, &sarifText{Text: what}
		out = append(out, at)
	}
	if d.lineOf(f) != nil && len(f.NeededBy)+len(f.Present)+len(f.Removed) == 0 && pathOf(f) != "" {
		add(replay.File{Path: pathOf(f)}, "is affected", "from", nil)
	}
	for _, n := range f.NeededBy {
		add(n, "asks for it", "from", n.Layer)
	}
	for _, p := range f.Present {
		add(p, "is there", "from", p.Layer)
	}
	for _, r := range f.Removed {
		add(r.File, "was there", "deleted by", r.By)
	}
	return out
}

func sarifProps(d *Document, f *lint.Finding) map[string]any {
	p := map[string]any{}
	for key, value := range map[string]string{"library": f.Library, "family": f.Family, "symbol": f.Symbol, "because": f.Because} {
		if value != "" {
			p[key] = clean(value)
		}
	}
	if len(f.NeededBy) > 0 && f.NeededBy[0].Layer != nil {
		p["layer"] = f.NeededBy[0].Layer.Index
	}
	if n := len(f.Affected); n > 0 {
		p["affected"] = n
	}
	if lines := snippetFor(d, f); len(lines) > 0 {
		p["dockerfile"] = lines
	}
	if patch, tried := planned(d, f); patch != "" {
		p["patch"] = clean(patch)
		if len(tried) > 0 {
			p["tried"] = cleaned(tried)
		}
	}
	return p
}

func cleaned(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = clean(s)
	}
	return out
}

// artifactURI returns a path of the image as a URI relative to its root, or "image" if p
// is "".
func artifactURI(p string) string {
	rel := strings.TrimLeft(clean(p), "/")
	if rel == "" {
		return "image"
	}
	uri := (&url.URL{Path: rel}).EscapedPath()
	if first, _, _ := strings.Cut(uri, "/"); strings.Contains(first, ":") {
		uri = "./" + uri // or the first segment would be a scheme
	}
	return uri
}

// Repository returns a reference without its tag and digest.
func Repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if i := strings.LastIndex(ref, ":"); i > strings.LastIndex(ref, "/") {
		ref = ref[:i]
	}
	return clean(ref)
}

// rulesOf returns the known rules and those that findings name beside them, which it
// describes by their findings.
func rulesOf(findings []lint.Finding, known []*packs.Rule) []*packs.Rule {
	rules := slices.Clone(known)
	have := map[string]bool{}
	for _, r := range rules {
		have[r.ID] = true
	}
	for i := range findings {
		if f := &findings[i]; !have[f.Rule] {
			have[f.Rule] = true
			rules = append(rules, &packs.Rule{ID: f.Rule, Severity: f.Severity, Title: f.Rule, Doc: "This version of imgcheck does not know the rule."})
		}
	}
	return rules
}

// sentences returns a finding in prose, one sentence to a line. The first is the title. A
// line that people may copy, a path or a command, ends without a period. The lines for the
// Dockerfile take the place of other advice if they resolve the finding.
func sentences(d *Document, f *lint.Finding) string {
	var b strings.Builder
	say := func(label, text string) {
		if text = strings.TrimRight(clean(text), ". "); text != "" {
			fmt.Fprintf(&b, "%s%s.\n", label, text)
		}
	}
	add := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s%s\n", label, clean(text))
		}
	}
	say("", f.Message)
	last := ""
	for _, e := range f.Effects {
		if e.Text != last {
			say("So ", e.Text)
		}
		last = e.Text
	}
	if line := d.lineOf(f); line != nil {
		add("In ", lineText(line))
	}
	for _, s := range d.copiedFrom(f) {
		add("The file was ", sourceText(s))
	}
	lines := snippetText(d, f)
	if lines != "" {
		b.WriteString(lines + "\n")
	}
	for i, n := range f.NeededBy {
		if i == shownNeeders {
			add("", fmt.Sprintf("… and %s more", count(len(f.NeededBy)-i)))
			break
		}
		from := ""
		if n.Layer != nil {
			from = ", " + layer("from", n.Layer)
		}
		add("Needed by ", n.Path+from)
	}
	for _, r := range f.Removed {
		if r.By != nil {
			add("Deleted: ", r.Path+", "+layer("by", r.By))
		}
	}
	for _, p := range f.Present {
		add("Present at ", p.Path)
	}
	for _, x := range f.Fixes {
		if lines == "" {
			add("Fix: ", x)
		}
	}
	patch, tried := planned(d, f)
	add("Patch: ", patch)
	for _, x := range tried {
		add("Tried: ", x)
	}
	if c := entryOf(d.Plan, f); c != nil && c.Resolves > 0 {
		add("Run: ", d.Plan.Command)
	}
	say("Because: ", f.Because)
	return strings.TrimSuffix(b.String(), "\n")
}

// shortenLines shortens a text of several lines to n characters.
func shortenLines(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
