package githook

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/imagerefs"
)

// Limits of the Compose files of a push: those that are read because of others, and in how many
// steps one includes another.
const (
	maxCompose  = 200
	maxIncluded = 5
)

// composeName is the name by which a file is read that a Compose file includes.
const composeName = "compose.yaml"

// composeOf reads the Compose files that a push concerns beside the changed ones.
type composeOf struct {
	commit, base string
	left         *int64
	changes      []Change
	room         int // files that may still be read
}

func isCompose(file string) bool { return imagerefs.EnvFile(file) != "" }

// mayInclude reports whether a changed file may be one that a Compose file includes under a name
// of its own: YAML with services.
func (c *Change) mayInclude() bool {
	ext := path.Ext(c.Path)
	return (ext == ".yml" || ext == ".yaml") && !isCompose(c.Path) && bytes.Contains(c.New, []byte("services:")) && bytes.Contains(c.New, []byte("image"))
}

// besideEnv returns the unchanged Compose files that take their variables from .env files which
// the push changes.
func besideEnv(ctx context.Context, commit string, changed []file) ([]file, error) {
	var list []file
	for i, f := range changed {
		if !imagerefs.IsEnv(f.path) || i >= maxEnvs {
			continue
		}
		dir := strings.TrimPrefix(path.Dir(f.path)+"/", "./")
		out, err := git(ctx, "ls-tree", "-z", "--full-tree", commit, "--", "./"+dir)
		if err != nil {
			return nil, err
		}
		for _, e := range tree(out) {
			if imagerefs.EnvFile(e.path) == f.path && len(list) < maxCompose && !slices.ContainsFunc(changed, func(o file) bool { return o.path == e.path }) {
				list = append(list, e)
			}
		}
	}
	return list, nil
}

// tree returns the files in the output of git ls-tree -z.
func tree(out []byte) (list []file) {
	for line := range bytes.SplitSeq(out, []byte{0}) {
		meta, name, _ := strings.Cut(string(line), "\t")
		if f := strings.Fields(meta); len(f) == 3 && f[1] == "blob" && objectID(f[2]) { // MODE TYPE ID
			list = append(list, file{path: name, old: f[2], id: f[2]})
		}
	}
	return list
}

// included returns the changes with the files that their Compose files include or extend: all
// images of a file that is newly included are new. Included files that the push itself changes
// are read as Compose files, whatever their names.
func included(ctx context.Context, commit, base string, changes []Change, left *int64) ([]Change, error) {
	x := &composeOf{commit: commit, base: base, left: left, changes: changes, room: maxCompose}
	if slices.ContainsFunc(changes, func(c Change) bool { return c.mayInclude() }) {
		if err := x.markIncluded(ctx); err != nil {
			return nil, err
		}
	}
	from := 0
	for range maxIncluded {
		to := len(x.changes)
		for _, c := range x.changes[from:to] {
			if c.As != "" || isCompose(c.Path) {
				if err := x.follow(ctx, c); err != nil {
					return nil, err
				}
			}
		}
		from = to
	}
	return x.changes, nil
}

// follow adds the files that a Compose file includes.
func (x *composeOf) follow(ctx context.Context, c Change) error {
	before := imagerefs.Includes(c.Path, c.Old, c.Was)
	for _, p := range imagerefs.Includes(c.Path, c.New, c.Values) {
		i := slices.IndexFunc(x.changes, func(o Change) bool { return o.Path == p })
		switch {
		case i >= 0:
			if !isCompose(p) {
				x.changes[i].As = composeName
			}
			continue
		case strings.Contains(p, "\n"):
			continue
		case x.room == 0:
			x.room-- // one line is enough
			x.changes = append(x.changes, Change{Path: p, Commit: x.commit, Why: "Compose files include too many others"})
			continue
		case x.room < 0:
			continue
		}
		x.room--
		id := x.commit + ":" + p
		ids := []string{id}
		was := ""
		if x.base != "" && slices.Contains(before, p) {
			was = x.base + ":" + p
			ids = append(ids, was)
		}
		found, err := blobs(ctx, ids, x.left)
		if err != nil {
			return err
		}
		add := Change{Path: p, As: composeName, Commit: x.commit, New: found[id].text, Old: found[was].text, Why: found[id].why, Values: c.Values, Was: c.Was}
		if add.Why == "" && bytes.Equal(add.New, add.Old) && sameValues(add.Values, add.Was) {
			continue
		}
		x.changes = append(x.changes, add)
	}
	return nil
}

func sameValues(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// markIncluded marks the changed files that a Compose file of the commit includes.
func (x *composeOf) markIncluded(ctx context.Context) error {
	out, err := git(ctx, "ls-tree", "-r", "-z", "--full-tree", x.commit)
	if err != nil {
		return err
	}
	var ids []string
	names := map[string][]string{}
	for _, f := range tree(out) {
		if isCompose(f.path) && len(ids) < maxCompose {
			ids = append(ids, f.id)
			names[f.id] = append(names[f.id], f.path)
		}
	}
	found, err := blobs(ctx, ids, x.left)
	if err != nil {
		return err
	}
	for id, b := range found {
		for _, name := range names[id] {
			for _, p := range imagerefs.Includes(name, b.text, nil) {
				if i := slices.IndexFunc(x.changes, func(o Change) bool { return o.Path == p }); i >= 0 && !isCompose(p) {
					x.changes[i].As = composeName
				}
			}
		}
	}
	return nil
}
