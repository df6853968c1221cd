package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// PathEntries returns the elements of LD_LIBRARY_PATH as the loader splits it: glibc at
// colons and semicolons, musl at colons and newlines (glibc elf/dl-load.c, fillin_rpath; musl ldso/dynlink.c).
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

// IsMount reports whether something is mounted to a directory when the container starts:
// it is one of the packs' mounts, or in a volume of the image.
func (co *Config) IsMount(dir string) bool {
	for _, m := range co.packs.Mounts {
		if packs.Match(m.Match, dir) {
			return true
		}
	}
	if co.img.Config != nil {
		for v := range co.img.Config.Config.Volumes {
			if IsIn(path.Clean(dir), path.Clean(v)) {
				return true
			}
		}
	}
	return false
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
			real, _, ok := lo.img.FS.Lookup(e.Path)
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
	for _, e := range lo.PathEntries() {
		if strings.HasPrefix(e, "/") {
			dirs[path.Clean(e)] = packs.LdLibraryPath
		}
	}
	return dirs
}

const MountedDriver = "/usr/local/nvidia/lib64"

// UsersOf returns the files that need one of libraries, less those of the driver.
func (fi *Files) UsersOf(libraries []string) []string {
	var list []string
	for _, o := range fi.Objects {
		if fi.packs.FromDriver(o.Path) {
			continue
		}
		if slices.ContainsFunc(o.ELF.Needed, func(n string) bool {
			base, _, _ := strings.Cut(n, ".so")
			return slices.Contains(libraries, base)
		}) {
			list = append(list, o.Path)
		}
	}
	return list
}

// Interactive reports whether the image starts a shell without a command.
func (co *Config) Interactive() bool {
	c := co.img.Config.Config
	argv := slices.Concat(c.Entrypoint, c.Cmd)
	return len(argv) == 0 || len(argv) == 1 && strings.HasSuffix(path.Base(argv[0]), "sh")
}

// HasLibraries reports whether a directory holds a library of the image's machine.
func (fi *Files) HasLibraries(dir string) bool {
	return slices.ContainsFunc(fi.Objects, func(o *Object) bool { return path.Dir(o.Path) == dir && !IsProgram(o.ELF) })
}

// Activates reports whether the image's command goes through conda or a login
// shell, or may do so in a script.
func (co *Config) Activates() bool {
	c := co.img.Config.Config
	for _, word := range slices.Concat(c.Entrypoint, c.Cmd) {
		base := path.Base(word)
		if slices.Contains([]string{"conda", "mamba", "micromamba", "-l", "--login", "-lc", "-ic", "-i", "_entrypoint.sh"}, base) || strings.Contains(word, "activate") {
			return true
		}
	}
	start := co.Entry()
	if start.Name == "" {
		return false
	}
	p, ok := co.Executable(start.Name)
	if !ok {
		return false
	}
	script, _, ok := co.img.FS.Lookup(p)
	return ok && script.Shebang != "" && strings.HasSuffix(path.Base(shebangProgram(script.Shebang)), "sh")
}
