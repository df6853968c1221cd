package lint

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// cause is one library that is missing, or one file that cannot be used, with the files that
// meet it.
type cause struct {
	id       string // [Finding.Cause]
	packs    *packs.Packs
	first    *elfdeps.Error // the error that the finding shows
	by       string         // the file that needs the library in first
	verdict  packs.Verdict  // the gravest
	needers  map[string]bool
	affected map[string]bool
	effects  []packs.Effect
	starts   bool   // the image's program does not start
	preload  string // the preloaded library that misses it, or empty
	loading  bool   // a file cannot be loaded because of it; else files only open it by name
	part     bool   // it belongs to a library that the image has and that opens it by name
	front    string // path of that library
	cuda     string // major version of CUDA of a process that misses it, or empty
	order    int    // that of the finding
}

// causes holds the causes of misses by their IDs.
type causes struct {
	packs *packs.Packs
	all   map[string]*cause
}

// of returns the cause of a miss, and adds it if it is new. Misses of one library name have
// one cause. So have errors with one text about one file, and all versions that one library
// is too old for.
func (by *causes) of(e *elfdeps.Error) *cause {
	id := "missing " + e.Name
	key := id
	switch {
	case replay.IsVersion(e):
		series, _, _ := strings.Cut(e.Name, "_")
		id = "version " + e.Subject + " " + series
		key = id
	case !e.Missing():
		// A framework that reaches the file on another way has a finding of its own with
		// the same ID: what fails in one says nothing of the other.
		id, key = unusable(e.Subject, e), "unusable "+e.Subject+" "+e.Message
	}
	c := by.all[key]
	if c == nil {
		c = &cause{id: id, packs: by.packs, needers: map[string]bool{}, affected: map[string]bool{}, order: len(by.all) + 1}
		by.all[key] = c
	}
	return c
}

// unusable returns the cause of an error about a file that cannot be used.
func unusable(file string, e *elfdeps.Error) string {
	return "unusable " + path.Clean(file) + " " + e.Message
}

// notOpened reports whether a loader prints that it cannot open the file. musl prints the
// same of a file that it cannot use.
func notOpened(e *elfdeps.Error) bool {
	return e.Kind == elfdeps.FileError && (e.Musl || e.Message == "cannot open shared object file")
}

// meet adds a file that cannot be loaded, the file that needs the library, and the verdict on
// the miss. The cause keeps the error of the gravest verdict: of several, the one about the
// newest version, or of the needing file that sorts first.
func (c *cause) meet(e *elfdeps.Error, affected string, v packs.Verdict) {
	c.affected[affected] = true
	by := affected
	if e.By != nil && e.By.Real() != "" {
		by = e.By.Real()
	}
	if by != e.Subject { // a truncated file needs nothing
		c.needers[by] = true
	}
	graver := c.first == nil || v.Severity != c.verdict.Severity && v.Severity.AtLeast(c.verdict.Severity)
	as := c.first != nil && v.Severity == c.verdict.Severity
	if graver || as && replay.IsVersion(e) && c.packs.IsNewerVersion(e.Name, c.first.Name) || as && by < c.by && e.Name == c.first.Name {
		c.first, c.by = e, by
	}
	if graver || v.Over(c.verdict) {
		c.verdict = v
	}
}

// effect adds the effects that the cause does not have yet.
func (c *cause) effect(list ...packs.Effect) {
	for _, e := range list {
		if e.Text != "" && !slices.Contains(c.effects, e) {
			c.effects = append(c.effects, e)
		}
	}
}

