package lint

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// cudaDiffers returns a finding for each framework that is built for another CUDA version than
// the system's, if extensions are compiled against both. It matters only to an image in which
// something is compiled.
func cudaDiffers(pass *Pass) []Finding {
	carrier, clause := pass.Packs.Carrier("cuda"), "directory"
	v, there := packs.Values{"system": ""}, map[string]bool{}
	for _, c := range pass.Inventory.Components {
		if c.Name == carrier.Family && c.Path != "" && (c.From == "version.json" || c.From == "directory name") {
			v["system"], v["path"] = packs.Numbers(c.Version, 2), c.Path
			there[packs.Numbers(c.Version, 2)] = true
		}
	}
	if v["system"] == "" {
		version, _ := pass.Config.Getenv(carrier.Variable())
		v["system"], v["variable"], clause = packs.Numbers(version, 2), carrier.Variable(), "variable"
	}
	var list []Finding
	for _, b := range pass.Inventory.Builds {
		cuda := packs.Numbers(b.CUDA, 2)
		if !pass.Packs.ExtensionHosts.Has(b.Name) || cuda == "" || v["system"] == "" || cuda == v["system"] || there[cuda] {
			continue
		}
		v["package"], v["version"], v["cuda"] = b.Name, b.Version, cuda
		f := pass.say("cuda-differs", clause, maps.Clone(v))
		f.Present = []replay.File{pass.Image.File(b.Path)}
		list = append(list, f)
	}
	return list
}

// cpuBuilds returns a finding for each framework without GPU code in an image for a GPU, or
// beside files that need a library of the framework's GPU build.
func cpuBuilds(pass *Pass) []Finding {
	var list []Finding
	for p, wheels := range pass.Packages.Environments() {
		for _, row := range pass.Packs.CPUBuilds {
			pkg := wheels[row.Package]
			if pkg == nil || !isCPUBuild(pass, p, pkg, row) {
				continue
			}
			v := packs.Values{"package": pkg.Name, "version": pass.Packages.Version(p, pkg)}
			f, found := cpuBuildNeeded(pass, p, row, v)
			if !found {
				f, found = cpuBuildUnused(pass, row, wheels, v)
			}
			if found {
				f.Present = []replay.File{pass.Image.File(pkg.Path)}
				f.advise(pass.adviceOf(gpuBuildFix(pass, row, &f, v))...)
				list = append(list, f)
			}
		}
	}
	return list
}

// gpuBuildFix returns the fix that installs the build of a package for the CUDA that the image says,
// or that the files which need it name, with its values; else the row's fix.
func gpuBuildFix(pass *Pass, row *packs.CPUBuild, f *Finding, v packs.Values) (*packs.Clause, packs.Values) {
	cuda, _ := pass.Config.Getenv(pass.Packs.Carrier("cuda").Variable())
	if asked := cudaAsked(pass, f); cuda == "" && len(asked) > 0 {
		cuda = asked[0]
	}
	release, _, _ := strings.Cut(v["version"], "+")
	build := row.BuildFor(release, cuda)
	if build == "" || !packs.IsPEP440(release) {
		return &packs.Clause{Fix: []string{row.Fix}}, packs.Values{}
	}
	index := packs.Fill(row.Index, packs.Values{"build": build})
	return &packs.Clause{Fix: []string{row.BuildFix}, Pip: row.Pip}, packs.Values{"release": release, "build": build, "index": index}
}

// cpuBuildNeeded returns the finding for files that need a library of the GPU build.
func cpuBuildNeeded(pass *Pass, p *inventory.Python, row *packs.CPUBuild, v packs.Values) (f Finding, found bool) {
	files, lacks := wantsGPUBuild(pass, p, row)
	if len(files) == 0 {
		return f, false
	}
	v["file"], v["library"] = path.Base(files[0]), lacks
	f = pass.say("cpu-build", "extension", v)
	f.Cause, f.Library, f.NeededBy, f.Affected = "missing "+lacks, lacks, pass.Image.FilesOf(files), files
	return f, true
}

// cpuBuildUnused returns the finding for a framework that leaves the image's GPU unused.
func cpuBuildUnused(pass *Pass, row *packs.CPUBuild, wheels replay.WheelSet, v packs.Values) (f Finding, found bool) {
	clause := cudaShown(pass, wheels, v)
	other := ""
	for name := range wheels.Sorted() {
		found = found || packs.MatchAny(row.Unless, name)
		if packs.MatchAny(row.Beside, name) {
			other = name
		}
	}
	if clause == "" || found {
		return f, false
	}
	f = pass.say("cpu-build", clause, v)
	pass.also(&f, "effect", packs.Values{"effect": row.Effect, "error": ""})
	f.Severity = f.Severity.AtMost(row.Severity)
	if other = cmp.Or(other, gpuProgram(pass)); other != "" {
		pass.lower(&f, "beside", packs.Values{"other": other})
	}
	return f, true
}

// cudaShown adds to v the first sign that an image is for a GPU: a variable, a file outside
// of Python's packages, or a wheel of an environment. It returns the clause of the rule
// cpu-build for that sign, or "".
func cudaShown(pass *Pass, wheels replay.WheelSet, v packs.Values) string {
	carrier := pass.Packs.Carrier("cuda")
	for _, name := range carrier.Variables {
		if value, _ := pass.Config.Getenv(name); value != "" {
			v["variable"], v["value"] = name, value
			return "variable"
		}
	}
	if i := slices.IndexFunc(pass.Inventory.Components, func(c *inventory.Component) bool {
		return c.Name == carrier.Family && c.Path != "" && !strings.Contains(c.Path, "-packages/")
	}); i >= 0 {
		v["path"] = pass.Inventory.Components[i].Path
		return "file"
	}
	for name, pkg := range wheels.Sorted() {
		if pass.Packages.IsGPUWheel(name) {
			v["path"] = pkg.Path
			return "file"
		}
	}
	return ""
}

// wantsGPUBuild returns the files of an environment that need a library of the GPU build, and
// the first such library.
func wantsGPUBuild(pass *Pass, p *inventory.Python, row *packs.CPUBuild) (files []string, lacks string) {
	if len(row.Lacks) == 0 {
		return nil, ""
	}
	for _, o := range pass.Files.Objects {
		if !slices.ContainsFunc(p.Sites, func(site string) bool { return replay.IsIn(o.Path, site) }) {
			continue
		}
		for _, n := range o.ELF.Needed {
			if packs.MatchAny(row.Lacks, n) && len(pass.Files.Present(n)) == 0 {
				files, lacks = append(files, o.Path), cmp.Or(lacks, n)
				break
			}
		}
	}
	slices.Sort(files)
	return files, lacks
}

// gpuProgram returns a file outside of Python's packages that uses the GPU, or "".
func gpuProgram(pass *Pass) string {
	for _, file := range pass.Packages.GpuUsers() {
		if !strings.Contains(file, "-packages/") {
			return file
		}
	}
	return ""
}

// isCPUBuild reports whether a package is a build without GPU code: by its own build file, else
// by the local part of its version, else by its name.
func isCPUBuild(pass *Pass, p *inventory.Python, pkg *inventory.Package, row *packs.CPUBuild) bool {
	if b := pass.Packages.BuildOf(p, pkg.Name); b != nil {
		return b.CPU
	}
	local := packs.LocalOf(pkg.Version)
	return (row.Local == "" || local == row.Local) && !packs.MatchAny(row.GPULocal, local)
}
