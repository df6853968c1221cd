package lint

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Checks of the search path and of the variables that the NVIDIA container
// runtime reads.

// pathEntries are the elements of LD_LIBRARY_PATH as the loader splits it; musl
// knows no semicolon (glibc elf/dl-load.c, fillin_rpath; musl ldso/dynlink.c).
func (w *world) pathEntries() []string {
	value, ok := w.getenv("LD_LIBRARY_PATH")
	if !ok || value == "" {
		return nil
	}
	if w.primary != nil && w.primary.Libc.Musl {
		return strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == '\n' })
	}
	return strings.Split(strings.ReplaceAll(value, ";", ":"), ":")
}

// without is LD_LIBRARY_PATH less some of its elements.
func (w *world) without(drop func(string) bool) string {
	kept := slices.DeleteFunc(slices.Clone(w.pathEntries()), func(e string) bool { return e == "" || drop(e) })
	return w.pathFix(strings.Join(kept, ":"))
}

// isMount says whether something comes to a directory when the container starts:
// the pack's mounts, and the image's own volumes.
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

// hasToken reports whether the loader puts something in an element.
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
		f.Values = v
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
		f.Present, f.Values = []File{w.file(e)}, values{"file": e}
		list = append(list, f)
	}
	return list
}

func (w *world) ldPathEmpty() []Finding {
	if !slices.Contains(w.pathEntries(), "") {
		return nil
	}
	dir := path.Join("/", w.env().Cwd)
	f := Finding{
		Message: fmt.Sprintf("LD_LIBRARY_PATH has an empty element: libraries are looked for in the working directory, %s", dir),
		Fixes:   []string{w.edited("ld-path-empty", nil) + "; in a Dockerfile, ${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} adds nothing when the variable is empty"},
	}
	// What lies there comes before the image's own libraries.
	var shadows []string
	for _, o := range w.objects {
		if path.Dir(o.path) == dir && !isProgram(o.elf) && dir != "/usr/lib" && dir != "/lib" {
			shadows = append(shadows, o.path)
		}
	}
	if len(shadows) > 0 {
		f.Severity, f.Present = Warning, w.filesOf(shadows)
	}
	return []Finding{f}
}

// searchDirs are the directories of LD_LIBRARY_PATH and, for glibc, of
// /etc/ld.so.conf and its fragments, with who names each.
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
			dirs[path.Clean(e)] = "LD_LIBRARY_PATH"
		}
	}
	return dirs
}

// holding are the search directories that fit, are there, and hold a file of a name
// that fits; with what they hold.
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

// dropFix says how a directory leaves the search path.
func (w *world) dropFix(dir string) string {
	by := w.searchDirs()[dir]
	if by == "LD_LIBRARY_PATH" {
		return w.without(func(e string) bool { return path.Clean(e) == dir })
	}
	return fmt.Sprintf("take %s out of %s and run ldconfig", dir, by)
}

func (w *world) stubsOnPath() []Finding {
	isStubs := func(dir string) bool { return path.Base(dir) == "stubs" }
	var list []Finding
	found := w.holding(isStubs, "lib{cuda,nvidia-ml}.so*")
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if w.toldOf(found[dir]) {
			continue
		}
		f := Finding{
			Message: fmt.Sprintf("%s puts the stub libraries of %s on the search path", w.searchDirs()[dir], dir),
			Present: w.filesOf(found[dir]),
			Fixes:   []string{w.dropFix(dir), "stubs are for linking: name them in LIBRARY_PATH, or with -L"},
			Because: "programs that ask for libcuda.so.1 pass over a directory that has the bare name only",
		}
		named := slices.ContainsFunc(found[dir], func(p string) bool { return strings.HasSuffix(p, "/libcuda.so.1") })
		if named {
			f.Severity, f.Because = Error, ""
			f.Library = "libcuda.so.1"
			f.Effects = []Effect{{"every program that uses the GPU gets the stub instead of the driver", "Error 34: CUDA driver is a stub library"}}
		}
		w.behindDriver(&f, dir)
		list = append(list, f)
	}
	return list
}

