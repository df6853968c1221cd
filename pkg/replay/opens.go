package replay

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// openAll opens what the modules of a process open by name: first the required parts of
// libraries, then the framework's later opens, then optional parts.
func (pl *plans) openAll(r *Process) {
	pl.openLibraries(r, false)
	if r.In != nil {
		for i := range r.In.Later {
			o := &r.In.Later[i]
			pl.openOne(r, r.openers(r.In.Home, o.By), o, nil)
			pl.openLibraries(r, false)
		}
	}
	pl.openLibraries(r, true)
}

// openLibraries opens the optional or the required parts of all loaded libraries, and of
// those that they load.
func (pl *plans) openLibraries(r *Process, optional bool) {
	for again := true; again; {
		again = false
		for _, m := range slices.Clone(r.proc.Objects) {
			for _, d := range pl.opening(m) {
				for i := range d.Opens {
					o := &d.Opens[i]
					if r.done[openKey{m, o}] || o.Optional != optional {
						continue
					}
					r.done[openKey{m, o}] = true
					again = true
					pl.openOne(r, []*elfdeps.Module{m}, o, d)
				}
			}
		}
	}
}

// opening returns the rows of the packs about the opens of a module.
func (pl *plans) opening(m *elfdeps.Module) []*packs.Dlopens {
	key := [2]string{m.Object.Soname, path.Base(m.Path)}
	if m.Object.Named != nil && len(m.Object.Named.Crates) > 0 {
		key = [2]string{"", m.Real()}
	}
	list, ok := pl.openers[key]
	if !ok {
		for _, d := range pl.re.packs.Dlopens {
			if _, crate := d.CrateIn(m.Object); crate || d.IsOpenedBy(m) {
				list = append(list, d)
			}
		}
		pl.openers[key] = list
	}
	return list
}

// openOne tries the names of one open for each of the modules that may do it, until one
// succeeds. It records the miss of the last one only.
func (pl *plans) openOne(r *Process, openers []*elfdeps.Module, o *packs.Open, d *packs.Dlopens) {
	for i, by := range openers {
		had := len(r.Missed)
		pl.openBy(r, by, o, d)
		if len(r.Missed) == had {
			return
		}
		if i < len(openers)-1 {
			r.Missed = r.Missed[:had]
		}
	}
}

// openBy tries the names of an open for one module, and records a miss with its meaning.
// by is nil for the program; d is nil for an open of the framework.
func (pl *plans) openBy(r *Process, by *elfdeps.Module, o *packs.Open, d *packs.Dlopens) {
	names := pl.namesOf(r, by, o)
	if !pl.isOpened(r, by, o, d, names) {
		return
	}
	means, ok := pl.meaningOf(r, by, o, d)
	if !ok || len(names) == 0 {
		return
	}
	names = append(names, pl.beside(by, o, names)...)
	failed, name := pl.tryNames(r, by, o, names)
	if failed == nil {
		if !o.Optional {
			r.opened++
		}
		return
	}
	if failed.Kind == elfdeps.CutError {
		pl.cut(&means, failed)
	}
	if means.optional || failed.Unknown || pl.re.packs.FromDriver(failed.Name) || o.IfPresent && failed.Missing() && !pl.re.files.hasOther(names) {
		return
	}
	if e := symbolError(failed); e != nil && r.Program == "" && !pl.lacks(r, e.Name) {
		return // the program, which is not known, may define the symbol
	}
	m := MissedOpen{By: r.Program, Name: name, part: o.Part, Err: failed, Verdict: means.verdict, Cuda: pl.re.files.ProcessCUDA(r)}
	if by != nil {
		m.By = by.Real()
	}
	if d != nil {
		m.Front = by.Object.Soname
	}
	m.Effect, m.Also = pl.effects(means, failed, append(pl.toolkit(m.Cuda), "{name}", name, "{names}", strings.Join(names, ", ")))
	r.Missed = append(r.Missed, m)
}

// effects returns the effects of a failed open, with the placeholders of the packs' texts
// replaced by values.
func (pl *plans) effects(means meaning, failed *elfdeps.Error, values []string) (effect packs.Effect, also []packs.Effect) {
	effect = packs.Effect{Text: means.effect, Error: pl.re.packs.Reads(means.text, failed, values...)}
	for _, a := range means.also {
		also = append(also, packs.Effect{Text: a.Effect, Error: pl.re.packs.Reads(a.Error, failed, values...)})
	}
	return effect, also
}

