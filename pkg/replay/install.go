package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Install is a framework that the image has.
type Install struct {
	*packs.Framework
	Home      string // its directory, absolute
	Site      string // the directory that holds it
	Installed Dist
	release   packs.ReleaseNumbers // nil: not known
	preloads  map[string]*preload  // by Preload.When
	opens     []string             // the files that its preloads and its steps open by full path
	rescued   []*elfdeps.Error     // what its steps miss without the preload after a miss, where that comes; nil: it does not
	Failures  []Failure
	Help      *packs.Help // what makes it work that fails by itself; nil: nothing does
	Begun     bool        // and the image's program does that first
	// importers are the packages beside it whose __init__.py imports it.
	importers map[string]bool
}

// Failure is a step that failed.
type Failure struct {
	Step   packs.Step
	Path   string
	Misses []*elfdeps.Error
	Killed bool // the step's effect says that the process is killed
}

// maxInstalls bounds the frameworks, of which each is asked for each file whether it
// loads it; an image with a dozen environments has fifty. A variable, so that tests
// can reach it.
var maxInstalls = 512

// findInstalls looks for the packs' frameworks.
func (re *replayer) findInstalls() []*Install {
	type sought struct{ pattern, begins string }
	var seek []sought
	for _, f := range re.packs.Frameworks {
		seek = append(seek, sought{path.Join("**", f.Package, f.Marker), literal(path.Base(f.Marker))})
	}
	found := make([][]string, len(seek)) // paths of markers; the image is gone through once
	for e := range re.img.FS.All() {
		if e.IsDir() {
			continue
		}
		base := path.Base(e.Path)
		for i, s := range seek {
			if strings.HasPrefix(base, s.begins) && strings.Contains(e.Path, re.packs.Frameworks[i].Package) && packs.Match(s.pattern, e.Path) {
				found[i] = append(found[i], e.Path)
			}
		}
	}
	var list []*Install
	for i, f := range re.packs.Frameworks {
		homes := map[string]bool{}
		for _, marker := range found[i] {
			home := "/" + homeOf(marker, f)
			if !homes[home] {
				homes[home] = true
				if f.Without != "" && len(re.files.Glob(home, f.Without)) > 0 {
					continue
				}
				in := &Install{Framework: f, Home: home, Site: path.Dir(home)}
				in.Installed = re.packages.distAround(home, f.Dist)
				in.release = packs.ParseRelease(in.Installed.Version)
				if f.OnlyDist && in.Installed.Name == "" {
					continue
				}
				in.importers = re.packages.importersOf(in)
				list = append(list, in)
			}
		}
	}
	return list
}

// homeOf is the framework's directory: the path less as many elements as the
// marker has.
func homeOf(p string, f *packs.Framework) string {
	for range strings.Count(f.Marker, "/") + 1 {
		p = path.Dir(p)
	}
	return p
}

// goesOn reports whether a framework can be imported: what fails, if anything, is a
// feature.
func (in *Install) goesOn() bool {
	return !slices.ContainsFunc(in.Failures, func(f Failure) bool { return !f.Step.Feature })
}

// follows reports whether a path is in a package that imports the framework
// before it loads its own libraries.
func (in *Install) follows(p string) bool {
	pkg := in.packageOf(p)
	return pkg != "" && packs.MatchAny(in.Followers, pkg)
}

// packageOf is the package beside the framework that a path is in, or the module that
// it is; empty for a path elsewhere.
func (in *Install) packageOf(p string) string {
	rest, ok := strings.CutPrefix(p, in.Site+"/")
	if !ok {
		return ""
	}
	pkg, _, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix(pkg, ".libs")
}

// namedIn reports whether a file's name has the framework's release in it.
func (in *Install) namedIn(file string) bool {
	return len(in.release) > 2 && strings.Contains(path.Base(file), in.release.First(3).String()+".")
}

// hostOf is the framework that an object relies on: it needs one of its
// libraries, or is in a package that imports it first. Of several, the one in
// the same directory of packages counts.
func (re *replayer) hostOf(o *Object) *Install {
	var host *Install
	for _, in := range re.ev.Installs {
		served := slices.ContainsFunc(o.ELF.Needed, func(n string) bool { return packs.MatchAny(in.Serves, n) })
		if !served && !in.follows(o.Path) && !in.importers[in.packageOf(o.Path)] && !strings.HasPrefix(o.Path, in.Home+"/") {
			continue
		}
		if host == nil || strings.HasPrefix(o.Path, in.Site+"/") && !strings.HasPrefix(o.Path, host.Site+"/") {
			host = in
		}
	}
	return host
}

// load replays a framework's steps in one process. Where the first misses a library
// and a preload is for that, it is replayed again with its help.
func (re *replayer) load(in *Install) {
	if b := re.packages.buildOfInstall(in); b != nil && in.release == nil {
		in.release = packs.ParseRelease(b.Version)
	}
	in.preloads = map[string]*preload{}
	for _, when := range packs.PreloadTimes {
		if pre := in.preloadAt(when); pre != nil {
			in.preloads[when] = re.findPreload(in, *pre)
			in.opens = append(in.opens, in.preloads[when].paths()...)
		}
	}
	for _, s := range in.steps() {
		for _, g := range slices.Concat(s.Optional, s.Preload) {
			in.opens = append(in.opens, re.files.Glob(in.Site, g)...)
		}
	}
	if re.loaders.Primary == nil {
		return
	}
	in.Failures = re.runSteps(re.loaders.ProgramFor(in.Home, re.loaders.Primary), in)
	if in.callsRescue() {
		for _, f := range in.Failures {
			in.rescued = append(in.rescued, kept(f.Misses)...)
		}
		in.Failures = re.runSteps(re.loaders.ProgramFor(in.Home, re.loaders.Primary), in)
	}
}

// callsRescue reports whether the first step has failed and the text of its error names
// one of the libraries of the preload for that.
func (in *Install) callsRescue() bool {
	pre := in.preloads["after-miss"]
	if pre == nil || len(in.Failures) == 0 || in.Failures[0].Step.Open != in.steps()[0].Open {
		return false
	}
	return pre.isNamed(in.Failures[0].Misses[0].Error())
}

// help looks for what makes a framework work that fails by itself: another that
// the program imports first, or what it opens by a call.
func (re *replayer) help(in *Install) {
	if len(in.Failures) == 0 {
		return
	}
	for i := range in.Helped {
		p := re.loaders.ProgramFor(in.Home, re.loaders.Primary)
		if re.helpIn(p, in, &in.Helped[i]) && len(re.runSteps(p, in)) == 0 {
			in.Help = &in.Helped[i]
			in.Begun = re.begins(in, in.Help)
			return
		}
	}
}

// begins reports whether the image's program does first what helps a framework.
func (re *replayer) begins(in *Install, h *packs.Help) bool {
	for _, other := range re.packs.Frameworks {
		if other.ID == h.Framework && other.Package != "" {
			return re.packages.importsFirst(other.Package, in.Package, in.Site)
		}
	}
	return false
}

// helpIn does in a process what a help says, and reports whether the image has it.
func (re *replayer) helpIn(p *elfdeps.Process, in *Install, h *packs.Help) bool {
	if fits, _ := in.release.Within(h.Versions); !fits {
		return false
	}
	if h.Framework == "" {
		helper := re.findPreload(in, packs.Preload{Files: h.Files})
		re.openPreload(p, helper)
		return len(helper.paths()) > 0
	}
	for _, other := range re.ev.Installs {
		if other.ID == h.Framework && other.Site == in.Site && len(other.Failures) == 0 {
			re.runSteps(p, other)
			return true
		}
	}
	return false
}
