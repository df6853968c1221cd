package elfdeps

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Env is the world that a process is started in.
type Env struct {
	// Vars are NAME=VALUE, as in an image's config. The last of two wins.
	Vars []string
	// Cwd is the working directory; empty means "/".
	Cwd string
	// UID and GID are the user's. They matter to a [UserFS] and to set-id
	// programs and those with capabilities, which start in secure mode.
	UID, GID int
	// NoProc is set when /proc is not mounted: no program knows its $ORIGIN.
	NoProc bool
	// Kernel is compared with what .note.ABI-tag asks for, by glibc up to 2.35;
	// zero means 4.18, the oldest that a current GPU driver builds on.
	Kernel [3]uint32
	// CPU is the x86-64 level of the processor, 1 to 4; 0 means 3, which every
	// machine that takes a data-centre GPU has.
	CPU int
	// Intel is set for a processor of Intel's: there the loader calls the
	// platform haswell where it is one (L19).
	Intel bool
	// Work is what all processes of an image may cost together; a loader without
	// one has its own.
	Work *Work
}

func (e Env) get(name string) string {
	value := ""
	for _, v := range e.Vars {
		if k, rest, ok := strings.Cut(v, "="); ok && k == name {
			value = rest
		}
	}
	return value
}

// own are the variables that a loader reads itself: of a config's there may be
// any number, and they are asked for again and again.
func (e Env) own() []string {
	var vars []string
	for _, name := range []string{"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_BIND_NOW", "LD_ORIGIN_PATH", "GLIBC_TUNABLES"} {
		if v := e.get(name); v != "" {
			vars = append(vars, name+"="+v)
		}
	}
	return vars
}

// cpuFeatures are the names that GLIBC_TUNABLES has for what a level of the
// x86-64 psABI asks (sysdeps/x86/cpu-tunables.c, sysdeps/x86/get-isa-level.h).
var cpuFeatures = map[string]int{
	"SSE3": 2, "SSSE3": 2, "SSE4_1": 2, "SSE4_2": 2, "POPCNT": 2, "CMPXCHG16B": 2, "LAHF64_SAHF64": 2,
	"AVX": 3, "AVX2": 3, "BMI1": 3, "BMI2": 3, "F16C": 3, "FMA": 3, "LZCNT": 3, "MOVBE": 3,
	"AVX512F": 4, "AVX512BW": 4, "AVX512CD": 4, "AVX512DQ": 4, "AVX512VL": 4,
}

// hwcapLevel is the level that the subdirectories are chosen by: the CPU's, less
// what GLIBC_TUNABLES switches off (L20).
func (e Env) hwcapLevel() int {
	level := e.CPU
	for name := range e.switchedOff() {
		if needs := cpuFeatures[name]; needs > 0 {
			level = min(level, needs-1)
		}
	}
	return level
}

// tunable is the value of one of GLIBC_TUNABLES, empty without one.
func (e Env) tunable(name string) string {
	value := ""
	for t := range strings.SplitSeq(e.get("GLIBC_TUNABLES"), ":") {
		if n, v, ok := strings.Cut(t, "="); ok && n == name {
			value = v
		}
	}
	return value
}

// switchedOff are the features that GLIBC_TUNABLES takes from the processor.
func (e Env) switchedOff() map[string]bool {
	off := map[string]bool{}
	for tunable := range strings.SplitSeq(e.get("GLIBC_TUNABLES"), ":") {
		list, ok := strings.CutPrefix(tunable, "glibc.cpu.hwcaps=")
		if !ok {
			continue
		}
		for f := range strings.SplitSeq(list, ",") {
			if name, minus := strings.CutPrefix(f, "-"); minus {
				off[strings.TrimSuffix(name, "_Usable")] = true
			}
		}
	}
	return off
}

// platform is what the loader calls the processor (GLRO(dl_platform)): AT_PLATFORM,
// and from glibc 2.26 on, on Intel's x86-64, haswell where it has what one has
// (init_cpu_features, sysdeps/x86/cpu-features.c).
func (e Env) platform(m elf.Machine, release int) string {
	switch m {
	case elf.EM_X86_64:
		if release >= 226 && e.Intel && e.CPU >= 3 && e.has("AVX2", "BMI1", "BMI2", "FMA", "LZCNT", "MOVBE", "POPCNT") {
			return "haswell"
		}
		return "x86_64"
	case elf.EM_AARCH64:
		return "aarch64"
	case elf.EM_386:
		return "i686"
	}
	return ""
}

