package predict

import (
	"context"
	"fmt"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/pylock"
)

// maxPackages limits the distributions of one prospect.
const maxPackages = 150

// distribution is one that will be installed.
type distribution struct {
	name, version string
	by            int // the package of the prospect that brings it
	contents      *contents
	asked         bool // an instruction names it
}

// resolver chooses the distributions of a prospect.
type resolver struct {
	ctx    context.Context
	o      Options
	python *python
	have   map[string]string // releases that are installed already
	list   []*distribution
	// open are the packages of the prospect of which something is not known.
	open    map[int]bool
	unknown *[]dockerlint.NotPredicted
}

func (r *resolver) whole(i int) bool { return !r.open[i] }

// say says that something of a package of the prospect is not known.
func (r *resolver) say(by int, why string, brings bool) {
	r.open[by] = true
	*r.unknown = append(*r.unknown, dockerlint.NotPredicted{Why: why, Brings: brings})
}

// wanted is a distribution that is to be installed.
type wanted struct {
	dockerlint.Requested
	by    int
	alone bool
	from  *dockerlint.Installed // nil if another one requires it
	asks  dockerlint.Indexes
}

// resolve chooses a release of each distribution: the first that asks for one decides.
func (r *resolver) resolve(packages []dockerlint.Installed) {
	r.open = map[int]bool{}
	var todo []wanted
	for i := range packages {
		p := &packages[i]
		todo = append(todo, wanted{dockerlint.Requested{Name: p.Name, Spec: p.Spec, Extras: p.Extras}, i, p.Alone, p, p.Indexes})
	}
	for seen := map[dockerlint.Requested]bool{}; len(todo) > 0; {
		w := todo[0]
		todo = todo[1:]
		if seen[w.Requested] {
			continue
		}
		seen[w.Requested] = true
		if len(seen) > maxPackages {
			r.say(w.by, fmt.Sprintf("more than %d packages", maxPackages), true)
			return
		}
		todo = append(todo, r.take(w)...)
	}
}

// take installs a distribution, and returns those that it requires.
func (r *resolver) take(w wanted) []wanted {
	if has, ok := r.have[w.Name]; ok && satisfies(has, w.Spec) && w.Extras == "" {
		return nil
	}
	if i := r.index(w.Name); i >= 0 && w.Extras == "" {
		if !satisfies(r.list[i].version, w.Spec) {
			r.say(w.by, fmt.Sprintf("which release of %s is installed", w.Name), true)
		}
		return nil
	}
	requires, d, why := r.read(w)
	if why != "" {
		r.say(w.by, "what "+w.Name+" brings: "+why, true)
		return nil
	}
	if i := r.index(w.Name); i < 0 {
		d.asked = w.from != nil && !w.from.Locked
		r.list = append(r.list, d)
		if u := d.contents.unread(); u != "" {
			r.say(w.by, u, false)
		}
	}
	if w.alone {
		return nil
	}
	env := pylock.Linux()
	env["python_version"], env["python_full_version"] = r.python.release, r.python.release+".0"
	var list []wanted
	for _, q := range dockerlint.RequiredBy(requires, w.Extras, env) {
		list = append(list, wanted{q, w.by, false, nil, w.asks})
	}
	return list
}

func (r *resolver) index(name string) int {
	for i, d := range r.list {
		if d.name == name {
			return i
		}
	}
	return -1
}

func satisfies(has, spec string) bool {
	if spec == "" {
		return true
	}
	ok, err := version.Satisfies(has, spec)
	return err == nil && ok
}

// read reads a wheel of the build context or of the indexes that the install asks; those ask for
// what a package requires as well.
func (r *resolver) read(w wanted) (requires []string, d *distribution, why string) {
	if w.from != nil && len(w.from.File) > 0 {
		c, err := readFile(w.from.FileName, w.from.File, r.python.platform())
		if err != nil {
			return nil, nil, err.Error()
		}
		return c.Requires, &distribution{name: w.Name, version: c.Version, by: w.by, contents: c}, ""
	}
	if r.o.Indexes == nil {
		return nil, nil, "no index is asked"
	}
	indexes, why := r.o.Indexes(w.asks)
	if why != "" {
		return nil, nil, why
	}
	x, err := indexes.Wheel(r.ctx, w.Name, w.Spec, r.python.platform())
	if err != nil {
		return nil, nil, err.Error()
	}
	c, err := r.o.readWheel(r.ctx, x)
	if err != nil {
		return nil, nil, err.Error()
	}
	return c.Requires, &distribution{name: w.Name, version: x.Version, by: w.by, contents: c}, ""
}
