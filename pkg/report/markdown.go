package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// markdownLimit is below GitHub's limit for the summary of a step, 1 MiB:
// https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#adding-a-job-summary
const markdownLimit = 1000 << 10

// Markdown writes the document for a step summary or a comment: the problems, what resolves
// them, and notes, folded. Findings that exceed GitHub's limit are counted.
func Markdown(w io.Writer, d *Document, _ Options) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "## imgcheck: %s\n\n", code(d.Image.Ref))
	looked := plural(d.Stats.ELF, "ELF file")
	if len(d.Image.Layers) > 0 {
		looked += " in " + plural(len(d.Image.Layers), "layer")
	}
	v := verdict(d)
	switch {
	case v == "" && blind(d):
		v, looked = nothingJudged, looked+blindness(d, code)
	case v == "":
		v = found(d)
	}
	fmt.Fprintf(&b, "**%s**: %s", v, looked)
	if d.Summary.Notes > 0 {
		fmt.Fprintf(&b, "; %s", plural(d.Summary.Notes, "note"))
	}
	fmt.Fprint(&b, setApart(d))
	fmt.Fprint(&b, "\n")
	left := 0
	for _, s := range packs.Severities[:2] {
		for i := range d.Problems {
			if p := &d.Problems[i]; p.Severity == s && !fits(&b, markdownProblem(d, p)) {
				left += len(p.Findings)
			}
		}
	}
	if plan := markdownFix(d) + markdownPlan(d.Plan); plan != "" && !fits(&b, plan) {
		left++
	}
	if d.Summary.Notes > 0 {
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", plural(d.Summary.Notes, "note"))
		for i := range d.Findings {
			f := &d.Findings[i]
			if f.Severity == packs.Note && !fits(&b, fmt.Sprintf("- %s %s\n", code(f.Message), f.Rule)) {
				left++
			}
		}
		fmt.Fprint(&b, "\n</details>\n")
	}
	if len(d.Ignored) > 0 {
		fmt.Fprintf(&b, "\n<details><summary>%s ignored</summary>\n\n", count(len(d.Ignored)))
		for _, g := range d.Ignored {
			if !fits(&b, fmt.Sprintf("- %s %s: %s\n", code(g.Finding.Message), g.Finding.Rule, prose(g.Reason))) {
				left++
			}
		}
		fmt.Fprint(&b, "\n</details>\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n%s did not fit here: see the whole report.\n", plural(left, "finding"))
	}
	_, err := plain.NewWriter(w, false).Write(b.Bytes())
	return err
}

func fits(b *bytes.Buffer, text string) bool {
	if b.Len()+len(text) > markdownLimit {
		return false
	}
	b.WriteString(text)
	return true
}

// markdownProblem returns a problem under its headline: the finding that leads it, and the
// others folded.
func markdownProblem(d *Document, p *Problem) string {
	var b strings.Builder
	sign := map[packs.Severity]string{packs.Error: "❌", packs.Warning: "⚠️"}[p.Severity]
	first := lead(d.Findings, p.Findings)
	fmt.Fprintf(&b, "\n### %s %s\n\n%s", sign, prose(p.Headline), markdownFinding(d, first, p.Headline))
	if n := len(p.Findings) - 1; n > 0 {
		fmt.Fprintf(&b, "\n<details><summary>%s of this cause</summary>\n", plural(n, "more finding"))
		for _, i := range p.Findings {
			if f := &d.Findings[i]; f != first {
				b.WriteString("\n" + markdownFinding(d, f, p.Headline))
			}
		}
		b.WriteString("\n</details>\n")
	}
	return b.String()
}

