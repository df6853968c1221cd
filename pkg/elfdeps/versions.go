package elfdeps

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// check checks the symbol versions of the new objects, then the ISA level that
// they need. At start a missing version does not keep it from checking the others.
func (p glibc) check(dlopen bool) *Error {
	var first *Error
	for _, m := range slices.Clone(p.Objects) {
		if !m.unchecked {
			continue
		}
		m.unchecked = false
		fault := p.checkVersions(m, dlopen)
		if fault != nil && p.trace && !dlopen && fault.Kind != VersionError && p.fatal == nil {
			p.fatal = fault // glibc's trace ends here
		}
		if fault == nil || p.trace || p.listing && fault.Kind == VersionError {
			continue
		}
		if first == nil {
			first = fault
		}
		if dlopen || fault.Kind != VersionError {
			return fault
		}
	}
	if first != nil || p.trace || p.listing {
		return first
	}
	return p.checkISA()
}

// checkVersions is _dl_check_map_versions. At start it checks all versions and returns
// the first error; dlopen ends with the first error.
func (p glibc) checkVersions(m *Module, dlopen bool) *Error {
	if strings.HasSuffix(m.Object.VersionFault, "Verneed record") {
		return p.versionError(&Error{Name: m.String(), Subject: m.String(), Message: m.Object.VersionFault, By: m})
	}
	var first *Error
	for _, need := range m.Object.VersionNeeds {
		if p.work().Err() != nil {
			return first
		}
		provider, missed := p.named(need.File)
		if missed || provider == nil && m.unreadTables() {
			continue
		}
		if provider == nil {
			// patchelf leaves such a table when it removes a DT_NEEDED.
			return p.versionError(p.Loader.assertion(need.File, m, "dl-version.c", "_dl_check_map_versions", "needed != NULL"))
		}
		if p.log == nil && p.Loader.fits(provider.Object, need.Versions) {
			continue
		}
		for _, v := range need.Versions {
			err := p.matchVersion(m, provider, v, dlopen)
			if err == nil {
				continue
			}
			if first == nil {
				first = err
			}
			if dlopen || err.Kind != VersionError {
				return first
			}
		}
	}
	return first
}

// assertionLines are the line numbers of the assertions that broken libraries fail,
// each from a release on, in the upstream sources (Ubuntu's for 2.23 and 2.27).
var assertionLines = map[string][]struct{ release, line int }{
	"dl-deps.c":    {{0, 590}, {218, 586}, {220, 574}, {227, 549}, {228, 553}},
	"dl-version.c": {{0, 224}, {227, 205}, {235, 204}},
	"dl-lookup.c":  {{0, 167}, {218, 166}, {220, 127}, {223, 128}, {224, 127}, {227, 111}, {232, 105}, {235, 106}, {236, 107}, {239, 106}},
}

// assertion returns the error of a failed assertion, which ends the process.
func (l *Loader) assertion(name string, by *Module, file, function, text string) *Error {
	line := 0
	for _, from := range assertionLines[file] {
		if l.release >= from.release {
			line = from.line
		}
	}
	return &Error{Name: name, By: by, Kind: InnerError, Message: fmt.Sprintf("Inconsistency detected by ld.so: %s: %d: %s: Assertion `%s' failed!", file, line, function, text)}
}

// versionCache caches whether an object defines the versions that another requires.
type versionCache struct {
	m    sync.Map // versionPair → bool
	held atomic.Int64
}

type versionPair struct {
	o     *Object
	first *Version // of the required versions
}

// fits reports whether o defines all versions of list. It caches the result, since all
// processes require the same versions of the same few objects.
func (l *Loader) fits(o *Object, list []Version) bool {
	if len(list) == 0 {
		return false
	}
	key := versionPair{o, &list[0]}
	if known, ok := l.fitting.m.Load(key); ok {
		return known.(bool)
	}
	fits := !slices.ContainsFunc(list, func(v Version) bool { return !slices.Contains(o.VersionDefs, v.Name) })
	if l.fitting.held.Add(1) <= 1<<16 {
		l.fitting.m.Store(key, fits)
	}
	return fits
}

