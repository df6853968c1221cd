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
	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Row lists the files of an image by the code that they have for the GPUs of one
// architecture. It has every file, since it is not known here which ones a program loads.
type Row struct {
	Arch     string   `json:"arch"` // 8.9
	Products []string `json:"products"`
	// Each list has the paths of files. A file of which only some containers serve is in Runs
	// or Compiles and in Sparse.
	Runs     []string `json:"runs,omitempty"`     // machine code for the GPU
	Compiles []string `json:"compiles,omitempty"` // PTX alone, which the driver compiles at its first use
	Doubtful []string `json:"doubtful,omitempty"` // code that perhaps runs, or a file that was not read whole
	Lacks    []string `json:"lacks,omitempty"`    // no code
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
		r.Lacks = append(r.Lacks, name)
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
		if version.ParseRelease(driver).Compare(version.ParseRelease(r.Driver)) > 0 {
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

// maxListed limits the files below the table for people.
const maxListed = 10

// RowsText writes the table for people: the number of files with and without code for each
// GPU, and below it the files without, those first that lack it for the fewest GPUs.
func RowsText(w io.Writer, rows []*Row) error {
	if rows == nil {
		_, err := io.WriteString(w, "No library or program of the image carries GPU code.\n")
		return err
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GPU\t\tcode\tPTX only\tunsure\tnone\tfrom driver")
	lacks := map[string][]string{}
	for _, r := range rows {
		driver := ""
		if r.Driver != "" {
			driver = fmt.Sprintf("%s (%s)", r.Driver, plain.Line(r.Why))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", r.Arch, strings.Join(r.Products, ", "), len(r.Runs), len(r.Compiles), len(r.Doubtful), len(r.Lacks), driver)
		for _, name := range r.Lacks {
			lacks[name] = append(lacks[name], r.Arch)
		}
	}
	t.Flush() // to a strings.Builder, which never fails
	names := slices.SortedFunc(maps.Keys(lacks), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(lacks[x]), len(lacks[y])), strings.Compare(x, y))
	})
	if len(names) > 0 {
		fmt.Fprintf(&b, "\nfiles without code for a GPU (%s, if a program uses them there):\n", NoImage)
	}
	for i, name := range names {
		if i == maxListed {
			fmt.Fprintf(&b, "  and %d more (--format json lists them)\n", len(names)-maxListed)
			break
		}
		fmt.Fprintf(&b, "  %s: %s\n", plain.Name(name), strings.Join(lacks[name], " "))
	}
	text := strings.Split(b.String(), "\n")
	for i := range text {
		text[i] = strings.TrimRight(text[i], " ")
	}
	_, err := io.WriteString(w, strings.Join(text, "\n"))
	return err
}
