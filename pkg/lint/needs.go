package lint

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// unmetNeeds returns a finding for each need of installed distributions that the image does
// not meet, such as a compiler, a header or a tool.
func unmetNeeds(pass *Pass) []Finding {
	var list []Finding
	for _, n := range pass.Packs.Needs {
		if len(n.Program) > 0 {
			list = append(list, programNeeds(pass, n)...)
			continue
		}
		users := usersOf(pass, n)
		if len(users) == 0 {
			continue
		}
		var asks []string
		first, site, cuda := users[0], "", ""
		for _, p := range users {
			asks, site = append(asks, p.Path), cmp.Or(site, p.Dir)
			cuda = cmp.Or(cuda, replay.Dist{Name: packs.Normal(p.Name)}.Cuda())
		}
		f := pass.say("feature-needs", "need", packs.Values{"message": n.Message, "effect": n.Effect, "error": packs.Fill(n.Error, packs.Values{"site": site})})
		f.Severity = f.Severity.AtMost(n.Severity)
		of := f.Effects
		f.Effects = nil
		for _, failure := range failuresWith(pass, n.Raises) { // what ends is the first to say
			f.addEffects(failure.Effects...)
		}
		f.addEffects(of...)
		f.NeededBy, f.Affected = pass.Image.FilesOf(asks), asks
		cuda = cmp.Or(cuda, wantedCUDA(pass, &f, ""))
		advice := pass.adviceOf(&packs.Clause{Fix: n.Fix}, packs.Values{"cuda": cuda, "site": site, "package": first.Name, "version": first.Version})
		if len(advice) > 0 && n.Pip != nil && (cuda != "" || !n.Pip.OfCUDA()) {
			advice[0].Pip = n.Pip
		}
		if len(advice) > 0 {
			advice[0].Packages = n.Packages
		}
		f.advise(advice...)
		list = append(list, f)
	}
	return list
}

// usersOf returns the distributions that have a need which the image does not meet.
func usersOf(pass *Pass, n *packs.Need) []*inventory.Package {
	var list []*inventory.Package
	for _, p := range pass.Inventory.Packages {
		if p.Kind == inventory.Wheel && n.Asks(p) && (len(n.Present) == 0 || isServed(pass, n.Present, p)) && !isServed(pass, n.Any, p) {
			list = append(list, p)
		}
	}
	return list
}

// failuresWith returns the imports that surely end a program with an error.
func failuresWith(pass *Pass, message string) []*replay.StartFailure {
	var list []*replay.StartFailure
	for _, s := range pass.Evidence.Starts {
		for i := range s.Failures {
			if f := &s.Failures[i]; f.Type+": "+f.Failure.Text == message && endsImport(s, f) {
				list = append(list, f)
			}
		}
	}
	return list
}

// ofNeed reports whether an error is that of a need which the image does not meet: the finding
// of the need tells of it.
func ofNeed(pass *Pass, message string) bool {
	return slices.ContainsFunc(pass.Packs.Needs, func(n *packs.Need) bool { return n.Raises == message && len(usersOf(pass, n)) > 0 })
}

// programNeeds returns a finding if a program of the image's start needs another one for an option
// of its command, and does not have it. The first such program is enough.
func programNeeds(pass *Pass, n *packs.Need) []Finding {
	for i := range pass.Evidence.Started.Programs {
		p := &pass.Evidence.Started.Programs[i]
		if p.Path == "" || !n.AsksOf(p.Args) || !lacksCommands(pass, n.Any, p) {
			continue
		}
		var chain []string
		for _, l := range p.Chain {
			chain = append(chain, l.String())
		}
		f := pass.say("feature-needs", "program", packs.Values{"message": n.Message, "effect": n.Effect, "error": n.Error, "chain": strings.Join(chain, " → ")})
		f.Severity = f.Severity.AtMost(n.Severity)
		if !p.Main || p.Caught || p.Maybe != "" {
			pass.lowerTo(&f, pass.Packs.Verdict("start-goes-on", nil))
		}
		f.NeededBy, f.Affected = pass.Image.FilesOf([]string{p.Path}), []string{p.Path}
		advice := pass.adviceOf(&packs.Clause{Fix: n.Fix}, nil)
		if len(advice) > 0 {
			advice[0].Packages = n.Packages
		}
		f.advise(advice...)
		return []Finding{f}
	}
	return nil
}

