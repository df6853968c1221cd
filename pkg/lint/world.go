package lint

import (
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/replay"
)

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
