// Package targets judges on which GPUs and with which drivers the GPU code of an image runs.
//
// It lists the GPU code of files ([Files]) as gpucode read it, says which of a container's
// entries a driver takes ([Tables.Choose]), how a [Machine] uses the code of a file
// ([Tables.Fit]), and what fails in a process without it ([Tables.Judge], [Tables.Rows]). Its
// knowledge about GPUs, drivers and libraries is data (rules/targets). It does not know which
// files a process loads: the caller has that from the replay.
package targets

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Counts are numbers of entries by the name of their architecture: 75, 90a, 100f.
type Counts map[string]int

// Entries are the entries of a part of a file.
type Entries struct {
	SASS Counts `json:"sass"`
	PTX  Counts `json:"ptx"`
}

// File is the GPU code of one file, as `imgcheck gpus --files` shows it.
type File struct {
	Path string `json:"path"`
	// Entries are those that cuobjdump lists: those of .nv_fatbin, or of a loose cubin
	// or fatbin.
	Entries
	// Relocatable are the entries of __nv_relfatbin, Other those of other sections, in
	// which cuobjdump does not look, or of a section that is not known.
	Relocatable *Entries `json:"relocatable,omitempty"`
	Other       *Entries `json:"other,omitempty"`
	IR          Counts   `json:"ir,omitempty"` // LTO IR, of all sections
	// Unknown are entries of other kinds, by the number of the kind.
	Unknown Counts `json:"unknown,omitempty"`
	// Stripped are entries whose code `imgcheck slim --gpu` has overwritten with zeros.
	Stripped   Counts   `json:"stripped,omitempty"`
	Containers int      `json:"containers"`
	Zstd       int      `json:"zstd,omitempty"` // entries that are compressed with zstd
	PTXISA     []string `json:"ptx_isa,omitempty"`
	// Form is cubin or fatbin for a file that is GPU code.
	Form string `json:"form,omitempty"`
	// Compiles are the targets of a compiler: of ptxas and NVRTC.
	Compiles []string `json:"compiles,omitempty"`
	// Claims are the architectures that PyTorch says it was built for:
	// torch.cuda.get_arch_list() returns them.
	Claims []string `json:"claims,omitempty"`
	// Resource is the architecture for which the file has TensorRT's kernels, by its name.
	Resource string `json:"resource,omitempty"`
	// Partial is the reason why the file may have more code.
	Partial string `json:"partial,omitempty"`
}

// Files returns the files of an image that carry GPU code, in the order of their paths.
func Files(fsys *layers.FS) []*File {
	var list []*File
	for e := range fsys.All() {
		if e.Type != layers.Regular {
			continue
		}
		name := gpucode.Resource(path.Base(e.Path))
		code := e.GPU()
		if code == nil && name == "" {
			continue
		}
		f := file("/"+e.Path, code)
		f.Resource = name
		list = append(list, f)
	}
	return list
}

// file returns the code of one file, nil for none.
func file(name string, code *gpucode.Code) *File {
	f := &File{Path: name, Entries: Entries{Counts{}, Counts{}}}
	if code == nil {
		return f
	}
	f.Compiles, f.Claims, f.Partial = code.Compiles, code.Claims, code.Partial
	switch code.Form {
	case gpucode.Cubin:
		f.Form = "cubin"
	case gpucode.Fatbin:
		f.Form = "fatbin"
	}
	isa := map[gpucode.ISA]bool{}
	for _, g := range code.Groups {
		f.Containers += int(g.Containers)
		times := max(1, int(g.Containers)) // a cubin has none
		part := f.part(g.Section)
		for _, e := range g.Entries {
			n := times * int(e.Count)
			if e.IsStripped() {
				count(&f.Stripped, e.Was().Name(), n)
				continue
			}
			if e.Flags&gpucode.Zstd != 0 {
				f.Zstd += n
			}
			switch e.Kind {
			case gpucode.SASS:
				part.SASS[e.Name()] += n
			case gpucode.PTX:
				part.PTX[e.Name()] += n
				isa[e.ISA] = true
			case gpucode.IR:
				count(&f.IR, e.Name(), n)
			default:
				count(&f.Unknown, fmt.Sprint(e.Kind), n)
			}
		}
	}
	for _, v := range slices.Sorted(maps.Keys(isa)) {
		f.PTXISA = append(f.PTXISA, v.String())
	}
	return f
}

func count(c *Counts, name string, n int) {
	if *c == nil {
		*c = Counts{}
	}
	(*c)[name] += n
}

// part returns the entries to which a section's belong.
func (f *File) part(section string) *Entries {
	part := &f.Other
	switch {
	case section == gpucode.FatbinSection || f.Form != "":
		return &f.Entries
	case section == gpucode.RelocatableSection:
		part = &f.Relocatable
	}
	if *part == nil {
		*part = &Entries{Counts{}, Counts{}}
	}
	return *part
}

// FilesJSON writes one object a line.
func FilesJSON(w io.Writer, list []*File) error {
	for _, f := range list {
		if err := plain.JSON(w, f, ""); err != nil {
			return err
		}
	}
	return nil
}

// FilesText writes the files for people: the architectures of each kind of code, with the
// numbers of their entries.
func FilesText(w io.Writer, list []*File) error {
	var b strings.Builder
	for _, f := range list {
		f.text(&b)
	}
	if len(list) == 0 {
		b.WriteString("No file of the image carries GPU code.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *File) text(b *strings.Builder) {
	b.WriteString(plain.Name(f.Path))
	switch {
	case f.Form != "":
		fmt.Fprintf(b, " (%s)", f.Form)
	case f.Containers == 1:
		b.WriteString(" (1 container)")
	case f.Containers > 1:
		fmt.Fprintf(b, " (%d containers)", f.Containers)
	}
	b.WriteByte('\n')
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(b, "  %-16s %s\n", label, text)
		}
	}
	line("SASS", f.SASS.String())
	line("PTX", f.PTX.String())
	for _, part := range []struct {
		label string
		*Entries
	}{{"relocatable", f.Relocatable}, {"elsewhere", f.Other}} {
		if part.Entries != nil {
			line(part.label+" SASS", part.SASS.String())
			line(part.label+" PTX", part.PTX.String())
		}
	}
	line("LTO IR", f.IR.String())
	line("other kinds", f.Unknown.String())
	line("stripped", f.Stripped.String())
	line("PTX ISA", strings.Join(f.PTXISA, " "))
	if f.Zstd > 0 {
		line("zstd", fmt.Sprintf("%d entries", f.Zstd))
	}
	line("compiles for", strings.Join(f.Compiles, " "))
	line("PyTorch's list", strings.Join(f.Claims, " "))
	line("TensorRT for", f.Resource)
	if f.Partial != "" {
		line("not all", plain.Line(f.Partial))
	}
}

// String returns the numbers by architecture, such as "75×3 90a×2"; a number of one is
// left out.
func (c Counts) String() string {
	var list []string
	for _, name := range slices.SortedFunc(maps.Keys(c), gpucode.CompareNames) {
		if n := c[name]; n > 1 {
			name = fmt.Sprintf("%s×%d", name, n)
		}
		list = append(list, name)
	}
	return strings.Join(list, " ")
}
