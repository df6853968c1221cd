package lint

import (
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Result is what a scan has found.
type Result struct {
	Findings []Finding `json:"findings"`
	// Inventory is what is installed.
	Inventory *inventory.Inventory `json:"inventory,omitempty"`
	// Copies are the GPU libraries of the image, by name, and who gets which file.
	Copies []Copies `json:"copies,omitempty"`
	// Processes are what the frameworks and the programs that use GPU libraries
	// load, as it is foretold.
	Processes []Process `json:"processes,omitempty"`
	Stats     Stats     `json:"stats"`
}

// Stats say what was looked at.
type Stats struct {
	Files      int      `json:"files"`
	ELF        int      `json:"elf_files"`
	Static     int      `json:"static_files,omitempty"` // ELF files that no dynamic loader loads
	Packages   int      `json:"packages,omitempty"`     // wheels, conda, deb, apk and rpm packages
	Frameworks []string `json:"frameworks,omitempty"`   // "PyTorch at /opt/venv/…/torch"
	Loaders    []string `json:"loaders,omitempty"`      // "/lib64/ld-linux-x86-64.so.2 (glibc 2.36)"
}

// Worst is the heaviest severity among the findings; empty when there are none.
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

// stats say what was looked at.
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
