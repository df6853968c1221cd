package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// A rescan of an unchanged image gives the same reports in every format, and
// asks the registry for the manifest and the config only.
func TestRescan(t *testing.T) {
	server := imagetest.Serve(t)
	cache, err := layers.OpenCache(t.TempDir(), layers.DefaultCacheMax)
	if err != nil {
		t.Fatal(err)
	}
	names := texts(t)
	for i, file := range names {
		if i%16 != 0 {
			continue // TestImages looks at the documents of all
		}
		_, _, ref := pushText(t, server, file)
		first, err := scan(t.Context(), ref, layers.Options{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		before := server.Requests()
		again, err := scan(t.Context(), ref, layers.Options{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rendered(t, first), rendered(t, again)); diff != "" {
			t.Errorf("%s: -first +again:\n%s", file, diff)
		}
		config := "/blobs/" + configDigest(t, ref)
		after := server.Requests()
		maps.DeleteFunc(after, func(request string, n int) bool { return before[request] == n })
		for request := range after {
			if request != "GET /v2/" && !strings.Contains(request, "/manifests/") && !strings.HasSuffix(request, config) {
				t.Errorf("%s: the second scan asks %s", file, request)
			}
		}
		if len(after) == 0 {
			t.Errorf("%s: the second scan asks nothing", file)
		}
	}
}

// keptIsTheSame holds a document against what a rescan would get of it.
func keptIsTheSame(t *testing.T, doc *report.Document) {
	t.Helper()
	b, err := encodeDocument(doc)
	if err != nil {
		t.Fatal(err)
	}
	kept := decodeDocument(b)
	if kept == nil || len(kept.Rules) == 0 {
		t.Fatalf("kept: %+v", kept)
	}
	if diff := cmp.Diff(rendered(t, doc), rendered(t, kept)); diff != "" {
		t.Errorf("a rescan gives another report: -first +again:\n%s", diff)
	}
}

func configDigest(t *testing.T, s string) string {
	t.Helper()
	ref, err := name.ParseReference(s)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	h, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// rendered is a document in every format.
func rendered(t *testing.T, doc *report.Document) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, format := range report.Formats {
		for _, all := range []bool{false, true} {
			var b bytes.Buffer
			if err := format(&b, doc, report.Options{All: all}); err != nil {
				t.Fatal(err)
			}
			out[name] += b.String()
		}
	}
	return out
}

// A document is of one image, one set of packs and one set of options.
func TestVerdictKey(t *testing.T) {
	server := imagetest.Serve(t)
	cache, err := layers.OpenCache(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	_, _, ref := pushText(t, server, demoImage)
	o := layers.Options{Cache: cache}
	img, err := layers.Open(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	packs := fstest.MapFS{"a.yaml": {Data: []byte("a")}}
	key := func(o layers.Options, packs fs.FS, others ...string) string {
		t.Helper()
		v, err := verdictOf(img, o, []fs.FS{packs}, others...)
		if err != nil {
			t.Fatal(err)
		}
		return v.key
	}
	same := key(o, packs)
	if same == "" || same != key(o, packs) {
		t.Errorf("the key is %q, and then %q", same, key(o, packs))
	}
	kept := o
	kept.KeepID = "x"
	for what, other := range map[string]string{
		"other packs":         key(o, fstest.MapFS{"a.yaml": {Data: []byte("b")}}),
		"one pack more":       key(o, fstest.MapFS{"a.yaml": {Data: []byte("a")}, "b.yaml": {}}),
		"packs of other name": key(o, fstest.MapFS{"b.yaml": {Data: []byte("a")}}),
		"other files kept":    key(kept, packs),
		"another option":      key(o, packs, "policy"),
	} {
		if other == same {
			t.Errorf("%s: the same key", what)
		}
	}
	if got := key(layers.Options{}, packs); got != "" {
		t.Errorf("without a cache there is a key %q", got)
	}
}

func TestRecordedBuild(t *testing.T) {
	for want, settings := range map[string][]debug.BuildSetting{
		"":                      {{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
		"x abc go1 linux/arm64": {{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}, {Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}},
	} {
		if got := recorded(&debug.BuildInfo{Path: "x", GoVersion: "go1", Settings: settings}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := recorded(nil); got != "" {
		t.Errorf("got %q of nothing", got)
	}
	if id, err := build(); id == "" || err != nil {
		t.Errorf("this program has no identity: %v", err)
	}
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if id := linked(name); !strings.HasPrefix(id, "linked ") || len(id) < 40 {
		t.Errorf("this program has the build ID %q", id)
	}
	if id := linked("verdict_test.go"); id != "" {
		t.Errorf("a text has the build ID %q", id)
	}
}