// finding returns the finding of a cause.
func finding(pass *Pass, c *cause) Finding {
	e := c.first
	if replay.IsVersion(e) {
		return versionFinding(pass, c)
	}
	fam, linked, present := pass.Packs.Family(e.Name), true, pass.Files.Present(e.Name)
	if len(present) == 0 {
		linked, present = false, pass.Files.Otherwise(e.Name)
	}
	rule := ruleOf(pass, c, fam, linked, present)
	f := findingOf(pass, c, rule)
	f.Library, f.Searched, f.Later = e.Name, searched(pass, e.Steps), !c.loading
	if fam != nil {
		f.Family = fam.ID
	}
	if e.Missing() {
		addCandidates(pass, &f, present)
	}
	if rule == "executable-stack" {
		f.Subject = pass.Files.StackLibrary(e)
		f.Cause = unusable(f.Subject, e)
		f.advise(pass.advice("clear-stack", packs.Values{"library": f.Subject})...)
		return f
	}
	if rule == "static-tls" {
		f.Library = path.Base(e.Subject)
		if len(f.NeededBy) == 0 { // it is the opened file itself
			f.NeededBy = []replay.File{pass.Image.File(replay.RealPath(pass.Image.FS, e.Subject))}
		}
		f.advise(pass.advice("more-static-tls", packs.Values{"library": e.Subject})...)
		return f
	}
	if c.preload != "" {
		f.advise(pass.advice("preload-out", packs.Values{"file": c.preload})...)
	}
	f.advise(fixes(pass, &f, fam, c)...)
	if rule == "library-not-on-path" && !c.starts {
		if script := searchedByStart(pass, present); script != "" {
			pass.lower(&f, "start-searches", packs.Values{"script": script})
		}
	}
	if fam != nil && pass.Files.OnJetson() {
		f.Advice = nil
		pass.lower(&f, "jetson", nil)
	}
	return f
}

// searchedByStart returns the script that sets another LD_LIBRARY_PATH than the config for a
// program of the image's start, if the directory of one of some files is in it, or may be; else
// "".
func searchedByStart(pass *Pass, files []string) string {
	for _, p := range pass.Evidence.Started.Programs {
		value, script := p.Env[packs.LdLibraryPath], ""
		if old, _ := pass.Config.Getenv(packs.LdLibraryPath); value == old || p.Maybe != "" || p.Kind == startup.KindShell {
			continue
		}
		for _, l := range p.Chain {
			script = cmp.Or(l.File, script)
		}
		if script == "" {
			continue
		}
		if !startup.Known(value) {
			return script
		}
		for dir := range strings.SplitSeq(value, ":") {
			if dir != "" && slices.ContainsFunc(files, func(f string) bool { return pass.Image.SameDir(dir, path.Dir(f)) }) {
				return script
			}
		}
	}
	return ""
}

// addCandidates adds to the finding about a missing library the files that it may be: present,
// those that layers delete, and other major versions of a GPU library.
func addCandidates(pass *Pass, f *Finding, present []string) {
	f.Removed = pass.Image.Removed(f.Library)
	if f.Family != "" && len(present) == 0 {
		f.Others = pass.Files.Others(f.Library)
	}
	// glibc reports a file for another machine as missing.
	if f.Family == "" || f.Rule != "unusable-library" {
		for _, p := range present {
			f.Present = append(f.Present, pass.Image.File(p))
		}
	}
}

// ruleOf returns the rule of a cause that is not about versions. present are the image's
// files of the library; linked is whether they have the missing name.
func ruleOf(pass *Pass, c *cause, fam *packs.Family, linked bool, present []string) string {
	e := c.first
	switch {
	case e.Unknown:
		return "not-examined"
	case replay.IsStack(e):
		return "executable-stack"
	case e.Kind == elfdeps.TLSError:
		return "static-tls"
	case c.starts && fam == nil && e.Missing():
		return "broken-entrypoint"
	case c.starts && fam == nil:
		return "unusable-library"
	case fam == nil:
		return "unresolved-library"
	case !e.Missing() || path.IsAbs(e.Name) && pass.Image.IsFile(e.Name):
		return "unusable-library"
	case linked:
		return "library-not-on-path"
	case len(present) > 0:
		return "missing-link"
	case c.part:
		return "missing-sublibrary"
	}
	return "missing-library"
}

