package lint

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Checks of the search path and of the variables that the NVIDIA container
// runtime reads.

const ldLibraryPath = "LD_LIBRARY_PATH"

// pathEntries returns the elements of LD_LIBRARY_PATH as the loader splits it: glibc at
// colons and semicolons, musl at colons and newlines (glibc elf/dl-load.c, fillin_rpath; musl ldso/dynlink.c).
func (w *world) pathEntries() []string {
	value, ok := w.getenv(ldLibraryPath)
	if !ok || value == "" {
		return nil
	}
	if w.primary != nil && w.primary.Libc.Musl {
		return strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == '\n' })
	}
	return strings.Split(strings.ReplaceAll(value, ";", ":"), ":")
}

// without returns LD_LIBRARY_PATH less a directory and the empty elements.
func (w *world) without(dir string) string {
	kept := slices.DeleteFunc(slices.Clone(w.pathEntries()), func(e string) bool { return e == "" || path.Clean(e) == dir })
	return strings.Join(kept, ":")
}

// isMount reports whether something is mounted to a directory when the container starts:
// it is one of the packs' mounts, or in a volume of the image.
func (w *world) isMount(dir string) bool {
	for _, m := range w.packs.Mounts {
		if match(m.Match, dir) {
			return true
		}
	}
	if w.img.Config != nil {
		for v := range w.img.Config.Config.Volumes {
			if isIn(path.Clean(dir), path.Clean(v)) {
				return true
			}
		}
	}
	return false
}

// hasToken reports whether an element has a token that the loader replaces.
func hasToken(entry string) bool {
	return slices.ContainsFunc([]string{"$ORIGIN", "${ORIGIN}", "$LIB", "${LIB}", "$PLATFORM", "${PLATFORM}"}, func(t string) bool { return strings.Contains(entry, t) })
}

func (w *world) ldPathMissing() []Finding {
	var list []Finding
	for _, e := range slices.Compact(slices.Sorted(slices.Values(w.pathEntries()))) {
		literal := !hasToken(e) && (strings.Contains(e, "$") || strings.HasPrefix(e, "~"))
		if !strings.HasPrefix(e, "/") && !literal || hasToken(e) || w.isMount(e) {
			continue
		}
		if _, _, ok := w.img.FS.Lookup(e); ok {
			continue
		}
		clause := "absent"
		if literal {
			clause = "unexpanded"
		}
		v := values{"dir": e}
		f := w.say("ld-path-missing", clause, w.edit("ld-path-missing", v))
		f.Subject, f.Values = ldLibraryPath, v
		list = append(list, f)
	}
	return list
}

func (w *world) ldPathFile() []Finding {
	var list []Finding
	for _, e := range slices.Compact(slices.Sorted(slices.Values(w.pathEntries()))) {
		entry, _, ok := w.img.FS.Lookup(e)
		if !strings.HasPrefix(e, "/") || !ok || entry.IsDir() {
			continue
		}
		f := w.say("ld-path-file", "file", values{"file": e, "dir": path.Dir(e)})
		f.Subject, f.Present, f.Values = ldLibraryPath, []File{w.file(e)}, values{"file": e}
		list = append(list, f)
	}
	return list
}

func (w *world) ldPathEmpty() []Finding {
	if !slices.Contains(w.pathEntries(), "") {
		return nil
	}
	dir := path.Join("/", w.env().Cwd)
	clause, shadows := "empty", w.shadowsIn(dir)
	if len(shadows) > 0 {
		clause = "shadows"
	}
	f := w.say("ld-path-empty", clause, w.edit("ld-path-empty", values{"dir": dir}))
	f.Subject, f.Present = ldLibraryPath, w.filesOf(shadows)
	return []Finding{f}
}

// shadowsIn returns the libraries that a process prefers to the image's own when it
// searches the working directory dir.
func (w *world) shadowsIn(dir string) []string {
	if dir == "/usr/lib" || dir == "/lib" {
		return nil
	}
	var list []string
	for _, o := range w.objects {
		if path.Dir(o.path) == dir && !isProgram(o.elf) {
			list = append(list, o.path)
		}
	}
	return list
}

