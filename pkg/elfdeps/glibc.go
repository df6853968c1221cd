package elfdeps

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"math/bits"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// newestGlibc is assumed where the release of a glibc is unknown.
const newestGlibc = 242

func (l *Loader) initGlibc() {
	l.release = releaseNumber(l.Libc.Release)
	l.system = l.Libc.SystemDirs
	if len(l.system) == 0 {
		l.system = defaultSystemDirs(l.machine, l.fs)
		l.Doubts = append(l.Doubts, fmt.Sprintf("%s does not tell its built-in directories: %s are assumed", l.Path, strings.Join(l.system, " ")))
	}
	if l.release == 0 {
		// Loaders have a release string from 2.33 on, libc.so.6 of all releases.
		l.release = l.libcRelease()
	}
	if l.release == 0 {
		l.release = newestGlibc
		l.Doubts = append(l.Doubts, fmt.Sprintf("%s does not tell its release: the rules of glibc %d.%d are assumed", l.Path, newestGlibc/100, newestGlibc%100))
	}
	l.tokenLib = strings.Trim(l.system[0], "/") // lib/x86_64-linux-gnu for Debian, lib64 upstream
	l.envDirs = splitEnvPath(l.env.get("LD_LIBRARY_PATH"))
	l.hwcaps = hwcapDirs(l.machine, l.release, l.env)
	l.preloadFile = split(withoutComments(l.read("/etc/ld.so.preload")), ": \t\n", "/etc/ld.so.preload")
	_, err := l.fs.Find("/etc/ld.so.cache")
	l.noCache = err != nil
	if b := l.read("/etc/ld.so.cache"); b != nil && l.env.Work.spend(8*len(b)) { // each loader holds as much
		l.cache = ParseCache(b)
	}
}

// libcRelease returns the release of the libc.so.6 in the built-in directories, or 0.
func (l *Loader) libcRelease() int {
	for _, dir := range l.system {
		if f, err := l.fs.Find(dir + "libc.so.6"); err == nil && f.Object != nil && f.Object.Libc != nil {
			return releaseNumber(f.Object.Libc.Release)
		}
	}
	return 0
}

// defaultSystemDirs returns the built-in directories to assume for a loader whose
// bytes have none: Debian's where fsys has its layout, else upstream's.
func defaultSystemDirs(m elf.Machine, fsys FS) []string {
	triplet := map[elf.Machine]string{
		elf.EM_X86_64: "x86_64-linux-gnu", elf.EM_AARCH64: "aarch64-linux-gnu", elf.EM_386: "i386-linux-gnu",
		elf.EM_PPC64: "powerpc64le-linux-gnu", elf.EM_S390: "s390x-linux-gnu", elf.EM_RISCV: "riscv64-linux-gnu", elf.EM_ARM: "arm-linux-gnueabihf",
	}[m]
	if triplet != "" {
		if f, err := fsys.Find("/usr/lib/" + triplet); err == nil && f.Mode.IsDir() {
			return []string{"/lib/" + triplet + "/", "/usr/lib/" + triplet + "/", "/lib/", "/usr/lib/"}
		}
	}
	if m == elf.EM_386 || m == elf.EM_ARM {
		return []string{"/lib/", "/usr/lib/"}
	}
	return []string{"/lib64/", "/usr/lib64/"}
}

// splitEnvPath splits LD_LIBRARY_PATH at colons and semicolons (fillin_rpath). An
// empty value has no elements; an empty element means the working directory.
func splitEnvPath(v string) []string {
	if v == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(v, ";", ":"), ":")
}

