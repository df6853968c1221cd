package scan

import (
	"testing"
	"testing/fstest"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// The key of a verdict differs wherever the document may.
func TestVerdictKey(t *testing.T) {
	cache, err := layers.OpenCache(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	base := Options{Layers: layers.Options{Cache: cache}, Rules: NewRules(fstest.MapFS{"a.yaml": {Data: []byte("a")}})}
	key := func(change func(*Options)) string {
		t.Helper()
		o := base
		change(&o)
		img, err := Open(t.Context(), push(t, "ort-no-cudnn.txtar"), o)
		if err != nil {
			t.Fatal(err)
		}
		defer img.Close()
		v, err := verdictOf(img, o)
		if err != nil {
			t.Fatal(err)
		}
		return v.key
	}
	set := func(files fstest.MapFS) func(*Options) {
		return func(o *Options) { o.Rules = NewRules(files) }
	}
	same := key(func(*Options) {})
	if again := key(func(o *Options) { o.Stage = func(Stage) {} }); same == "" || same != again {
		t.Errorf("the key is %q, and then %q", same, again)
	}
	for what, other := range map[string]string{
		"a Dockerfile":        key(func(o *Options) { o.Dockerfiles = []Dockerfile{{Name: "Dockerfile"}} }),
		"its text":            key(func(o *Options) { o.Dockerfiles = []Dockerfile{{Name: "Dockerfile", Text: []byte("FROM a")}} }),
		"other packs":         key(set(fstest.MapFS{"a.yaml": {Data: []byte("b")}})),
		"one pack more":       key(set(fstest.MapFS{"a.yaml": {Data: []byte("a")}, "b.yaml": {}})),
		"packs of other name": key(set(fstest.MapFS{"b.yaml": {Data: []byte("a")}})),
		"no packs of others":  key(func(o *Options) { o.Rules = nil }),
		"no plan":             key(func(o *Options) { o.NoPlan = true }),
		"a policy": key(func(o *Options) {
			o.Policy = &policy.Decisions{Policy: &policy.Policy{Ignores: []policy.Ignore{{Rule: "missing-library"}}}}
		}),
	} {
		if other == same {
			t.Errorf("%s: the same key", what)
		}
	}
	if got := key(func(o *Options) { o.Layers.Cache = nil }); got != "" {
		t.Errorf("without a cache there is a key %q", got)
	}
}

// A document is not kept under the key of packs that it was not made by.
func TestVerdictOfOtherPacks(t *testing.T) {
	cache, err := layers.OpenCache(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Layers: layers.Options{Cache: cache}}
	img, err := Open(t.Context(), push(t, "soname-link-missing.txtar"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	v, err := verdictOf(img, o)
	if err != nil {
		t.Fatal(err)
	}
	set, err := o.rules().Packs()
	if err != nil {
		t.Fatal(err)
	}
	doc := report.New(describe(img), &lint.Result{})
	for _, of := range []struct {
		packs *packs.Packs
		kept  bool
	}{{&packs.Packs{ID: "another"}, false}, {set, true}} {
		if err := v.store(img, doc, of.packs); err != nil {
			t.Fatal(err)
		}
		if kept := v.load(img, nil) != nil; kept != of.kept {
			t.Errorf("by packs %q: kept %v", of.packs.ID, kept)
		}
	}
}
