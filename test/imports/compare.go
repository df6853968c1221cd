package imports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// prediction is the predicted result of an import.
type prediction struct {
	module  string
	outcome Outcome // OK, Failed or Signal
	typ     string
	text    string
	doubt   string   // why the failure is not certain, or ""
	mapped  []string // real paths, in order, without those of the start
	modules []string // that were imported, in the order of their beginning
	unknown []string // what could not be followed
	tree    *pyimport.Node
}

// verdict is the comparison of a record and a prediction.
type verdict struct {
	rec  *Record
	pred *prediction
	want []string // mapped really, without those of the start

	outcome, text bool // equal
	falseAlarm    bool // a certain failure of what imports
	set, order    bool // of mapped files: equal
	cause         string
}

// compare compares what happened with what was predicted.
func compare(rec *Record, pred *prediction, base *Record) *verdict {
	pred.mapped = without(pred.mapped, base.Mapped) // what .pth files map is in both
	v := &verdict{rec: rec, pred: pred, want: without(rec.Mapped, base.Mapped)}
	really := rec.Outcome
	if really == Exit {
		really = Failed
	}
	v.outcome = really == pred.outcome
	v.text = v.outcome && (really != Failed || rec.Type == pred.typ && rec.Text == pred.text)
	v.falseAlarm = really == OK && pred.outcome != OK && pred.doubt == ""
	v.order = slices.Equal(v.want, pred.mapped)
	v.set = slices.Equal(slices.Sorted(slices.Values(v.want)), slices.Sorted(slices.Values(pred.mapped)))
	if really == Signal { // what it had mapped is not known
		v.set, v.order = v.outcome, v.outcome
	}
	v.cause = v.likely(base)
	return v
}

// likely returns the likely cause of a difference: the first module in which the two lists
// of modules differ, or the first mapped file.
func (v *verdict) likely(base *Record) string {
	if v.outcome && v.text && v.set {
		return ""
	}
	if len(v.rec.Modules) == 0 && v.rec.Outcome != OK {
		return fmt.Sprintf("the process ended: %s", v.rec.Outcome)
	}
	really := slices.DeleteFunc(without(v.rec.Modules, base.Modules), func(m string) bool { return !v.rec.looked(m) })
	if m := v.firstMissed(); m != "" {
		return "not predicted: import of " + m + " (" + v.importer(m, really) + ")"
	}
	for _, m := range really {
		if !slices.Contains(v.pred.modules, m) {
			return "not predicted: import of " + m + " (" + v.importer(m, really) + ")"
		}
	}
	if v.rec.Outcome == OK { // a failed import takes its modules away again
		for _, m := range v.pred.modules {
			if slices.Contains(base.Modules, m) {
				continue
			}
			if !slices.Contains(v.rec.Modules, m) {
				return "not true: import of " + m
			}
		}
	}
	for _, f := range v.want {
		if !slices.Contains(v.pred.mapped, f) {
			return "not predicted: file " + f
		}
	}
	for _, f := range v.pred.mapped {
		if !slices.Contains(v.want, f) {
			return "not true: file " + f
		}
	}
	if !v.outcome || !v.text {
		return fmt.Sprintf("another end: %s %s, at %v", v.rec.Type, firstLine(v.rec.Text), lastFrame(v.rec))
	}
	return "order"
}

// firstMissed returns the import that leads to the first file that was not predicted: by a
// module that was. It is "" if that is not recorded.
func (v *verdict) firstMissed() string {
	missed := without(v.want, v.pred.mapped)
	for _, e := range v.rec.Edges {
		if len(missed) == 0 || v.rec.Origins[e[0]] != missed[0] {
			continue
		}
		m := e[0]
		for range len(v.rec.Edges) {
			by := v.moduleOf(v.importer(m, nil))
			if by == "" || by == m || slices.Contains(v.pred.modules, by) {
				break
			}
			m = by
		}
		return m
	}
	return ""
}

// moduleOf returns the module of an importer: of a file and line, or of the name of an
// extension module.
func (v *verdict) moduleOf(by string) string {
	by = strings.TrimPrefix(by, "by ")
	if name, ok := strings.CutPrefix(by, "EXT "); ok {
		name, _, _ = strings.Cut(name, " ")
		return name
	}
	file := by[:max(strings.LastIndexByte(by, ':'), 0)]
	for _, m := range v.rec.Modules {
		if v.rec.Origins[m] == file && file != "" {
			return m
		}
	}
	return ""
}