// hwcapDirs returns the subdirectories that are tried in every directory, best
// first, and "" for the directory itself last (_dl_important_hwcaps): glibc-hwcaps
// from 2.33 on, the older kinds up to 2.36.
func hwcapDirs(m elf.Machine, release int, env Env) []string {
	var dirs []string
	if m == elf.EM_X86_64 && release >= 233 {
		for level := min(env.hwcapLevel(), 4); level >= 2; level-- {
			dirs = append(dirs, fmt.Sprintf("glibc-hwcaps/x86-64-v%d/", level))
		}
	}
	if release <= 236 {
		switch m {
		case elf.EM_X86_64:
			parts := []string{"tls/", env.platform(m, release) + "/"}
			if env.avx512(release) {
				parts = append(parts, "avx512_1/")
			}
			if release >= 227 { // HWCAP_X86_64
				parts = append(parts, "x86_64/")
			}
			dirs = append(dirs, powerSet(parts)...)
		case elf.EM_AARCH64:
			dirs = append(dirs, "tls/aarch64/atomics/", "tls/aarch64/", "tls/atomics/", "tls/", "aarch64/atomics/", "aarch64/", "atomics/")
		}
	}
	return append(slices.Compact(dirs), "")
}

// powerSet returns the non-empty subsets of parts, each joined to a path, those with
// the first part before those without (_dl_important_hwcaps).
func powerSet(parts []string) []string {
	var list []string
	for i := 1<<len(parts) - 1; i > 0; i-- {
		dir := ""
		for k, p := range parts {
			if i>>(len(parts)-1-k)&1 != 0 {
				dir += p
			}
		}
		list = append(list, dir)
	}
	return list
}

// serve is _dl_map_object.
func (p glibc) serve(name string, by *Module, dlopen bool) (*Module, *Error) {
	if m := p.names[name]; m != nil {
		if m.Path != name || m.isLoader { // _dl_name_match_p does not add l_name itself
			p.name(m, name)
		}
		return m, nil
	}
	if strings.Contains(name, "/") {
		return p.openPath(name, by, dlopen)
	}
	l := p.Loader
	s := search{p: p, name: name, by: by}
	if p.log != nil {
		p.log.search(&s)
	}
	m, err := s.run(dlopen)
	if m != nil {
		return m, nil
	}
	if err == nil {
		err = &Error{Name: name, Subject: name, Message: "cannot open shared object file", Errno: s.last}
		if s.last == 0 && (l.release < 233 || l.release > 240) {
			err.Errno = syscall.ENOENT // with nowhere to look, that of an earlier open
		}
		err.miss = true
		if s.otherClass != "" {
			err.Message, err.Errno = "wrong ELF class: "+s.otherClass, 0
		}
	}
	err.By, err.Steps = by, s.steps
	p.work().spend(missed)
	if s.steps == nil && p.work().Err() == nil {
		// Few searches fail: repeating those that do is cheaper than recording the steps
		// of all.
		again := search{p: p, name: name, by: by, record: true}
		again.run(dlopen)
		err.Steps = again.steps
		if s.firm && err.miss && s.shared() {
			l.searched.put(name, &found{missing: s.missing, noCache: s.noCache, last: s.last, otherClass: s.otherClass, steps: again.steps})
		}
	}
	return nil, err
}

// openPath serves a request for a name with a slash, for which nothing is searched.
func (p glibc) openPath(name string, by *Module, dlopen bool) (*Module, *Error) {
	full, _ := p.expand(by, name) // "" when the origin is not known
	fail := func(subject, message string, no syscall.Errno, why string) *Error {
		return &Error{
			Name: name, Subject: subject, Message: message, Errno: no, By: by, miss: true,
			Steps: []Step{{Source: "path", Tried: []Candidate{{full, why}}}},
		}
	}
	f, v := p.verify(full)
	switch v.kind {
	case vTake:
		m, err := p.mapFile(full, name, f, by, dlopen, "path")
		if err != nil {
			err.Steps = []Step{{Source: "path", Tried: []Candidate{{full, err.Message}}}}
		}
		return m, err
	case vFatal:
		err := fail(full, v.message, v.errno, v.message)
		err.Unknown, err.miss = v.unknown, false
		return nil, err
	}
	if v.otherClass != "" {
		return nil, fail(name, "wrong ELF class: "+v.otherClass, 0, v.why())
	}
	return nil, fail(name, "cannot open shared object file", v.errno, v.why())
}

// search is one walk through the sources of directories.
type search struct {
	p      glibc
	name   string
	by     *Module // the requester
	record bool    // record steps

	steps      []Step
	otherClass string        // ELF class of a candidate that was passed over for it
	last       syscall.Errno // of the last failed open
	firm       bool          // last does not depend on earlier requests of the process
	missing    []string      // directories that do not exist
	noCache    bool          // the search came to ld.so.cache, which does not exist
}

