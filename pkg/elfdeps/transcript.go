package elfdeps

import (
	"slices"
	"strings"
	"syscall"
)

// Search is what LD_DEBUG=libs shows of one search: in brackets the sources
// (print_search_path), and the files that were tried, in order. A directory that
// was found not to exist is not tried again in the process.
type Search struct {
	Name  string
	Steps []string
}

// transcript writes down the searches of a process as glibc's own trace has
// them. It keeps what glibc keeps of each directory (struct r_search_path_elem):
// a text that stands in several lists is one directory, with the name of the list
// that came first, and what is known of its existence.
type transcript struct {
	searches []Search
	versions []string
	dirs     map[string]*searchDir
	gone     map[string]bool // lists of which no directory exists
}

type searchDir struct {
	what    string // of the list that came first, as it is shown
	missing []bool // by hwcaps subdirectory: found not to exist
	known   []bool
}

func newTranscript() *transcript {
	return &transcript{dirs: map[string]*searchDir{}, gone: map[string]bool{}}
}

// StartLogged is [Loader.Start] of a process that writes down its searches and
// version checks. musl has nothing to show.
func (l *Loader) StartLogged(exe string) (*Process, error) {
	p := l.process(false)
	p.log = newTranscript()
	return p, l.startIn(p, exe)
}

// Searches are those of a process that [Loader.StartLogged] has started, in
// order.
func (p *Process) Searches() []Search {
	if p.log == nil {
		return nil
	}
	return p.log.searches
}

// VersionChecks are the lines of LD_DEBUG=versions of a process that
// [Loader.StartLogged] has started.
func (p *Process) VersionChecks() []string {
	if p.log == nil {
		return nil
	}
	return p.log.versions
}

// what is how the trace names a source: "LD_LIBRARY_PATH", "RUNPATH from file
// /app/main".
func (d dirList) what() string {
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

// know makes the directories of a list known, in the order in which glibc's
// _dl_init_paths does so at start and cache_rpath later.
func (t *transcript) know(d dirList, hwcaps int) {
	for _, dir := range d.dirs {
		if t.dirs[dir] == nil {
			t.dirs[dir] = &searchDir{what: d.what(), missing: make([]bool, hwcaps), known: make([]bool, hwcaps)}
		}
	}
}

// begin makes known what is before the first search: the built-in directories,
// the program's own, LD_LIBRARY_PATH's.
func (t *transcript) begin(p *Process) {
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

// search writes down the search that s is about to make.
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

// walk is open_path with its messages. It reports whether the search ends here.
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
		if d.what != shown {
			shown = d.what
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
			if v.kind == vTake && p.secure && p.preloading {
				return true
			}
			if v.kind != vSkip {
				return true
			}
			last = v.errno
			if !d.known[i] {
				d.known[i] = true
				d.missing[i] = !p.isDir(dir + sub)
			}
			here = here || !d.missing[i]
		}
		if here && stops(last, p.Loader.release) {
			return false
		}
		any = any || here
	}
	// The lists that the loader has for good are not written to.
	if !any && !slices.Contains([]string{"LD_LIBRARY_PATH", "built-in directories"}, list.source) {
		t.gone[list.source] = true
	}
	return false
}