// isOpened reports whether the release of the module that opens, or of the framework,
// tries these names. If the release is not known, it does if the image has one of them,
// or had it.
func (pl *plans) isOpened(r *Process, by *elfdeps.Module, o *packs.Open, d *packs.Dlopens, names []string) bool {
	var rel version.Release
	if d != nil {
		rel = pl.re.packages.ReleaseOfModule(by)
		if d.Crate != "" {
			rel, _ = d.CrateIn(by.Object)
		}
		if o.Function != "" && (by.Object.Named == nil || !slices.Contains(by.Object.Named.Functions, o.Function)) {
			return false
		}
		if o.Variable != "" && !pl.namesLibrary(by, o) {
			return false
		}
	} else {
		rel = r.In.release
		if fits, known := r.In.builtFor(o); known {
			return fits
		}
	}
	fits, known := rel.Within(o.Versions)
	return known && fits || !known && pl.re.files.hasAny(names)
}

// namesLibrary reports whether an opener that takes a path from a variable is left with its
// names, of which the image has no file.
func (pl *plans) namesLibrary(by *elfdeps.Module, o *packs.Open) bool {
	value, _ := pl.re.config.Getenv(o.Variable)
	return value == "" && by.Object.Named != nil && slices.Contains(by.Object.Named.Variables, o.Variable) &&
		!slices.ContainsFunc(o.Names, func(n string) bool { return len(pl.re.files.NamesLike(n+"*")) > 0 })
}

// builtFor reports whether the framework's record of its build has the versions for which
// it opens a library. known is false if there is no such record, or o asks for none.
func (in *Install) builtFor(o *packs.Open) (fits, known bool) {
	if in.build == nil {
		return false, false
	}
	fits = true
	for of, value := range map[string]string{"cuda": in.build.CUDA, "cudnn": in.build.CUDNN} {
		if r := packs.ParseRelease(value); o.Built[of] != "" && r != nil {
			within, sure := r.Within(o.Built[of])
			known, fits = known || sure, fits && within
		}
	}
	return fits, known
}

// namesOf returns the names that an open tries. It leaves out names with a version that
// is not known, and replaces a pattern by the names in the image.
func (pl *plans) namesOf(r *Process, by *elfdeps.Module, o *packs.Open) []string {
	var list []string
	values := pl.toolkit(pl.re.files.ProcessCUDA(r))
	if by != nil {
		rel := pl.re.packages.ReleaseOfModule(by)
		values = append(values, "{release}", packs.Exactly(rel, 3), "{minor}", packs.Exactly(rel, 2), "{major}", packs.MajorOf(by.Object.Soname))
	}
	for _, n := range o.Names {
		if hasUnknown(n, values) {
			continue
		}
		n = packs.Expand(n, values...)
		if !strings.ContainsAny(n, "*?[{") {
			list = append(list, n)
			continue
		}
		list = append(list, pl.re.files.NamesLike(n)...)
	}
	return list
}

// hasUnknown reports whether a name has a placeholder whose value is empty. values are
// placeholders, each followed by its value.
func hasUnknown(name string, values []string) bool {
	for i := 0; i < len(values); i += 2 {
		if values[i+1] == "" && strings.Contains(name, values[i]) {
			return true
		}
	}
	return false
}

// toolkit returns the placeholders of names and texts that depend on the major version of
// CUDA, each followed by its value.
func (pl *plans) toolkit(cuda string) []string {
	t := &packs.Toolkit{CUDA: cuda}
	for _, known := range pl.re.packs.Toolkits {
		if known.CUDA == cuda {
			t = known
		}
	}
	return []string{"{cuda}", cuda, "{cudart}", t.Cudart, "{cublas}", t.Cublas, "{nvrtc}", t.Nvrtc, "{cufft}", t.Cufft, "{cusolver}", t.Cusolver, "{cusparse}", t.Cusparse}
}

// beside returns the files called one of names beside the module that opens, if the open
// tries them.
func (pl *plans) beside(by *elfdeps.Module, o *packs.Open, names []string) []string {
	if !o.Beside || by == nil {
		return nil
	}
	var list []string
	for _, n := range names {
		if p := path.Join(path.Dir(by.Real()), n); pl.re.img.IsFile(p) {
			list = append(list, p)
		}
	}
	return list
}

// tryNames opens the first of names that can be opened. If none can, it returns the error
// that explains most, and its name.
func (pl *plans) tryNames(r *Process, by *elfdeps.Module, o *packs.Open, names []string) (failed *elfdeps.Error, failedName string) {
	best := -2
	for i, name := range names {
		e, ok := pl.openName(r, by, name, packs.FlagsOf(o.Flags))
		switch {
		case ok:
			return nil, ""
		case e == nil:
			continue
		case e.Kind == elfdeps.CutError:
			return e, name // the process is killed
		}
		if rank := explains(e, name, i, len(names)); rank > best {
			failed, failedName, best = e, name, rank
		}
	}
	return failed, failedName
}