// searchDirs returns the directories of LD_LIBRARY_PATH and, for glibc, of
// /etc/ld.so.conf and its fragments, each with the variable or file that names it.
func (w *world) searchDirs() map[string]string {
	dirs := map[string]string{}
	if w.primary == nil || !w.primary.Libc.Musl {
		for e := range w.img.FS.Below("/etc") {
			if e.Path != "etc/ld.so.conf" && !match("etc/ld.so.conf.d/*.conf", e.Path) {
				continue
			}
			real, _, ok := w.img.FS.Lookup(e.Path)
			if !ok {
				continue
			}
			for line := range strings.Lines(string(real.Content)) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
					dirs[path.Clean(line)] = "/" + e.Path
				}
			}
		}
	}
	for _, e := range w.pathEntries() {
		if strings.HasPrefix(e, "/") {
			dirs[path.Clean(e)] = ldLibraryPath
		}
	}
	return dirs
}

// holding returns the search directories that fit and have files of which the name matches
// a pattern, with the paths of those files.
func (w *world) holding(fits func(dir string) bool, file string) map[string][]string {
	found := map[string][]string{}
	for dir := range w.searchDirs() {
		real := realPath(w.img.FS, dir)
		if !fits(dir) && !fits(real) {
			continue
		}
		for e := range w.img.FS.Below(real) {
			if path.Dir("/"+e.Path) == real && match(file, path.Base(e.Path)) {
				found[dir] = append(found[dir], "/"+e.Path)
			}
		}
	}
	return found
}

// dropping returns values of a finding with the fix that takes a directory out of the
// search path: "search-path", or "env" where a file names the directory.
func (w *world) dropping(dir string, v values) values {
	v["dir"], v["by"] = dir, w.searchDirs()[dir]
	if v["by"] == ldLibraryPath {
		v["search-path"] = w.without(dir)
	} else {
		v["env"] = w.phrase("drop-configured", v)
	}
	return v
}

func (w *world) stubsOnPath() []Finding {
	isStubs := func(dir string) bool { return path.Base(dir) == "stubs" }
	var list []Finding
	found := w.holding(isStubs, "lib{cuda,nvidia-ml}.so*")
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if w.toldOf(found[dir]) {
			continue
		}
		f := w.say("stubs-on-path", "on-path", w.dropping(dir, values{}))
		f.Subject, f.Present = w.searchDirs()[dir], w.filesOf(found[dir])
		named := slices.ContainsFunc(found[dir], func(p string) bool { return strings.HasSuffix(p, "/libcuda.so.1") })
		if named {
			f.Library = "libcuda.so.1"
		}
		switch {
		case w.behindDriver(dir):
			w.lower(&f, "behind-driver", nil)
		case named:
			w.also(&f, "named", nil)
		default:
			w.lower(&f, "bare", nil)
		}
		list = append(list, f)
	}
	return list
}

// behindDriver reports whether ld.so.conf names a directory that has copies of the
// driver, behind the one to which the driver is mounted.
func (w *world) behindDriver(dir string) bool {
	return w.searchDirs()[dir] != ldLibraryPath && w.driverComesFirst()
}

// toldOf reports whether a finding says that a framework gets one of the files: that
// finding says more.
func (w *world) toldOf(files []string) bool {
	return slices.ContainsFunc(w.drivers(), func(f Finding) bool {
		return slices.ContainsFunc(f.Affected, func(p string) bool { return slices.Contains(files, p) })
	})
}