// found is a cached search result that depends only on the requested name.
type found struct {
	full, how string
	file      *File    // nil: nothing was found
	missing   []string // directories that do not exist and were looked for
	noCache   bool     // so was ld.so.cache

	// Set where nothing was found.
	last       syscall.Errno
	otherClass string
	steps      []Step
}

// shared reports whether the result depends only on the requested name, because
// neither the requester nor the objects that loaded it have search paths.
func (s *search) shared() bool {
	p := s.p
	if s.record || p.log != nil || p.secure || p.preloading || s.noDefault() || s.by.Object.Runpath != nil {
		return false
	}
	return !p.hasPaths(s.by.Object) && s.by.above == nil && p.Program().Object.Rpath == nil && !slices.ContainsFunc(p.Loader.envDirs, func(dir string) bool { return strings.Contains(dir, "$") })
}

// run walks the sources in the order of _dl_map_object: the lists before the cache,
// ld.so.cache, the built-in directories. It returns neither a module nor an error
// when no source has the file.
func (s *search) run(dlopen bool) (*Module, *Error) {
	l := s.p.Loader
	shared := s.shared()
	if shared {
		if known, ok := l.searched.get(s.name); ok {
			for _, dir := range known.missing {
				s.p.gone[dir] = true
			}
			s.p.cacheTried = s.p.cacheTried || known.noCache
			if known.file == nil {
				s.last, s.otherClass, s.steps = known.last, known.otherClass, known.steps
				return nil, nil
			}
			return s.p.mapFile(known.full, s.name, known.file, s.by, dlopen, known.how)
		}
	}
	take := func(full string, f *File, how string) (*Module, *Error) {
		if shared {
			l.searched.put(s.name, &found{full: full, how: how, file: f, missing: s.missing, noCache: s.noCache})
		}
		return s.p.mapFile(full, s.name, f, s.by, dlopen, how)
	}
	for _, list := range s.lists() {
		full, f, err := s.walk(list)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return take(full, f, list.source)
		}
	}
	noDefault := s.noDefault()
	if s.p.secure && s.p.preloading {
		// Secure mode does not use the cache for preloads.
	} else if l.noCache {
		s.noCache, s.firm = true, false
		if !s.p.cacheTried { // a process opens it once, which sets errno
			s.p.cacheTried, s.last = true, syscall.ENOENT
		}
	} else if full, ok, looked := l.cache.lookup(s.name, l.cacheID(), l.release, l.machine, l.env); ok && s.p.work().spend(looked) {
		if !s.barred(full) {
			f, v := s.p.verify(full)
			s.note("ld.so.cache", full, v)
			switch v.kind {
			case vTake:
				return take(full, f, "ld.so.cache")
			case vFatal:
				return nil, s.fatal(full, v)
			}
			s.skipped(v)
		}
	} else if s.record && l.cache != nil {
		s.steps = append(s.steps, Step{Source: "ld.so.cache", Tried: []Candidate{{"/etc/ld.so.cache", "has no entry for it"}}})
	}
	if noDefault {
		return nil, nil
	}
	list := dirList{"built-in directories", l.system}
	full, f, err := s.walk(list)
	if err != nil || f == nil {
		return nil, err
	}
	return take(full, f, list.source)
}

// noDefault reports whether the requester excludes the built-in directories
// (DF_1_NODEFLIB).
func (s *search) noDefault() bool { return s.by.Object.Flags1&elf.DF_1_NODEFLIB != 0 }

// barred reports whether the requester excludes the directory of a cache entry.
func (s *search) barred(full string) bool {
	return s.noDefault() && slices.ContainsFunc(s.p.Loader.system, func(d string) bool { return strings.HasPrefix(full, d) })
}

// dirList is one source: a list of directories, each empty (the working
// directory) or with its trailing slash.
type dirList struct {
	source string
	dirs   []string
}

