package targets

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Row is the verdict on an image for the GPUs of one architecture: by the files that its
// processes load, or by every file if no process that could be followed loads GPU code.
type Row struct {
	Arch     string   `json:"arch"` // 8.9
	Products []string `json:"products"`
	// Verdict is runs, compiles (PTX is compiled at its first use), partly (some of the code
	// is missing), unsure or fails.
	Verdict string `json:"verdict"`
	// Failures are the files that fail, each with the driver's error and what a process says.
	Failures []Failure `json:"failures,omitempty"`
	// Each list has the paths of files that processes load.
	Runs     []string `json:"runs,omitempty"`     // machine code for the GPU
	Compiles []string `json:"compiles,omitempty"` // PTX in some containers, which the driver compiles
	Unsure   []string `json:"unsure,omitempty"`   // code that perhaps runs, or a file that was not read whole
	// Partly are files with containers that serve other GPUs of several generations and
	// not this one, with the number of these.
	Partly []Sparse `json:"partly,omitempty"`
	// Driver is the first driver that serves the image on these GPUs, by the CUDA runtime
	// that it loads, by PTX and by compression, and Why the fact that decides; empty if
	// nothing does.
	Driver string `json:"driver,omitempty"`
	Why    string `json:"why,omitempty"`
	// Unloaded are further files of the image without code for these GPUs: no process that
	// could be followed loads them.
	Unloaded []string `json:"unloaded,omitempty"`
}

// Failure is a file that fails on a GPU.
type Failure struct {
	Path  string `json:"path"`
	Error string `json:"error"` // the driver's
	// Effects say what fails in the image's processes, and Texts what users read there.
	Effects []string `json:"effects,omitempty"`
	Texts   []string `json:"texts,omitempty"`
}

// Sparse is a file that lacks a GPU's code in some containers.
type Sparse struct {
	Path       string `json:"path"`
	Containers int    `json:"containers"`
	Of         int    `json:"of"`
}

// The verdicts of rows beside those of [Outcome].
const (
	rowFails  = "fails"
	rowPartly = string(FitsPartly)
)