// findingOf returns the finding of a cause with the fields that all rules fill: the loader's
// message, the files that need the library, and the affected files.
func findingOf(pass *Pass, c *cause, rule string) Finding {
	e := c.first
	f := pass.say(rule, "loader-says", packs.Values{"error": e.Error()})
	f.Kind, f.Cause, f.Effects, f.order = packs.Unusable, c.id, c.effects, c.order
	switch {
	case replay.IsVersion(e):
		f.Kind = packs.Version
	case notOpened(e):
		f.Kind, f.Cause = packs.Missing, "missing "+e.Name
	case e.Unknown:
		f.Kind = packs.Unexamined
	}
	if !e.Musl && path.IsAbs(e.Subject) { // musl's messages name no file
		f.Subject = e.Subject
	}
	f.Affected = slices.Sorted(maps.Keys(c.affected))
	for _, p := range slices.Sorted(maps.Keys(c.needers)) {
		f.NeededBy = append(f.NeededBy, pass.Image.File(p))
	}
	pass.lowerTo(&f, c.verdict)
	return f
}

// newerGlibc returns the newest version of glibc that a file needs and the image's glibc does
// not have, or "".
func newerGlibc(pass *Pass, file string) string {
	const libc = "libc.so.6"
	e, _, ok := pass.Image.FS.Lookup(file)
	if !ok || e.Object == nil {
		return ""
	}
	has := func(version string) bool {
		return slices.ContainsFunc(slices.Concat(pass.Files.Named[libc], pass.Files.Sonames[libc]), func(p string) bool {
			c, _, ok := pass.Image.FS.Lookup(p)
			return ok && c.Object != nil && c.Object.Machine == e.Object.Machine && slices.Contains(c.Object.VersionDefs, version)
		})
	}
	newest := ""
	for _, n := range e.Object.VersionNeeds {
		for _, v := range n.Versions {
			if n.File == libc && !v.Weak && strings.HasPrefix(v.Name, "GLIBC_") && !has(v.Name) && (newest == "" || pass.Packs.IsNewerVersion(v.Name, newest)) {
				newest = v.Name
			}
		}
	}
	return newest
}

// versionFinding returns the finding for a library that lacks a symbol version.
func versionFinding(pass *Pass, c *cause) Finding {
	e := c.first
	if e.Kind == elfdeps.InnerError {
		f := findingOf(pass, c, "stale-version-table")
		f.Library = e.Name
		f.advise(pass.advice("restore-needed", packs.Values{"library": e.Name})...)
		return f
	}
	rule, newer := "version-not-found", pass.Files.NewerCopies(e.Subject, e.Name)
	if len(newer) > 0 {
		rule = "older-copy-first"
	}
	f := findingOf(pass, c, rule)
	f.Library, f.Version = path.Base(e.Subject), e.Name
	if found, _, ok := pass.Image.FS.Lookup(e.Subject); ok {
		f.Present = []replay.File{pass.Image.File("/" + found.Path)}
	}
	if len(newer) > 0 {
		f.BoundTo, f.Present = &f.Present[0], newer
		f.advise(olderCopyFix(pass, f.BoundTo.Path, newer[0].Path)...)
		return f
	}
	if needed := newerGlibc(pass, c.by); needed != "" && !strings.HasPrefix(e.Name, "GLIBC_") {
		// A newer copy of the library alone does not help.
		if v := pass.Packs.VersionFix(needed); v != nil {
			f.advise(packs.Row(v.Fix, packs.Values{"version": needed, "number": pass.Packs.SymbolVersion(needed).Number, "library": "libc.so.6"}))
			return f
		}
	}
	if v := pass.Packs.VersionFix(e.Name); v != nil {
		f.advise(packs.Row(v.Fix, packs.Values{"version": e.Name, "number": pass.Packs.SymbolVersion(e.Name).Number, "library": f.Library}))
	}
	return f
}
