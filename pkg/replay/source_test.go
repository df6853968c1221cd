package replay

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestPlansAndSources compares what the packs' plan of a framework and its own source map,
// for each framework of the test images whose source is there. testdata/plans.txt lists the
// frameworks that are imported by their source, and below each the files that only one of
// the two maps, with the reason.
func TestPlansAndSources(t *testing.T) {
	b, err := os.ReadFile("testdata/plans.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(b)) {
		line, reason, _ := strings.Cut(strings.TrimSpace(line), " # ")
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		if strings.HasPrefix(line, "only") && reason == "" {
			t.Errorf("it gives no reason: %s", line)
		}
		want = append(want, line)
	}
	var got []string
	for _, pattern := range []string{"*.txtar", "fresh/*.txtar", "stacks/*.txtar"} {
		names, err := fs.Glob(images.FS, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := images.Text(name)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, plansAndSources(t, strings.TrimSuffix(name, ".txtar"), text)...)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("testdata/plans.txt is not what the images show (-file +images):\n%s", diff)
	}
}

// plansAndSources returns the lines of testdata/plans.txt for one image.
func plansAndSources(t *testing.T, name string, text []byte) []string {
	t.Helper()
	re := newTest(t, imageOf(t, text), embedded(t))
	if err := re.findSources(t.Context()); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, in := range re.ev.Installs {
		if in.source == nil {
			continue
		}
		list = append(list, fmt.Sprintf("%s %s", name, in.Home))
		re.load(in)
		bySource := mapsIn(re, in)
		in.source = nil
		re.load(in)
		byPlan := mapsIn(re, in)
		for _, file := range byPlan {
			if !slices.Contains(bySource, file) {
				list = append(list, "only the plan: "+file)
			}
		}
		for _, file := range bySource {
			if !slices.Contains(byPlan, file) {
				list = append(list, "only the source: "+file)
			}
		}
	}
	return list
}

// mapsIn returns the files of a framework and the GPU libraries that its import maps, in
// order.
func mapsIn(re *replayer, in *Install) []string {
	p, _ := re.hosts.process(in)
	if p == nil {
		return nil
	}
	re.runSteps(p, in)
	return slices.DeleteFunc(mappedBy(p), func(file string) bool {
		return !IsIn(file, in.Home) && re.packs.Family(file) == nil
	})
}

// mappedBy returns the real paths of the files that a process has mapped.
func mappedBy(p *elfdeps.Process) []string {
	h := &pythonHost{proc: p}
	return h.mapped()
}

// imageOf returns the image of a text, with the contents that a scan keeps.
func imageOf(t *testing.T, text []byte) *Image {
	t.Helper()
	m, err := imagetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var read []*layers.Layer
	for i := range m.Layers {
		r, w := io.Pipe()
		go func() { w.CloseWithError(m.LayerTar(i, w)) }()
		l, err := layers.ReadLayer(r, func(string, int64) bool { return true })
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, l)
	}
	return &Image{FS: layers.Merge(read...), Config: &v1.ConfigFile{Architecture: m.Platform.Architecture, OS: "linux", Config: m.Config}}
}
