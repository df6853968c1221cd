package lint

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// holding returns the files whose names are wanted, by the search directory that has them, of
// the directories that fit.
func holding(pass *Pass, fits, wanted func(name string) bool) map[string][]string {
	found := map[string][]string{}
	for dir := range pass.Loaders.SearchDirs() {
		real := replay.RealPath(pass.Image.FS, dir)
		if !fits(dir) && !fits(real) {
			continue
		}
		for e := range pass.Image.FS.Below(real) {
			if path.Dir("/"+e.Path) == real && wanted(path.Base(e.Path)) {
				found[dir] = append(found[dir], "/"+e.Path)
			}
		}
	}
	return found
}

// dropping adds to v the values of a fix that takes a directory out of the search path:
// "search-path", or "env" if a file of ld.so.conf names the directory.
func dropping(pass *Pass, dir string, v packs.Values) packs.Values {
	v["dir"], v["by"] = dir, pass.Loaders.SearchDirs()[dir]
	if v["by"] == packs.LdLibraryPath {
		v["search-path"] = without(pass, dir)
	} else {
		v["env"] = pass.Packs.Phrase("drop-configured", v)
	}
	return v
}

// stubsOnPath returns a finding for each search directory with stubs of the driver.
func stubsOnPath(pass *Pass) []Finding {
	isStubs := func(dir string) bool { return path.Base(dir) == "stubs" }
	var list []Finding
	found := holding(pass, isStubs, pass.Packs.HasStub)
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if standInLoaded(pass, found[dir]) {
			continue
		}
		f := pass.say("stubs-on-path", "on-path", dropping(pass, dir, packs.Values{}))
		f.Subject, f.Present = pass.Loaders.SearchDirs()[dir], pass.Image.FilesOf(found[dir])
		named := slices.ContainsFunc(found[dir], func(p string) bool { return path.Base(p) == pass.Packs.Driver.Library })
		if named {
			f.Library = pass.Packs.Driver.Library
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

// behindDriver reports whether the loader searches a directory with copies of the driver
// after the one to which the container runtime mounts it.
func behindDriver(pass *Pass, dir string) bool {
	return pass.Loaders.SearchDirs()[dir] != packs.LdLibraryPath && pass.Loaders.DriverComesFirst()
}

// compatOnPath returns a finding for each search directory with a compatibility driver.
func compatOnPath(pass *Pass) []Finding {
	isCompat := func(dir string) bool { return replay.HasElement(dir, "compat") && strings.Contains(dir, "cuda") }
	var list []Finding
	isDriver := func(name string) bool {
		return packs.Stem(name) == packs.Stem(pass.Packs.Driver.Library) && packs.MajorOf(name) != ""
	}
	found := holding(pass, isCompat, isDriver)
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if standInLoaded(pass, found[dir]) {
			continue
		}
		clause, v := "on-path", packs.Values{}
		for _, p := range found[dir] {
			if _, version, ok := strings.Cut(path.Base(p), ".so."); ok && strings.Contains(version, ".") {
				clause, v = "version-on-path", packs.Values{"version": version}
			}
		}
		f := pass.say("compat-on-path", clause, dropping(pass, dir, v))
		f.Subject, f.Library, f.Present = pass.Loaders.SearchDirs()[dir], pass.Packs.Driver.Library, pass.Image.FilesOf(found[dir])
		if behindDriver(pass, dir) {
			pass.lower(&f, "behind-driver", nil)
		} else {
			pass.also(&f, "fails", nil)
		}
		list = append(list, f)
	}
	return append(list, compatInCache(pass)...)
}

// compatInCache returns a finding for a compatibility driver that only /etc/ld.so.cache
// names (`RUN ldconfig /usr/local/cuda-12.8/compat`, as in vLLM's Dockerfile).
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
		if e.Name != pass.Packs.Driver.Library || !pass.Image.IsFile(e.Path) || !replay.HasElement(dir, "compat") || pass.Loaders.OnPath(replay.RealPath(pass.Image.FS, dir)) || !pass.Loaders.DriverComesFirst() {
			continue
		}
		f := pass.say("compat-on-path", "in-cache", packs.Values{"cache": replay.LDCache, "dir": dir})
		f.Subject, f.Library, f.Present = replay.LDCache, pass.Packs.Driver.Library, []replay.File{pass.Image.File(replay.RealPath(pass.Image.FS, e.Path))}
		return []Finding{f}
	}
	return nil
}

// driverPathLost returns a finding for an image based on NVIDIA's whose LD_LIBRARY_PATH no
// longer has the directory to which GKE and other clusters mount the driver.
func driverPathLost(pass *Pass) []Finding {
	if pass.Image.Config == nil || mountedOnPath(pass) {
		return nil
	}
	had := ""
	for _, h := range pass.Image.Config.History {
		if strings.Contains(h.CreatedBy, "LD_LIBRARY_PATH=") && strings.Contains(h.CreatedBy, replay.MountedDriver) {
			had = h.CreatedBy
		}
	}
	isSet := func(variable string) bool { _, set := pass.Config.Getenv(variable); return set }
	if based := slices.ContainsFunc(pass.Packs.Driver.BaseVariables, isSet); had == "" && !based || len(pass.Packages.GpuUsers()) == 0 {
		return nil
	}
	f := pass.say("driver-path-lost", "lost", withEdit(pass, "driver-path-lost", packs.Values{"dir": replay.MountedDriver}))
	f.Subject, f.Library = packs.LdLibraryPath, pass.Packs.Driver.Library
	if _, configured := pass.Loaders.SearchDirs()[replay.MountedDriver]; configured {
		pass.lower(&f, "configured", nil)
	}
	return []Finding{f}
}