// lacksCommands reports whether a program surely finds none of some commands ("command:NAME") on
// its PATH: each directory is known, and nothing is mounted there.
func lacksCommands(pass *Pass, commands []string, p *startup.Program) bool {
	value, set := p.Env["PATH"]
	if !set {
		value = "/usr/local/bin:/usr/bin:/bin"
	}
	var tried []string
	for dir := range strings.SplitSeq(value, ":") {
		if !startup.Known(dir) || !path.IsAbs(dir) {
			return false
		}
		for _, c := range commands {
			tried = append(tried, path.Join(dir, strings.TrimPrefix(c, "command:")))
		}
	}
	return !slices.ContainsFunc(tried, pass.Image.IsFile) && !pass.Config.MayBeMounted(tried)
}

// isServed reports whether the image has something that [packs.Need.Any] or
// [packs.Need.Present] names, where the distribution p looks for it.
func isServed(pass *Pass, names []string, p *inventory.Package) bool {
	return slices.ContainsFunc(names, func(name string) bool { return hasNeeded(pass, name, p) })
}

// hasNeeded reports whether the image has the thing that one name of [packs.Need.Any] names.
func hasNeeded(pass *Pass, name string, p *inventory.Package) bool {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "command":
		return onPATH(pass, rest)
	case "name":
		return len(pass.Files.NamesLike(rest)) > 0
	case "gone":
		return leadsNowhere(pass, strings.Split(rest, ","))
	case "loader":
		_, found := pass.Loaders.NamedFor(p, rest)
		return found
	case "toolkit":
		lib, below, _ := strings.Cut(rest, "/")
		at, found := pass.Loaders.NamedFor(p, lib)
		root := toolkitOf(at)
		return found && root != "" && len(pass.Files.Glob(root, below)) > 0
	case "dist":
		return slices.ContainsFunc(pass.Packages.SearchPath(p.Dir), func(dir string) bool {
			return slices.ContainsFunc(pass.Packages.DistributionsAt(dir), func(d replay.Dist) bool { return packs.Match(rest, d.Name) })
		})
	}
	if variable, below, ok := strings.Cut(name, "/"); strings.HasPrefix(variable, "$") {
		value, _ := pass.Config.Getenv(variable[1:])
		return value != "" && (!ok || len(pass.Files.Glob(value, below)) > 0)
	}
	if path.IsAbs(name) {
		return len(pass.Files.Glob("/", name)) > 0
	}
	return slices.ContainsFunc(pass.Packages.SearchPath(p.Dir), func(dir string) bool { return len(pass.Files.Glob(dir, name)) > 0 })
}

// leadsNowhere reports whether the first of the variables that is set is empty or names a
// missing directory.
func leadsNowhere(pass *Pass, variables []string) bool {
	for _, name := range variables {
		if value, set := pass.Config.Getenv(name); set {
			e, _, ok := pass.Image.FS.Lookup(value)
			return value == "" || path.IsAbs(value) && (!ok || !e.IsDir())
		}
	}
	return false
}

// toolkitOf returns the directory ROOT of the CUDA toolkit that has a library at
// ROOT/lib64/…, ROOT/lib/… or ROOT/targets/MACHINE/lib/…, or "" (derive_ctk_root of
// cuda-pathfinder).
func toolkitOf(library string) string {
	dir := path.Dir(library)
	if base := path.Base(dir); base != "lib" && base != "lib64" {
		return ""
	}
	root := path.Dir(dir)
	if path.Base(path.Dir(root)) == "targets" {
		return path.Dir(path.Dir(root))
	}
	return root
}

// onPATH reports whether a program is in a directory of PATH or of its default.
func onPATH(pass *Pass, name string) bool {
	value, _ := pass.Config.Getenv("PATH")
	return slices.ContainsFunc(strings.Split(value+":/usr/local/bin:/usr/bin:/bin", ":"), func(dir string) bool {
		return strings.HasPrefix(dir, "/") && pass.Image.IsFile(path.Join(dir, name))
	})
}
