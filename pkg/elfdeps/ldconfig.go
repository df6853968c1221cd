package elfdeps

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"path"
	"slices"
	"strings"
)

// CacheEntry is one library of an ld.so.cache.
type CacheEntry struct {
	Name   string // the requested name
	Path   string // the file that the loader opens
	Flags  int32  // the ABI, from [CacheFlags]
	Subdir string // the glibc-hwcaps subdirectory, "x86-64-v3", or empty
	ISA    int    // in a subdirectory, the x86-64 level that the file needs less one: 0 to 3
}

// CacheFlags returns the flags of the cache entries for an ABI.
func CacheFlags(m elf.Machine, c elf.Class) int32 { return (&Loader{machine: m, class: c}).cacheID() }

// WriteCache returns an ld.so.cache with the entries in the new format, which glibc
// reads since 2.2 and ldconfig writes since 2.32 (save_cache, elf/cache.c). It sorts
// them as ldconfig does; equal entries keep their order.
func WriteCache(entries []CacheEntry) []byte {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, compareEntries)
	var names []string
	for _, e := range entries {
		if e.Subdir != "" {
			names = append(names, e.Subdir)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)

	base := uint32(48 + 24*len(entries))
	table := stringTable{at: map[string]uint32{}, base: base}
	u32 := binary.LittleEndian.AppendUint32
	var rows []byte
	for _, e := range entries {
		rows = u32(rows, uint32(e.Flags))
		rows = u32(rows, table.add(e.Name))
		rows = u32(rows, table.add(e.Path))
		rows = u32(rows, 0) // osversion
		rows = binary.LittleEndian.AppendUint64(rows, hwcapValue(e, names))
	}
	var subdirs []byte
	for _, n := range names {
		subdirs = u32(subdirs, table.add(n))
	}
	extension := (base + uint32(len(table.b)) + 3) &^ 3

	b := append([]byte(nil), cacheMagicNew...)
	b = u32(b, uint32(len(entries)))
	b = u32(b, uint32(len(table.b)))
	b = append(b, 2, 0, 0, 0) // little endian
	b = u32(b, extension)
	b = append(b, make([]byte, 12)...)
	b = append(b, rows...)
	b = append(b, table.b...)
	b = append(b, make([]byte, int(extension)-len(b))...)
	const generator = "imgcheck"
	b = u32(b, cacheExtMagic)
	b = u32(b, 2)
	end := extension + 8 + 2*16
	for i, section := range [][]byte{[]byte(generator), subdirs} {
		b = u32(b, uint32(i)) // tag 0: generator, 1: subdirectories
		b = u32(b, 0)
		at := end
		if i == 1 {
			at = end + uint32(len(generator)+3)&^3
		}
		b = u32(b, at)
		b = u32(b, uint32(len(section)))
	}
	b = append(b, generator...)
	b = append(b, make([]byte, int(uint32(len(generator)+3)&^3)-len(generator))...)
	return append(b, subdirs...)
}

// compareEntries is compare in elf/cache.c: names and flags descending, then entries of
// subdirectories before others.
func compareEntries(a, b CacheEntry) int {
	subdirFirst := func(e CacheEntry) int {
		if e.Subdir != "" {
			return 0
		}
		return 1
	}
	return cmp.Or(
		compareCacheNames(b.Name, a.Name),
		cmp.Compare(b.Flags, a.Flags),
		subdirFirst(a)-subdirFirst(b),
		strings.Compare(a.Subdir, b.Subdir),
	)
}

// hwcapValue returns the hwcap field of an entry: for one of a subdirectory the bit of
// the extension, the ISA level and the index of the name.
func hwcapValue(e CacheEntry, names []string) uint64 {
	if e.Subdir == "" {
		return 0
	}
	i, _ := slices.BinarySearch(names, e.Subdir)
	return 1<<62 | uint64(e.ISA)<<32 | uint64(i)
}

// stringTable holds each string once.
type stringTable struct {
	b    []byte
	at   map[string]uint32
	base uint32
}

