package replay

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// LDCache is the path of glibc's cache of libraries.
const LDCache = "/etc/ld.so.cache"

// runtimeConf is the drop-in in which the container runtime names the driver's directory,
// unless ld.so.conf names it already. 00-cuda-compat.conf, which some images have on
// purpose, sorts before it (https://github.com/NVIDIA/nvidia-container-toolkit
// internal/ldconfig/ldconfig.go).
const runtimeConf = "/etc/ld.so.conf.d/00-nvcr-driver.conf"

// ldconfigHost is a gpuHost as the container runtime's ldconfig sees it: the driver is
// mounted, and the drop-in exists if dropIn is set.
type ldconfigHost struct {
	*gpuHost
	list   fs.FS
	dropIn bool
}

// Find returns a file of the host, or the drop-in.
func (h ldconfigHost) Find(p string) (*elfdeps.File, error) {
	if h.dropIn && p == runtimeConf {
		return &elfdeps.File{Path: p, ID: hostID(p), Mode: 0o644, Content: []byte(h.dir + "\n")}, nil
	}
	return h.gpuHost.Find(p)
}

// List returns the names in a directory, including the driver's libraries and the
// drop-in.
func (h ldconfigHost) List(dir string) ([]string, error) {
	d, err := h.gpuHost.Find(path.Clean(dir))
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(h.list, strings.TrimPrefix(d.Path, "/"))
	if err != nil {
		return nil, syscall.ENOENT
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	switch d.Path {
	case h.dir:
		for _, library := range h.packs.Driver.Libraries {
			names = append(names, library+".so.1")
		}
	case path.Dir(runtimeConf):
		names = append(names, path.Base(runtimeConf))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// driverEntries returns the entries for the driver's libraries in the cache that ldconfig
// writes after the container runtime has mounted the driver. The loader takes the first
// entry of a name.
//
// The legacy runtime names the driver's directory on ldconfig's command line, where it
// always comes first (https://github.com/NVIDIA/libnvidia-container src/nvc_ldcache.c).
// CDI's hook leaves the directory where ld.so.conf has it. The entries are those of the
// hook: if the driver's library comes first there, it does with the legacy runtime as
// well.
func (h *gpuHost) driverEntries(l *elfdeps.Loader) []elfdeps.CacheEntry {
	list, ok := h.FS.(fs.FS)
	if h.dir == "" || !ok {
		return nil
	}
	host := ldconfigHost{gpuHost: h, list: list}
	host.dropIn = !slices.ContainsFunc(elfdeps.ConfDirs(host), func(dir string) bool {
		d, err := h.Find(dir)
		return err == nil && d.Path == h.dir
	})
	entries, _ := elfdeps.Ldconfig(host, l)
	return slices.DeleteFunc(entries, func(e elfdeps.CacheEntry) bool { return !h.packs.FromDriver(e.Name) })
}

// rewrittenCache returns the image's ld.so.cache with the driver's libraries as the
// container runtime's ldconfig enters them, or nil if the image's cache names none of
// them.
func (h *gpuHost) rewrittenCache(l *elfdeps.Loader) []byte {
	file, err := h.FS.Find(LDCache)
	if err != nil {
		return nil
	}
	cache := elfdeps.ParseCache(file.Content)
	if cache == nil {
		return nil
	}
	entries := cache.Entries()
	others := slices.DeleteFunc(slices.Clone(entries), func(e elfdeps.CacheEntry) bool { return h.packs.FromDriver(e.Name) })
	if len(others) == len(entries) {
		return nil
	}
	return elfdeps.WriteCache(append(others, h.driverEntries(l)...))
}

// DriverComesFirst reports whether a program that finds libcuda.so.1 by ld.so.cache gets
// the host's after the container runtime has run ldconfig, even if ld.so.conf leads to
// other copies.
func (lo *Loaders) DriverComesFirst() bool { return lo.driverFirst() }

func (lo *Loaders) driverComesFirst() bool {
	if lo.Primary == nil || lo.Primary.Libc.Musl {
		return false
	}
	h := lo.mountedHost(lo.Primary)
	for _, e := range h.driverEntries(lo.Primary) {
		if e.Name == lo.packs.Driver.Library && e.Subdir == "" {
			f, err := h.Find(e.Path)
			return err == nil && f.Path == path.Join(h.dir, e.Name) && !lo.img.IsFile(f.Path)
		}
	}
	return false
}
