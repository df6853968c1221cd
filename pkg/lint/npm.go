package lint

import (
	"cmp"
	"debug/elf"
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// npmPackage is an installed package of npm.
type npmPackage struct {
	dir           string // below a node_modules; there need not be such a directory
	name, version string // by package.json, else the name by dir and no version
}

// String returns the name and the version.
func (p *npmPackage) String() string { return strings.TrimSpace(p.name + " " + p.version) }

// npmOf returns the package of npm in which a path is, or nil for a path of no package.
func npmOf(pass *Pass, file string) *npmPackage {
	const modules = "/node_modules/"
	i := strings.LastIndex(file, modules)
	if i < 0 {
		return nil
	}
	parts := strings.SplitN(file[i+len(modules):], "/", 3)
	name := parts[0]
	if strings.HasPrefix(name, "@") && len(parts) > 1 {
		name += "/" + parts[1]
	}
	if name == "" || strings.HasPrefix(name, ".") {
		return nil
	}
	pkg := &npmPackage{dir: file[:i] + modules + name, name: name}
	var said struct{ Name, Version string }
	if e, _, ok := pass.Image.FS.Lookup(pkg.dir + "/package.json"); ok && e.Type == layers.Regular && json.Unmarshal(e.Content, &said) == nil {
		pkg.name, pkg.version = cmp.Or(said.Name, name), said.Version
	}
	return pkg
}

// npmFix returns the fix for a library that a package of npm brings, by the RUNPATH or RPATH of
// the file that needs it, and that no file of the image is. systems says that the packs know a
// package of a distribution with it: then only another package of npm has it that is named for it
// (libvips-cpp.so.42 of @img/sharp-libvips-linux-x64).
func npmFix(pass *Pass, library, asks string, systems bool) []packs.Advice {
	pkg, o := npmOf(pass, asks), pass.Files.ByPath[asks]
	if pkg == nil || o == nil || strings.HasPrefix(library, "ld-") || strings.HasPrefix(library, "libc.") || debianPackage(library) == "libc6" {
		return nil
	}
	v := packs.Values{
		"library": library, "file": path.Base(asks), "package": pkg.String(), "name": pkg.name,
		"platform": npmPlatform(pass, o.ELF.Machine),
	}
	word, _, _ := strings.Cut(libraryStem(library), "-")
	inside := false
	for _, dir := range originDirs(o) {
		other := npmOf(pass, dir+"/")
		switch {
		case other == nil:
		case other.dir == pkg.dir:
			inside = true
		case systems && !strings.Contains(other.name, word):
		case isDirIn(pass, other.dir):
			v["of"], v["name"] = other.String(), other.name
			return pass.advice("npm-incomplete-other", v)
		default:
			v["of"] = other.name
			return pass.advice("npm-left-out", v)
		}
	}
	if inside && !systems {
		return pass.advice("npm-incomplete", v)
	}
	return nil
}

// absentPackage matches Node's text about a package that it does not find, or a file of it.
var absentPackage = regexp.MustCompile(`^Cannot find module '((?:@[^/']+/)?[^./'@][^/']*)(?:/[^']*)?'$`)

// adviseAddon adds where the addon of a package of npm comes from that throws an error because it
// finds none: from the package for this platform that it has tried to load.
func (pass *Pass) adviseAddon(x *Finding, f *replay.StartFailure) {
	last := f.Path[len(f.Path)-1]
	pkg := npmOf(pass, last.File)
	if f.Type != "Error" || pkg == nil {
		return
	}
	for _, n := range last.Nodes {
		if n.Failed == nil || n.Caught == "" {
			continue
		}
		if m := absentPackage.FindStringSubmatch(n.Failed.Text); m != nil && strings.Contains(m[1], "linux") {
			pass.also(x, "addon-left-out", packs.Values{"of": m[1], "package": pkg.String(), "platform": npmPlatform(pass, pass.Files.Machine)})
			return
		}
	}
}

// originDirs returns the directories of the RUNPATH of a file, else of its RPATH, that are
// relative to it.
func originDirs(o *replay.Object) []string {
	dirs := cmp.Or(o.ELF.Runpath, o.ELF.Rpath)
	if dirs == nil {
		return nil
	}
	var list []string
	for dir := range strings.SplitSeq(*dirs, ":") {
		for _, origin := range []string{"$ORIGIN", "${ORIGIN}"} {
			if rest, ok := strings.CutPrefix(dir, origin); ok && (rest == "" || rest[0] == '/') {
				list = append(list, path.Join(path.Dir(o.Path), rest))
			}
		}
	}
	return list
}

// npmPlatform returns npm's options for Linux, a processor, and the C library of the image.
func npmPlatform(pass *Pass, machine elf.Machine) string {
	text := "--os=linux"
	if arch := replay.NodeArch(machine); arch != "" {
		text += " --cpu=" + arch
	}
	if l := pass.Loaders.Primary; l != nil && l.Libc.Musl {
		text += " --libc=musl"
	}
	return text
}
