package pyenv

import (
	"debug/elf"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// machines are the first parts of the GNU triplets that SOABI has.
var machines = map[elf.Machine]string{
	elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64", elf.EM_386: "i386", elf.EM_ARM: "arm",
	elf.EM_PPC64: "powerpc64le", elf.EM_S390: "s390x", elf.EM_RISCV: "riscv64",
}

var taggedName = regexp.MustCompile(`\.(cpython-\d+[a-z]*-[\w-]+)\.so$`)

// suffixes returns _imp.extension_suffixes() (_PyImport_DynLoadFiletab in
// Python/dynload_shlib.c).
func (b *boot) suffixes() []string {
	all := []string{"." + b.soabi() + ".so"}
	if !b.Free {
		all = append(all, ".abi3.so")
	}
	if triplet := multiarch(all[0]); b.Debian && !b.Free && b.Minor >= 13 && triplet != "" {
		all = append(all, ".abi3-"+triplet+".so") // Debian's own
	}
	return append(all, ".so")
}

// multiarch returns the triplet in the first suffix: x86_64-linux-gnu.
func multiarch(suffix string) string {
	_, triplet, _ := strings.Cut(strings.TrimSuffix(suffix, ".so"), "-")
	_, triplet, _ = strings.Cut(triplet, "-")
	return triplet
}

// soabi returns SOABI: the tag that the modules of lib-dynload have, or else the one that
// configure gives such a build. Builds for musl had the tag of glibc before 3.11.
func (b *boot) soabi() string {
	flags := ""
	switch {
	case b.Free:
		flags = "t"
	case b.Minor < 8:
		flags = "m"
	}
	head := fmt.Sprintf("cpython-%d%d%s-", b.Major, b.Minor, flags)
	for _, dir := range b.paths {
		if path.Base(dir) != "lib-dynload" {
			continue
		}
		for e := range b.fs.In(b.real(dir)) {
			if m := taggedName.FindStringSubmatch(path.Base(e.Path)); m != nil && strings.HasPrefix(m[1], head) {
				return m[1]
			}
		}
	}
	libc := "gnu"
	switch {
	case strings.Contains(b.exe.Interp, "ld-musl"):
		libc = "musl"
	case b.exe.Machine == elf.EM_ARM:
		libc = "gnueabihf"
	}
	tag := head + machines[b.exe.Machine] + "-linux-" + libc
	b.unknown("the suffix of extension modules is taken to be .%s.so: lib-dynload has no module that shows it", tag)
	return tag
}

// builtins sets the names of the modules that are built in: the interpreter exports their
// init functions, but for four that have another one (Modules/config.c).
func (b *boot) builtins() {
	names := []string{"builtins", "sys", "_warnings", "marshal"}
	if b.core != nil {
		b.core.Symbols.Exported("PyInit_", func(name string) bool {
			if name = strings.TrimPrefix(name, "PyInit_"); name == "imp" {
				name = "_imp" // before 3.7
			}
			names = append(names, name)
			return len(names) < maxEntries
		})
	}
	if len(names) < minBuiltins {
		b.noBuiltins = true
		names = append(names, alwaysBuiltin...)
		if b.core != nil {
			b.unknown("%s exports no init functions, so that the modules in it are not known", b.Real)
		}
	}
	slices.Sort(names)
	b.Builtins = slices.Compact(names)
}

// minBuiltins is less than the number of modules in every build of CPython 3.
const minBuiltins = 20

// alwaysBuiltin are the modules that Modules/Setup.bootstrap has in 3.6 to 3.14.
var alwaysBuiltin = strings.Fields(`_ast _codecs _collections _functools _imp _io _locale _operator _signal _sre _stat _string
	_symtable _thread _tracemalloc _weakref atexit errno faulthandler gc itertools posix pwd time`)

// mayBeBuiltin are the further modules of the standard library in C, which a build may
// have in the interpreter or in lib-dynload.
var mayBeBuiltin = strings.Fields(`_abc _asyncio _bisect _blake2 _bz2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr
	_codecs_tw _contextvars _crypt _csv _ctypes _curses _curses_panel _datetime _dbm _decimal _elementtree _gdbm _hashlib _heapq
	_hmac _interpchannels _interpqueues _interpreters _json _lsprof _lzma _md5 _multibytecodec _multiprocessing _opcode _peg_parser
	_pickle _posixshmem _posixsubprocess _queue _random _remote_debugging _sha1 _sha2 _sha256 _sha3 _sha512 _socket _sqlite3 _ssl
	_statistics _struct _suggestions _sysconfig _tkinter _tokenize _types _typing _uuid _xxinterpchannels _xxsubinterpreters
	_zoneinfo _zstd array audioop binascii cmath fcntl grp math mmap nis ossaudiodev parser pyexpat readline resource select spwd
	syslog termios unicodedata xxsubtype zipimport zlib`)

// frozenModules maps the modules that are frozen into the interpreter from 3.11 on to their
// sources in the standard library (Tools/build/freeze_modules.py). "" has none there.
var frozenModules = map[string]string{
	"_frozen_importlib": "", "_frozen_importlib_external": "", "zipimport": "zipimport.py", "abc": "abc.py", "codecs": "codecs.py",
	"io": "io.py", "_collections_abc": "_collections_abc.py", "_sitebuiltins": "_sitebuiltins.py", "genericpath": "genericpath.py",
	"ntpath": "ntpath.py", "posixpath": "posixpath.py", "os.path": "posixpath.py", "os": "os.py", "site": "site.py",
	"stat": "stat.py", "importlib.util": "importlib/util.py", "importlib.machinery": "importlib/machinery.py", "runpy": "runpy.py",
	"__hello__": "__hello__.py", "__phello__": "__phello__/__init__.py", "__phello__.spam": "__phello__/spam.py",
}

// frozenBefore are those that are frozen before 3.11; zipimport from 3.8 on.
var frozenBefore = []string{"_frozen_importlib", "_frozen_importlib_external", "__hello__", "__phello__", "__phello__.spam"}

// frozen returns the specification of a frozen module, or nil.
func (f *finder) frozen(name string) *Spec {
	file, ok := frozenModules[name]
	if f.minor < 11 {
		ok = slices.Contains(frozenBefore, name) || name == "zipimport" && f.minor >= 8
	}
	if !ok {
		return nil
	}
	s := &Spec{Name: name, Kind: Frozen}
	if p := f.stdlib + "/" + file; file != "" && f.isFile(p) {
		s.File = p
	}
	if strings.HasSuffix(name, "__phello__") {
		s.Search = []string{f.stdlib + "/" + name}
		if f.minor < 11 {
			s.Search = []string{}
		}
	}
	return s
}
