package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

// rescan scans an unchanged image again. The reports must be the same in every format,
// and the registry be asked for the manifest and the config only.
func rescan(t *testing.T, server *imagetest.Server, ref string, o scan.Options, first *report.Document) {
	t.Helper()
	before := server.Requests()
	again, err := scan.Image(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rendered(t, first), rendered(t, again)); diff != "" {
		t.Errorf("a rescan gives another report: -first +again:\n%s", diff)
	}
	config := "/blobs/" + configDigest(t, ref)
	after := server.Requests()
	maps.DeleteFunc(after, func(request string, n int) bool { return before[request] == n })
	for request := range after {
		if request != "GET /v2/" && !strings.Contains(request, "/manifests/") && !strings.HasSuffix(request, config) {
			t.Errorf("the second scan asks %s", request)
		}
	}
	if len(after) == 0 {
		t.Error("the second scan asks nothing")
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

// rendered returns a document in every format.
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
