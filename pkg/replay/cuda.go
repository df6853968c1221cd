package replay

import (
	"cmp"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// CudaVariable returns the major version of CUDA in the variable of NVIDIA's images, or
// "".
func (co *Config) CudaVariable() string {
	value, _ := co.Getenv(co.packs.Carrier("cuda").Variable())
	return packs.ParseRelease(value).First(1).String()
}

// CudaInstalled returns the major version of CUDA whose libraries the image has, or "" if
// it has none or those of several.
func (pa *Packages) CudaInstalled() string { return pa.cuda() }

// cudaOf returns what CudaInstalled does.
func cudaOf(set *packs.Packs, files *Files) string {
	var majors []string
	for _, o := range files.Objects {
		if set.Family(o.ELF.Soname) == nil || IsStub(o.Path) {
			continue
		}
		if has := set.CudaOf(o.ELF.Soname); len(has) == 1 && !slices.Contains(majors, has[0]) {
			majors = append(majors, has[0])
		}
	}
	if len(majors) != 1 {
		return ""
	}
	return majors[0]
}

// CudaBuild returns the CUDA version that a package of an environment is built for, or
// "". The package's own file counts first (torch names the version, its companions have
// it in the local part of theirs), then the local part of the version in its metadata.
func (pa *Packages) CudaBuild(p *inventory.Python, pkg *inventory.Package) string {
	b := pa.BuildOf(p, pkg.Name)
	switch {
	case b == nil:
		return packs.CudaOfBuild(pkg.Version)
	case b.CUDA != "" || b.CPU:
		return b.CUDA
	}
	return packs.CudaOfBuild(b.Version)
}

// CudaFor returns the major version of CUDA that a framework is built for, or "" if
// neither the framework nor the packs name it.
func (pa *Packages) CudaFor(p *inventory.Python, pkg *inventory.Package, s *packs.Stack) string {
	return cmp.Or(packs.Numbers(pa.CudaBuild(p, pkg), 1), s.CUDA)
}

// CudnnFor returns the version of cuDNN that a framework is built for, or "" if neither the
// framework nor the packs name it. The framework's own record has the last word about the
// major version; the packs may know more of the release.
func (pa *Packages) CudnnFor(p *inventory.Python, pkg *inventory.Package, s *packs.Stack) string {
	b := pa.BuildOf(p, pkg.Name)
	if b == nil || b.CUDNN == "" || packs.Numbers(b.CUDNN, 1) == packs.Numbers(s.CUDNN, 1) {
		return s.CUDNN
	}
	return b.CUDNN
}

// cudaOfInstall returns the major version of CUDA that a framework is built for, or "" if
// neither its build nor its name shows it.
func (pa *Packages) cudaOfInstall(in *Install) string {
	if b := pa.buildOfInstall(in); b != nil && b.CUDA != "" {
		return packs.Numbers(b.CUDA, 1)
	}
	return in.Installed.Cuda()
}

// ProcessCUDA returns the major version of CUDA in a process, or "". It takes the first
// of the libraries that show it, in the order of the packs, else the name of the
// distribution (cupy_cuda12x).
func (fi *Files) ProcessCUDA(r *Process) string {
	sonames := func(yield func(string) bool) {
		for _, m := range r.Loaded {
			if !yield(m.Object.Soname) {
				return
			}
		}
		if r.proc == nil {
			return
		}
		for _, m := range r.proc.Objects {
			if !yield(m.Object.Soname) {
				return
			}
		}
	}
	for _, pattern := range fi.packs.Carrier("cuda").Files {
		for soname := range sonames {
			if packs.Match(pattern, soname) {
				return packs.MajorOf(soname)
			}
		}
	}
	if r.In != nil {
		return r.In.Installed.Cuda()
	}
	return ""
}
