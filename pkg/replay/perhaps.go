package replay

import (
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// perhaps returns the imports of installed packages that the programs of the image's start
// import under a condition that is not known, and that fail there: such a package may be
// broken whatever the condition is, which its import alone shows.
func (st *starter) perhaps(starts []*Start) []job {
	var list []job
	seen := map[string]bool{}
	for _, s := range starts {
		if s.Package != "" {
			seen[s.Python+" "+s.Package] = true
		}
	}
	for _, s := range starts {
		if s.Package != "" || s.Node || s.Tree == nil {
			continue
		}
		failingPerhaps(s.Tree, false, func(n *pyimport.Node) {
			_, pkg, _ := st.re.packages.OwnerOf(RealPath(st.re.img.FS, n.File))
			if pkg == nil || seen[s.Python+" "+pkg.Name] || len(list) == maxPerhaps {
				return
			}
			seen[s.Python+" "+pkg.Name] = true
			list = append(list, st.importOf(&Start{Python: s.Python, Package: pkg.Name, Asked: pkg.Asked, Certain: true}, n.Name))
		})
	}
	return list
}

// maxPerhaps limits the imports of packages that a condition may lead to.
const maxPerhaps = 16

// failingPerhaps calls f for the imports of packages that are found, that fail and that nothing
// catches, below a condition that is not known.
func failingPerhaps(n *pyimport.Node, maybe bool, f func(*pyimport.Node)) {
	for _, below := range n.Nodes {
		if below.Caught != "" {
			continue
		}
		perhaps := maybe || below.Maybe != ""
		if perhaps && below.Kind == pyimport.Module && below.File != "" && below.Failed != nil && below.Failed.Doubt == "" && !strings.Contains(below.Name, ".") {
			f(below)
			continue
		}
		failingPerhaps(below, perhaps, f)
	}
}