// avx512 reports whether the loader gives the processor the subdirectory
// avx512_1 (HWCAP_X86_AVX512_1, the same place).
func (e Env) avx512(release int) bool {
	return release >= 226 && e.Intel && e.CPU >= 4 && e.has("AVX512CD", "AVX512BW", "AVX512DQ", "AVX512VL")
}

// has reports whether GLIBC_TUNABLES leaves the processor its features.
func (e Env) has(features ...string) bool {
	off := e.switchedOff()
	return !slices.ContainsFunc(features, func(f string) bool { return off[f] })
}

// Loader is the dynamic loader of a file system, as one ELF interpreter and one
// environment make it. It is not changed by the processes that it starts, which
// may run at the same time.
type Loader struct {
	// Path is the interpreter's path, as PT_INTERP gives it.
	Path string
	// Libc is what the interpreter's bytes tell.
	Libc Libc
	// Doubts name what had to be assumed because it could not be read.
	Doubts []string

	fs       FS
	dirs     *dirCache
	searched *searches
	fitting  *versionCache
	file     *File
	env      Env
	machine  elf.Machine
	class    elf.Class
	model    *model
	release  int // 2.36 is 236, musl 1.2.5 is 10205; the newest known when unread

	// glibc
	system  []string  // built-in directories, trailing slash
	envDirs []string  // LD_LIBRARY_PATH, split but not expanded
	preload []preload // of --preload
	// preloadFile are the names in /etc/ld.so.preload (L14).
	preloadFile []preload
	cache       *Cache
	noCache     bool // there is no file
	tokenLib    string
	hwcaps      []string // subdirectories, best first, ending with ""

	// musl
	path []string
}

// NewLoader opens the interpreter at path interp in fsys.
//
// When there is no such file, the error is the errno with which the kernel
// would refuse to start the program.
func NewLoader(fsys FS, interp string, env Env) (*Loader, error) {
	if u, ok := fsys.(UserFS); ok {
		fsys = u.As(env.UID, env.GID)
	}
	f, err := fsys.Find(interp)
	if err != nil {
		return nil, err
	}
	if f.Object == nil {
		if f.Fault != "" {
			return nil, fmt.Errorf("%s: %s", interp, f.Fault)
		}
		return nil, fmt.Errorf("%s: %w", interp, syscall.ENOEXEC)
	}
	if env.Cwd == "" {
		env.Cwd = "/"
	}
	if env.CPU == 0 {
		env.CPU = 3
	}
	if env.Work == nil {
		env.Work = new(Work)
	}
	env.Vars = env.own()
	if env.Kernel == [3]uint32{} {
		env.Kernel = [3]uint32{4, 18, 0}
	}
	l := &Loader{Path: interp, fs: fsys, dirs: new(dirCache), searched: new(searches), fitting: new(versionCache), file: f, env: env, machine: f.Object.Machine, class: f.Object.Class()}
	if f.Object.Libc != nil {
		l.Libc = *f.Object.Libc
	}
	if l.Libc.Musl || strings.HasPrefix(path.Base(interp), "ld-musl-") {
		l.Libc.Musl = true
		l.initMusl()
		return l, nil
	}
	l.initGlibc()
	return l, nil
}

// Interpreters are the paths at which the ABIs of a machine expect the loader,
// glibc's first (the x86-64 and AArch64 psABI, musl's configure).
func Interpreters(m elf.Machine, c elf.Class) []string {
	switch {
	case m == elf.EM_X86_64 && c == elf.ELFCLASS64:
		return []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"}
	case m == elf.EM_AARCH64:
		return []string{"/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"}
	case m == elf.EM_386:
		return []string{"/lib/ld-linux.so.2", "/lib/ld-musl-i386.so.1"}
	case m == elf.EM_PPC64:
		return []string{"/lib64/ld64.so.2", "/lib/ld-musl-powerpc64le.so.1"}
	case m == elf.EM_S390:
		return []string{"/lib/ld64.so.1", "/lib/ld-musl-s390x.so.1"}
	case m == elf.EM_RISCV:
		return []string{"/lib/ld-linux-riscv64-lp64d.so.1", "/lib/ld-musl-riscv64.so.1"}
	case m == elf.EM_ARM:
		return []string{"/lib/ld-linux-armhf.so.3", "/lib/ld-musl-armhf.so.1"}
	}
	return nil
}

// releaseNumber turns "2.36" into 236 and "1.2.5" into 10205; 0 when s is not a
// version.
func releaseNumber(s string) int {
	n := 0
	for _, part := range strings.Split(s, ".") {
		v, err := strconv.Atoi(part)
		if err != nil || v < 0 || v > 99 {
			return 0
		}
		n = n*100 + v
	}
	return n
}

