package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// scannedAs returns an image with a report; another digest is another report.
func scannedAs(ref, digest string) Scanned {
	d := New(Image{Ref: ref, Digest: digest, Layers: []Layer{{Index: 1, DiffID: "sha256:base"}}}, &lint.Result{Findings: []lint.Finding{{Rule: "missing-library", Severity: packs.Error, Message: "libx is missing", Cause: "libx"}}})
	return Scanned{Ref: ref, Report: d}
}

func setJSON(t *testing.T, s *Set) string {
	t.Helper()
	var b bytes.Buffer
	if err := SetJSON(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestMerge merges the shards of lists of images, some of which ran several times and ended
// differently, in random orders: the bytes are always those of one order.
func TestMerge(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, shards := 1+r.IntN(20), 1+r.IntN(5)
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("app:%02d", i))
		}
		var sets []*Set
		for i := range shards {
			for range 1 + r.IntN(3) { // each runs up to three times
				var list []Scanned
				for _, ref := range names[i*n/shards : (i+1)*n/shards] {
					switch r.IntN(4) {
					case 0:
						list = append(list, Scanned{Ref: ref, Error: fmt.Sprintf("reason %d", r.IntN(2))})
					case 1:
						list = append(list, scannedAs(ref, "sha256:moved"))
					default:
						list = append(list, scannedAs(ref, "sha256:1"))
					}
				}
				s := NewSet("v1", list)
				s.Shard = NewShard(i, shards, names)
				sets = append(sets, s)
			}
		}
		want, differ, err := Merge(sets)
		if err != nil {
			t.Fatal(err)
		}
		if want.Summary.Images != n || want.Shard != nil || want.Imgcheck != "v1" {
			t.Errorf("%+v", want)
		}
		for range 5 {
			r.Shuffle(len(sets), func(i, j int) { sets[i], sets[j] = sets[j], sets[i] })
			got, differ2, err := Merge(append(slices.Clone(sets), sets[r.IntN(len(sets))]))
			if err != nil || setJSON(t, got) != setJSON(t, want) || !slices.Equal(differ, differ2) {
				t.Fatalf("seed %d: another order, or a set twice, changes the result: %v", seed, err)
			}
		}
	}
}

// A report has precedence over an error, a platform tells images apart, and the versions of
// several releases are no version.
func TestMergeChoices(t *testing.T) {
	gone := Scanned{Ref: "a", Error: "connection refused"}
	arm := scannedAs("a", "sha256:2")
	arm.Platform = "linux/arm64"
	got, differ, err := Merge([]*Set{NewSet("v1", []Scanned{gone, arm}), NewSet("v2", []Scanned{scannedAs("a", "sha256:1")}), NewSet("v1", []Scanned{gone})})
	if err != nil || len(got.Images) != 2 || got.Summary.NotScanned != 0 || got.Imgcheck != "" || len(differ) != 0 || got.Images[1].Platform != "linux/arm64" || len(got.Causes) != 1 {
		t.Errorf("%+v, %v, %v", got, differ, err)
	}
	_, differ, err = Merge([]*Set{NewSet("", []Scanned{scannedAs("a", "sha256:1")}), NewSet("", []Scanned{scannedAs("a", "sha256:2")})})
	if err != nil || !slices.Equal(differ, []string{"a"}) {
		t.Errorf("%v, %v", differ, err)
	}
}

// A shard that is missing or of another list is an error: an image that was not scanned would
// look like one that is not there.
func TestMergeIncomplete(t *testing.T) {
	shard := func(i, n int, names ...string) *Set {
		s := NewSet("", []Scanned{})
		s.Shard = NewShard(i, n, names)
		return s
	}
	for want, sets := range map[string][]*Set{
		"there is no report to merge": nil,
		"the report of 2 of 4 shards is missing: run --shard I/4 again for I = 1, 2": {shard(3, 4, "a"), shard(0, 4, "a"), NewSet("", nil)},
		"shards of different lists":  {shard(0, 2, "a"), shard(1, 2, "b")},
		"shards of different lists:": {shard(0, 2, "a"), shard(1, 3, "a")},
	} {
		if _, _, err := Merge(sets); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, text := range []string{`{"index":2,"of":2,"list":"x"}`, `{"index":-1,"of":2,"list":"x"}`, `{"index":0,"of":1000000000,"list":"x"}`, `{"index":0,"of":1}`} {
		if _, _, err := ReadAny(strings.NewReader(`{"schema":"imgcheck.reports/1","shard":` + text + `,"summary":{},"images":[]}`)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
	set := shard(1, 2, "a")
	_, again, err := ReadAny(strings.NewReader(setJSON(t, set)))
	if err != nil || *again.Shard != *set.Shard {
		t.Errorf("%+v, %v", again, err)
	}
}

// A report of a thousand images has more elements than one of a single image may have.
func TestReadSetLimit(t *testing.T) {
	text := func(schema string, n int) string {
		return `{"schema":"` + schema + `","images":[],"more":[` + strings.Repeat("0,", n) + `0]}`
	}
	if _, set, err := ReadAny(strings.NewReader(text(SetSchema, maxElements+1))); err != nil || set == nil {
		t.Error(err)
	}
	for _, long := range []string{text(Schema, maxElements+1), text(SetSchema, maxSetElements+1)} {
		if _, _, err := ReadAny(strings.NewReader(long)); err == nil || !strings.Contains(err.Error(), "elements") {
			t.Error(err)
		}
	}
	if _, err := Read(strings.NewReader(text(SetSchema, maxElements+1))); err == nil || !strings.Contains(err.Error(), "elements") {
		t.Error(err)
	}
}
