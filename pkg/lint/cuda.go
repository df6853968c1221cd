package lint

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// wantedCUDA returns the major version of CUDA that should provide a finding's library, or ""
// if it is unknown. Only versions that have the library count. If there are several, it is
// the first that is known from: the other libraries that the needing files need, the process,
// the package, the variable of NVIDIA's images, the installed CUDA.
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

// cudaAsked returns the major version of CUDA of each file that needs a finding's library, if
// all libraries that the file needs are in one version only.
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

// cudaWanted returns the major version of CUDA that the package of the first needing file is
// built for, or "". It is known from the build, from the packs' tables, or from the wheels that
// the package requires.
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
