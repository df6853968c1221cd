package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// TestTable: on a terminal of any width, no line of the table is wider than it but for names that
// are, and each image has its verdict and what fails.
func TestTable(t *testing.T) {
	long := "ghcr.io/org/a-service-with-a-rather-long-name/worker:2026.11.27-build-4711"
	sets := map[string]*Set{
		"short": NewSet("v1", []Scanned{scannedAs("app:1", "sha256:1"), {Ref: "gone:1", Error: "there is no such image in this registry, say so"}, {Ref: "ok:1", Report: New(Image{}, &lint.Result{})}}),
		"long":  NewSet("v1", []Scanned{scannedAs("app:1", "sha256:1"), scannedAs(long, "sha256:2"), {Ref: "gone:1", Error: "there is no such image in this registry, say so"}}),
	}
	for name, s := range sets {
		for _, width := range []int{20, 40, 60, 80, 100, 120, 160, 240} {
			var b bytes.Buffer
			if err := SetText(&b, s, Options{Width: width, Quiet: true}); err != nil {
				t.Fatal(err)
			}
			for _, l := range strings.Split(b.String(), "\n") {
				if utf8.RuneCountInString(l) > width && !strings.HasSuffix(l, " "+long) {
					t.Errorf("%s, %d columns: %d in %q", name, width, utf8.RuneCountInString(l), l)
				}
			}
			for _, want := range []string{"app:1", "gone:1", "libx is", "there is no", "not scanned", "✗", "?"} {
				if !strings.Contains(strings.ReplaceAll(b.String(), "\n  ", " "), want) {
					t.Errorf("%s, %d columns: no %q in\n%s", name, width, want, b.String())
				}
			}
		}
	}
	var b bytes.Buffer
	if err := SetText(&b, sets["long"], Options{Width: 80, Quiet: true}); err != nil {
		t.Fatal(err)
	}
	want := "✗ app:1\n  1 error: libx is missing\n✗ " + long + "\n  1 error: libx is missing\n? gone:1\n  not scanned: there is no such image in this registry, say so\n\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestSetAnnotations: GitHub shows ten annotations of a step. Problems that many images have in common
// take one of them, and so do the images that were not scanned, but for two.
func TestSetAnnotations(t *testing.T) {
	var list []Scanned
	for i := range 20 {
		list = append(list, scannedAs(fmt.Sprintf("app:%02d", i), "sha256:1"), Scanned{Ref: fmt.Sprintf("gone:%02d", i), Error: "is gone"})
	}
	own := New(Image{Ref: "other:1"}, &lint.Result{Findings: []lint.Finding{{Rule: "missing-library", Severity: packs.Error, Message: "liby is missing", Cause: "liby"}}})
	list = append(list, Scanned{Ref: "other:1", Report: own})
	var b bytes.Buffer
	if err := SetGitHub(&b, NewSet("v1", list), Options{}); err != nil {
		t.Fatal(err)
	}
	want := `::error title=imgcheck::gone:00 was not scanned: is gone
::error title=imgcheck::gone:01 was not scanned: is gone
::error title=imgcheck::18 more images were not scanned
::error title=imgcheck missing-library::libx is missing.%0A20 images: app:00, app:01, app:02 and 17 more
::error title=imgcheck missing-library::liby is missing.%0AImage: other:1
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestOtherPlatform: the command that shows more takes the image that was scanned.
func TestOtherPlatform(t *testing.T) {
	for platform, want := range map[string]string{"linux/amd64": "imgcheck why app:1\n", "linux/arm64": "imgcheck why app:1 --platform linux/arm64\n", "": "imgcheck why app:1\n"} {
		d := scannedAs("app:1", "sha256:1").Report
		d.Image.Platform = platform
		var b bytes.Buffer
		if err := Text(&b, d, Options{}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", platform, want, b.String())
		}
	}
}

// TestGPUsSay: code that only perhaps runs, or some of which does not, is not said to run.
func TestGPUsSay(t *testing.T) {
	for want, verdicts := range map[string][]string{
		"GPUs: its code is for all generations that imgcheck knows":                                        {"runs", "compiles"},
		"GPUs: its code is only partly or perhaps for 2 of 3 generations":                                  {"runs", "partly", "unsure"},
		"GPUs: it fails on 1 of 2 generations":                                                             {"fails", "runs"},
		"GPUs: it fails on 1 of 3 generations, and its code is only partly or perhaps for 1 of the others": {"fails", "runs", "partly"},
	} {
		d := New(Image{}, &lint.Result{})
		for _, v := range verdicts {
			d.GPUs = append(d.GPUs, &targets.Row{Arch: "9.0", Verdict: v})
		}
		var v pageImage
		if v.overview(d); v.GPUsSay != want {
			t.Errorf("%v: %q, want %q", verdicts, v.GPUsSay, want)
		}
	}
}

// TestPageCode checks that a page shows words between backticks as code, and gives a whole command a
// button that copies it.
func TestPageCode(t *testing.T) {
	d := New(Image{Ref: "app:1"}, &lint.Result{Findings: []lint.Finding{
		{Rule: "a", Severity: packs.Error, Message: "`import <x>` fails `", Cause: "a", Fixes: []string{"ENV A=b"}},
		{Rule: "b", Severity: packs.Error, Message: "b", Cause: "b", Fixes: []string{"install `libx` of another release"}},
	}})
	var b bytes.Buffer
	if err := HTML(&b, d, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<code>import &lt;x&gt;</code> fails `", "<pre>ENV A=b</pre>", "<strong>What helps:</strong> install <code>libx</code> of another release</p>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}