func (w *world) compatOnPath() []Finding {
	isCompat := func(dir string) bool { return hasElement(dir, "compat") && strings.Contains(dir, "cuda") }
	var list []Finding
	found := w.holding(isCompat, "libcuda.so.*")
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if w.toldOf(found[dir]) {
			continue
		}
		clause, v := "on-path", values{}
		for _, p := range found[dir] {
			if _, version, ok := strings.Cut(path.Base(p), ".so."); ok && strings.Contains(version, ".") {
				clause, v = "version-on-path", values{"version": version}
			}
		}
		f := w.say("compat-on-path", clause, w.dropping(dir, v))
		f.Subject, f.Library, f.Present = w.searchDirs()[dir], "libcuda.so.1", w.filesOf(found[dir])
		if w.behindDriver(dir) {
			w.lower(&f, "behind-driver", nil)
		} else {
			w.also(&f, "fails", nil)
		}
		list = append(list, f)
	}
	return append(list, w.compatInCache()...)
}

// compatInCache notes that /etc/ld.so.cache alone names the driver of a compat
// directory (`RUN ldconfig /usr/local/cuda-12.8/compat`, as in vLLM's Dockerfile).
func (w *world) compatInCache() []Finding {
	file, err := w.img.FS.Find(ldCache)
	if err != nil || w.primary == nil || w.primary.Libc.Musl {
		return nil
	}
	cache := elfdeps.ParseCache(file.Content)
	if cache == nil {
		return nil
	}
	for _, e := range cache.Entries() {
		dir := path.Dir(e.Path)
		if e.Name != "libcuda.so.1" || !w.isFile(e.Path) || !hasElement(dir, "compat") || w.onPath(realPath(w.img.FS, dir)) || !w.driverComesFirst() {
			continue
		}
		f := w.say("compat-on-path", "in-cache", values{"cache": ldCache, "dir": dir})
		f.Subject, f.Library, f.Present = ldCache, "libcuda.so.1", []File{w.file(realPath(w.img.FS, e.Path))}
		return []Finding{f}
	}
	return nil
}

const mountedDriver = "/usr/local/nvidia/lib64"

// driverPathLost finds images made from NVIDIA's that have lost the directory of
// LD_LIBRARY_PATH to which GKE and others mount the driver.
func (w *world) driverPathLost() []Finding {
	if w.img.Config == nil {
		return nil
	}
	if slices.ContainsFunc(w.pathEntries(), func(e string) bool { return path.Clean(e) == mountedDriver }) {
		return nil
	}
	had := ""
	for _, h := range w.img.Config.History {
		if strings.Contains(h.CreatedBy, "LD_LIBRARY_PATH=") && strings.Contains(h.CreatedBy, "/usr/local/nvidia/lib64") {
			had = h.CreatedBy
		}
	}
	if _, nvidia := w.getenv("NV_CUDA_CUDART_VERSION"); had == "" && !nvidia || len(w.gpuUsers()) == 0 {
		return nil
	}
	f := w.say("driver-path-lost", "lost", w.edit("driver-path-lost", values{"dir": mountedDriver}))
	f.Subject, f.Library = ldLibraryPath, "libcuda.so.1"
	if _, configured := w.searchDirs()[mountedDriver]; configured {
		w.lower(&f, "configured", nil)
	}
	return []Finding{f}
}