func (t *stringTable) add(s string) uint32 {
	if off, ok := t.at[s]; ok {
		return off
	}
	off := t.base + uint32(len(t.b))
	t.b = append(append(t.b, s...), 0)
	t.at[s] = off
	return off
}

// DirFS is an [FS] whose directories can be listed.
type DirFS interface {
	FS
	// List returns the names in a directory, in any order.
	List(dir string) ([]string, error)
}

// Ldconfig returns the entries that ldconfig would write for the loader's ABI: the
// libraries by their SONAME, in the directories of /etc/ld.so.conf, then in the
// built-in ones. It changes nothing. missing has the links that ldconfig would make,
// each DIR/SONAME with the file that it would lead to.
func Ldconfig(fsys DirFS, l *Loader) (entries []CacheEntry, missing map[string]string) {
	c := ldconfig{fs: fsys, l: l, missing: map[string]string{}, seen: map[string]bool{}}
	for _, dir := range c.confDirs("/etc/ld.so.conf", 0) {
		c.dir(dir)
	}
	for _, dir := range c.systemDirs() {
		c.dir(dir)
	}
	return c.entries, c.missing
}

// ConfDirs returns the directories of /etc/ld.so.conf and its includes, in ldconfig's
// order, as written there. The built-in directories follow them in ldconfig.
func ConfDirs(fsys DirFS) []string {
	c := ldconfig{fs: fsys}
	return c.confDirs("/etc/ld.so.conf", 0)
}

// maxConfs limits the patterns and files that ld.so.conf includes, since a file may
// include itself.
const maxConfs = 1 << 12

type ldconfig struct {
	fs      DirFS
	confs   int // included patterns and files
	l       *Loader
	entries []CacheEntry
	missing map[string]string
	seen    map[string]bool // real paths of directories
}

// systemDirs returns the built-in directories. For the upstream x86-64 layout ldconfig
// adds /lib and /usr/lib to those of ld.so (add_system_dir,
// sysdeps/unix/sysv/linux/x86_64/64).
func (c *ldconfig) systemDirs() []string {
	if len(c.l.system) == 2 && c.l.system[0] == "/lib64/" {
		return []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}
	}
	return c.l.system
}

// confDirs reads an ld.so.conf: a directory in each line, and includes (parse_conf).
func (c *ldconfig) confDirs(name string, depth int) []string {
	f, err := c.fs.Find(name)
	if c.confs++; err != nil || depth > 10 || c.confs > maxConfs {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(f.Content)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "include":
			for _, pattern := range words[1:] {
				if c.confs++; c.confs > maxConfs {
					return dirs
				}
				if !strings.HasPrefix(pattern, "/") {
					pattern = path.Join(path.Dir(name), pattern)
				}
				for _, file := range c.glob(pattern) {
					dirs = append(dirs, c.confDirs(file, depth+1)...)
				}
			}
		case words[0] == "hwcap":
		default:
			dir, _, _ := strings.Cut(strings.TrimSpace(line), "=")
			dirs = append(dirs, strings.TrimSpace(dir))
		}
	}
	return dirs
}

