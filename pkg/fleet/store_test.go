package fleet

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// TestStore stores the reports of shards, twice that of one, and fetches them.
func TestStore(t *testing.T) {
	server, ctx := imagetest.Serve(t), t.Context()
	ref := server.Host + "/org/reports:run"
	shard := func(i int, image string) *report.Set {
		s := report.NewSet("v1", []report.Scanned{{Ref: image, Error: "is not there"}})
		s.Shard = report.NewShard(i, 3, []string{"a", "b", "c"})
		return s
	}
	for i, s := range []*report.Set{shard(2, "c"), shard(0, "first"), shard(0, "a")} {
		if err := Store(ctx, fmt.Sprintf("%s-%d", ref, s.Shard.Index), s, source.Options{}); err != nil {
			t.Fatal(i, err)
		}
	}
	sets, err := Fetch(ctx, ref, source.Options{})
	if err != nil || len(sets) != 2 || sets[0].Images[0].Ref != "a" || sets[1].Shard.Index != 2 {
		t.Errorf("%+v, %v", sets, err)
	}
	if _, _, err := report.Merge(sets); err == nil || !strings.Contains(err.Error(), "for I = 1") {
		t.Errorf("%v", err)
	}
	if err := Store(ctx, ref+"-1", shard(1, "b"), source.Options{}); err != nil {
		t.Fatal(err)
	}
	sets, err = Fetch(ctx, ref, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	merged, _, err := report.Merge(sets)
	if err != nil || merged.Summary.Images != 3 {
		t.Errorf("%+v, %v", merged, err)
	}
}

// TestFetchForeign: what is no stored report is an error, and not one of no images.
func TestFetchForeign(t *testing.T) {
	server, ctx := imagetest.Serve(t), t.Context()
	img, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Push("org/reports:image-0", img); err != nil {
		t.Fatal(err)
	}
	repo, err := source.ParseReference(server.Host+"/org/reports", false)
	if err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if err := report.SetJSON(&whole, report.NewSet("", []report.Scanned{}), report.Options{}); err != nil {
		t.Fatal(err)
	}
	for tag, content := range map[string][]byte{"plain-0": whole.Bytes(), "empty-0": nil} {
		if err := put(ctx, repo.Context().Tag(tag), content, source.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := Store(ctx, server.Host+"/org/reports:whole-0", report.NewSet("", []report.Scanned{}), source.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"none": "shard 0 has stored no report", "image": "is no stored report", "plain": "gzip", "empty": "EOF", "whole": "is the report of no shard",
	} {
		if _, err := Fetch(ctx, server.Host+"/org/reports:"+name, source.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, ref := range []string{server.Host + "/org/reports", server.Host + "/org/reports@" + zeros, "", "a b"} {
		if CheckStore(ref, false) == nil {
			t.Errorf("%q is taken", ref)
		}
	}
}