// find looks a loader's path up: relative paths start in the working directory.
func (l *Loader) find(p string) (*File, error) {
	if !strings.HasPrefix(p, "/") {
		p = l.env.Cwd + "/" + p
	}
	return l.fs.Find(p)
}

// read is the content of a file that the loader itself reads, nil when there is
// none. A file that is there but was not kept is a doubt.
func (l *Loader) read(p string) []byte {
	f, err := l.fs.Find(p)
	if err != nil || f.Mode.IsDir() {
		return nil
	}
	if f.Content == nil && f.Size > 0 {
		why := f.Fault
		if why == "" {
			why = "it was not kept"
		}
		l.Doubts = append(l.Doubts, fmt.Sprintf("%s could not be read: %s", p, why))
	}
	return f.Content
}

// Start starts the program at exe: it, the preloads and all that they need.
//
// The error is the first that the real loader would end with, an [*Error] or a
// kernel's errno; the process is returned beside it, with what was loaded until
// then. A process in which misses are to be gone past is made by [Loader.Trace].
func (l *Loader) Start(exe string) (*Process, error) { return l.start(exe, false) }

// Trace starts the program at exe as LD_TRACE_LOADED_OBJECTS does: what is not
// found is kept in the process's Misses, and loading goes on.
func (l *Loader) Trace(exe string) (*Process, error) { return l.start(exe, true) }

// Bare is a process that traces and whose program needs nothing and has no
// search path of its own: what a library meets when it is opened by a program
// that brings nothing along.
func (l *Loader) Bare() *Process {
	p := l.process(true)
	main := &Module{Object: &Object{Type: elf.ET_DYN, Dynamic: true, Stack: StackNoExec, Symbols: noSymbols}, Main: true}
	p.add(main)
	p.addLoader()
	p.stackTunable(main)
	return p
}

// noSymbols are those of a program that brings nothing.
var noSymbols = new(Symbols)

func (l *Loader) start(exe string, trace bool) (*Process, error) {
	p := l.process(trace)
	return p, l.startIn(p, exe)
}

func (l *Loader) startIn(p *Process, exe string) error {
	p.argv0 = exe
	f, err := l.find(exe)
	if err != nil {
		return fmt.Errorf("%s: %w", exe, err)
	}
	if f.Object == nil || !f.Object.Dynamic {
		return fmt.Errorf("%s: %w", exe, syscall.ENOEXEC)
	}
	p.secure = l.env.secure(f)
	main := &Module{Object: f.Object, File: f, Main: true, Origin: l.programOrigin(f, p.secure), How: "program", prog: exe}
	p.add(main)
	p.addLoader()
	return p.startUp(main)
}

// secure reports whether the kernel sets AT_SECURE for the program (L23).
func (e Env) secure(f *File) bool {
	setuid := f.Mode&fs.ModeSetuid != 0 && f.UID != e.UID
	setgid := f.Mode&fs.ModeSetgid != 0 && f.GID != e.GID
	return setuid || setgid || f.Capable && e.UID != 0
}

// programOrigin is the $ORIGIN of a program that the kernel started
// (_dl_get_origin): what /proc/self/exe names, links resolved (L21). Without
// /proc only glibc asks another place.
func (l *Loader) programOrigin(f *File, secure bool) string {
	if !l.env.NoProc {
		return path.Dir(f.Path)
	}
	if l.Libc.Musl || secure {
		return ""
	}
	origin := l.env.get("LD_ORIGIN_PATH")
	if rest := strings.TrimRight(origin, "/"); rest != "" || origin == "" {
		return rest
	}
	return "/"
}

func (l *Loader) process(trace bool) *Process {
	return &Process{Loader: l, trace: trace, names: map[string]*Module{}, ids: map[uint64]*Module{}, gone: map[string]bool{}}
}

// addLoader adds the interpreter, which is in every process under its path and
// its SONAME (L9); in musl it is libc as well, under names of its own (M5).
func (p *Process) addLoader() {
	l := p.Loader
	m := &Module{Path: l.Path, Object: l.file.Object, File: l.file, Origin: path.Dir(l.Path), How: "interpreter", isLoader: true}
	p.loader = m
	if l.Libc.Musl {
		p.listed = append(p.listed, Listed{l.Path, m})
		return // it joins the list when it is asked for
	}
	p.add(m)
	p.name(m, l.Path)
}

// isRegular reports whether a file can be mapped at all.
func isRegular(f *File) bool { return f.Mode.Type() == 0 || f.Mode&fs.ModeType == 0 }