// glob expands a pattern that has wildcards in its last element only.
func (c *ldconfig) glob(pattern string) []string {
	dir, base := path.Split(pattern)
	names, err := c.fs.List(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, n := range names {
		if ok, _ := path.Match(base, n); ok && (!strings.HasPrefix(n, ".") || strings.HasPrefix(base, ".")) {
			list = append(list, dir+n)
		}
	}
	slices.Sort(list)
	return list
}

// dir adds the libraries of a directory and of its glibc-hwcaps subdirectories. It
// adds a directory that has several names once (add_dir_1).
func (c *ldconfig) dir(dir string) {
	if dir != "/" {
		dir = strings.TrimRight(dir, "/")
	}
	f, err := c.fs.Find(dir)
	if err != nil || !f.Mode.IsDir() || c.seen[f.Path] {
		return
	}
	c.seen[f.Path] = true
	c.libraries(dir, "")
	if c.l.release < 233 || c.l.machine != elf.EM_X86_64 {
		return
	}
	for _, sub := range []string{"x86-64-v2", "x86-64-v3", "x86-64-v4"} {
		c.libraries(dir+"/glibc-hwcaps/"+sub, sub)
	}
}

// library is the best file of a directory for one SONAME.
type library struct {
	name string
	link bool
	isa  uint32
}

// libraries adds the entries of one directory (search_dir, elf/ldconfig.c).
func (c *ldconfig) libraries(dir, sub string) {
	names, err := c.fs.List(dir)
	if err != nil {
		return
	}
	slices.Sort(names)
	found := map[string]library{}
	var order []string
	for _, name := range names {
		soname, lib, ok := c.library(dir, name)
		if !ok {
			continue
		}
		old, there := found[soname]
		if !there {
			order = append(order, soname)
		} else if !(old.link && !lib.link || old.link == lib.link && compareCacheNames(old.name, name) < 0) {
			continue
		}
		found[soname] = lib
	}
	for _, soname := range order {
		lib := found[soname]
		e := CacheEntry{Name: soname, Path: dir + "/" + soname, Flags: c.l.cacheID(), Subdir: sub}
		if sub != "" {
			e.Path, e.ISA = dir+"/"+lib.name, isaLevel(lib.isa)
		} else if !lib.link && lib.name != soname {
			c.link(dir, soname, lib.name)
		}
		c.entries = append(c.entries, e)
	}
}

// link records a SONAME link that is missing or leads elsewhere (create_links).
func (c *ldconfig) link(dir, soname, name string) {
	want, err := c.fs.Find(dir + "/" + name)
	if err != nil {
		return
	}
	if have, err := c.fs.Find(dir + "/" + soname); err != nil || have.ID != want.ID {
		c.missing[dir+"/"+soname] = name
	}
}

// library returns the SONAME under which ldconfig takes a file of a directory; ok is
// false for a file that it does not take.
func (c *ldconfig) library(dir, name string) (string, library, bool) {
	if !isLibraryName(name, c.l.release) {
		return "", library{}, false
	}
	f, err := c.fs.Find(dir + "/" + name)
	if err != nil || !f.Mode.IsRegular() || f.Object == nil {
		return "", library{}, false
	}
	o := f.Object
	if o.Machine != c.l.machine || o.Class() != c.l.class || o.Type != elf.ET_DYN || !o.Dynamic {
		return "", library{}, false
	}
	soname := o.Soname
	if soname == "" {
		soname = name
	}
	link := f.Path != realDir(c.fs, dir)+"/"+name
	// The link libx.so for ld(1) gets an entry of its own; any other link whose name is
	// not the SONAME counts as a file.
	if link && name != soname && !(strings.HasSuffix(name, ".so") && strings.HasPrefix(soname, name)) {
		link = false
	}
	if link {
		soname = name
	}
	return soname, library{name, link, o.ISANeeded}, true
}

// realDir returns the real path of dir, "" for the root.
func realDir(fsys FS, dir string) string {
	f, err := fsys.Find(dir)
	if err != nil || f.Path == "/" {
		return ""
	}
	return f.Path
}

// isLibraryName reports whether ldconfig examines files of this name.
func isLibraryName(name string, release int) bool {
	if release >= 239 && (strings.Contains(name, ";") || strings.HasSuffix(name, ".dpkg-new") || strings.HasSuffix(name, ".dpkg-tmp") || strings.HasSuffix(name, ".dpkg.tmp") || strings.HasSuffix(name, ".dpkg.new")) {
		return false
	}
	prefix := slices.ContainsFunc([]string{"lib", "ld-", "ld.so.", "ld64.so."}, func(p string) bool { return strings.HasPrefix(name, p) })
	return prefix && strings.Contains(name, ".so")
}

// isaLevel returns the highest bit number, up to 3, in GNU_PROPERTY_X86_ISA_1_NEEDED.
func isaLevel(bits uint32) int {
	for level := 3; level > 0; level-- {
		if bits&(1<<level) != 0 {
			return level
		}
	}
	return 0
}
