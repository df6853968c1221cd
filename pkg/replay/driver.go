package replay

import (
	"debug/elf"
	"path"
	"strings"
	"syscall"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// gpuHost is the file system of the image as a process sees it on a machine with a GPU:
// the container runtime has put the driver's libraries into one of the loader's default
// directories. The runtime's legacy mode uses the distribution's directory; CDI names
// their directory in /etc/ld.so.conf.d. Both are searched last. The runtime then runs
// ldconfig, so that the cache names the driver's libraries as well (ldcache.go).
//
// In a container the injected file hides the image's file of the same path. Here the
// image's file hides the injected one, so that the image is judged by its own files.
type gpuHost struct {
	elfdeps.FS
	packs   *packs.Packs
	dir     string // of the driver, without a slash at the end; empty: nothing is injected
	machine elf.Machine
	class   elf.Class
	cache   []byte // replaces the image's ld.so.cache; nil keeps it
}

// gpuHost returns the file system of the image with the driver, and the cache that
// ldconfig writes then.
func (lo *Loaders) gpuHost(l *elfdeps.Loader) *gpuHost {
	h := lo.mountedHost(l)
	if !l.Libc.Musl {
		h.cache = h.rewrittenCache(l)
	}
	return h
}

// mountedHost returns the file system of the image with the driver in the first of the
// loader's default directories that exists.
func (lo *Loaders) mountedHost(l *elfdeps.Loader) *gpuHost {
	h := &gpuHost{FS: lo.img.FS, packs: lo.packs, machine: lo.files.Machine, class: lo.files.Class}
	for _, d := range append(l.Libc.SystemDirs, "/usr/lib64/", "/usr/lib/") {
		if e, _, ok := lo.img.FS.Lookup(d); ok && e.IsDir() {
			h.dir = "/" + e.Path
			break
		}
	}
	return h
}

// Find returns a file of the image, or a library of the driver.
func (h *gpuHost) Find(p string) (*elfdeps.File, error) {
	f, err := h.FS.Find(p)
	if err == nil && h.cache != nil && p == LDCache {
		written := *f
		written.Content, written.Size = h.cache, int64(len(h.cache))
		return &written, nil
	}
	if err != syscall.ENOENT || h.dir == "" {
		return f, err
	}
	name := path.Base(p)
	if !h.packs.FromDriver(name) || !strings.HasSuffix(name, ".so.1") && name != bareLibrary(h.packs) {
		return f, err
	}
	d, derr := h.FS.Find(path.Dir(p))
	if derr != nil || d.Path != h.dir {
		return f, err
	}
	o := &elfdeps.Object{Type: elf.ET_DYN, Machine: h.machine, Version: 1, Dynamic: true, Soname: strings.TrimSuffix(name, ".1") + ".1", Stack: elfdeps.StackNoExec}
	copy(o.Ident[:], elf.ELFMAG)
	o.Ident[elf.EI_CLASS], o.Ident[elf.EI_DATA], o.Ident[elf.EI_VERSION] = byte(h.class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	return &elfdeps.File{Path: path.Join(h.dir, name), ID: hostID(name), Mode: 0o755, Size: 1 << 20, Object: o, MayDefine: h.packs.DriverDefines(name)}, nil
}

// hostID returns an ID for an injected file that no other injected file and no file of
// the image has.
func hostID(name string) uint64 {
	id := uint64(1) << 63
	for i := range len(name) {
		id = id*131 + uint64(name[i])
	}
	return id | 1<<63
}
