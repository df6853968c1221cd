package fix

import (
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// draft holds an image and the steps that will be made in it.
type draft struct {
	base  *replay.Image
	steps []Step // with the variables' values after all steps
	env   []patch.EnvEdit
	argv  *argv // of the image, if a step changes it
}

// argv is the command of an image.
type argv struct{ entrypoint, cmd []string }

// file is a file of the layer, with the parts that a loader reads.
type file struct {
	patch.File
	object  *elfdeps.Object
	content []byte
	shebang string
	of      *layers.Entry // the image's own file, if this is a changed copy of it
}

// newDraft returns the draft of base with steps.
func newDraft(base *replay.Image, steps []Step) draft {
	d := draft{base: base, steps: slices.Clone(steps)}
	vars := environment(base)
	var changed []string
	for _, s := range d.steps {
		if s.argv != nil {
			d.argv = s.argv
		}
		if s.Variable == "" {
			continue
		}
		vars = setVar(vars, s.Variable, s.edit.Apply(getVar(vars, s.Variable)))
		if !slices.Contains(changed, s.Variable) {
			changed = append(changed, s.Variable)
		}
	}
	for _, name := range changed {
		v := getVar(vars, name)
		d.env = append(d.env, patch.EnvEdit{Name: name, Value: v, Unset: v == ""})
	}
	for i := range d.steps {
		if d.steps[i].Variable != "" {
			d.steps[i].Value = getVar(vars, d.steps[i].Variable)
		}
	}
	d.writeCache()
	d.keepOwners()
	return d
}

// keepOwners copies the owner and the permissions of a replaced file to its replacement,
// which all users may read.
func (d *draft) keepOwners() {
	for i := range d.steps {
		d.steps[i].files = slices.Clone(d.steps[i].files) // candidates share them
		for k := range d.steps[i].files {
			f := &d.steps[i].files[k]
			if old := d.replaced(f); old != nil {
				f.Mode, f.UID, f.GID = old.Mode.Perm()|0o444, old.UID, old.GID
			}
		}
	}
}

// replaced returns the image's file that f replaces, or nil.
func (d *draft) replaced(f *file) *layers.Entry {
	if f.Remove || f.Link != "" || f.of != nil {
		return nil
	}
	e, _, ok := d.base.FS.Lstat(realPath(d.base.FS, f.Path))
	if !ok || e.Type != layers.Regular {
		return nil
	}
	return e
}

// environment returns a copy of the image's variables.
func environment(img *replay.Image) []string {
	if img.Config == nil {
		return nil
	}
	return slices.Clone(img.Config.Config.Env)
}

// getVar returns the value of a variable; of two, the last counts.
func getVar(vars []string, name string) string {
	value := ""
	for _, v := range vars {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}

// setVar returns vars with a variable set, or without it if value is empty.
func setVar(vars []string, name, value string) []string {
	at := slices.IndexFunc(vars, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	out := slices.DeleteFunc(slices.Clone(vars), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if value == "" {
		return out
	}
	if at < 0 || at > len(out) {
		at = len(out)
	}
	return slices.Insert(out, at, name+"="+value)
}

// image returns the image with the steps: its file system with one more layer, and the
// changed variables.
func (d *draft) image() *replay.Image {
	out := *d.base
	if len(d.env) > 0 || d.argv != nil {
		var c v1.ConfigFile // a directory has no config; its program sets variables
		if d.base.Config != nil {
			c = *d.base.Config
		}
		c.Config.Env = environment(d.base)
		for _, e := range d.env {
			c.Config.Env = setVar(c.Config.Env, e.Name, e.Value)
		}
		if d.argv != nil {
			c.Config.Entrypoint, c.Config.Cmd = d.argv.entrypoint, d.argv.cmd
		}
		out.Config = &c
	}
	if l := d.layer(); l != nil {
		out.FS = d.base.FS.With(l, source.Layer{CreatedBy: "imgcheck patch"})
	}
	return &out
}

// layer returns the index of the layer, or nil if no step has a file.
func (d *draft) layer() *layers.Layer {
	var entries []layers.Entry
	var gone []string
	for _, s := range d.steps {
		for _, f := range s.files {
			p := strings.TrimPrefix(realPath(d.base.FS, f.Path), "/")
			switch {
			case f.Remove:
				gone = append(gone, p)
			case f.Link != "":
				entries = append(entries, layers.Entry{Path: p, Type: layers.Symlink, Link: f.Link, Mode: 0o777})
			default:
				entries = append(entries, layers.Entry{Path: p, Mode: f.Mode, UID: f.UID, GID: f.GID, Size: f.Size, Object: f.object, Content: f.content, Shebang: f.shebang, Caps: f.of != nil && f.of.Caps})
			}
		}
	}
	if len(entries)+len(gone) == 0 {
		return nil
	}
	return layers.NewLayer(entries, gone...)
}

// realPath returns p with the links among its parents followed, as far as they exist: an
// entry below a link would turn the link into a directory.
func realPath(f *layers.FS, p string) string {
	dir, base := path.Split(path.Clean("/" + p))
	rest := base
	for dir != "/" && dir != "" {
		dir = strings.TrimSuffix(dir, "/")
		if e, _, ok := f.Lookup(dir); ok {
			return path.Join("/", e.Path, rest)
		}
		rest = path.Join(path.Base(dir), rest)
		dir, _ = path.Split(dir)
	}
	return "/" + rest
}

func linkFile(p, target string) file { return file{File: patch.File{Path: p, Link: target}} }

func removedFile(p string) file { return file{File: patch.File{Path: p, Remove: true}} }

func textFile(p, text string) file {
	return file{content: []byte(text), File: patch.File{Path: p, Mode: 0o644, Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}}
}
