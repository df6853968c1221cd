package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// gpuHidden returns a finding for a NVIDIA_VISIBLE_DEVICES that gives the container no GPU.
func gpuHidden(pass *Pass) []Finding {
	const variable = "NVIDIA_VISIBLE_DEVICES"
	value, set := pass.Config.Getenv(variable)
	if !set || value != "" && value != "void" && value != "none" || len(pass.Packages.GpuUsers()) == 0 {
		return nil
	}
	f := pass.say("gpu-hidden", "none", withEdit(pass, "gpu-hidden", packs.Values{"value": value}))
	f.Subject = variable
	return []Finding{f}
}

// devicesHidden returns a finding for a CUDA_VISIBLE_DEVICES that leaves no device: CUDA reads
// the list up to the first element that is not the name of one.
func devicesHidden(pass *Pass) []Finding {
	const variable = "CUDA_VISIBLE_DEVICES"
	value, set := pass.Config.Getenv(variable)
	hidden := value == "" || value[0] == '-' || value == "none" || value == "NoDevFiles"
	if !set || !hidden || len(pass.Packages.GpuUsers()) == 0 {
		return nil
	}
	f := pass.say("devices-hidden", "hidden", packs.Values{"value": value})
	f.Subject = variable
	return []Finding{f}
}

// driverCapabilities returns a finding for each capability that files need and that
// NVIDIA_DRIVER_CAPABILITIES leaves out, and for each unknown word of it. It is a note if
// files only open the capability's libraries by name, when a part of them is used.
func driverCapabilities(pass *Pass) []Finding {
	const rule, variable = "driver-capabilities", "NVIDIA_DRIVER_CAPABILITIES"
	value, _ := pass.Config.Getenv(variable)
	words, clause := strings.Split(strings.ReplaceAll(value, " ", ""), ","), "left-out"
	if value == "" {
		words, clause = []string{"utility", "compute"}, "unset" // the runtime's default
	}
	gpu := len(pass.Packages.GpuUsers()) > 0
	if slices.Contains(words, "all") || value == "" && !gpu {
		return nil
	}
	lacks, whole := capabilitiesLeftOut(pass, words)
	all := strings.Join(whole, ",") // one value for all findings
	var list []Finding
	for _, c := range lacks {
		f := pass.say(rule, clause, packs.Values{"lacks": c.Name, "file": path.Base(c.users[0]), "effect": c.Effect, "all": all})
		if c.opened {
			f = pass.say(rule, "opened", packs.Values{"lacks": c.Name, "file": path.Base(c.users[0]), "libraries": strings.Join(c.Libraries, ", "), "all": all})
		}
		f.NeededBy, f.Values = pass.Image.FilesOf(c.users), packs.Values{"lacks": c.Name}
		list = append(list, f)
	}
	for _, word := range words {
		if gpu && word != "" && pass.Packs.Capability(word) == nil {
			f := pass.say(rule, "unknown", packs.Values{"word": strconv.Quote(word), "all": all})
			f.Values = packs.Values{"unknown": word}
			list = append(list, f)
		}
	}
	for i := range list {
		list[i].Subject = variable
	}
	return list
}

// unmounted is a capability that the image's files use and its environment leaves out.
type unmounted struct {
	*packs.Capability
	users  []string // paths
	opened bool     // the users only open its libraries by name
}

// capabilitiesLeftOut returns the capabilities that files use and words lack, and the known
// ones of words together with those.
func capabilitiesLeftOut(pass *Pass, words []string) (lacks []unmounted, whole []string) {
	whole = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return pass.Packs.Capability(word) == nil })
	for _, c := range pass.Packs.Capabilities {
		if slices.Contains(words, c.Name) {
			continue
		}
		if l := usersOfCapability(pass, c); len(l.users) > 0 {
			lacks, whole = append(lacks, l), append(whole, c.Name)
		}
	}
	return lacks, whole
}

// usersOfCapability returns the files that need a capability. If no file needs the libraries
// of "compute", it returns the files for which the image counts as one for a GPU; if none
// needs those of another, the files that open them by name.
func usersOfCapability(pass *Pass, c *packs.Capability) unmounted {
	l := unmounted{Capability: c, users: pass.Files.UsersOf(c.Libraries)}
	switch {
	case len(l.users) > 0:
	case c.Name == "compute":
		l.users = pass.Packages.GpuUsers()
	default:
		l.users, l.opened = pass.Files.OpenersOf(c.Libraries, c.OpenedBy), true
	}
	return l
}

// requireCUDA returns a finding for each framework that is built for another major version of
// CUDA than NVIDIA_REQUIRE_CUDA names, by which the container runtime refuses hosts.
func requireCUDA(pass *Pass) []Finding {
	value, _ := pass.Config.Getenv("NVIDIA_REQUIRE_CUDA")
	disabled, _ := pass.Config.Getenv("NVIDIA_DISABLE_REQUIRE")
	asks := requiredCUDA(value)
	if asks == "" || disabled == "1" || disabled == "true" {
		return nil
	}
	var list []Finding
	for _, b := range pass.Inventory.Builds {
		if b.CUDA == "" || b.Version == "" || packs.Numbers(b.CUDA, 1) == packs.Numbers(asks, 1) {
			continue
		}
		clause := "refuses"
		if packs.ParseRelease(asks).Before(packs.ParseRelease(b.CUDA)) {
			clause = "admits"
		}
		f := pass.say("require-cuda", clause, packs.Values{"asks": asks, "name": b.Name, "version": b.Version, "built": b.CUDA, "cuda": packs.Numbers(b.CUDA, 2)})
		f.Subject, f.Present = "NVIDIA_REQUIRE_CUDA", []replay.File{pass.Image.File(b.Path)}
		list = append(list, f)
	}
	return list
}

// requiredCUDA returns the version in "cuda>=12.4 brand=tesla,…", or "".
func requiredCUDA(value string) string {
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' }) {
		if version, ok := strings.CutPrefix(word, "cuda>="); ok {
			return version
		}
	}
	return ""
}
