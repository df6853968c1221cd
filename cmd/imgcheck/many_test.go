package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestForty scans forty images, two of which are not there, at once: each blob is fetched once,
// each image has the findings that it has alone, and the order of the scans changes no byte.
func TestForty(t *testing.T) {
	server := imagetest.Serve(t)
	var refs []string
	texts := map[string]string{} // by reference
	for i := range 38 {
		name := []string{"ort-no-cudnn", "torch-healthy", "soname-link-missing", "jax-no-cudnn"}[i%4]
		data, err := images.Text(name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		// the lower layers are those of all images of this text
		data = append(data, fmt.Sprintf("-- 9/srv/app%d --\ntext\napp %d\n", i, i)...)
		ref, err := server.Push(fmt.Sprintf("team/app%d:1", i), imagetest.V1(t, string(data)))
		if err != nil {
			t.Fatal(err)
		}
		refs, texts[ref] = append(refs, ref), name
	}
	refs = slices.Insert(refs, 7, server.Host+"/team/gone:1", "127.0.0.1:1/team/unreachable:1")
	before := server.Requests()
	scan := func(more ...string) ([]byte, string) {
		var out, errs bytes.Buffer
		args := slices.Concat([]string{"imgcheck", "scan", "--no-cache", "--no-fixes", "--config", "none", "-f", "json"}, more, refs)
		if status := run(t.Context(), args, &out, &errs); status != exitFailed {
			t.Fatalf("status %d: %s", status, errs.String())
		}
		return out.Bytes(), errs.String()
	}
	first, errs := scan("-j", "8")
	if want := "imgcheck: 2 of 40 images could not be scanned\n"; !strings.HasSuffix(errs, want) {
		t.Errorf("%s, want %s", errs, want)
	}
	for request, n := range server.Requests() {
		if strings.HasPrefix(request, "GET ") && strings.Contains(request, "/blobs/") && n-before[request] > 1 {
			t.Errorf("%s: %d times", request, n-before[request])
		}
	}
	blobs := map[string]int{}
	for request, n := range server.Requests() {
		if _, digest, ok := strings.Cut(request, "/blobs/"); ok && strings.HasPrefix(request, "GET ") {
			blobs[digest] += n - before[request]
		}
	}
	_, set, err := report.ReadAny(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Images) != 40 || set.Summary.NotScanned != 2 {
		t.Fatalf("%+v", set.Summary)
	}
	for i, im := range set.Images {
		if im.Ref != refs[i] {
			t.Errorf("image %d is %s, want %s", i, im.Ref, refs[i])
		}
		if im.Report == nil {
			continue
		}
		for _, l := range im.Report.Image.Layers {
			if blobs[l.Digest] != 1 {
				t.Errorf("layer %d of %s was fetched %d times", l.Index, im.Ref, blobs[l.Digest])
			}
		}
		alone := scanOf(t, texts[im.Ref]+".txtar", false)
		got, want := fingerprintsOf(im.Report), fingerprintsOf(alone)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, alone %v", im.Ref, got, want)
		}
	}
	if again, _ := scan("-j", "1"); !bytes.Equal(first, again) {
		t.Error("one job gives another report than eight")
	}
	var causes []string
	for _, c := range set.Causes {
		text := fmt.Sprintf("%s in %d", c.Rule, len(c.Images))
		for _, b := range c.Bases {
			text += fmt.Sprintf(", %d from layer %d", len(b.Images), b.Layer)
		}
		causes = append(causes, text)
	}
	want := []string{"missing-library in 19, 10 from layer 3, 9 from layer 2", "missing-link in 9, 9 from layer 2"}
	if !slices.Equal(causes, want) {
		t.Errorf("causes %q, want %q", causes, want)
	}
}

// TestManyImages: a list that is too long is refused before an image is read.
func TestManyImages(t *testing.T) {
	for want, list := range map[string]string{
		"scan takes at most 1000 images at once, not 1001": manyLines(maxImages + 1),
		"-: is larger than 1024 KiB":                       strings.Repeat("#\n", maxImageList),
		"-: has a line longer than 64 KiB":                 strings.Repeat("#", 1<<17),
		`x": write one image in a line`:                    strings.Repeat("x", 1<<10) + " y",
	} {
		var out, errs bytes.Buffer
		app := newApp(&out, &errs)
		app.Reader = strings.NewReader(list)
		if err := app.RunContext(t.Context(), []string{"imgcheck", "scan", "--config", "none", "-i", "-"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "127.0.0.1:1/app%d\n", i)
	}
	return b.String()
}

func fingerprintsOf(d *report.Document) []string {
	var list []string
	for i := range d.Findings {
		list = append(list, report.Fingerprint(&d.Findings[i])+string(d.Findings[i].Severity))
	}
	slices.Sort(list)
	return list
}
