package fix

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

const (
	cachePath = "/etc/ld.so.cache"
	// dropIn is the last of the files that ld.so.conf includes.
	dropIn = "/etc/ld.so.conf.d/zz-imgcheck.conf"
)

// plainPath matches a path of which only the dots mean something in a regular expression.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9_./-]+$`)

// caches offers to name a directory that has the library in a file of ld.so.conf.d, and to
// rewrite ld.so.cache as ldconfig would. Unlike LD_LIBRARY_PATH, set-user-ID programs use
// the cache too, and every RUNPATH comes before it.
func (m *maker) caches(f *lint.Finding) []candidate {
	if !m.hasCache() {
		return nil
	}
	var list []candidate
	for _, dir := range directories(f) {
		list = append(list, candidate{text: dir + " in ld.so.cache", steps: []Step{cached(dir)}})
	}
	return list
}

// cached returns the step that makes ldconfig search dir.
func cached(dir string) Step {
	return Step{Kind: "ldconf", Text: fmt.Sprintf("name %s in %s and write %s anew", dir, dropIn, cachePath), Path: dir}
}

// hasCache reports whether the image has a cache that can be rewritten: one of glibc, for
// programs of one machine. If the image runs programs of two, a rewrite would lose the
// entries of one of them.
func (m *maker) hasCache() bool {
	if _, err := m.base.FS.Find(cachePath); err != nil {
		return false
	}
	return loaderOf(m.base.FS) != nil && included(m.base.FS)
}

// included reports whether ld.so.conf reads the files of ld.so.conf.d.
func included(f *layers.FS) bool {
	conf, err := f.Find("/etc/ld.so.conf")
	return err == nil && strings.Contains(string(conf.Content), "ld.so.conf.d/*.conf")
}

// loaderOf returns glibc's loader if the image has exactly one, else nil.
func loaderOf(f *layers.FS) *elfdeps.Loader {
	var found []*elfdeps.Loader
	for _, interp := range []string{
		"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-linux.so.2", "/lib64/ld64.so.2", "/lib/ld64.so.1",
		"/lib/ld-linux-riscv64-lp64d.so.1", "/lib/ld-linux-armhf.so.3",
	} {
		if l, err := elfdeps.NewLoader(f, interp, elfdeps.Env{}); err == nil && !l.Libc.Musl {
			found = append(found, l)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// writeCache sets the files of the last step that names a directory for ldconfig: the
// drop-in with the directories of all such steps, and the cache that ldconfig would write
// after the other steps.
func (d *draft) writeCache() {
	var dirs []string
	last := -1
	for i, s := range d.steps {
		if s.Kind == "ldconf" {
			last = i
			if !slices.Contains(dirs, s.Path) {
				dirs = append(dirs, s.Path)
			}
			d.steps[i].files = nil
		}
	}
	if last < 0 {
		return
	}
	conf := textFile(dropIn, strings.Join(dirs, "\n")+"\n")
	d.steps[last].files = []file{conf}
	now := d.image().FS
	l := loaderOf(now)
	if l == nil {
		return
	}
	entries, _ := elfdeps.Ldconfig(listed{now}, l)
	d.steps[last].files = []file{conf, textFile(cachePath, string(elfdeps.WriteCache(entries)))}
}

// withoutDir returns the command that takes the lines with a directory out of a file of ld.so.conf and
// runs ldconfig, or nil if no line is the directory alone, or the image has no cache that can be
// rewritten. The replay has the cache that ldconfig would write.
func (m *maker) withoutDir(now *replay.Image, conf *layers.Entry, c packs.Run) *install {
	if !m.hasCache() || !m.hasShell() || int64(len(conf.Content)) != conf.Size || !plainPath.MatchString(c.Target) {
		return nil
	}
	var kept []string
	for line := range strings.Lines(string(conf.Content)) {
		if strings.TrimRight(line, "\n") != c.Target {
			kept = append(kept, line)
		}
	}
	text := textFile(c.Path, strings.Join(kept, ""))
	if text.Size == conf.Size {
		return nil
	}
	text.Mode, text.of = conf.Mode.Perm(), conf
	s := Step{Kind: "install", Path: c.Path, StandIn: true, files: []file{text}}
	changed := newDraft(now, []Step{s})
	fsys := changed.image().FS
	l := loaderOf(fsys)
	if l == nil {
		return nil
	}
	entries, _ := elfdeps.Ldconfig(listed{fsys}, l)
	s.files = append(s.files, textFile(cachePath, string(elfdeps.WriteCache(entries))))
	command := fmt.Sprintf("sed -i %s %s && ldconfig", Shell(`\|^`+strings.ReplaceAll(c.Target, ".", `\.`)+`$|d`), Shell(c.Path))
	return &install{manager: "run", step: s, command: command}
}

// listed is an [elfdeps.DirFS].
type listed struct{ *layers.FS }

// List returns the names in a directory.
func (f listed) List(dir string) ([]string, error) {
	name := strings.Trim(dir, "/")
	if name == "" {
		name = "."
	}
	entries, err := fs.ReadDir(f.FS, name)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

var _ elfdeps.DirFS = listed{}
