package imports

import (
	"context"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/rules"
)

// python is the interpreter of the roots; a flag sets another.
var python = "/usr/bin/python3"

// environment is the one of record.py, without what it adds for itself.
var environment = map[string]string{
	"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME": "/root",
}

// openRoot indexes a root file system as a scan does. If cache is not "", the index is kept
// in that directory, and taken from there the next time: for a root that does not change.
func openRoot(ctx context.Context, root, cache string) (*layers.FS, error) {
	img, err := layers.Open(ctx, "dir:"+root, layers.Options{Keep: replay.Wants, Extract: replay.Extractor(), KeepID: replay.WantsID})
	if err != nil || cache == "" {
		return index(ctx, img, err)
	}
	c, err := layers.OpenCache(cache, 1<<40)
	if err != nil {
		return nil, err
	}
	if l, ok := c.Layer(root, replay.WantsID); ok {
		f := layers.Merge(l)
		f.Layers = img.Layers
		return f, nil
	}
	f, err := index(ctx, img, nil)
	if err != nil {
		return nil, err
	}
	var list []layers.Entry
	for e := range f.All() {
		list = append(list, *e)
	}
	return f, c.PutLayer(root, replay.WantsID, layers.NewLayer(list))
}

func index(ctx context.Context, img *layers.Image, err error) (*layers.FS, error) {
	if err != nil {
		return nil, err
	}
	return img.Index(ctx)
}

// predict predicts the imports of modules, each by a new process of a root's Python, as
// `imgcheck imports` does.
func predict(ctx context.Context, fs *layers.FS, more map[string]string, modules []string) (map[string]*prediction, error) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		return nil, err
	}
	config := &v1.ConfigFile{}
	config.Config.Env = variables(more)
	all := map[string]*prediction{}
	for some := range slices.Chunk(modules, atOnce) {
		starts, err := replay.Follow(ctx, &replay.Image{FS: fs, Config: config}, set, python, some)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			all[m] = &prediction{module: m, outcome: Failed, typ: "the program", text: python + " does not start"}
		}
		for _, s := range starts {
			all[s.Tree.Name] = predictionOf(s)
		}
	}
	return all, nil
}

// variables returns the environment of the processes, and more variables.
func variables(more map[string]string) []string {
	vars := maps.Clone(environment)
	maps.Copy(vars, more)
	var list []string
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		list = append(list, k+"="+vars[k])
	}
	return list
}

// atOnce are the modules that are predicted in one go: all of a root need more look-ups
// than a replay allows.
const atOnce = 128

// predictionOf returns what imgcheck says about an import.
func predictionOf(s *replay.Start) *prediction {
	out := &prediction{module: s.Tree.Name, outcome: OK, mapped: s.Mapped, tree: s.Tree}
	if f := s.Tree.Failed; f != nil {
		out.outcome, out.typ, out.text, out.doubt = Failed, f.Type, f.Text, f.Doubt
	}
	if slices.ContainsFunc(s.Failures, func(f replay.StartFailure) bool { return f.Type == "SIGBUS" }) {
		out.outcome, out.typ, out.text = Signal, "", ""
	}
	out.add(s.Tree)
	return out
}

// add adds the modules of a tree, and what is not known.
func (p *prediction) add(n *pyimport.Node) {
	if n.Kind != pyimport.Program && n.Kind != pyimport.Library && n.Maybe == "" && n.Failed == nil {
		p.modules = append(p.modules, n.Name)
	}
	for _, u := range n.Unknown {
		p.unknown = append(p.unknown, n.Name+": "+u)
	}
	for _, c := range n.Nodes {
		p.add(c)
	}
}
