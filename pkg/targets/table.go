package targets

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Row is what the files of an image have for the GPUs of one architecture. It counts
// every file, since it is not known here which ones a program loads.
type Row struct {
	Arch     string   `json:"arch"` // 8.9
	Products []string `json:"products"`
	// Verdicts of files, by their paths. A file of which some containers only serve is
	// in Runs or Compiles and in Sparse.
	Runs     []string `json:"runs,omitempty"`
	Compiles []string `json:"compiles,omitempty"` // at their first use, from PTX
	Doubtful []string `json:"doubtful,omitempty"`
	Fails    []string `json:"fails,omitempty"`
	// Sparse are files with containers that serve other GPUs of several generations and
	// not this one, with the number of these.
	Sparse []Sparse `json:"sparse,omitempty"`
	// Driver is the first driver that can use the code that these GPUs get, as far as PTX
	// and compression decide it, and Why the file and fact that decide; empty if nothing does.
	Driver string `json:"driver,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Sparse is a file that lacks a GPU's code in some containers.
type Sparse struct {
	Path       string `json:"path"`
	Containers int    `json:"containers"`
	Of         int    `json:"of"`
}

// NoImage is the driver's error for code that has no entry for the GPU,
// cudaErrorNoKernelImageForDevice.
const NoImage = "no kernel image is available for execution on the device"

// Rows returns a row for each known architecture, or nil if no file has GPU code.
func (t *Tables) Rows(fsys *layers.FS) []*Row {
	var rows []*Row
	for _, a := range t.Architectures {
		r := &Row{Arch: fmt.Sprintf("%d.%d", a.Arch/10, a.Arch%10), Products: a.Products}
		any := false
		for e := range fsys.All() {
			if c := e.GPU(); e.Type == layers.Regular && c != nil {
				any = t.judge(r, "/"+e.Path, c, a.Arch) || any
			}
		}
		if !any {
			return nil
		}
		rows = append(rows, r)
	}
	return rows
}

// judge adds a file's verdict to a row. It reports whether the file has code that is
// launched. A cubin or fatbin by itself may be for another GPU on purpose, and gives no verdict.
func (t *Tables) judge(r *Row, name string, c *gpucode.Code, arch uint32) bool {
	if c.Form != gpucode.Sections {
		return false
	}
	uses := map[Use]int{}
	all, sparse := 0, 0
	for _, g := range c.Groups {
		if g.Section == gpucode.RelocatableSection || !launched(g.Entries) {
			continue
		}
		n := int(g.Containers)
		choice := t.Choose(g.Entries, arch)
		uses[choice.Use] += n
		if all += n; choice.Use == None && majors(g.Entries) > 1 {
			sparse += n
		}
		t.needs(r, name, choice)
	}
	switch {
	case all == 0:
		return false
	case uses[None] == all && c.Partial != "":
		r.Doubtful = append(r.Doubtful, name)
		return true
	case uses[None] == all:
		r.Fails = append(r.Fails, name)
		return true
	case uses[Doubtful] > 0:
		r.Doubtful = append(r.Doubtful, name)
	case uses[Compiles] > 0:
		r.Compiles = append(r.Compiles, name)
	default:
		r.Runs = append(r.Runs, name)
	}
	if sparse > 0 {
		r.Sparse = append(r.Sparse, Sparse{name, sparse, all})
	}
	return true
}

// launched reports whether entries have code that a driver launches: LTO IR alone is
// linked by a library first.
func launched(entries []gpucode.Entry) bool {
	for _, e := range entries {
		if e.Kind != gpucode.IR {
			return true
		}
	}
	return false
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

// needs raises the row's driver to the one that a choice needs.
func (t *Tables) needs(r *Row, name string, c Choice) {
	raise := func(driver, why string) {
		if newer(driver, r.Driver) {
			r.Driver, r.Why = driver, path.Base(name)+": "+why
		}
	}
	if c.Use == Compiles && c.Entry.ISA != 0 {
		if n, ok := t.PTXDriver(c.Entry.ISA); ok {
			raise(fmt.Sprint(n), "PTX "+c.Entry.ISA.String())
		}
	}
	for _, f := range t.Features {
		if f.ID == "zstd" && c.Use != None && c.Entry.Flags&gpucode.Zstd != 0 {
			raise(f.Driver, "code that is compressed with zstd")
		}
	}
}

// newer reports whether one version of the driver is above another, by their numbers.
func newer(a, b string) bool {
	var x, y [3]int
	fmt.Sscanf(a, "%d.%d.%d", &x[0], &x[1], &x[2])
	fmt.Sscanf(b, "%d.%d.%d", &y[0], &y[1], &y[2])
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return false
}

// RowsText writes the table for people.
func RowsText(w io.Writer, rows []*Row) error {
	var b strings.Builder
	if rows == nil {
		b.WriteString("No library or program of the image carries GPU code.\n")
	}
	for _, r := range rows {
		r.text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Row) text(b *strings.Builder) {
	fmt.Fprintf(b, "%-4s %-18s ", r.Arch, strings.Join(r.Products, ", "))
	var parts []string
	for _, p := range []struct {
		word  string
		files []string
	}{{"runs", r.Runs}, {"compiles at first use", r.Compiles}, {"perhaps runs", r.Doubtful}, {"fails", r.Fails}} {
		switch {
		case len(p.files) == 1:
			parts = append(parts, p.word+": 1 file")
		case len(p.files) > 1:
			parts = append(parts, fmt.Sprintf("%s: %d files", p.word, len(p.files)))
		}
	}
	b.WriteString(strings.Join(parts, ", "))
	if r.Driver != "" {
		fmt.Fprintf(b, "; from driver %s (%s)", r.Driver, plain.Line(r.Why))
	}
	b.WriteByte('\n')
	const most = 3
	for i, name := range r.Fails {
		if i == most {
			fmt.Fprintf(b, "       and %d more\n", len(r.Fails)-most)
			break
		}
		fmt.Fprintf(b, "       %s: %s\n", plain.Name(name), NoImage)
	}
	for i, s := range r.Sparse {
		if i == most {
			fmt.Fprintf(b, "       and %d more files with containers that lack it\n", len(r.Sparse)-most)
			break
		}
		fmt.Fprintf(b, "       %s: %d of %d containers have code for other generations only\n", plain.Name(s.Path), s.Containers, s.Of)
	}
}
