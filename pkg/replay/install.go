package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Install is a framework in the image, and the result of its steps.
type Install struct {
	*packs.Framework
	Home      string // directory of the framework, absolute
	Site      string // directory that holds Home; site-packages for Python's
	Installed Dist   // zero if the image has no metadata of it
	// Failures are the steps that fail in a process of the framework alone.
	Failures []Failure
	// Help makes the steps succeed if some fail; nil if no help of the packs does.
	Help *packs.Help
	// Begun reports that the image's program does what Help says before it imports the
	// framework.
	Begun bool

	source    *source             // nil: the packs' plan counts
	release   version.Release     // nil: not known
	build     *inventory.Build    // its own record of its build, or nil
	preloads  map[string]*preload // by Preload.When
	opens     []string            // files that the preloads and steps open by full path
	importers map[string]bool     // packages in Site whose __init__.py imports the framework
	// rescued are the misses of the steps without the preload "after-miss"; nil if it is
	// not opened.
	rescued []*elfdeps.Error
}

// Failure is a step that fails.
type Failure struct {
	Step   packs.Step
	Path   string           // of the file that cannot be opened; "" if the image has none for the step
	Misses []*elfdeps.Error // empty if only symbols are missing
	Killed bool             // a truncated preload kills the process, and the step's effect says so
	Caught string           // the exceptions that the framework's source catches there, or ""
}

// maxInstalls limits the frameworks. For each file of the image all of them are searched for
// the one that the file relies on; an image with a dozen environments has fifty. It is a
// variable for tests.
var maxInstalls = 512

// findInstalls returns the frameworks of the packs that the image has, in the order of the
// packs.
func (re *replayer) findInstalls() []*Install {
	var list []*Install
	markers := re.findMarkers()
	for i, f := range re.packs.Frameworks {
		homes := map[string]bool{}
		for _, marker := range markers[i] {
			home := "/" + homeOf(marker, f)
			if homes[home] {
				continue
			}
			homes[home] = true
			if in := re.installAt(home, f); in != nil {
				list = append(list, in)
			}
		}
	}
	return list
}

// findMarkers returns the files that match the markers of the frameworks, by the index of
// the framework. It goes through the image once.
func (re *replayer) findMarkers() [][]string {
	type marker struct {
		pattern, begins string
		framework       int
	}
	var markers []marker
	for i, f := range re.packs.Frameworks {
		for _, one := range alternatives(f.Marker) {
			markers = append(markers, marker{path.Join("**", f.Package, one), literal(path.Base(one)), i})
		}
	}
	found := make([][]string, len(re.packs.Frameworks))
	for e := range re.img.FS.All() {
		if e.IsDir() {
			continue
		}
		base := path.Base(e.Path)
		for _, m := range markers {
			i := m.framework
			if strings.HasPrefix(base, m.begins) && strings.Contains(e.Path, re.packs.Frameworks[i].Package) && packs.Match(m.pattern, e.Path) {
				if n := len(found[i]); n == 0 || found[i][n-1] != e.Path { // two alternatives may match
					found[i] = append(found[i], e.Path)
				}
			}
		}
	}
	return found
}

// installAt returns a framework in a directory that has its marker, or nil if the files or
// the metadata there are those of another one.
func (re *replayer) installAt(home string, f *packs.Framework) *Install {
	if f.Without != "" && len(re.files.Glob(home, f.Without)) > 0 {
		return nil
	}
	in := &Install{Framework: f, Home: home, Site: path.Dir(home)}
	in.Installed = re.packages.distAround(home, f.Dist)
	in.release = packs.ParseRelease(in.Installed.Version)
	if f.OnlyDist && in.Installed.Name == "" {
		return nil
	}
	in.build = re.packages.buildOfInstall(in)
	if in.build != nil && in.release == nil {
		in.release = packs.ParseRelease(in.build.Version)
	}
	in.importers = re.packages.importersOf(in)
	return in
}