// behindDriver makes a note of a finding about copies of the driver in a directory
// that ld.so.conf names behind the one to which the driver is mounted.
func (w *world) behindDriver(f *Finding, dir string) {
	if w.searchDirs()[dir] != "LD_LIBRARY_PATH" && w.driverComesFirst() {
		f.Severity, f.Effects = Note, nil
		f.Because = "when the container runtime has mounted the driver and run ldconfig, the driver's directory comes first"
	}
}

// toldOf reports whether the replay has found that a framework gets one of the
// files: that finding says more.
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
		version := ""
		for _, p := range found[dir] {
			if _, v, ok := strings.Cut(path.Base(p), ".so."); ok && strings.Contains(v, ".") {
				version = " " + v
			}
		}
		f := Finding{
			Message: fmt.Sprintf("%s puts the driver%s of %s on the search path", w.searchDirs()[dir], version, dir), Library: "libcuda.so.1",
			Present: w.filesOf(found[dir]),
			Effects: []Effect{
				{"on a host whose driver is newer, CUDA does not start", "Error 803: system has unsupported display driver / cuda driver combination"},
				{"on a GPU that is not for data centres, CUDA does not start", "Error 804: forward compatibility was attempted on non supported HW"},
			},
			Fixes: []string{w.dropFix(dir), "the container runtime adds the directory by itself where it helps"},
		}
		w.behindDriver(&f, dir)
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
		return []Finding{{
			Severity: Note, Library: "libcuda.so.1", Present: []File{w.file(realPath(w.img.FS, e.Path))},
			Message: fmt.Sprintf("%s names the driver of %s", ldCache, dir),
			Because: "no ld.so.conf names the directory: the container runtime's ldconfig writes the cache without it",
		}}
	}
	return nil
}

const mountedDriver = "/usr/local/nvidia/lib64"

// driverPathLost is for images made from NVIDIA's, whose LD_LIBRARY_PATH named
// the directory in which GKE and others mount the driver.
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
	f := Finding{
		Message: fmt.Sprintf("LD_LIBRARY_PATH has lost %s, which the base image had", mountedDriver), Library: "libcuda.so.1",
		Effects: []Effect{{"where the driver is mounted there (GKE), programs do not find it and go on without the GPU", "libcuda.so.1: cannot open shared object file: No such file or directory"}},
		Fixes:   []string{w.edited("driver-path-lost", nil)},
	}
	if _, configured := w.searchDirs()[mountedDriver]; configured {
		f.Severity, f.Because = Note, "/etc/ld.so.conf.d names the directory: where ldconfig runs when the container starts, the driver is found"
	}
	return []Finding{f}
}

// driverInImage finds files of the driver that a layer brought: the runtime
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
	f := Finding{
		Message: fmt.Sprintf("the image has files of the GPU driver itself (%s): they must fit the host's kernel module", path.Base(paths[0])),
		Present: w.filesOf(paths),
		Effects: []Effect{
			{"on a host with another driver, the image's copy may be found first", "CUDA driver version is insufficient for CUDA runtime version"},
			{"some runtimes cannot mount the host's files over them", "nvidia-container-cli: mount error: file creation failed"},
		},
		Fixes: []string{"do not install the driver in an image (libnvidia-compute-…, cuda-drivers, nvidia-driver-…), and do not `docker commit` a container that had a GPU: the container runtime mounts the host's driver"},
	}
	f.Library = path.Base(paths[0])
	switch {
	case w.img.Config == nil || w.img.Config.OS == "": // an image's config names its system
		f.Severity, f.Because = Note, "this is a directory, and a machine has its own driver"
	case !whole:
		f.Severity, f.Because = Note, "they are links only"
	case w.onJetson():
		f.Severity, f.Because = Note, "on a Jetson the container runtime mounts the device's own over them"
	}
	return []Finding{f}
}

