package lint

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/nearest"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// Entrypoint returns the path of the ELF file that the image's ENTRYPOINT or CMD starts,
// through PATH and the interpreters of scripts. It returns an error if the image starts none;
// the text is that of the finding.
func Entrypoint(img *replay.Image, set *packs.Packs) (string, error) {
	pass := &Pass{Image: img, Packs: set, Config: replay.NewConfig(img, set)}
	e := pass.Config.Entry()
	switch {
	case e.Name == "":
		return "", errors.New("the image has no ENTRYPOINT and no CMD: name a file")
	case e.Problem != "":
		return "", errors.New(pass.say(brokenEntrypoint, e.Problem, e.Values).Message)
	}
	return e.Path, nil
}

const brokenEntrypoint = "broken-entrypoint"

// entrypoint returns a finding for a program that fails before its loader runs. The function
// missed covers the libraries that it lacks.
func entrypoint(pass *Pass) []Finding {
	e := pass.Config.Entry()
	clause, v := pass.Loaders.Unstartable(e)
	if clause == "" {
		return absent(pass)
	}
	f := pass.say(brokenEntrypoint, clause, v)
	pass.also(&f, "not-started", nil)
	if len(f.Advice) == 0 {
		fix, v := programFix(pass, e)
		pass.also(&f, fix, v)
	}
	if e.Path != "" {
		f.Subject, f.NeededBy, f.Affected = e.Path, []replay.File{pass.Image.File(e.Path)}, []string{e.Path}
	}
	return []Finding{f}
}

// absent returns a finding for each program that a script or a supervisor of the image's start
// runs, that is not there, and with which the container ends, or a service.
func absent(pass *Pass) []Finding {
	var list []Finding
	started := pass.Evidence.Started
	if a := started.Absent; a != nil && !pass.Config.MayBeMounted(a.Tried) {
		list = append(list, absentProgram(pass, a, "absent"))
	}
	if a := started.AbsentScript; a != nil && !pass.Config.MayBeMounted(a.Tried) && !pass.Config.IsMount(path.Dir(a.Name)) {
		f := absentProgram(pass, a, "absent")
		if a.Near == "" {
			pass.lower(&f, "perhaps-mounted", nil)
		} else {
			f.Present = []replay.File{pass.Image.File(a.Near)}
		}
		list = append(list, f)
	}
	seen := map[string]bool{}
	for _, a := range started.Services {
		if !seen[a.Name] && !pass.Config.MayBeMounted(a.Tried) {
			seen[a.Name] = true
			f := absentProgram(pass, a, "service")
			pass.lower(&f, "start-goes-on", nil)
			list = append(list, f)
		}
	}
	return list
}

// absentProgram returns the finding of a clause for a program that is not there.
func absentProgram(pass *Pass, a *startup.Absent, clause string) Finding {
	var chain []string
	for _, l := range a.Chain {
		chain = append(chain, l.String())
	}
	f := pass.say(brokenEntrypoint, clause, packs.Values{"error": a.Error, "name": a.Name, "chain": strings.Join(chain, " → ")})
	fix, v := "install", packs.Values{"name": a.Name, "by": cmp.Or(a.File, "CMD")}
	if link, _, _ := pass.Image.FS.Lstat(a.Link); a.Link != "" {
		fix, v = "dangling", packs.Values{"target": link.Link, "link": a.Link}
	} else if a.Near != "" {
		fix, v = "near", packs.Values{"near": a.Near, "by": v["by"], "name": a.Name}
	} else if clause, values := otherProgram(pass, a.Name); clause != "" {
		fix, v = clause, values
	}
	pass.also(&f, fix, v)
	f.Subject = a.Name
	if a.File != "" {
		f.NeededBy, f.Affected = []replay.File{pass.Image.File(a.File)}, []string{a.File}
	}
	return f
}

// programFix returns the clause with the fix for a program that is not found.
func programFix(pass *Pass, e replay.Entry) (clause string, v packs.Values) {
	if e.Link != "" {
		link, _, _ := pass.Image.FS.Lstat(e.Link)
		return "dangling", packs.Values{"target": link.Link, "link": e.Link}
	}
	if clause, v := otherProgram(pass, e.Name); clause != "" && e.Path == "" {
		return clause, v
	}
	if name := e.Values["name"]; e.Problem == "not-there" && e.Path != "" && name != e.Name {
		env, old := path.Dir(path.Dir(e.Path)), path.Dir(path.Dir(name))
		_, _, there := pass.Image.FS.Lstat(old)
		if pass.Image.IsFile(env+"/pyvenv.cfg") && pass.Image.IsFile(path.Join(path.Dir(e.Path), path.Base(name))) && path.Base(path.Dir(name)) == "bin" && !there {
			return "first-line-moved", packs.Values{"env": env, "old": old}
		}
		return "first-line", packs.Values{"script": e.Path, "name": name}
	}
	return "correct", nil
}