// openName opens a library by its name, and drops its misses from the process. If it
// cannot be opened, it returns the error, or nil for an error of another kind.
func (pl *plans) openName(r *Process, by *elfdeps.Module, name string, flags elfdeps.Flags) (e *elfdeps.Error, ok bool) {
	had, loaded := len(r.proc.Misses), len(r.proc.Objects)
	_, err := r.proc.DlopenFlags(by, name, flags)
	misses := slices.Concat(pl.re.files.Real(r.proc.Misses[had:]), pl.re.files.cutOf(r.proc.Objects, loaded))
	r.proc.Misses = r.proc.Misses[:had]
	switch {
	case err == nil && len(misses) == 0:
		return nil, true
	case errors.As(err, &e):
		return e, false
	case len(misses) > 0:
		return misses[0], false
	}
	return nil, false
}

// explains ranks the error of the i-th of n names: first the error of a file that exists
// and cannot be used or misses something, then that of the name with the major version
// alone, then that of the last name, and at last that of a path.
func explains(e *elfdeps.Error, name string, i, n int) int {
	switch {
	case !e.Missing() || e.Name != name:
		return 2 * n
	case strings.Contains(name, "/"):
		return -1
	case packs.MajorOf(name) != "" && strings.HasSuffix(name, ".so."+packs.MajorOf(name)):
		return n
	}
	return i
}

// lacks reports whether no file of the image defines a symbol that a process without a
// known program needs. It answers the first maxElsewhere/8 questions only; then, and if
// the framework has a host program, it is false.
func (pl *plans) lacks(r *Process, symbol string) bool {
	if pl.asked++; pl.asked > maxElsewhere/8 || r.In.Host != "" {
		return false
	}
	return len(pl.re.files.nowhere([]Unbound{{Symbol: symbol, here: hereOf(r.proc)}})) > 0
}

// meaning is the meaning of a failed open in a process.
type meaning struct {
	verdict  packs.Verdict
	effect   string
	text     string // the error that the user sees, with placeholders
	also     []packs.Also
	optional bool
}

// meaningOf returns the meaning of a failed open: that of its row in the packs, changed
// by the framework's use of the library. ok is false if the framework never opens it.
func (pl *plans) meaningOf(r *Process, by *elfdeps.Module, o *packs.Open, d *packs.Dlopens) (_ meaning, ok bool) {
	m := meaning{effect: o.Effect, text: o.Error, optional: o.Optional, verdict: packs.Verdict{Severity: cmp.Or(o.Severity, packs.Error)}}
	if d != nil && d.Crate != "" && pl.re.packs.Family(o.Names[0]) != nil && !pl.re.config.wantsGPU() {
		m.verdict = pl.re.packs.Verdict("meant-without-gpu", nil)
	}
	if d == nil || r.In == nil {
		return m, true
	}
	u := r.In.UseOf(d.ID + "/" + o.Part)
	switch {
	case u == nil:
		return m, true
	case u.Never:
		return m, false
	case u.Own != "" && slices.Contains(pl.re.files.Own(r.In, by.Object.Soname), by.Real()):
		m.verdict = pl.re.packs.Verdict("own-copy", packs.Values{"why": u.Own})
	case len(u.AskedBy) > 0 && surelyLacks(pl.re.ev.Packages, r.In.Home, u.AskedBy) && !pl.re.img.mentions(u.AskedBy):
		m.verdict = pl.re.packs.Verdict("not-asked", packs.Values{"why": u.Why})
	default:
		m.verdict.Severity = cmp.Or(u.Severity, m.verdict.Severity)
	}
	m.effect, m.text, m.also = cmp.Or(u.Effect, m.effect), cmp.Or(u.Error, m.text), u.Also
	m.optional = m.optional && u.Effect == "" || u.Optional
	return m, true
}

// cut changes the meaning of an open to that of a truncated file: the open kills the
// process, even if it is optional.
func (pl *plans) cut(m *meaning, e *elfdeps.Error) {
	if m.optional || m.verdict.Severity == packs.Note {
		m.optional = false
		if m.verdict.Clause == "" {
			m.verdict = pl.re.packs.Verdict("cut-and-optional", nil)
		}
	}
	if m.effect == "" {
		m.effect = pl.re.packs.Phrase("killed-when-opened", packs.Values{"library": path.Base(e.Subject)})
	} else {
		m.effect = pl.re.packs.Phrase("killed", packs.Values{"effect": m.effect})
	}
}
