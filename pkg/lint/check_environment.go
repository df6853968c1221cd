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
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// without returns LD_LIBRARY_PATH less a directory and the empty elements.
func without(pass *Pass, dir string) string {
	kept := slices.DeleteFunc(slices.Clone(pass.Loaders.PathEntries()), func(e string) bool { return e == "" || path.Clean(e) == dir })
	return strings.Join(kept, ":")
}

// hasToken reports whether an element has a token that the loader replaces.
func hasToken(entry string) bool {
	return slices.ContainsFunc([]string{"$ORIGIN", "${ORIGIN}", "$LIB", "${LIB}", "$PLATFORM", "${PLATFORM}"}, func(t string) bool { return strings.Contains(entry, t) })
}

func ldPathMissing(pass *Pass) []Finding {
	var list []Finding
	for _, e := range slices.Compact(slices.Sorted(slices.Values(pass.Loaders.PathEntries()))) {
		literal := !hasToken(e) && (strings.Contains(e, "$") || strings.HasPrefix(e, "~"))
		if !strings.HasPrefix(e, "/") && !literal || hasToken(e) || pass.Config.IsMount(e) {
			continue
		}
		if _, _, ok := pass.Image.FS.Lookup(e); ok {
			continue
		}
		clause := "absent"
		if literal {
			clause = "unexpanded"
		}
		v := packs.Values{"dir": e}
		f := pass.say("ld-path-missing", clause, withEdit(pass, "ld-path-missing", v))
		f.Subject, f.Values = packs.LdLibraryPath, v
		list = append(list, f)
	}
	return list
}

func ldPathFile(pass *Pass) []Finding {
	var list []Finding
	for _, e := range slices.Compact(slices.Sorted(slices.Values(pass.Loaders.PathEntries()))) {
		entry, _, ok := pass.Image.FS.Lookup(e)
		if !strings.HasPrefix(e, "/") || !ok || entry.IsDir() {
			continue
		}
		f := pass.say("ld-path-file", "file", packs.Values{"file": e, "dir": path.Dir(e)})
		f.Subject, f.Present, f.Values = packs.LdLibraryPath, []replay.File{pass.Image.File(e)}, packs.Values{"file": e}
		list = append(list, f)
	}
	return list
}

func ldPathEmpty(pass *Pass) []Finding {
	if !slices.Contains(pass.Loaders.PathEntries(), "") {
		return nil
	}
	dir := path.Join("/", pass.Config.Env().Cwd)
	clause, shadows := "empty", shadowsIn(pass, dir)
	if len(shadows) > 0 {
		clause = "shadows"
	}
	f := pass.say("ld-path-empty", clause, withEdit(pass, "ld-path-empty", packs.Values{"dir": dir}))
	f.Subject, f.Present = packs.LdLibraryPath, pass.Image.FilesOf(shadows)
	return []Finding{f}
}

// shadowsIn returns the libraries that a process prefers to the image's own when it
// searches the working directory dir.
func shadowsIn(pass *Pass, dir string) []string {
	if dir == "/usr/lib" || dir == "/lib" {
		return nil
	}
	var list []string
	for _, o := range pass.Files.Objects {
		if path.Dir(o.Path) == dir && !replay.IsProgram(o.ELF) {
			list = append(list, o.Path)
		}
	}
	return list
}

// holding returns the search directories that fit and have files of which the name matches
// a pattern, with the paths of those files.
func holding(pass *Pass, fits func(dir string) bool, file string) map[string][]string {
	found := map[string][]string{}
	for dir := range pass.Loaders.SearchDirs() {
		real := replay.RealPath(pass.Image.FS, dir)
		if !fits(dir) && !fits(real) {
			continue
		}
		for e := range pass.Image.FS.Below(real) {
			if path.Dir("/"+e.Path) == real && packs.Match(file, path.Base(e.Path)) {
				found[dir] = append(found[dir], "/"+e.Path)
			}
		}
	}
	return found
}

// dropping returns values of a finding with the fix that takes a directory out of the
// search path: "search-path", or "env" where a file names the directory.
func dropping(pass *Pass, dir string, v packs.Values) packs.Values {
	v["dir"], v["by"] = dir, pass.Loaders.SearchDirs()[dir]
	if v["by"] == packs.LdLibraryPath {
		v["search-path"] = without(pass, dir)
	} else {
		v["env"] = pass.Packs.Phrase("drop-configured", v)
	}
	return v
}