// lists returns the sources before the cache: unless the requester has a DT_RUNPATH,
// the DT_RPATH of the requester, of the objects that loaded it and of the program;
// LD_LIBRARY_PATH; the requester's DT_RUNPATH.
func (s *search) lists() []dirList {
	p, by := s.p, s.by
	var lists []dirList
	if by.Object.Runpath == nil {
		main := p.Program()
		for m := range p.withPaths(by) {
			if dirs := p.rpath(m); dirs != nil {
				lists = append(lists, dirList{"RPATH of " + m.String(), dirs})
			}
		}
		if dirs := p.rpath(main); by.root() != main && dirs != nil {
			lists = append(lists, dirList{"RPATH of " + main.String(), dirs})
		}
	}
	if dirs := p.envDirs(); dirs != nil {
		lists = append(lists, dirList{"LD_LIBRARY_PATH", dirs})
	}
	if dirs := p.runpath(by); dirs != nil {
		lists = append(lists, dirList{"RUNPATH of " + by.String(), dirs})
	}
	return lists
}

// walk is open_path: it tries each directory of a list, and in each the hwcaps
// subdirectories.
func (s *search) walk(list dirList) (string, *File, *Error) {
	l := s.p.Loader
	for _, dir := range list.dirs {
		if !s.p.work().spend(1) {
			return "", nil, s.p.Loader.spent(s.name, s.by)
		}
		if !l.isDir(dir) {
			s.note(list.source, dir, verdict{kind: vSkip, errno: syscall.ENOENT, text: "no such directory"})
			s.missing, s.firm = append(s.missing, dir), false
			if !s.p.gone[dir] { // a process looks for it once
				s.p.gone[dir] = true
				s.last = s.p.Loader.missing(dir)
			}
			continue
		}
		for _, sub := range l.hwcaps {
			if sub != "" && !l.isDir(dir+sub) {
				continue
			}
			full := dir + sub + s.name
			f, v := s.p.verify(full)
			if v.kind == vTake && s.p.secure && s.p.preloading && f.Mode&fs.ModeSetuid == 0 {
				f, v = nil, verdict{errno: syscall.ENOENT, text: "is not set-user-ID"}
			}
			s.note(list.source, full, v)
			switch v.kind {
			case vTake:
				return full, f, nil
			case vFatal:
				return "", nil, s.fatal(full, v)
			}
			s.skipped(v)
		}
		if stops(s.last, l.release) {
			return "", nil, nil // without the rest of the list
		}
	}
	return "", nil, nil
}

// stops reports whether a failed open in an existing directory ends the list of
// directories (open_path). ENOTDIR does so before 2.39 only.
func stops(no syscall.Errno, release int) bool {
	switch no {
	case 0, syscall.ENOENT, syscall.EACCES:
		return false
	case syscall.ENOTDIR:
		return release < 239
	}
	return true
}

func (s *search) skipped(v verdict) {
	s.last, s.firm = v.errno, true
	if v.otherClass != "" {
		s.otherClass = v.otherClass
	}
}

func (s *search) fatal(full string, v verdict) *Error {
	return &Error{Name: s.name, Subject: full, Message: v.message, Errno: v.errno, Unknown: v.unknown}
}

// note records a candidate, if the search records steps.
func (s *search) note(source, full string, v verdict) {
	if !s.record {
		return
	}
	s.p.work().spend(written)
	if n := len(s.steps); n == 0 || s.steps[n-1].Source != source {
		s.steps = append(s.steps, Step{Source: source})
	}
	last := &s.steps[len(s.steps)-1]
	last.Tried = append(last.Tried, Candidate{full, v.why()})
}

// isDir reports whether a directory of a search list is tried: it exists or is
// relative (fillin_rpath).
func (l *Loader) isDir(dir string) bool {
	if !strings.HasPrefix(dir, "/") {
		return true
	}
	return l.dirs.is(l.fs, dir)
}

// searches caches results by name: in an image with thousands of libraries most
// request the same few.
type searches struct {
	m    sync.Map // name → *found
	held atomic.Int64
}

func (c *searches) get(name string) (*found, bool) {
	f, ok := c.m.Load(name)
	if !ok {
		return nil, false
	}
	return f.(*found), true
}

func (c *searches) put(name string, f *found) {
	if len(name) <= 256 && c.held.Add(1) <= 1<<16 {
		c.m.Store(name, f)
	}
}