func (w *world) gpuHidden() []Finding {
	value, set := w.getenv("NVIDIA_VISIBLE_DEVICES")
	if !set || value != "" && value != "void" && value != "none" || len(w.gpuUsers()) == 0 {
		return nil
	}
	return []Finding{{
		Message: fmt.Sprintf("NVIDIA_VISIBLE_DEVICES=%s asks for no GPU, and the image has programs for one", value),
		Effects: []Effect{{"where nothing else sets the variable, the container runs without GPU", "Found no NVIDIA driver on your system"}},
		Fixes:   []string{w.edited("gpu-hidden", nil) + ", or leave it unset: `docker run --gpus` and Kubernetes set it"},
	}}
}

// devicesHidden is for CUDA_VISIBLE_DEVICES in the image's environment where it
// leaves no device: the first number that is none ends the list.
func (w *world) devicesHidden() []Finding {
	value, set := w.getenv("CUDA_VISIBLE_DEVICES")
	hidden := value == "" || value[0] == '-' || value == "none" || value == "NoDevFiles"
	if !set || !hidden || len(w.gpuUsers()) == 0 {
		return nil
	}
	return []Finding{{
		Message: fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s hides every GPU from CUDA, and the image has programs for one", value),
		Effects: []Effect{{"CUDA finds no device, on whatever host", "No CUDA GPUs are available"}},
		Fixes:   []string{"leave CUDA_VISIBLE_DEVICES out of the image's environment"},
	}}
}

// driverCapabilities holds NVIDIA_DRIVER_CAPABILITIES against the driver's
// libraries that files ask for.
func (w *world) driverCapabilities() []Finding {
	value, set := w.getenv("NVIDIA_DRIVER_CAPABILITIES")
	words := strings.Split(strings.ReplaceAll(value, " ", ""), ",")
	if !set || value == "" {
		words = []string{"utility", "compute"} // the runtime's default
	}
	if slices.Contains(words, "all") || len(w.gpuUsers()) == 0 {
		return nil
	}
	known := func(word string) bool {
		return slices.ContainsFunc(w.packs.Capabilities, func(c *Capability) bool { return c.Name == word })
	}
	var list []Finding
	whole := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !known(word) })
	for _, c := range w.packs.Capabilities {
		if slices.Contains(words, c.Name) {
			continue
		}
		users := w.usersOf(c.Libraries)
		if c.Name == "compute" && len(users) == 0 {
			users = w.gpuUsers()
		}
		if len(users) == 0 {
			continue
		}
		whole = append(whole, c.Name)
		f := Finding{
			Message:  fmt.Sprintf("NVIDIA_DRIVER_CAPABILITIES leaves out %q, which %s needs", c.Name, path.Base(users[0])),
			Effects:  []Effect{{Text: c.Effect}},
			NeededBy: w.filesOf(users),
			Values:   map[string]string{"lacks": c.Name},
		}
		if !set || value == "" {
			f.Severity = Note
			f.Message = fmt.Sprintf("NVIDIA_DRIVER_CAPABILITIES is not set, which means utility,compute: %q is left out, which %s needs", c.Name, path.Base(users[0]))
		}
		list = append(list, f)
	}
	for _, word := range words {
		if word != "" && !known(word) {
			list = append(list, Finding{
				Message: fmt.Sprintf("NVIDIA_DRIVER_CAPABILITIES has %q, which is no capability", word),
				Effects: []Effect{{"the container does not start", "unsupported driver capabilities"}},
				Values:  map[string]string{"unknown": word},
			})
		}
	}
	for i := range list { // one value for all of them
		list[i].Fixes = []string{"ENV NVIDIA_DRIVER_CAPABILITIES=" + strings.Join(whole, ",") + ", or all"}
	}
	return list
}

