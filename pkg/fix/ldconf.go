package fix

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

const (
	cachePath = "/etc/ld.so.cache"
	// dropIn comes last among the files that ld.so.conf includes.
	dropIn = "/etc/ld.so.conf.d/zz-imgcheck.conf"
)

// caches name the directories that have the library in a file of ld.so.conf.d,
// and write ld.so.cache anew, as ldconfig would. Unlike LD_LIBRARY_PATH that is
// heeded by set-user-ID programs too, and comes after every RUNPATH.
func (p *planner) caches(f *lint.Finding) []candidate {
	if !p.hasCache() {
		return nil
	}
	var list []candidate
	for _, dir := range p.directories(f) {
		list = append(list, candidate{text: dir + " in ld.so.cache", steps: []Step{cached(dir)}})
	}
	return list
}

func cached(dir string) Step {
	return Step{Kind: "ldconf", Text: fmt.Sprintf("name %s in %s and write %s anew", dir, dropIn, cachePath), Path: dir}
}

// hasCache reports whether the image has a cache that can be written anew: one of
// glibc, of programs of one kind. Of an image that runs programs of two, half of
// the entries would be lost.
func (p *planner) hasCache() bool {
	if _, err := p.base.FS.Find(cachePath); err != nil {
		return false
	}
	return loaderOf(p.base.FS) != nil && included(p.base.FS)
}

// included reports whether ld.so.conf reads the files of ld.so.conf.d.
func included(f *layers.FS) bool {
	conf, err := f.Find("/etc/ld.so.conf")
	return err == nil && strings.Contains(string(conf.Content), "ld.so.conf.d/*.conf")
}

// loaderOf is glibc's loader, where the image has exactly one.
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

// writeCache gives the last of the steps that name directories for ldconfig its
// files: the drop-in with all of them, and the cache that ldconfig would write
// with the other steps done.
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

// listed is a file system whose directories ldconfig can list.
type listed struct{ *layers.FS }

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
