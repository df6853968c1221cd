package elfdeps

import (
	"slices"
	"strings"
	"syscall"
)

// Search has the lines of LD_DEBUG=libs for one search, in order: sources in brackets
// (print_search_path), and the files that were tried. The process does not try again a
// directory that does not exist.
type Search struct {
	Name  string
	Steps []string
}

// transcript records the searches of a process as LD_DEBUG shows them. Like glibc
// (struct r_search_path_elem) it has one entry for each directory, though several lists
// have it, with the name of the first list and whether the directory exists.
type transcript struct {
	searches []Search
	versions []string
	dirs     map[string]*searchDir
	gone     map[string]bool // lists without an existing directory
}

type searchDir struct {
	list    string // LD_DEBUG's name of the first list with the directory
	missing []bool // by hwcaps subdirectory: does not exist
	known   []bool // by hwcaps subdirectory: missing is set
}

func newTranscript() *transcript {
	return &transcript{dirs: map[string]*searchDir{}, gone: map[string]bool{}}
}

// StartLogged starts a process as [Loader.Start] does, and records its searches and
// version checks. musl has no such trace.
func (l *Loader) StartLogged(exe string) (*Process, error) {
	p := l.process(false)
	p.log = newTranscript()
	return p, l.startIn(p, exe)
}

// Searches returns the searches of a process that [Loader.StartLogged] started, in
// order.
func (p *Process) Searches() []Search {
	if p.log == nil {
		return nil
	}
	return p.log.searches
}

// VersionChecks returns the lines of LD_DEBUG=versions for a process that
// [Loader.StartLogged] started.
func (p *Process) VersionChecks() []string {
	if p.log == nil {
		return nil
	}
	return p.log.versions
}

// label returns LD_DEBUG's name for a source: "LD_LIBRARY_PATH", "RUNPATH
// from file /app/main".
func (d dirList) label() string {
	for _, kind := range []string{"RPATH", "RUNPATH"} {
		if file, ok := strings.CutPrefix(d.source, kind+" of "); ok {
			return kind + " from file " + file
		}
	}
	if d.source == "built-in directories" {
		return "system search path"
	}
	return d.source
}

// know adds the directories of a list. Callers keep the order of glibc, which does so
// in _dl_init_paths at start and in cache_rpath later.
func (t *transcript) know(d dirList, hwcaps int) {
	for _, dir := range d.dirs {
		if t.dirs[dir] == nil {
			t.dirs[dir] = &searchDir{list: d.label(), missing: make([]bool, hwcaps), known: make([]bool, hwcaps)}
		}
	}
}

// begin adds the directories that are known before the first search: the built-in ones,
// the program's and those of LD_LIBRARY_PATH.
func (t *transcript) begin(p glibc) {
	if len(t.dirs) > 0 {
		return
	}
	n := len(p.Loader.hwcaps)
	t.know(dirList{"built-in directories", p.Loader.system}, n)
	main := p.Program()
	t.know(dirList{"RUNPATH of " + main.String(), p.runpath(main)}, n)
	t.know(dirList{"RPATH of " + main.String(), p.rpath(main)}, n)
	t.know(dirList{"LD_LIBRARY_PATH", p.envDirs()}, n)
}

// search records the search that s is about to make.
func (t *transcript) search(s *search) {
	p := s.p
	t.begin(p)
	t.searches = append(t.searches, Search{Name: s.name})
	for _, list := range s.lists() {
		if t.walk(s, list) {
			return
		}
	}
	l := p.Loader
	if !(p.secure && p.preloading) {
		t.add("[cache /etc/ld.so.cache]")
		if full, ok := l.cache.Lookup(s.name, l.cacheID(), l.release, l.machine, l.env); ok {
			t.add(full)
			if !s.barred(full) {
				if _, v := p.verify(full); v.kind != vSkip {
					return
				}
			}
		}
	}
	if !s.noDefault() {
		t.walk(s, dirList{"built-in directories", l.system})
	}
}

func (t *transcript) add(step string) {
	last := &t.searches[len(t.searches)-1]
	last.Steps = append(last.Steps, step)
}

// walk records open_path for a list. It reports whether the search ends there.
func (t *transcript) walk(s *search, list dirList) bool {
	p := s.p
	t.know(list, len(p.Loader.hwcaps))
	if t.gone[list.source] {
		return false
	}
	shown := ""
	any := false
	for _, dir := range list.dirs {
		d := t.dirs[dir]
		if d.list != shown {
			shown = d.list
			t.add("[" + shown + "]")
		}
		here := false
		last := syscall.Errno(0)
		for i, sub := range p.Loader.hwcaps {
			if d.missing[i] {
				continue
			}
			full := dir + sub + s.name
			t.add(full)
			_, v := p.verify(full)
			if v.kind != vSkip {
				return true
			}
			last = v.errno
			if !d.known[i] {
				d.known[i] = true
				d.missing[i] = !p.Loader.isDir(dir + sub)
			}
			here = here || !d.missing[i]
		}
		if here && stops(last, p.Loader.release) {
			return false
		}
		any = any || here
	}
	// The loader does not drop these two lists.
	if !any && !slices.Contains([]string{"LD_LIBRARY_PATH", "built-in directories"}, list.source) {
		t.gone[list.source] = true
	}
	return false
}