func stubsOnPath(pass *Pass) []Finding {
	isStubs := func(dir string) bool { return path.Base(dir) == "stubs" }
	var list []Finding
	found := holding(pass, isStubs, "lib{cuda,nvidia-ml}.so*")
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if toldOf(pass, found[dir]) {
			continue
		}
		f := pass.say("stubs-on-path", "on-path", dropping(pass, dir, packs.Values{}))
		f.Subject, f.Present = pass.Loaders.SearchDirs()[dir], pass.Image.FilesOf(found[dir])
		named := slices.ContainsFunc(found[dir], func(p string) bool { return strings.HasSuffix(p, "/libcuda.so.1") })
		if named {
			f.Library = "libcuda.so.1"
		}
		switch {
		case behindDriver(pass, dir):
			pass.lower(&f, "behind-driver", nil)
		case named:
			pass.also(&f, "named", nil)
		default:
			pass.lower(&f, "bare", nil)
		}
		list = append(list, f)
	}
	return list
}

// behindDriver reports whether ld.so.conf names a directory that has copies of the
// driver, behind the one to which the driver is mounted.
func behindDriver(pass *Pass, dir string) bool {
	return pass.Loaders.SearchDirs()[dir] != packs.LdLibraryPath && pass.Loaders.DriverComesFirst()
}

// toldOf reports whether a finding says that a framework gets one of the files: that
// finding says more.
func toldOf(pass *Pass, files []string) bool {
	return slices.ContainsFunc(drivers(pass), func(f Finding) bool {
		return slices.ContainsFunc(f.Affected, func(p string) bool { return slices.Contains(files, p) })
	})
}

func compatOnPath(pass *Pass) []Finding {
	isCompat := func(dir string) bool { return replay.HasElement(dir, "compat") && strings.Contains(dir, "cuda") }
	var list []Finding
	found := holding(pass, isCompat, "libcuda.so.*")
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if toldOf(pass, found[dir]) {
			continue
		}
		clause, v := "on-path", packs.Values{}
		for _, p := range found[dir] {
			if _, version, ok := strings.Cut(path.Base(p), ".so."); ok && strings.Contains(version, ".") {
				clause, v = "version-on-path", packs.Values{"version": version}
			}
		}
		f := pass.say("compat-on-path", clause, dropping(pass, dir, v))
		f.Subject, f.Library, f.Present = pass.Loaders.SearchDirs()[dir], "libcuda.so.1", pass.Image.FilesOf(found[dir])
		if behindDriver(pass, dir) {
			pass.lower(&f, "behind-driver", nil)
		} else {
			pass.also(&f, "fails", nil)
		}
		list = append(list, f)
	}
	return append(list, compatInCache(pass)...)
}

// compatInCache notes that /etc/ld.so.cache alone names the driver of a compat
// directory (`RUN ldconfig /usr/local/cuda-12.8/compat`, as in vLLM's Dockerfile).
func compatInCache(pass *Pass) []Finding {
	file, err := pass.Image.FS.Find(replay.LDCache)
	if err != nil || pass.Loaders.Primary == nil || pass.Loaders.Primary.Libc.Musl {
		return nil
	}
	cache := elfdeps.ParseCache(file.Content)
	if cache == nil {
		return nil
	}
	for _, e := range cache.Entries() {
		dir := path.Dir(e.Path)
		if e.Name != "libcuda.so.1" || !pass.Image.IsFile(e.Path) || !replay.HasElement(dir, "compat") || pass.Loaders.OnPath(replay.RealPath(pass.Image.FS, dir)) || !pass.Loaders.DriverComesFirst() {
			continue
		}
		f := pass.say("compat-on-path", "in-cache", packs.Values{"cache": replay.LDCache, "dir": dir})
		f.Subject, f.Library, f.Present = replay.LDCache, "libcuda.so.1", []replay.File{pass.Image.File(replay.RealPath(pass.Image.FS, e.Path))}
		return []Finding{f}
	}
	return nil
}