// homeOf returns the directory of a framework: the lowest above its marker file that has
// the framework's package as its name, and from which the marker leads to the file.
func homeOf(p string, f *packs.Framework) string {
	dir := path.Dir(p)
	for ; strings.Contains(dir, "/"); dir = path.Dir(dir) {
		named := f.Package == "" || dir == f.Package || strings.HasSuffix(dir, "/"+f.Package)
		if named && packs.Match(f.Marker, p[len(dir)+1:]) {
			break
		}
	}
	return dir
}

// goesOn reports whether the framework can be imported: no step fails, or only features
// do.
func (in *Install) goesOn() bool {
	return !slices.ContainsFunc(in.Failures, func(f Failure) bool { return !f.Step.Feature })
}

// follows reports whether a path is in a package that imports the framework before it
// loads its own libraries, by the packs.
func (in *Install) follows(p string) bool {
	pkg := in.packageOf(p)
	return pkg != "" && packs.MatchAny(in.Followers, pkg)
}

// packageOf returns the name of the package or module in Site that has the file at p, or
// "".
func (in *Install) packageOf(p string) string {
	rest, ok := strings.CutPrefix(p, in.Site+"/")
	if !ok {
		return ""
	}
	pkg, _, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix(pkg, ".libs")
}

// namedIn reports whether a file's name has the release of the framework.
func (in *Install) namedIn(file string) bool {
	return len(in.release) > 2 && strings.Contains(path.Base(file), in.release.First(3).String()+".")
}

// hostOf returns the framework that an object relies on, or nil: the object needs a
// library of the framework, or is in a package that imports it first. Of several
// frameworks, one in the same site-packages directory counts.
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

// load replays the steps of a framework in one process. If the error of the first step
// calls for the preload "after-miss", the steps are replayed again with it.
func (re *replayer) load(in *Install) {
	re.findOpens(in)
	if re.loaders.Primary == nil {
		return
	}
	in.Failures = re.runSteps(re.loaders.ProgramFor(in.Home, re.loaders.Primary), in)
	if in.source == nil && in.callsRescue() {
		for _, f := range in.Failures {
			in.rescued = append(in.rescued, kept(f.Misses)...)
		}
		in.Failures = re.runSteps(re.loaders.ProgramFor(in.Home, re.loaders.Primary), in)
	}
}

// findOpens finds the preloads of a framework, and the files that it opens by full path.
func (re *replayer) findOpens(in *Install) {
	in.preloads = map[string]*preload{}
	if in.source != nil {
		in.opens = in.source.paths()
	}
	for _, when := range packs.PreloadTimes {
		if pre := in.preloadAt(when); pre != nil && in.source == nil {
			in.preloads[when] = re.findPreload(in, *pre)
			in.opens = append(in.opens, in.preloads[when].paths()...)
		}
	}
	for _, s := range in.steps() {
		for _, g := range slices.Concat(s.Optional, s.Preload) {
			in.opens = append(in.opens, re.files.Glob(in.Site, g)...)
		}
	}
}

// callsRescue reports whether the first step fails with an error that names a library of
// the preload "after-miss".
func (in *Install) callsRescue() bool {
	pre := in.preloads["after-miss"]
	if pre == nil || len(in.Failures) == 0 || in.Failures[0].Step.Open != in.steps()[0].Open {
		return false
	}
	return pre.isNamed(in.Failures[0].Misses[0].Error())
}

// help finds the help that makes a failing framework work: the import of another
// framework first, or files that a call opens.
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

// begins reports whether the image's program gives the help before it imports the
// framework.
func (re *replayer) begins(in *Install, h *packs.Help) bool {
	for _, other := range re.packs.Frameworks {
		if other.ID == h.Framework && other.Package != "" {
			return re.packages.importsFirst(other.Package, in.Package, in.Site)
		}
	}
	return false
}

// helpIn gives a help in a process, and reports whether the image has the files for it.
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
