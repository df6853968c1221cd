package nodejs

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// model returns the value of a package that finds addons for others, in place of its source.
func (r *run) model(name, from string) (any, bool) {
	switch name {
	case "bindings":
		return r.bindings(from), true
	case "node-gyp-build":
		f := native(func(r *run, _ any, args []any) completion { return r.gypBuild(args, from) })
		return f.set("path", unknownf("a path of node-gyp-build")).set("resolve", unknownf("a path of node-gyp-build")), true
	case "@mapbox/node-pre-gyp", "node-pre-gyp":
		o := newObject()
		o.open = true
		return o.set("find", simple(func(r *run, args []any) any { return r.preGyp(args) })), true
	case "detect-libc":
		return r.detectLibc(), true
	}
	return nil, false
}

// detectLibc is https://github.com/lovell/detect-libc: the C library of the process.
func (r *run) detectLibc() *object {
	family := "glibc"
	if r.opt.Musl {
		family = "musl"
	}
	o := newObject()
	o.open = true
	o.set("GLIBC", "glibc").set("MUSL", "musl")
	o.set("familySync", simple(func(*run, []any) any { return family }))
	o.set("isNonGlibcLinuxSync", simple(func(*run, []any) any { return family != "glibc" }))
	o.set("family", o.props["familySync"]).set("isNonGlibcLinux", o.props["isNonGlibcLinuxSync"])
	return o
}

// bindingDirs are the directories in which bindings looks for an addon, in its order
// (https://github.com/TooTallNate/node-bindings, defaults.try). Those with the version of
// Node are left out.
var bindingDirs = []string{"build", "build/Debug", "build/Release", "out/Debug", "Debug", "out/Release", "Release", "build/default"}

// bindings returns the function of the package bindings.
func (r *run) bindings(from string) *object {
	return native(func(r *run, _ any, args []any) completion {
		name, ok := argument(args, 0).(string)
		if o, is := argument(args, 0).(*object); is {
			name, ok = o.props["bindings"].(string)
			if _, has := o.props["module_root"]; has {
				ok = false
			}
		}
		if len(args) == 0 {
			name, ok = "bindings", true
		}
		if !ok || strings.IndexByte(name, 0) >= 0 {
			r.note("bindings() of a name that is not known")
			return value(unknownf("the addon is not known"))
		}
		if !strings.HasSuffix(name, ".node") {
			name += ".node"
		}
		root := r.packageRoot(from)
		for _, dir := range bindingDirs {
			if file := path.Join(root, dir, name); r.isFile(file) {
				return r.requireFrom(from, file, false)
			}
		}
		if r.hasVersioned(root) {
			r.note("bindings() of an addon for a version of Node that is not known")
			return value(unknownf("the addon is not known"))
		}
		return r.withoutAddon(name, "Could not locate the bindings file.")
	})
}

// packageRoot returns the directory of a file's package: bindings.getRoot.
func (r *run) packageRoot(file string) string {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if r.isFile(dir+"/package.json") || r.isDir(dir+"/node_modules") || dir == "/" {
			return dir
		}
	}
}

// hasVersioned reports whether a package has the directories of addons for versions of Node.
func (r *run) hasVersioned(root string) bool {
	return slices.ContainsFunc([]string{"compiled", "addon-build", "lib/binding"}, func(d string) bool { return r.isDir(path.Join(root, d)) })
}

// withoutAddon throws that an addon was not found.
func (r *run) withoutAddon(name, why string) completion {
	n := &pyimport.Node{Kind: pyimport.Extension, Name: name, Failed: &pyimport.Failure{Type: "Error", Text: why}, Maybe: r.maybe}
	if r.mod != nil {
		n.At = r.mod.file + ":" + strconv.Itoa(r.line)
	}
	if r.tries > 0 {
		n.Caught = "catch"
	} else if r.async > 0 {
		n.Caught = "a promise"
	}
	r.add(n)
	if r.maybe != "" {
		return value(unknownf("it is loaded under a condition that is not known"))
	}
	return r.raise(n)
}