// matchVersion is match_symbol (elf/dl-version.c): it checks that provider defines a
// version that m requires.
func (p glibc) matchVersion(m, provider *Module, v Version, dlopen bool) *Error {
	o := provider.Object
	p.work().spend(cells(len(o.VersionDefs)))
	if p.log != nil {
		p.log.versions = append(p.log.versions, fmt.Sprintf("checking for version `%s' in file %s [0] required by file %s [0]", v.Name, p.file(provider), p.file(m)))
	}
	warn := func(message string) {
		if !dlopen && p.fatal == nil {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s: %s: %s", p.argv0, p.file(provider), message))
		}
	}
	fail := func(message string, kind ErrorKind) *Error {
		return p.versionError(&Error{Name: v.Name, Subject: p.file(provider), Message: message, By: m, Kind: kind})
	}
	switch {
	case provider.unreadTables() || slices.Contains(o.VersionDefs, v.Name):
		return nil
	case o.VersionFault != "" && strings.HasSuffix(o.VersionFault, "Verdef record"):
		return fail(o.VersionFault, FileError)
	case len(o.VersionDefs) == 0:
		warn(fmt.Sprintf("no version information available (required by %s)", p.file(m)))
		return nil
	case v.Weak:
		warn(fmt.Sprintf("weak version `%s' not found (required by %s)", v.Name, p.file(m)))
		return nil
	}
	err := fail(fmt.Sprintf("version `%s' not found (required by %s)", v.Name, p.file(m)), VersionError)
	if !dlopen {
		warn(err.Message)
	}
	return err
}

// versionError records e in Versions.
func (p glibc) versionError(e *Error) *Error {
	p.work().spend(missed)
	p.Versions = append(p.Versions, e)
	return e
}

// file returns the name of an object in messages (DSO_FILENAME).
func (p *Process) file(m *Module) string {
	if m.Path == "" {
		return p.argv0
	}
	return m.Path
}

// named is find_needed (elf/dl-version.c): it returns the first object that was
// requested by name; its DT_SONAME does not count. In a tracing process a miss of that
// name may come first.
func (p glibc) named(name string) (m *Module, missed bool) {
	p.work().spend(len(p.listed))
	for _, e := range p.listed {
		switch m := e.Module; {
		case m == nil && e.Name == name:
			return nil, true
		case m != nil && (m.Path == name && name != "" || slices.Contains(m.Names, name)):
			return m, false
		}
	}
	return nil, false
}

// unreadTables reports whether the version tables could not be read.
func (m *Module) unreadTables() bool {
	return slices.ContainsFunc(m.Object.Unread, func(u Unread) bool {
		return strings.HasPrefix(u.What, "version") || u.What == "string table" || u.What == "dynamic section"
	})
}

// checkISA is dl_isa_level_check (sysdeps/x86/dl-prop.h), which exists from glibc 2.33
// on.
func (p glibc) checkISA() *Error {
	l := p.Loader
	if l.machine != elf.EM_X86_64 || l.release < 233 {
		return nil
	}
	for _, m := range slices.Backward(p.Objects) {
		if have := uint32(1)<<l.env.CPU - 1; m.Object.ISANeeded&^have != 0 && !m.isLoader && !m.isaDone {
			return &Error{Name: p.file(m), Subject: p.file(m), Message: "CPU ISA level is lower than required", By: m.By, Kind: ISAError}
		}
		m.isaDone = true
	}
	return nil
}

// wantsStack reports whether o needs an executable stack: PT_GNU_STACK has PF_X, or is
// absent on x86 (DEFAULT_STACK_PERMS).
func (l *Loader) wantsStack(o *Object) bool {
	x86 := l.machine == elf.EM_X86_64 || l.machine == elf.EM_386
	return o.Stack == StackExec || o.Stack == StackAbsent && x86
}

// refusesStack reports whether o is refused for its executable stack, and with which
// errno. From glibc 2.41 on dlopen refuses it, and so does the start of a program with
// glibc.rtld.execstack=0.
func (p glibc) refusesStack(o *Object) (syscall.Errno, bool) {
	return syscall.EINVAL, p.Loader.release >= 241 && p.Loader.wantsStack(o) && !p.stack && (p.dlopening || p.stackMode() == 0)
}

// stackMode returns the value of glibc.rtld.execstack. The default is 1, also for a 2
// that the loader does not know.
func (p glibc) stackMode() int {
	l := p.Loader
	if p.secure {
		return 1
	}
	switch l.env.tunable("glibc.rtld.execstack") {
	case "0":
		return 0
	case "2":
		if l.Libc.StackTunable || l.release >= 242 {
			return 2
		}
	}
	return 1
}

// stackTunable is _dl_handle_execstack_tunable (elf/dl-execstack-tunable.c), which
// exists from glibc 2.41 on. With 0 a program that needs an executable stack ends; with
// 2 every program has one, so that opened libraries may need one.
func (p glibc) stackTunable(main *Module) *Error {
	if p.Loader.release < 241 {
		return nil
	}
	switch p.stackMode() {
	case 0:
		if p.Loader.wantsStack(main.Object) {
			return &Error{Message: "Fatal glibc error: executable stack is not allowed", By: main, Kind: InnerError}
		}
	case 2:
		p.stack = true
	}
	return nil
}
