package lint

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// condaActivateOnly returns a finding for each LD_LIBRARY_PATH or LD_PRELOAD that is set only
// when a conda environment is activated, which `docker run IMAGE python` does not do.
func condaActivateOnly(pass *Pass) []Finding {
	if pass.Image.Config == nil || pass.Config.Activates() {
		return nil
	}
	var list []Finding
	for _, a := range pass.Inventory.Activations {
		if a.Name != packs.LdLibraryPath && a.Name != "LD_PRELOAD" {
			continue
		}
		if _, set := pass.Config.Getenv(a.Name); set {
			continue
		}
		value := strings.NewReplacer("${CONDA_PREFIX}", a.Prefix, "$CONDA_PREFIX", a.Prefix).Replace(a.Value)
		clause, v := "computed", packs.Values{"variable": a.Name, "prefix": a.Prefix}
		var edit packs.Values
		if !strings.ContainsAny(value, "$`") {
			clause, edit = "set", packs.Values{map[string]string{packs.LdLibraryPath: "path", "LD_PRELOAD": "preload"}[a.Name]: value}
			maps.Copy(v, withEdit(pass, "conda-activate-only", edit))
		}
		f := pass.say("conda-activate-only", clause, v)
		f.Subject, f.Present, f.Values = a.Name, []replay.File{pass.Image.File(a.Path)}, edit
		list = append(list, f)
	}
	return list
}

// shellExport matches a command that writes LD_LIBRARY_PATH to a file that a shell reads.
var shellExport = regexp.MustCompile(`LD_LIBRARY_PATH=["']?([^\s"';&|>]+)[^&|]*>>?\s*["']?(\S*(?:\.bashrc|\.bash_profile|\.profile|\.zshrc|/etc/profile|/etc/profile\.d/[\w.-]+|/etc/bash\.bashrc|/etc/environment))\b`)

// maxHistoryLine limits the build steps that are searched, in bytes.
const maxHistoryLine = 1 << 14

// shellOnly returns a finding for each search path that a build step writes to a file that
// only shells read.
func shellOnly(pass *Pass) []Finding {
	if pass.Image.Config == nil || pass.Config.Activates() || pass.Config.Interactive() {
		return nil
	}
	known := map[string]bool{}
	for dir := range pass.Loaders.SearchDirs() {
		known[replay.RealPath(pass.Image.FS, dir)] = true
	}
	var list []Finding
	for _, h := range pass.Image.Config.History {
		if len(h.CreatedBy) > maxHistoryLine {
			continue
		}
		export := shellExport.FindStringSubmatch(h.CreatedBy)
		if export == nil {
			continue
		}
		var lost []string
		for dir := range strings.SplitSeq(export[1], ":") {
			real := replay.RealPath(pass.Image.FS, dir)
			if strings.HasPrefix(dir, "/") && !known[real] && pass.Files.HasLibraries(real) {
				lost = append(lost, dir)
			}
		}
		if len(lost) == 0 {
			continue
		}
		f := shellOnlyFinding(pass, export[1], export[2], strings.Join(lost, ":"))
		if !missedIn(pass, lost) {
			pass.lower(&f, "unmissed", nil)
		}
		list = append(list, f)
	}
	return list
}

// shellOnlyFinding returns the finding for a search path that a build step writes to a file of
// a shell. lost are its directories that the loader does not search.
func shellOnlyFinding(pass *Pass, path, file, lost string) Finding {
	v := withEdit(pass, "shell-only-path", packs.Values{"lost": lost})
	v["path"], v["file"] = path, file
	f := pass.say("shell-only-path", "only-shell", v)
	f.Subject, f.Values = file, packs.Values{"lost": lost}
	return f
}

// missedIn reports whether the directories have a library that a framework, the image's
// program, or a file that needs GPU libraries does not find.
func missedIn(pass *Pass, dirs []string) bool {
	inDirs := func(p string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return replay.RealPath(pass.Image.FS, dir) == path.Dir(p) })
	}
	missed := func(e *elfdeps.Error) bool {
		return e.Missing() && slices.ContainsFunc(pass.Files.Present(e.Name), inDirs)
	}
	for _, r := range pass.Evidence.Processes {
		if slices.ContainsFunc(r.Missed, func(m replay.MissedOpen) bool { return m.Verdict.Severity != packs.Note && missed(m.Err) }) {
			return true
		}
	}
	for _, in := range pass.Evidence.Installs {
		for _, f := range in.Failures {
			if slices.ContainsFunc(f.Misses, missed) {
				return true
			}
		}
	}
	start := pass.Config.Entry().Path
	return slices.ContainsFunc(pass.Files.Objects, func(o *replay.Object) bool {
		return slices.ContainsFunc(o.Misses, func(e *elfdeps.Error) bool {
			return missed(e) && (judge(pass, o, e).Severity != packs.Note || o.Path == start)
		})
	})
}