// otherProgram returns the clause with what the image has in place of a program that is not
// found, or "": python3 for python, a program of the name elsewhere, or a Python package of the
// name that can be run (`python -m uvicorn`).
func otherProgram(pass *Pass, name string) (clause string, v packs.Values) {
	base := path.Base(name)
	if p, ok := pass.Config.Executable("python3"); ok && name == "python" {
		return "python3", packs.Values{"path": p, "link": path.Join(path.Dir(p), name)}
	}
	old, _ := pass.Config.Getenv("PATH")
	switch found := programElsewhere(pass, base); {
	case found != "" && base != name:
		return "moved", packs.Values{"path": found, "name": name}
	case found != "":
		return "elsewhere", packs.Values{"path": found, "dir": path.Dir(found), "value": old}
	}
	for p := range pass.Packages.Environments() {
		for _, site := range p.Sites {
			if p.Interpreter != "" && pass.Image.IsFile(path.Join(site, base, "__main__.py")) {
				return "as-module", packs.Values{"python": path.Base(p.Interpreter), "module": base, "dir": path.Join(site, base), "name": name}
			}
		}
	}
	if near, at := nearProgram(pass, name); near != "" {
		return "misspelt", packs.Values{"near": near, "path": at, "name": name}
	}
	return "", nil
}

// nearProgram returns the program on PATH whose name is nearest to a name without a slash, and
// its path, or "": pyhton3 was perhaps meant to be python3.
func nearProgram(pass *Pass, name string) (near, at string) {
	if strings.Contains(name, "/") || len(name) < 4 {
		return "", ""
	}
	old, _ := pass.Config.Getenv("PATH")
	paths := map[string]string{}
	for _, dir := range strings.Split(cmp.Or(old, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ":") {
		list, _ := fs.ReadDir(pass.Image.FS, strings.TrimPrefix(replay.RealPath(pass.Image.FS, dir), "/"))
		for _, e := range list {
			if _, have := paths[e.Name()]; !have && !e.IsDir() {
				paths[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	near = nearest.Of(name, slices.Sorted(maps.Keys(paths)))
	if near == "" || near[0] != name[0] {
		return "", ""
	}
	return near, paths[near]
}

// programElsewhere returns the first program of a name in a directory bin of the image, or "".
func programElsewhere(pass *Pass, name string) string {
	found := ""
	for e := range pass.Image.FS.All() {
		if e.Mode&0o111 != 0 && !e.IsDir() && path.Base(e.Path) == name && path.Base(path.Dir(e.Path)) == "bin" && (found == "" || "/"+e.Path < found) {
			found = "/" + e.Path
		}
	}
	return found
}

// interpreters returns a finding for each loader that programs need and the image lacks.
func interpreters(pass *Pass) []Finding {
	byInterp := map[string][]string{}
	start := pass.Config.Entry().Path
	for _, o := range pass.Files.Objects {
		if o.Path != start && o.ELF.Interp != "" && o.Loader == nil && replay.IsProgram(o.ELF) {
			byInterp[o.ELF.Interp] = append(byInterp[o.ELF.Interp], o.Path)
		}
	}
	var list []Finding
	for _, interp := range slices.Sorted(maps.Keys(byInterp)) {
		list = append(list, interpreterFinding(pass, interp, byInterp[interp]))
	}
	return list
}

// interpreterFinding returns the finding for the programs that need a loader which the image
// lacks.
func interpreterFinding(pass *Pass, interp string, programs []string) Finding {
	clause := "not-there"
	if pass.Image.IsFile(interp) {
		clause = "not-elf"
	}
	f := pass.say("missing-interpreter", clause, packs.Values{"path": programs[0], "interpreter": interp})
	f.Subject, f.Affected = interp, programs
	python := false
	for _, p := range programs {
		if framework := pythonsOf(pass, pass.Files.ByPath[p]); framework != "" {
			python = true
			pass.also(&f, "python", packs.Values{"framework": framework})
		}
	}
	switch {
	case pass.Loaders.Primary == nil:
		pass.also(&f, "no-loader", nil)
		if !python && !forGPU(pass) {
			pass.lower(&f, "not-for-gpu", nil)
		}
	case !python:
		pass.lower(&f, "one-program", nil)
	}
	return f
}

// forGPU reports whether an image has a framework, or a file that needs a GPU library.
func forGPU(pass *Pass) bool {
	return len(pass.Evidence.Installs) > 0 || slices.ContainsFunc(pass.Files.Objects, pass.Files.IsRoot)
}