// Rows returns a row for each known architecture, or nil if no file has GPU code. processes
// are those of the image that load GPU code: those that are certain to run, else all, and
// without any all files count.
func (t *Tables) Rows(fsys *layers.FS, processes []Process, s Settings) []*Row {
	loaded := map[string]bool{}
	if certain := slices.DeleteFunc(slices.Clone(processes), func(p Process) bool { return p.Perhaps }); len(certain) > 0 {
		processes = certain
	}
	for _, p := range processes {
		for _, f := range p.Files {
			loaded[f] = true
		}
	}
	rest := Process{}
	for e := range fsys.All() {
		if name := "/" + e.Path; e.Type == layers.Regular && e.GPU() != nil && !loaded[name] {
			rest.Files = append(rest.Files, name)
		}
	}
	if len(loaded) == 0 {
		processes, rest = []Process{rest}, Process{}
	}
	var rows []*Row
	for _, a := range t.Architectures {
		m := Machine{Arch: a.Arch}
		judged := t.Judge(fsys, processes, m, s)
		if len(judged) == 0 {
			return nil
		}
		r := t.row(a, processes, judged)
		for _, j := range t.Judge(fsys, []Process{rest}, m, s) {
			if j.Outcome.Fails() {
				r.Unloaded = append(r.Unloaded, j.Path)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// row returns the verdict on judged files.
func (t *Tables) row(a *Architecture, processes []Process, judged []*Judged) *Row {
	r := &Row{Arch: fmt.Sprintf("%d.%d", a.Arch/10, a.Arch%10), Products: a.Products, Verdict: string(Fits)}
	for _, p := range processes {
		r.raise(t.RuntimeDriver(p.CUDA), "CUDA "+p.CUDA+"'s runtime")
	}
	for _, j := range judged {
		switch {
		case j.Outcome.Fails():
			r.fail(j, t.Text(j.Outcome))
			switch j.Weight {
			case Certain:
				r.atLeast(rowFails)
			case Some:
				r.atLeast(rowPartly)
			}
		case j.Outcome == FitsPartly:
			r.Partly = append(r.Partly, Sparse{j.Path, j.Lack, j.Containers})
			r.atLeast(rowPartly)
		case j.Outcome == Unsure:
			r.Unsure = append(r.Unsure, j.Path)
			r.atLeast(string(Unsure))
		case j.Outcome == FitsByJIT:
			r.Compiles = append(r.Compiles, j.Path)
			r.atLeast(string(FitsByJIT))
		default:
			r.Runs = append(r.Runs, j.Path)
		}
		r.raise(j.Driver, path.Base(j.Path)+": "+j.Why)
	}
	return r
}

func (r *Row) fail(j *Judged, text string) {
	f := Failure{Path: j.Path, Error: text}
	for _, e := range j.Effects {
		f.Effects, f.Texts = append(f.Effects, e.Effect), append(f.Texts, e.Error)
	}
	r.Failures = append(r.Failures, f)
}

// atLeast makes a verdict worse.
func (r *Row) atLeast(verdict string) {
	order := []string{string(Fits), string(FitsByJIT), rowPartly, string(Unsure), rowFails}
	if slices.Index(order, verdict) > slices.Index(order, r.Verdict) {
		r.Verdict = verdict
	}
}

// raise raises the driver that the row needs.
func (r *Row) raise(driver, why string) {
	if newer(driver, r.Driver) {
		r.Driver, r.Why = driver, why
	}
}

// launched reports whether entries have code that a driver launches. A container with LTO IR
// is linked by a library first, also where it has PTX and machine code beside it: with those
// of cuSPARSE alone, an H200 could not initialize it.
func launched(entries []gpucode.Entry) bool {
	for _, e := range entries {
		if e.Kind == gpucode.IR {
			return false
		}
	}
	return len(entries) > 0
}

// majors returns the number of generations for which entries have machine code or PTX.
func majors(entries []gpucode.Entry) int {
	seen := map[uint32]bool{}
	for _, e := range entries {
		if e.Kind != gpucode.IR {
			seen[e.Arch/10] = true
		}
	}
	return len(seen)
}

// maxListed limits the files below the table for people.
const maxListed = 10

// RowsText writes the table for people: the verdict for each GPU, the driver from which on it
// holds, and below it the files that fail, those first that fail for the fewest GPUs.
func RowsText(w io.Writer, rows []*Row) error {
	if rows == nil {
		_, err := io.WriteString(w, "No library or program of the image carries GPU code.\n")
		return err
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GPU\t\tverdict\tfrom driver")
	for _, r := range rows {
		driver := ""
		if r.Driver != "" && r.Verdict != rowFails {
			driver = fmt.Sprintf("%s (%s)", r.Driver, plain.Line(r.Why))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Arch, strings.Join(r.Products, ", "), r.summary(), driver)
	}
	t.Flush() // to a strings.Builder, which never fails
	writeFailures(&b, rows)
	text := strings.Split(b.String(), "\n")
	for i := range text {
		text[i] = strings.TrimRight(text[i], " ")
	}
	_, err := io.WriteString(w, strings.Join(text, "\n"))
	return err
}

// summary returns the verdict with the number of files that decide it.
func (r *Row) summary() string {
	count := func(n int, what string) string {
		if n == 1 {
			return "1 file " + what
		}
		return fmt.Sprintf("%d files %s", n, what)
	}
	switch r.Verdict {
	case rowFails:
		return "fails: " + count(len(r.Failures), "without usable code")
	case rowPartly:
		return "runs in part: " + count(len(r.Partly)+len(r.Failures), "without some of the code")
	case string(Unsure):
		return "unsure: " + count(len(r.Unsure), "whose code perhaps runs")
	case string(FitsByJIT):
		return "runs, compiles " + count(len(r.Compiles), "at first use")
	}
	return "runs"
}

// writeFailures lists the files that fail, with the architectures for which they do.
func writeFailures(b *strings.Builder, rows []*Row) {
	on, says := map[string][]string{}, map[string]string{}
	for _, r := range rows {
		for _, f := range r.Failures {
			on[f.Path] = append(on[f.Path], r.Arch)
			if says[f.Path] == "" && len(f.Effects) > 0 {
				says[f.Path] = f.Effects[0] + ": " + f.Texts[0]
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(on), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(on[x]), len(on[y])), strings.Compare(x, y))
	})
	for i, name := range names {
		if i == maxListed {
			fmt.Fprintf(b, "\nand %d more (--format json lists them)\n", len(names)-maxListed)
			return
		}
		fmt.Fprintf(b, "\n%s fails on %s\n", plain.Name(name), strings.Join(on[name], " "))
		if says[name] != "" {
			fmt.Fprintf(b, "  %s\n", plain.Line(says[name]))
		}
	}
}