// markdownFinding returns a finding without the message or the effect that is the headline.
func markdownFinding(d *Document, f *lint.Finding, headline string) string {
	var b strings.Builder
	if f.Message != headline {
		b.WriteString(code(f.Message) + " ")
	}
	fmt.Fprintf(&b, "%s\n\n", f.Rule)
	item := func(label, text string) { fmt.Fprintf(&b, "- **%s** %s\n", label, text) }
	if line := d.lineOf(f); line != nil {
		item("line", code(lineText(line)))
	}
	for _, s := range d.copiedFrom(f) {
		item("stage", code(sourceText(s)))
	}
	last := headline
	for _, e := range f.Effects {
		if e.Text != last {
			item("so", prose(e.Text))
		}
		last = e.Text
	}
	for i, n := range f.NeededBy {
		if i == shownNeeders {
			item("needed by", "… and "+count(len(f.NeededBy)-i)+" more")
			break
		}
		text := code(n.Path)
		if n.Layer != nil {
			text += ", from layer " + fmt.Sprint(n.Layer.Index)
			if n.Layer.CreatedBy != "" {
				text += ": " + code(shorten(n.Layer.CreatedBy, shownWidth))
			}
		}
		item("needed by", text)
	}
	if n := len(f.Affected); n > len(f.NeededBy) {
		item("affects", plural(n, "file"))
	}
	for _, p := range f.Present {
		item("present at", code(p.Path))
	}
	for _, r := range f.Removed {
		if r.By != nil {
			item("deleted", code(r.Path)+" by layer "+fmt.Sprint(r.By.Index)+": "+code(shorten(r.By.CreatedBy, shownWidth)))
		}
	}
	pasted := snippetFor(d, f) != nil
	if pasted {
		item("fix", "the lines below")
	}
	for i, x := range f.Fixes {
		if pasted {
			break
		}
		if i > 0 && strings.HasPrefix(x, "or ") {
			fmt.Fprintf(&b, "- %s\n", prose(x))
		} else {
			item("fix", prose(x))
		}
	}
	patch, tried := planned(d, f)
	if patch != "" {
		item("patch", prose(patch))
	}
	for _, x := range tried {
		item("tried", prose(x))
	}
	if f.Because != "" {
		item(string(f.Severity), "because "+prose(f.Because))
	}
	return b.String()
}

// markdownFix returns what resolves the problems, in blocks to copy.
func markdownFix(d *Document) string {
	var b strings.Builder
	for _, r := range pastes(d, shareOfAll) {
		if b.Len() == 0 {
			b.WriteString("\n### 🩹 fix\n")
		}
		says := r.word + r.says
		if rest, ok := strings.CutPrefix(says, "fix: "); ok {
			says = strings.ToUpper(rest[:1]) + rest[1:] // "this line …" or "these lines …"
		}
		fmt.Fprintf(&b, "\n%s\n\n%s\n", prose(says), block(r.language, r.lines))
	}
	return b.String()
}

// shareOfAll is share below all problems.
func shareOfAll(n, of int) string {
	if of == 1 && n == 1 {
		return "it"
	}
	return share(n, of) + " problems"
}

// markdownSnippet returns lines for the end of a Dockerfile as Markdown.
func markdownSnippet(lines []string) string {
	return "At the end of the Dockerfile:\n\n" + block("dockerfile", lines)
}

// markdownPlan returns the steps of a plan and what they resolve.
func markdownPlan(p *fix.Plan) string {
	if p == nil || len(p.Steps) == 0 {
		return ""
	}
	var b strings.Builder
	n, of := p.Resolved()
	fmt.Fprintf(&b, "\n<details><summary>the plan of imgcheck patch: it would resolve %d of %s</summary>\n\n", n, plural(of, "finding"))
	for _, text := range p.Texts() {
		fmt.Fprintf(&b, "- %s\n", prose(text))
	}
	for _, f := range p.Behind {
		fmt.Fprintf(&b, "\nThen this shows: %s\n", code(f.Message))
	}
	b.WriteString("\n</details>\n")
	return b.String()
}

// block returns lines in a fenced block, which pages let people copy. Nothing in the lines can
// end the block, as in code.
func block(language string, lines []string) string {
	s := strings.Join(cleaned(lines), "\n")
	fence := strings.Repeat("`", max(3, backticks(s)+1))
	return fence + language + "\n" + s + "\n" + fence
}

// backticks returns the length of the longest run of backticks in s.
func backticks(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// code returns text in a code span. Nothing in the text can end the span, because its
// fence is longer than any run of backticks (CommonMark 6.1).
func code(s string) string {
	s = clean(s)
	if strings.TrimSpace(s) == "" {
		return "` `"
	}
	longest := backticks(s)
	fence := strings.Repeat("`", longest+1)
	if longest > 0 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// prose returns text as Markdown that keeps its code spans and escapes other marks. Only single backticks
// make a span: of two and three others, CommonMark takes those for a span that have the same number.
func prose(s string) string {
	s = clean(s)
	parts := strings.Split(s, "`")
	if len(parts)%2 == 0 || strings.Contains(s, "``") {
		return plain.Markdown(strings.Join(parts, "'"))
	}
	for i := range parts {
		if i%2 == 0 {
			parts[i] = plain.Markdown(parts[i])
		}
	}
	return strings.Join(parts, "`")
}