// driverInImage finds files of the driver that a layer brought; the container runtime
// mounts the host's own.
func (w *world) driverInImage() []Finding {
	var paths []string
	whole := false
	for e := range w.img.FS.All() {
		base := path.Base(e.Path)
		if !strings.HasPrefix(base, "lib") || !w.packs.fromDriver(base) || !strings.Contains(base, ".so.") {
			continue
		}
		p := "/" + e.Path
		if hasElement(p, "stubs") || hasElement(p, "compat") || w.isMount(p) || slices.ContainsFunc(w.packs.DriverExempt, func(m *Known) bool { return match(m.Match, base) || match(m.Match, p) }) {
			continue
		}
		switch target, _, ok := w.img.FS.Lookup(p); {
		case e.Type == layers.Regular && (e.Object != nil || e.Size == 0 || e.Fault != ""):
			whole = true
			paths = append(paths, p)
		case e.Type == layers.Symlink && !ok, e.Type == layers.Symlink && isIn("/"+target.Path, path.Dir(p)):
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 || !slices.ContainsFunc(paths, func(p string) bool {
		base := path.Base(p)
		return strings.HasPrefix(base, "libcuda.so.") || strings.HasPrefix(base, "libnvidia-ml.so.") || strings.HasPrefix(base, "libnvidia-ptxjitcompiler.so.")
	}) {
		return nil
	}
	f := w.say("driver-in-image", "files", values{"file": path.Base(paths[0])})
	f.Subject, f.Library, f.Present = paths[0], path.Base(paths[0]), w.filesOf(paths)
	switch {
	case w.img.Config == nil || w.img.Config.OS == "": // an image's config names its system
		w.lower(&f, "directory", nil)
	case !whole:
		w.lower(&f, "links", nil)
	case w.onJetson():
		w.lower(&f, "jetson", nil)
	}
	return []Finding{f}
}

func (w *world) gpuHidden() []Finding {
	const variable = "NVIDIA_VISIBLE_DEVICES"
	value, set := w.getenv(variable)
	if !set || value != "" && value != "void" && value != "none" || len(w.gpuUsers()) == 0 {
		return nil
	}
	f := w.say("gpu-hidden", "none", w.edit("gpu-hidden", values{"value": value}))
	f.Subject = variable
	return []Finding{f}
}

// devicesHidden finds a CUDA_VISIBLE_DEVICES in the image's environment that leaves no
// device: CUDA reads the list up to the first element that names none.
func (w *world) devicesHidden() []Finding {
	const variable = "CUDA_VISIBLE_DEVICES"
	value, set := w.getenv(variable)
	hidden := value == "" || value[0] == '-' || value == "none" || value == "NoDevFiles"
	if !set || !hidden || len(w.gpuUsers()) == 0 {
		return nil
	}
	f := w.say("devices-hidden", "hidden", values{"value": value})
	f.Subject = variable
	return []Finding{f}
}

// driverCapabilities compares NVIDIA_DRIVER_CAPABILITIES with the driver's libraries that
// files ask for.
func (w *world) driverCapabilities() []Finding {
	const rule, variable = "driver-capabilities", "NVIDIA_DRIVER_CAPABILITIES"
	value, _ := w.getenv(variable)
	words, clause := strings.Split(strings.ReplaceAll(value, " ", ""), ","), "left-out"
	if value == "" {
		words, clause = []string{"utility", "compute"}, "unset" // the runtime's default
	}
	if slices.Contains(words, "all") || len(w.gpuUsers()) == 0 {
		return nil
	}
	lacks, whole := w.capabilitiesLeftOut(words)
	all := strings.Join(whole, ",") // one value for all findings
	var list []Finding
	for _, c := range lacks {
		users := w.usersOfCapability(c)
		f := w.say(rule, clause, values{"lacks": c.Name, "file": path.Base(users[0]), "effect": c.Effect, "all": all})
		f.NeededBy, f.Values = w.filesOf(users), values{"lacks": c.Name}
		list = append(list, f)
	}
	for _, word := range words {
		if word != "" && w.packs.capability(word) == nil {
			f := w.say(rule, "unknown", values{"word": strconv.Quote(word), "all": all})
			f.Values = values{"unknown": word}
			list = append(list, f)
		}
	}
	for i := range list {
		list[i].Subject = variable
	}
	return list
}

// capabilitiesLeftOut returns the capabilities that files of the image need and that are
// not among words, and the known words together with them.
func (w *world) capabilitiesLeftOut(words []string) (lacks []*Capability, whole []string) {
	whole = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return w.packs.capability(word) == nil })
	for _, c := range w.packs.Capabilities {
		if !slices.Contains(words, c.Name) && len(w.usersOfCapability(c)) > 0 {
			lacks, whole = append(lacks, c), append(whole, c.Name)
		}
	}
	return lacks, whole
}

