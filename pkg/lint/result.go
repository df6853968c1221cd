package lint

import (
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Result holds the findings about an image, and the facts about it that reports show.
type Result struct {
	Findings []Finding `json:"findings"`
	// Inventory lists the installed packages.
	Inventory *inventory.Inventory `json:"inventory,omitempty"`
	// Copies are the GPU libraries of the image, by name, with the processes that load
	// each file.
	Copies []Copies `json:"copies,omitempty"`
	// Processes are those of the frameworks and of the programs that use GPU libraries,
	// with the files that each loads in the replay.
	Processes []Process `json:"processes,omitempty"`
	Stats     Stats     `json:"stats"`
}

// Stats counts what was examined.
type Stats struct {
	Files      int      `json:"files"`
	ELF        int      `json:"elf_files"`
	Static     int      `json:"static_files,omitempty"` // ELF files that no dynamic loader loads
	Packages   int      `json:"packages,omitempty"`     // wheels, conda, deb, apk and rpm packages
	Frameworks []string `json:"frameworks,omitempty"`   // "PyTorch at /opt/venv/…/torch"
	Loaders    []string `json:"loaders,omitempty"`      // "/lib64/ld-linux-x86-64.so.2 (glibc 2.36)"
}

// Worst returns the highest severity among the findings, or "" if there are none.
func (r *Result) Worst() packs.Severity {
	if len(r.Findings) == 0 {
		return ""
	}
	worst := packs.Note
	for _, f := range r.Findings {
		if f.Severity.AtLeast(worst) {
			worst = f.Severity
		}
	}
	return worst
}

// newResult returns the result with the findings about an image.
func newResult(pass *Pass, findings []Finding) *Result {
	return &Result{
		Findings: findings, Inventory: pass.Inventory,
		Copies: copies(pass), Processes: processes(pass), Stats: stats(pass),
	}
}

// stats returns the counts of what was examined.
func stats(pass *Pass) Stats {
	s := Stats{Files: pass.Files.Count, ELF: pass.Files.ELF, Static: pass.Files.Static, Packages: len(pass.Inventory.Packages)}
	for _, in := range pass.Evidence.Installs {
		s.Frameworks = append(s.Frameworks, fmt.Sprintf("%s at %s", in.Title, in.Home))
	}
	for interp, l := range pass.Loaders.All {
		if l != nil {
			s.Loaders = append(s.Loaders, interp+replay.DescribeLibc(l.Libc))
		}
	}
	slices.Sort(s.Loaders)
	slices.Sort(s.Frameworks)
	return s
}
