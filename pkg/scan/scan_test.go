package scan

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// push puts a text image into a registry of the test's.
func push(t *testing.T, name string) (ref string) {
	t.Helper()
	text, err := images.Text(name)
	if err != nil {
		t.Fatal(err)
	}
	if ref, err = imagetest.Serve(t).Push("test:1", imagetest.V1(t, string(text))); err != nil {
		t.Fatal(err)
	}
	return ref
}

// The stages come in their order, and none for a document that was kept.
func TestStages(t *testing.T) {
	cache, err := layers.OpenCache(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	ref := push(t, "soname-link-missing.txtar")
	var stages []Stage
	o := Options{Layers: layers.Options{Cache: cache}, Stage: func(s Stage) { stages = append(stages, s) }}
	for _, tt := range []struct {
		noPlan bool
		want   []Stage
	}{{true, []Stage{Reading, Judging}}, {false, []Stage{Reading, Judging, Planning}}, {false, nil}} {
		stages, o.NoPlan = nil, tt.noPlan
		doc, err := Image(t.Context(), ref, o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(stages, tt.want) || (doc.Plan == nil) != tt.noPlan {
			t.Errorf("stages %v, want %v; plan %v", stages, tt.want, doc.Plan)
		}
	}
}

// Ignored findings are in the document, and are not planned for.
func TestPolicy(t *testing.T) {
	ignored := &policy.Policy{Ignores: []policy.Ignore{{Rule: "missing-link", Reason: "known"}}}
	doc, err := Image(t.Context(), push(t, "soname-link-missing.txtar"), Options{Policy: &policy.Decisions{Policy: ignored, Today: "2026-11-22"}})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Summary.Errors != 1 || doc.Plan != nil {
		t.Errorf("%d errors, plan %v", doc.Summary.Errors, doc.Plan)
	}
}

// An error of the packs comes before one of the image, whichever is met first.
func TestPacksAreWrong(t *testing.T) {
	rules := NewRules(fstest.MapFS{"own.yaml": {Data: []byte("rules: 7")}})
	for _, ref := range []string{push(t, "soname-link-missing.txtar"), damaged(t)} {
		_, err := Image(t.Context(), ref, Options{Rules: rules})
		if err == nil || !strings.Contains(err.Error(), "own.yaml") {
			t.Errorf("%s: %v", ref, err)
		}
		if _, err = Image(t.Context(), ref, Options{}); (err == nil) != !strings.HasPrefix(ref, "oci:") {
			t.Errorf("%s: by imgcheck's own rules: %v", ref, err)
		}
	}
}

// damaged makes a layout with an image whose layer is cut off.
func damaged(t *testing.T) (ref string) {
	t.Helper()
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	img := imagetest.V1(t, "-- 0/app --\nelf x86_64 type=exec nodynamic\n")
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	list, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := list[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "blobs", digest.Algorithm, digest.Hex), 20); err != nil {
		t.Fatal(err)
	}
	return "oci:" + dir
}

// Scans that run at a time share their rules.
func TestSharedRules(t *testing.T) {
	rules, ref := NewRules(), push(t, "soname-link-missing.txtar")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			doc, err := Image(t.Context(), ref, Options{Rules: rules})
			if err != nil || doc.Summary.Errors != 1 {
				t.Errorf("%+v, %v", doc, err)
			}
		})
	}
	all.Wait()
}

// judgeBase judges the only image behind a reference.
func judgeBase(t *testing.T, ref string) *JudgedBase {
	t.Helper()
	base, err := patch.OpenBase(t.Context(), ref, patch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := JudgeBase(t.Context(), ref, base.Images[0], Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// A planned change makes the image strictly better. One that breaks the image, and one
// that changes nothing that was found, are refused with the reason.
func TestApply(t *testing.T) {
	ref := push(t, "soname-link-missing.txtar")
	j := judgeBase(t, ref)
	sources, err := provide.Open(t.Context(), nil, provide.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sources.Close()
	plan, err := j.Plan(t.Context(), sources, nil)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := plan.Change()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		change patch.Change
		want   string
	}{
		{planned, ""},
		{patch.Change{Files: []patch.File{{Path: "usr/lib/x86_64-linux-gnu/libc.so.6", Remove: true}}}, ref + ": the patched image is not better than it was: "},
		{patch.Change{Env: []patch.EnvEdit{{Name: "X", Value: "1"}}}, ref + ": the patched image is not better than it was: "},
	} {
		patched, err := j.Apply(t.Context(), tt.change)
		if tt.want == "" {
			if err != nil || patched.Layer == nil {
				t.Fatalf("%+v, %v", patched, err)
			}
			patched.Close()
			continue
		}
		if !errors.As(err, new(*NotBetterError)) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s…", err, tt.want)
		}
	}
}

// Nothing is planned for an image without errors and warnings.
func TestNothingToPlan(t *testing.T) {
	j := judgeBase(t, push(t, "from/cudnn9.txtar"))
	plan, err := j.Plan(t.Context(), new(provide.Sources), nil)
	if plan != nil || err != nil {
		t.Errorf("%+v, %v", plan, err)
	}
}

// Judge returns the result that the document has.
func TestJudge(t *testing.T) {
	ref := push(t, "soname-link-missing.txtar")
	j, err := Judge(t.Context(), ref, Options{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Image(t.Context(), ref, Options{NoPlan: true})
	if err != nil {
		t.Fatal(err)
	}
	if j.Result.Worst() != packs.Error || len(j.Result.Findings) != len(doc.Findings) || report.New(j.about, j.Result).Image.Digest != doc.Image.Digest {
		t.Errorf("%+v", j.Result)
	}
	if _, _, ok := j.Image.FS.Lookup("/app/infer"); !ok {
		t.Error("the files are not there")
	}
}
