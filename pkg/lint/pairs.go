package lint

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// unfitPairs returns a finding for each package of the packs' pairs that does not fit the
// package beside it: by the requirements in its metadata, else by the packs' releases, else
// by the CUDA versions that the two are built for.
func unfitPairs(pass *Pass) []Finding {
	var list []Finding
	for p, wheels := range pass.Packages.Environments() {
		for _, pair := range pass.Packs.Pairs {
			pkg, base := wheels[pair.Package], wheels[pair.For]
			if pkg == nil || base == nil {
				continue
			}
			if f, unfit := pairFinding(pass, p, pair, pkg, base, wheels); unfit {
				f.NeededBy, f.Present = []replay.File{pass.Image.File(pkg.Path)}, []replay.File{pass.Image.File(base.Path)}
				list = append(list, f)
			}
		}
	}
	return list
}

// pairFinding returns the finding for a pair of packages of an environment, and whether they
// do not fit.
func pairFinding(pass *Pass, p *inventory.Python, pair *packs.Pair, pkg, base *inventory.Package, wheels replay.WheelSet) (f Finding, unfit bool) {
	const rule = "torch-pair"
	has, installed := pass.Packages.Version(p, pkg), pass.Packages.Version(p, base)
	cuda, other := pass.Packages.CudaBuild(p, base), pass.Packages.CudaBuild(p, pkg)
	fits, known := pair.Versions[packs.Numbers(installed, 2)]
	wants, requires := pairRequirement(pass, p, pair, pkg, base, wheels)
	v := packs.Values{
		"package": pair.Package, "version": has, "for": pair.For, "installed": installed, "release": packs.Numbers(installed, 2), "fits": fits,
		"wants": wants, "cuda": cuda, "other": other, "error": pair.Error, "cuda-error": pair.CUDAError,
	}
	switch {
	case wants != "":
		f = pass.say(rule, "unfit", v)
		pass.also(&f, "required", v)
	case !requires && known && packs.Numbers(has, 2) != fits:
		f = pass.say(rule, "unfit", v)
		pass.also(&f, "announced", v)
	case packs.LocalOf(has) == "cpu" && cuda != "":
		f = pass.say(rule, "cpu", v)
	case cuda != "" && other != "" && pair.CUDA != "" && packs.Numbers(cuda, pair.CudaNumbers()) != packs.Numbers(other, pair.CudaNumbers()):
		f = pass.say(rule, "cuda", v)
	default:
		return f, false
	}
	switch v["index"] = pair.IndexOf(installed); {
	case fits == "" || !packs.IsPEP440(installed):
	case v["index"] != "":
		pass.also(&f, "release-of-index", v)
	default:
		pass.also(&f, "release", v)
	}
	pass.also(&f, "together", v)
	return f, true
}

// pairRequirement reports whether a pair's package requires a single release of the other. It
// returns the requirement if the other does not meet it, else "".
func pairRequirement(pass *Pass, p *inventory.Python, pair *packs.Pair, pkg, base *inventory.Package, wheels replay.WheelSet) (wants string, requires bool) {
	requires = slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err == nil && r.Name == pair.For && strings.Contains(r.Specifiers, "==")
	})
	if !requires {
		return "", false
	}
	for _, u := range pass.Packages.UnmetOf(p, pkg, wheels) {
		if u.Of == base {
			wants = u.Wants
		}
	}
	return wants, true
}
