package dockerlint

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Target is the Python and the C library for which pip chooses a release.
type Target struct {
	Python string // "3.10"
	Glibc  string // "2.35"
	// Image has the image without its packages, whose files tell both; nil if its base was not
	// read.
	Image *Prospect
}

// maxNewest limits the packages of a file that an index is asked for the newest release of, and
// those beside one that are asked what they require of it.
const (
	maxNewest  = 20
	maxBesides = 10
)

// releases asks the indexes which release pip takes of the packages that need libraries of the
// system and are installed without one, and says where that is not known.
func (w *walk) releases() {
	asked := 0
	for order, in := range w.installs {
		if in.elsewhere || in.maybe || strings.HasPrefix(in.python, "conda:") {
			continue
		}
		for i := range in.wheels {
			x := &in.wheels[i]
			if x.version != "" || x.taken != "" || x.maybe || w.judged[x] || x.name == "" || !w.asksRelease(x) || w.installedBefore(x, order) {
				continue
			}
			release, why := "", "the files name more packages than are asked for"
			if asked++; asked <= maxNewest {
				release, why = w.newestOf(in, x)
			}
			x.taken, x.why = release, why
		}
	}
}

// unreleased says of which packages the release is not known, unless a finding or the libraries
// that they need say so.
func (w *walk) unreleased() {
	for _, in := range w.installs {
		for i := range in.wheels {
			if x := &in.wheels[i]; x.why != "" {
				w.unread = append(w.unread, Unknown{x.line, fmt.Sprintf("which release of %s%s pip takes: %s", x.name, x.spec, x.why)})
			}
		}
	}
}

// asksRelease reports whether the release of a package decides about a finding.
func (w *walk) asksRelease(x *wheel) bool {
	return x.name == "torch" || slices.ContainsFunc(w.allNeeds(true), func(n *Need) bool { return n.Package == x.name && (n.Extra == "" || n.Extra == x.extras) })
}

// installedBefore reports whether pip finds a package that is installed already, of a release
// that it leaves as it is.
func (w *walk) installedBefore(x *wheel, order int) bool {
	if base := w.libraries(); base != nil && base.Wheels[x.name] != "" {
		return true
	}
	for _, in := range w.installs[:order] {
		if in.python == w.installs[order].python && slices.ContainsFunc(in.wheels, func(o wheel) bool { return o.name == x.name }) {
			return true
		}
	}
	return false
}

// newestOf asks the indexes of an install for the release that pip takes for the image's Python.
func (w *walk) newestOf(in *install, x *wheel) (release, why string) {
	if w.newestIn == nil {
		return "", "no index is asked"
	}
	if in.constrained {
		return "", "the constraints are not known"
	}
	from, known := in.asks(x)
	if !known || in.oneIndex && x.ofProject() {
		return "", "its indexes are not known"
	}
	on := w.targetOf(in)
	if w.base != nil && w.from.Ref != "scratch" {
		on.Image = w.prospect(in.python)
	} else if on.Python == "" {
		return "", "the image's Python is not known"
	}
	return w.newestIn(x.name, w.specBeside(in, x, from), on, from)
}

// specBeside returns the specifiers of a package with those that the packages beside it require.
func (w *walk) specBeside(in *install, x *wheel, from Indexes) string {
	specs, asked := []string{}, 0
	if x.spec != "" {
		specs = append(specs, x.spec)
	}
	for i := range in.wheels {
		y := &in.wheels[i]
		if y == x || y.plain || in.noDeps || listed(w.Plain, y.name) || w.isTool(y.name) || w.wheelOf == nil || asked >= maxBesides {
			continue
		}
		asked++
		got, why := w.wheelOf(y.name, y.spec, from)
		if why != "" || got == nil {
			continue
		}
		for _, line := range got.Requires {
			bare, _ := extrasOf(line)
			if r, err := inventory.ParseRequirement(bare); err == nil && r.Name == x.name && r.Marker == "" && r.Specifiers != "" {
				specs = append(specs, strings.ReplaceAll(r.Specifiers, " ", ""))
			}
		}
	}
	return strings.Join(specs, ",")
}

// targetOf returns the Python of an install, as far as it is known, and the C library of the image.
func (w *walk) targetOf(in *install) (on Target) {
	ref := strings.TrimPrefix(strings.TrimPrefix(w.from.Ref, "docker.io/"), "library/")
	system := (*SystemPython)(nil)
	for _, s := range w.SystemPythons {
		if s.named(ref) {
			system = s
		}
	}
	official := w.officialPython(ref)
	if system != nil {
		on.Glibc = system.Glibc
	} else if official != "" {
		on.Glibc = "2.36"
	}
	if on.Glibc == "" || matchImage(w.MuslImages, ref) != nil {
		return Target{}
	}
	switch on.Python = minorOf.FindString(in.python); {
	case on.Python != "" && in.python == on.Python:
	case strings.HasPrefix(in.python, "/"):
		on.Python = ""
		for _, v := range w.venvs {
			if v.path == in.python && !v.other && !v.uv {
				on.Python = cmp.Or(v.python, official)
			}
		}
		if on.Python == "" && official == "" && system != nil && w.systemPythons() != nil {
			on.Python = system.Python
		}
	case in.python != "":
		on.Python = ""
	case official != "":
		on.Python = official
	case system != nil && w.systemPythons() != nil:
		on.Python = system.Python
	}
	return on
}

// named reports whether the tag of an image names the distribution.
func (s *SystemPython) named(ref string) bool {
	return packs.MatchAny(s.Tags, ref) || packs.MatchAny(s.Tags, path.Base(ref))
}

// release returns the release of a package that is installed: the pinned one, or the newest of its
// index.
func (x *wheel) release() string { return cmp.Or(x.version, x.taken) }

// assume makes a finding about a release that an index named a warning at most.
func (f *Finding) assume(x *wheel) {
	if x.version == "" && x.taken != "" && f.Severity == packs.Error {
		f.Severity, f.Because = packs.Warning, "no release is named: "+x.taken+" is the newest that fits"
	}
}

// newestTorch returns a torch of an environment that is installed without a release, with the
// newest one of its index, or nil.
func (w *walk) newestTorch(python string) *wheel {
	for order, in := range w.installs {
		for i := range in.wheels {
			x := in.wheels[i]
			if in.python != python || in.elsewhere || in.maybe || x.name != "torch" || x.version != "" || x.taken == "" {
				continue
			}
			if _, err := version.Parse(x.taken); err == nil {
				x.order = order
				return &x
			}
		}
	}
	return nil
}
