package size

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// This file finds the copies that need no assumption: those in a tree that nothing of the image
// leads into. A tree is a directory such as /opt/build. A program could make the path of a
// library from its own place or from one that it was given, so that a tree with programs or code does not
// count, nor one that a text of the image names.

// homes are places where programs look for CUDA, or where loaders do, by themselves.
var homes = []string{"usr", "usr/**", "lib*", "lib*/**", "bin", "sbin", "opt", "home", "opt/cuda*", "opt/nvidia*", "opt/conda*", "root", "root/**", "home/*"}

// codeFiles are extensions of files that programs are, or read to find others.
var codeFiles = []string{".py", ".pyc", ".pth", ".egg-link", ".js", ".mjs", ".cjs", ".node", ".json", ".yaml", ".yml", ".toml", ".jar", ".lua", ".pl", ".rb", ".php", ".sh", ".conf", ".cfg", ".ini", ".env"}

// abandoned returns the copies in trees that nothing leads into. There are none in an image whose
// start could not be followed to its end, or whose files cannot be read again to be searched.
func (f *finder) abandoned(ctx context.Context) (map[string]bool, error) {
	s := f.Evidence.Started
	if f.Read == nil || s == nil || s.Problem != nil || len(s.Unknown) > 0 || len(f.Evidence.LeftOut) > 0 {
		return nil, nil
	}
	trees := map[string]bool{} // true for one that nothing leads into, as far as is known
	for p := range f.copies {
		if t := treeOf(p); !packs.MatchAny(homes, t) && !f.own.led[t] {
			trees[t] = true
		}
	}
	if len(trees) == 0 {
		return nil, nil
	}
	for e := range f.FS.All() {
		if t := treeOf(e.Path); trees[t] && f.isCode(e) {
			trees[t] = false
		}
		f.leads(e, trees)
	}
	for _, text := range f.named() {
		for t := range trees {
			trees[t] = trees[t] && !strings.Contains(text, "/"+t) && !leadsAbove([]byte(text), t)
		}
	}
	if err := f.search(ctx, trees); err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for p := range f.copies {
		gone[p] = trees[treeOf(p)]
	}
	return gone, nil
}

// treeOf returns the first two directories of a path without a leading slash.
func treeOf(p string) string {
	parts := strings.SplitN(path.Dir(p), "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// isCode reports whether a file is used, or may be a program that looks for libraries by its own place.
func (f *finder) isCode(e *layers.Entry) bool {
	switch {
	case e.Type != layers.Regular:
		return false
	case f.used["/"+e.Path] || e.Fault != "" || e.Shebang != "" || slices.Contains(codeFiles, path.Ext(e.Path)):
		return true
	case e.Object != nil:
		return replay.IsProgram(e.Object)
	}
	return e.Mode&0o111 != 0
}

// leads takes those off trees into which an entry outside leads: a link, a search path of an ELF
// file, or a text that names it.
func (f *finder) leads(e *layers.Entry, trees map[string]bool) {
	own := treeOf(e.Path)
	into := func(p string) {
		for t := range trees {
			if p = strings.TrimPrefix(p, "/"); t != own && (p == t || strings.HasPrefix(p, t+"/")) {
				trees[t] = false
			}
		}
	}
	if e.Type == layers.Symlink {
		if to, _, ok := f.FS.Lookup("/" + e.Path); ok {
			into(to.Path)
		}
		into(path.Clean(e.Link))
	}
	if o := e.Object; o != nil {
		for _, list := range []*string{o.Rpath, o.Runpath} {
			if list == nil {
				continue
			}
			for _, dir := range strings.Split(*list, ":") {
				origin := strings.NewReplacer("$ORIGIN", "/"+path.Dir(e.Path), "${ORIGIN}", "/"+path.Dir(e.Path))
				into(path.Clean(origin.Replace(dir)))
			}
		}
		if o.Named != nil {
			for _, name := range o.Named.Names {
				into(path.Clean(name))
			}
		}
	}
	if len(e.Content) > 0 {
		for t := range trees {
			trees[t] = trees[t] && (t == own || !bytes.Contains(e.Content, []byte("/"+t)) && !leadsAbove(e.Content, t))
		}
	}
}

// named returns the texts of the config that may name a directory.
func (f *finder) named() []string {
	list := slices.Concat(f.Evidence.Config.Env().Vars, f.Evidence.Config.Volumes(), f.Evidence.Config.Healthcheck())
	for dir := range f.Evidence.Loaders.SearchDirs() {
		list = append(list, dir)
	}
	for _, p := range f.Evidence.Started.Programs {
		list = append(append(list, p.Args...), p.Dir, p.Path, p.File)
		for _, v := range p.Env {
			list = append(list, v)
		}
	}
	return list
}

// leadsAbove reports whether a text has a path that ends with the directory above a tree, or goes on from there with an
// unknown name: os.path.join("/opt", name) and "/opt/%s" may lead into any tree below /opt.
func leadsAbove(text []byte, tree string) bool {
	above := path.Dir(tree)
	return above != "." && ends(text, "/"+above)
}
