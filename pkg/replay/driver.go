package replay

import (
	"debug/elf"
	"path"
	"strings"
	"syscall"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// gpuHost is the image's file system as a process sees it on a machine with a
// GPU: the container runtime has put the driver's libraries into one of the
// loader's own directories. Its legacy mode puts them into the distribution's
// directory, CDI names their directory in /etc/ld.so.conf.d; either way they come
// where the loader looks last. It then runs ldconfig, so that the cache names the
// driver's libraries as well (ldcache.go).
//
// A file of the image hides the injected one of the same path, as it does not in
// a container: an image with such a file is judged by what it brings.
type gpuHost struct {
	elfdeps.FS
	packs   *packs.Packs
	dir     string // without a slash at its end; empty: nothing is injected
	machine elf.Machine
	class   elf.Class
	cache   []byte // in place of the image's ld.so.cache; nil: the image's
}

// gpuHost is the image's file system with the driver in it, and with the cache that
// ldconfig writes then.
func (lo *Loaders) gpuHost(l *elfdeps.Loader) *gpuHost {
	h := lo.mountedHost(l)
	if !l.Libc.Musl {
		h.cache = h.rewrittenCache(l)
	}
	return h
}

// mountedHost puts the driver into the first of the loader's directories that the
// image has.
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

// Find is the image's, and the driver's libraries beside it.
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
	if !h.packs.FromDriver(name) || !strings.HasSuffix(name, ".so.1") && name != "libcuda.so" {
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

// hostID tells the injected files from the image's and from one another.
func hostID(name string) uint64 {
	id := uint64(1) << 63
	for i := range len(name) {
		id = id*131 + uint64(name[i])
	}
	return id | 1<<63
}