// usersOfCapability returns the files that need a capability. "compute" is needed by
// every file that makes an image one for a GPU, where no file needs its libraries.
func (w *world) usersOfCapability(c *Capability) []string {
	users := w.usersOf(c.Libraries)
	if c.Name == "compute" && len(users) == 0 {
		users = w.gpuUsers()
	}
	return users
}

// capability returns a capability by its name, or nil.
func (p *Packs) capability(name string) *Capability {
	for _, c := range p.Capabilities {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// usersOf returns the files that need one of libraries, less those of the driver.
func (w *world) usersOf(libraries []string) []string {
	var list []string
	for _, o := range w.objects {
		if w.packs.fromDriver(o.path) {
			continue
		}
		if slices.ContainsFunc(o.elf.Needed, func(n string) bool {
			base, _, _ := strings.Cut(n, ".so")
			return slices.Contains(libraries, base)
		}) {
			list = append(list, o.path)
		}
	}
	return list
}

// requireCUDA compares NVIDIA_REQUIRE_CUDA, by which the container runtime refuses hosts,
// with the CUDA version that the frameworks are built for.
func (w *world) requireCUDA() []Finding {
	value, _ := w.getenv("NVIDIA_REQUIRE_CUDA")
	disabled, _ := w.getenv("NVIDIA_DISABLE_REQUIRE")
	asks := requiredCUDA(value)
	if asks == "" || disabled == "1" || disabled == "true" {
		return nil
	}
	var list []Finding
	for _, b := range w.inv.Builds {
		if b.CUDA == "" || numbers(b.CUDA, 1) == numbers(asks, 1) {
			continue
		}
		clause := "refuses"
		if parseRelease(asks).Before(parseRelease(b.CUDA)) {
			clause = "admits"
		}
		f := w.say("require-cuda", clause, values{"asks": asks, "name": b.Name, "version": b.Version, "built": b.CUDA, "cuda": numbers(b.CUDA, 2)})
		f.Subject, f.Present = "NVIDIA_REQUIRE_CUDA", []File{w.file(b.Path)}
		list = append(list, f)
	}
	return list
}

// requiredCUDA returns the version in "cuda>=12.4 brand=tesla,…", or "".
func requiredCUDA(value string) string {
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' }) {
		if version, ok := strings.CutPrefix(word, "cuda>="); ok {
			return version
		}
	}
	return ""
}

// condaActivateOnly finds search paths that conda sets when an environment is
// activated, which `docker run IMAGE python` does not do.
func (w *world) condaActivateOnly() []Finding {
	if w.img.Config == nil || w.activates() {
		return nil
	}
	var list []Finding
	for _, a := range w.inv.Activations {
		if a.Name != ldLibraryPath && a.Name != "LD_PRELOAD" {
			continue
		}
		if _, set := w.getenv(a.Name); set {
			continue
		}
		value := strings.NewReplacer("${CONDA_PREFIX}", a.Prefix, "$CONDA_PREFIX", a.Prefix).Replace(a.Value)
		clause, v := "computed", values{"variable": a.Name, "prefix": a.Prefix}
		var edit values
		if !strings.ContainsAny(value, "$`") {
			clause, edit = "set", values{map[string]string{ldLibraryPath: "path", "LD_PRELOAD": "preload"}[a.Name]: value}
			maps.Copy(v, w.edit("conda-activate-only", edit))
		}
		f := w.say("conda-activate-only", clause, v)
		f.Subject, f.Present, f.Values = a.Name, []File{w.file(a.Path)}, edit
		list = append(list, f)
	}
	return list
}

// shellExport matches a command that writes LD_LIBRARY_PATH to a file that a shell reads.
var shellExport = regexp.MustCompile(`LD_LIBRARY_PATH=["']?([^\s"';&|>]+)[^&|]*>>?\s*["']?(\S*(?:\.bashrc|\.bash_profile|\.profile|\.zshrc|/etc/profile|/etc/profile\.d/[\w.-]+|/etc/bash\.bashrc|/etc/environment))\b`)

// shellOnly finds search paths that a build step in the image's history has written to a
// file that only shells read.
func (w *world) shellOnly() []Finding {
	if w.img.Config == nil || w.activates() || w.interactive() {
		return nil
	}
	known := map[string]bool{}
	for dir := range w.searchDirs() {
		known[realPath(w.img.FS, dir)] = true
	}
	var list []Finding
	for _, h := range w.img.Config.History {
		if len(h.CreatedBy) > 1<<14 {
			continue
		}
		export := shellExport.FindStringSubmatch(h.CreatedBy)
		if export == nil {
			continue
		}
		var lost []string
		for dir := range strings.SplitSeq(export[1], ":") {
			real := realPath(w.img.FS, dir)
			if strings.HasPrefix(dir, "/") && !known[real] && w.hasLibraries(real) {
				lost = append(lost, dir)
			}
		}
		if len(lost) == 0 {
			continue
		}
		f := w.shellOnlyFinding(export[1], export[2], strings.Join(lost, ":"))
		if !w.missedIn(lost) {
			w.lower(&f, "unmissed", nil)
		}
		list = append(list, f)
	}
	return list
}

// shellOnlyFinding returns the finding about path, which a build step writes to a file of a
// shell; lost are its directories that are on no other search path.
func (w *world) shellOnlyFinding(path, file, lost string) Finding {
	v := w.edit("shell-only-path", values{"lost": lost})
	v["path"], v["file"] = path, file
	f := w.say("shell-only-path", "only-shell", v)
	f.Subject, f.Values = file, values{"lost": lost}
	return f
}

// missedIn reports whether directories have a library that a framework, the image's
// program, or a file that asks for GPU libraries does not find.
func (w *world) missedIn(dirs []string) bool {
	missed := func(e *elfdeps.Error) bool {
		return e.Missing() && slices.ContainsFunc(w.present(e.Name), func(p string) bool {
			return slices.ContainsFunc(dirs, func(dir string) bool { return realPath(w.img.FS, dir) == path.Dir(p) })
		})
	}
	for _, r := range w.runs {
		if slices.ContainsFunc(r.missed, func(m missedOpen) bool { return m.verdict.severity != Note && missed(m.err) }) {
			return true
		}
	}
	for _, in := range w.installs {
		for _, f := range in.failures {
			if slices.ContainsFunc(f.misses, missed) {
				return true
			}
		}
	}
	start := w.entry().path
	return slices.ContainsFunc(w.objects, func(o *object) bool {
		return slices.ContainsFunc(o.misses, func(e *elfdeps.Error) bool {
			return missed(e) && (w.judge(o, e).severity != Note || o.path == start)
		})
	})
}

// interactive reports whether the image starts a shell without a command.
func (w *world) interactive() bool {
	c := w.img.Config.Config
	argv := slices.Concat(c.Entrypoint, c.Cmd)
	return len(argv) == 0 || len(argv) == 1 && strings.HasSuffix(path.Base(argv[0]), "sh")
}

// hasLibraries reports whether a directory holds a library of the image's machine.
func (w *world) hasLibraries(dir string) bool {
	return slices.ContainsFunc(w.objects, func(o *object) bool { return path.Dir(o.path) == dir && !isProgram(o.elf) })
}

// activates reports whether the image's command goes through conda or a login
// shell, or may do so in a script.
func (w *world) activates() bool {
	c := w.img.Config.Config
	for _, word := range slices.Concat(c.Entrypoint, c.Cmd) {
		base := path.Base(word)
		if slices.Contains([]string{"conda", "mamba", "micromamba", "-l", "--login", "-lc", "-ic", "-i", "_entrypoint.sh"}, base) || strings.Contains(word, "activate") {
			return true
		}
	}
	start := w.entry()
	if start.name == "" {
		return false
	}
	p, ok := w.executable(start.name)
	if !ok {
		return false
	}
	script, _, ok := w.img.FS.Lookup(p)
	return ok && script.Shebang != "" && strings.HasSuffix(path.Base(shebangProgram(script.Shebang)), "sh")
}