// dirCache caches which directories exist: all searches of all processes try the
// same few.
type dirCache struct {
	m    sync.Map // path → bool
	held atomic.Int64
}

func (c *dirCache) is(fsys FS, dir string) bool {
	if known, ok := c.m.Load(dir); ok {
		return known.(bool)
	}
	f, err := fsys.Find(dir)
	is := err == nil && f.Mode.IsDir()
	if len(dir) <= 512 && c.held.Add(1) <= 1<<16 {
		c.m.Store(dir, is)
	}
	return is
}

// missing returns the errno that open_path leaves for a path of a search list that
// is no directory: that of stat, or ENOTDIR for a file.
func (l *Loader) missing(dir string) syscall.Errno {
	_, err := l.fs.Find(dir)
	if err == nil {
		return syscall.ENOTDIR
	}
	return errno(err)
}

// rpath returns the directories of m's DT_RPATH, nil without one or beside a
// DT_RUNPATH.
func (p glibc) rpath(m *Module) []string {
	if m.Object.Rpath == nil || m.Object.Runpath != nil {
		return nil
	}
	return p.pathOf(m, *m.Object.Rpath, &m.rpath)
}

// runpath returns the directories of m's DT_RUNPATH, nil without one.
func (p glibc) runpath(m *Module) []string {
	if m.Object.Runpath == nil {
		return nil
	}
	return p.pathOf(m, *m.Object.Runpath, &m.runpath)
}

func (p glibc) pathOf(m *Module, text string, cached **[]string) []string {
	if *cached == nil {
		var dirs []string
		if text != "" {
			dirs = p.expandDirs(m, strings.Split(text, ":")) // a semicolon separates only in LD_LIBRARY_PATH
		}
		*cached = &dirs
	}
	return **cached
}

// envDirs returns the directories of LD_LIBRARY_PATH, with the program's $ORIGIN.
func (p glibc) envDirs() []string {
	if p.env == nil {
		var dirs []string
		if !p.secure {
			dirs = p.expandDirs(p.Program(), p.Loader.envDirs)
		}
		p.env = &dirs
	}
	return *p.env
}

