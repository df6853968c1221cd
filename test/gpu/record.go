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

// ReadReport takes what imgcheck says out of its JSON.
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

// Recorded is the record of the machine.
func Recorded() (*Record, error) {
	r := &Record{}
	return r, json.Unmarshal(recordJSON, r)
}

// Mapped are the files that the recorded programs had mapped on the unbroken machine,
// sorted.
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

// Table is a record as people read it, in Markdown: a row for each program that
// something is told of.
func (p *Plan) Table(r *Record) string {
	var b strings.Builder
	b.WriteString("| what was done | program | what the real process did | what imgcheck says |\n|---|---|---|---|\n")
	for _, f := range r.Faults {
		p.rows(&b, f.Name, f.Programs, f.Said)
	}
	return b.String()
}

// rows are those of one fault: for each program the first thing that failed, and the
// first that was foretold; then what is not so.
func (p *Plan) rows(b *strings.Builder, name string, programs map[string]*Outcome, said *Said) {
	verdicts, about := p.Judge(programs, said)
	var works []string
	for _, program := range slices.Sorted(maps.Keys(programs)) {
		o := programs[program]
		var real, foretold, wrong []string
		for _, v := range verdicts {
			if v.Program != program {
				continue
			}
			if v.Real != "" {
				real = append(real, v.Step+": "+firstLine(v.Real))
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

// CureTable is what imgcheck patched, as people read it, in Markdown.
func CureTable(r *Record) string {
	var b strings.Builder
	b.WriteString("| what was done | the plan of `imgcheck patch` | what the real programs did then |\n|---|---|---|\n")
	for _, c := range r.Cures {
		var changes, fails []string
		change := false // a line of what is changed, or one that goes on with it
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

// cell is a text as a Markdown table takes it.
func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "\n", " "), "|", `\|`) }

// firstLine is a text without what follows its first line.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
