package gpu

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ReadReport reads a Said from imgcheck's JSON.
func ReadReport(b []byte) (*Said, error) {
	var report struct {
		Findings  []Finding `json:"findings"`
		Processes []struct {
			Title  string   `json:"title"`
			Mapped []string `json:"mapped"`
		} `json:"processes"`
	}
	if err := json.Unmarshal(b, &report); err != nil {
		return nil, err
	}
	s := &Said{Mapped: map[string][]string{}}
	s.Findings = report.Findings
	for _, p := range report.Processes {
		s.Mapped[p.Title] = p.Mapped
	}
	return s, nil
}

//go:embed testdata/record.json
var recordJSON []byte

// Recorded returns the record of the machine.
func Recorded() (*Record, error) {
	r := &Record{}
	return r, json.Unmarshal(recordJSON, r)
}

// Mapped returns the files that the recorded programs had mapped on the unbroken
// machine, sorted.
func Mapped() ([]string, error) {
	r, err := Recorded()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, o := range r.Faults[0].Programs {
		list = append(list, o.Mapped...)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Table returns a record as a table in Markdown, with a row for each fault and program
// with a failure or a finding.
func (p *Plan) Table(r *Record) string {
	var b strings.Builder
	b.WriteString("| what was done | program | what the real process did | what imgcheck says |\n|---|---|---|---|\n")
	for _, f := range r.Faults {
		p.rows(&b, f.Name, f.Programs, f.Said)
	}
	return b.String()
}

// rows writes the rows of one fault: for each program the failures, the findings that
// foretold them, and where the two differ; then the findings about no feature.
func (p *Plan) rows(b *strings.Builder, name string, programs map[string]*Outcome, said *Said) {
	verdicts, about := p.Judge(programs, said)
	var works []string
	for _, program := range slices.Sorted(maps.Keys(programs)) {
		o := programs[program]
		var real, foretold, wrong, order []string
		texts := map[string][]string{} // failure → its steps
		for _, v := range verdicts {
			if v.Program != program {
				continue
			}
			if v.Real != "" {
				text := firstLine(v.Real)
				if texts[text] == nil {
					order = append(order, text)
				}
				texts[text] = append(texts[text], v.Step)
			}
			for _, f := range v.Foretold {
				say := fmt.Sprintf("%s `%s`: %s", f.Finding.Severity, f.Finding.Rule, f.Effect.Text)
				if f.Effect.Error != "" {
					say += ": `" + f.Effect.Error + "`"
				}
				if !slices.Contains(foretold, say) {
					foretold = append(foretold, say)
				}
			}
			if !v.Agrees() {
				wrong = append(wrong, v.Step)
			}
			if len(v.Foretold) > 0 && v.Real != "" && !v.SaysText(o.Log+" "+o.End) {
				wrong = append(wrong, "text of "+v.Step)
			}
		}
		for _, text := range order {
			real = append(real, strings.Join(texts[text], ", ")+": "+text)
		}
		if o.End != "" {
			real = append(real, o.End)
		}
		if len(real)+len(foretold)+len(wrong) == 0 {
			works = append(works, program)
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s", name, program, cell(cmp.Or(strings.Join(real, "; "), "everything works")), cell(cmp.Or(strings.Join(foretold, "; "), "nothing")))
		if len(wrong) > 0 {
			fmt.Fprintf(b, " **differs: %s**", strings.Join(wrong, ", "))
		}
		b.WriteString(" |\n")
	}
	if len(works) > 0 {
		fmt.Fprintf(b, "| %s | %s | everything works | nothing |\n", name, strings.Join(works, ", "))
	}
	for _, f := range about {
		fmt.Fprintf(b, "| %s | | | %s `%s`: %s |\n", name, f.Severity, f.Rule, cell(f.Message))
	}
}

// PatchTable returns the recorded patches as a table in Markdown.
func PatchTable(r *Record) string {
	var b strings.Builder
	b.WriteString("| what was done | the plan of `imgcheck patch` | what the real programs did then |\n|---|---|---|\n")
	for _, c := range r.Patches {
		var changes, fails []string
		change := false // whether this line begins or continues a change
		for line := range strings.Lines(c.Plan) {
			word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			change = word == "change" || change && strings.HasPrefix(line, "             ") && !strings.HasPrefix(line, "              ")
			switch {
			case word == "change":
				changes = append(changes, strings.TrimSpace(rest))
			case change:
				changes = append(changes, strings.TrimSpace(line))
			}
		}
		for _, program := range slices.Sorted(maps.Keys(c.Programs)) {
			if step, text := c.Programs[program].First(); text != "" {
				fails = append(fails, program+", "+step+": "+firstLine(text))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Name, cell(strings.Join(changes, "; ")), cell(cmp.Or(strings.Join(fails, "; "), "everything works: "+strings.Join(slices.Sorted(maps.Keys(c.Programs)), ", "))))
	}
	return b.String()
}

// cell escapes a text for a Markdown table.
func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "\n", " "), "|", `\|`) }

// firstLine returns the first line of a text.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