// driverPathLost finds images made from NVIDIA's that have lost the directory of
// LD_LIBRARY_PATH to which GKE and others mount the driver.
func driverPathLost(pass *Pass) []Finding {
	if pass.Image.Config == nil {
		return nil
	}
	if slices.ContainsFunc(pass.Loaders.PathEntries(), func(e string) bool { return path.Clean(e) == replay.MountedDriver }) {
		return nil
	}
	had := ""
	for _, h := range pass.Image.Config.History {
		if strings.Contains(h.CreatedBy, "LD_LIBRARY_PATH=") && strings.Contains(h.CreatedBy, "/usr/local/nvidia/lib64") {
			had = h.CreatedBy
		}
	}
	if _, nvidia := pass.Config.Getenv("NV_CUDA_CUDART_VERSION"); had == "" && !nvidia || len(pass.Packages.GpuUsers()) == 0 {
		return nil
	}
	f := pass.say("driver-path-lost", "lost", withEdit(pass, "driver-path-lost", packs.Values{"dir": replay.MountedDriver}))
	f.Subject, f.Library = packs.LdLibraryPath, "libcuda.so.1"
	if _, configured := pass.Loaders.SearchDirs()[replay.MountedDriver]; configured {
		pass.lower(&f, "configured", nil)
	}
	return []Finding{f}
}

