package scan_test

import (
	"context"
	"fmt"
	"log"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/testdata/images"
)

func ExampleImage() {
	ref, done := serve("soname-link-missing.txtar")
	defer done()

	doc, err := scan.Image(context.Background(), ref, scan.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range doc.Findings {
		if f.Severity.AtLeast(packs.Warning) {
			fmt.Printf("%s: %s\nfix: %s\n", f.Severity, f.Message, f.Fixes[0])
		}
	}
	// Output:
	// error: libcudnn.so.9: cannot open shared object file: No such file or directory
	// fix: RUN ln -s libcudnn.so.9.1.0 /usr/local/cuda/lib64/libcudnn.so.9
}

func ExampleJudgeBase() {
	ctx := context.Background()
	ref, done := serve("soname-link-missing.txtar")
	defer done()

	base, err := patch.OpenBase(ctx, ref, patch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sources, err := provide.Open(ctx, nil, provide.Options{}) // this image has what it misses
	if err != nil {
		log.Fatal(err)
	}
	defer sources.Close()
	j, err := scan.JudgeBase(ctx, ref, base.Images[0], scan.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	plan, err := j.Plan(ctx, sources, nil)
	if err != nil || plan == nil || !plan.Better() {
		log.Fatal("nothing to fix: ", err)
	}
	change, err := plan.Change()
	if err != nil {
		log.Fatal(err)
	}
	patched, err := j.Apply(ctx, change)
	if err != nil {
		log.Fatal(err)
	}
	defer patched.Close()
	if _, err := patch.Publish(ctx, base, []*patch.Patched{patched}, ref+"-fixed", patch.Options{}); err != nil {
		log.Fatal(err)
	}

	doc, err := scan.Image(ctx, ref+"-fixed", scan.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", doc.Summary)
	// Output: {Errors:0 Warnings:0 Notes:0}
}

// serve puts a text image into a registry of this process.
func serve(name string) (ref string, done func()) {
	text, err := images.Text(name)
	if err != nil {
		log.Fatal(err)
	}
	parsed, err := imagetest.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	img, err := parsed.V1()
	if err != nil {
		log.Fatal(err)
	}
	registry, err := imagetest.Registry()
	if err != nil {
		log.Fatal(err)
	}
	if ref, err = registry.Push("app:1", img); err != nil {
		log.Fatal(err)
	}
	return ref, func() { registry.Close() }
}