// gypBuild is node-gyp-build(dir): a build of this machine, or one of the prebuilds
// (https://github.com/prebuild/node-gyp-build/blob/master/node-gyp-build.js).
func (r *run) gypBuild(args []any, from string) completion {
	dir, ok := argument(args, 0).(string)
	if len(args) == 0 {
		dir, ok = ".", true
	}
	if !ok || strings.IndexByte(dir, 0) >= 0 || r.opt.Arch == "" {
		r.note("node-gyp-build of a directory that is not known")
		return value(unknownf("the addon is not known"))
	}
	dir = absolute(dir, r.opt.Cwd)
	for _, build := range []string{"build/Release", "build/Debug"} {
		if list := r.addonsIn(path.Join(dir, build)); len(list) > 0 {
			return r.requireFrom(from, list[0], false)
		}
	}
	var fits []string
	unsure := false
	for _, tuple := range r.namesIn(dir + "/prebuilds") {
		platform, archs, ok := strings.Cut(tuple, "-")
		if !ok || platform != "linux" || !slices.Contains(strings.Split(archs, "+"), r.opt.Arch) {
			continue
		}
		for _, file := range r.addonsIn(path.Join(dir, "prebuilds", tuple)) {
			is, known := r.fits(path.Base(file))
			if is && known {
				fits = append(fits, file)
			}
			unsure = unsure || !known
		}
		break
	}
	switch {
	case len(fits) == 1 && !unsure:
		return r.requireFrom(from, fits[0], false)
	case len(fits) > 0 || unsure:
		r.note("which prebuilt addon node-gyp-build takes is not known")
		return value(unknownf("the addon is not known"))
	}
	return r.withoutAddon("prebuilds", "No native build was found for platform=linux arch="+r.opt.Arch)
}

// fits reports whether the tags of a prebuilt addon fit the process (parseTags, matchTags).
// known is false if that depends on the version of Node.
func (r *run) fits(base string) (is, known bool) {
	is, known = true, true
	napi := false
	parts := strings.Split(strings.TrimSuffix(base, ".node"), ".")
	abi := false
	for _, tag := range parts {
		switch {
		case tag == "electron" || tag == "node-webkit":
			is = false
		case tag == "napi":
			napi = true
		case strings.HasPrefix(tag, "abi"):
			abi = true
		case tag == "glibc" || tag == "musl":
			is = is && (tag == "musl") == r.opt.Musl
		case strings.HasPrefix(tag, "armv"):
			is = is && r.opt.Arch == "arm64" == (tag == "armv8")
		}
	}
	return is, known && (!abi || napi || !is)
}

// namesIn returns the names in a directory, in their order.
func (r *run) namesIn(dir string) []string {
	var list []string
	if r.isDir(dir) {
		for e := range r.fs.In(r.real(dir)) {
			list = append(list, path.Base(e.Path))
		}
	}
	return list
}

// addonsIn returns the .node files in a directory.
func (r *run) addonsIn(dir string) []string {
	var list []string
	for _, n := range r.namesIn(dir) {
		if strings.HasSuffix(n, ".node") {
			list = append(list, path.Join(dir, n))
		}
	}
	return list
}

// preGyp is find(package.json) of node-pre-gyp: the path that "binary" of the package.json
// gives (https://github.com/mapbox/node-pre-gyp#2-add-new-entries-to-your-packagejson).
func (r *run) preGyp(args []any) any {
	file, ok := argument(args, 0).(string)
	if !ok || strings.IndexByte(file, 0) >= 0 {
		return unknownf("a package.json that is not known")
	}
	dir := path.Dir(absolute(file, r.opt.Cwd))
	p := r.packageAt(dir)
	if p == nil || p.unknown {
		return unknownf("a package.json that is not known")
	}
	name, _ := p.Binary["module_name"].(string)
	where, _ := p.Binary["module_path"].(string)
	libc := "glibc"
	if r.opt.Musl {
		libc = "musl"
	}
	where = strings.NewReplacer("{module_name}", name, "{name}", p.Name, "{version}", p.Version, "{platform}", "linux",
		"{arch}", r.opt.Arch, "{target_arch}", r.opt.Arch, "{libc}", libc, "{configuration}", "Release").Replace(where)
	if name == "" || strings.Contains(where, "{") {
		for _, tag := range []string{"{napi_build_version}", "{node_napi_label}", "{node_abi}"} {
			where = strings.ReplaceAll(where, tag, "*")
		}
		if file := r.onlyMatch(path.Join(dir, where), name+".node"); file != "" && name != "" {
			return file
		}
		return unknownf("the version of Node decides which addon it is")
	}
	return path.Join(dir, where, name+".node")
}

// onlyMatch returns the only file of a name below a directory whose last element is a
// pattern, or "".
func (r *run) onlyMatch(dir, name string) string {
	parent, pattern := path.Split(dir)
	if strings.Contains(parent, "*") {
		return ""
	}
	found := ""
	for _, n := range r.namesIn(path.Clean(parent)) {
		if ok, _ := path.Match(pattern, n); ok && r.isFile(path.Join(parent, n, name)) {
			if found != "" {
				return ""
			}
			found = path.Join(parent, n, name)
		}
	}
	return found
}