// driverInImage finds files of the driver that a layer brought; the container runtime
// mounts the host's own.
func driverInImage(pass *Pass) []Finding {
	var paths []string
	whole := false
	for e := range pass.Image.FS.All() {
		base := path.Base(e.Path)
		if !strings.HasPrefix(base, "lib") || !pass.Packs.FromDriver(base) || !strings.Contains(base, ".so.") {
			continue
		}
		p := "/" + e.Path
		if replay.HasElement(p, "stubs") || replay.HasElement(p, "compat") || pass.Config.IsMount(p) || slices.ContainsFunc(pass.Packs.DriverExempt, func(m *packs.Known) bool { return packs.Match(m.Match, base) || packs.Match(m.Match, p) }) {
			continue
		}
		switch target, _, ok := pass.Image.FS.Lookup(p); {
		case e.Type == layers.Regular && (e.Object != nil || e.Size == 0 || e.Fault != ""):
			whole = true
			paths = append(paths, p)
		case e.Type == layers.Symlink && !ok, e.Type == layers.Symlink && replay.IsIn("/"+target.Path, path.Dir(p)):
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 || !slices.ContainsFunc(paths, func(p string) bool {
		base := path.Base(p)
		return strings.HasPrefix(base, "libcuda.so.") || strings.HasPrefix(base, "libnvidia-ml.so.") || strings.HasPrefix(base, "libnvidia-ptxjitcompiler.so.")
	}) {
		return nil
	}
	f := pass.say("driver-in-image", "files", packs.Values{"file": path.Base(paths[0])})
	f.Subject, f.Library, f.Present = paths[0], path.Base(paths[0]), pass.Image.FilesOf(paths)
	switch {
	case pass.Image.Config == nil || pass.Image.Config.OS == "": // an image's config names its system
		pass.lower(&f, "directory", nil)
	case !whole:
		pass.lower(&f, "links", nil)
	case pass.Files.OnJetson():
		pass.lower(&f, "jetson", nil)
	}
	return []Finding{f}
}

func gpuHidden(pass *Pass) []Finding {
	const variable = "NVIDIA_VISIBLE_DEVICES"
	value, set := pass.Config.Getenv(variable)
	if !set || value != "" && value != "void" && value != "none" || len(pass.Packages.GpuUsers()) == 0 {
		return nil
	}
	f := pass.say("gpu-hidden", "none", withEdit(pass, "gpu-hidden", packs.Values{"value": value}))
	f.Subject = variable
	return []Finding{f}
}

// devicesHidden finds a CUDA_VISIBLE_DEVICES in the image's environment that leaves no
// device: CUDA reads the list up to the first element that names none.
func devicesHidden(pass *Pass) []Finding {
	const variable = "CUDA_VISIBLE_DEVICES"
	value, set := pass.Config.Getenv(variable)
	hidden := value == "" || value[0] == '-' || value == "none" || value == "NoDevFiles"
	if !set || !hidden || len(pass.Packages.GpuUsers()) == 0 {
		return nil
	}
	f := pass.say("devices-hidden", "hidden", packs.Values{"value": value})
	f.Subject = variable
	return []Finding{f}
}

// driverCapabilities compares NVIDIA_DRIVER_CAPABILITIES with the driver's libraries that
// files ask for.
func driverCapabilities(pass *Pass) []Finding {
	const rule, variable = "driver-capabilities", "NVIDIA_DRIVER_CAPABILITIES"
	value, _ := pass.Config.Getenv(variable)
	words, clause := strings.Split(strings.ReplaceAll(value, " ", ""), ","), "left-out"
	if value == "" {
		words, clause = []string{"utility", "compute"}, "unset" // the runtime's default
	}
	if slices.Contains(words, "all") || len(pass.Packages.GpuUsers()) == 0 {
		return nil
	}
	lacks, whole := capabilitiesLeftOut(pass, words)
	all := strings.Join(whole, ",") // one value for all findings
	var list []Finding
	for _, c := range lacks {
		users := usersOfCapability(pass, c)
		f := pass.say(rule, clause, packs.Values{"lacks": c.Name, "file": path.Base(users[0]), "effect": c.Effect, "all": all})
		f.NeededBy, f.Values = pass.Image.FilesOf(users), packs.Values{"lacks": c.Name}
		list = append(list, f)
	}
	for _, word := range words {
		if word != "" && pass.Packs.Capability(word) == nil {
			f := pass.say(rule, "unknown", packs.Values{"word": strconv.Quote(word), "all": all})
			f.Values = packs.Values{"unknown": word}
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
func capabilitiesLeftOut(pass *Pass, words []string) (lacks []*packs.Capability, whole []string) {
	whole = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return pass.Packs.Capability(word) == nil })
	for _, c := range pass.Packs.Capabilities {
		if !slices.Contains(words, c.Name) && len(usersOfCapability(pass, c)) > 0 {
			lacks, whole = append(lacks, c), append(whole, c.Name)
		}
	}
	return lacks, whole
}

// usersOfCapability returns the files that need a capability. "compute" is needed by
// every file that makes an image one for a GPU, where no file needs its libraries.
func usersOfCapability(pass *Pass, c *packs.Capability) []string {
	users := pass.Files.UsersOf(c.Libraries)
	if c.Name == "compute" && len(users) == 0 {
		users = pass.Packages.GpuUsers()
	}
	return users
}

// requireCUDA compares NVIDIA_REQUIRE_CUDA, by which the container runtime refuses hosts,
// with the CUDA version that the frameworks are built for.
func requireCUDA(pass *Pass) []Finding {
	value, _ := pass.Config.Getenv("NVIDIA_REQUIRE_CUDA")
	disabled, _ := pass.Config.Getenv("NVIDIA_DISABLE_REQUIRE")
	asks := requiredCUDA(value)
	if asks == "" || disabled == "1" || disabled == "true" {
		return nil
	}
	var list []Finding
	for _, b := range pass.Inventory.Builds {
		if b.CUDA == "" || packs.Numbers(b.CUDA, 1) == packs.Numbers(asks, 1) {
			continue
		}
		clause := "refuses"
		if packs.ParseRelease(asks).Before(packs.ParseRelease(b.CUDA)) {
			clause = "admits"
		}
		f := pass.say("require-cuda", clause, packs.Values{"asks": asks, "name": b.Name, "version": b.Version, "built": b.CUDA, "cuda": packs.Numbers(b.CUDA, 2)})
		f.Subject, f.Present = "NVIDIA_REQUIRE_CUDA", []replay.File{pass.Image.File(b.Path)}
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

// shellOnly finds search paths that a build step in the image's history has written to a
// file that only shells read.
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
		if len(h.CreatedBy) > 1<<14 {
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

// shellOnlyFinding returns the finding about path, which a build step writes to a file of a
// shell; lost are its directories that are on no other search path.
func shellOnlyFinding(pass *Pass, path, file, lost string) Finding {
	v := withEdit(pass, "shell-only-path", packs.Values{"lost": lost})
	v["path"], v["file"] = path, file
	f := pass.say("shell-only-path", "only-shell", v)
	f.Subject, f.Values = file, packs.Values{"lost": lost}
	return f
}

// missedIn reports whether directories have a library that a framework, the image's
// program, or a file that asks for GPU libraries does not find.
func missedIn(pass *Pass, dirs []string) bool {
	missed := func(e *elfdeps.Error) bool {
		return e.Missing() && slices.ContainsFunc(pass.Files.Present(e.Name), func(p string) bool {
			return slices.ContainsFunc(dirs, func(dir string) bool { return replay.RealPath(pass.Image.FS, dir) == path.Dir(p) })
		})
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