// expandDirs is fillin_rpath: it expands tokens, makes trailing slashes one, and drops
// directories that it has seen or cannot expand.
func (p glibc) expandDirs(m *Module, elems []string) []string {
	var dirs []string
	p.work().spend(len(elems))
	seen := map[string]bool{}
	for _, e := range elems {
		dir := ""
		if e != "" {
			full, ok := p.expand(m, e)
			if !ok || full == "" {
				continue
			}
			dir = strings.TrimRight(full, "/") + "/"
		}
		if !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// expand replaces $ORIGIN, $LIB and $PLATFORM (_dl_dst_substitute). It reports false
// for an $ORIGIN that is not known, or that secure mode does not allow.
func (p glibc) expand(m *Module, s string) (string, bool) {
	if !strings.Contains(s, "$") {
		return s, true
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		token, rest := dynamicToken(after)
		switch token {
		case "ORIGIN":
			if m.Origin == "" || p.secure && (b.Len() > 0 || rest != "" && rest[0] != '/') {
				return "", false
			}
			if p.secure && m.Main && !p.Loader.trusted(m.Origin+rest) {
				return "", false
			}
			b.WriteString(m.Origin)
		case "LIB":
			b.WriteString(p.Loader.tokenLib)
		case "PLATFORM":
			b.WriteString(p.Loader.env.platform(p.Loader.machine, p.Loader.release))
		default:
			b.WriteByte('$')
		}
		s = rest
	}
}

// trusted reports whether a directory is a built-in one or below one
// (is_trusted_path_normalize).
func (l *Loader) trusted(dir string) bool {
	dir = path.Clean(dir) + "/"
	return slices.ContainsFunc(l.system, func(d string) bool { return strings.HasPrefix(dir, d) })
}

// dynamicToken splits s, the text behind a dollar sign, after the token at its start
// (is_dst). Without a token it returns "" and s.
func dynamicToken(s string) (token, rest string) {
	for _, t := range []string{"ORIGIN", "LIB", "PLATFORM"} {
		if r, ok := strings.CutPrefix(s, "{"+t+"}"); ok {
			return t, r
		}
		if r, ok := strings.CutPrefix(s, t); ok && !(len(r) > 0 && isIdent(r[0])) {
			return t, r
		}
	}
	return "", s
}

func isIdent(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// verdict is the result of open_verify for a candidate.
type verdict struct {
	kind       verdictKind
	errno      syscall.Errno // of a file that could not be opened, or of message
	message    string        // vFatal: the error's text
	otherClass string        // vSkip: the ELF class for which it was passed over
	text       string        // vSkip: any other reason
	unknown    bool          // the file could not be examined
}

type verdictKind uint8

const (
	vSkip  verdictKind = iota // the search goes on
	vTake                     // the search ends with this file
	vFatal                    // the search ends with an error
)

// why returns the text for [Candidate.Result]; it is empty when the path did not
// exist.
func (v verdict) why() string {
	switch {
	case v.kind == vTake:
		return "taken"
	case v.kind == vFatal && v.errno != 0:
		return v.message + ": " + errnoText(v.errno)
	case v.kind == vFatal:
		return v.message
	case v.otherClass != "":
		return "wrong ELF class: " + v.otherClass
	case v.text != "":
		return v.text
	case v.errno == syscall.ENOENT:
		return ""
	}
	return errnoText(v.errno)
}

// verify is open_verify: it decides whether the search takes the file at full,
// passes over it or ends there.
func (p glibc) verify(full string) (*File, verdict) {
	l := p.Loader
	f, err := l.find(full)
	if err != nil {
		return nil, verdict{errno: errno(err), text: skipText(errno(err))}
	}
	fatal := func(message string, no syscall.Errno) (*File, verdict) {
		return nil, verdict{kind: vFatal, message: message, errno: no}
	}
	if f.Mode.IsDir() {
		return fatal("cannot read file data", syscall.EISDIR)
	}
	if f.Fault != "" {
		return nil, verdict{kind: vFatal, message: "could not be examined: " + f.Fault, unknown: true}
	}
	header := int64(64)
	if l.class == elf.ELFCLASS32 {
		header = 52
	}
	switch {
	case f.Mode&fs.ModeType != 0 || f.Size < header:
		return fatal("file too short", 0)
	case f.Object == nil:
		return fatal("invalid ELF header", 0)
	}
	o := f.Object
	switch {
	case o.Class() != l.class:
		return nil, verdict{errno: syscall.ENOENT, otherClass: o.Class().String()}
	case !l.sameData(o) && l.multiarch() && bits.ReverseBytes16(uint16(o.Machine)) != uint16(l.machine):
		return nil, otherMachine(o) // Debian's patch, which reads e_machine in the loader's byte order
	case !l.sameData(o) && elf.Data(l.file.Object.Ident[elf.EI_DATA]) == elf.ELFDATA2MSB:
		return fatal("ELF file data encoding not big-endian", 0)
	case !l.sameData(o):
		return fatal("ELF file data encoding not little-endian", 0)
	case o.Ident[elf.EI_VERSION] != 1:
		return fatal("ELF file version ident does not match current one", 0)
	case elf.OSABI(o.Ident[elf.EI_OSABI]) != elf.ELFOSABI_NONE && elf.OSABI(o.Ident[elf.EI_OSABI]) != elf.ELFOSABI_LINUX:
		return fatal("ELF file OS ABI invalid", 0)
	case elf.OSABI(o.Ident[elf.EI_OSABI]) == elf.ELFOSABI_NONE && o.Ident[elf.EI_ABIVERSION] != 0:
		return fatal("ELF file ABI version invalid", 0)
	case !allZero(o.Ident[elf.EI_PAD:]):
		return fatal("nonzero padding in e_ident", 0)
	case o.Version != 1:
		return fatal("ELF file version does not match current one", 0)
	case o.Machine != l.machine:
		return nil, otherMachine(o)
	case o.Type != elf.ET_DYN && o.Type != elf.ET_EXEC:
		return fatal("only ET_DYN and ET_EXEC can be loaded", 0)
	case o.Type == elf.ET_EXEC && l.release >= 220 && l.release <= 230 && !p.openExec:
		return fatal("cannot dynamically load executable", 0) // in other releases mapFile's error
	case o.Fault == "cannot read file data" || strings.HasPrefix(o.Fault, "ELF file's phentsize"):
		return fatal(o.Fault, 0)
	case l.release <= 235 && slices.Compare(o.MinKernel[:], l.env.Kernel[:]) > 0:
		return nil, verdict{errno: syscall.ENOENT, text: fmt.Sprintf("wants kernel %d.%d.%d", o.MinKernel[0], o.MinKernel[1], o.MinKernel[2])}
	}
	return f, verdict{kind: vTake}
}

func otherMachine(o *Object) verdict {
	return verdict{errno: syscall.ENOENT, text: "is for another machine: " + o.Machine.String()}
}

func (l *Loader) sameData(o *Object) bool {
	return o.Ident[elf.EI_DATA] == l.file.Object.Ident[elf.EI_DATA]
}

// multiarch reports whether the loader is Debian's or Ubuntu's, by its directories.
func (l *Loader) multiarch() bool { return strings.Contains(l.system[0], "-linux-gnu") }

// skipText returns the text of an errno for which a search passes over a candidate;
// "" for a path that does not exist.
func skipText(no syscall.Errno) string {
	if no == syscall.ENOENT || no == 0 {
		return ""
	}
	return errnoText(no)
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// mapFile is _dl_map_object_from_fd: it makes an object of a file that passed
// open_verify. A file that is loaded already (same device and inode) gets name as one
// more name.
func (p glibc) mapFile(full, name string, f *File, by *Module, dlopen bool, how string) (*Module, *Error) {
	if m := p.ids[f.ID]; m != nil {
		p.name(m, name)
		return m, nil
	}
	o := f.Object
	fail := func(message string) (*Module, *Error) {
		return nil, &Error{Name: name, Subject: name, Message: message, By: by}
	}
	if p.noLoading { // RTLD_NOLOAD checks no more of the file
		p.notLoaded = true
		return fail("not loaded")
	}
	switch {
	case o.Fault == faultUnaligned && p.Loader.release < 235:
		return fail("ELF load command address/offset not properly aligned")
	case o.Fault != "":
		return fail(o.Fault)
	case o.Type == elf.ET_EXEC:
		return fail("cannot dynamically load executable")
	case !o.Dynamic:
		return fail("object file has no dynamic section")
	case o.PIE() && p.Loader.release >= 230:
		return fail("cannot dynamically load position-independent executable")
	case p.dlopening && o.Flags1&elf.DF_1_NOOPEN != 0:
		return fail("shared object cannot be dlopen()ed")
	}
	if no, refused := p.refusesStack(o); refused {
		return nil, &Error{Name: name, Subject: name, Message: "cannot enable executable stack as shared object requires", Errno: no, By: by}
	}
	m := &Module{Path: full, Object: o, File: f, By: by, How: how, Origin: originOf(full, p.Loader.env.Cwd)}
	if !dlopen {
		p.loadedBy(m, by)
	}
	p.add(m)
	p.name(m, name)
	return m, nil
}

// originOf returns the $ORIGIN of a library: the directory part of its path, as text
// (_dl_new_object). Links are not resolved.
func originOf(full, cwd string) string {
	if !strings.HasPrefix(full, "/") {
		full = strings.TrimRight(cwd, "/") + "/" + full
	}
	i := strings.LastIndexByte(full, '/')
	if i == 0 {
		return "/"
	}
	return full[:i]
}

// cacheID returns the flags of the cache entries for this ABI (_DL_CACHE_DEFAULT_ID).
func (l *Loader) cacheID() int32 {
	switch {
	case l.machine == elf.EM_X86_64 && l.class == elf.ELFCLASS64:
		return 0x0303
	case l.machine == elf.EM_X86_64:
		return 0x0803 // x32
	case l.machine == elf.EM_AARCH64:
		return 0x0a03
	case l.machine == elf.EM_ARM:
		return 0x0903
	case l.machine == elf.EM_S390:
		return 0x0403
	case l.machine == elf.EM_PPC64:
		return 0x0503
	case l.machine == elf.EM_RISCV:
		return 0x1003
	}
	return 0x0003
}
