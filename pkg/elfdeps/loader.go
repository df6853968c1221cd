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

// Env is the environment that a process is started in.
type Env struct {
	// Vars are NAME=VALUE, as in an image's config. The last of two wins.
	Vars []string
	// Cwd is the working directory; empty means "/".
	Cwd string
	// UID and GID are the user's. They matter to a [UserFS], and to programs that are
	// set-id or have capabilities, which start in secure mode.
	UID, GID int
	// NoProc is set when /proc is not mounted: programs do not know their $ORIGIN.
	NoProc bool
	// Kernel is the kernel's release, which glibc up to 2.35 compares with
	// .note.ABI-tag. Zero means 4.18, the oldest that a current GPU driver builds on.
	Kernel [3]uint32
	// CPU is the x86-64 level of the processor, 1 to 4; 0 means 3, which every
	// machine with a data-centre GPU has.
	CPU int
	// Intel is set for a processor by Intel, which can have the platform haswell.
	Intel bool
	// Work limits the work for all processes of an image; nil gives the loader a
	// limit of its own.
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

// own returns the variables that a loader reads itself. A config may have any
// number of others, and get walks the list at each call.
func (e Env) own() []string {
	var vars []string
	for _, name := range []string{"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_BIND_NOW", "LD_ORIGIN_PATH", "GLIBC_TUNABLES"} {
		if v := e.get(name); v != "" {
			vars = append(vars, name+"="+v)
		}
	}
	return vars
}

// cpuFeatures maps processor features, by their names in GLIBC_TUNABLES
// (sysdeps/x86/cpu-tunables.c), to the lowest level of the x86-64 psABI that needs
// them (sysdeps/x86/get-isa-level.h).
var cpuFeatures = map[string]int{
	"SSE3": 2, "SSSE3": 2, "SSE4_1": 2, "SSE4_2": 2, "POPCNT": 2, "CMPXCHG16B": 2, "LAHF64_SAHF64": 2,
	"AVX": 3, "AVX2": 3, "BMI1": 3, "BMI2": 3, "F16C": 3, "FMA": 3, "LZCNT": 3, "MOVBE": 3,
	"AVX512F": 4, "AVX512BW": 4, "AVX512CD": 4, "AVX512DQ": 4, "AVX512VL": 4,
}

// hwcapLevel returns the x86-64 level that decides which glibc-hwcaps
// subdirectories are searched: the CPU's, lowered by the features that
// GLIBC_TUNABLES disables.
func (e Env) hwcapLevel() int {
	level := e.CPU
	for name := range e.switchedOff() {
		if needs := cpuFeatures[name]; needs > 0 {
			level = min(level, needs-1)
		}
	}
	return level
}

// tunable returns the value of name in GLIBC_TUNABLES, or "".
func (e Env) tunable(name string) string {
	value := ""
	for t := range strings.SplitSeq(e.get("GLIBC_TUNABLES"), ":") {
		if n, v, ok := strings.Cut(t, "="); ok && n == name {
			value = v
		}
	}
	return value
}

// switchedOff returns the processor features that GLIBC_TUNABLES disables.
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

// platform returns GLRO(dl_platform): AT_PLATFORM, or from glibc 2.26 on "haswell"
// for Intel processors with the features of one (init_cpu_features,
// sysdeps/x86/cpu-features.c).
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

// avx512 reports whether the loader searches the subdirectory avx512_1
// (HWCAP_X86_AVX512_1, set in init_cpu_features).
func (e Env) avx512(release int) bool {
	return release >= 226 && e.Intel && e.CPU >= 4 && e.has("AVX512CD", "AVX512BW", "AVX512DQ", "AVX512VL")
}

// has reports whether GLIBC_TUNABLES leaves all the features enabled.
func (e Env) has(features ...string) bool {
	off := e.switchedOff()
	return !slices.ContainsFunc(features, func(f string) bool { return off[f] })
}

// Loader is one ELF interpreter of a file system in one environment. The processes
// that it starts do not change it and may be used concurrently.
type Loader struct {
	// Path is the interpreter's path, as PT_INTERP gives it.
	Path string
	// Libc has the facts in the interpreter's bytes.
	Libc Libc
	// Doubts name the facts that were assumed because they could not be read.
	Doubts []string

	fs       FS
	dirs     *dirCache
	searched *searches
	fitting  *versionCache
	file     *File
	env      Env
	machine  elf.Machine
	class    elf.Class
	release  int // 2.36 is 236, musl 1.2.5 is 10205; newestGlibc where glibc's is unknown

	// glibc
	system  []string  // built-in directories, trailing slash
	envDirs []string  // LD_LIBRARY_PATH, split but not expanded
	preload []preload // of --preload
	// preloadFile are the names in /etc/ld.so.preload.
	preloadFile []preload
	cache       *Cache   // nil where it is missing or invalid
	noCache     bool     // it is missing
	tokenLib    string   // $LIB
	hwcaps      []string // subdirectories, best first, ending with ""

	// musl
	path []string // the system path
}

// NewLoader returns the loader at path interp in fsys. The error is the errno with
// which the kernel would refuse to start a program that names interp.
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

// Interpreters returns the paths of the loaders in the ABIs of a machine, glibc's
// first (the x86-64 and AArch64 psABI, musl's configure).
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

// releaseNumber turns "2.36" into 236 and "1.2.5" into 10205. It returns 0 when s is
// not a version.
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

// find looks up a path as the loader opens it: relative to the working directory.
func (l *Loader) find(p string) (*File, error) {
	if !strings.HasPrefix(p, "/") {
		p = l.env.Cwd + "/" + p
	}
	return l.fs.Find(p)
}

// read returns the content of a file that the loader itself reads, nil if it is
// missing. It adds a doubt if the file is there but its content is not known.
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

// Start starts the program at exe: it loads the program, the preloads and all that
// they need.
//
// The error is the one that the real loader would end with, an [*Error], or the
// kernel's errno. The process is returned as well, with the objects that were loaded
// before the error. [Loader.Trace] goes on after misses.
func (l *Loader) Start(exe string) (*Process, error) { return l.start(exe, false) }

// Trace starts the program at exe as LD_TRACE_LOADED_OBJECTS does: it records
// libraries that are not found in the process's Misses and goes on. Such a process
// is called tracing.
func (l *Loader) Trace(exe string) (*Process, error) { return l.start(exe, true) }

// Bare returns a tracing process whose program needs no library and has no search
// path: a library that it opens can rely only on itself.
func (l *Loader) Bare() *Process {
	p := l.process(true)
	main := &Module{Object: &Object{Type: elf.ET_DYN, Dynamic: true, Stack: StackNoExec, Symbols: noSymbols}, Main: true}
	p.add(main)
	p.addLoader()
	if g, ok := p.model.(glibc); ok {
		g.stackTunable(main)
	}
	return p
}

// noSymbols are the symbols of the program in [Loader.Bare].
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

// secure reports whether the kernel sets AT_SECURE for the program f: it is set-id,
// or has capabilities and a user other than root.
func (e Env) secure(f *File) bool {
	setuid := f.Mode&fs.ModeSetuid != 0 && f.UID != e.UID
	setgid := f.Mode&fs.ModeSetgid != 0 && f.GID != e.GID
	return setuid || setgid || f.Capable && e.UID != 0
}

// programOrigin returns the $ORIGIN of a program that the kernel started: the
// directory of /proc/self/exe, whose links are resolved (_dl_get_origin). Without
// /proc glibc takes LD_ORIGIN_PATH.
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
	p := &Process{Loader: l, trace: trace, names: map[string]*Module{}, ids: map[uint64]*Module{}, gone: map[string]bool{}}
	p.setModel()
	return p
}

// addLoader adds the interpreter. In glibc's processes it answers to its path and
// its DT_SONAME. musl's joins the list once it is requested (musl.itself).
func (p *Process) addLoader() {
	l := p.Loader
	m := &Module{Path: l.Path, Object: l.file.Object, File: l.file, Origin: path.Dir(l.Path), How: "interpreter", isLoader: true}
	p.loader = m
	if l.Libc.Musl {
		p.listed = append(p.listed, Listed{l.Path, m})
		return
	}
	p.add(m)
	p.name(m, l.Path)
}
