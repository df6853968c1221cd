package lint

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// stacked calls f for each package of each environment with a known stack: the CUDA and
// cuDNN versions that it needs.
func stacked(pass *Pass, f func(p *inventory.Python, wheels replay.WheelSet, pkg *inventory.Package, s *packs.Stack, requirement string)) {
	for p, wheels := range pass.Packages.Environments() {
		for _, pkg := range wheels.Sorted() {
			if s, requirement := pass.Packages.StackOf(p, pkg); s != nil {
				f(p, wheels, pkg, s, requirement)
			}
		}
	}
}

// metadataRequires returns the words for a message about the requirement from which a stack
// is known, or "" if it is known from a table.
func metadataRequires(pass *Pass, requirement string) string {
	if requirement == "" {
		return ""
	}
	return pass.Packs.Phrase("metadata-requires", packs.Values{"requirement": requirement})
}

// stackFinding returns the finding of a rule for a package whose stack the image lacks.
func stackFinding(pass *Pass, rule string, s *packs.Stack, wheels replay.WheelSet, pkg *inventory.Package, v packs.Values) Finding {
	f := pass.say(rule, "unfit", v)
	if s.Effect != "" {
		pass.also(&f, "effect", packs.Values{"effect": s.Effect, "error": s.Error})
	}
	if other := incidental(pass, wheels, s); other != "" {
		pass.lower(&f, "incidental", packs.Values{"other": other, "package": s.Package})
	}
	f.NeededBy = []replay.File{pass.Image.File(pkg.Path)}
	return f
}

// incidental returns another package of the environment that uses the GPU, or "", for a stack
// of a framework that is often installed for its CPU side.
func incidental(pass *Pass, wheels replay.WheelSet, s *packs.Stack) string {
	if !s.Incidental {
		return ""
	}
	for name := range wheels.Sorted() {
		if name != s.Package && slices.ContainsFunc(pass.Packs.Stacks, func(o *packs.Stack) bool { return o.Package == name && !o.Incidental }) {
			return name
		}
	}
	return ""
}

// cudnnVersions returns a finding for each framework that finds only releases of cuDNN that it
// refuses.
func cudnnVersions(pass *Pass) []Finding {
	var list []Finding
	carrier := pass.Packs.Carrier("cudnn")
	stacked(pass, func(p *inventory.Python, wheels replay.WheelSet, pkg *inventory.Package, s *packs.Stack, requirement string) {
		have, wants := copiesFor(pass, p, wheels, pkg, carrier), packs.ParseRelease(pass.Packages.CudnnFor(p, pkg, s))
		if wants == nil || len(have) == 0 || fitsAny(have, wants) || ownCopy(pass, pkg, carrier) {
			return
		}
		major := strconv.Itoa(wants[0])
		var versions []string
		var present []replay.File
		for _, c := range have {
			versions = append(versions, c.version)
			present = append(present, pass.Image.File(c.path))
		}
		slices.Sort(versions)
		f := stackFinding(pass, "cudnn-version", s, wheels, pkg, packs.Values{
			"package": pkg.Name, "version": pass.Packages.Version(p, pkg), "least": packs.Numbers(wants.String(), 2), "next": strconv.Itoa(wants[0] + 1),
			"why": metadataRequires(pass, requirement), "installed": strings.Join(slices.Compact(versions), ", "), "cuda": pass.Packages.CudaFor(p, pkg, s),
		})
		f.Library, f.Family, f.Present = carrier.Library+"."+major, carrier.Family, present
		if row := laterFor(pass, p, pkg, s, have); row != nil && requirement == "" {
			f.Advice = append(pass.advice("release-for-cudnn", packs.Values{"package": pkg.Name, "fits": row.Versions, "cudnn": row.CUDNN}), f.Advice...)
		}
		list = append(list, f)
	})
	return list
}

// laterFor returns the row of the packs with later releases of a package, of the same major version
// and for the same CUDA, that run with a copy of cuDNN in the image; or nil.
func laterFor(pass *Pass, p *inventory.Python, pkg *inventory.Package, s *packs.Stack, have []found) *packs.Stack {
	installed := packs.ParseRelease(pass.Packages.Version(p, pkg))
	for _, row := range pass.Packs.Stacks {
		least, ok := strings.CutPrefix(row.Versions, ">=")
		least, _, _ = strings.Cut(least, ",")
		of := packs.ParseRelease(least)
		if row.Package != s.Package || row.Build != "" || row.CUDA != s.CUDA || row.CUDNN == "" || !ok || of == nil || installed == nil {
			continue
		}
		if of[0] == installed[0] && installed.Before(of) && fitsAny(have, packs.ParseRelease(row.CUDNN)) {
			return row
		}
	}
	return nil
}

// cudaMajors returns a finding for each framework that opens, by name, CUDA libraries of a
// major version that the image lacks. The replay shows missing libraries of DT_NEEDED.
func cudaMajors(pass *Pass) []Finding {
	var list []Finding
	carrier := pass.Packs.Carrier("cuda")
	majors := majorsOf(pass, carrier)
	sorted := slices.Sorted(maps.Keys(majors))
	stacked(pass, func(_ *inventory.Python, wheels replay.WheelSet, pkg *inventory.Package, s *packs.Stack, requirement string) {
		if s.CUDA == "" || len(majors) == 0 || majors[s.CUDA] != nil {
			return
		}
		f := stackFinding(pass, "cuda-major-absent", s, wheels, pkg, packs.Values{
			"package": pkg.Name, "version": pkg.Version, "cuda": s.CUDA, "why": metadataRequires(pass, requirement), "installed": strings.Join(sorted, ", "),
		})
		f.Library, f.Family = carrier.Library+"."+s.CUDA, carrier.Family
		for _, major := range sorted {
			var paths []string
			for _, name := range majors[major] {
				paths = append(paths, pass.Files.Named[name]...)
			}
			f.Present = append(f.Present, pass.Image.File(slices.Min(paths)))
		}
		list = append(list, f)
	})
	return list
}