// usersOf are the files that need one of the driver's libraries, and are not the
// driver's.
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

// requireCUDA holds NVIDIA_REQUIRE_CUDA, by which the runtime refuses a host,
// against the CUDA version that the frameworks are built for.
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
		f := Finding{
			Message: fmt.Sprintf("NVIDIA_REQUIRE_CUDA asks the host for CUDA %s, and %s %s is built for CUDA %s", asks, b.Name, b.Version, b.CUDA),
			Present: []File{w.file(b.Path)},
		}
		if parseRelease(asks).Before(parseRelease(b.CUDA)) {
			f.Effects = []Effect{{"the container starts on hosts whose driver is too old for it", "CUDA driver version is insufficient for CUDA runtime version"}}
		} else {
			f.Effects = []Effect{{"hosts are refused whose driver would do", fmt.Sprintf("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=%s", asks)}}
		}
		f.Fixes = []string{fmt.Sprintf("base the image on CUDA %s, or ENV NVIDIA_REQUIRE_CUDA=cuda>=%s", numbers(b.CUDA, 2), numbers(b.CUDA, 2))}
		list = append(list, f)
	}
	return list
}

// requiredCUDA is the version in "cuda>=12.4 brand=tesla,…".
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
		if a.Name != "LD_LIBRARY_PATH" && a.Name != "LD_PRELOAD" {
			continue
		}
		if _, set := w.getenv(a.Name); set {
			continue
		}
		value := strings.NewReplacer("${CONDA_PREFIX}", a.Prefix, "$CONDA_PREFIX", a.Prefix).Replace(a.Value)
		f := Finding{
			Message: fmt.Sprintf("%s is set only when the conda environment %s is activated, which the container does not do", a.Name, a.Prefix),
			Present: []File{w.file(a.Path)},
			Effects: []Effect{{Text: "what works in a shell after `conda activate` fails when the container is started"}},
			Fixes:   []string{fmt.Sprintf("start the program by `conda run -p %s --no-capture-output …`", a.Prefix)},
		}
		if !strings.ContainsAny(value, "$`") {
			f.Values = map[string]string{map[string]string{"LD_LIBRARY_PATH": "path", "LD_PRELOAD": "preload"}[a.Name]: value}
			f.Fixes = append([]string{w.edited("conda-activate-only", f.Values)}, f.Fixes...)
		}
		list = append(list, f)
	}
	return list
}

// shellExport is a command that writes LD_LIBRARY_PATH to a file of a shell's.
var shellExport = regexp.MustCompile(`LD_LIBRARY_PATH=["']?([^\s"';&|>]+)[^&|]*>>?\s*["']?(\S*(?:\.bashrc|\.bash_profile|\.profile|\.zshrc|/etc/profile|/etc/profile\.d/[\w.-]+|/etc/bash\.bashrc|/etc/environment))\b`)

// shellOnly finds search paths that a build step has written into a file that only
// shells read, as the history of the image tells.
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
		values := map[string]string{"lost": strings.Join(lost, ":")}
		f := Finding{
			Message: fmt.Sprintf("a build step writes LD_LIBRARY_PATH=%s to %s, which only a shell reads", export[1], export[2]),
			Effects: []Effect{{Text: "what works in a shell of the container fails when it is started: its program does not get the variable"}},
			Fixes:   []string{w.edited("shell-only-path", values)},
			Values:  values,
		}
		if !w.missedIn(lost) {
			f.Severity, f.Because = Note, "nothing that was looked at misses what is there"
		}
		list = append(list, f)
	}
	return list
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
		if slices.ContainsFunc(r.missed, func(m missedOpen) bool { return m.severity != Note && missed(m.err) }) {
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
			severity, _ := w.judge(o, e)
			return missed(e) && (severity != Note || o.path == start)
		})
	})
}

// interactive reports whether the image starts a shell that somebody types into.
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