// importer returns the module that begins before m, and how it is loaded: most likely it, or
// one that it began, imports m.
func (v *verdict) importer(m string, really []string) string {
	for _, e := range v.rec.Edges {
		if e[0] == m {
			return "by " + e[1]
		}
	}
	i := slices.Index(really, m)
	if i <= 0 {
		return "the first"
	}
	before := really[i-1]
	how := "source"
	if o := v.rec.Origins[before]; strings.HasSuffix(o, ".so") {
		how = "extension"
	}
	return "after the " + how + " " + before
}

func lastFrame(r *Record) string {
	if len(r.Frames) == 0 {
		return ""
	}
	f := r.Frames[len(r.Frames)-1]
	return fmt.Sprintf("%v:%v", f[0], f[1])
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// tally counts verdicts.
type tally struct {
	modules, outcome, text, falseAlarms, missed, set, order int
	failed                                                  int // really
	mapped                                                  int // modules that map a file
	mappedSet                                               int // those of them with equal sets
}

func count(list []*verdict) tally {
	var t tally
	add := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for _, v := range list {
		t.modules++
		add(&t.failed, v.rec.Outcome != OK)
		add(&t.outcome, v.outcome)
		add(&t.text, v.text)
		add(&t.falseAlarms, v.falseAlarm)
		add(&t.missed, v.rec.Outcome != OK && v.pred.outcome == OK)
		add(&t.set, v.set)
		add(&t.order, v.order)
		add(&t.mapped, len(v.want) > 0)
		add(&t.mappedSet, len(v.want) > 0 && v.set)
	}
	return t
}

func (t tally) write(w io.Writer) {
	row := func(what string, n, of int) {
		share := 100.0
		if of > 0 {
			share = 100 * float64(n) / float64(of)
		}
		fmt.Fprintf(w, "%-44s %5d of %5d  %6.2f %%\n", what, n, of, share)
	}
	row("outcome equal", t.outcome, t.modules)
	row("outcome and text equal", t.text, t.modules)
	row("false failures", t.falseAlarms, t.modules)
	row("missed failures", t.missed, t.failed)
	row("mapped files equal", t.set, t.modules)
	row("mapped files equal, in order", t.order, t.modules)
	row("mapped files equal, of modules that map some", t.mappedSet, t.mapped)
}

// writeCauses prints the differences, grouped by likely cause, the most frequent first.
func writeCauses(w io.Writer, list []*verdict, most int) {
	for _, v := range list {
		if v.falseAlarm {
			fmt.Fprintf(w, "\nFALSE FAILURE (%s)\n", v.cause)
			v.write(w)
		}
	}
	groups := map[string][]*verdict{}
	for _, v := range list {
		if v.cause != "" {
			groups[v.cause] = append(groups[v.cause], v)
		}
	}
	causes := slices.Collect(maps.Keys(groups))
	slices.SortFunc(causes, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(groups[b]), len(groups[a])), cmp.Compare(a, b))
	})
	for _, c := range causes[:min(len(causes), most)] {
		fmt.Fprintf(w, "\n%d: %s\n", len(groups[c]), c)
		some := groups[c][:min(len(groups[c]), 3)]
		for _, v := range some {
			v.write(w)
		}
		for _, v := range groups[c][len(some):] {
			fmt.Fprintf(w, "  also %s\n", v.rec.Module)
		}
	}
}

func (v *verdict) write(w io.Writer) {
	fmt.Fprintf(w, "  %s: really %s", v.rec.Module, v.rec.Outcome)
	if v.rec.Outcome != OK {
		fmt.Fprintf(w, " %s: %s (%s)", v.rec.Type, firstLine(v.rec.Text), lastFrame(v.rec))
	}
	if !v.text {
		fmt.Fprintf(w, "; predicted %s %s: %s", v.pred.outcome, v.pred.typ, v.pred.text)
		if v.pred.doubt != "" {
			fmt.Fprintf(w, " (doubt: %s)", v.pred.doubt)
		}
	}
	fmt.Fprintln(w)
	some := func(what string, list []string) {
		if len(list) > 0 {
			fmt.Fprintf(w, "    %s %d: %s\n", what, len(list), strings.Join(bases(list[:min(len(list), 6)]), " "))
		}
	}
	some("mapped, not predicted", without(v.want, v.pred.mapped))
	some("predicted, not mapped", without(v.pred.mapped, v.want))
	for _, u := range v.pred.unknown[:min(len(v.pred.unknown), 3)] {
		fmt.Fprintf(w, "    unknown: %s\n", u)
	}
}

func bases(list []string) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = path.Base(p)
	}
	return out
}
