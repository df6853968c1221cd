package replay

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// MountedDriver is the directory in which GKE and other clusters without the NVIDIA
// container runtime mount the driver
// (https://cloud.google.com/kubernetes-engine/docs/how-to/gpus).
const MountedDriver = "/usr/local/nvidia/lib64"

// PathEntries returns the elements of LD_LIBRARY_PATH as the loader splits it: glibc at
// colons and semicolons (elf/dl-load.c, fillin_rpath), musl at colons and newlines
// (ldso/dynlink.c).
func (lo *Loaders) PathEntries() []string {
	value, ok := lo.config.Getenv(packs.LdLibraryPath)
	if !ok || value == "" {
		return nil
	}
	if lo.Primary != nil && lo.Primary.Libc.Musl {
		return strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == '\n' })
	}
	return strings.Split(strings.ReplaceAll(value, ";", ":"), ":")
}

// SearchDirs returns the directories of LD_LIBRARY_PATH and, for glibc, of
// /etc/ld.so.conf and its fragments, each with the variable or file that names it.
func (lo *Loaders) SearchDirs() map[string]string {
	dirs := map[string]string{}
	if lo.Primary == nil || !lo.Primary.Libc.Musl {
		for e := range lo.img.FS.Below("/etc") {
			if e.Path != "etc/ld.so.conf" && !packs.Match("etc/ld.so.conf.d/*.conf", e.Path) {
				continue
			}
			if file, _, ok := lo.img.FS.Lookup(e.Path); ok {
				for _, dir := range confDirs(file.Content) {
					dirs[dir] = "/" + e.Path
				}
			}
		}
	}
	for _, e := range lo.PathEntries() {
		if strings.HasPrefix(e, "/") {
			dirs[path.Clean(e)] = packs.LdLibraryPath
		}
	}
	return dirs
}

// confDirs returns the directories in a file of ld.so.conf.
func confDirs(content []byte) []string {
	var list []string
	for line := range strings.Lines(string(content)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
			list = append(list, path.Clean(line))
		}
	}
	return list
}

// OnPath reports whether LD_LIBRARY_PATH or ld.so.conf names a directory.
func (lo *Loaders) OnPath(dir string) bool {
	for named := range lo.SearchDirs() {
		if lo.img.SameDir(named, dir) {
			return true
		}
	}
	return false
}
