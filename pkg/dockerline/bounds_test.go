package dockerline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// TestManyPlaces checks that a provenance with too many places is refused, and that those of a step
// count once.
func TestManyPlaces(t *testing.T) {
	for n, want := range map[int]bool{maxLocated - 1: true, maxLocated: false} {
		raw := fmt.Sprintf(`{"predicateType": "https://slsa.dev/provenance/v1", "predicate": {"runDetails": {"metadata": {"buildkit_metadata": {
			"source": {
				"infos": [{"filename": "Dockerfile", "data": "RlJPTSBhClJVTiB4Cg=="}],
				"locations": {"a": {"locations": [%s]}, "b": {"locations": [{"ranges": [{"start": {"line": 2}, "end": {"line": 2}}]}]}}
			},
			"layers": {"a:0": [[{"digest": "sha256:0"}]], "b:0": [[{"digest": "sha256:1"}]]}
		}}}}}`, strings.TrimSuffix(strings.Repeat(`{"sourceIndex": -1},`, n), ","))
		p, err := FromProvenance([]byte(raw), []source.Layer{{Digest: "sha256:1"}})
		if !want {
			if err == nil || !strings.Contains(err.Error(), "more than 10000 places") {
				t.Errorf("%d places before that of the layer: error %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.places("a"); p.Lines[0] == nil || len(p.places("b")) != 1 {
			t.Errorf("%d places before that of the layer: lines %v", n, p.Lines)
		}
	}
}

// TestLongLine checks that the column behind a line is found once.
func TestLongLine(t *testing.T) {
	x := newText("Dockerfile", []byte("FROM a\nRUN \U0001F600\n"))
	if l := x.at(2, 2); l == nil || l.EndColumn != 7 || x.columns[2] != 7 {
		t.Errorf("%+v, %v", l, x.columns)
	}
	x.columns[2] = 5
	if l := x.at(1, 2); l == nil || l.EndColumn != 5 {
		t.Errorf("%+v", l)
	}
}
