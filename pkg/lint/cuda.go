package lint

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// wantedCUDA returns the major version of CUDA that a finding's library is wanted from, or
// "" if it is not known. It is the only version that has the library, or the first such
// version of: the other libraries that the asking files name, the process, the package, the
// variable of NVIDIA's images, the CUDA that is installed.
func wantedCUDA(pass *Pass, f *Finding, process string) string {
	has := pass.Packs.CudaOf(f.Library)
	if len(has) == 1 {
		return has[0]
	}
	fits := func(major string) bool { return major != "" && (len(has) == 0 || slices.Contains(has, major)) }
	candidates := append(cudaAsked(pass, f), process, cudaWanted(pass, f), pass.Config.CudaVariable())
	if i := slices.IndexFunc(candidates, fits); i >= 0 {
		return candidates[i]
	}
	if installed := pass.Packages.CudaInstalled(); fits(installed) {
		return installed
	}
	return ""
}

// cudaAsked returns the major version of CUDA of each file that asks for a finding's
// library, where the libraries that the file needs leave only one.
func cudaAsked(pass *Pass, f *Finding) []string {
	var list []string
	for _, n := range f.NeededBy {
		o := pass.Files.ByPath[n.Path]
		if o == nil {
			continue
		}
		if all := pass.Packs.CudaOfAll(append([]string{f.Library}, o.ELF.Needed...)); len(all) == 1 {
			list = append(list, all[0])
		}
	}
	return list
}

// cudaWanted returns the major version of CUDA that the package of the first asking file is
// built for, or "": by its build, by the tables of the packs, by the wheels that it requires.
func cudaWanted(pass *Pass, f *Finding) string {
	if len(f.NeededBy) == 0 {
		return ""
	}
	p, pkg, _ := pass.Packages.OwnerOf(f.NeededBy[0].Path)
	if pkg == nil {
		return ""
	}
	if major := packs.Numbers(pass.Packages.CudaBuild(p, pkg), 1); major != "" {
		return major
	}
	if s, _ := pass.Packages.StackOf(p, pkg); s != nil && s.CUDA != "" {
		return s.CUDA
	}
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if i := strings.LastIndex(r.Name, packs.WheelCUDA); err == nil && i >= 0 && packs.MatchAny(pass.Packs.Carrier("cuda").Wheels, r.Name) {
			return r.Name[i+len(packs.WheelCUDA):]
		}
	}
	return ""
}
